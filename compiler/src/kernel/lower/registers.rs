//! Loops over tiny tensors, in registers.
//!
//! **Problem.** A simulation or control loop carries a few dozen numbers; buffers, kernels and calls would cost far more
//! than the arithmetic. **Invariant.** Every element of the loop's state is a scalar node; nothing inside the loop
//! touches memory. **Algorithm.** The condition and the body are unrolled element by element into two bodies whose
//! arguments are the state's elements; movement only renames, reductions and contractions become chains in the order
//! that the specification's reference gives (ascending).

use super::{Numerics, constant_node, moved_index, region, renames_index};
use crate::hlo::{AttrKey, ComputationId, Instruction, InstructionId, Leaf, Module, Opcode, resolve};
use crate::kernel::body::{Body, NodeId, ScalarType};
use crate::kernel::elementwise::{self, ElementwiseContext};
use crate::kernel::index::Ix;
use crate::kernel::registers::{RegisterLoop, StateArray};
use crate::kernel::storage;
use brolga_runtime::{ArrayShape, ElementType, Shape, row_major_strides};
use hashbrown::HashMap;

/// A loop keeps at most this many elements of state in registers.
const MAX_STATE: usize = 64;
/// No value inside may have more elements.
const MAX_ELEMENTS: usize = 64;
/// Nodes of the condition and the body, each.
const MAX_NODES: usize = 4096;

/// The register form of a `while`, or `None` where it is too large or does what has no such form.
pub fn lower_while(module: &Module, inst: &Instruction, numerics: Numerics) -> Option<RegisterLoop> {
    let mut state = Vec::new();
    let (mut decode, mut encode) = (Vec::new(), Vec::new());
    for leaf in inst.shape.leaves() {
        let Shape::Array(a) = leaf else { return None };
        let mem = storage::mem_of(a.ty).filter(|_| !a.is_dynamic())?;
        state.push(StateArray { mem, ty: a.ty, elements: a.checked_elements()? });
        let mut d = Body::new();
        let raw = d.arg(0, mem.scalar());
        let root = storage::decode(&mut d, a.ty, raw);
        decode.push((d, root));
        let mut e = Body::new();
        let value = e.arg(0, storage::compute_type(a.ty));
        let root = storage::encode(&mut e, a.ty, value);
        encode.push((e, root));
    }
    if state.iter().map(|s| s.elements).sum::<usize>() > MAX_STATE {
        return None;
    }
    let (condition, roots) = unroll(module, inst.attrs.computation(AttrKey::Condition)?, &state, numerics)?;
    let condition = (condition, *roots.first()?);
    let body = unroll(module, inst.attrs.computation(AttrKey::Body)?, &state, numerics)?;
    Some(RegisterLoop { state, decode, encode, condition, body })
}

/// Unrolls a computation whose parameters hold the state.
fn unroll(module: &Module, id: ComputationId, state: &[StateArray], numerics: Numerics) -> Option<(Body, Vec<NodeId>)> {
    let c = &module.computations[id];
    let mut u = Unroller { module, id, body: Body::new(), values: HashMap::new(), numerics };
    let mut next = 0;
    let mut arrays = state.iter();
    for p in c.parameters() {
        for (leaf, shape) in c.instructions[p].shape.leaves().into_iter().enumerate() {
            let a = arrays.next()?;
            let scalar = storage::compute_type(shape.as_array()?.ty);
            let nodes = (0..a.elements as u32).map(|i| u.body.arg(next + i, scalar)).collect();
            next += a.elements as u32;
            u.values.insert((p, leaf), nodes);
        }
    }
    for &i in &c.order {
        u.instruction(i)?;
        if u.body.nodes().len() > MAX_NODES {
            return None;
        }
    }
    let mut roots = Vec::new();
    for (leaf, shape) in c.instructions[c.root].shape.leaves().into_iter().enumerate() {
        let ty = shape.as_array()?.ty;
        for node in u.get((c.root, leaf))? {
            // What is carried round the loop has the digits of its type and no more.
            roots.push(storage::round_to(&mut u.body, ty, node));
        }
    }
    Some((u.body, roots))
}

struct Unroller<'a> {
    module: &'a Module,
    id: ComputationId,
    body: Body,
    values: HashMap<Leaf, Vec<NodeId>>,
    numerics: Numerics,
}

/// All indices of an array, row-major.
fn indices(dims: &[i64]) -> Vec<Vec<i64>> {
    let strides = row_major_strides(dims);
    let n: i64 = dims.iter().product();
    (0..n).map(|k| strides.iter().zip(dims).map(|(s, d)| k / s % d).collect()).collect()
}

