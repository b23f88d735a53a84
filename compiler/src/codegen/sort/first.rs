//! The first records of a row: in a short list, or in batches.
//!
//! **Problem.** Of a long row few elements are among the first that are kept. To make a record of each, only to see that it comes behind
//! them, costs more than all else.
//!
//! **Invariant.** What is kept are the records that come first, in whatever order elements are looked at: equal keys are told apart by
//! their positions. Elements that are passed over have keys behind the last one that is kept by then.
//!
//! **Algorithm.** Elements are looked at [`STRIP`] at a time. Where those that a key is made of lie side by side, the keys are made in
//! vectors first, and the strip is passed over where each is greater than that of the last record that is kept. Of the others the records
//! are made: few are inserted into a sorted list, more are put behind those that are kept, and when there is no more room, all of it is
//! sorted.

use super::{Emitter, Halves, Records, arguments};
use crate::codegen::flow::Flow;
use crate::codegen::lanes::{Lanes, Shape, Val};
use crate::codegen::rows::VECTOR;
use crate::codegen::vector::{Isa, Leaves, Values, roots};
use crate::kernel::body::{Body, IntCond, Node, NodeId, Op, ScalarType};
use crate::kernel::sort::SortKey;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use cranelift_frontend::Variable;
use hashbrown::HashMap;

/// Elements that are looked at together.
const STRIP: i64 = 4 * VECTOR;
/// Rows are this many times as long as what is kept where strips are passed over: of shorter ones most have something to keep.
const LONG: i64 = 32;
/// Strips that are one of so many parts of the row apart are looked at after each other: of a row that goes up or down, each element would
/// else be kept for a while.
const PARTS: i64 = 16;

/// What the keys of a strip are made of.
struct Strip<'k> {
    key: &'k SortKey,
    /// The operands that the key follows from.
    wanted: Vec<usize>,
}

