//! Shapes: what an instruction yields.
//!
//! Source: the specification's «Shapes and layout». Dimensions are numbered from 0; their order says nothing of
//! memory, which is the [`Layout`]'s business. A dimension may be *bounded dynamic* (`f32[<=8]`): its size here is
//! the bound, the true size arrives at run time.

mod tuple;

pub use tuple::TupleShape;

use crate::index::elements;
use crate::{ElementType, Layout};
use std::fmt;

/// The shape of an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayShape {
    /// The element type.
    pub ty: ElementType,
    /// The size, or for a dynamic dimension the bound, of each dimension.
    pub dims: Vec<i64>,
    /// Which dimensions are bounded dynamic; as long as `dims`.
    pub dynamic: Vec<bool>,
    /// The layout, where the text gave one. `None` means row-major.
    pub layout: Option<Layout>,
}

impl ArrayShape {
    /// Whether all dimensions have the same sizes. Of scalars nothing is compared: an empty list points nowhere, and C libraries that
    /// compare with masks take the processor longer over no bytes that are nowhere than over hundreds that are somewhere.
    pub fn same_dims(&self, other: &ArrayShape) -> bool {
        self.rank() == other.rank() && (self.rank() == 0 || self.dims == other.dims)
    }

    /// A static, row-major array.
    pub fn new(ty: ElementType, dims: impl Into<Vec<i64>>) -> Self {
        let dims = dims.into();
        let dynamic = vec![false; dims.len()];
        ArrayShape { ty, dims, dynamic, layout: None }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements (at the bounds), or `None` where that overflows.
    pub fn checked_elements(&self) -> Option<usize> {
        elements(&self.dims)
    }

    /// Number of elements (at the bounds). Saturates; the parser and the builder refuse shapes that overflow.
    pub fn elements(&self) -> usize {
        self.checked_elements().unwrap_or(usize::MAX)
    }

    /// Bytes in the dense form, without padding. Saturates.
    pub fn byte_size(&self) -> usize {
        self.elements().saturating_mul(self.ty.byte_size())
    }

    /// True where any dimension is bounded dynamic.
    pub fn is_dynamic(&self) -> bool {
        self.dynamic.contains(&true)
    }

    /// The same dimensions with another element type and no layout.
    pub fn with_type(&self, ty: ElementType) -> Self {
        ArrayShape { ty, dims: self.dims.clone(), dynamic: self.dynamic.clone(), layout: None }
    }
}

/// Row-major strides, in elements, of an array with dimensions `dims`.
pub fn row_major_strides(dims: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i].saturating_mul(dims[i].max(1));
    }
    strides
}

/// The shape of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// An array.
    Array(ArrayShape),
    /// A tuple of values.
    Tuple(TupleShape),
    /// An ordering token.
    Token,
    /// A value the compiler knows nothing of.
    Opaque,
    /// A mutable buffer, `b(f32[2])`, holding an array.
    Buffer(ArrayShape),
}

impl Shape {
    /// A static, row-major array.
    pub fn array(ty: ElementType, dims: impl Into<Vec<i64>>) -> Shape {
        Shape::Array(ArrayShape::new(ty, dims))
    }

    /// A rank-0 array.
    pub fn scalar(ty: ElementType) -> Shape {
        Shape::array(ty, [])
    }

    /// A tuple of values.
    pub fn tuple(elements: impl Into<TupleShape>) -> Shape {
        Shape::Tuple(elements.into())
    }

    /// The array shape, where this is one.
    pub fn as_array(&self) -> Option<&ArrayShape> {
        match self {
            Shape::Array(a) => Some(a),
            _ => None,
        }
    }

    /// The elements of a tuple shape, where this is one.
    pub fn as_tuple(&self) -> Option<&[Shape]> {
        match self {
            Shape::Tuple(elements) => Some(elements),
            _ => None,
        }
    }

    /// The elements of a tuple shape; any other shape alone.
    pub fn parts(&self) -> &[Shape] {
        self.as_tuple().unwrap_or(std::slice::from_ref(self))
    }

    /// The leaf of that number, depth first, without a list of all.
    pub fn leaf(&self, number: usize) -> Option<&Shape> {
        let Shape::Tuple(elements) = self else { return (number == 0).then_some(self) };
        let (index, inside) = elements.element_of_leaf(number)?;
        elements[index].leaf(inside)
    }

