//! Operations that move elements.

use super::body::{Body, Frame, Repr, dictionary};
use super::{attributes, only, unsupported};
use crate::error::Result;
use crate::hlo::{AttrKey, Instruction, inverse};
use crate::stablehlo::ir::{Attribute, Dictionary, GatherDims, Value};
use brolga_runtime::{ArrayShape, ElementType, Shape};

impl Body<'_, '_> {
    /// An operation that has HLO's `dimensions` under another name.
    pub fn over(&mut self, frame: &Frame<'_>, i: &Instruction, name: &str, attribute: &str) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        let list = Attribute::ints(i.attrs.ints_or_empty(AttrKey::Dimensions));
        self.one(i, name, operands, dictionary([(attribute, list)]))
    }

    /// An operation along one dimension.
    pub fn along(&mut self, frame: &Frame<'_>, i: &Instruction, name: &str) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        let dimension = i.attrs.ints_or_empty(AttrKey::Dimensions).first().copied().unwrap_or_default();
        self.one(i, name, operands, dictionary([("dimension", Attribute::int(dimension))]))
    }

    pub fn concatenation(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let mut operands = self.all_leaves(frame, i)?;
        if let Some(to) = i.shape.as_array() {
            for operand in &mut operands {
                *operand = self.rounded(*operand, to.ty)?;
            }
        }
        let dimension = i.attrs.ints_or_empty(AttrKey::Dimensions).first().copied().unwrap_or_default();
        self.one(i, "stablehlo.concatenate", operands, dictionary([("dimension", Attribute::int(dimension))]))
    }

    pub fn broadcast(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let operand = self.leaf(frame, i, 0)?;
        let dims = Attribute::ints(i.attrs.ints_or_empty(AttrKey::Dimensions));
        self.one(i, "stablehlo.broadcast_in_dim", vec![operand], dictionary([("broadcast_dimensions", dims)]))
    }

    /// The bytes in memory under another shape: the operand in the order in which it lies, reshaped, and put in the order of the
    /// result.
    pub fn bitcast(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let from = self.array(frame, i, 0)?.clone();
        let Shape::Array(to) = &i.shape else { return Err(unsupported(i, "a result that is no array")) };
        if from.ty.bits() != to.ty.bits() || from.ty.is_complex() != to.ty.is_complex() {
            return Err(unsupported(i, "element types of different sizes"));
        }
        let mut value = self.leaf(frame, i, 0)?;
        value = self.transposed(i, value, from.ty, &from.dims, &order(&from))?;
        if from.ty != to.ty {
            let shape = ArrayShape::new(to.ty, order(&from).iter().map(|&d| from.dims[d]).collect::<Vec<_>>());
            let ty = self.type_of(i, &Shape::Array(shape))?;
            value = only(&self.helper("stablehlo.bitcast_convert", vec![value], Dictionary::new(), vec![ty]))?;
        }
        let order = order(to);
        let physical: Vec<i64> = order.iter().map(|&d| to.dims[d]).collect();
        value = self.reshaped(value, to, physical.clone())?;
        self.transposed(i, value, to.ty, &physical, &inverse(&order)).map(Repr::Value)
    }

    fn transposed(
        &mut self,
        i: &Instruction,
        value: Value,
        ty: ElementType,
        dims: &[i64],
        order: &[usize],
    ) -> Result<Value> {
        if order.is_sorted() {
            return Ok(value);
        }
        let shape = ArrayShape::new(ty, order.iter().map(|&d| dims[d]).collect::<Vec<_>>());
        let ty = self.type_of(i, &Shape::Array(shape))?;
        let permutation: Vec<i64> = order.iter().map(|&d| d as i64).collect();
        let attributes = dictionary([("permutation", Attribute::ints(permutation))]);
        only(&self.helper("stablehlo.transpose", vec![value], attributes, vec![ty]))
    }

    /// Sizes that are scalars become one vector.
    pub fn dynamic_reshape(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        let Some((&operand, sizes)) = operands.split_first() else { return Err(unsupported(i, "no operand")) };
        let mut parts = Vec::new();
        for (k, &size) in sizes.iter().enumerate() {
            let array = self.array(frame, i, k + 1)?.clone();
            parts.push(if array.rank() == 0 { self.reshaped(size, &array, vec![1])? } else { size });
        }
        let ty = match sizes.first() {
            Some(_) => self.array(frame, i, 1)?.ty,
            None => return Err(unsupported(i, "no sizes")),
        };
        let vector = match parts[..] {
            [one] => one,
            _ => {
                let shape = ArrayShape::new(ty, vec![parts.len() as i64]);
                let ty = self.type_of(i, &Shape::Array(shape))?;
                let attributes = dictionary([("dimension", Attribute::int(0))]);
                only(&self.helper("stablehlo.concatenate", parts, attributes, vec![ty]))?
            }
        };
        self.one(i, "stablehlo.dynamic_reshape", vec![operand, vector], Dictionary::new())
    }

