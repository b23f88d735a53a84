//! The `HloModule` line, and the tables of stack frames that may follow it.

use super::cursor::Cursor;
use super::{kept, shapes};
use crate::Result;
use crate::hlo::{Alias, AliasKind, ModuleConfig};
use brolga_runtime::Shape;
use hashbrown::HashSet;

/// Tables of source positions that newer texts carry between the header and the computations; they are kept as read.
pub(super) const TABLES: [&str; 4] = ["FileNames", "FunctionNames", "FileLocations", "StackFrames"];

/// Where the parts stand that are checked once the entry is known.
#[derive(Default)]
pub(super) struct HeaderPositions {
    /// Start and end of the value of `entry_computation_layout`.
    pub entry_layout: (usize, usize),
}

/// What a text without a header has in its place.
pub(super) fn none(name: &str) -> (String, ModuleConfig, HeaderPositions) {
    (name.to_owned(), ModuleConfig::default(), HeaderPositions::default())
}

/// Whether the text starts with an instruction, `name = ...`; takes nothing.
pub(super) fn at_instruction(c: &mut Cursor<'_>) -> bool {
    let start = c.start();
    if c.word() != Some("ROOT") {
        c.rewind(start);
    }
    let found = c.name("an instruction").is_ok() && c.peek() == Some(b'=');
    c.rewind(start);
    found
}

/// Reads the header: the name of the module and its attributes. A text may start with a computation instead.
pub(super) fn header(c: &mut Cursor<'_>) -> Result<(String, ModuleConfig, HeaderPositions)> {
    let mut config = ModuleConfig::default();
    let mut positions = HeaderPositions::default();
    let start = c.start();
    if c.word() != Some("HloModule") {
        c.rewind(start);
        let computation = c.eat("ENTRY") || c.name("'HloModule'").is_ok() && matches!(c.peek(), Some(b'{' | b'('));
        c.rewind(start);
        if !computation {
            return Err(c.expected("'HloModule'"));
        }
        return Ok(none("module"));
    }
    let name = c.name("the name of the module")?.to_owned();
    // Old texts end the name with a colon.
    c.eat(":");
    let mut seen = HashSet::new();
    while c.eat(",") {
        let start = c.start();
        let Some(key) = c.word() else { return Err(c.expected("a module attribute")) };
        if !seen.insert(key) {
            return Err(c.error(start, format!("expected each module attribute once, found '{key}' again")));
        }
        c.expect("=")?;
        match key {
            "entry_computation_layout" => {
                let at = c.start();
                config.entry_layout = Some(entry_layout(c)?);
                positions.entry_layout = (at, c.pos());
            }
            "input_output_alias" => config.aliases = aliases(c)?,
            "is_scheduled" => config.is_scheduled = c.boolean()?,
            "replica_count" => config.replica_count = Some(count(c)?),
            "num_partitions" => config.num_partitions = Some(count(c)?),
            _ => {
                let at = c.start();
                match key {
                    "alias_passthrough_params" => c.boolean().map(drop)?,
                    "allow_spmd_sharding_propagation_to_parameters" | "allow_spmd_sharding_propagation_to_output" => {
                        kept::booleans(c)?;
                    }
                    "buffer_donor" => kept::list(c, donor)?,
                    "frontend_attributes" => kept::frontend_attributes(c)?,
                    "origin_recovery_table" => kept::braces(c)?,
                    _ => {
                        c.rewind(start);
                        return Err(c.expected("a module attribute"));
                    }
                }
                config.other.push((key.to_owned(), c.since(at).to_owned()));
            }
        }
    }
    tables(c, &mut config)?;
    Ok((name, config, positions))
}

fn count(c: &mut Cursor<'_>) -> Result<i64> {
    let start = c.start();
    let value = c.int("a count")?;
    if value < 1 {
        return Err(c.error(start, format!("expected a count of at least 1, found '{value}'")));
    }
    Ok(value)
}

fn entry_layout(c: &mut Cursor<'_>) -> Result<(Vec<Shape>, Shape)> {
    c.expect("{")?;
    c.expect("(")?;
    let mut parameters = Vec::new();
    if !c.eat(")") {
        loop {
            parameters.push(shapes::shape(c)?);
            if !c.eat(",") {
                break;
            }
        }
        c.expect(")")?;
    }
    c.expect("->")?;
    let result = shapes::shape(c)?;
    c.expect("}")?;
    Ok((parameters, result))
}

