//! Groups along axes of a mesh.
//!
//! `mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'a','b':(2)2}`: the devices lie in an array of named axes, in row-major
//! order of their numbers where `device_ids` gives no other. The members of a group differ along the axes in braces, the
//! first of them slowest, and agree in all others. `'b':(2)2` is the part of an axis that has 2 positions, each of which
//! holds what is left of the axis, and 2 positions before it: an axis of 4 as one of 2, 2 and 1.

use super::super::rule::{Rule, ensure, fail};
use super::{ID, ReplicaGroups, count, number, numbers, transposed, walk};

/// An axis in braces, or a part of one.
struct Part {
    axis: usize,
    /// Where it stands in the braces.
    place: usize,
    /// How many positions of the axis lie before it.
    before: i64,
    size: i64,
}

/// The groups of what follows the word `mesh`.
pub(super) fn groups(text: &str) -> Rule<ReplicaGroups> {
    let mut rest = text.trim_start();
    let axes = axes(bracketed(&mut rest, '[', ']')?)?;
    let sizes: Vec<i64> = axes.iter().map(|&(_, size)| size).collect();
    let Some(total) = count(&sizes) else {
        fail!(ID, "expected axes of positive sizes with at most {} members, found {sizes:?}", super::MAX_MEMBERS);
    };
    let ids = match rest.strip_prefix(',') {
        Some(after) => {
            let after = after.trim_start().strip_prefix("device_ids").map(str::trim_start);
            let Some(after) = after.and_then(|t| t.strip_prefix('=')) else {
                fail!(ID, "expected device_ids after the mesh, found '{rest}'");
            };
            rest = after.trim_start();
            Some(device_ids(bracketed(&mut rest, '(', ')')?, total)?)
        }
        None => None,
    };
    let mut parts = parts(bracketed(&mut rest, '{', '}')?, &axes)?;
    ensure!(rest.is_empty(), ID, "expected nothing after the axes, found '{rest}'");
    let members: i64 = parts.iter().map(|p| p.size).product();
    ensure!(members > 1, ID, "expected groups of at least 2 members, found {members}");

    // Each axis is cut where its parts begin and end; the dimensions that are parts come last, as the braces order them.
    parts.sort_by_key(|p| (p.axis, p.before));
    let (mut dims, mut shared, mut own) = (Vec::new(), Vec::new(), Vec::new());
    for (axis, &(name, size)) in axes.iter().enumerate() {
        let mut done = 1;
        for part in parts.iter().filter(|p| p.axis == axis) {
            let end = part.before.checked_mul(part.size).filter(|end| size % end == 0);
            let Some(end) = end.filter(|_| part.before % done == 0) else {
                fail!(ID, "expected parts that divide axis '{name}' of {size}, found ({}){}", part.before, part.size);
            };
            shared.push(dims.len());
            dims.push(part.before / done);
            own.push((part.place, dims.len()));
            dims.push(part.size);
            done = end;
        }
        shared.push(dims.len());
        dims.push(size / done);
    }
    own.sort_unstable();
    let order: Vec<usize> = shared.into_iter().chain(own.into_iter().map(|(_, d)| d)).collect();
    let mut flat = walk(&dims, &order);
    if let Some(ids) = ids {
        flat.iter_mut().for_each(|n| *n = ids[*n as usize]);
    }
    Ok(flat.chunks(members as usize).map(<[i64]>::to_vec).collect())
}

/// Takes what stands between two brackets; names in quotes may hold brackets.
fn bracketed<'a>(rest: &mut &'a str, open: char, close: char) -> Rule<&'a str> {
    let Some(inner) = rest.strip_prefix(open) else {
        fail!(ID, "expected '{open}' in a mesh, found '{rest}'");
    };
    let mut depth = 0;
    let mut quote = None;
    for (at, c) in inner.char_indices() {
        match (quote, c) {
            (Some(q), c) if q == c => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, c) if c == open => depth += 1,
            (None, c) if c == close && depth > 0 => depth -= 1,
            (None, c) if c == close => {
                *rest = inner[at + c.len_utf8()..].trim_start();
                return Ok(&inner[..at]);
            }
            _ => {}
        }
    }
    fail!(ID, "expected '{close}' in a mesh, found '{inner}'")
}

/// Takes a name in quotes.
fn name<'a>(rest: &mut &'a str) -> Rule<&'a str> {
    let text = rest.trim_start();
    let quote = text.chars().next().filter(|q| matches!(q, '\'' | '"'));
    let Some((name, after)) = quote.and_then(|q| text[1..].split_once(q)) else {
        fail!(ID, "expected the name of an axis in quotes, found '{text}'");
    };
    *rest = after.trim_start();
    Ok(name)
}

/// Takes what stands before the next comma, and the comma.
fn item<'a>(rest: &mut &'a str) -> &'a str {
    let (item, after) = rest.split_once(',').unwrap_or((rest, ""));
    *rest = after.trim_start();
    item
}

/// `'a'=2,'b'=4`.
fn axes(mut text: &str) -> Rule<Vec<(&str, i64)>> {
    let mut out: Vec<(&str, i64)> = Vec::new();
    while !text.trim().is_empty() {
        let name = name(&mut text)?;
        ensure!(out.iter().all(|(n, _)| *n != name), ID, "expected axes of distinct names, found '{name}' twice");
        let Some(size) = item(&mut text).strip_prefix('=') else {
            fail!(ID, "expected '=' and the size of axis '{name}'");
        };
        out.push((name, number(size, ID)?));
    }
    Ok(out)
}

/// The numbers of the devices in row-major order of the mesh: a list or an iota.
fn device_ids(text: &str, total: i64) -> Rule<Vec<i64>> {
    let text = text.trim();
    let ids = match text.strip_prefix('[') {
        Some(dims) => {
            let ordered = text.contains('T') || !dims.contains(',');
            ensure!(ordered, ID, "expected an order T(...) after the dimensions, found '{text}'");
            transposed(text)?
        }
        None => numbers(text, ID)?,
    };
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    ensure!(
        sorted.iter().copied().eq(0..total),
        ID,
        "expected each of {total} devices once in device_ids, found '{text}'"
    );
    Ok(ids)
}

/// `'a','b':(1)2`.
fn parts(mut text: &str, axes: &[(&str, i64)]) -> Rule<Vec<Part>> {
    let mut out: Vec<Part> = Vec::new();
    while !text.trim().is_empty() {
        let name = name(&mut text)?;
        let Some(axis) = axes.iter().position(|(n, _)| *n == name) else {
            fail!(ID, "expected an axis of the mesh, found '{name}'");
        };
        let whole = axes[axis].1;
        let suffix = item(&mut text);
        let (before, size) = match suffix.strip_prefix(':') {
            None => (1, whole),
            Some(part) => {
                let Some((before, size)) = part.trim().strip_prefix('(').and_then(|t| t.split_once(')')) else {
                    fail!(ID, "expected a part as in '{name}':(1)2, found '{part}'");
                };
                let (before, size) = (number(before, ID)?, number(size, ID)?);
                let proper = before > 0 && 1 < size && size < whole;
                ensure!(proper, ID, "expected a proper part of axis '{name}' of {whole}, found ({before}){size}");
                (before, size)
            }
        };
        // Two parts in a row that are one would be a second way to write the same.
        let joined = out.last().is_some_and(|p| p.axis == axis && p.before.checked_mul(p.size) == Some(before));
        ensure!(!joined, ID, "expected one part of axis '{name}' for two that join, found '{suffix}'");
        out.push(Part { axis, place: out.len(), before, size });
    }
    Ok(out)
}
