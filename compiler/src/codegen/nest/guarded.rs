//! Stores of single elements that change nothing where an index is outside: a branch around them.
//!
//! **Problem.** An update of a scatter goes to a clamped index, and where that is not the index itself, stores what is there. The next
//! update's load must not pass that store; while the store's address waits for the clamp, a processor guesses, and where two updates
//! soon after each other go to one place, it takes back all that it did since.
//!
//! **Invariant.** In the branch each clamped index is the index itself; a value of the one is as good as the other's.
//!
//! **Algorithm.** What the choice asks is a conjunction, of which some parts say that an index is what it is clamped to
//! ([`Guarded::of`]): that it is not outside the bounds, one comparison without a sign. Where all hold, the address is made of the indices
//! as they are, and the new elements are stored without a choice.

use super::{Live, NestEmitter};
use crate::codegen::flow::Flow;
use crate::codegen::rows::RowLoop;
use crate::kernel::body::{Body, IntCond, NodeId, Op};
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;

/// What the stores of a stage have in common.
pub(super) struct Guarded {
    /// They happen where each index is inside its bounds ...
    inside: Vec<Inside>,
    /// ... and these hold.
    also: Vec<NodeId>,
    /// The new element of each store.
    values: Vec<NodeId>,
}

/// That an index is what it is clamped to.
struct Inside {
    index: NodeId,
    clamped: NodeId,
    low: i64,
    high: i64,
}

impl Guarded {
    /// The guard of stores that happen once for the row, where all have one.
    pub(super) fn of(row: &RowLoop<'_>) -> Option<Guarded> {
        let (stage, body) = (row.stage, &row.stage.body);
        if row.has_elements() {
            return None;
        }
        let mut guard = None;
        let mut values = Vec::new();
        for s in &stage.stores {
            let chosen = body.node(s.value);
            let (Op::Select, &[mask, new, old]) = (&chosen.op, chosen.args.as_slice()) else { return None };
            let stays = matches!(&body.node(old).op, Op::Load(buffer, mem, ix)
                if (*buffer, *mem, ix) == (s.buffer, s.mem, &s.index));
            let mask = body.uncast(mask);
            if !stays || guard.is_some_and(|guard| guard != mask) {
                return None;
            }
            guard = Some(mask);
            values.push(new);
        }
        let mut guarded = Guarded { inside: Vec::new(), also: Vec::new(), values };
        guarded.conjunction(body, guard?);
        (!guarded.inside.is_empty()).then_some(guarded)
    }

    /// Adds what must hold for a truth value to hold.
    fn conjunction(&mut self, body: &Body, mask: NodeId) {
        match (&body.node(mask).op, body.node(mask).args.as_slice()) {
            (Op::And, args) => args.iter().for_each(|&a| self.conjunction(body, a)),
            (Op::ICmp(IntCond::Eq), &[a, b]) => match inside(body, a, b).or_else(|| inside(body, b, a)) {
                Some(inside) => self.inside.push(inside),
                None => self.also.push(mask),
            },
            _ => self.also.push(mask),
        }
    }
}

/// The bounds of an index, where one node is what another is clamped to.
fn inside(body: &Body, clamped: NodeId, index: NodeId) -> Option<Inside> {
    let (mut low, mut high, mut at) = (i64::MIN, i64::MAX, clamped);
    let before = body.unextended(index);
    while at != index && Some(at) != before {
        if let Some(unextended) = body.unextended(at) {
            at = unextended;
            continue;
        }
        let (clamps, bound) = body.clamp(at)?;
        if body.node(at).op == Op::SMax {
            low = low.max(bound);
        } else {
            high = high.min(bound);
        }
        at = clamps;
    }
    (clamped != index && low <= high).then_some(Inside { index, clamped, low, high })
}

impl NestEmitter<'_, '_, '_, '_> {
    /// Stores what is new where the guard holds.
    pub(super) fn guarded(&mut self, row: &RowLoop<'_>, guarded: &Guarded) {
        let mut live = Live::default();
        let (mut conditions, mut indices) = (Vec::new(), Vec::new());
        for &Inside { index, clamped, low, high } in &guarded.inside {
            let v = self.uniform_node(row, &mut live, index);
            indices.push((clamped, v));
            let above = if low == 0 { v } else { self.b().ins().iadd_imm_s(v, low.wrapping_neg()) };
            let most = self.iconst(high.wrapping_sub(low));
            conditions.push(self.b().ins().icmp(IntCC::UnsignedLessThanOrEqual, above, most));
        }
        conditions.extend(guarded.also.iter().map(|&mask| self.uniform_node(row, &mut live, mask)));
        let Some(all) = conditions.into_iter().reduce(|a, b| self.b().ins().band(a, b)) else {
            return self.lanes.faults.report("a guard of nothing");
        };
        self.when(all, &mut |this| {
            // What is computed here is not there behind the branch.
            let mut inside = live.clone();
            inside.uniform.extend(indices.iter().copied());
            let new: Vec<_> = guarded.values.iter().map(|&v| this.uniform_node(row, &mut inside, v)).collect();
            for (s, v) in row.stage.stores.iter().zip(new) {
                this.store_once(row, &mut inside, s, v);
            }
        });
    }
}
