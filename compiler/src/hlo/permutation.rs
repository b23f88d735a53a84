//! Permutations of dimensions.

/// The permutation that undoes `permutation`, a list of every number from 0 once: dimension `permutation[i]` goes back from `i`.
pub fn inverse<T: Copy + Ord + TryFrom<usize>>(permutation: &[T]) -> Vec<T> {
    let mut places: Vec<usize> = (0..permutation.len()).collect();
    places.sort_unstable_by_key(|&i| permutation[i]);
    places.into_iter().filter_map(|i| T::try_from(i).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::inverse;

    #[test]
    fn what_is_moved_goes_back() {
        let order = [2usize, 0, 3, 1];
        let back = inverse(&order);
        assert_eq!(back, [1, 3, 0, 2]);
        assert!((0..4).all(|d| order[back[d]] == d));
        assert_eq!(inverse(&[1i64, 2, 0]), [2, 0, 1]);
        assert_eq!(inverse::<i64>(&[]), [0; 0]);
    }
}
