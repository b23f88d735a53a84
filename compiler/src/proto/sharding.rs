//! Shardings: how a value is divided among devices.

use super::collective::{axis, bracketed, iota_order, mesh, read_axes, read_axis, read_iota, read_mesh};
use super::kept::{joined, list, metadata, metadata_at, whole};
use super::message::{DimSharding, Metadata, NamedSharding, Sharding};
use super::{malformed, unsupported};
use crate::Result;
use crate::text::cursor::Cursor;

const MAXIMAL: i32 = 1;
const TUPLE: i32 = 2;
const OTHER: i32 = 3;
/// Words of the kinds of sharding that have no tiles, by number.
const KINDS: [&str; 7] = ["replicated", "maximal", "", "", "manual", "unknown", "unreduced"];

/// `{replicated}`, `{devices=[2,1]<=[2]}`, or a list of such for the leaves of a tuple.
pub(super) fn text(s: &Sharding) -> Result<String> {
    if s.kind != TUPLE {
        return single(s);
    }
    let mut out = "{".to_owned();
    for (i, element) in s.elements.iter().enumerate() {
        out.push_str(match i {
            0 => "",
            _ => ", ",
        });
        if i > 0 && i % 5 == 0 {
            out.push_str(&format!("/*index={i}*/"));
        }
        out.push_str(&single(element)?);
    }
    out.push('}');
    Ok(out)
}

fn single(s: &Sharding) -> Result<String> {
    if let Some(named) = &s.named {
        return named_text(named);
    }
    let word = |kind: i32| usize::try_from(kind).ok().and_then(|k| KINDS.get(k)).filter(|w| !w.is_empty());
    let mut out = match (s.kind, word(s.kind)) {
        (MAXIMAL, _) => format!("{{maximal device={}", s.devices.first().copied().unwrap_or_default()),
        (OTHER, _) => tiles(s)?,
        (_, Some(word)) => format!("{{{word}"),
        (kind, None) => return Err(malformed("", format!("sharding: expected a kind of sharding, found {kind}"))),
    };
    if !s.last_tile_dims.is_empty() {
        let kinds = s.last_tile_dims.iter().map(|&k| {
            word(k)
                .copied()
                .ok_or_else(|| malformed("", format!("sharding: expected a kind of last dimension, found {k}")))
        });
        out.push_str(&format!(" last_tile_dims={{{}}}", kinds.collect::<Result<Vec<_>>>()?.join(", ")));
    } else if s.replicate_on_last_dim {
        out.push_str(" last_tile_dim_replicate");
    }
    if s.is_shard_group {
        let word = if s.shard_group_type == 1 { "shard_like" } else { "shard_as" };
        out.push_str(&format!(" {word} {}", s.shard_group_id));
    }
    out.push_str(&metadata_text(&s.metadata));
    out.push('}');
    Ok(out)
}

fn metadata_text(list: &[Metadata]) -> String {
    match list {
        [] => String::new(),
        [one] => format!(" metadata={}", metadata(one)),
        several => format!(" metadata={{{}}}", several.iter().map(metadata).collect::<Vec<_>>().join(", ")),
    }
}

/// `{devices=[2,1]<=[2]` or `{devices=[2,1]0,1`
fn tiles(s: &Sharding) -> Result<String> {
    let dims = joined(&s.tile_dims);
    let devices = match &s.iota_reshape[..] {
        [] => joined(&s.devices),
        reshape => format!("<=[{}]{}", joined(reshape), iota_order(&s.iota_transpose)),
    };
    Ok(format!("{{devices=[{dims}]{devices}"))
}

/// `{mesh['x'=2,'y'=2], [{'x'}, {'y', ?}], replicated={'z'}}`
fn named_text(n: &NamedSharding) -> Result<String> {
    let Some(m) = &n.mesh else { return Err(malformed("", "sharding: expected a mesh, found none")) };
    let dim = |d: &DimSharding| {
        let mut parts = d.axes.iter().map(|a| axis(a, m)).collect::<Result<Vec<_>>>()?;
        if !d.is_closed {
            parts.push("?".to_owned());
        }
        Ok(format!("{{{}}}", parts.join(", ")))
    };
    let dims = n.dims.iter().map(dim).collect::<Result<Vec<_>>>()?.join(", ");
    let mut out = format!("{{{}, [{dims}]", mesh(m));
    for (word, axes) in [("replicated", &n.replicated), ("unreduced", &n.unreduced), ("manual", &n.manual)] {
        if !axes.is_empty() {
            let axes = axes.iter().map(|a| axis(a, m)).collect::<Result<Vec<_>>>()?.join(", ");
            out.push_str(&format!(", {word}={{{axes}}}"));
        }
    }
    out.push_str(&metadata_text(&n.metadata));
    out.push('}');
    Ok(out)
}

