//! Reductions, windows, scans and maps.
//!
//! Elements are taken in row-major order. A reduction whose computation is a plain addition of floats is summed in
//! `f64` and rounded once at the end; every other one rounds wherever its computation does.

use super::index::{advance, product, try_walk};
use super::movement::indices;
use super::region::Region;
use super::{Context, array, elementwise, execution, invalid, new_array, unsupported};
use crate::Result;
use crate::hlo::{AttrKey, Instruction, Opcode, WindowDimension};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Scalar, Shape, row_major_strides};

pub(super) fn op(cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    match inst.opcode {
        Opcode::Reduce => reduce(cx, inst, operands),
        Opcode::ReduceWindow => reduce_window(cx, inst, operands),
        Opcode::SelectAndScatter => select_and_scatter(cx, inst, operands),
        Opcode::Scan => scan(cx, inst, operands),
        Opcode::Map => map(cx, inst, operands),
        opcode => Err(unsupported(inst, format!("'{opcode}' as a reduction"))),
    }
}

/// A reducer applied to running values, which are as many as the arrays reduced together.
struct Reducer<'c, 'm> {
    region: Region<'c, 'm>,
    /// Where one operation is all there is to it: which, and the type to round to at each step, if any.
    plain: Option<(Opcode, ElementType, bool)>,
    arguments: Vec<Scalar>,
    results: Vec<Scalar>,
}

impl<'c, 'm> Reducer<'c, 'm> {
    fn new(cx: &'c Context<'m>, inst: &Instruction, key: AttrKey) -> Result<Self> {
        let computation =
            inst.attrs.computation(key).ok_or_else(|| invalid(inst, format!("'{}' is missing", key.name())))?;
        let region = cx.region(computation);
        let plain = region.plain().map(|(op, ty)| (op, ty, op != Opcode::Add || !(ty.is_float() || ty.is_complex())));
        Ok(Reducer { region, plain, arguments: Vec::new(), results: Vec::new() })
    }

    /// Rounds sums of types narrower than `f32` at each step, too.
    fn rounding_each_step(mut self) -> Self {
        if let Some((_, ty, round)) = &mut self.plain {
            *round |= ty.is_narrow_float();
        }
        self
    }

    /// One value taken into one running value.
    fn step_one(&mut self, accumulator: &mut Scalar, value: Scalar) -> Result<()> {
        if let Some((op, ty, round)) = self.plain {
            let combined = if round {
                elementwise::combine(op, *accumulator, value, ty)
            } else {
                elementwise::combine_exactly(op, *accumulator, value, ty)
            };
            if let Some(combined) = combined {
                *accumulator = combined;
                return Ok(());
            }
        }
        *accumulator = self.region.eval_one(&[*accumulator, value])?;
        Ok(())
    }

    /// Values, one an array, taken into running values.
    fn step(&mut self, inst: &Instruction, accumulators: &mut [Scalar], values: &[Scalar]) -> Result<()> {
        if let ([accumulator], [value]) = (&mut *accumulators, values) {
            return self.step_one(accumulator, *value);
        }
        self.arguments.clear();
        self.arguments.extend_from_slice(accumulators);
        self.arguments.extend_from_slice(values);
        self.region.eval_into(&self.arguments, &mut self.results)?;
        if self.results.len() != accumulators.len() {
            return Err(invalid(inst, format!("the computation must yield {} values", accumulators.len())));
        }
        accumulators.copy_from_slice(&self.results);
        Ok(())
    }
}

/// The operands as arrays of one shape and as many initial values.
type InputsAndInits<'a> = (Vec<&'a ArrayLiteral>, Vec<Scalar>);

fn inputs_and_inits<'a>(inst: &Instruction, operands: &[&'a Literal]) -> Result<InputsAndInits<'a>> {
    let n = operands.len() / 2;
    if n == 0 || !operands.len().is_multiple_of(2) {
        return Err(invalid(inst, "expected as many initial values as arrays"));
    }
    let inputs = (0..n).map(|i| array(inst, operands, i)).collect::<Result<Vec<_>>>()?;
    let inits = (n..2 * n).map(|i| array(inst, operands, i)).collect::<Result<Vec<_>>>()?;
    if inputs.iter().any(|a| a.dims() != inputs[0].dims()) || inits.iter().any(|a| a.elements() != 1) {
        return Err(invalid(inst, "arrays must be of one shape and initial values scalars"));
    }
    Ok((inputs, inits.iter().map(|a| a.get(0)).collect()))
}

/// The element types of the results, an array or a tuple of arrays.
fn result_types(inst: &Instruction) -> Vec<ElementType> {
    inst.shape.leaves().iter().filter_map(|s| s.as_array()).map(|a| a.ty).collect()
}

