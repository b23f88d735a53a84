//! Where the elements of an array lie in memory.
//!
//! Source: the specification's «Shapes and layout», its sections on layout, padding and indexing into arrays: XLA's `IndexUtil`.
//!
//! Problem: a caller's buffer holds an array in the order of its layout, with padding. Invariant: an element lies where the strides
//! say, which follow from the *widths*, the padded sizes, and the order minor-to-major; all else is derived from them. A
//! multi-dimensional index has one number for each dimension, a linear index is one number that counts elements, padding
//! included, from the start of the buffer.

use crate::{ArrayShape, Layout, row_major_strides};

impl ArrayShape {
    /// Number of dimensions larger than 1.
    pub fn true_rank(&self) -> usize {
        self.dims.iter().filter(|&&d| d > 1).count()
    }

    /// The dimension that a number names: from 0 on, or negative from the end, where -1 is the last. `None` where there is none.
    pub fn dimension_number(&self, number: i64) -> Option<usize> {
        let rank = i64::try_from(self.rank()).ok()?;
        let number = if number < 0 { number.checked_add(rank)? } else { number };
        usize::try_from(number).ok().filter(|&d| d < self.rank())
    }

    /// The dimensions from the fastest-varying to the slowest; the default, where no layout says otherwise, is row-major.
    pub fn minor_to_major(&self) -> Vec<usize> {
        match &self.layout {
            Some(layout) if layout.minor_to_major.len() == self.rank() => layout.minor_to_major.clone(),
            _ => (0..self.rank()).rev().collect(),
        }
    }

    /// The sizes that the dimensions are padded to, which are their own sizes where there is no padding.
    pub fn widths(&self) -> &[i64] {
        match &self.layout {
            Some(layout) if layout.padded_dimensions.len() == self.rank() => &layout.padded_dimensions,
            _ => &self.dims,
        }
    }

    /// True where the layout, if there is one, names each dimension once and pads none or each to at least its size.
    pub fn has_valid_layout(&self) -> bool {
        let Some(layout) = &self.layout else { return true };
        let (rank, widths) = (self.rank(), &layout.padded_dimensions);
        let mut order = layout.minor_to_major.clone();
        order.sort_unstable();
        order.into_iter().eq(0..rank)
            && (widths.is_empty() || widths.len() == rank && widths.iter().zip(&self.dims).all(|(w, d)| w >= d))
    }

    /// True where memory holds elements that are not the array's.
    pub fn is_padded(&self) -> bool {
        self.widths() != self.dims
    }

    /// True where the elements lie one behind the other in row-major order.
    pub fn is_dense_row_major(&self) -> bool {
        let ordered = |l: &Layout| l.minor_to_major.len() != self.rank() || l.is_row_major();
        !self.is_padded() && self.layout.as_ref().is_none_or(ordered)
    }

    /// True where two arrays lie alike: the same order of the same dimensions, padded to the same widths.
    pub fn same_memory(&self, other: &ArrayShape) -> bool {
        self.dims == other.dims && self.widths() == other.widths() && self.minor_to_major() == other.minor_to_major()
    }

    /// Number of elements in memory, padding included, or `None` where that overflows.
    pub fn padded_elements(&self) -> Option<usize> {
        elements(self.widths())
    }

    /// True where the array takes fewer than 2^63 bytes, with its padding and without.
    pub fn is_addressable(&self) -> bool {
        [self.checked_elements(), self.padded_elements()].into_iter().all(|elements| {
            let bytes = elements.and_then(|n| n.checked_mul(self.ty.byte_size()));
            bytes.is_some_and(|n| isize::try_from(n).is_ok())
        })
    }

    /// The distance in memory between neighbours in each dimension, in elements. Saturates.
    pub fn strides(&self) -> Vec<i64> {
        let (widths, order) = (self.widths(), self.minor_to_major());
        let in_memory: Vec<i64> = order.iter().rev().filter_map(|&d| widths.get(d).copied()).collect();
        let mut strides = vec![0; self.rank()];
        for (&d, stride) in order.iter().rev().zip(row_major_strides(&in_memory)) {
            if let Some(slot) = strides.get_mut(d) {
                *slot = stride;
            }
        }
        strides
    }

    /// The place in memory, in elements, of the element with the given index. `None` where there is no such element.
    pub fn linear_index(&self, index: &[i64]) -> Option<i64> {
        let inside = index.len() == self.rank() && index.iter().zip(&self.dims).all(|(i, d)| (0..*d).contains(i));
        let steps = index.iter().zip(self.strides());
        let mut place = inside.then_some(0i64)?;
        for (&i, stride) in steps {
            place = place.checked_add(i.checked_mul(stride)?)?;
        }
        Some(place)
    }

