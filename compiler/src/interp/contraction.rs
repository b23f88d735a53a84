//! `dot`, `ragged-dot` and `scaled-dot`: sums of products over contracted dimensions.
//!
//! Problem: an operand's dimensions fall into batch, free and contracted ones, in any order. Invariant: each operand is
//! seen through three lists of element offsets, one for each role, so that element (b, m, k) of the left operand
//! lies at `batch[b] + free[m] + contracted[k]`. Algorithm: `out[b, m, n]` is summed over `k` ascending, in `f64`,
//! `Complex<f64>` or wrapping `i64`, and rounded once. The requested precision and algorithm ask for less, so they
//! are not needed here.

use super::dense::{Domain, Number, accumulators, dimensions, offsets, pick, read_indices, remaining};
use super::{Context, array, elementwise, invalid, new_array, result_shape, unsupported};
use crate::Result;
use crate::hlo::{AttrKey, Instruction, Opcode};
use crate::shape::sum_to_convert;
use brolga_runtime::num_complex::Complex;
use brolga_runtime::{ArrayLiteral, ArrayShape, Literal, Scalar, Shape, row_major_strides};

/// Evaluates `dot`, `ragged-dot` or `scaled-dot`.
pub(super) fn op(_cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    converted(inst, operands, |inst| contract(inst, operands))
}

/// Evaluates a contraction whose sum may be one of the operands' type, converted at the end; of complex numbers the real part.
pub(super) fn converted(
    inst: &Instruction,
    operands: &[&Literal],
    evaluate: impl Fn(&Instruction) -> Result<Literal>,
) -> Result<Literal> {
    let (shape, lhs, rhs) = (result_shape(inst)?, array(inst, operands, 0)?, array(inst, operands, 1)?);
    let Some(natural) = sum_to_convert(lhs.ty(), rhs.ty(), shape.ty) else { return evaluate(inst) };
    let mut sum = inst.clone();
    sum.shape = Shape::Array(shape.with_type(natural));
    let sum = evaluate(&sum)?;
    let sum = array(inst, &[&sum], 0)?;
    let mut out = new_array(inst, &ArrayShape::new(shape.ty, sum.dims()))?;
    let part = |value| match value {
        Scalar::Complex(z) if !shape.ty.is_complex() => Scalar::Float(z.re),
        other => other,
    };
    (0..sum.elements()).for_each(|i| out.set(i, elementwise::convert(part(sum.get(i)), shape.ty)));
    Ok(out.into())
}

fn contract(inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    let lhs = array(inst, operands, 0)?;
    let rhs = array(inst, operands, 1)?;
    let shape = result_shape(inst)?;
    let domain = Domain::of(&[lhs.ty(), rhs.ty(), shape.ty]);
    let out = match inst.opcode {
        Opcode::ScaledDot => {
            let lhs_scale = array(inst, operands, 2)?;
            let rhs_scale = array(inst, operands, 3)?;
            let lhs_values = scaled(inst, lhs, lhs_scale)?;
            let rhs_values = scaled(inst, rhs, rhs_scale)?;
            product(inst, shape, (&lhs_values, lhs.shape()), (&rhs_values, rhs.shape()))?
        }
        Opcode::RaggedDot => {
            let groups = array(inst, operands, 2)?;
            match domain {
                Domain::Integer => ragged::<i64>(inst, shape, lhs, rhs, groups)?,
                Domain::Real => ragged::<f64>(inst, shape, lhs, rhs, groups)?,
                Domain::Complex => ragged::<Complex<f64>>(inst, shape, lhs, rhs, groups)?,
            }
        }
        _ if operands.len() > 2 => {
            return Err(unsupported(inst, "dot with a sparse operand"));
        }
        _ => match domain {
            Domain::Integer => dot::<i64>(inst, shape, lhs, rhs)?,
            Domain::Real => dot::<f64>(inst, shape, lhs, rhs)?,
            Domain::Complex => dot::<Complex<f64>>(inst, shape, lhs, rhs)?,
        },
    };
    Ok(out.into())
}

/// Which dimension of an operand plays which part.
struct Roles {
    batch: Vec<usize>,
    free: Vec<usize>,
    contracted: Vec<usize>,
}

impl Roles {
    fn of_lhs(inst: &Instruction, rank: usize) -> Result<Roles> {
        Roles::new(inst, rank, AttrKey::LhsBatchDims, AttrKey::LhsContractingDims, &[])
    }

    /// `groups` are dimensions of the right operand of a ragged dot that play none of the three parts.
    fn of_rhs(inst: &Instruction, rank: usize, groups: &[usize]) -> Result<Roles> {
        Roles::new(inst, rank, AttrKey::RhsBatchDims, AttrKey::RhsContractingDims, groups)
    }

