//! The reader of StableHLO text.
//!
//! Problem: the text is MLIR's, in which every operation may stand in the generic form or in a form of its own, aliases and
//! resources stand before or after their use, and a constant may be most of the file. Invariant: [`parse`] takes time linear
//! in the text, never panics, and makes a [`Program`] in the generic form; what it accepts defines every value before its
//! use, once. Algorithm: a scannerless recursive descent; resources, which stand at the end, are found first. The elements of
//! a constant go straight into bytes ([`dense`]). An operation's own form ([`pretty`]) is one grammar for most of them:
//! operands and `name = value` with commas between them, attributes, and types, from which a table makes the generic form.
//!
//! What is checked here: syntax, names of values, that types that the text repeats agree, and numbers that their type
//! cannot hold. Whether an operation exists and keeps its rules is decided by the conversion.

mod attributes;
mod cursor;
mod dense;
mod functions;
mod locations;
mod pretty;
mod types;

use crate::error::Result;
use crate::stablehlo::ir::{
    Attribute, Dictionary, Location, LocationId, Operation, Program, Region, Type, Value, ValueData,
};
use cranelift_entity::PrimaryMap;
use cursor::Cursor;
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

pub(in crate::stablehlo) use dense::storage_type;

/// Reads a program.
///
/// # Errors
/// `Syntax` with the place, and `Unsupported` for forms of MLIR that StableHLO programs do not have.
pub fn parse(source: &str) -> Result<Program> {
    let mut reader = Reader::new(source)?;
    reader.resources()?;
    reader.program()
}

/// Reads a dictionary of attributes alone, `{k = 1 : i64}`.
///
/// # Errors
/// `Syntax` for what is none.
pub(in crate::stablehlo) fn dictionary(source: &str) -> Result<Dictionary> {
    let mut reader = Reader::new(source)?;
    let mut out = Dictionary::new();
    reader.dictionary(&mut out)?;
    match reader.c.peek() {
        None => Ok(out),
        Some(_) => Err(reader.c.expected("the end")),
    }
}

/// Results of the operation that is being read: first value and how many, for each name.
type Group<'a> = (&'a str, usize);

struct Reader<'a> {
    c: Cursor<'a>,
    type_aliases: HashMap<&'a str, Type>,
    attribute_aliases: HashMap<&'a str, Attribute>,
    /// Where the values of attribute aliases stand.
    raw_aliases: HashMap<&'a str, usize>,
    /// Locations by alias; with the place of the first use, where the definition is still to come.
    location_aliases: HashMap<&'a str, (LocationId, Option<usize>)>,
    locations: PrimaryMap<LocationId, Location>,
    interned: HashSet<Arc<str>>,
    /// Hexadecimal text of the resources.
    resources: HashMap<&'a str, &'a str>,
    /// Values of the function that is being read.
    values: PrimaryMap<Value, ValueData>,
    /// What a name stands for: its first value, and how many.
    names: HashMap<&'a str, (Value, usize)>,
    /// Names in the order of definition, so that a region can take its own back.
    defined: Vec<&'a str>,
}