/// Results: running values, interleaved, as arrays of dimensions `dims`.
fn finish(inst: &Instruction, dims: &[i64], values: &[Scalar]) -> Result<Literal> {
    let types = result_types(inst);
    let mut out = Vec::with_capacity(types.len());
    for (k, &ty) in types.iter().enumerate() {
        let mut a = new_array(inst, &ArrayShape::new(ty, dims))?;
        for (i, &value) in values.iter().skip(k).step_by(types.len()).enumerate() {
            a.set(i, value);
        }
        out.push(Literal::Array(a));
    }
    match (&inst.shape, out.len()) {
        (Shape::Tuple(_), _) => Ok(Literal::Tuple(out)),
        (_, 1) => Ok(out.remove(0)),
        _ => Err(invalid(inst, "the result must be an array or a tuple of arrays")),
    }
}

/// Running values for `outputs` results, all at their initial values.
fn start(inst: &Instruction, outputs: usize, inits: &[Scalar]) -> Result<Vec<Scalar>> {
    if result_types(inst).len() != inits.len() {
        return Err(invalid(inst, format!("expected {} results", inits.len())));
    }
    let total =
        outputs.checked_mul(inits.len()).filter(|n| n.saturating_mul(size_of::<Scalar>()) <= super::MAX_VALUE_BYTES);
    total.ok_or_else(|| unsupported(inst, "a result this large"))?;
    Ok(inits.repeat(outputs))
}

fn reduce(cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    let (inputs, inits) = inputs_and_inits(inst, operands)?;
    let mut reducer = Reducer::new(cx, inst, AttrKey::ToApply)?;
    let dims = inputs[0].dims();
    let reduced = indices(inst, inst.attrs.ints_or_empty(AttrKey::Dimensions), dims.len())?;
    let kept: Vec<usize> = (0..dims.len()).filter(|d| !reduced.contains(d)).collect();
    let out_dims: Vec<i64> = kept.iter().map(|&d| dims[d]).collect();
    let out_strides = row_major_strides(&out_dims);
    let mut strides = vec![0i64; dims.len()];
    for (&d, &stride) in kept.iter().zip(&out_strides) {
        strides[d] = stride;
    }
    let n = inputs.len();
    let outputs = ArrayShape::new(ElementType::Pred, &*out_dims).elements();
    let mut values = start(inst, outputs, &inits)?;
    let mut element = vec![Scalar::Pred(false); n];
    let mut position = 0;
    try_walk(dims, |index| {
        let to: i64 = index.iter().zip(&strides).map(|(&i, &s)| i * s).sum();
        for (e, input) in element.iter_mut().zip(&inputs) {
            *e = input.get(position);
        }
        position += 1;
        reducer.step(inst, &mut values[to as usize * n..][..n], &element)
    })?;
    finish(inst, &out_dims, &values)
}

/// A window placed over an array.
struct Windows<'a> {
    window: Vec<WindowDimension>,
    dims: &'a [i64],
    strides: Vec<i64>,
    /// How many windows fit along each dimension.
    counts: Vec<i64>,
    /// Elements of a window along each dimension.
    sizes: Vec<i64>,
}

impl<'a> Windows<'a> {
    fn new(inst: &Instruction, dims: &'a [i64]) -> Result<Self> {
        let mut window = inst.attrs.window(AttrKey::Window).unwrap_or(&[]).to_vec();
        if window.is_empty() {
            window = vec![WindowDimension::default(); dims.len()];
        }
        if window.len() != dims.len() {
            return Err(invalid(inst, format!("a window of rank {} over rank {}", window.len(), dims.len())));
        }
        let mut counts = Vec::with_capacity(dims.len());
        for (w, &d) in window.iter().zip(dims) {
            if w.size < 1 || w.stride < 1 || w.window_dilation < 1 || w.base_dilation < 1 {
                return Err(invalid(inst, "sizes, strides and dilations of a window must be positive"));
            }
            let count = (d - 1).checked_mul(w.base_dilation).and_then(|broadcast| {
                let base = if d == 0 { 0 } else { broadcast.checked_add(1)? };
                let padded = base.checked_add(w.padding_low)?.checked_add(w.padding_high)?;
                let extent = (w.size - 1).checked_mul(w.window_dilation)?.checked_add(1)?;
                Some(if padded < extent { 0 } else { (padded - extent) / w.stride + 1 })
            });
            counts.push(count.ok_or_else(|| invalid(inst, "the window's extent overflows"))?);
        }
        let sizes = window.iter().map(|w| w.size).collect();
        Ok(Windows { window, dims, strides: row_major_strides(dims), counts, sizes })
    }