    fn new(inst: &Instruction, rank: usize, batch: AttrKey, contracted: AttrKey, groups: &[usize]) -> Result<Roles> {
        let batch = dimensions(inst, inst.attrs.ints_or_empty(batch), rank)?;
        let contracted = dimensions(inst, inst.attrs.ints_or_empty(contracted), rank)?;
        let free = remaining(rank, &[&batch, &contracted, groups]);
        Ok(Roles { batch, free, contracted })
    }

    /// The offsets, with one stride given for each dimension.
    fn side(&self, dims: &[i64], strides: &[i64]) -> Side {
        let along = |which: &[usize]| offsets(&pick(dims, which), &pick(strides, which));
        Side { batch: along(&self.batch), free: along(&self.free), contracted: along(&self.contracted) }
    }
}

/// Element offsets of an operand, one list for each part.
struct Side {
    batch: Vec<usize>,
    free: Vec<usize>,
    contracted: Vec<usize>,
}

fn check_sizes(inst: &Instruction, shape: &ArrayShape, l: &Side, r: &Side, copies: usize) -> Result<()> {
    if l.batch.len() != r.batch.len() || l.contracted.len() != r.contracted.len() {
        return Err(invalid(inst, "batch and contracting sizes of the operands must agree"));
    }
    let count = [copies, l.batch.len(), l.free.len(), r.free.len()].into_iter().try_fold(1usize, usize::checked_mul);
    if count != shape.checked_elements() {
        return Err(invalid(inst, format!("the operands do not yield {shape}")));
    }
    Ok(())
}

fn dot<T: Number>(
    inst: &Instruction,
    shape: &ArrayShape,
    lhs: &ArrayLiteral,
    rhs: &ArrayLiteral,
) -> Result<ArrayLiteral> {
    product(inst, shape, (&T::read(lhs), lhs.shape()), (&T::read(rhs), rhs.shape()))
}

fn product<T: Number>(
    inst: &Instruction,
    shape: &ArrayShape,
    (lhs, lhs_shape): (&[T], &ArrayShape),
    (rhs, rhs_shape): (&[T], &ArrayShape),
) -> Result<ArrayLiteral> {
    // The lists below are no longer than the result, or, where it is not empty, than an operand.
    let mut out = accumulators::<T>(inst, shape)?;
    if out.is_empty() {
        return T::write(inst, shape, &out);
    }
    let l = Roles::of_lhs(inst, lhs_shape.rank())?.side(&lhs_shape.dims, &row_major_strides(&lhs_shape.dims));
    let r = Roles::of_rhs(inst, rhs_shape.rank(), &[])?.side(&rhs_shape.dims, &row_major_strides(&rhs_shape.dims));
    check_sizes(inst, shape, &l, &r, 1)?;
    let width = r.free.len();
    let mut rows = out.chunks_exact_mut(width.max(1));
    for (&lhs_batch, &rhs_batch) in l.batch.iter().zip(&r.batch) {
        // The right matrix in k-major order, so that the innermost loop below runs over neighbours.
        let mut packed = Vec::with_capacity(r.contracted.len() * width);
        for &k in &r.contracted {
            packed.extend(r.free.iter().map(|&n| rhs[rhs_batch + k + n]));
        }
        for &m in &l.free {
            let Some(row) = rows.next() else { break };
            for (&k, weights) in l.contracted.iter().zip(packed.chunks_exact(width.max(1))) {
                let a = lhs[lhs_batch + m + k];
                for (sum, &b) in row.iter_mut().zip(weights) {
                    *sum = sum.plus_product(a, b);
                }
            }
        }
    }
    T::write(inst, shape, &out)
}

/// The elements of `values`, each times the scale of its block. A dimension of the scale array divides that of the
/// values; a scalar scales everything.
fn scaled(inst: &Instruction, values: &ArrayLiteral, scale: &ArrayLiteral) -> Result<Vec<f64>> {
    let mut out = f64::read(values);
    let factors = f64::read(scale);
    if out.is_empty() {
        return Ok(out);
    }
    if scale.dims().is_empty() {
        out.iter_mut().for_each(|v| *v *= factors.first().copied().unwrap_or(1.0));
        return Ok(out);
    }
    let fits = |(&size, &blocks): (&i64, &i64)| size == 0 || (blocks > 0 && size % blocks == 0);
    if scale.dims().len() != values.dims().len() || !values.dims().iter().zip(scale.dims()).all(fits) {
        return Err(invalid(inst, format!("scales {} do not divide {}", scale.shape(), values.shape())));
    }
    let mut which = vec![0usize];
    for ((&size, &blocks), &stride) in values.dims().iter().zip(scale.dims()).zip(&scale.strides()) {
        let block = if size == 0 { 1 } else { size / blocks };
        which = which.iter().flat_map(|&base| (0..size).map(move |i| base + (i / block * stride) as usize)).collect();
    }
    out.iter_mut().zip(which).for_each(|(v, i)| *v *= factors[i]);
    Ok(out)
}

