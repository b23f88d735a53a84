//! Walks over index spaces: row-major, without an allocation for each element.

/// The number of elements of `dims`; saturates.
pub(super) fn product(dims: &[i64]) -> usize {
    if dims.contains(&0) {
        return 0;
    }
    dims.iter().fold(1usize, |n, &d| n.saturating_mul(usize::try_from(d).unwrap_or(0)))
}

/// Calls `visit` with the offsets of every index of `dims`, row-major. Offset `n` of an index is
/// `base[n] + sum of index[d] * strides[n][d]`.
pub(super) fn walk_offsets<const N: usize>(
    dims: &[i64],
    strides: [&[i64]; N],
    base: [i64; N],
    mut visit: impl FnMut([i64; N]),
) {
    if dims.iter().any(|&d| d <= 0) {
        return;
    }
    let mut index = vec![0i64; dims.len()];
    let mut offsets = base;
    loop {
        visit(offsets);
        let mut d = dims.len();
        loop {
            if d == 0 {
                return;
            }
            d -= 1;
            index[d] += 1;
            for n in 0..N {
                offsets[n] += strides[n][d];
            }
            if index[d] < dims[d] {
                break;
            }
            for n in 0..N {
                offsets[n] -= strides[n][d] * dims[d];
            }
            index[d] = 0;
        }
    }
}

/// Calls `visit` with every index of `dims`, row-major, until it fails.
pub(super) fn try_walk<E>(dims: &[i64], mut visit: impl FnMut(&[i64]) -> Result<(), E>) -> Result<(), E> {
    if dims.iter().any(|&d| d <= 0) {
        return Ok(());
    }
    let mut index = vec![0i64; dims.len()];
    loop {
        visit(&index)?;
        if !advance(dims, &mut index) {
            return Ok(());
        }
    }
}

/// The next index, row-major; `false`, and back at the start, after the last.
pub(super) fn advance(dims: &[i64], index: &mut [i64]) -> bool {
    for (i, &d) in index.iter_mut().zip(dims).rev() {
        *i += 1;
        if *i < d {
            return true;
        }
        *i = 0;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_follow_strides() {
        let mut seen = Vec::new();
        walk_offsets(&[2, 3], [&[1, 2]], [10], |[o]| seen.push(o));
        assert_eq!(seen, [10, 12, 14, 11, 13, 15]);
        let mut count = 0;
        walk_offsets(&[], [&[]], [0], |[_]| count += 1);
        walk_offsets(&[2, 0], [&[1, 1]], [0], |[_]| count += 10);
        assert_eq!(count, 1);
    }
}
