//! Contractions.
//!
//! Products of floats, and of integers whose sums are exact in a float, become a [`Contraction`] in f32 or f64, which the emitter
//! blocks and tiles; operands of another type are converted into scratch before, which costs less than a step of the product.
//! Products of small integers are summed by fours or twos where the machine has instructions for it ([`Lowerer::product_of_words`]).
//! Other types, and products that are small, have no row, or little to compute for what they write, become a reduction in row form: one
//! accumulator for each output column, a multiply-add each.

use super::{Known, Lowerer, Stage, internal, moved_index, type_in_row, unsupported};
use crate::error::Result;
use crate::hlo::resolve;
use crate::hlo::{AttrKey, InstructionId, Opcode};
use crate::kernel::body::{Body, Mem, NodeId, Op, ScalarType};
use crate::kernel::index::{Ix, delinearize, linearize};
use crate::kernel::ir::{self, Accumulator, Contraction, Loop, Nest, Panel, Phase, Place, Product, RowBuffer};
use crate::kernel::storage;
use brolga_runtime::{ArrayShape, ElementType};

/// Convolutions of fewer multiply-adds than this are not worth blocking, ...
pub(super) const MIN_BLOCKED: i64 = 4096;
/// ... nor products of fewer than this, ...
const LEAST: i64 = 1024;
/// ... but as few as these in a batch ...
const LEAST_OF_BATCH: i64 = 512;
/// ... that has so many together.
const LARGE_BATCH: i64 = 1 << 16;

/// A product of so few steps, in rows that lie pages apart and so in one set of the first cache, ...
const FEW_STEPS: i64 = 8;
/// ... is bound by writing its result, where that has so many bytes: it is not blocked, for a tile writes a piece of many rows at a
/// time.
const MUCH_WRITTEN: i64 = 1 << 20;

/// A view of so many bytes is copied in the order in which its dimensions lie, for each of its lines to be read once; the copy is then
/// packed again. Of less, all lines stay in a cache.
const FAR_APART: i64 = 1 << 18;

/// Columns of so many bytes fill half of the widest register, or a quarter of it where rows share what they read, as those of a
/// convolution do: a tile of them then reads from the first cache, ...
pub(super) const HALF_FILLED: i64 = 32;
pub(super) const QUARTER_FILLED: i64 = 16;
/// ... as are fewer of rows that are widened for each of them, ...
const WIDENED_INTEGERS: i64 = 12;
const WIDENED_FLOATS: i64 = 8;
/// ... so many steps are worth folding their sums at the end, and so many rows copying the columns.
const LONG_ROW: i64 = 256;
/// Columns of so many bytes together stay in a cache near enough to be read again for every few rows.
const NEAR_COLUMNS: i64 = 1 << 16;
const MANY_ROWS: i64 = 64;
/// One column alone has no other form than single elements: so many steps are worth a row.
const LONG_COLUMN: i64 = 8;

/// A side of a product in row form.
enum Factor {
    /// An operand of this type.
    Operand(InstructionId, ElementType),
    /// What a phase before left in a scratch buffer, in the type of the result's arithmetic, and where.
    Scratch(u32, Ix),
}

/// The loops of a contraction and the index of each operand in them.
pub(super) struct Loops {
    pub batch: Vec<Loop>,
    pub m: Vec<Loop>,
    pub n: Vec<Loop>,
    pub k: Vec<Loop>,
    pub lhs: Vec<Ix>,
    pub rhs: Vec<Ix>,
    /// The index of the result.
    pub out: Vec<Ix>,
}

impl Loops {
    /// Rows, columns and steps of a product of the batch.
    pub(super) fn extents(&self) -> (i64, i64, i64) {
        let product = |loops: &[Loop]| loops.iter().map(|l| l.extent).product::<i64>();
        (product(&self.m), product(&self.n), product(&self.k))
    }

    /// Those of the transposed product, which has the same result.
    fn turned(self) -> Loops {
        Loops { m: self.n, n: self.m, lhs: self.rhs, rhs: self.lhs, ..self }
    }
}

/// The loops of a contraction as one axis each; where a side has several dimensions, each is taken from its axis again.
pub(super) struct Fused {
    pub m: Loop,
    pub n: Loop,
    pub k: Loop,
    parts: Vec<(Loop, Ix)>,
}