impl<'a> Reader<'a> {
    fn new(source: &'a str) -> Result<Reader<'a>> {
        Ok(Reader {
            c: Cursor::new(source)?,
            type_aliases: HashMap::new(),
            attribute_aliases: HashMap::new(),
            raw_aliases: HashMap::new(),
            location_aliases: HashMap::new(),
            locations: PrimaryMap::new(),
            interned: HashSet::new(),
            resources: HashMap::new(),
            values: PrimaryMap::new(),
            names: HashMap::new(),
            defined: Vec::new(),
        })
    }

    /// `{-# dialect_resources: { builtin: { name: "0x..." } } #-}` at the end of the text.
    fn resources(&mut self) -> Result<()> {
        let Some(at) = self.c.source().rfind("{-#") else { return Ok(()) };
        // Inside a string or a comment it is none: then it does not begin a line.
        let line = self.c.source().get(..at).and_then(|t| t.rsplit('\n').next()).unwrap_or_default();
        if !line.trim().is_empty() {
            return Ok(());
        }
        self.c.rewind(at);
        self.metadata()?;
        self.c.rewind(0);
        Ok(())
    }

    /// The dictionary of the file's metadata.
    fn metadata(&mut self) -> Result<()> {
        self.c.expect("{-#")?;
        while !self.c.eat("#-}") {
            let Some(section) = self.c.word() else { return Err(self.c.expected("a section of the file's metadata")) };
            self.c.expect(":")?;
            self.c.expect("{")?;
            while !self.c.eat("}") {
                if self.c.word().is_none() {
                    return Err(self.c.expected("the name of a dialect"));
                }
                self.c.expect(":")?;
                self.c.expect("{")?;
                while !self.c.eat("}") {
                    let name = match self.c.peek() {
                        Some(b'"') => self.c.quoted("the name of a resource")?,
                        _ => match self.c.run(|b| b != b':' && !b.is_ascii_whitespace() && b.is_ascii()) {
                            "" => return Err(self.c.expected("the name of a resource")),
                            name => name,
                        },
                    };
                    self.c.expect(":")?;
                    match self.c.peek() {
                        Some(b'"') => {
                            let text = self.c.quoted("the value of a resource")?;
                            if section == "dialect_resources" {
                                self.resources.insert(name, text);
                            }
                        }
                        _ => {
                            self.attribute()?;
                        }
                    }
                    self.c.eat(",");
                }
                self.c.eat(",");
            }
            self.c.eat(",");
        }
        Ok(())
    }

    /// The whole text: aliases, and a module or its contents.
    fn program(&mut self) -> Result<Program> {
        let mut program = Program::default();
        let mut modules = 0;
        while let Some(b) = self.c.peek() {
            match b {
                b'#' => self.attribute_alias()?,
                b'!' => self.type_alias()?,
                b'{' if self.c.at("{-#") => self.metadata()?,
                _ => {
                    let start = self.c.start();
                    let is_module = self.at_module();
                    if is_module && (modules > 0 || !program.functions.is_empty()) {
                        self.c.word();
                        return Err(self.c.unsupported(start, "several modules in one text"));
                    }
                    if is_module {
                        modules += 1;
                        self.module(&mut program)?;
                    } else {
                        self.module_item(&mut program)?;
                    }
                }
            }
        }
        if let Some((name, at)) = self.location_aliases.iter().filter_map(|(n, (_, at))| at.map(|at| (n, at))).min() {
            let message = format!("the location '#{name}' is not defined");
            return Err(self.c.error_span(at, at + name.len() + 1, message));
        }
        program.locations = std::mem::take(&mut self.locations);
        Ok(program)
    }

    fn at_module(&mut self) -> bool {
        matches!(self.c.peek_word(), Some("module" | "builtin.module")) || self.c.at("\"builtin.module\"")
    }

    fn attribute_alias(&mut self) -> Result<()> {
        let start = self.c.start();
        let name = self.c.name("#", "an alias")?;
        self.c.expect("=")?;
        let is_location = self.c.peek_word() == Some("loc");
        let at = self.c.start();
        if is_location {
            return self.location_alias(name);
        }
        let value = self.attribute()?;
        self.raw_aliases.insert(name, at);
        if self.attribute_aliases.insert(name, value).is_some() {
            return Err(self.c.error(start, format!("the alias '#{name}' is defined twice")));
        }
        Ok(())
    }

    fn type_alias(&mut self) -> Result<()> {
        let start = self.c.start();
        let name = self.c.name("!", "an alias")?;
        self.c.expect("=")?;
        let ty = self.ty()?;
        if self.type_aliases.insert(name, ty).is_some() {
            return Err(self.c.error(start, format!("the alias '!{name}' is defined twice")));
        }
        Ok(())
    }

    /// `module @name attributes {...} {...}`, or the generic form.
    fn module(&mut self, program: &mut Program) -> Result<()> {
        if self.c.peek() == Some(b'"') {
            self.c.quoted("the name of an operation")?;
            self.c.expect("(")?;
            self.c.expect(")")?;
            if self.c.eat("<") {
                self.dictionary(&mut program.attributes)?;
                self.c.expect(">")?;
            }
            self.c.expect("(")?;
            self.c.expect("{")?;
            if self.c.peek() == Some(b'^') {
                self.c.name("^", "a block")?;
                self.c.expect(":")?;
            }
            self.module_body(program)?;
            self.c.expect(")")?;
            self.optional_dictionary(&mut program.attributes)?;
            self.c.expect(":")?;
            self.function_type()?;
            program.name = program.attributes.get("sym_name").and_then(Attribute::to_str).map(str::to_owned);
        } else {
            self.c.word();
            if self.c.peek() == Some(b'@') {
                program.name = Some(self.c.symbol()?);
            }
            if self.c.eat_word("attributes") {
                self.dictionary(&mut program.attributes)?;
            }
            self.c.expect("{")?;
            self.module_body(program)?;
        }
        self.optional_location()?;
        Ok(())
    }

    /// Operations up to the closing brace.
    fn module_body(&mut self, program: &mut Program) -> Result<()> {
        while !self.c.eat("}") {
            if self.at_module() {
                let start = self.c.start();
                self.c.word();
                return Err(self.c.unsupported(start, "a module inside a module"));
            }
            self.module_item(program)?;
        }
        Ok(())
    }

    /// A function, or another operation of a module's body.
    fn module_item(&mut self, program: &mut Program) -> Result<()> {
        self.values = PrimaryMap::new();
        self.names.clear();
        self.defined.clear();
        let start = self.c.start();
        let function = match self.c.peek_word() {
            Some("func.func" | "func") => self.function()?,
            _ if self.c.at("\"func.func\"") => self.generic_function()?,
            Some("sdy.mesh") => {
                let at = self.c.locate(start);
                self.c.word();
                let mut attributes = Dictionary::new();
                attributes.set("sym_name", Attribute::string(&self.c.symbol()?));
                self.c.expect("=")?;
                let text = self.c.start();
                self.c.expect("<")?;
                self.c.balanced()?;
                self.c.expect(">")?;
                attributes.set("mesh", Attribute::Other(self.c.since(text).into()));
                let location = self.optional_location()?;
                program.others.push(Operation {
                    name: "sdy.mesh".into(),
                    operands: Vec::new(),
                    results: Vec::new(),
                    attributes,
                    regions: Vec::new(),
                    at,
                    location,
                });
                return Ok(());
            }
            _ if self.c.peek() == Some(b'"') => {
                let operation = self.operation()?;
                program.others.push(operation);
                return Ok(());
            }
            _ => return Err(self.c.expected("'module', 'func.func' or an operation in generic form")),
        };
        if program.functions.iter().any(|f| f.name == function.name) {
            let message = format!("the function '@{}' is defined twice", function.name);
            return Err(self.c.error_span(start, start + 1, message));
        }
        program.functions.push(function);
        Ok(())
    }

    /// Takes the values that the reader has collected.
    fn take_values(&mut self) -> PrimaryMap<Value, ValueData> {
        std::mem::take(&mut self.values)
    }

    /// Makes values of the given types that share a name.
    fn define(&mut self, at: usize, name: &'a str, types: Vec<Type>) -> Result<Vec<Value>> {
        let mut values = Vec::with_capacity(types.len());
        let count = types.len();
        for ty in types {
            values.push(self.values.push(ValueData { ty, name: name.into(), location: None }));
        }
        if let (Some(&first), false) = (values.first(), name.is_empty()) {
            if self.names.insert(name, (first, count)).is_some() {
                let message = format!("the value '%{name}' is defined twice");
                return Err(self.c.error_span(at, at + name.len() + 1, message));
            }
            self.defined.push(name);
        }
        Ok(values)
    }

    /// `%name` or `%name#1`: a value that is defined before.
    fn operand(&mut self) -> Result<Value> {
        let start = self.c.start();
        let name = self.c.name("%", "a value")?;
        let index = if self.c.rest().first() == Some(&b'#') {
            self.c.eat("#");
            let index = self.c.int("the number of a result")?;
            usize::try_from(index).unwrap_or(usize::MAX)
        } else {
            0
        };
        let Some(&(first, count)) = self.names.get(name) else {
            return Err(self.c.error(start, format!("the value '%{name}' is not defined before its use")));
        };
        if index >= count {
            return Err(self.c.error(start, format!("'%{name}' has {count} results, found number {index}")));
        }
        let number = first.as_u32() as usize + index;
        Ok(Value::from_u32(number as u32))
    }

    /// `{ ^bb0(%a: T): ... }`; with `arguments` where the operation's own form names them.
    fn region(&mut self, arguments: Option<Vec<(usize, &'a str, Type)>>) -> Result<Region> {
        self.c.enter("regions")?;
        let outer = self.defined.len();
        self.c.expect("{")?;
        let mut region = Region::default();
        for (at, name, ty) in arguments.into_iter().flatten() {
            region.arguments.extend(self.define(at, name, vec![ty])?);
        }
        if self.c.peek() == Some(b'^') {
            self.c.name("^", "a block")?;
            if self.c.peek() == Some(b'(') {
                self.c.expect("(")?;
                loop {
                    let at = self.c.start();
                    let name = self.c.name("%", "an argument of the block")?;
                    self.c.expect(":")?;
                    let ty = self.ty()?;
                    let values = self.define(at, name, vec![ty])?;
                    let location = self.optional_location()?;
                    for value in &values {
                        self.values[*value].location = location;
                    }
                    region.arguments.extend(values);
                    if !self.c.eat(",") {
                        break;
                    }
                }
                self.c.expect(")")?;
            }
            self.c.expect(":")?;
        }
        while !self.c.eat("}") {
            if self.c.peek() == Some(b'^') {
                let start = self.c.start();
                self.c.name("^", "a block")?;
                return Err(self.c.unsupported(start, "regions of several blocks"));
            }
            region.body.push(self.operation()?);
        }
        for name in self.defined.drain(outer..) {
            self.names.remove(name);
        }
        self.c.leave();
        Ok(region)
    }

    /// An operation with its results.
    fn operation(&mut self) -> Result<Operation> {
        let start = self.c.start();
        let mut groups: Vec<(usize, Group<'a>)> = Vec::new();
        if self.c.peek() == Some(b'%') {
            loop {
                let at = self.c.start();
                let name = self.c.name("%", "the name of a result")?;
                let count = if self.c.eat(":") { self.c.int("a number of results")? } else { 1 };
                groups.push((at, (name, usize::try_from(count).unwrap_or(0))));
                if !self.c.eat(",") {
                    break;
                }
            }
            self.c.expect("=")?;
        }
        let at = self.c.start();
        let location = self.c.locate(start);
        let (mut operation, types) =
            if self.c.peek() == Some(b'"') { self.generic()? } else { self.pretty(groups.first().map(|g| g.1))? };
        operation.at = location;
        operation.location = self.optional_location()?;
        let named: usize = groups.iter().map(|(_, (_, n))| n).sum();
        if !groups.is_empty() && named != types.len() {
            let message = format!("{} has {} results, found names for {named}", operation.name, types.len());
            return Err(self.c.error_span(at, at + 1, message));
        }
        let mut types = types.into_iter();
        for (at, (name, count)) in groups {
            let group = types.by_ref().take(count).collect();
            operation.results.extend(self.define(at, name, group)?);
        }
        operation.results.extend(self.define(at, "", types.collect())?);
        Ok(operation)
    }

    /// `"name"(%a) <{...}> ({...}) {...} : (T) -> T`
    fn generic(&mut self) -> Result<(Operation, Vec<Type>)> {
        let start = self.c.start();
        let name = self.c.string("the name of an operation")?;
        let name = String::from_utf8(name).map_err(|_| self.c.error(start, "expected a name in UTF-8".to_owned()))?;
        let mut operation = empty_operation(&name);
        let at = self.c.start();
        self.c.expect("(")?;
        if !self.c.eat(")") {
            loop {
                operation.operands.push(self.operand()?);
                if !self.c.eat(",") {
                    self.c.expect(")")?;
                    break;
                }
            }
        }
        let end = self.c.pos();
        if self.c.peek() == Some(b'[') {
            return Err(self.c.unsupported(start, "control flow between blocks"));
        }
        if self.c.eat("<") {
            self.dictionary(&mut operation.attributes)?;
            self.c.expect(">")?;
        }
        if self.c.eat("(") {
            loop {
                operation.regions.push(self.region(None)?);
                if !self.c.eat(",") {
                    self.c.expect(")")?;
                    break;
                }
            }
        }
        self.optional_dictionary(&mut operation.attributes)?;
        self.c.expect(":")?;
        let (operands, results) = self.function_type()?;
        self.check_types((at, end), &operation.operands, &operands)?;
        Ok((operation, results))
    }

    /// Types that the text repeats must be those of the values.
    fn check_types(&self, (start, end): (usize, usize), operands: &[Value], types: &[Type]) -> Result<()> {
        if operands.len() != types.len() {
            let message = format!("expected types of {} operands, found {}", operands.len(), types.len());
            return Err(self.c.error_span(start, end, message));
        }
        for (&operand, ty) in operands.iter().zip(types) {
            let value = &self.values[operand];
            if value.ty != *ty {
                let message = format!("'%{}' has the type {}, found {ty}", value.name, value.ty);
                return Err(self.c.error_span(start, end, message));
            }
        }
        Ok(())
    }
}

fn empty_operation(name: &str) -> Operation {
    Operation {
        name: name.into(),
        operands: Vec::new(),
        results: Vec::new(),
        attributes: Dictionary::new(),
        regions: Vec::new(),
        at: crate::hlo::SourceLocation::default(),
        location: None,
    }
}
