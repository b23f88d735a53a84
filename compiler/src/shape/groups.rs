//! `replica_groups` and `source_target_pairs`, which attributes keep as text.
//!
//! Two forms: lists, `{{0,1},{2,3}}`, and iotas, `[2,4]<=[4,2]T(1,0)`: the numbers from 0 in an array of the dimensions
//! after `<=`, transposed, then cut into rows of the dimensions before it. No groups at all means one group of everyone.

use super::rule::{Rule, RuleError, ensure, fail};

/// The members of each group, in order; empty for one group of everyone.
pub type ReplicaGroups = Vec<Vec<i64>>;

/// So many members altogether.
const MAX_MEMBERS: i64 = 1 << 20;

const ID: &str = "collective.replica-groups";

/// Reads `replica_groups`.
pub fn parse_replica_groups(text: &str) -> Result<ReplicaGroups, RuleError> {
    let text = text.trim();
    let groups = if text.starts_with('{') { lists(text, ID)? } else { iota(text)? };
    let mut all: Vec<i64> = groups.iter().flatten().copied().collect();
    all.sort_unstable();
    ensure!(all.first().is_none_or(|&n| n >= 0), ID, "expected members of at least 0, found {:?}", all.first());
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

/// `[2,4]<=[4,2]T(1,0)`.
fn iota(text: &str) -> Rule<Vec<Vec<i64>>> {
    let bracketed = |t: &str| -> Rule<Vec<i64>> {
        match t.trim().strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            Some(inner) => numbers(inner, ID),
            None => fail!(ID, "expected dimensions in brackets, found '{t}'"),
        }
    };
    let Some((groups, source)) = text.split_once("<=") else {
        fail!(ID, "expected lists in braces or an iota, found '{text}'");
    };
    let groups = bracketed(groups)?;
    let (source, order) = match source.split_once('T') {
        Some((dims, order)) => {
            let Some(order) = order.trim().strip_prefix('(').and_then(|t| t.strip_suffix(')')) else {
                fail!(ID, "expected a permutation in parentheses, found '{order}'");
            };
            (bracketed(dims)?, numbers(order, ID)?)
        }
        None => {
            let dims = bracketed(source)?;
            let order = (0..dims.len() as i64).collect();
            (dims, order)
        }
    };
    let count = |dims: &[i64]| -> Option<i64> {
        let n = dims.iter().try_fold(1i64, |n, &d| if d > 0 { n.checked_mul(d) } else { None })?;
        (n <= MAX_MEMBERS).then_some(n)
    };
    let (Some(total), Some(covered), [rows, columns]) = (count(&source), count(&groups), &groups[..]) else {
        fail!(ID, "expected two positive dimensions of groups with at most {MAX_MEMBERS} members, found '{text}'");
    };
    ensure!(total == covered, ID, "expected {total} members, found {rows} groups of {columns}");
    let order = super::rule::distinct_dims(&order, source.len(), "the iota's permutation", ID)?;
    ensure!(order.len() == source.len(), ID, "expected a permutation of {} dimensions", source.len());
    let mut strides = vec![1i64; source.len()];
    for d in (1..source.len()).rev() {
        strides[d - 1] = strides[d] * source[d];
    }
    let mut index = vec![0i64; source.len()];
    let mut flat = Vec::with_capacity(total as usize);
    for _ in 0..total {
        flat.push(order.iter().zip(&index).map(|(&d, &i)| strides[d] * i).sum());
        for place in (0..index.len()).rev() {
            index[place] += 1;
            if index[place] < source[order[place]] {
                break;
            }
            index[place] = 0;
        }
    }
    Ok(flat.chunks(*columns as usize).map(<[i64]>::to_vec).collect())
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
    fn refuses_what_cannot_be() {
        for text in
            ["", "{0,1}", "{{0,1},{1}}", "{{-1}}", "[2]<=[2]", "[2,2]<=[5]", "[1,9999999]<=[9999999]", "[0,1]<=[0]"]
        {
            assert_eq!(parse_replica_groups(text).map_err(|e| e.constraint), Err(ID), "{text}");
        }
        assert!(parse_source_target_pairs("{{0}}").is_err());
    }
}