/// A dot whose left operand is cut, along one ragged dimension, into consecutive groups of the sizes that the third
/// operand gives. Where that dimension is free, each group meets its own right matrix; where it is contracted, each
/// group makes its own result; where it is a batch dimension, nothing but rows past the last group changes. Rows past
/// the last group count as zero.
fn ragged<T: Number>(
    inst: &Instruction,
    shape: &ArrayShape,
    lhs: &ArrayLiteral,
    rhs: &ArrayLiteral,
    group_sizes: &ArrayLiteral,
) -> Result<ArrayLiteral> {
    let mut out = accumulators::<T>(inst, shape)?;
    if out.is_empty() {
        return T::write(inst, shape, &out);
    }
    let lhs_rank = lhs.dims().len();
    let rhs_groups = dimensions(inst, inst.attrs.ints_or_empty(AttrKey::RhsGroupDims), rhs.dims().len())?;
    let ragged = dimensions(inst, inst.attrs.ints_or_empty(AttrKey::LhsRaggedDims), lhs_rank)?;
    let &[ragged] = ragged.as_slice() else {
        return Err(invalid(inst, "ragged-dot takes one ragged dimension"));
    };
    let roles = Roles::of_lhs(inst, lhs_rank)?;
    let before = |list: &[usize]| -> Vec<usize> { list.iter().copied().take_while(|&d| d != ragged).collect() };
    let contracted = roles.contracted.contains(&ragged);
    let prefix = if roles.batch.contains(&ragged) {
        before(&roles.batch)
    } else {
        let inner = if contracted { &roles.contracted } else { &roles.free };
        [roles.batch.clone(), before(inner)].concat()
    };

    // Where along the ragged dimension an element lies, and which list of group sizes governs it.
    let unit = |d: usize| i64::from(d == ragged);
    let position = roles.side(lhs.dims(), &(0..lhs_rank).map(unit).collect::<Vec<_>>());
    let size_strides = group_sizes.strides();
    let Some((&group_count, size_prefix)) = group_sizes.dims().split_last() else {
        return Err(invalid(inst, "group sizes must have a dimension"));
    };
    let mut governing = vec![0i64; lhs_rank];
    if !size_prefix.is_empty() {
        if size_prefix != pick(lhs.dims(), &prefix) {
            return Err(invalid(inst, format!("group sizes {} do not fit {}", group_sizes.shape(), lhs.shape())));
        }
        prefix.iter().zip(&size_strides).for_each(|(&d, &stride)| governing[d] = stride);
    }
    let governing = roles.side(lhs.dims(), &governing);
    let sizes = read_indices(group_sizes);
    let group_count = usize::try_from(group_count).unwrap_or(0);
    let group_of = |list: usize, position: usize| {
        let ends = sizes[list..list + group_count].iter().scan(0i64, |end, &size| {
            *end = end.saturating_add(size.max(0));
            Some(*end)
        });
        ends.enumerate().find(|&(_, end)| (position as i64) < end).map(|(group, _)| group)
    };

    let l = roles.side(lhs.dims(), &lhs.strides());
    let r = Roles::of_rhs(inst, rhs.dims().len(), &rhs_groups)?.side(rhs.dims(), &rhs.strides());
    check_sizes(inst, shape, &l, &r, if contracted { group_count } else { 1 })?;
    let rhs_group_stride = match rhs_groups.as_slice() {
        &[d] if rhs.dims()[d] == group_count as i64 => rhs.strides()[d] as usize,
        [] => 0,
        _ => return Err(invalid(inst, "the right operand has one group dimension, of as many groups")),
    };
    let result_group_stride = if contracted { l.batch.len() * l.free.len() * r.free.len() } else { 0 };
    let (a, b) = (T::read(lhs), T::read(rhs));
    for (bi, (&lhs_batch, &rhs_batch)) in l.batch.iter().zip(&r.batch).enumerate() {
        for (mi, &m) in l.free.iter().enumerate() {
            for (ki, (&lhs_k, &rhs_k)) in l.contracted.iter().zip(&r.contracted).enumerate() {
                let list = governing.batch[bi] + governing.free[mi] + governing.contracted[ki];
                let at = position.batch[bi] + position.free[mi] + position.contracted[ki];
                let Some(group) = group_of(list, at) else { continue };
                let value = a[lhs_batch + m + lhs_k];
                let rhs_base = rhs_batch + rhs_k + group * rhs_group_stride;
                let row = group * result_group_stride + (bi * l.free.len() + mi) * r.free.len();
                for (ni, &n) in r.free.iter().enumerate() {
                    out[row + ni] = out[row + ni].plus_product(value, b[rhs_base + n]);
                }
            }
        }
    }
    T::write(inst, shape, &out)
}

