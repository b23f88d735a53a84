//! Regions, blocks, operations and the values that they define.
//!
//! Values are numbered as they are defined, region by region: a region tells how many its blocks define, and its numbers are free
//! again once it ends. A region that is isolated sees none of the values around it and counts from 0.

use super::attributes::Attributes;
use super::reader::Reader;
use super::sections::{Container, IR};
use super::{malformed, properties, unsupported, vhlo};
use crate::Result;
use crate::hlo::SourceLocation;
use crate::stablehlo::ir::{
    Attribute, Dictionary, Function, MAX_NESTING, Operation, Program, Region, Type, Value, ValueData,
};
use cranelift_entity::PrimaryMap;

/// The parts that an operation's second byte says to be there.
mod has {
    pub const ATTRIBUTES: u8 = 1;
    pub const RESULTS: u8 = 2;
    pub const OPERANDS: u8 = 4;
    pub const SUCCESSORS: u8 = 8;
    pub const REGIONS: u8 = 16;
    pub const USE_LISTS: u8 = 32;
    pub const PROPERTIES: u8 = 64;
}

/// Reads the module.
pub(super) fn program(container: &Container<'_>) -> Result<Program> {
    let mut walker = Walker { container, attributes: Attributes::new(container), depth: 0 };
    let mut r = container.ir.clone();
    let (count, has_arguments) = r.flagged()?;
    if count != 1 || has_arguments {
        return Err(malformed(format!("expected one module, found {count} operations")));
    }
    let head = walker.head(&mut r)?;
    if (head.dialect, head.name) != ("builtin", "module") {
        return Err(unsupported(format!("bytecode of {}.{} rather than of a module", head.dialect, head.name)));
    }
    let mut program = Program::default();
    let mut attributes = Vec::new();
    for (name, value) in head.attributes {
        match (&*name, &value) {
            ("sym_name", Attribute::String(text)) => program.name = Some(String::from_utf8_lossy(text).into_owned()),
            ("sym_visibility", _) => {}
            _ => attributes.push((name, value)),
        }
    }
    program.attributes = attributes.into_iter().collect();
    if head.regions > 0 {
        walker.module_body(&mut r, head.is_isolated, &mut program)?;
    }
    program.locations = walker.attributes.locations;
    Ok(program)
}

/// The values that operands may name: those of the regions being read.
#[derive(Default)]
struct Scope {
    values: Vec<Option<Value>>,
    /// The number of the next value.
    next: usize,
}

impl Scope {
    fn define(&mut self, value: Value) -> Result<()> {
        match self.values.get_mut(self.next) {
            Some(slot) => *slot = Some(value),
            None => return Err(malformed("expected as many values as the region says, found more")),
        }
        self.next += 1;
        Ok(())
    }

    fn find(&self, number: usize) -> Result<Value> {
        let found = self.values.get(number).copied().flatten();
        found.ok_or_else(|| malformed(format!("expected the number of a value that is defined before, found {number}")))
    }
}

/// What stands in front of an operation's regions.
struct Head<'a> {
    dialect: &'a str,
    name: &'a str,
    attributes: Dictionary,
    location: Option<crate::stablehlo::ir::LocationId>,
    results: Vec<Type>,
    operands: Vec<usize>,
    regions: usize,
    is_isolated: bool,
}

struct Walker<'a> {
    container: &'a Container<'a>,
    attributes: Attributes<'a>,
    depth: usize,
}

