//! Functions, in their own form and in the generic one.

use super::Reader;
use crate::Result;
use crate::stablehlo::ir::{Attribute, Dictionary, Function, LocationId, Type};

/// An argument: where it stands, its name (empty in a declaration), type and location.
type Argument<'a> = (usize, &'a str, Type, Option<LocationId>);

impl<'a> Reader<'a> {
    /// `func.func private @name(%a: T {...}) -> (T {...}) attributes {...} {...}`
    pub(super) fn function(&mut self) -> Result<Function> {
        let start = self.c.start();
        let at = self.c.locate(start);
        self.c.word();
        let visibility = self.c.word();
        let name = self.c.symbol()?;
        let mut function = Function { name, ..Function::default() };
        function.at = at;
        function.is_private = matches!(visibility, Some("private" | "nested"));
        let mut arguments: Vec<Argument<'a>> = Vec::new();
        self.c.expect("(")?;
        if !self.c.eat(")") {
            loop {
                let at = self.c.start();
                let name = if self.c.peek() == Some(b'%') {
                    let name = self.c.name("%", "an argument")?;
                    self.c.expect(":")?;
                    name
                } else {
                    ""
                };
                let ty = self.ty()?;
                let mut attributes = Dictionary::new();
                self.optional_dictionary(&mut attributes)?;
                let location = self.optional_location()?;
                function.arguments.push(ty.clone());
                function.argument_attributes.push(attributes);
                arguments.push((at, name, ty, location));
                if !self.c.eat(",") {
                    self.c.expect(")")?;
                    break;
                }
            }
        }
        if self.c.eat("->") {
            if self.c.eat("(") {
                if !self.c.eat(")") {
                    loop {
                        function.results.push(self.ty()?);
                        let mut attributes = Dictionary::new();
                        self.optional_dictionary(&mut attributes)?;
                        function.result_attributes.push(attributes);
                        if !self.c.eat(",") {
                            self.c.expect(")")?;
                            break;
                        }
                    }
                }
            } else {
                function.results.push(self.ty()?);
                function.result_attributes.push(Dictionary::new());
            }
        }
        if self.c.eat_word("attributes") {
            self.dictionary(&mut function.attributes)?;
        }
        if self.c.peek() == Some(b'{') && !self.c.at("{-#") {
            let locations: Vec<_> = arguments.iter().map(|a| a.3).collect();
            let named = arguments.into_iter().map(|(at, name, ty, _)| (at, name, ty)).collect();
            let region = self.region(Some(named))?;
            for (&value, location) in region.arguments.iter().zip(locations) {
                self.values[value].location = location;
            }
            function.body = Some(region);
        }
        function.values = self.take_values();
        function.location = self.optional_location()?;
        Ok(function)
    }

    /// `"func.func"() <{function_type = ..., sym_name = "name"}> ({...}) : () -> ()`
    pub(super) fn generic_function(&mut self) -> Result<Function> {
        let start = self.c.start();
        let at = self.c.locate(start);
        let (mut operation, _) = self.generic()?;
        let end = self.c.pos();
        let missing = |what: &str| format!("expected func.func to say its {what}");
        let name = operation.attribute("sym_name").and_then(Attribute::to_str).map(str::to_owned);
        let name = name.ok_or_else(|| self.c.error_span(start, start + 1, missing("sym_name")))?;
        let mut function = Function { name, ..Function::default() };
        function.at = at;
        match operation.attribute("function_type") {
            Some(Attribute::Type(Type::Function(arguments, results))) => {
                function.arguments.clone_from(arguments);
                function.results.clone_from(results);
            }
            _ => return Err(self.c.error_span(start, start + 1, missing("function_type"))),
        }
        function.is_private = operation
            .attribute("sym_visibility")
            .and_then(Attribute::to_str)
            .is_some_and(|v| matches!(v, "private" | "nested"));
        let dictionaries = |attribute: Option<&Attribute>, count: usize| -> Vec<Dictionary> {
            let list = match attribute {
                Some(Attribute::Array(list)) => list.as_slice(),
                _ => &[],
            };
            let one = |k: usize| match list.get(k) {
                Some(Attribute::Dictionary(d)) => d.clone(),
                _ => Dictionary::new(),
            };
            (0..count).map(one).collect()
        };
        function.argument_attributes = dictionaries(operation.attribute("arg_attrs"), function.arguments.len());
        function.result_attributes = dictionaries(operation.attribute("res_attrs"), function.results.len());
        for (name, value) in operation.attributes.iter() {
            if !matches!(name, "sym_name" | "function_type" | "sym_visibility" | "arg_attrs" | "res_attrs") {
                function.attributes.set(name, value.clone());
            }
        }
        if let Some(region) = operation.regions.pop()
            && !region.body.is_empty()
        {
            self.check_types((start, end.min(start + 1)), &region.arguments, &function.arguments)?;
            function.body = Some(region);
        }
        function.values = self.take_values();
        function.location = self.optional_location()?;
        Ok(function)
    }
}