#[cfg(test)]
mod tests {
    use crate::interp::dense::testing::check;

    #[test]
    fn dot_ranks_of_the_table() {
        let operands = "v = f32[3] constant({1,2,3})\n m = f32[2,3] constant({{1,2,3},{4,5,6}})
            n = f32[3,2] constant({{1,0},{0,1},{1,1}})\n";
        check(
            "",
            &format!("{operands} ROOT r = f32[] dot(v, v), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"),
            "14",
        );
        check(
            "",
            &format!("{operands} ROOT r = f32[2] dot(m, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"),
            "{14,32}",
        );
        check(
            "",
            &format!("{operands} ROOT r = f32[2,2] dot(m, n), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"),
            "{{4,5},{10,11}}",
        );
    }

    #[test]
    fn dot_general_contracting_example() {
        check(
            "",
            "lhs = f32[2,3] constant({{1,2,3},{4,5,6}})\n rhs = f32[2,3] constant({{1,1,1},{2,2,2}})
             ROOT r = f32[2,2] dot(lhs, rhs), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
            "{{6,12},{15,30}}",
        );
    }

    #[test]
    fn dot_general_batch_example() {
        check(
            "",
            "lhs = f32[2,2,2] constant({{{1,2},{3,4}},{{5,6},{7,8}}})
             rhs = f32[2,2,2] constant({{{1,0},{0,1}},{{1,0},{0,1}}})
             ROOT r = f32[2,2,2] dot(lhs, rhs), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0},
               rhs_contracting_dims={1}",
            "{{{1,2},{3,4}},{{5,6},{7,8}}}",
        );
    }

    #[test]
    fn dot_wraps_widens_and_multiplies_complex_numbers() {
        let attrs = "lhs_contracting_dims={0}, rhs_contracting_dims={0}";
        check("", &format!("a = s8[2] constant({{100,100}})\n ROOT r = s8[] dot(a, a), {attrs}"), "32");
        check("", &format!("a = s8[2] constant({{100,100}})\n ROOT r = s32[] dot(a, a), {attrs}"), "20000");
        check("", &format!("a = u64[1] constant({{4294967297}})\n ROOT r = u64[] dot(a, a), {attrs}"), "8589934593");
        check("", &format!("a = c64[1] constant({{(1,2)}})\n ROOT r = c64[] dot(a, a), {attrs}"), "(-3,4)");
        check("", &format!("a = f32[0] constant({{}})\n ROOT r = f32[] dot(a, a), {attrs}"), "0");
        check("", &format!("a = f8e5m2[2] constant({{2,3}})\n ROOT r = f32[] dot(a, a), {attrs}"), "13");
    }

    #[test]
    fn ragged_dot_in_its_three_modes() {
        let operands = "l = f32[3,2] constant({{1,2},{3,4},{5,6}})\n g = s32[2] constant({1,1})\n";
        // Groups of rows, each with its own right matrix; the last row is past the groups.
        let rows = "r = f32[2,2,1] constant({{{1},{1}},{{10},{10}}})
            ROOT d = f32[3,1] ragged-dot(l, r, g), lhs_contracting_dims={1}, rhs_contracting_dims={1},
              lhs_ragged_dims={0}, rhs_group_dims={0}";
        check("", &format!("{operands} {rows}"), "{{3},{70},{0}}");
        // Groups of contracted positions, each with its own result.
        let contracted = "r = f32[3,1] constant({{1},{10},{100}})
            ROOT d = f32[2,2,1] ragged-dot(l, r, g), lhs_contracting_dims={0}, rhs_contracting_dims={0},
              lhs_ragged_dims={0}";
        check("", &format!("{operands} {contracted}"), "{{{1},{2}},{{30},{40}}}");
        // Groups of batches.
        let batches = "r = f32[3,2] constant({{1,1},{1,1},{1,1}})
            ROOT d = f32[3] ragged-dot(l, r, g), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1},
              rhs_contracting_dims={1}, lhs_ragged_dims={0}";
        check("", &format!("{operands} {batches}"), "{3,7,0}");
    }

    #[test]
    fn scaled_dot_scales_blocks() {
        check(
            "",
            "l = f8e4m3fn[1,4] constant({{1,2,3,4}})\n r = f8e4m3fn[1,4] constant({{1,1,1,1}})
             ls = f8e8m0fnu[1,2] constant({{2,4}})\n rs = f8e8m0fnu[1,1] constant({{0.5}})
             ROOT d = f32[1,1] scaled-dot(l, r, ls, rs), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
            "{{17}}",
        );
    }
}