impl<'a> Walker<'a> {
    fn head(&mut self, r: &mut Reader<'a>) -> Result<Head<'a>> {
        let number = r.index()?;
        let names = &self.container.op_names;
        let Some(&op) = names.get(number) else {
            return Err(malformed(format!("expected the number of one of {} operations, found {number}", names.len())));
        };
        let parts = r.byte()?;
        let location = r.index()?;
        let location = self.attributes.location(location)?;
        let mut attributes = Dictionary::new();
        if parts & has::ATTRIBUTES != 0 {
            let index = r.index()?;
            attributes = self.attributes.dictionary(index)?;
        }
        if parts & has::PROPERTIES != 0 {
            let index = r.index()?;
            self.properties(index, op.dialect, op.name, &mut attributes)?;
        }
        let mut results = Vec::new();
        if parts & has::RESULTS != 0 {
            for _ in 0..r.count("results")? {
                let index = r.index()?;
                results.push(self.attributes.ty(index)?);
            }
        }
        let mut operands = Vec::new();
        if parts & has::OPERANDS != 0 {
            for _ in 0..r.count("operands")? {
                operands.push(r.index()?);
            }
        }
        if parts & has::SUCCESSORS != 0 {
            return Err(unsupported("operations that branch to blocks"));
        }
        if parts & has::USE_LISTS != 0 {
            use_lists(r, results.len())?;
        }
        let (mut regions, mut is_isolated) = (0, false);
        if parts & has::REGIONS != 0 {
            let (count, isolated) = r.flagged()?;
            regions = usize::try_from(count)
                .ok()
                .filter(|&n| n <= r.remaining())
                .ok_or_else(|| malformed(format!("expected at most {} regions, found {count}", r.remaining())))?;
            is_isolated = isolated;
        }
        Ok(Head { dialect: op.dialect, name: op.name, attributes, location, results, operands, regions, is_isolated })
    }

    /// Attributes that an operation keeps outside of its dictionary.
    fn properties(&mut self, index: usize, dialect: &str, name: &str, attributes: &mut Dictionary) -> Result<()> {
        let Some(mut r) = self.container.properties.get(index).cloned() else {
            let count = self.container.properties.len();
            return Err(malformed(format!("expected the number of one of {count} properties, found {index}")));
        };
        if (dialect, name) == ("builtin", "module") {
            for name in ["sym_name", "sym_visibility"] {
                let (index, is_there) = r.flagged()?;
                if is_there {
                    let value = self.attributes.attribute(usize::try_from(index).unwrap_or(usize::MAX))?;
                    attributes.set(name, value);
                }
            }
            return Ok(());
        }
        if dialect == "vhlo" {
            for &name in properties::names(name) {
                let index = r.index()?;
                attributes.set(name, self.attributes.attribute(index)?);
            }
            if !r.is_empty() {
                return Err(unsupported(format!("the attributes of vhlo.{name} in bytecode")));
            }
            return Ok(());
        }
        // An operation that the writer did not know keeps its properties as one attribute.
        let index = r.index()?;
        let value = self.attributes.attribute(index)?;
        attributes.set("properties", value);
        Ok(())
    }

    /// The content of an operation's regions: where they are isolated, newer files keep them in a section of their own, all
    /// regions of the operation in one.
    fn region_content(&self, r: &mut Reader<'a>, is_isolated: bool) -> Result<Option<Reader<'a>>> {
        if !is_isolated || self.container.version < 2 {
            return Ok(None);
        }
        let (id, content) = r.section()?;
        match id {
            IR => Ok(Some(content)),
            _ => Err(malformed(format!("expected a section of operations, found section {id}"))),
        }
    }

    /// The number of operations of the one block of a region, and whether it has arguments; `None` for an empty region. Makes room
    /// for its values.
    fn block(&self, r: &mut Reader<'a>, scope: &mut Scope) -> Result<Option<(usize, bool)>> {
        match r.varint()? {
            0 => return Ok(None),
            1 => {}
            n => return Err(unsupported(format!("a region of {n} blocks"))),
        }
        let values = r.count("values")?;
        scope.next = scope.values.len();
        scope.values.resize(scope.next + values, None);
        let (operations, has_arguments) = r.flagged()?;
        let operations = usize::try_from(operations)
            .ok()
            .filter(|&n| n <= r.remaining())
            .ok_or_else(|| malformed(format!("expected at most {} operations, found {operations}", r.remaining())))?;
        Ok(Some((operations, has_arguments)))
    }

    fn module_body(&mut self, r: &mut Reader<'a>, is_isolated: bool, program: &mut Program) -> Result<()> {
        let content = self.region_content(r, is_isolated)?;
        let mut inner = content.unwrap_or_else(|| r.clone());
        let mut scope = Scope::default();
        let Some((count, has_arguments)) = self.block(&mut inner, &mut scope)? else { return Ok(()) };
        if has_arguments {
            return Err(malformed("expected a module without arguments"));
        }
        for _ in 0..count {
            let head = self.head(&mut inner)?;
            if head.dialect == "vhlo" && vhlo::base(head.name).0 == "func" {
                program.functions.push(self.function(&mut inner, head)?);
                continue;
            }
            let mut values = PrimaryMap::new();
            program.others.push(self.operation(&mut inner, head, &mut scope, &mut values)?);
        }
        Ok(())
    }

    fn function(&mut self, r: &mut Reader<'a>, head: Head<'a>) -> Result<Function> {
        let signature = vhlo::signature(head.attributes)?;
        let mut function = Function {
            name: signature.name,
            is_private: signature.is_private,
            arguments: signature.arguments,
            results: signature.results,
            argument_attributes: signature.argument_attributes,
            result_attributes: signature.result_attributes,
            attributes: signature.attributes,
            location: head.location,
            ..Function::default()
        };
        let mut values = PrimaryMap::new();
        for region in self.regions(r, (head.regions, head.is_isolated), &mut Scope::default(), &mut values, "func")? {
            if !region.body.is_empty() {
                function.body = Some(region);
            }
        }
        let types = function.body.iter().flat_map(|b| &b.arguments).map(|&v| values.get(v).map(|d: &ValueData| &d.ty));
        if function.body.is_some() && !types.eq(function.arguments.iter().map(Some)) {
            let name = &function.name;
            return Err(malformed(format!("expected the block of function '{name}' to have the function's arguments")));
        }
        function.values = values;
        Ok(function)
    }

    /// The regions of an operation; how many, and whether they are isolated.
    fn regions(
        &mut self,
        r: &mut Reader<'a>,
        (count, is_isolated): (usize, bool),
        outer: &mut Scope,
        values: &mut PrimaryMap<Value, ValueData>,
        parent: &str,
    ) -> Result<Vec<Region>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(malformed(format!("expected regions of at most {MAX_NESTING} levels")));
        }
        let mut content = self.region_content(r, is_isolated)?;
        let inner = content.as_mut().unwrap_or(r);
        let mut own = Scope::default();
        let scope = if is_isolated { &mut own } else { outer };
        let (before, next) = (scope.values.len(), scope.next);
        let mut regions = Vec::new();
        for _ in 0..count {
            regions.push(self.block_body(inner, scope, values, parent)?);
            scope.values.truncate(before);
            scope.next = next;
        }
        self.depth -= 1;
        Ok(regions)
    }