/// `{1,0}`: a path to a leaf of a shape.
fn index(c: &mut Cursor<'_>) -> Result<Vec<usize>> {
    let mut out = Vec::new();
    c.expect("{")?;
    if !c.eat("}") {
        loop {
            out.push(c.size("the index of a tuple element")?);
            if !c.eat(",") {
                break;
            }
        }
        c.expect("}")?;
    }
    Ok(out)
}

/// `(1, {0})`: a parameter, and the path to the leaf that is given away.
fn donor(c: &mut Cursor<'_>) -> Result<()> {
    c.expect("(")?;
    c.size("a parameter number")?;
    c.expect(",")?;
    index(c)?;
    c.expect(")")
}

/// `{ {0}: (1, {}, may-alias), {1}: 2 }`
fn aliases(c: &mut Cursor<'_>) -> Result<Vec<Alias>> {
    let mut out = Vec::new();
    c.expect("{")?;
    if c.eat("}") {
        return Ok(out);
    }
    loop {
        let output_index = index(c)?;
        c.expect(":")?;
        let mut alias = Alias { output_index, parameter: 0, parameter_index: Vec::new(), kind: AliasKind::May };
        if c.eat("(") {
            alias.parameter = c.size("a parameter number")?;
            c.expect(",")?;
            alias.parameter_index = index(c)?;
            if c.eat(",") {
                let start = c.start();
                alias.kind = match c.word() {
                    Some("may-alias") => AliasKind::May,
                    Some("must-alias") => AliasKind::Must,
                    _ => {
                        c.rewind(start);
                        return Err(c.expected("'may-alias' or 'must-alias'"));
                    }
                };
            }
            c.expect(")")?;
        } else {
            alias.parameter = c.size("a parameter number")?;
        }
        out.push(alias);
        if !c.eat(",") {
            break;
        }
    }
    c.expect("}")?;
    Ok(out)
}

fn tables(c: &mut Cursor<'_>, config: &mut ModuleConfig) -> Result<()> {
    loop {
        let start = c.start();
        let word = c.word().unwrap_or_default();
        let Some(table) = TABLES.iter().find(|t| **t == word) else {
            c.rewind(start);
            return Ok(());
        };
        let mut rows = String::new();
        while c.peek().is_some_and(|b| b.is_ascii_digit()) {
            let number = c.int("the number of a row")?;
            let value = c.raw("a row")?;
            rows.push_str(&format!("{number} {value}\n"));
        }
        config.other.push(((*table).to_owned(), rows));
    }
}

#[cfg(test)]
mod tests {
    use crate::text::{PrintOptions, parse, print};

    #[test]
    fn one_instruction_is_a_module() {
        for (text, want) in [
            (
                "%m = f32[2,4]{1,0} multiply(f32[2,4]{1,0} %a, f32[2,4]{1,0} %b)\n",
                "%a = f32[2,4]{1,0} parameter(0)\n  %b = f32[2,4]{1,0} parameter(1)\n  \
                 ROOT %m = f32[2,4]{1,0} multiply(%a, %b)\n",
            ),
            (
                "ROOT m = add(f32[2] a, f32[2] a), metadata={op_name=\"x\"}",
                "%a = f32[2] parameter(0)\n  ROOT %m = f32[2] add(%a, %a), metadata={op_name=\"x\"}\n",
            ),
            (
                "s = f32[2] select(pred[2] p, f32[2] negate(f32[2] a), f32[2] a)",
                "%p = pred[2] parameter(0)\n  %a = f32[2] parameter(1)\n  \
                 %negate = f32[2] negate(%a)\n  ROOT %s = f32[2] select(%p, %negate, %a)\n",
            ),
            ("c = s32[] constant(3)", "ROOT %c = s32[] constant(3)\n"),
        ] {
            let module = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            crate::shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{text}"));
            let printed = print(&module, &PrintOptions::default());
            assert!(printed.contains(want), "{printed}");
            assert_eq!(parse(&printed).map(|m| print(&m, &PrintOptions::default())), Ok(printed));
        }
    }

    #[test]
    fn one_instruction_says_the_shapes_of_its_operands() {
        for text in [
            "m = f32[2] add(f32[2] a, b)",
            "m = f32[2] add(f32[2] m, f32[2] m)",
            "m = f32[2] add(f32[2] a, f32[3] a)",
            "m = f32[2] iota(), iota_dimension=0\nn = f32[2] iota(), iota_dimension=0",
            "m = f32[2] add(f32[2] a, f32[2] parameter(0))",
            "m = ",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
