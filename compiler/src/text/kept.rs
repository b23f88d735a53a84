//! Attributes that are kept as text: what the compiler does not look into must still be well formed.
//!
//! A grammar for each, as loose as the texts of several versions of XLA ask for: which fields metadata may have is not
//! checked, that each has a value is.

use super::cursor::Cursor;
use super::number;
use crate::Result;
use crate::hlo::AttrKey;

/// Takes the value of `key` as it stands.
pub(super) fn value<'a>(c: &mut Cursor<'a>, key: AttrKey) -> Result<&'a str> {
    let start = c.start();
    match key {
        AttrKey::Sharding => sharding(c)?,
        AttrKey::Metadata => fields(c, false, metadata)?,
        AttrKey::FrontendAttributes => frontend_attributes(c)?,
        AttrKey::BackendConfig => text_or_braces(c)?,
        AttrKey::Statistics => fields(c, true, |c| number::real(c).map(drop))?,
        AttrKey::ResultAccuracy => result_accuracy(c)?,
        AttrKey::ParameterReplication => booleans(c)?,
        AttrKey::ReplicaGroups => replica_groups(c)?,
        AttrKey::Origin | AttrKey::DomainInfo | AttrKey::OutputToOperandAliasing => braces(c)?,
        _ => c.raw("a value").map(drop)?,
    }
    Ok(c.since(start))
}

/// `{ ... }` with anything balanced inside.
pub(super) fn braces(c: &mut Cursor<'_>) -> Result<()> {
    if c.peek() != Some(b'{') {
        return Err(c.expected("'{'"));
    }
    c.raw("a value").map(drop)
}

/// `{a="x",b={"json": 1}}`
pub(super) fn frontend_attributes(c: &mut Cursor<'_>) -> Result<()> {
    fields(c, true, text_or_braces)
}

/// `true`, or `{true,false}`.
pub(super) fn booleans(c: &mut Cursor<'_>) -> Result<()> {
    if c.peek() != Some(b'{') {
        return c.boolean().map(drop);
    }
    list(c, |c| c.boolean().map(drop))
}

/// `{x, x}`
pub(super) fn list<'a>(c: &mut Cursor<'a>, item: impl Fn(&mut Cursor<'a>) -> Result<()>) -> Result<()> {
    within(c, ["{", "}"], item)
}

/// Items with commas between them, in brackets.
fn within<'a>(
    c: &mut Cursor<'a>,
    [open, close]: [&str; 2],
    item: impl Fn(&mut Cursor<'a>) -> Result<()>,
) -> Result<()> {
    c.expect(open)?;
    if c.eat(close) {
        return Ok(());
    }
    loop {
        item(c)?;
        if !c.eat(",") {
            return if c.eat(close) { Ok(()) } else { Err(c.expected(&format!("',' or '{close}'"))) };
        }
    }
}

/// Lists, an iota, or the axes of a mesh: `mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'a','b':(1)2}`.
fn replica_groups(c: &mut Cursor<'_>) -> Result<()> {
    const MEMBER: &str = "the number of a device";
    let start = c.start();
    if c.word() != Some("mesh") {
        c.rewind(start);
        return c.raw("a value").map(drop);
    }
    let axis = |c: &mut Cursor<'_>| c.string("the name of an axis in quotes").map(drop);
    within(c, ["[", "]"], |c| {
        axis(c)?;
        c.expect("=")?;
        c.size("the size of an axis").map(drop)
    })?;
    if c.eat(",") {
        let start = c.start();
        if c.word() != Some("device_ids") {
            c.rewind(start);
            return Err(c.expected("'device_ids' or '{'"));
        }
        c.expect("=")?;
        within(c, ["(", ")"], |c| match c.peek() {
            Some(b'[') => c.raw("dimensions").map(drop),
            _ => c.size(MEMBER).map(drop),
        })?;
    }
    list(c, |c| {
        axis(c)?;
        if c.eat(":") {
            within(c, ["(", ")"], |c| c.size("the size before a part of an axis").map(drop))?;
            c.size("the size of a part of an axis")?;
        }
        Ok(())
    })
}

/// `{name=value, name=value}`; without `commas` they may be left out.
fn fields<'a>(c: &mut Cursor<'a>, commas: bool, value: impl Fn(&mut Cursor<'a>) -> Result<()>) -> Result<()> {
    let field = |c: &mut Cursor<'a>| {
        if c.word().is_none() {
            return Err(c.expected("the name of a field"));
        }
        c.expect("=")?;
        value(c)
    };
    if commas {
        return list(c, field);
    }
    c.expect("{")?;
    while !c.eat("}") {
        c.eat(",");
        field(c)?;
    }
    Ok(())
}

fn text_or_braces(c: &mut Cursor<'_>) -> Result<()> {
    match c.peek() {
        Some(b'{') => c.raw("a value").map(drop),
        _ => c.string("a quoted string or '{'").map(drop),
    }
}

fn metadata(c: &mut Cursor<'_>) -> Result<()> {
    match c.peek() {
        Some(b'"' | b'\'') => c.string("a quoted string").map(drop),
        Some(b'{') => braces(c),
        Some(b't' | b'f') => c.boolean().map(drop),
        _ => c.int("a quoted string or an integer").map(drop),
    }
}