    /// The operand's element at place `within` of window `at`, where there is one.
    fn element(&self, at: &[i64], within: &[i64]) -> Option<usize> {
        let mut offset = 0;
        for (d, w) in self.window.iter().enumerate() {
            let position = at[d] * w.stride - w.padding_low + within[d] * w.window_dilation;
            if position < 0 || position % w.base_dilation != 0 || position / w.base_dilation >= self.dims[d] {
                return None;
            }
            offset += position / w.base_dilation * self.strides[d];
        }
        Some(offset as usize)
    }
}

fn reduce_window(cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    let (inputs, inits) = inputs_and_inits(inst, operands)?;
    let mut reducer = Reducer::new(cx, inst, AttrKey::ToApply)?.rounding_each_step();
    let windows = Windows::new(inst, inputs[0].dims())?;
    let n = inputs.len();
    let outputs = ArrayShape::new(ElementType::Pred, &*windows.counts).elements();
    let mut values = start(inst, outputs, &inits)?;
    let mut element = vec![Scalar::Pred(false); n];
    let mut within = vec![0; windows.dims.len()];
    let mut to = 0;
    try_walk(&windows.counts, |at| {
        loop {
            if let Some(from) = windows.element(at, &within) {
                for (e, input) in element.iter_mut().zip(&inputs) {
                    *e = input.get(from);
                }
                reducer.step(inst, &mut values[to..to + n], &element)?;
            }
            if !advance(&windows.sizes, &mut within) {
                break;
            }
        }
        to += n;
        Ok(())
    })?;
    finish(inst, &windows.counts, &values)
}

fn select_and_scatter(cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    let (operand, source) = (array(inst, operands, 0)?, array(inst, operands, 1)?);
    let init = array(inst, operands, 2)?;
    let select =
        inst.attrs.computation(AttrKey::SelectComputation).ok_or_else(|| invalid(inst, "'select' is missing"))?;
    let select = cx.region(select);
    let mut scatter = Reducer::new(cx, inst, AttrKey::ScatterComputation)?;
    let windows = Windows::new(inst, operand.dims())?;
    if windows.counts != source.dims() || init.elements() != 1 {
        return Err(invalid(inst, format!("the source must have dimensions {:?}", windows.counts)));
    }
    let mut values = start(inst, operand.elements(), &[init.get(0)])?;
    let mut within = vec![0; windows.dims.len()];
    let mut position = 0;
    try_walk(&windows.counts, |at| {
        let mut chosen: Option<(usize, Scalar)> = None;
        loop {
            if let Some(from) = windows.element(at, &within) {
                let candidate = operand.get(from);
                let keep = match chosen {
                    Some((_, best)) => select.eval_one(&[best, candidate])?.as_bool(),
                    None => false,
                };
                if !keep {
                    chosen = Some((from, candidate));
                }
            }
            if !advance(&windows.sizes, &mut within) {
                break;
            }
        }
        let value = source.get(position);
        position += 1;
        match chosen {
            Some((to, _)) => scatter.step_one(&mut values[to], value),
            None => Ok(()),
        }
    })?;
    finish(inst, operand.dims(), &values)
}