    /// The index of the element at a place in memory. `None` of padding, and of places outside.
    pub fn multi_index(&self, linear: i64) -> Option<Vec<i64>> {
        let mut rest = (linear >= 0).then_some(linear)?;
        let mut index = vec![0; self.rank()];
        for d in self.minor_to_major() {
            let (&width, &size) = (self.widths().get(d)?, self.dims.get(d)?);
            let i = rest.checked_rem(width)?;
            rest = rest.checked_div(width)?;
            *index.get_mut(d)? = (i < size).then_some(i)?;
        }
        (rest == 0).then_some(index)
    }

    /// The indices of all elements, in the order in which they lie in memory; padding has none.
    pub fn indices_in_memory_order(&self) -> impl Iterator<Item = Vec<i64>> {
        let first = (!self.dims.contains(&0)).then(|| vec![0i64; self.rank()]);
        let (order, dims) = (self.minor_to_major(), self.dims.clone());
        std::iter::successors(first, move |index| {
            let mut next = index.clone();
            for &d in &order {
                let (i, &size) = (next.get_mut(d)?, dims.get(d)?);
                *i += 1;
                if *i < size {
                    return Some(next);
                }
                *i = 0;
            }
            None
        })
    }
}

/// The product of sizes, or `None` where that overflows.
pub(crate) fn elements(dims: &[i64]) -> Option<usize> {
    // A zero-sized dimension makes the array empty whatever the others are.
    if dims.contains(&0) {
        return Some(0);
    }
    dims.iter().try_fold(1usize, |n, &d| n.checked_mul(usize::try_from(d).ok()?))
}