impl Emitter<'_, '_, '_> {
    /// Keeps the first records in a sorted list: most elements are only compared with the last of it.
    pub(super) fn select(&mut self, r: &Records, list: Value, unordered: Option<Variable>) {
        let keep = self.sort.keep;
        // Greater than every record: positions are below 2^32 - 1.
        let none = self.iconst(-1);
        self.each(keep, &mut |this, i| this.store(r, list, 0, i, none));
        let worst = self.variable(none);
        let strip = self.strip();
        self.count_constant(0, self.sort.row.extent, STRIP, &mut |this, begin| {
            this.considered(strip.as_ref(), begin, worst, &mut |this, i| this.insert(r, list, (i, worst), unordered));
        });
    }

    /// Puts the record of element `i` into the list, if it comes before the last one there.
    fn insert(&mut self, r: &Records, list: Value, (i, worst): (Value, Variable), unordered: Option<Variable>) {
        let keep = self.sort.keep;
        let record = self.record(r, i, unordered)[0];
        let last = self.b().use_var(worst);
        let better = self.b().ins().icmp(IntCC::UnsignedLessThan, record, last);
        self.when(better, &mut |this| {
            let end = this.iconst(keep - 1);
            let place = this.variable(end);
            let (head, shift, found) = (this.b().create_block(), this.b().create_block(), this.b().create_block());
            this.b().ins().jump(head, &[]);
            this.b().switch_to_block(head);
            let at = this.b().use_var(place);
            let previous = this.b().ins().iadd_imm_s(at, -1);
            // The list's first element is compared with itself: it is not greater, and the search ends.
            let zero = this.iconst(0);
            let inside = this.b().ins().icmp(IntCC::SignedGreaterThan, at, zero);
            let index = this.b().ins().select(inside, previous, zero);
            let other = this.load(r, list, 0, index);
            let greater = this.b().ins().icmp(IntCC::UnsignedGreaterThan, other, record);
            let more = this.b().ins().band(inside, greater);
            this.b().ins().brif(more, shift, &[], found, &[]);
            this.b().switch_to_block(shift);
            this.b().seal_block(shift);
            this.store(r, list, 0, at, other);
            this.b().def_var(place, previous);
            this.b().ins().jump(head, &[]);
            this.b().seal_block(head);
            this.b().switch_to_block(found);
            this.b().seal_block(found);
            this.store(r, list, 0, at, record);
            let last = this.load(r, list, 0, end);
            this.b().def_var(worst, last);
        });
    }

    /// Keeps the first records in batches: most elements only see that they come behind what is kept.
    pub(super) fn batches(&mut self, r: &Records, list: Value, unordered: Option<Variable>) {
        let (keep, strips) = (self.sort.keep, (self.sort.row.extent + STRIP - 1) / STRIP);
        // Greater than every record: positions are below 2^32 - 1.
        let none = self.iconst(-1);
        let (zero, room, last) = (self.iconst(0), self.iconst(r.count), self.iconst(strips - 1));
        let most = self.iconst(r.count - STRIP);
        let other = self.b().ins().iadd_imm_s(list, r.half);
        let halves = Halves { from: self.variable(list), to: self.variable(other) };
        let (worst, count) = (self.variable(none), self.variable(zero));
        let (first, next) = (self.variable(zero), self.variable(zero));
        let (part, all) = (self.iconst((strips + PARTS - 1) / PARTS), self.iconst(strips));
        let strip = self.strip();
        self.each(strips, &mut |this, i| {
            let (at, begin) = (this.b().use_var(next), this.b().use_var(first));
            let (further, again) = (this.b().ins().iadd(at, part), this.b().ins().iadd_imm_s(begin, 1));
            let inside = this.b().ins().icmp(IntCC::SignedLessThan, further, all);
            let (after, begin) =
                (this.b().ins().select(inside, further, again), this.b().ins().select(inside, begin, again));
            this.b().def_var(next, after);
            this.b().def_var(first, begin);
            let begin = this.b().ins().imul_imm_s(at, STRIP);
            this.considered(strip.as_ref(), begin, worst, &mut |this, i| {
                let record = this.record(r, i, unordered)[0];
                let (half, at, behind) =
                    (this.b().use_var(halves.from), this.b().use_var(count), this.b().use_var(worst));
                this.store(r, half, 0, at, record);
                let better = this.b().ins().icmp(IntCC::UnsignedLessThan, record, behind);
                let step = this.b().ins().uextend(types::I64, better);
                let next = this.b().ins().iadd(at, step);
                this.b().def_var(count, next);
            });
            let kept = this.b().use_var(count);
            let full = this.b().ins().icmp(IntCC::SignedGreaterThan, kept, most);
            let ends = this.b().ins().icmp(IntCC::Equal, i, last);
            let sorted = this.b().ins().bor(full, ends);
            this.when(sorted, &mut |this| {
                let half = this.b().use_var(halves.from);
                this.count(kept, room, 1, &mut |this, i| this.store(r, half, 0, i, none));
                this.merge_sort(r, halves);
                let (half, end, kept) = (this.b().use_var(halves.from), this.iconst(keep - 1), this.iconst(keep));
                let last = this.load(r, half, 0, end);
                this.b().def_var(worst, last);
                this.b().def_var(count, kept);
            });
        });
        // Where the last batch was sorted into the second half.
        let from = self.b().use_var(halves.from);
        self.each(keep, &mut |this, i| {
            let record = this.load(r, from, 0, i);
            this.store(r, list, 0, i, record);
        });
    }

    /// Does something for each element of the strip from `begin` on, but where all of them come behind the `worst` record that is kept.
    fn considered(
        &mut self,
        strip: Option<&Strip<'_>>,
        begin: Value,
        worst: Variable,
        consider: &mut dyn FnMut(&mut Self, Value),
    ) {
        let n = self.sort.row.extent;
        let (end, length) = (self.b().ins().iadd_imm_s(begin, STRIP), self.iconst(n));
        let whole = self.b().ins().icmp(IntCC::SignedLessThanOrEqual, end, length);
        let end = self.b().ins().select(whole, end, length);
        let yes = self.b().ins().iconst(types::I8, 1);
        let matters = self.variable(yes);
        if let Some(strip) = strip {
            self.when(whole, &mut |this| {
                let any = this.any_before(strip, begin, worst).unwrap_or_else(|| {
                    this.lanes.faults.report("the keys of a strip have no form in CLIF");
                    yes
                });
                this.b().def_var(matters, any);
            });
        }
        let matters = self.b().use_var(matters);
        self.when(matters, &mut |this| this.count(begin, end, 1, &mut *consider));
    }

    /// Whether any element of a whole strip from `begin` on has a key that is not greater than that of a record.
    fn any_before(&mut self, strip: &Strip<'_>, begin: Value, record: Variable) -> Option<Value> {
        let sort = self.sort;
        let record = self.b().use_var(record);
        let last = self.b().ins().ushr_imm_u(record, 32);
        let last = self.b().ins().ireduce(types::I32, last);
        let last = self.lanes.splat(ScalarType::I32, last);
        let wanted: Vec<NodeId> = strip.wanted.iter().map(|&k| sort.operands[k].value).collect();
        let (types, masks) = ([ScalarType::I32; 2], [ScalarType::M32; 2]);
        let mut any: Option<Val> = None;
        for vector in 0..STRIP / VECTOR {
            let at = self.b().ins().iadd_imm_s(begin, vector * VECTOR);
            self.axes.insert(sort.row.axis, at);
            let mut args = vec![None; sort.operands.len()];
            let mut beside = Beside { emitter: self };
            let elements = roots(&mut beside, &sort.load, &[], &wanted)?;
            strip.wanted.iter().zip(elements).for_each(|(&k, v)| args[k] = Some(v));
            let key = *roots(&mut beside, &strip.key.body, &args, &[strip.key.root])?.first()?;
            let before = self.lanes.operation(&Op::ICmp(IntCond::ULe), &[key, last], &types, ScalarType::M32)?;
            any = Some(match any {
                Some(any) => self.lanes.operation(&Op::Or, &[any, before], &masks, ScalarType::M32)?,
                None => before,
            });
        }
        match any? {
            Val::Four(any) => Some(self.b().ins().vany_true(any)),
            Val::One(_) | Val::Pair(_) | Val::Each(_) => None,
        }
    }
}

