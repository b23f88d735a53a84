//! `replica_groups` and `source_target_pairs`, which attributes keep as text.
//!
//! Three forms. Lists: `{{0,1},{2,3}}`. Iotas: `[2,4]<=[4,2]T(1,0)`, the numbers from 0 in an array of the dimensions
//! after `<=`, transposed, then cut into rows of the dimensions before it. Axes of a mesh: `mesh['a'=2,'b'=4] {'b'}`, the
//! devices in an array of named axes, where the members of a group differ along the axes in braces alone. No groups at all
//! means one group of everyone.

mod mesh;

use super::rule::{Rule, RuleError, distinct_dims, ensure, fail};

/// The members of each group, in order; empty for one group of everyone.
pub type ReplicaGroups = Vec<Vec<i64>>;

/// So many members altogether.
const MAX_MEMBERS: i64 = 1 << 20;

const ID: &str = "collective.replica-groups";

/// Reads `replica_groups`.
pub fn parse_replica_groups(text: &str) -> Result<ReplicaGroups, RuleError> {
    let text = text.trim();
    let groups = if text.starts_with('{') {
        lists(text, ID)?
    } else if let Some(rest) = text.strip_prefix("mesh") {
        mesh::groups(rest)?
    } else {
        iota(text)?
    };
    let mut all: Vec<i64> = groups.iter().flatten().copied().collect();
    all.sort_unstable();
    if let Some(n) = all.first().filter(|&&n| n < 0) {
        fail!(ID, "expected members of at least 0, found {n}");
    }
    if let Some(pair) = all.windows(2).find(|w| w[0] == w[1]) {
        fail!(ID, "expected each member in one group, found {} twice", pair[0]);
    }
    Ok(groups)
}

/// Reads `source_target_pairs`.
pub fn parse_source_target_pairs(text: &str) -> Result<Vec<(i64, i64)>, RuleError> {
    let id = "collective-permute.pairs";
    let mut out = Vec::new();
    for pair in lists(text.trim(), id)? {
        let [source, target] = pair[..] else {
            fail!(id, "expected pairs of a source and a target, found {pair:?}");
        };
        ensure!(source >= 0 && target >= 0, id, "expected numbers of at least 0, found {pair:?}");
        out.push((source, target));
    }
    Ok(out)
}

fn number(text: &str, id: &'static str) -> Rule<i64> {
    text.trim().parse().map_err(|_| RuleError::new(id, format!("expected a number, found '{}'", text.trim())))
}

fn numbers(text: &str, id: &'static str) -> Rule<Vec<i64>> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    text.split(',').map(|n| number(n, id)).collect()
}

/// `{}` or `{{0,1},{2}}`.
fn lists(text: &str, id: &'static str) -> Rule<Vec<Vec<i64>>> {
    let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'));
    let Some(mut rest) = inner.map(str::trim) else {
        fail!(id, "expected a list in braces, found '{text}'");
    };
    let mut out = Vec::new();
    while !rest.is_empty() {
        let Some((list, after)) = rest.strip_prefix('{').and_then(|t| t.split_once('}')) else {
            fail!(id, "expected lists in braces, found '{rest}'");
        };
        out.push(numbers(list, id)?);
        let after = after.trim_start();
        rest = match after.strip_prefix(',') {
            Some(next) => next.trim_start(),
            None if after.is_empty() => after,
            None => fail!(id, "expected a comma between lists, found '{after}'"),
        };
    }
    Ok(out)
}

/// `[2,3]`.
fn bracketed(text: &str) -> Rule<Vec<i64>> {
    match text.trim().strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        Some(inner) => numbers(inner, ID),
        None => fail!(ID, "expected dimensions in brackets, found '{text}'"),
    }
}

/// How many elements an array of such dimensions has, where they are positive and make no more than [`MAX_MEMBERS`].
fn count(dims: &[i64]) -> Option<i64> {
    let n = dims.iter().try_fold(1i64, |n, &d| if d > 0 { n.checked_mul(d) } else { None })?;
    (n <= MAX_MEMBERS).then_some(n)
}

/// `[2,4]<=[4,2]T(1,0)`.
fn iota(text: &str) -> Rule<Vec<Vec<i64>>> {
    let Some((groups, source)) = text.split_once("<=") else {
        fail!(ID, "expected lists in braces, an iota or a mesh, found '{text}'");
    };
    let groups = bracketed(groups)?;
    let flat = transposed(source)?;
    let (Some(covered), [rows, columns]) = (count(&groups), &groups[..]) else {
        fail!(ID, "expected two positive dimensions of groups with at most {MAX_MEMBERS} members, found '{text}'");
    };
    ensure!(flat.len() as i64 == covered, ID, "expected {} members, found {rows} groups of {columns}", flat.len());
    Ok(flat.chunks(*columns as usize).map(<[i64]>::to_vec).collect())
}

/// `[4,2]T(1,0)`: the numbers from 0, as the array transposed holds them.
fn transposed(text: &str) -> Rule<Vec<i64>> {
    let (dims, order) = match text.split_once('T') {
        Some((dims, order)) => {
            let Some(order) = order.trim().strip_prefix('(').and_then(|t| t.strip_suffix(')')) else {
                fail!(ID, "expected a permutation in parentheses, found '{order}'");
            };
            (bracketed(dims)?, numbers(order, ID)?)
        }
        None => {
            let dims = bracketed(text)?;
            let order = (0..dims.len() as i64).collect();
            (dims, order)
        }
    };
    ensure!(
        count(&dims).is_some(),
        ID,
        "expected positive dimensions with at most {MAX_MEMBERS} members, found '{text}'"
    );
    let order = distinct_dims(&order, dims.len(), "the iota's permutation", ID)?;
    ensure!(order.len() == dims.len(), ID, "expected a permutation of {} dimensions", dims.len());
    Ok(walk(&dims, &order))
}

