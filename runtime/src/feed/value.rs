//! Values in a queue, and what their shapes must be.

use super::FeedError;
use crate::abi::{Leaf, leaf_byte_size};
use crate::program::memory::{load, store};
use crate::{ArrayLiteral, ArrayShape, Layout, Literal, Shape};

/// A value on its way: an array, or a tuple of arrays.
///
/// Made from a literal it has no layout, and fits wherever its shape does. Made from memory it has the layout that the
/// memory came in, and whoever expects another one refuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedValue {
    literal: Literal,
    stated: Option<Shape>,
}

impl From<Literal> for FeedValue {
    fn from(literal: Literal) -> FeedValue {
        FeedValue { literal, stated: None }
    }
}

impl From<ArrayLiteral> for FeedValue {
    fn from(array: ArrayLiteral) -> FeedValue {
        FeedValue::from(Literal::Array(array))
    }
}

impl FeedValue {
    /// A value from the memory of its arrays, in the layouts that `shape` names: row-major where it names none. As at
    /// the interface of compiled programs, a bounded dynamic array has its sizes behind the elements.
    ///
    /// # Errors
    /// Where the memory does not fit the shape, or its layout cannot be read.
    pub fn from_bytes(shape: &Shape, parts: &[&[u8]]) -> Result<FeedValue, FeedError> {
        check_shape(shape)?;
        let arrays = arrays(shape);
        if arrays.len() != parts.len() {
            let message = format!("{} arrays for a value of shape {shape:#}", parts.len());
            return Err(FeedError::Nested(message));
        }
        let mut literals = Vec::with_capacity(parts.len());
        for (part, (array, bytes)) in arrays.iter().zip(parts).enumerate() {
            let leaf = leaf(array)?;
            if leaf.byte_size() != bytes.len() as u64 {
                let (expected, found) = (leaf.byte_size(), bytes.len() as u64);
                return Err(FeedError::Bytes { part, shape: format!("{shape:#}"), expected, found });
            }
            let literal = load(part, &leaf, bytes).map_err(|e| FeedError::Unsupported(e.to_string()))?;
            literals.push(Literal::Array(literal));
        }
        let literal = match shape {
            Shape::Tuple(_) => Literal::Tuple(literals),
            _ => literals.pop().ok_or_else(|| FeedError::Nested(shape.to_string()))?,
        };
        Ok(FeedValue { literal, stated: Some(shape.clone()) })
    }

    /// A value whose arrays have the layouts that `shape` names.
    ///
    /// # Errors
    /// Where the value has another shape.
    pub fn with_shape(shape: &Shape, literal: Literal) -> Result<FeedValue, FeedError> {
        check_shape(shape)?;
        if !fits(shape, &literal) {
            return Err(FeedError::shape(shape, &literal.shape()));
        }
        Ok(FeedValue { literal, stated: Some(shape.clone()) })
    }

    /// The value itself; it is row-major, as literals are.
    pub fn literal(&self) -> &Literal {
        &self.literal
    }

    /// The value itself.
    pub fn into_literal(self) -> Literal {
        self.literal
    }

    /// The shape, with the layouts that the value came with or was made for.
    pub fn shape(&self) -> Shape {
        self.stated.clone().unwrap_or_else(|| self.literal.shape())
    }

    /// The memory of array `part`, in the layout that the shape names.
    ///
    /// # Errors
    /// Where there is no such array, or its layout cannot be written.
    pub fn bytes(&self, part: usize) -> Result<Vec<u8>, FeedError> {
        let shape = self.shape();
        let missing = || FeedError::Nested(format!("an array {part} of {shape:#}"));
        let array = *arrays(&shape).get(part).ok_or_else(missing)?;
        let literal = *self.literal.arrays().get(part).ok_or_else(missing)?;
        let leaf = leaf(array)?;
        crate::room_for(leaf.byte_size()).map_err(|e| FeedError::Unsupported(e.to_string()))?;
        let mut out = vec![0; usize::try_from(leaf.byte_size()).map_err(|_| missing())?];
        store(&leaf, literal, &mut out).map_err(|e| FeedError::Unsupported(e.to_string()))?;
        Ok(out)
    }

    /// Whether whoever expects `shape` may have this value.
    pub(super) fn check(&self, shape: &Shape) -> Result<(), FeedError> {
        if !fits(shape, &self.literal) {
            return Err(FeedError::shape(shape, &self.literal.shape()));
        }
        match &self.stated {
            Some(stated) if !same_layouts(shape, stated) => {
                Err(FeedError::Layout { expected: with_layouts(shape), found: with_layouts(stated) })
            }
            _ => Ok(()),
        }
    }
}

/// The leaf of an array whose size does not overflow and whose layout is an order of the dimensions.
fn leaf(array: &ArrayShape) -> Result<Leaf, FeedError> {
    let tiled = array.layout.as_ref().is_some_and(|l| !l.tiles.is_empty());
    if tiled || !array.has_valid_layout() || leaf_byte_size(array).is_none() {
        return Err(FeedError::Unsupported(format!("memory in the form of {array}")));
    }
    Ok(Leaf::new(array.clone()))
}

/// Feeds carry arrays and flat tuples of arrays.
pub(super) fn check_shape(shape: &Shape) -> Result<(), FeedError> {
    let fine = match shape {
        Shape::Array(_) => true,
        Shape::Tuple(elements) => elements.iter().all(|e| matches!(e, Shape::Array(_))),
        _ => false,
    };
    if fine { Ok(()) } else { Err(FeedError::Nested(format!("{shape:#}"))) }
}

fn arrays(shape: &Shape) -> Vec<&ArrayShape> {
    shape.leaves().into_iter().filter_map(Shape::as_array).collect()
}

/// Whether a value has a shape; a bounded dynamic dimension takes any size up to its bound.
pub(super) fn fits(shape: &Shape, value: &Literal) -> bool {
    match (shape, value) {
        (Shape::Array(s), Literal::Array(a)) => {
            let sizes = s.dims.iter().zip(&s.dynamic).zip(a.dims());
            s.ty == a.ty()
                && s.rank() == a.dims().len()
                && sizes.into_iter().all(|((&d, &dynamic), &n)| n == d || dynamic && n < d)
        }
        (Shape::Tuple(shapes), Literal::Tuple(values)) => {
            shapes.len() == values.len() && shapes.iter().zip(values).all(|(s, v)| fits(s, v))
        }
        _ => false,
    }
}

fn same_layouts(a: &Shape, b: &Shape) -> bool {
    let (a, b) = (arrays(a), arrays(b));
    let padding = |array: &ArrayShape| array.is_padded().then(|| array.widths().to_vec());
    let same = |a: &ArrayShape, b: &ArrayShape| a.minor_to_major() == b.minor_to_major() && padding(a) == padding(b);
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| same(a, b))
}

/// The shape with every layout spelled out, for messages.
fn with_layouts(shape: &Shape) -> String {
    let spell = |array: &ArrayShape| {
        let layout = array.layout.clone().unwrap_or_else(|| Layout::row_major(array.rank()));
        format!("{array:#}{layout}")
    };
    let parts: Vec<String> = arrays(shape).into_iter().map(spell).collect();
    match shape {
        Shape::Tuple(_) => format!("({})", parts.join(", ")),
        _ => parts.join(", "),
    }
}
