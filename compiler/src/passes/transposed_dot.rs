//! Transposed products: a contraction that writes its result in the order in which it is wanted.
//!
//! Problem: a product that is wanted column by column, as the gradient of a dense layer in the layout `{0,1}`, is a
//! contraction and a transpose behind it, which is a pass over memory. Invariant: the transpose of a product is the product of
//! the operands in the other order, each element the same chain of multiply-adds, and elementwise operations do not mind
//! where elements lie: no bit changes. What others use too stays as it is, so that nothing is computed twice. Algorithm: from a
//! transpose up through elementwise operations that it alone uses; where that leads to a product whose sides the transpose
//! exchanges, the tree is made again the other way round. What the tree reads besides is transposed, an index map where it is
//! read.

use super::Stats;
use super::rewrite::{Rewriter, rewrite};
use crate::error::Result;
use crate::hlo::{AttrKey, Category, InstructionId, Module, Opcode};
use brolga_runtime::ArrayShape;
use cranelift_entity::SecondaryMap;

/// Elementwise operations on the way from a transpose to a product.
const MAX_DEPTH: usize = 32;

/// Exchanges the sides of products that are transposed.
pub fn run(module: &mut Module) -> Result<Stats> {
    let mut stats = Stats::default();
    for id in module.order.clone() {
        if !module.computations[id].holds(&[Opcode::Transpose, Opcode::Dot]) {
            continue;
        }
        let (users, root) = (module.computations[id].users(), module.computations[id].root);
        let mut used_once: SecondaryMap<InstructionId, bool> = SecondaryMap::new();
        // Contractions alone read a transpose where it is.
        let mut stored = used_once.clone();
        for &i in &module.computations[id].order {
            used_once[i] = users[i].len() == 1 && i != root;
            let computation = &module.computations[id];
            let contracted =
                |&u: &InstructionId| computation.instructions[u].opcode.category() == Category::Contraction;
            stored[i] = i == root || !users[i].iter().all(contracted);
        }
        rewrite(module, id, |rw, i| {
            if rw.opcode(i) != Opcode::Transpose || !stored[i] {
                return Ok(None);
            }
            let permutation = rw.instruction(i).attrs.dimension_numbers(AttrKey::Dimensions);
            let operand = rw.operand(i, 0)?;
            let turn = Turn { permutation, used_once: &used_once };
            if !turn.reaches_product(rw, operand, MAX_DEPTH) {
                return Ok(None);
            }
            stats.add("transposed product", 1);
            Ok(Some(turn.value(rw, operand, MAX_DEPTH)))
        })?;
    }
    Ok(stats)
}

/// A transpose, and which values have no other use.
struct Turn<'a> {
    permutation: Vec<usize>,
    used_once: &'a SecondaryMap<InstructionId, bool>,
}

impl Turn<'_> {
    /// Whether `id` is such a product, or computed of one alone.
    fn reaches_product(&self, rw: &Rewriter<'_>, id: InstructionId, depth: usize) -> bool {
        let through = |&o: &InstructionId| self.reaches_product(rw, o, depth - 1);
        self.is_product(rw, id)
            || depth > 0 && self.is_elementwise(rw, id) && rw.instruction(id).operands.iter().any(through)
    }

    /// Nobody else needs it, and nothing but its operands orders it.
    fn is_ours(&self, rw: &Rewriter<'_>, id: InstructionId) -> bool {
        let ordered = rw.instruction(id).attrs.instructions(AttrKey::ControlPredecessors);
        self.used_once[id] && ordered.is_none_or(<[_]>::is_empty)
    }

    /// A product of two arrays of floats or integers, whose sides the transpose exchanges. Those that a contraction blocks are
    /// among them.
    fn is_product(&self, rw: &Rewriter<'_>, id: InstructionId) -> bool {
        let inst = rw.instruction(id);
        let (&[lhs, rhs], Some(out)) = (&inst.operands[..], rw.array(id)) else { return false };
        let plain = |a: &ArrayShape| (a.ty.is_float() || a.ty.is_integer()) && !a.is_dynamic();
        let fits = inst.opcode == Opcode::Dot
            && [lhs, rhs].iter().all(|&o| rw.array(o).is_some_and(plain))
            && plain(out)
            && self.is_ours(rw, id);
        let batch = inst.attrs.ints_or_empty(AttrKey::LhsBatchDims).len();
        let contracted = inst.attrs.ints_or_empty(AttrKey::LhsContractingDims).len();
        let rank = out.rank();
        let columns = rw.dims(lhs).len().saturating_sub(contracted);
        let exchanged = (0..batch).chain(columns..rank).chain(batch..columns);
        fits && self.permutation.iter().copied().eq(exchanged)
    }

    /// An elementwise operation of static arrays of its own dimensions, and scalars.
    fn is_elementwise(&self, rw: &Rewriter<'_>, id: InstructionId) -> bool {
        let inst = rw.instruction(id);
        let dims = rw.dims(id);
        let fits =
            |&o: &InstructionId| rw.array(o).is_some_and(|a| !a.is_dynamic() && (a.rank() == 0 || a.dims == dims));
        inst.opcode.category() == Category::Elementwise && inst.operands.iter().all(fits) && self.is_ours(rw, id)
    }

    /// Emits the transpose of a value.
    fn value(&self, rw: &mut Rewriter<'_>, id: InstructionId, depth: usize) -> InstructionId {
        if rw.dims(id).is_empty() {
            return id;
        }
        if self.is_product(rw, id) {
            return self.product(rw, id);
        }
        if !self.reaches_product(rw, id, depth) {
            return rw.transpose(id, &self.permutation);
        }
        let mut turned = rw.instruction(id).clone();
        turned.operands = turned.operands.iter().map(|&o| self.value(rw, o, depth.saturating_sub(1))).collect();
        self.turn_shape(rw, id, &mut turned.shape);
        rw.push(turned)
    }

    /// Emits the product with its sides exchanged.
    fn product(&self, rw: &mut Rewriter<'_>, id: InstructionId) -> InstructionId {
        let mut turned = rw.instruction(id).clone();
        turned.operands.reverse();
        for (left, right) in
            [(AttrKey::LhsBatchDims, AttrKey::RhsBatchDims), (AttrKey::LhsContractingDims, AttrKey::RhsContractingDims)]
        {
            let (a, b) = (turned.attrs.get(left).cloned(), turned.attrs.get(right).cloned());
            for (key, value) in [(left, b), (right, a)] {
                match value {
                    Some(value) => turned.attrs.set(key, value),
                    None => turned.attrs.remove(key),
                };
            }
        }
        // Says nothing here, and would say it of the other operand.
        turned.attrs.remove(AttrKey::OperandPrecision);
        self.turn_shape(rw, id, &mut turned.shape);
        rw.push(turned)
    }

    fn turn_shape(&self, rw: &Rewriter<'_>, id: InstructionId, shape: &mut brolga_runtime::Shape) {
        if let Some(array) = rw.array(id) {
            let dims: Vec<i64> = self.permutation.iter().filter_map(|&p| array.dims.get(p).copied()).collect();
            *shape = ArrayShape::new(array.ty, dims).into();
        }
    }
}