/// The numbers from 0 of an array of dimensions `dims`, dimension `order[0]` slowest and so on; `order` is a permutation.
fn walk(dims: &[i64], order: &[usize]) -> Vec<i64> {
    let mut strides = vec![1i64; dims.len()];
    for d in (1..dims.len()).rev() {
        strides[d - 1] = strides[d] * dims[d];
    }
    let mut index = vec![0i64; dims.len()];
    let mut flat = Vec::new();
    for _ in 0..dims.iter().product() {
        flat.push(order.iter().zip(&index).map(|(&d, &i)| strides[d] * i).sum());
        for place in (0..index.len()).rev() {
            index[place] += 1;
            if index[place] < dims[order[place]] {
                break;
            }
            index[place] = 0;
        }
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_forms() {
        assert_eq!(parse_replica_groups("{}"), Ok(vec![]));
        assert_eq!(parse_replica_groups("{{0,1},{3, 2}}"), Ok(vec![vec![0, 1], vec![3, 2]]));
        assert_eq!(parse_replica_groups("[2,2]<=[4]"), Ok(vec![vec![0, 1], vec![2, 3]]));
        assert_eq!(parse_replica_groups("[2,3]<=[3,2]T(1,0)"), Ok(vec![vec![0, 2, 4], vec![1, 3, 5]]));
        assert_eq!(parse_source_target_pairs("{{0,1},{1,0}}"), Ok(vec![(0, 1), (1, 0)]));
    }

    #[test]
    fn reads_the_axes_of_a_mesh() {
        for (text, groups) in [
            ("mesh['stage'=2,'local'=4] {'local'}", "{{0,1,2,3},{4,5,6,7}}"),
            ("mesh['stage'=2,'local'=4] {'stage'}", "{{0,4},{1,5},{2,6},{3,7}}"),
            ("mesh[\"x\"=3]{\"x\"}", "{{0,1,2}}"),
            ("mesh['a'=2, 'b'=4] { 'a', 'b' }", "{{0,1,2,3,4,5,6,7}}"),
            ("mesh['a'=2,'b'=2] {'b','a'}", "{{0,2,1,3}}"),
            ("mesh['b'=4] {'b':(1)2}", "{{0,2},{1,3}}"),
            ("mesh['b'=4] {'b':(2)2}", "{{0,1},{2,3}}"),
            ("mesh['a'=2,'b'=4] {'a','b':(2)2}", "{{0,1,4,5},{2,3,6,7}}"),
            ("mesh['a'=8] {'a':(4)2,'a':(1)2}", "{{0,4,1,5},{2,6,3,7}}"),
            ("mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'a'}", "{{0,1},{2,3},{4,5},{6,7}}"),
            ("mesh['a'=2,'b'=2], device_ids=([4]) {'a'}", "{{0,2},{1,3}}"),
            ("mesh['x'=2,'y'=2], device_ids=(0,2,1,3) {'y'}", "{{0,2},{1,3}}"),
            ("mesh['a,{}'=2,'='=2] {'a,{}'}", "{{0,2},{1,3}}"),
        ] {
            assert_eq!(parse_replica_groups(text), parse_replica_groups(groups), "{text}");
        }
    }

    #[test]
    fn refuses_meshes_that_cannot_be() {
        for text in [
            "mesh['a'=2]",
            "mesh['a'=2] {}",
            "mesh[] {}",
            "mesh['a'=2] {'b'}",
            "mesh['a'=1] {'a'}",
            "mesh['a'=0] {'a'}",
            "mesh['a'=2,'a'=2] {'a'}",
            "mesh[a=2] {a}",
            "mesh['a'=2] {'a'} {'a'}",
            "mesh['a'=2,'b'=2] {'a','a'}",
            "mesh['a'=4] {'a':(3)2}",
            "mesh['a'=8] {'a':(2)8}",
            "mesh['a'=8] {'a':(1)8}",
            "mesh['a'=8] {'a':(1)1}",
            "mesh['a'=8] {'a':(1)4,'a':(2)2}",
            "mesh['a'=8] {'a':(1)2,'a':(2)2}",
            "mesh['a'=12] {'a':(1)2,'a':(3)2}",
            "mesh['a'=8] {'a':(0)2}",
            "mesh['a'=9999999] {'a'}",
            "mesh['a'=2,'b'=2], device_ids=(0,1,2) {'a'}",
            "mesh['a'=2,'b'=2], device_ids=(0,1,1,2) {'a'}",
            "mesh['a'=2,'b'=2], device_ids=([2,2]T(0,0)) {'a'}",
            "mesh['a'=2,'b'=2], device_ids=([8]) {'a'}",
            "mesh['a'=2,'b'=2], device_ids=([2,2]) {'a'}",
            "mesh['a'=2,'b'=2], ids=(0,1,2,3) {'a'}",
        ] {
            assert_eq!(parse_replica_groups(text).map_err(|e| e.constraint), Err(ID), "{text}");
        }
    }

    #[test]
    fn refuses_what_cannot_be() {
        for text in
            ["", "{0,1}", "{{0,1},{1}}", "{{-1}}", "[2]<=[2]", "[2,2]<=[5]", "[1,9999999]<=[9999999]", "[0,1]<=[0]"]
        {
            assert_eq!(parse_replica_groups(text).map_err(|e| e.constraint), Err(ID), "{text}");
        }
        assert!(parse_source_target_pairs("{{0}}").is_err());
    }
}