    fn block_body(
        &mut self,
        r: &mut Reader<'a>,
        scope: &mut Scope,
        values: &mut PrimaryMap<Value, ValueData>,
        parent: &str,
    ) -> Result<Region> {
        let mut region = Region::default();
        let Some((count, has_arguments)) = self.block(r, scope)? else { return Ok(region) };
        let version = self.container.version;
        if has_arguments {
            for _ in 0..r.count("arguments")? {
                let (ty, has_location) = if version >= 4 { r.flagged()? } else { (r.varint()?, true) };
                let ty = self.attributes.ty(usize::try_from(ty).unwrap_or(usize::MAX))?;
                let location = match has_location {
                    true => {
                        let index = r.index()?;
                        self.attributes.location(index)?
                    }
                    false => None,
                };
                let value = values.push(ValueData { ty, name: "".into(), location });
                scope.define(value)?;
                region.arguments.push(value);
            }
            if version >= 3 && r.byte()? != 0 {
                use_lists(r, region.arguments.len())?;
            }
        }
        for _ in 0..count {
            let head = self.head(r)?;
            let mut operation = self.operation(r, head, scope, values)?;
            if &*operation.name == "stablehlo.return" && parent == "func" {
                operation.name = "func.return".into();
            }
            region.body.push(operation);
        }
        Ok(region)
    }

    fn operation(
        &mut self,
        r: &mut Reader<'a>,
        head: Head<'a>,
        scope: &mut Scope,
        values: &mut PrimaryMap<Value, ValueData>,
    ) -> Result<Operation> {
        let operands = head.operands.iter().map(|&n| scope.find(n)).collect::<Result<Vec<_>>>()?;
        let mut results = Vec::with_capacity(head.results.len());
        for ty in head.results {
            results.push(values.push(ValueData { ty, name: "".into(), location: None }));
        }
        // The results take their numbers before the regions' values do, but regions see them not.
        for &value in &results {
            scope.define(value)?;
        }
        let regions = self.regions(r, (head.regions, head.is_isolated), scope, values, head.name)?;
        let (name, attributes) = match head.dialect {
            "vhlo" => vhlo::operation(head.name, head.attributes)?,
            dialect => (format!("{dialect}.{}", head.name).into(), head.attributes),
        };
        let (at, location) = (SourceLocation::default(), head.location);
        Ok(Operation { name, operands, results, attributes, regions, at, location })
    }
}

/// Skips the orders in which values list their uses, which say nothing here.
fn use_lists(r: &mut Reader<'_>, values: usize) -> Result<()> {
    let lists = if values > 1 { r.count("orders of uses")? } else { 1 };
    for _ in 0..lists {
        if values > 1 {
            r.varint()?;
        }
        let (count, _) = r.flagged()?;
        if count > r.remaining() as u64 {
            return Err(malformed(format!("expected at most {} uses, found {count}", r.remaining())));
        }
        for _ in 0..count {
            r.varint()?;
        }
    }
    Ok(())
}