fn offset(index: &[i64], dims: &[i64]) -> usize {
    index.iter().zip(row_major_strides(dims)).map(|(i, s)| i * s).sum::<i64>().max(0) as usize
}

impl<'a> Unroller<'a> {
    fn inst(&self, id: InstructionId) -> &'a Instruction {
        self.module.instruction(self.id, id)
    }

    fn get(&self, leaf: Leaf) -> Option<Vec<NodeId>> {
        self.values.get(&resolve(&self.module.computations[self.id], leaf)).cloned()
    }

    fn shape(&self, id: InstructionId) -> Option<&'a ArrayShape> {
        self.inst(id).shape.as_array().filter(|s| s.checked_elements().is_some_and(|n| n <= MAX_ELEMENTS))
    }

    fn instruction(&mut self, id: InstructionId) -> Option<()> {
        let inst = self.inst(id);
        match inst.opcode {
            Opcode::Parameter | Opcode::Tuple | Opcode::GetTupleElement => return Some(()),
            Opcode::Reduce => return self.reduce(id),
            _ => {}
        }
        let shape = self.shape(id)?;
        if shape.is_dynamic() || shape.ty.is_complex() {
            return None;
        }
        let nodes = match inst.opcode {
            Opcode::Constant => {
                let literal = inst.literal()?.as_array()?.clone();
                (0..shape.elements()).map(|i| constant_node(&mut self.body, &literal, i, 0)).collect()
            }
            Opcode::Iota => {
                let d = inst.attrs.int(AttrKey::IotaDimension)?.max(0) as usize;
                let cx = self.context();
                indices(&shape.dims)
                    .into_iter()
                    .map(|i| {
                        let v = self.body.i64(i[d]);
                        let from = ElementType::S64;
                        let attrs = Default::default();
                        elementwise::lower(&mut self.body, &cx, Opcode::Convert, &attrs, &[from], shape.ty, &[v]).ok()
                    })
                    .collect::<Option<_>>()?
            }
            op if renames_index(op) => {
                let from = self.shape(inst.operands[0])?;
                let values = self.get((inst.operands[0], 0))?;
                let pick = |i: Vec<i64>| {
                    let index: Vec<Ix> = i.into_iter().map(Ix::constant).collect();
                    let moved: Option<Vec<i64>> =
                        moved_index(inst, &index, &shape.dims, &from.dims).iter().map(Ix::as_constant).collect();
                    values.get(offset(&moved?, &from.dims)).copied()
                };
                indices(&shape.dims).into_iter().map(pick).collect::<Option<_>>()?
            }
            Opcode::Concatenate => self.concatenate(inst, shape)?,
            Opcode::Dot => self.dot(inst, shape)?,
            op if op.is_elementwise() => self.elementwise(inst, shape)?,
            _ => return None,
        };
        self.values.insert((id, 0), nodes);
        Some(())
    }

    fn context(&self) -> ElementwiseContext {
        ElementwiseContext { variant: self.numerics.variant, strict_rounding: self.numerics.strict_rounding }
    }

    fn elementwise(&mut self, inst: &Instruction, shape: &ArrayShape) -> Option<Vec<NodeId>> {
        let operands: Vec<Vec<NodeId>> = inst.operands.iter().map(|&o| self.get((o, 0))).collect::<Option<_>>()?;
        let types: Vec<ElementType> =
            inst.operands.iter().map(|&o| Some(self.inst(o).shape.as_array()?.ty)).collect::<Option<_>>()?;
        let cx = self.context();
        (0..shape.elements())
            .map(|i| {
                let nodes: Option<Vec<NodeId>> =
                    operands.iter().map(|o| if o.len() == 1 { o.first() } else { o.get(i) }.copied()).collect();
                elementwise::lower(&mut self.body, &cx, inst.opcode, &inst.attrs, &types, shape.ty, &nodes?).ok()
            })
            .collect()
    }

    fn concatenate(&mut self, inst: &Instruction, shape: &ArrayShape) -> Option<Vec<NodeId>> {
        let d = *inst.attrs.dimension_numbers(AttrKey::Dimensions).first()?;
        let mut out = vec![None; shape.elements()];
        let mut start = 0;
        for &o in &inst.operands {
            let from = self.shape(o)?;
            let values = self.get((o, 0))?;
            for (k, mut i) in indices(&from.dims).into_iter().enumerate() {
                i[d] += start;
                *out.get_mut(offset(&i, &shape.dims))? = values.get(k).copied();
            }
            start += from.dims[d];
        }
        out.into_iter().collect()
    }

    fn reduce(&mut self, id: InstructionId) -> Option<()> {
        let inst = self.inst(id);
        let n = inst.operands.len() / 2;
        let combiner = region(self.module, inst.attrs.computation(AttrKey::ToApply)?, inst, self.numerics).ok()?;
        let from = self.shape(inst.operands[0])?;
        if inst.operands.iter().any(|&o| self.shape(o).is_none_or(|s| s.ty.is_complex())) {
            return None;
        }
        let reduced = inst.attrs.dimension_numbers(AttrKey::Dimensions);
        let kept: Vec<usize> = (0..from.rank()).filter(|d| !reduced.contains(d)).collect();
        let dims: Vec<i64> = kept.iter().map(|&d| from.dims[d]).collect();
        let count = dims.iter().product::<i64>().max(0) as usize;
        let mut sums = Vec::new();
        for k in 0..n {
            sums.push(vec![*self.get((inst.operands[n + k], 0))?.first()?; count]);
        }
        let values: Vec<Vec<NodeId>> = inst.operands[..n].iter().map(|&o| self.get((o, 0))).collect::<Option<_>>()?;
        for (k, i) in indices(&from.dims).into_iter().enumerate() {
            let at: Vec<i64> = kept.iter().map(|&d| i[d]).collect();
            let at = offset(&at, &dims);
            let mut args: Vec<NodeId> = sums.iter().map(|s| s[at]).collect();
            for v in &values {
                args.push(*v.get(k)?);
            }
            let next = self.body.inline(&combiner.body, &args, &combiner.roots)?;
            sums.iter_mut().zip(next).for_each(|(s, v)| s[at] = v);
        }
        for (k, s) in sums.into_iter().enumerate() {
            self.values.insert((id, k), s);
        }
        Some(())
    }

    fn dot(&mut self, inst: &Instruction, shape: &ArrayShape) -> Option<Vec<NodeId>> {
        let (l, r) = (*inst.operands.first()?, *inst.operands.get(1)?);
        let (lhs, rhs) = (self.shape(l)?, self.shape(r)?);
        if inst.operands.len() != 2 || lhs.ty != shape.ty || rhs.ty != shape.ty || !shape.ty.is_float() {
            return None;
        }
        let (a, b) = (self.get((l, 0))?, self.get((r, 0))?);
        let (lb, lc) = (
            inst.attrs.dimension_numbers(AttrKey::LhsBatchDims),
            inst.attrs.dimension_numbers(AttrKey::LhsContractingDims),
        );
        let (rb, rc) = (
            inst.attrs.dimension_numbers(AttrKey::RhsBatchDims),
            inst.attrs.dimension_numbers(AttrKey::RhsContractingDims),
        );
        let free = |rank: usize, batch: &[usize], contracted: &[usize]| -> Vec<usize> {
            (0..rank).filter(|d| !batch.contains(d) && !contracted.contains(d)).collect()
        };
        let (lf, rf) = (free(lhs.rank(), &lb, &lc), free(rhs.rank(), &rb, &rc));
        let k_dims: Vec<i64> = lc.iter().map(|&d| lhs.dims[d]).collect();
        let scalar: ScalarType = storage::compute_type(shape.ty);
        let mut out = Vec::new();
        for i in indices(&shape.dims) {
            let (batch, rest) = i.split_at(lb.len());
            let (rows, columns) = rest.split_at(lf.len());
            let mut sum = self.body.float(scalar, 0.0);
            for k in indices(&k_dims) {
                let place = |rank: usize, b: &[usize], f: &[usize], c: &[usize], free: &[i64]| {
                    let mut at = vec![0; rank];
                    b.iter().zip(batch).for_each(|(&d, &v)| at[d] = v);
                    f.iter().zip(free).for_each(|(&d, &v)| at[d] = v);
                    c.iter().zip(&k).for_each(|(&d, &v)| at[d] = v);
                    at
                };
                let x = *a.get(offset(&place(lhs.rank(), &lb, &lf, &lc, rows), &lhs.dims))?;
                let y = *b.get(offset(&place(rhs.rank(), &rb, &rf, &rc, columns), &rhs.dims))?;
                sum = self.body.mul_add(self.numerics.variant, x, y, sum);
            }
            out.push(storage::round_to(&mut self.body, shape.ty, sum));
        }
        Some(out)
    }
}