/// A product that is blocked: its sides, the left one with the rows, and how many steps a block has.
pub(super) struct Tiled {
    pub product: Product,
    pub m: Loop,
    pub n: Loop,
    pub k: Loop,
    pub block: i64,
    pub lhs: Panel,
    pub rhs: Panel,
}

impl Fused {
    /// An index in the loops of the contraction, in these.
    pub(super) fn of(&self, index: &Ix) -> Ix {
        index.substitute(&|axis| self.parts.iter().find(|(l, _)| l.axis == axis).map(|(_, part)| part.clone()))
    }
}

impl Lowerer<'_> {
    pub(super) fn dot(&mut self, id: InstructionId) -> Result<Vec<Phase>> {
        let inst = self.inst(id);
        if inst.operands.len() != 2 {
            return Err(unsupported(inst, "compiling sparse dots"));
        }
        let lhs = self.leaf_shape(resolve(self.c, (inst.operands[0], 0)))?.clone();
        let rhs = self.leaf_shape(resolve(self.c, (inst.operands[1], 0)))?.clone();
        let out = self.leaf_shape((id, 0))?.ty;
        let dims = |key| inst.attrs.dimension_numbers(key);
        let (lb, lc) = (dims(AttrKey::LhsBatchDims), dims(AttrKey::LhsContractingDims));
        let (rb, rc) = (dims(AttrKey::RhsBatchDims), dims(AttrKey::RhsContractingDims));
        let mut l = Loops {
            batch: Vec::new(),
            m: Vec::new(),
            n: Vec::new(),
            k: Vec::new(),
            lhs: vec![Ix::default(); lhs.rank()],
            rhs: vec![Ix::default(); rhs.rank()],
            out: Vec::new(),
        };
        for (&a, &b) in lb.iter().zip(&rb) {
            let new = self.new_loop(lhs.dims[a]);
            (l.lhs[a], l.rhs[b]) = (new.ix(), new.ix());
            l.batch.push(new);
        }
        for (&a, &b) in lc.iter().zip(&rc) {
            let new = self.new_loop(lhs.dims[a]);
            (l.lhs[a], l.rhs[b]) = (new.ix(), new.ix());
            l.k.push(new);
        }
        for d in (0..lhs.rank()).filter(|d| !lb.contains(d) && !lc.contains(d)) {
            let new = self.new_loop(lhs.dims[d]);
            l.lhs[d] = new.ix();
            l.m.push(new);
        }
        for d in (0..rhs.rank()).filter(|d| !rb.contains(d) && !rc.contains(d)) {
            let new = self.new_loop(rhs.dims[d]);
            l.rhs[d] = new.ix();
            l.n.push(new);
        }
        l.out = l.batch.iter().chain(&l.m).chain(&l.n).map(Loop::ix).collect();
        let (m, n, k) = l.extents();
        let each = m.saturating_mul(n).saturating_mul(k);
        let all = l.batch.iter().map(|l| l.extent).fold(each, i64::saturating_mul);
        let worth = each >= LEAST || each >= LEAST_OF_BATCH && all >= LARGE_BATCH;
        let large = worth && m > 1 && n > 1 && k > 0;
        let by_rows = |contracted: &[usize], rank: usize| contracted.last().is_some_and(|&d| d + 1 == rank);
        // Little is computed for what is written: row by row, each from the whole of a right operand that is short.
        let row = n.saturating_mul(out.byte_size() as i64);
        let written = [lhs.ty, rhs.ty] == [out; 2]
            && matches!(out, ElementType::F32 | ElementType::F64)
            && k <= FEW_STEPS
            && row % ir::PAGE == 0
            && !by_rows(&rc, rhs.rank())
            && m.saturating_mul(row) >= MUCH_WRITTEN;
        let (left, right) = ((inst.operands[0], &lhs), (inst.operands[1], &rhs));
        if large && has_few_columns([lhs.ty, rhs.ty], out, (m, n, k), HALF_FILLED) && by_rows(&lc, lhs.rank()) {
            return self.few_columns(id, l, [left, right], out);
        }
        // Few rows are the columns of the transposed product.
        if large && has_few_columns([rhs.ty, lhs.ty], out, (n, m, k), HALF_FILLED) && by_rows(&rc, rhs.rank()) {
            return self.few_columns(id, l.turned(), [right, left], out);
        }
        let types = [lhs.ty, rhs.ty];
        let filling = self.filling(types, out).or_else(|| self.filling_of_floats(types, out));
        if let Some(filling) = filling.filter(|filling| large && filling.is_worth_copies((m, n, k))) {
            return self.product_of_words(id, (l, filling), [&lhs, &rhs]);
        }
        if let Some(product) = summed_in([lhs.ty, rhs.ty], out, k).filter(|_| large && !written) {
            return self.blocked(id, l, product, [&lhs, &rhs]);
        }
        // A product with one row or column reads the other operand, the matrix, once and along memory: where its rows are contracted,
        // each is one sum, the matrix on the left; where its columns are, a row of sums takes one row of it after another, the matrix
        // on the right. The dimensions of the operands decide, not where fusion found them: the order of the sums depends on it.
        let turned = (m == 1 && n > 1 && by_rows(&rc, rhs.rank())) || (n == 1 && m > 1 && !by_rows(&lc, lhs.rank()));
        let mut operands = [Factor::Operand(inst.operands[0], lhs.ty), Factor::Operand(inst.operands[1], rhs.ty)];
        if turned {
            operands.reverse();
            l = l.turned();
        }
        // A column loop of one column (a matrix times a vector) is a dot product: the contracted axis is the vector.
        let along_k = l.n.iter().all(|x| x.extent == 1) && l.k.last().is_some_and(|x| x.extent > 1);
        Ok(vec![self.product_rows(id, l, operands, (out, along_k))?])
    }

    /// A product whose columns would leave most of a register idle: each element is the sum of a row, times a column that lies along it, or
    /// was copied to.
    pub(super) fn few_columns(
        &mut self,
        id: InstructionId,
        l: Loops,
        [(left, lhs), (right, rhs)]: [(InstructionId, &ArrayShape); 2],
        out: ElementType,
    ) -> Result<Vec<Phase>> {
        let ty = storage::scratch_type(storage::compute_type(out));
        let along = match l.k.last() {
            Some(last) if rhs.ty == ty => {
                let (_, offset) = self.through_views((right, 0), l.rhs.clone(), &rhs.dims)?;
                offset.stride(last.axis) == Some(1)
            }
            _ => false,
        };
        if along {
            let factors = [Factor::Operand(left, lhs.ty), Factor::Operand(right, rhs.ty)];
            return Ok(vec![self.product_rows(id, l, factors, (out, true))?]);
        }
        let steps: Vec<usize> = l.k.iter().filter_map(|k| l.rhs.iter().position(|ix| ix.mentions(k.axis))).collect();
        let order: Vec<usize> = (0..rhs.rank()).filter(|d| !steps.contains(d)).chain(steps.iter().copied()).collect();
        let (phase, buffer) = self.converted_operand((id, right), rhs, ty, &order)?;
        let index = linearize(&in_order(&order, &l.rhs), &in_order(&order, &rhs.dims));
        let factors = [Factor::Operand(left, lhs.ty), Factor::Scratch(buffer, index)];
        Ok(vec![phase, self.product_rows(id, l, factors, (out, true))?])
    }

    /// An element of a side of a product, in the arithmetic of the result.
    fn factor(
        &mut self,
        stage: &mut Stage,
        id: InstructionId,
        factor: Factor,
        index: &[Ix],
        out: ElementType,
    ) -> Result<NodeId> {
        match factor {
            Factor::Operand(operand, ty) => {
                let value = self.value(stage, &Known::default(), (operand, 0), index)?;
                self.widen(stage, id, ty, out, value)
            }
            Factor::Scratch(buffer, offset) => {
                let mem = Mem::of(storage::compute_type(out));
                Ok(stage.body.push(Op::Load(buffer, mem, offset), &[], mem.scalar()))
            }
        }
    }

    /// The general form, as a reduction: along the contracted axis, or over it for a row of columns.
    fn product_rows(
        &mut self,
        id: InstructionId,
        mut l: Loops,
        [lhs, rhs]: [Factor; 2],
        (out, along_k): (ElementType, bool),
    ) -> Result<Phase> {
        let offset = linearize(&l.out, &self.leaf_shape((id, 0))?.dims);
        let mut stage = Stage::default();
        let mut known = Known::default();
        let a = self.factor(&mut stage, id, lhs, &l.lhs, out)?;
        let b = self.factor(&mut stage, id, rhs, &l.rhs, out)?;
        let scalar = storage::compute_type(out);
        let mut combine = Body::new();
        combine.attribute(id);
        stage.body.set_source(Some(id));
        let acc = combine.arg(0, scalar);
        let zero = stage.body.bits(scalar, 0);
        let (values, root, splits) = if along_k {
            let product = self.multiply(&mut stage.body, out, a, b);
            let x = combine.arg(1, scalar);
            (vec![product], self.sum(&mut combine, out, acc, x), true)
        } else {
            let (x, y) = (combine.arg(1, scalar), combine.arg(2, scalar));
            let root = self.multiply_add(&mut combine, out, [acc, x, y]);
            (vec![a, b], root, false)
        };
        let mut parallel: Vec<Loop> = l.batch.iter().chain(&l.m).copied().collect();
        let vector = if along_k { l.k.pop() } else { l.n.pop() };
        let vector = match vector {
            Some(v) => v,
            None => self.new_loop(1),
        };
        parallel.extend(&l.n);
        let mut rows = Vec::new();
        let place = if along_k {
            known.results.insert(((id, 0), 0), (0, offset.clone()));
            Place::Lanes { results: vec![0] }
        } else {
            known.rows.insert(((id, 0), 0), (0, offset.clone()));
            rows.push(RowBuffer { scalar: type_in_row(scalar), elements: vector.extent });
            Place::Row { rows: vec![0] }
        };
        let identity = Some(vec![if out.is_float() { negative_zero(scalar) } else { 0 }]);
        let accumulator = Accumulator { init: vec![zero], values, identity, combine, roots: vec![root], splits, place };
        let first = ir::Stage { accumulators: vec![accumulator], ..ir::Stage::new(l.k, vector, stage.body) };
        let second = self.epilogue_stage(&known, &offset, (!along_k).then_some(vector))?;
        Ok(Phase::Nest(Nest { parallel, rows, stages: vec![first, second] }))
    }

    /// `acc + x * y` in the arithmetic of `ty`.
    pub(super) fn multiply_add(&self, body: &mut Body, ty: ElementType, [acc, x, y]: [NodeId; 3]) -> NodeId {
        if ty.is_float() {
            return body.mul_add(self.numerics.variant, x, y, acc);
        }
        let product = self.multiply(body, ty, x, y);
        self.sum(body, ty, acc, product)
    }

    pub(super) fn widen(
        &self,
        stage: &mut Stage,
        id: InstructionId,
        from: ElementType,
        to: ElementType,
        x: NodeId,
    ) -> Result<NodeId> {
        // Narrow floats are computed in f32 already: rounding the operand to the result's type would lose digits.
        let both_f32 = storage::compute_type(from) == ScalarType::F32 && storage::compute_type(to) == ScalarType::F32;
        if both_f32 { Ok(x) } else { self.convert(stage, self.inst(id), from, to, x) }
    }

    fn multiply(&self, body: &mut Body, ty: ElementType, a: NodeId, b: NodeId) -> NodeId {
        if ty.is_float() {
            body.fmul(a, b)
        } else if ty == ElementType::Pred {
            body.and(a, b)
        } else {
            let product = body.imul(a, b);
            storage::wrap_integer(body, ty, product)
        }
    }

    fn sum(&self, body: &mut Body, ty: ElementType, a: NodeId, b: NodeId) -> NodeId {
        if ty.is_float() {
            body.fadd(a, b)
        } else if ty == ElementType::Pred {
            body.or(a, b)
        } else {
            let sum = body.iadd(a, b);
            storage::wrap_integer(body, ty, sum)
        }
    }

    pub(super) fn blocked(
        &mut self,
        id: InstructionId,
        l: Loops,
        product: Product,
        operands: [&ArrayShape; 2],
    ) -> Result<Vec<Phase>> {
        let inst = self.inst(id);
        let Some(ty) = product.element() else { return Err(internal(inst, "bytes are no elements of a product")) };
        let fused = self.fused(&l);
        let (m, n, k) = (fused.m, fused.n, fused.k);
        let (mut phases, mut panels) = (Vec::new(), Vec::new());
        for ((&operand, index), shape) in inst.operands.iter().zip([&l.lhs, &l.rhs]).zip(operands) {
            let mut order: Vec<usize> = (0..shape.rank()).collect();
            if shape.ty == ty {
                let (leaf, offset) = self.through_views((operand, 0), index.clone(), &shape.dims)?;
                let there = fused.of(&offset);
                let own = fused.of(&linearize(index, &shape.dims));
                if !is_broadcast(&there, &own, (n, k)) {
                    panels.push(Panel { buffer: self.input(leaf)?, index: there });
                    continue;
                }
                if shape.elements() as i64 * product.mem().bytes() >= FAR_APART {
                    order = self.as_it_lies(operand, shape)?;
                }
            }
            let (phase, buffer) = self.converted_operand((id, operand), shape, ty, &order)?;
            phases.push(phase);
            let index = linearize(&in_order(&order, index), &in_order(&order, &shape.dims));
            panels.push(Panel { buffer, index: fused.of(&index) });
        }
        let (rhs_panel, lhs_panel) = (panels.pop(), panels.pop());
        let (Some(lhs), Some(rhs)) = (lhs_panel, rhs_panel) else { return Err(internal(inst, "no operands")) };
        let (m, n, lhs, rhs) = match inst.opcode {
            Opcode::Dot if turns(&lhs, &rhs, (m, n, k)) => (n, m, rhs, lhs),
            _ => (m, n, lhs, rhs),
        };
        let mut epilogue = Body::new();
        let sum = epilogue.arg(0, product.mem().scalar());
        // What the operand alone says, not where fusion found it: sums do not depend on that.
        let block = match inst.opcode {
            Opcode::Convolution => {
                let base = fused.of(&linearize(&l.lhs, &operands[0].dims));
                Contraction::block_of_windows(&base, m, k)
            }
            _ => Contraction::whole_block(k),
        };
        let tiled = Tiled { product, m, n, k, block, lhs, rhs };
        phases.push(self.contraction(id, (l, fused), (tiled, None), (epilogue, sum))?);
        Ok(phases)
    }

    /// A blocked product, with the buffer that [`Contraction::subnormal`] is, and what happens to its finished sums, of which `sum` is one
    /// in the epilogue so far.
    pub(super) fn contraction(
        &mut self,
        id: InstructionId,
        (l, fused): (Loops, Fused),
        (Tiled { product, m, n, k, block, lhs, rhs }, subnormal): (Tiled, Option<u32>),
        sums: (Body, NodeId),
    ) -> Result<Phase> {
        let (epilogue, stores) = self.epilogue_of(id, (&l, &fused), sums)?;
        Ok(Phase::Contraction(Box::new(Contraction {
            product,
            batch: l.batch,
            m,
            n,
            k,
            block,
            lhs,
            rhs,
            epilogue,
            stores,
            subnormal,
            source: Some(id),
        })))
    }

    /// One axis each for rows, columns and the contracted dimension.
    pub(super) fn fused(&mut self, l: &Loops) -> Fused {
        let mut fuse = |loops: &[Loop]| -> (Loop, Vec<Ix>) {
            if let [one] = loops {
                return (*one, vec![one.ix()]);
            }
            let dims: Vec<i64> = loops.iter().map(|x| x.extent).collect();
            let whole = self.new_loop(dims.iter().product());
            (whole, delinearize(&whole.ix(), &dims))
        };
        let ((m, m_parts), (n, n_parts), (k, k_parts)) = (fuse(&l.m), fuse(&l.n), fuse(&l.k));
        let old = l.m.iter().chain(&l.n).chain(&l.k).copied();
        let parts = old.zip(m_parts.into_iter().chain(n_parts).chain(k_parts)).collect();
        Fused { m, n, k, parts }
    }

    /// What happens to finished sums, of which `sum` is one in the epilogue so far, and where they are stored.
    fn epilogue_of(
        &mut self,
        id: InstructionId,
        (l, fused): (&Loops, &Fused),
        (epilogue, sum): (Body, NodeId),
    ) -> Result<(Body, Vec<ir::Store>)> {
        let own = self.leaf_shape((id, 0))?;
        let offset = fused.of(&linearize(&l.out, &own.dims));
        let mut stage = Stage { body: epilogue, ..Stage::default() };
        let sum = finished(&mut stage.body, own.ty, sum);
        // The sum is known at its own index, whatever form the epilogue's walk gives it.
        let own_index = delinearize(&offset, &own.dims);
        stage.memo.insert((((id, 0), 0), own_index), sum);
        let mut stores = Vec::new();
        for number in 0..self.outputs.len() {
            let leaf = self.computed(number);
            let shape = self.leaf_shape(leaf)?;
            let index = delinearize(&offset, &shape.dims);
            let value = self.parts(&mut stage, &Known::default(), leaf, &index)?;
            let place = self.placed(number, offset.clone())?;
            stores.extend(self.store(&mut stage.body, number as u32, &value, place)?);
        }
        Ok((stage.body, stores))
    }

    /// The order in which the dimensions of a view lie, all but the last one, which stays.
    fn as_it_lies(&mut self, operand: InstructionId, shape: &ArrayShape) -> Result<Vec<usize>> {
        let loops: Vec<Loop> = shape.dims.iter().map(|&d| self.new_loop(d)).collect();
        let (_, offset) = self.through_views((operand, 0), loops.iter().map(Loop::ix).collect(), &shape.dims)?;
        let last = loops.len().saturating_sub(1);
        let stride = |d: usize| offset.stride(loops[d].axis).unwrap_or(0);
        let mut order: Vec<usize> = (0..loops.len()).collect();
        order.sort_by_key(|&d| (d == last, std::cmp::Reverse(stride(d))));
        Ok(order)
    }

    /// A phase that writes an operand, in the type of the product and its dimensions in an order, to scratch; the number of that buffer.
    fn converted_operand(
        &mut self,
        (id, operand): (InstructionId, InstructionId),
        shape: &ArrayShape,
        ty: ElementType,
        order: &[usize],
    ) -> Result<(Phase, u32)> {
        let loops: Vec<Loop> = shape.dims.iter().map(|&d| self.new_loop(d)).collect();
        let index: Vec<Ix> = loops.iter().map(Loop::ix).collect();
        let place = linearize(&in_order(order, &index), &in_order(order, &shape.dims));
        let mut parallel = in_order(order, &loops);
        let vector = match parallel.pop() {
            Some(v) => v,
            None => self.new_loop(1),
        };
        let mut stage = Stage::default();
        let value = self.value(&mut stage, &Known::default(), (operand, 0), &index)?;
        let value = self.widen(&mut stage, id, shape.ty, ty, value)?;
        let buffer = self.scratch_buffer(ty, shape.elements());
        let mem = Mem::of(storage::compute_type(ty));
        let stores = vec![ir::Store { buffer, mem, index: place, value }];
        let stage = ir::Stage { stores, ..ir::Stage::new(Vec::new(), vector, stage.body) };
        Ok((Phase::Nest(Nest { parallel, rows: Vec::new(), stages: vec![stage] }), buffer))
    }

    /// Follows an operand through movement to the buffer that it is a view of.
    pub(super) fn through_views(
        &mut self,
        leaf: crate::hlo::Leaf,
        index: Vec<Ix>,
        dims: &[i64],
    ) -> Result<(crate::hlo::Leaf, Ix)> {
        let mut leaf = resolve(self.c, leaf);
        let mut index = index;
        let mut dims = dims.to_vec();
        // A constant is data here, even where it would be an immediate elsewhere.
        while !self.in_memory(leaf) && self.inst(leaf.0).opcode != Opcode::Constant {
            let inst = self.inst(leaf.0);
            if !matches!(
                inst.opcode,
                Opcode::Copy | Opcode::Reshape | Opcode::Broadcast | Opcode::Transpose | Opcode::Slice
            ) {
                return Err(internal(inst, "an operand of a contraction is not in memory"));
            }
            let operand = resolve(self.c, (inst.operands[0], 0));
            let from = self.leaf_shape(operand)?.dims.clone();
            index = moved_index(inst, &index, &dims, &from);
            dims = from;
            leaf = operand;
        }
        Ok((leaf, linearize(&index, &dims)))
    }
}

