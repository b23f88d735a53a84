//! The printer of StableHLO text.
//!
//! Problem: a program in the generic form must become a text that StableHLO's own parser reads, and ours, to the same program.
//! Invariant: every name, symbol and string is quoted where MLIR asks for it; every value has one name in its function;
//! attributes of an operation's own stand in `<{...}>`, those of other dialects, whose names have a dot, in `{...}`. Algorithm: one
//! walk over the functions. Operations are written in the generic form, which needs no knowledge of any of them; functions and
//! terminators in their own. Values are numbered in order of definition, the entry's arguments are `%arg0`, `%arg1`, …

mod attributes;
mod dense;

use super::ir::{Dictionary, Function, Location, LocationId, MAX_NESTING, Operation, Program, Region, Type, Value};
use cranelift_entity::SecondaryMap;
use std::fmt::Write;

/// The text of a program.
pub(super) fn print(program: &Program) -> String {
    let mut printer = Printer { program, out: String::new(), names: SecondaryMap::new(), next: 0 };
    printer.module();
    printer.out
}

/// What a value is called: `%4`, `%4#1` where it is one of several results.
#[derive(Clone, Copy, Default)]
struct Name {
    number: u32,
    result: Option<u32>,
    is_argument: bool,
}

/// Whether an attribute is the operation's own: those of other dialects have a dot.
fn is_own(name: &str) -> bool {
    !name.contains('.')
}

struct Printer<'p> {
    program: &'p Program,
    out: String,
    names: SecondaryMap<Value, Name>,
    /// The number of the next value of the function.
    next: u32,
}