/// Calls `visit(offset)`, in elements, for each index of `dims` in row-major order.
pub(crate) fn for_each_offset(dims: &[i64], strides: &[i64], mut visit: impl FnMut(usize)) {
    if dims.contains(&0) {
        return;
    }
    let mut index = vec![0i64; dims.len()];
    let mut offset = 0i64;
    loop {
        visit(offset as usize);
        let mut dimension = dims.len();
        loop {
            let Some(d) = dimension.checked_sub(1) else {
                return;
            };
            dimension = d;
            let (Some(i), Some(&size), Some(&stride)) = (index.get_mut(d), dims.get(d), strides.get(d)) else {
                return;
            };
            *i += 1;
            offset += stride;
            if *i < size {
                break;
            }
            offset -= stride * size;
            *i = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ElementType;

    fn array(dims: &[i64], minor_to_major: &[usize], widths: &[i64]) -> ArrayShape {
        let layout =
            Layout { minor_to_major: minor_to_major.to_vec(), padded_dimensions: widths.to_vec(), ..Layout::default() };
        ArrayShape { layout: Some(layout), ..ArrayShape::new(ElementType::F32, dims) }
    }

    /// «The rank of an array is the number of dimensions; the true rank the number of those larger than 1.»
    #[test]
    fn true_rank_counts_dimensions_above_one() {
        let shape = ArrayShape::new(ElementType::F32, [1, 5, 1, 2, 0]);
        assert_eq!((shape.rank(), shape.true_rank()), (5, 2));
        assert_eq!(ArrayShape::new(ElementType::F32, []).true_rank(), 0);
    }

    /// «Dimension -1 is the last, -2 the one before it.»
    #[test]
    fn negative_dimension_numbers_count_from_the_end() {
        let shape = ArrayShape::new(ElementType::F32, [7, 8, 9]);
        let size = |number| shape.dimension_number(number).map(|d| shape.dims[d]);
        assert_eq!([0, 1, 2, -1, -2, -3].map(size), [7, 8, 9, 9, 8, 7].map(Some));
        assert_eq!([3, -4, i64::MIN, i64::MAX].map(size), [None; 4]);
    }

    /// «The default layout of new shapes is major to minor.»
    #[test]
    fn shapes_without_a_layout_are_row_major() {
        let shape = ArrayShape::new(ElementType::F32, [2, 3, 4]);
        assert_eq!((shape.minor_to_major(), shape.strides()), (vec![2, 1, 0], vec![12, 4, 1]));
        assert!(shape.is_dense_row_major() && !shape.is_padded());
        assert!(!array(&[2, 3, 4], &[1, 2, 0], &[]).is_dense_row_major());
    }

    /// «The most minor dimension varies fastest as one walks through linear memory.»
    #[test]
    fn memory_order_steps_the_minor_dimension_first() {
        let columns = array(&[2, 3], &[0, 1], &[]);
        let walk: Vec<Vec<i64>> = columns.indices_in_memory_order().collect();
        assert_eq!(walk, [[0, 0], [1, 0], [0, 1], [1, 1], [0, 2], [1, 2]]);
        let rows: Vec<Vec<i64>> = array(&[2, 3], &[1, 0], &[]).indices_in_memory_order().collect();
        assert_eq!(rows, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]);
        assert_eq!(array(&[2, 0], &[1, 0], &[]).indices_in_memory_order().count(), 0);
        assert_eq!(array(&[], &[], &[]).indices_in_memory_order().count(), 1);
    }

    /// «Padded to widths 3 and 5, column-major: `a d 0 b e 0 c f 0 0 0 0 0 0 0`.»
    #[test]
    fn linear_and_multi_dimensional_indices_of_the_padded_example() {
        let shape = array(&[2, 3], &[0, 1], &[3, 5]);
        assert_eq!((shape.strides(), shape.padded_elements()), (vec![1, 3], Some(15)));
        let letters = [["a", "b", "c"], ["d", "e", "f"]];
        let memory: Vec<&str> = (0..15)
            .map(|place| shape.multi_index(place).map_or("0", |i| letters[i[0] as usize][i[1] as usize]))
            .collect();
        assert_eq!(memory.join(" "), "a d 0 b e 0 c f 0 0 0 0 0 0 0");
    }

    /// In every layout of a few shapes the two directions are inverse, and the walk goes up.
    #[test]
    fn indices_round_trip_in_every_layout() {
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        for order in orders {
            for widths in [[2, 3, 4], [2, 5, 4], [3, 3, 7]] {
                let shape = array(&[2, 3, 4], &order, &widths);
                let places: Vec<i64> = shape.indices_in_memory_order().filter_map(|i| shape.linear_index(&i)).collect();
                assert!(places.len() == 24 && places.is_sorted(), "{order:?} {widths:?}");
                let total = widths.iter().product::<i64>();
                let elements = (0..total).filter(|&p| shape.multi_index(p).is_some());
                assert!(elements.eq(places.iter().copied()), "{order:?} {widths:?}");
                for &place in &places {
                    let index = shape.multi_index(place);
                    assert_eq!(index.and_then(|i| shape.linear_index(&i)), Some(place));
                }
                assert_eq!((shape.multi_index(-1), shape.multi_index(total)), (None, None));
            }
        }
    }

    #[test]
    fn indices_outside_have_no_place() {
        let shape = array(&[2, 3], &[0, 1], &[3, 5]);
        for index in [&[2, 0][..], &[0, 3], &[-1, 0], &[0], &[0, 0, 0], &[i64::MAX, i64::MAX]] {
            assert_eq!(shape.linear_index(index), None, "{index:?}");
        }
        assert_eq!(array(&[0, 3], &[1, 0], &[]).linear_index(&[0, 0]), None);
        assert_eq!(array(&[0, 3], &[1, 0], &[2, 3]).multi_index(0), None);
        assert_eq!(array(&[2, 2], &[1, 0], &[i64::MAX, i64::MAX]).linear_index(&[1, 1]), None);
        assert_eq!(array(&[2, 2], &[1, 0], &[i64::MAX, i64::MAX]).padded_elements(), None);
        assert_eq!(ArrayShape::new(ElementType::F32, []).linear_index(&[]), Some(0));
        assert_eq!(ArrayShape::new(ElementType::F32, []).multi_index(0), Some(vec![]));
        assert_eq!(ArrayShape::new(ElementType::F32, []).multi_index(1), None);
    }

    /// «If present, there are as many padded dimensions as the rank.»
    #[test]
    fn layouts_fit_their_shapes() {
        assert!(array(&[2, 3], &[0, 1], &[]).has_valid_layout() && array(&[2, 3], &[0, 1], &[2, 5]).has_valid_layout());
        for (order, widths) in
            [(&[0, 1][..], &[3][..]), (&[0, 1], &[3, 5, 1]), (&[0, 1], &[1, 5]), (&[0, 0], &[]), (&[0], &[])]
        {
            assert!(!array(&[2, 3], order, widths).has_valid_layout(), "{order:?} {widths:?}");
        }
    }

    #[test]
    fn same_memory_compares_order_and_widths() {
        let plain = array(&[2, 3], &[1, 0], &[]);
        assert!(plain.same_memory(&ArrayShape::new(ElementType::F32, [2, 3])));
        assert!(plain.same_memory(&array(&[2, 3], &[1, 0], &[2, 3])));
        assert!(!plain.same_memory(&array(&[2, 3], &[0, 1], &[])));
        assert!(!plain.same_memory(&array(&[2, 3], &[1, 0], &[2, 4])));
    }
}