/// Rows of a product that fill one register of columns.
const FEW_ROWS: i64 = 16;

/// Whether a product of few rows is computed as its transpose: where the right operand, which is nearly all that there is to read,
/// has its steps and not its columns side by side, packing it would take longer than the product. No bit depends on it: a product
/// of two elements commutes, and the chain of an element stays.
pub(super) fn turns(lhs: &Panel, rhs: &Panel, (m, n, k): (Loop, Loop, Loop)) -> bool {
    let few = m.extent <= FEW_ROWS && n.extent > FEW_ROWS;
    let along = |panel: &Panel| panel.index.stride(k.axis) == Some(1);
    few && along(rhs) && along(lhs) && rhs.index.stride(n.axis).is_some()
}

/// What there is for each dimension, in an order of these.
pub(super) fn in_order<T: Clone>(order: &[usize], all: &[T]) -> Vec<T> {
    order.iter().filter_map(|&d| all.get(d).cloned()).collect()
}

/// Whether a view of a right operand lies side by side along neither columns nor steps, although the operand itself has its columns so:
/// an element is then packed several times, and each time alone.
fn is_broadcast(there: &Ix, own: &Ix, (n, k): (Loop, Loop)) -> bool {
    let along = |ix: &Ix, l: Loop| ix.stride(l.axis) == Some(1);
    along(own, n) && !along(there, n) && !along(there, k)
}