/// `{mode=highest}` or `{tolerance={atol=0,rtol=0,ulps=1}}`
fn result_accuracy(c: &mut Cursor<'_>) -> Result<()> {
    c.expect("{")?;
    let start = c.start();
    match c.word() {
        Some("mode") => {
            c.expect("=")?;
            one_of(c, &["default", "highest"])?;
        }
        Some("tolerance") => {
            c.expect("=")?;
            fields(c, true, |c| number::real(c).map(drop))?;
        }
        _ => {
            c.rewind(start);
            return Err(c.expected("'mode' or 'tolerance'"));
        }
    }
    c.expect("}")
}

fn one_of(c: &mut Cursor<'_>, words: &[&str]) -> Result<()> {
    let start = c.start();
    if c.word().is_some_and(|w| words.contains(&w)) {
        return Ok(());
    }
    c.rewind(start);
    Err(c.expected(&format!("one of {}", words.join(", "))))
}

/// What the sharding of one value may begin with.
const SHARDINGS: [&str; 8] =
    ["replicated", "maximal", "manual", "unknown", "unreduced", "devices", "mesh", "maximal_mesh"];

/// `{replicated}`, or `{{replicated}, {maximal device=0}}` for the leaves of a tuple.
fn sharding(c: &mut Cursor<'_>) -> Result<()> {
    let start = c.start();
    c.expect("{")?;
    if matches!(c.peek(), Some(b'{' | b'}')) {
        c.rewind(start);
        return list(c, single_sharding);
    }
    c.rewind(start);
    single_sharding(c)
}

fn single_sharding(c: &mut Cursor<'_>) -> Result<()> {
    let start = c.start();
    c.expect("{")?;
    one_of(c, &SHARDINGS)?;
    c.rewind(start);
    braces(c)
}

#[cfg(test)]
mod tests {
    use crate::hlo::AttrKey;
    use crate::text::{PrintOptions, parse, print};

    /// A program whose collectives have `groups`.
    fn program(line: &str, groups: &str) -> String {
        let line = line.replace('#', &format!("replica_groups={groups}"));
        format!(
            "HloModule m\nadd {{\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}}\n\
             ENTRY e {{\n p = f32[8] parameter(0)\n ROOT r = {line}\n}}\n"
        )
    }

    #[test]
    fn axes_of_a_mesh_are_read_and_printed_as_they_were() {
        let lines = [
            "f32[8] all-reduce(p), #, to_apply=add",
            "f32[8] all-reduce(p), channel_id=3, to_apply=add, #",
            "f32[8] all-reduce-start(p), #, use_global_device_ids=true, channel_id=3, to_apply=add",
            "f32[16] all-gather(p), dimensions={0}, #",
            "(f32[8], f32[16]) all-gather-start(p), #, dimensions={0}",
            "f32[4] reduce-scatter(p), #, dimensions={0}, to_apply=add",
            "((f32[8]), f32[4]) reduce-scatter-start(p), #, dimensions={0}, to_apply=add",
            "f32[8] all-to-all(p), #, dimensions={0}",
            "((f32[8]), f32[8], u32[]) all-to-all-start(p), #, dimensions={0}",
            "f32[8] collective-broadcast(p), #, channel_id=1",
            "f32[8] ragged-all-to-all(p, p, p, p, p, p), #",
        ];
        for line in lines {
            for groups in [
                "mesh['x'=8] {'x'}",
                "mesh['a'=2,'b'=4] {'a','b'}",
                "mesh[\"a\"=2]{\"a\"}",
                "mesh['a'=2,'b'=4] {'a','b':(2)2}",
                "mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'a'}",
                "mesh['x'=2,'y'=4], device_ids=(0,2,1,3,4,6,5,7) {'y':(1)2}",
            ] {
                let source = program(line, groups);
                let module = parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
                let instructions = module.computations.values().flat_map(|c| c.instructions.values());
                let kept: Vec<_> = instructions.filter_map(|i| i.attrs.raw(AttrKey::ReplicaGroups)).collect();
                assert_eq!(kept, [groups], "{line}");
                let printed = print(&module, &PrintOptions::default());
                assert!(printed.contains(&format!("replica_groups={groups}")), "{printed}");
                assert_eq!(parse(&printed).map(|m| print(&m, &PrintOptions::default())), Ok(printed));
            }
        }
    }

    #[test]
    fn meshes_that_are_cut_short_are_refused() {
        for groups in [
            "mesh['a'=2]",
            "mesh {'a'}",
            "mesh['a'] {'a'}",
            "mesh[a=2] {a}",
            "mesh['a'=2] {'a':2}",
            "mesh['a'=2] {'a':(1)}",
            "mesh['a'=2], ids=(0,1) {'a'}",
            "mesh['a'=2], device_ids=(0,1 {'a'}",
            "mesh['a'=2], device_ids=(0,x) {'a'}",
        ] {
            let source = program("f32[8] all-reduce(p), #, to_apply=add", groups);
            assert!(parse(&source).is_err(), "{groups}");
        }
    }
}
