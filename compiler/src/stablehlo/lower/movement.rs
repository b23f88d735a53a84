//! Operations that move elements, their forms with sizes as operands included.

use super::body::Body;
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, InstructionId, Opcode, PaddingDimension, SliceRange};
use crate::shape::check_shape;
use crate::stablehlo::ir::{Attribute, Operation};
use brolga_runtime::{ArrayShape, ElementType, Literal, Shape};
use std::sync::Arc;

fn dimensions(list: Vec<i64>) -> Attrs {
    Attrs::new().with(AttrKey::Dimensions, AttrValue::Ints(list))
}

impl<'p> Body<'_, 'p> {
    pub fn movement(&mut self, op: &'p Operation, short: &str) -> Result<Option<InstructionId>> {
        let id = match short {
            "reshape" => {
                let [operand] = self.operands(op)?;
                let shape = self.known_shape(op, 0)?;
                self.emit(Opcode::Reshape, &[operand], Attrs::new(), Some(shape))?
            }
            "dynamic_reshape" => {
                let [operand, sizes] = self.operands(op)?;
                // A result with bounds has its sizes when the program runs.
                if let Some(Shape::Array(bounded)) = self.declared(op, 0)?
                    && bounded.is_dynamic()
                {
                    let mut operands = vec![operand];
                    operands.extend(self.elements(sizes, bounded.rank())?);
                    let shape = Some(Shape::Array(bounded));
                    return self.emit(Opcode::DynamicReshape, &operands, Attrs::new(), shape).map(Some);
                }
                let dims = self.ints_of(sizes)?;
                let shape = self.checked(op, dims)?;
                self.emit(Opcode::Reshape, &[operand], Attrs::new(), Some(Shape::Array(shape)))?
            }
            "broadcast_in_dim" => {
                let [operand] = self.operands(op)?;
                let shape = self.known_array(op, 0)?;
                let dims = self.ints(op, "broadcast_dimensions")?;
                self.broadcast_in_dim(operand, &dims, shape)?
            }
            "dynamic_broadcast_in_dim" => {
                let [operand, sizes] = self.operands(op)?;
                let sizes = self.ints_of(sizes)?;
                let shape = self.checked(op, sizes)?;
                let dims = self.ints(op, "broadcast_dimensions")?;
                self.broadcast_in_dim(operand, &dims, shape)?
            }
            "broadcast" => {
                let [operand] = self.operands(op)?;
                let array = self.array(operand)?;
                let mut sizes = self.ints(op, "broadcast_sizes")?;
                let first = sizes.len() as i64;
                sizes.extend(&array.dims);
                let dims: Vec<i64> = (first..sizes.len() as i64).collect();
                let shape = self.checked(op, sizes)?;
                self.broadcast(operand, &dims, shape)?
            }
            "transpose" => {
                let [operand] = self.operands(op)?;
                self.emit(Opcode::Transpose, &[operand], dimensions(self.ints(op, "permutation")?), None)?
            }
            "reverse" => {
                let [operand] = self.operands(op)?;
                self.emit(Opcode::Reverse, &[operand], dimensions(self.ints(op, "dimensions")?), None)?
            }
            "concatenate" => {
                let operands = self.all_operands(op)?;
                self.emit(Opcode::Concatenate, &operands, dimensions(vec![self.int(op, "dimension")?]), None)?
            }
            "slice" => {
                let [operand] = self.operands(op)?;
                let starts = self.ints(op, "start_indices")?;
                let limits = self.ints(op, "limit_indices")?;
                let strides = self.ints(op, "strides")?;
                self.sliced(operand, &starts, &limits, &strides)?
            }
            "real_dynamic_slice" => {
                let [operand, starts, limits, strides] = self.operands(op)?;
                let strides = self.ints_of(strides)?;
                match self.offset_from(limits, starts) {
                    Some(sizes) if self.fold(starts).is_none() => {
                        let cut = self.cut_at(operand, starts, &sizes)?;
                        self.sliced(cut, &vec![0; sizes.len()], &sizes, &strides)?
                    }
                    _ => {
                        let (starts, limits) = (self.ints_of(starts)?, self.ints_of(limits)?);
                        self.sliced(operand, &starts, &limits, &strides)?
                    }
                }
            }
            "dynamic_slice" => {
                let operands = self.all_operands(op)?;
                let sizes = AttrValue::Ints(self.ints(op, "slice_sizes")?);
                let attrs = Attrs::new().with(AttrKey::DynamicSliceSizes, sizes);
                self.emit(Opcode::DynamicSlice, &operands, attrs, None)?
            }
            "dynamic_update_slice" => {
                let operands = self.all_operands(op)?;
                self.op(Opcode::DynamicUpdateSlice, &operands)?
            }
            "pad" => {
                let [operand, value] = self.operands(op)?;
                let low = self.ints(op, "edge_padding_low")?;
                let high = self.ints(op, "edge_padding_high")?;
                let interior = self.ints(op, "interior_padding")?;
                self.padded(operand, value, &low, &high, &interior)?
            }
            "dynamic_pad" => {
                let [operand, value, low, high, interior] = self.operands(op)?;
                let (low, high) = (self.ints_of(low)?, self.ints_of(high)?);
                let interior = self.ints_of(interior)?;
                self.padded(operand, value, &low, &high, &interior)?
            }
            "iota" => {
                let shape = self.known_array(op, 0)?;
                self.iota(shape, self.int(op, "iota_dimension")?)?
            }
            "dynamic_iota" => {
                let [sizes] = self.operands(op)?;
                let sizes = self.ints_of(sizes)?;
                let shape = self.checked(op, sizes)?;
                self.iota(shape, self.int(op, "iota_dimension")?)?
            }
            "bitcast_convert" => {
                let [operand] = self.operands(op)?;
                let to = self.result_element(op, 0)?;
                let shape = self.bitcast_shape(operand, to)?;
                self.emit(Opcode::BitcastConvert, &[operand], Attrs::new(), Some(Shape::Array(shape)))?
            }
            "get_dimension_size" => {
                let [operand] = self.operands(op)?;
                let dimension = self.int(op, "dimension")?;
                self.dimension_size(operand, dimension)?
            }
            "set_dimension_size" => {
                let [operand, size] = self.operands(op)?;
                let attrs = dimensions(vec![self.int(op, "dimension")?]);
                self.emit(Opcode::SetDimensionSize, &[operand, size], attrs, None)?
            }
            "gather" => {
                let operands: [InstructionId; 2] = self.operands(op)?;
                let sizes = self.ints(op, "slice_sizes")?;
                self.gathered(op, operands, sizes)?
            }
            "dynamic_gather" => {
                let [operand, indices, sizes] = self.operands(op)?;
                let sizes = self.ints_of(sizes)?;
                self.gathered(op, [operand, indices], sizes)?
            }
            "torch_index_select" => self.index_select(op)?,
            _ => return Ok(None),
        };
        Ok(Some(id))
    }

    /// The shape of a result whose sizes must be fixed, because no operand says them.
    pub fn known_shape(&self, op: &Operation, k: usize) -> Result<Shape> {
        self.declared(op, k)?.ok_or_else(|| self.unsupported(format!("{} with a result of open size", op.name)))
    }

    fn known_array(&self, op: &Operation, k: usize) -> Result<ArrayShape> {
        match self.known_shape(op, k)? {
            Shape::Array(a) => Ok(a),
            other => Err(self.invalid("result.shape", format!("expected a tensor, found {other:#}"))),
        }
    }

    /// The array of the first result's element type and the given sizes.
    pub fn checked(&self, op: &Operation, dims: Vec<i64>) -> Result<ArrayShape> {
        let shape = ArrayShape::new(self.result_element(op, 0)?, dims);
        check_shape(&Shape::Array(shape.clone())).map_err(|e| self.broken(e))?;
        Ok(shape)
    }

    /// StableHLO's broadcast, in which a size of one becomes any size.
    pub fn broadcast_in_dim(
        &mut self,
        operand: InstructionId,
        dims: &[i64],
        shape: ArrayShape,
    ) -> Result<InstructionId> {
        let array = self.array(operand)?;
        if dims.len() != array.rank() {
            let message = format!("expected {} broadcast dimensions, found {}", array.rank(), dims.len());
            return Err(self.invalid("broadcast.dimensions", message));
        }
        let (mut kept_sizes, mut kept_dims) = (Vec::new(), Vec::new());
        for (&d, &n) in dims.iter().zip(&array.dims) {
            let size = usize::try_from(d).ok().and_then(|d| shape.dims.get(d));
            let Some(&size) = size else {
                let message = format!("expected dimensions below {}, found {d}", shape.rank());
                return Err(self.invalid("broadcast.dimensions", message));
            };
            if n != 1 || size == 1 {
                kept_sizes.push(n);
                kept_dims.push(d);
            }
        }
        // The dimension numbers must be distinct and, in HLO, ascend.
        let mut distinct = dims.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() != dims.len() {
            return Err(self.invalid("broadcast.dimensions", "expected each broadcast dimension once"));
        }
        let operand = if kept_sizes.len() == array.rank() { operand } else { self.reshape(operand, &kept_sizes)? };
        let mut order: Vec<usize> = (0..kept_dims.len()).collect();
        order.sort_by_key(|&k| kept_dims.get(k));
        if order.is_sorted() {
            return self.broadcast(operand, &kept_dims, shape);
        }
        let permutation = order.iter().map(|&k| k as i64).collect();
        let operand = self.emit(Opcode::Transpose, &[operand], dimensions(permutation), None)?;
        kept_dims.sort_unstable();
        self.broadcast(operand, &kept_dims, shape)
    }

    fn sliced(
        &mut self,
        operand: InstructionId,
        starts: &[i64],
        limits: &[i64],
        strides: &[i64],
    ) -> Result<InstructionId> {
        if starts.len() != limits.len() || starts.len() != strides.len() {
            return Err(self.invalid("slice.rank", "expected as many starts as limits and strides"));
        }
        let ranges = starts.iter().zip(limits).zip(strides);
        let ranges = ranges.map(|((&start, &limit), &stride)| SliceRange { start, limit, stride }).collect();
        let attrs = Attrs::new().with(AttrKey::Slice, AttrValue::SliceRanges(ranges));
        self.emit(Opcode::Slice, &[operand], attrs, None)
    }

    /// What must be added to one value to get another, where the program says it so.
    fn offset_from(&mut self, sum: InstructionId, base: InstructionId) -> Option<Vec<i64>> {
        let instruction = &self.graph.instructions[sum];
        let other = match instruction.operands[..] {
            [a, b] if instruction.opcode == Opcode::Add && a == base => b,
            [a, b] if instruction.opcode == Opcode::Add && b == base => a,
            _ => return None,
        };
        self.ints_of(other).ok()
    }

    /// The part of known sizes that starts where a list of numbers says. Starts that reach too far are undefined in StableHLO; here
    /// they are moved back, as those of dynamic-slice are.
    fn cut_at(&mut self, operand: InstructionId, starts: InstructionId, sizes: &[i64]) -> Result<InstructionId> {
        let mut operands = vec![operand];
        operands.extend(self.elements(starts, sizes.len())?);
        let attrs = Attrs::new().with(AttrKey::DynamicSliceSizes, AttrValue::Ints(sizes.to_vec()));
        self.emit(Opcode::DynamicSlice, &operands, attrs, None)
    }

    /// The elements of a list, each as a scalar.
    fn elements(&mut self, list: InstructionId, count: usize) -> Result<Vec<InstructionId>> {
        let mut out = Vec::with_capacity(count);
        for k in 0..count as i64 {
            let one = self.sliced(list, &[k], &[k + 1], &[1])?;
            out.push(self.reshape(one, &[])?);
        }
        Ok(out)
    }

    fn padded(
        &mut self,
        operand: InstructionId,
        value: InstructionId,
        low: &[i64],
        high: &[i64],
        interior: &[i64],
    ) -> Result<InstructionId> {
        if low.len() != high.len() || low.len() != interior.len() {
            return Err(self.invalid("pad.rank", "expected as many low amounts as high and interior ones"));
        }
        let dims = low.iter().zip(high).zip(interior);
        let dims = dims.map(|((&low, &high), &interior)| PaddingDimension { low, high, interior }).collect();
        let attrs = Attrs::new().with(AttrKey::Padding, AttrValue::Padding(dims));
        self.emit(Opcode::Pad, &[operand, value], attrs, None)
    }

    pub fn iota(&mut self, shape: ArrayShape, dimension: i64) -> Result<InstructionId> {
        let attrs = Attrs::new().with(AttrKey::IotaDimension, AttrValue::Int(dimension));
        self.emit(Opcode::Iota, &[], attrs, Some(Shape::Array(shape)))
    }

    /// The shape of the same bits in elements of another type: the last dimension makes up for the width.
    fn bitcast_shape(&self, operand: InstructionId, to: ElementType) -> Result<ArrayShape> {
        let from = self.array(operand)?;
        let (a, b) = (from.ty.bits(), to.bits());
        let mut dims = from.dims.clone();
        let mut dynamic = from.dynamic.clone();
        if a > b {
            dims.push(i64::from(a / b.max(1)));
            dynamic.push(false);
        } else if a < b {
            dims.pop();
            dynamic.pop();
        }
        Ok(ArrayShape { ty: to, dims, dynamic, layout: None })
    }

    fn dimension_size(&mut self, operand: InstructionId, dimension: i64) -> Result<InstructionId> {
        let array = self.array(operand)?;
        let d = usize::try_from(dimension).ok().filter(|&d| d < array.rank());
        match d.and_then(|d| Some((*array.dims.get(d)?, *array.dynamic.get(d)?))) {
            Some((size, false)) => {
                let size = i32::try_from(size)
                    .map_err(|_| self.unsupported("the size of a dimension that does not fit 32 bits"))?;
                self.literal(Arc::new(Literal::scalar(size)))
            }
            _ => self.emit(Opcode::GetDimensionSize, &[operand], dimensions(vec![dimension]), None),
        }
    }

    fn gathered(&mut self, op: &'p Operation, operands: [InstructionId; 2], sizes: Vec<i64>) -> Result<InstructionId> {
        let Attribute::Gather(dims) = self.attribute(op, "dimension_numbers")? else {
            return Err(self.invalid("attribute.kind", "expected #stablehlo.gather<...> as dimension_numbers"));
        };
        let mut attrs = Attrs::new()
            .with(AttrKey::OffsetDims, AttrValue::Ints(dims.offset_dims.clone()))
            .with(AttrKey::CollapsedSliceDims, AttrValue::Ints(dims.collapsed_slice_dims.clone()))
            .with(AttrKey::StartIndexMap, AttrValue::Ints(dims.start_index_map.clone()))
            .with(AttrKey::IndexVectorDim, AttrValue::Int(dims.index_vector_dim))
            .with(AttrKey::SliceSizes, AttrValue::Ints(sizes));
        if !dims.operand_batching_dims.is_empty() || !dims.start_indices_batching_dims.is_empty() {
            attrs.set(AttrKey::OperandBatchingDims, AttrValue::Ints(dims.operand_batching_dims.clone()));
            attrs.set(AttrKey::StartIndicesBatchingDims, AttrValue::Ints(dims.start_indices_batching_dims.clone()));
        }
        if self.bool_or(op, "indices_are_sorted", false)? {
            attrs.set(AttrKey::IndicesAreSorted, AttrValue::Bool(true));
        }
        self.emit(Opcode::Gather, &operands, attrs, None)
    }

    /// `torch_index_select` without batch dimensions.
    fn index_select(&mut self, op: &'p Operation) -> Result<InstructionId> {
        let [operand, index] = self.operands(op)?;
        let dim = self.int(op, "dim")?;
        if self.int_or(op, "batch_dims", 0)? != 0 {
            return Err(self.unsupported("torch_index_select with batch dimensions"));
        }
        let (array, indices) = (self.array(operand)?, self.array(index)?);
        let (rank, count) = (array.rank() as i64, indices.rank() as i64);
        if !(0..rank).contains(&dim) {
            return Err(self.invalid("torch_index_select.dim", format!("expected a dimension below {rank}")));
        }
        let offset: Vec<i64> = (0..dim).chain(dim + count..rank - 1 + count).collect();
        let mut sizes = array.dims.clone();
        if let Some(size) = sizes.get_mut(dim as usize) {
            *size = 1;
        }
        let attrs = Attrs::new()
            .with(AttrKey::OffsetDims, AttrValue::Ints(offset))
            .with(AttrKey::CollapsedSliceDims, AttrValue::Ints(vec![dim]))
            .with(AttrKey::StartIndexMap, AttrValue::Ints(vec![dim]))
            .with(AttrKey::IndexVectorDim, AttrValue::Int(count))
            .with(AttrKey::SliceSizes, AttrValue::Ints(sizes));
        self.emit(Opcode::Gather, &[operand, index], attrs, None)
    }
}