/// Whether a product is of floats or of integers in words of 32 bits, of many long rows and columns of `few` bytes at most. Rows of a type
/// that is widened by an instruction are widened again for each column, fewer of those; others are converted once for all columns elsewhere,
/// where there are several.
pub(super) fn has_few_columns(
    [lhs, rhs]: [ElementType; 2],
    out: ElementType,
    (m, n, k): (i64, i64, i64),
    few: i64,
) -> bool {
    let scalar = storage::compute_type(out);
    let floats = [lhs, rhs, out].iter().all(|ty| ty.is_float());
    let integers = lhs.is_small_integer() && rhs.is_integer() && out.is_integer() && out.bits() == 32;
    let few = match lhs {
        _ if storage::mem_of(lhs) == Some(Mem::of(scalar)) => few,
        _ if integers => few.min(WIDENED_INTEGERS),
        ElementType::BF16 => few.min(WIDENED_FLOATS),
        _ => 0,
    };
    let columns = n * Mem::of(scalar).bytes();
    let several = columns <= few && columns.saturating_mul(k) <= NEAR_COLUMNS && k >= LONG_ROW;
    let one = floats && n == 1 && k >= LONG_COLUMN;
    m >= MANY_ROWS && (one || several && (floats || integers))
}

/// The product in which the sums of a blocked contraction are kept: `f32` or `f64` for floats, as the result is computed. Sums of small
/// integers are exact in either while they fit into its digits; `None` where they may not.
pub(super) fn summed_in(operands: [ElementType; 2], out: ElementType, k: i64) -> Option<Product> {
    if out.is_float() && operands.into_iter().all(ElementType::is_float) {
        return Some(Product::of(storage::compute_type(out)));
    }
    let most = |ty: ElementType| {
        ty.is_small_integer()
            .then(|| if ty.is_signed_integer() { 1i64 << (ty.bits() - 1) } else { (1i64 << ty.bits()) - 1 })
    };
    let [a, b] = operands.map(most);
    let sum = a?.checked_mul(b?)?.checked_mul(k)?;
    let exact_in = |digits: u32| out.is_integer() && sum <= 1 << digits;
    if exact_in(f32::MANTISSA_DIGITS) {
        return Some(Product::F32);
    }
    exact_in(f64::MANTISSA_DIGITS).then_some(Product::F64)
}

/// A finished sum as a value of the result's type: floats are rounded, exact integers wrap.
fn finished(body: &mut Body, out: ElementType, sum: NodeId) -> NodeId {
    if out.is_float() {
        return storage::round_to(body, out, sum);
    }
    let scalar = storage::compute_type(out);
    let whole = match (body.scalar(sum), scalar) {
        (ScalarType::F32, ScalarType::I64) => {
            let narrow = body.convert(Op::FToS, sum, ScalarType::I32);
            body.convert(Op::SExt, narrow, ScalarType::I64)
        }
        (ScalarType::F32, _) => body.convert(Op::FToS, sum, ScalarType::I32),
        (ScalarType::I32, ScalarType::I32) => sum,
        (_, ScalarType::I64) => body.convert(Op::FToS, sum, ScalarType::I64),
        _ => {
            let wide = body.convert(Op::FToS, sum, ScalarType::I64);
            body.convert(Op::Wrap, wide, ScalarType::I32)
        }
    };
    storage::wrap_integer(body, out, whole)
}

fn negative_zero(scalar: ScalarType) -> u64 {
    if scalar == ScalarType::F64 { (-0.0f64).to_bits() } else { u64::from((-0.0f32).to_bits()) }
}
