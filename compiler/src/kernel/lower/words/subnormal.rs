//! Where sums of products of `bf16` may be subnormal.
//!
//! **Problem.** The instruction that multiplies words of two `bf16` (`vdpbf16ps`) adds as fused multiply-adds do, one product after the
//! other, but takes for zero what is subnormal, of operands and results.
//!
//! **Invariant.** Where this says no, no element, product or sum is subnormal, and the instruction gives the bits of multiply-adds.
//!
//! **Algorithm.** An element of exponent `e` is a multiple of 2^(e - 7). With the least exponents of both sides, of what is not zero, all
//! products are multiples of 2^(l + r - 14), and so are their sums: rounding to fewer digits leaves multiples of a power of two multiples
//! of it. What is not zero is at least as large as that. The least exponents are folded from the words, in phases before the product.

use super::{Lowerer, Packing, internal};
use crate::error::Result;
use crate::kernel::body::{Body, IntCond, Mem, NodeId, Op, ScalarType};
use crate::kernel::index::Ix;
use crate::kernel::ir::{Accumulator, Loop, Nest, Phase, Place, Stage, Store};
use brolga_runtime::ElementType;

/// All bits of an element but its sign.
const MAGNITUDE: i32 = 0x7fff;
/// Bits of the fraction, above which the exponent lies.
const FRACTION: u8 = 7;
/// What the fields of two exponents add up to at least where the products are normal: both are 127 too large, and 14 go off down to -126.
const LEAST_FIELDS: i32 = 2 * 127 + 14 - 126;
/// So many words are folded for each point of a phase.
const ROW: i64 = 1 << 12;

/// A row of unsigned words to be folded: where, and an element of it.
struct Row {
    parallel: Vec<Loop>,
    row: Loop,
    body: Body,
    value: NodeId,
}

impl Lowerer<'_> {
    /// Phases that find out whether products of the elements in two scratch buffers of words, or their sums, may be subnormal, and the
    /// buffer of one word that says so by not being zero.
    pub(super) fn subnormal(&mut self, packing: &mut Packing, [left, right]: [u32; 2]) -> Result<u32> {
        let (left, right) = (self.least_of_parts(packing, left)?, self.least_of_parts(packing, right)?);
        let (least, flag) = (self.scratch_buffer(ElementType::S32, 1), self.scratch_buffer(ElementType::S32, 1));
        let word = Ix::constant(0);
        self.fold_least(packing, left, (least, word.clone()), &|_, left| left);
        self.fold_least(packing, right, (flag, word.clone()), &|body, right| {
            let left = body.push(Op::Load(least, Mem::I32, word.clone()), &[], ScalarType::I32);
            let [left, right] = [left, right].map(|least| body.lshr_imm(least, FRACTION));
            let (both, least) = (body.iadd(left, right), body.umin(left, right));
            let [one, fields] = [1, LEAST_FIELDS].map(|v| body.i32(v));
            let small = body.icmp(IntCond::ULt, both, fields);
            let subnormal = body.icmp(IntCond::ULt, least, one);
            let any = body.or(small, subnormal);
            body.mask_to_int(any)
        });
        Ok(flag)
    }

    /// The row whose least value is that of a buffer of words; where there are many, phases before fold its parts.
    fn least_of_parts(&mut self, packing: &mut Packing, words: u32) -> Result<Row> {
        let elements = self.scratch_elements(words);
        let all = elements.ok_or_else(|| internal(self.inst(packing.id), "words that were not put together"))?;
        let element = |row: Loop, parallel: Vec<Loop>, at: Ix| {
            let mut body = packing.body();
            let word = body.push(Op::Load(words, Mem::I32, at), &[], ScalarType::I32);
            let high = body.lshr_imm(word, 16);
            let [magnitude, one] = [MAGNITUDE, 1].map(|v| body.i32(v));
            // Less one, that of zeros is the largest.
            let [high, low] = [high, word].map(|half| {
                let half = body.and(half, magnitude);
                body.isub(half, one)
            });
            let value = body.umin(high, low);
            Row { parallel, row, body, value }
        };
        if all <= ROW {
            let row = self.new_loop(all);
            return Ok(element(row, Vec::new(), row.ix()));
        }
        let (parts, rest) = (all / ROW, all % ROW);
        let [part, row] = [parts, ROW].map(|extent| self.new_loop(extent));
        let whole = element(row, vec![part], part.ix().scale(ROW).add(&row.ix()));
        let end = (rest > 0).then(|| {
            let last = self.new_loop(rest);
            element(last, Vec::new(), last.ix().offset(parts * ROW))
        });
        let folded = self.new_loop(parts + i64::from(rest > 0));
        let buffer = self.scratch_buffer(ElementType::S32, folded.extent as usize);
        self.fold_least(packing, whole, (buffer, part.ix()), &|_, least| least);
        if let Some(end) = end {
            self.fold_least(packing, end, (buffer, Ix::constant(parts)), &|_, least| least);
        }
        let mut body = packing.body();
        let value = body.push(Op::Load(buffer, Mem::I32, folded.ix()), &[], ScalarType::I32);
        Ok(Row { parallel: Vec::new(), row: folded, body, value })
    }

    /// A phase that folds the least unsigned value of each row, and stores what `finish` makes of it.
    fn fold_least(
        &mut self,
        packing: &mut Packing,
        Row { parallel, row, mut body, value }: Row,
        (buffer, index): (u32, Ix),
        finish: &dyn Fn(&mut Body, NodeId) -> NodeId,
    ) {
        let mut combine = packing.body();
        let [a, b] = [0, 1].map(|n| combine.arg(n, ScalarType::I32));
        let least = combine.umin(a, b);
        let accumulator = Accumulator {
            init: vec![body.i32(-1)],
            values: vec![value],
            identity: Some(vec![u64::from(u32::MAX)]),
            combine,
            roots: vec![least],
            splits: true,
            place: Place::Lanes { results: vec![0] },
        };
        let folds = Stage { accumulators: vec![accumulator], ..Stage::new(Vec::new(), row, body) };
        let mut body = packing.body();
        let least = body.push(Op::Result(0), &[], ScalarType::I32);
        let value = finish(&mut body, least);
        let stores = vec![Store { buffer, mem: Mem::I32, index, value }];
        let stored = Stage { stores, ..Stage::new(Vec::new(), self.new_loop(1), body) };
        packing.phases.push(Phase::Nest(Nest { parallel, rows: Vec::new(), stages: vec![folds, stored] }));
    }
}