impl<'k> Emitter<'_, '_, 'k> {
    /// What the keys of strips are made of, where vectors of them can be made and are worth it.
    fn strip(&self) -> Option<Strip<'k>> {
        let (sort, key) = (self.sort, self.sort.key.as_ref()?);
        let short = sort.row.extent / LONG < sort.keep;
        if short || !self.lanes.target.has_vectors() || key.unordered.is_some() {
            return None;
        }
        let mut wanted = arguments(&key.body, key.root);
        wanted.sort_unstable();
        wanted.dedup();
        let needed = sort.load.needed(wanted.iter().map(|&k| sort.operands[k].value));
        let beside = |node: &Node| match &node.op {
            Op::Load(_, _, ix) => ix.stride(sort.row.axis) == Some(1) && !ix.has_values(),
            op => matches!(op, Op::Const(_)) || !node.args.is_empty(),
        };
        let all_beside = sort.load.nodes().iter().zip(needed).all(|(node, needed)| !needed || beside(node));
        (all_beside && key.body.scalar(key.root) == ScalarType::I32).then_some(Strip { key, wanted })
    }
}

/// The elements of a row from where its axis is on, side by side in vectors.
struct Beside<'e, 'f, 'b, 'k> {
    emitter: &'e mut Emitter<'f, 'b, 'k>,
}

impl<'f, 'b> Leaves for Beside<'_, 'f, 'b, '_> {
    type Isa = Lanes<'f, 'b>;

    fn isa(&mut self) -> &mut Lanes<'f, 'b> {
        &mut self.emitter.lanes
    }

    fn shape(&self) -> Shape {
        Shape::Vector
    }

    fn leaf(&mut self, body: &Body, id: NodeId, _: &Values<Val>) -> Option<Val> {
        let Op::Load(buffer, mem, ix) = &body.node(id).op else { return None };
        let base = self.emitter.base(*buffer);
        let index = self.emitter.at(ix, &HashMap::new());
        let at = self.emitter.element(base, index, mem.bytes());
        Some(self.emitter.lanes.load_vector(*mem, at, 0))
    }
}
