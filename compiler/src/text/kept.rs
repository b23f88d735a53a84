//! Attributes that are kept as text: what the compiler does not look into must still be well formed.
//!
//! A grammar for each, as loose as the texts of several versions of XLA ask for: which fields metadata may have is not
//! checked, that each has a value is.

use super::cursor::Cursor;
use super::{header, number};
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
        return header::boolean(c).map(drop);
    }
    list(c, |c| header::boolean(c).map(drop))
}

/// `{x, x}`
pub(super) fn list<'a>(c: &mut Cursor<'a>, item: impl Fn(&mut Cursor<'a>) -> Result<()>) -> Result<()> {
    c.expect("{")?;
    if c.eat("}") {
        return Ok(());
    }
    loop {
        item(c)?;
        if !c.eat(",") {
            return if c.eat("}") { Ok(()) } else { Err(c.expected("',' or '}'")) };
        }
    }
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
        Some(b't' | b'f') => header::boolean(c).map(drop),
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