    /// Start indices from operand `first` on: HLO also takes them as one vector.
    fn start_indices(&mut self, frame: &Frame<'_>, i: &Instruction, first: usize) -> Result<Vec<Value>> {
        let rank = self.array(frame, i, 0)?.rank();
        let vector = match i.operands.len() - first {
            1 => Some(self.array(frame, i, first)?.clone()).filter(|a| a.rank() == 1),
            _ => None,
        };
        let Some(vector) = vector else { return (first..i.operands.len()).map(|k| self.leaf(frame, i, k)).collect() };
        let value = self.leaf(frame, i, first)?;
        let mut out = Vec::new();
        for k in 0..rank as i64 {
            let part = ArrayShape::new(vector.ty, [1]);
            let ty = self.type_of(i, &Shape::Array(part.clone()))?;
            let attributes = dictionary([
                ("start_indices", Attribute::ints([k])),
                ("limit_indices", Attribute::ints([k + 1])),
                ("strides", Attribute::ints([1])),
            ]);
            let slice = only(&self.helper("stablehlo.slice", vec![value], attributes, vec![ty]))?;
            out.push(self.reshaped(slice, &part, Vec::new())?);
        }
        Ok(out)
    }

    pub fn dynamic_slice(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let mut operands = vec![self.leaf(frame, i, 0)?];
        operands.extend(self.start_indices(frame, i, 1)?);
        let sizes = Attribute::ints(i.attrs.ints_or_empty(AttrKey::DynamicSliceSizes));
        self.one(i, "stablehlo.dynamic_slice", operands, dictionary([("slice_sizes", sizes)]))
    }

    pub fn dynamic_update_slice(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let (operand, update) = (self.leaf(frame, i, 0)?, self.leaf(frame, i, 1)?);
        let mut operands = vec![operand, update];
        if let Some(to) = i.shape.as_array() {
            operands = vec![self.rounded(operand, to.ty)?, self.rounded(update, to.ty)?];
        }
        operands.extend(self.start_indices(frame, i, 2)?);
        self.one(i, "stablehlo.dynamic_update_slice", operands, Dictionary::new())
    }

    pub fn gather(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        let list = |key| i.attrs.ints_or_empty(key).to_vec();
        let dims = GatherDims {
            offset_dims: list(AttrKey::OffsetDims),
            collapsed_slice_dims: list(AttrKey::CollapsedSliceDims),
            operand_batching_dims: list(AttrKey::OperandBatchingDims),
            start_indices_batching_dims: list(AttrKey::StartIndicesBatchingDims),
            start_index_map: list(AttrKey::StartIndexMap),
            index_vector_dim: i.attrs.int(AttrKey::IndexVectorDim).unwrap_or_default(),
        };
        let attributes = dictionary([
            ("dimension_numbers", Attribute::Gather(Box::new(dims))),
            ("slice_sizes", Attribute::ints(list(AttrKey::SliceSizes))),
            ("indices_are_sorted", Attribute::Bool(i.attrs.bool(AttrKey::IndicesAreSorted).unwrap_or(false))),
        ]);
        self.one(i, "stablehlo.gather", operands, attributes)
    }

    pub fn pad(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let mut operands = self.all_leaves(frame, i)?;
        if let Some(to) = i.shape.as_array() {
            for operand in &mut operands {
                *operand = self.rounded(*operand, to.ty)?;
            }
        }
        let dims = i.attrs.padding(AttrKey::Padding).unwrap_or_default();
        let attributes = dictionary([
            ("edge_padding_low", Attribute::ints(dims.iter().map(|d| d.low).collect::<Vec<_>>())),
            ("edge_padding_high", Attribute::ints(dims.iter().map(|d| d.high).collect::<Vec<_>>())),
            ("interior_padding", Attribute::ints(dims.iter().map(|d| d.interior).collect::<Vec<_>>())),
        ]);
        self.one(i, "stablehlo.pad", operands, attributes)
    }

    pub fn slice(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let operand = self.leaf(frame, i, 0)?;
        let dims = i.attrs.slice_ranges(AttrKey::Slice).unwrap_or_default();
        let attributes = dictionary([
            ("start_indices", Attribute::ints(dims.iter().map(|d| d.start).collect::<Vec<_>>())),
            ("limit_indices", Attribute::ints(dims.iter().map(|d| d.limit).collect::<Vec<_>>())),
            ("strides", Attribute::ints(dims.iter().map(|d| d.stride).collect::<Vec<_>>())),
        ]);
        self.one(i, "stablehlo.slice", vec![operand], attributes)
    }

    /// Part of an array along one dimension.
    pub fn cut(
        &mut self,
        i: &Instruction,
        value: Value,
        whole: &ArrayShape,
        at: usize,
        from: i64,
        to: i64,
    ) -> Result<Value> {
        let (mut start, mut limit) = (vec![0; whole.rank()], whole.dims.clone());
        if let (Some(start), Some(limit)) = (start.get_mut(at), limit.get_mut(at)) {
            (*start, *limit) = (from, to);
        }
        let dims: Vec<i64> = limit.iter().zip(&start).map(|(l, s)| l - s).collect();
        let ty = self.type_of(i, &Shape::Array(ArrayShape::new(whole.ty, dims)))?;
        let attributes = dictionary([
            ("start_indices", Attribute::ints(start)),
            ("limit_indices", Attribute::ints(limit)),
            ("strides", Attribute::ints(vec![1; whole.rank()])),
        ]);
        only(&self.helper("stablehlo.slice", vec![value], attributes, vec![ty]))
    }
}

/// Dimension numbers from the slowest-varying to the fastest.
fn order(array: &ArrayShape) -> Vec<usize> {
    match &array.layout {
        Some(layout) if attributes::is_permutation(&layout.minor_to_major, array.rank()) => {
            layout.minor_to_major.iter().rev().copied().collect()
        }
        _ => (0..array.rank()).collect(),
    }
}