/// `scan(inputs..., carries...)` along one dimension: the computation takes a slice of each input and the carries,
/// and yields a slice of each output and the next carries. Results are the outputs and the last carries.
fn scan(cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    let computation = inst.attrs.computation(AttrKey::ToApply).ok_or_else(|| invalid(inst, "'to_apply' is missing"))?;
    let carries = inst.attrs.int(AttrKey::NumCarries).map_or(Some(operands.len() / 2), |n| usize::try_from(n).ok());
    let carries = carries.filter(|&k| k <= operands.len()).ok_or_else(|| invalid(inst, "'num_carries'"))?;
    let inputs = (0..operands.len() - carries).map(|i| array(inst, operands, i)).collect::<Result<Vec<_>>>()?;
    let result = match &inst.shape {
        Shape::Tuple(elements) => elements.iter().collect(),
        single => vec![single],
    };
    let outputs = result.len().checked_sub(carries).ok_or_else(|| invalid(inst, "fewer results than carries"))?;
    let out_shapes: Vec<&ArrayShape> = result[..outputs].iter().filter_map(|s| s.as_array()).collect();
    let rank_of = |shape: &ArrayShape| shape.rank();
    let Some(rank) = inputs.first().map(|a| a.dims().len()).or(out_shapes.first().map(|s| rank_of(s))) else {
        return Err(invalid(inst, "a scan over nothing"));
    };
    let [d] = indices(inst, inst.attrs.ints_or_empty(AttrKey::Dimensions), rank)?[..] else {
        return Err(invalid(inst, "expected one dimension"));
    };
    let length = inputs.first().map(|a| a.dims()[d]).or(out_shapes.first().map(|s| s.dims[d])).unwrap_or(0);
    let mut stacked = Vec::with_capacity(outputs);
    for shape in &out_shapes {
        let mut dims = shape.dims.clone();
        *dims.get_mut(d).ok_or_else(|| invalid(inst, "an output without the scanned dimension"))? = length;
        stacked.push(new_array(inst, &ArrayShape::new(shape.ty, dims))?);
    }
    if inputs.iter().any(|a| a.dims().get(d) != Some(&length)) || stacked.len() != outputs {
        return Err(invalid(inst, "inputs must agree in the scanned dimension"));
    }
    let mut state: Vec<Literal> = operands[inputs.len()..].iter().map(|&o| o.clone()).collect();
    let reverse = inst.attrs.bool(AttrKey::IsReverse).unwrap_or(false);
    for step in 0..length {
        let at = if reverse { length - 1 - step } else { step };
        let mut args = Vec::with_capacity(operands.len());
        for input in &inputs {
            args.push(Literal::Array(take_slice(inst, input, d, at)?));
        }
        args.append(&mut state);
        let mut results = match cx.call(computation, args)? {
            Literal::Tuple(elements) => elements,
            single => vec![single],
        };
        if results.len() != outputs + carries {
            return Err(invalid(inst, format!("the computation must yield {} values", outputs + carries)));
        }
        state = results.split_off(outputs);
        for (to, from) in stacked.iter_mut().zip(&results) {
            put_slice(inst, to, d, at, from)?;
        }
    }
    let mut all: Vec<Literal> = stacked.into_iter().map(Literal::Array).collect();
    all.append(&mut state);
    match inst.shape {
        Shape::Tuple(_) => Ok(Literal::Tuple(all)),
        _ if all.len() == 1 => Ok(all.remove(0)),
        _ => Err(invalid(inst, "the result must be a tuple")),
    }
}

/// How slices across dimension `d` lie: their count of runs, the bytes of a run, and the distance between runs.
fn runs(a: &ArrayLiteral, d: usize) -> (usize, usize, usize) {
    let outer = product(&a.dims()[..d]);
    let inner = product(&a.dims()[d + 1..]).saturating_mul(a.ty().byte_size());
    (outer, inner, inner.saturating_mul(a.dims()[d] as usize))
}

/// Slice `at` of dimension `d`, without that dimension.
fn take_slice(inst: &Instruction, a: &ArrayLiteral, d: usize, at: i64) -> Result<ArrayLiteral> {
    let mut dims = a.dims().to_vec();
    dims.remove(d);
    let mut out = new_array(inst, &ArrayShape::new(a.ty(), dims))?;
    let (outer, inner, pitch) = runs(a, d);
    for k in 0..outer {
        let from = &a.bytes()[k * pitch + at as usize * inner..][..inner];
        out.bytes_mut()[k * inner..][..inner].copy_from_slice(from);
    }
    Ok(out)
}

/// Stores slice `at` of dimension `d`.
fn put_slice(inst: &Instruction, a: &mut ArrayLiteral, d: usize, at: i64, slice: &Literal) -> Result<()> {
    let (outer, inner, pitch) = runs(a, d);
    let bytes = slice.as_array().filter(|s| s.ty() == a.ty() && s.bytes().len() == outer * inner);
    let bytes = bytes.ok_or_else(|| execution(inst, format!("a slice of {} of type {}", a.shape(), slice.shape())))?;
    for k in 0..outer {
        let to = &mut a.bytes_mut()[k * pitch + at as usize * inner..][..inner];
        to.copy_from_slice(&bytes.bytes()[k * inner..][..inner]);
    }
    Ok(())
}

fn map(cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    let computation = inst.attrs.computation(AttrKey::ToApply).ok_or_else(|| invalid(inst, "'to_apply' is missing"))?;
    let region = cx.region(computation);
    let arrays = (0..operands.len()).map(|i| array(inst, operands, i)).collect::<Result<Vec<_>>>()?;
    let shape = super::result_shape(inst)?;
    let dims = arrays.first().map_or(&shape.dims[..], |a| a.dims());
    if arrays.iter().any(|a| a.dims() != dims) {
        return Err(invalid(inst, "operands must be of one shape"));
    }
    let mut out = new_array(inst, &ArrayShape::new(shape.ty, dims))?;
    let mut args = vec![Scalar::Pred(false); arrays.len()];
    for i in 0..out.elements() {
        for (arg, a) in args.iter_mut().zip(&arrays) {
            *arg = a.get(i);
        }
        out.set(i, region.eval_one(&args)?);
    }
    Ok(out.into())
}