    /// The leaves, depth first: every shape that is not a tuple.
    pub fn leaves(&self) -> Vec<&Shape> {
        let mut out = Vec::new();
        self.for_each_leaf(&mut |leaf| out.push(leaf));
        out
    }

    /// Number of leaves.
    pub fn leaf_count(&self) -> usize {
        match self {
            Shape::Tuple(elements) => elements.leaf_count(),
            _ => 1,
        }
    }

    /// Number of leaves of the elements before element `index` of a tuple: the number of that element's first leaf.
    pub fn leaves_before(&self, index: usize) -> usize {
        match self {
            Shape::Tuple(elements) => elements.leaves_before(index),
            _ => 0,
        }
    }

    fn for_each_leaf<'a>(&'a self, visit: &mut impl FnMut(&'a Shape)) {
        match self {
            Shape::Tuple(elements) => elements.iter().for_each(|e| e.for_each_leaf(visit)),
            leaf => visit(leaf),
        }
    }

    /// Equal in everything but layouts.
    pub fn same_ignoring_layout(&self, other: &Shape) -> bool {
        match (self, other) {
            (Shape::Array(a), Shape::Array(b)) | (Shape::Buffer(a), Shape::Buffer(b)) => {
                a.ty == b.ty && a.same_dims(b) && (a.rank() == 0 || a.dynamic == b.dynamic)
            }
            (Shape::Tuple(a), Shape::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.same_ignoring_layout(y))
            }
            (Shape::Token, Shape::Token) | (Shape::Opaque, Shape::Opaque) => true,
            _ => false,
        }
    }

    /// A copy without layouts.
    pub fn without_layout(&self) -> Shape {
        let strip = |a: &ArrayShape| ArrayShape { layout: None, ..a.clone() };
        match self {
            Shape::Array(a) => Shape::Array(strip(a)),
            Shape::Buffer(a) => Shape::Buffer(strip(a)),
            Shape::Tuple(elements) => Shape::Tuple(elements.iter().map(Shape::without_layout).collect()),
            other => other.clone(),
        }
    }
}

impl From<ArrayShape> for Shape {
    fn from(a: ArrayShape) -> Shape {
        Shape::Array(a)
    }
}

impl fmt::Display for ArrayShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.ty)?;
        for (i, (d, dynamic)) in self.dims.iter().zip(&self.dynamic).enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let bound = if *dynamic { "<=" } else { "" };
            write!(f, "{comma}{bound}{d}")?;
        }
        f.write_str("]")?;
        // `{}` alternate form omits layouts; a trivial rank-0 layout is never printed.
        match &self.layout {
            Some(layout) if !f.alternate() => write!(f, "{layout}"),
            _ => Ok(()),
        }
    }
}

/// Prints the form of HLO text; with `{:#}` layouts are left out.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Array(a) => fmt::Display::fmt(a, f),
            Shape::Buffer(a) => {
                f.write_str("b(")?;
                fmt::Display::fmt(a, f)?;
                f.write_str(")")
            }
            Shape::Token => f.write_str("token[]"),
            Shape::Opaque => f.write_str("opaque[]"),
            Shape::Tuple(elements) => {
                f.write_str("(")?;
                for (i, e) in elements.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    if i > 0 && i % 5 == 0 {
                        write!(f, "/*index={i}*/")?;
                    }
                    fmt::Display::fmt(e, f)?;
                }
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_checked() {
        assert_eq!(ArrayShape::new(ElementType::F32, [2, 3]).elements(), 6);
        assert_eq!(ArrayShape::new(ElementType::F32, [i64::MAX, 3]).checked_elements(), None);
        assert_eq!(ArrayShape::new(ElementType::F32, [i64::MAX, i64::MAX, 0]).checked_elements(), Some(0));
    }

    #[test]
    fn prints_as_hlo() {
        let a = Shape::array(ElementType::F32, [2, 3]);
        let t = Shape::tuple(vec![a, Shape::Token, Shape::scalar(ElementType::S4)]);
        assert_eq!(t.to_string(), "(f32[2,3], token[], s4[])");
        assert_eq!(t.leaf_count(), 3);
    }
}