/// Reads what the module keeps.
pub(super) fn message(text: &str) -> Result<Sharding> {
    whole(text, |c| {
        let start = c.start();
        c.expect("{")?;
        let is_tuple = matches!(c.peek(), Some(b'{' | b'}'));
        c.rewind(start);
        if !is_tuple {
            return read_single(c);
        }
        Ok(Sharding { kind: TUPLE, elements: list(c, read_single)?, ..Default::default() })
    })
}

fn read_single(c: &mut Cursor<'_>) -> Result<Sharding> {
    let mut s = Sharding::default();
    c.expect("{")?;
    if c.peek() == Some(b'm') {
        let start = c.start();
        if c.eat("mesh[") {
            c.rewind(start);
            s.named = Some(read_named(c)?);
            return Ok(s);
        }
        c.rewind(start);
    }
    while !c.eat("}") {
        let Some(word) = c.word() else { return Err(c.expected("a word of a sharding")) };
        match word {
            "devices" => {
                s.kind = OTHER;
                c.expect("=")?;
                s.tile_dims = bracketed(c)?;
                if c.eat("<=") {
                    let (reshape, transpose) = read_iota(c)?;
                    s.iota_reshape = reshape;
                    s.iota_transpose = transpose.into_iter().map(|d| d as i32).collect();
                } else {
                    loop {
                        s.devices.push(c.int("the number of a device")?);
                        if !c.eat(",") {
                            break;
                        }
                    }
                }
            }
            "maximal" => s.kind = MAXIMAL,
            "device" => {
                c.expect("=")?;
                s.devices.push(c.int("the number of a device")?);
            }
            "last_tile_dim_replicate" => s.replicate_on_last_dim = true,
            "last_tile_dims" => {
                c.expect("=")?;
                s.last_tile_dims = list(c, kind)?;
            }
            "shard_as" | "shard_like" => {
                s.is_shard_group = true;
                s.shard_group_type = i32::from(word == "shard_like");
                s.shard_group_id = c.int("the number of a group")?;
            }
            "metadata" => {
                c.expect("=")?;
                s.metadata = read_metadata(c)?;
            }
            other => s.kind = kind_of(other)?,
        }
    }
    Ok(s)
}

fn kind(c: &mut Cursor<'_>) -> Result<i32> {
    kind_of(c.word().unwrap_or_default())
}

fn kind_of(word: &str) -> Result<i32> {
    let found = KINDS.iter().position(|k| *k == word && !k.is_empty());
    found.map(|k| k as i32).ok_or_else(|| unsupported("", format!("the sharding '{word}' in a message")))
}

fn read_metadata(c: &mut Cursor<'_>) -> Result<Vec<Metadata>> {
    let start = c.start();
    c.expect("{")?;
    let several = c.peek() == Some(b'{');
    c.rewind(start);
    if several { list(c, metadata_at) } else { Ok(vec![metadata_at(c)?]) }
}

/// Reads a sharding by a mesh, the opening brace being taken, to the closing one.
fn read_named(c: &mut Cursor<'_>) -> Result<NamedSharding> {
    let m = read_mesh(c)?;
    let mut out = NamedSharding::default();
    while !c.eat("}") {
        c.eat(",");
        if c.peek() == Some(b'[') {
            out.dims = super::kept::within(c, ["[", "]"], |c| {
                let mut d = DimSharding { axes: Vec::new(), is_closed: true };
                list(c, |c| {
                    if c.eat("?") {
                        d.is_closed = false;
                    } else {
                        d.axes.push(read_axis(c, &m)?);
                    }
                    Ok(())
                })?;
                Ok(d)
            })?;
            continue;
        }
        let word = c.word().unwrap_or_default();
        c.expect("=")?;
        match word {
            "replicated" => out.replicated = read_axes(c, &m)?,
            "unreduced" => out.unreduced = read_axes(c, &m)?,
            "manual" => out.manual = read_axes(c, &m)?,
            "metadata" => out.metadata = read_metadata(c)?,
            _ => return Err(unsupported("", format!("the field '{word}' of a sharding in a message"))),
        }
    }
    out.mesh = Some(m);
    Ok(out)
}