impl Printer<'_> {
    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.out.write_fmt(text);
    }

    /// Items with commas between them.
    fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut print: impl FnMut(&mut Self, T)) {
        for (k, item) in items.into_iter().enumerate() {
            if k > 0 {
                self.out.push_str(", ");
            }
            print(self, item);
        }
    }

    fn indent(&mut self, depth: usize) {
        self.out.push_str(&"  ".repeat(depth));
    }

    fn module(&mut self) {
        let program = self.program;
        self.out.push_str("module");
        if let Some(name) = &program.name {
            self.out.push(' ');
            self.symbol(name);
        }
        if !program.attributes.is_empty() {
            self.out.push_str(" attributes ");
            self.dictionary(program.attributes.iter());
        }
        self.out.push_str(" {\n");
        for operation in &program.others {
            self.operation(None, operation, 1);
        }
        for function in &program.functions {
            self.function(function);
        }
        self.out.push_str("}\n");
    }

    fn function(&mut self, function: &Function) {
        self.names = SecondaryMap::new();
        self.next = 0;
        self.out.push_str(if function.is_private { "  func.func private " } else { "  func.func public " });
        self.symbol(&function.name);
        self.out.push('(');
        let named = function.body.as_ref().map_or(&[][..], |b| &b.arguments);
        for (k, ty) in function.arguments.iter().enumerate() {
            self.out.push_str(if k > 0 { ", " } else { "" });
            if let Some(&value) = named.get(k) {
                self.names[value] = Name { number: k as u32, result: None, is_argument: true };
                self.value(value);
                self.out.push_str(": ");
            }
            self.put(format_args!("{ty}"));
            self.optional_dictionary(function.argument_attributes.get(k));
            self.location(named.get(k).and_then(|&v| function.values[v].location));
        }
        self.out.push(')');
        if !function.results.is_empty() {
            self.out.push_str(" -> (");
            self.list(function.results.iter().enumerate(), |p, (k, ty)| {
                p.put(format_args!("{ty}"));
                p.optional_dictionary(function.result_attributes.get(k));
            });
            self.out.push(')');
        }
        if !function.attributes.is_empty() {
            self.out.push_str(" attributes ");
            self.dictionary(function.attributes.iter());
        }
        if let Some(body) = &function.body {
            self.out.push_str(" {\n");
            for operation in &body.body {
                self.operation(Some(function), operation, 2);
            }
            self.out.push_str("  }");
        }
        self.location(function.location);
        self.out.push('\n');
    }

    fn optional_dictionary(&mut self, attributes: Option<&Dictionary>) {
        if let Some(attributes) = attributes.filter(|a| !a.is_empty()) {
            self.out.push(' ');
            self.dictionary(attributes.iter());
        }
    }

    fn value(&mut self, value: Value) {
        let Name { number, result, is_argument } = self.names[value];
        self.put(format_args!("%{}{number}", if is_argument { "arg" } else { "" }));
        if let Some(result) = result {
            self.put(format_args!("#{result}"));
        }
    }

    /// One operation on a line of its own; outside a function it has neither operands nor results.
    fn operation(&mut self, function: Option<&Function>, operation: &Operation, depth: usize) {
        self.indent(depth);
        if !operation.results.is_empty() {
            let (number, count) = (self.next, operation.results.len());
            self.next += 1;
            for (k, &value) in operation.results.iter().enumerate() {
                self.names[value] = Name { number, result: (count > 1).then_some(k as u32), is_argument: false };
            }
            self.put(format_args!("%{number}"));
            if count > 1 {
                self.put(format_args!(":{count}"));
            }
            self.out.push_str(" = ");
        }
        let is_terminator = matches!(&*operation.name, "func.return" | "stablehlo.return");
        if is_terminator && operation.attributes.is_empty() {
            self.out.push_str(&operation.name);
            if !operation.operands.is_empty() {
                self.out.push(' ');
                self.list(&operation.operands, |p, &v| p.value(v));
                self.out.push_str(" : ");
                self.types(function, &operation.operands);
            }
        } else {
            self.generic(function, operation, depth);
        }
        self.location(operation.location);
        self.out.push('\n');
    }

    /// `"name"(%a) <{...}> ({...}) {...} : (T) -> T`
    fn generic(&mut self, function: Option<&Function>, operation: &Operation, depth: usize) {
        self.string(operation.name.as_bytes());
        self.out.push('(');
        self.list(&operation.operands, |p, &v| p.value(v));
        self.out.push(')');
        if operation.attributes.iter().any(|(name, _)| is_own(name)) {
            self.out.push_str(" <");
            self.dictionary(operation.attributes.iter().filter(|(name, _)| is_own(name)));
            self.out.push('>');
        }
        if !operation.regions.is_empty() {
            self.out.push_str(" (");
            self.list(&operation.regions, |p, region| p.region(function, region, depth));
            self.out.push(')');
        }
        if operation.attributes.iter().any(|(name, _)| !is_own(name)) {
            self.out.push(' ');
            self.dictionary(operation.attributes.iter().filter(|(name, _)| !is_own(name)));
        }
        self.out.push_str(" : (");
        self.types(function, &operation.operands);
        self.out.push_str(") -> ");
        // The type of a function must stand in parentheses, and so must none and several.
        let bare = matches!(self.result_types(function, operation)[..], [ty] if !matches!(ty, Type::Function(..)));
        self.out.push_str(if bare { "" } else { "(" });
        self.types(function, &operation.results);
        self.out.push_str(if bare { "" } else { ")" });
    }

    fn result_types<'f>(&self, function: Option<&'f Function>, operation: &Operation) -> Vec<&'f Type> {
        function.map_or_else(Vec::new, |f| operation.results.iter().map(|&v| &f.values[v].ty).collect())
    }

    fn types(&mut self, function: Option<&Function>, values: &[Value]) {
        if let Some(function) = function {
            self.list(values, |p, &v| p.put(format_args!("{}", function.values[v].ty)));
        }
    }

    fn region(&mut self, function: Option<&Function>, region: &Region, depth: usize) {
        self.out.push_str("{\n");
        if let (false, Some(function)) = (region.arguments.is_empty(), function) {
            self.indent(depth);
            self.out.push_str("^bb0(");
            self.list(&region.arguments, |p, &value| {
                p.names[value] = Name { number: p.next, result: None, is_argument: false };
                p.next += 1;
                p.value(value);
                p.put(format_args!(": {}", function.values[value].ty));
                p.location(function.values[value].location);
            });
            self.out.push_str("):\n");
        }
        for operation in &region.body {
            self.operation(function, operation, depth + 1);
        }
        self.indent(depth);
        self.out.push('}');
    }

    fn location(&mut self, id: Option<LocationId>) {
        if let Some(id) = id {
            self.out.push_str(" loc(");
            self.location_inside(id, 0);
            self.out.push(')');
        }
    }

    /// Locations that refer to each other in a circle, or too deep, are unknown.
    fn location_inside(&mut self, id: LocationId, depth: usize) {
        match self.program.locations.get(id).filter(|_| depth < MAX_NESTING / 2) {
            None | Some(Location::Unknown) => self.out.push_str("unknown"),
            Some(Location::File { file, line, column }) => {
                self.string(file.as_bytes());
                self.put(format_args!(":{line}:{column}"));
            }
            Some(Location::Name { name, child }) => {
                self.string(name.as_bytes());
                if let Some(child) = child {
                    self.out.push('(');
                    self.location_inside(*child, depth + 1);
                    self.out.push(')');
                }
            }
            Some(Location::CallSite { callee, caller }) => {
                self.out.push_str("callsite(");
                self.location_inside(*callee, depth + 1);
                self.out.push_str(" at ");
                self.location_inside(*caller, depth + 1);
                self.out.push(')');
            }
            Some(Location::Fused(parts)) => {
                self.out.push_str("fused[");
                self.list(parts, |p, &part| p.location_inside(part, depth + 1));
                self.out.push(']');
            }
        }
    }
}
