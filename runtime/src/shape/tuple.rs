//! The elements of a tuple's shape, with the numbers of their leaves.

use super::Shape;
use std::fmt;
use std::ops::Deref;

/// The shapes of a tuple's elements: a slice of shapes that knows at once which leaf is whose, because programs take single
/// leaves out of tuples of thousands.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TupleShape {
    elements: Vec<Shape>,
    /// How many leaves each element and all before it have; empty where no element is a tuple, so that each has one.
    ends: Vec<usize>,
}

impl TupleShape {
    /// Number of leaves of all elements.
    pub fn leaf_count(&self) -> usize {
        self.leaves_before(self.elements.len())
    }

    /// Number of leaves of the elements before element `index`; of all elements, where there are not so many.
    pub fn leaves_before(&self, index: usize) -> usize {
        let index = index.min(self.elements.len());
        match index.checked_sub(1) {
            Some(last) if !self.ends.is_empty() => self.ends[last],
            _ => index,
        }
    }

    /// The element that has the leaf of that number, depth first, and the number of the leaf inside that element.
    pub fn element_of_leaf(&self, leaf: usize) -> Option<(usize, usize)> {
        let index = if self.ends.is_empty() { leaf } else { self.ends.partition_point(|&end| end <= leaf) };
        (index < self.elements.len()).then(|| (index, leaf - self.leaves_before(index)))
    }
}

impl From<Vec<Shape>> for TupleShape {
    fn from(elements: Vec<Shape>) -> TupleShape {
        let mut ends = Vec::new();
        if elements.iter().any(|e| matches!(e, Shape::Tuple(_))) {
            ends.extend(elements.iter().scan(0, |sum, element| {
                *sum += element.leaf_count();
                Some(*sum)
            }));
        }
        TupleShape { elements, ends }
    }
}

impl From<TupleShape> for Vec<Shape> {
    fn from(tuple: TupleShape) -> Vec<Shape> {
        tuple.elements
    }
}

impl FromIterator<Shape> for TupleShape {
    fn from_iter<I: IntoIterator<Item = Shape>>(elements: I) -> TupleShape {
        elements.into_iter().collect::<Vec<_>>().into()
    }
}

impl IntoIterator for TupleShape {
    type Item = Shape;
    type IntoIter = std::vec::IntoIter<Shape>;

    fn into_iter(self) -> Self::IntoIter {
        self.elements.into_iter()
    }
}

impl<'a> IntoIterator for &'a TupleShape {
    type Item = &'a Shape;
    type IntoIter = std::slice::Iter<'a, Shape>;

    fn into_iter(self) -> Self::IntoIter {
        self.elements.iter()
    }
}

impl Deref for TupleShape {
    type Target = [Shape];

    fn deref(&self) -> &[Shape] {
        &self.elements
    }
}

impl fmt::Debug for TupleShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.elements.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(elements: Vec<Shape>) -> TupleShape {
        elements.into()
    }

    #[test]
    fn leaves_have_the_numbers_that_a_walk_gives_them() {
        let token = Shape::Token;
        let none = Shape::tuple(Vec::new());
        let pair = Shape::tuple(vec![token.clone(), token.clone()]);
        let deep = Shape::tuple(vec![pair.clone(), none.clone(), token.clone()]);
        let tuples = [
            vec![],
            vec![token.clone(); 3],
            vec![none.clone()],
            vec![none.clone(), token.clone(), none.clone(), none.clone(), pair.clone()],
            vec![token, deep.clone(), pair, none, deep],
        ];
        for elements in tuples {
            let tuple = tuple(elements.clone());
            let mut walked = Vec::new();
            for (index, element) in elements.iter().enumerate() {
                assert_eq!(tuple.leaves_before(index), walked.len(), "{tuple:?} {index}");
                walked.extend((0..element.leaves().len()).map(|inside| (index, inside)));
            }
            assert_eq!(tuple.leaf_count(), walked.len(), "{tuple:?}");
            let found: Vec<_> = (0..walked.len()).map(|leaf| tuple.element_of_leaf(leaf)).collect();
            assert_eq!(found, walked.iter().copied().map(Some).collect::<Vec<_>>(), "{tuple:?}");
            assert_eq!(tuple.element_of_leaf(walked.len()), None, "{tuple:?}");
        }
    }
}
