//! Products of small integers, summed by fours and by twos, and of `bf16` by twos.
//!
//! **Problem.** Machines multiply the elements of two words and add the products, four bytes or two halves of 16 bits, in an
//! instruction or two. These want them side by side, and bytes of one side unsigned, those of the other signed. Operands have any
//! signs, and their elements lie in any order.
//!
//! **Invariant.** A sum of integers is right modulo 2^32 for any number of steps, one of `bf16` has the bits that multiply-adds of `f32`
//! give; elements that fill a last word are zeros and add nothing.
//!
//! **Algorithm.** Bytes become halves where the machine has no more, with their signs. Bytes of one sign on both sides: those of the
//! side with fewer are offset by 128, which changes the sign of their type and is one exclusive or, and 128 times the sums of the other
//! side make up for it: the same product, with ones for the offset side. A side whose elements lie side by side along the contracted
//! axis is read where it lies, or in a copy where it is offset or widened, or its words are not aligned; the right side, whose columns
//! the tile wants next to each other, is transposed word by word. Of other sides several rows are put together. What is written is a
//! phase of its own before the product.
//!
//! The steps of a convolution are positions of its window and channels: a word is channels of one position, the last one of a group
//! filled up, and base and kernel become arrays of words, whose convolution it is. The base is the side that is offset, for the sums of
//! the kernel are the same at all positions.
//!
//! Of two `bf16` the high one is multiplied first: words are put together the other way round, and copied so where they lie. Where sums
//! may be subnormal ([`subnormal`]), the product has another form.

mod subnormal;

use super::dot::{Fused, Loops, Tiled, in_order, turns};
use super::{Lowerer, internal};
use crate::error::Result;
use crate::hlo::{ConvolutionDims, InstructionId};
use crate::kernel::body::{Body, Mem, NodeId, Op, ScalarType};
use crate::kernel::index::{Ix, linearize};
use crate::kernel::ir::{self, Contraction, Loop, Nest, Panel, Phase, Product};
use crate::kernel::storage;
use brolga_runtime::{ArrayShape, ElementType};

/// What a word is filled with, of the instructions that add up its products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filling {
    /// Four bytes ([`Product::U8S8`]); who has that can add halves too.
    Bytes,
    /// Two signed halves ([`Product::S16`]).
    Halves,
    /// Two floats, the first of which is the high half ([`Product::Bf16`]).
    Floats,
}

impl Filling {
    /// Elements of a word.
    pub(super) const fn count(self) -> i64 {
        match self {
            Filling::Bytes => 4,
            Filling::Halves | Filling::Floats => 2,
        }
    }

    /// An element of a word.
    const fn mem(self) -> Mem {
        match self {
            Filling::Bytes => Mem::U8,
            Filling::Halves => Mem::S16,
            Filling::Floats => Mem::U16,
        }
    }

    /// An element of an operand, which has at most as many bits. Bytes stay as they are, halves are extended.
    fn of(self, ty: ElementType) -> Option<Mem> {
        match self {
            Filling::Bytes => Some(Mem::U8),
            Filling::Halves | Filling::Floats => storage::mem_of(ty),
        }
    }

    /// Whether so many channels are worth words: a step of halves takes two instructions, and a chain of floats is cut between words.
    pub(super) const fn is_worth(self, channels: i64) -> bool {
        match self {
            Filling::Bytes => channels > 1,
            Filling::Floats => channels % 2 == 0,
            Filling::Halves => channels % 2 == 0 || channels > MANY_CHANNELS,
        }
    }

    /// Whether products of so many rows, columns and steps are worth words: those of floats are copied for it, and looked at.
    pub(super) const fn is_worth_copies(self, (m, n, k): (i64, i64, i64)) -> bool {
        match self {
            Filling::Bytes | Filling::Halves => true,
            Filling::Floats => m.saturating_mul(n).saturating_mul(k) >= MANY_PRODUCTS,
        }
    }

    /// The words of so many elements.
    pub(super) const fn words(self, elements: i64) -> i64 {
        (elements + self.count() - 1) / self.count()
    }

    /// The words of so many elements, the whole ones and the last one that is not: the first of them, how many, and the elements of each.
    fn runs(self, elements: i64) -> impl Iterator<Item = (i64, i64, i64)> {
        let (whole, rest) = (elements / self.count(), elements % self.count());
        let runs = [(0, whole, self.count()), (whole, i64::from(rest > 0), rest)];
        runs.into_iter().filter(|&(_, words, _)| words > 0)
    }

    /// A word of its first elements, which `load` gives by number; the others are zero.
    fn word(
        self,
        body: &mut Body,
        elements: i64,
        load: &mut dyn FnMut(&mut Body, i64) -> Result<NodeId>,
    ) -> Result<NodeId> {
        let bits = (8 * self.mem().bytes()) as u8;
        let mut all = load(body, 0)?;
        match self {
            Filling::Bytes => {}
            Filling::Halves => {
                let low = body.i32(0xffff);
                all = body.and(all, low);
            }
            Filling::Floats => all = body.shl_imm(all, bits),
        }
        for element in 1..elements {
            let one = load(body, element)?;
            let place = if self == Filling::Floats { self.count() - 1 - element } else { element };
            let one = if place == 0 { one } else { body.shl_imm(one, bits * place as u8) };
            all = body.or(all, one);
        }
        Ok(all)
    }

    /// A word of elements as they lie in memory, made one to be multiplied; `offset` says whether its bytes are offset.
    fn of_memory(self, body: &mut Body, word: NodeId, offset: bool) -> NodeId {
        if self == Filling::Floats {
            let [high, low] = [body.shl_imm(word, 16), body.lshr_imm(word, 16)];
            return body.or(high, low);
        }
        if offset { offset_word(body, word, OFFSET) } else { word }
    }

    /// The product of sides with these signs; of bytes that have one sign, `offset` is the side that is offset.
    fn product(self, [left, right]: [bool; 2], offset: Side) -> (Product, Option<Side>) {
        match self {
            Filling::Bytes => {}
            Filling::Halves => return (Product::S16, None),
            Filling::Floats => return (Product::Bf16, None),
        }
        let offset = (left == right).then_some(offset);
        // An offset turns the sign of its side.
        let product = if left == (offset == Some(Side::Left)) { Product::U8S8 } else { Product::S8U8 };
        (product, offset)
    }
}

/// So many products of `bf16` gain more than the phases before them cost.
const MANY_PRODUCTS: i64 = 1 << 17;

/// Of more channels than this, a half that stays empty costs little.
const MANY_CHANNELS: i64 = 16;

/// What is offset by 128, in each byte of a word.
const OFFSET: u32 = 0x8080_8080;

/// A side of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// The elements of a side.
struct Operand {
    elements: Panel,
    mem: Mem,
    signed: bool,
    /// Its rows or columns.
    across: Loop,
    /// Whether they are offset by 128.
    offset: bool,
}

/// An operand of a convolution whose channels become words.
struct Channels<'s> {
    operand: InstructionId,
    shape: &'s ArrayShape,
    /// The dimension of the channels, of each of so many groups.
    dimension: usize,
    groups: i64,
    /// The order of the dimensions in the array of words.
    order: Vec<usize>,
}

/// What is put together for a product.
struct Packing {
    id: InstructionId,
    batch: Vec<Loop>,
    filling: Filling,
    /// The contracted axis, in elements and in words.
    k: Loop,
    words: Loop,
    phases: Vec<Phase>,
}

impl Lowerer<'_> {
    /// What words of the operands are filled with, where sums of their products are wanted modulo 2^32 at most, and every machine that
    /// the program is for adds such up.
    pub(super) fn filling(&self, operands: [ElementType; 2], out: ElementType) -> Option<Filling> {
        let most = self.numerics.words?;
        let bytes = |ty: ElementType| ty.is_integer() && ty.bits() <= 8;
        let filling = match most {
            Filling::Bytes if operands.into_iter().all(bytes) => Filling::Bytes,
            _ => Filling::Halves,
        };
        let fits = |ty: ElementType| bytes(ty) || filling == Filling::Halves && ty == ElementType::S16;
        (operands.into_iter().all(fits) && out.is_integer() && out.bits() <= 32).then_some(filling)
    }

    /// As [`Lowerer::filling`], of `bf16` whose sums are kept in `f32`.
    pub(super) fn filling_of_floats(&self, operands: [ElementType; 2], out: ElementType) -> Option<Filling> {
        let sums = out.is_float() && storage::compute_type(out) == ScalarType::F32;
        let fits = self.numerics.bf16_words && operands == [ElementType::BF16; 2] && sums;
        fits.then_some(Filling::Floats)
    }

    /// A product of small integers or of `bf16`, as one of words.
    pub(super) fn product_of_words(
        &mut self,
        id: InstructionId,
        (l, filling): (Loops, Filling),
        operands: [&ArrayShape; 2],
    ) -> Result<Vec<Phase>> {
        let inst = self.inst(id);
        let fused = self.fused(&l);
        let Fused { m, n, k, .. } = fused;
        let mut side = |number: usize, index: &[Ix], across: Loop| -> Result<Operand> {
            let operand = inst.operands.get(number).ok_or_else(|| internal(inst, "no operands"))?;
            let (leaf, offset) = self.through_views((*operand, 0), index.to_vec(), &operands[number].dims)?;
            let elements = Panel { buffer: self.input(leaf)?, index: fused.of(&offset) };
            let ty = operands[number].ty;
            let mem = filling.of(ty).ok_or_else(|| internal(inst, "no elements of words"))?;
            Ok(Operand { elements, mem, signed: ty.is_signed_integer(), across, offset: false })
        };
        let (mut left, mut right) = (side(0, &l.lhs, m)?, side(1, &l.rhs, n)?);
        if turns(&left.elements, &right.elements, (m, n, k)) {
            std::mem::swap(&mut left, &mut right);
        }
        let fewer = if left.across.extent <= right.across.extent { Side::Left } else { Side::Right };
        let (product, offset) = filling.product([left.signed, right.signed], fewer);
        left.offset = offset == Some(Side::Left);
        right.offset = offset == Some(Side::Right);
        let words = self.new_loop(filling.words(k.extent));
        let mut packing = Packing { id, batch: l.batch.clone(), filling, k, words, phases: Vec::new() };
        let lhs = self.left_words(&mut packing, &left)?;
        let rhs = self.right_words(&mut packing, &right)?;
        let offset = offset.map(|side| (side, left.signed));
        // Of floats, the chains of a product of elements.
        let block = match filling {
            Filling::Floats => filling.words(Contraction::whole_block(k)),
            Filling::Bytes | Filling::Halves => Contraction::whole_block(words),
        };
        let tiled = Tiled { product, m: left.across, n: right.across, k: words, block, lhs, rhs };
        self.word_product(packing, (l, fused), tiled, offset)
    }

    /// A convolution of small integers or of `bf16`, as one of words. Its loops are those of arrays of words, of channels of one group
    /// each; of floats, the words of a block of steps are given.
    pub(super) fn convolution_of_words(
        &mut self,
        id: InstructionId,
        (l, filling, block): (Loops, Filling, Option<i64>),
        (labels, groups): (&ConvolutionDims, i64),
        [lhs, rhs]: [&ArrayShape; 2],
    ) -> Result<Vec<Phase>> {
        let inst = self.inst(id);
        let &[base, kernel] = inst.operands.as_slice() else { return Err(internal(inst, "no operands")) };
        let fused = self.fused(&l);
        let Fused { m, n, k, .. } = fused;
        let mut packing = Packing { id, batch: l.batch.clone(), filling, k, words: k, phases: Vec::new() };
        let signed = [lhs, rhs].map(|shape| shape.ty.is_signed_integer());
        let (product, offset) = filling.product(signed, Side::Left);
        let base = Channels {
            operand: base,
            shape: lhs,
            dimension: labels.input_feature,
            groups,
            order: (0..lhs.rank()).collect(),
        };
        let feature = labels.kernel_output_feature;
        let kernel = Channels {
            operand: kernel,
            shape: rhs,
            dimension: labels.kernel_input_feature,
            groups: 1,
            order: (0..rhs.rank()).filter(|&d| d != feature).chain([feature]).collect(),
        };
        let base = self.channel_words(&mut packing, &base, &l.lhs, offset.is_some())?;
        let kernel = self.channel_words(&mut packing, &kernel, &l.rhs, false)?;
        let block = block.unwrap_or_else(|| Contraction::block_of_windows(&fused.of(&base.index), m, k));
        let [lhs, rhs] = [base, kernel].map(|panel| Panel { index: fused.of(&panel.index), ..panel });
        let offset = offset.map(|side| (side, signed[0]));
        self.word_product(packing, (l, fused), Tiled { product, m, n, k, block, lhs, rhs }, offset)
    }

    /// The phases of a product of words, those before it among them. `offset` is the side that is offset by 128, and whether the bytes
    /// of both were signed before.
    fn word_product(
        &mut self,
        mut packing: Packing,
        loops: (Loops, Fused),
        tiled: Tiled,
        offset: Option<(Side, bool)>,
    ) -> Result<Vec<Phase>> {
        let subnormal = match tiled.product {
            Product::Bf16 => Some(self.subnormal(&mut packing, [tiled.lhs.buffer, tiled.rhs.buffer])?),
            Product::F32 | Product::F64 | Product::U8S8 | Product::S8U8 | Product::S16 => None,
        };
        let mut epilogue = packing.body();
        let mut sum = epilogue.arg(0, tiled.product.mem().scalar());
        if let Some((offset, both_signed)) = offset {
            let (other, across) = match offset {
                Side::Left => (&tiled.rhs, tiled.n),
                Side::Right => (&tiled.lhs, tiled.m),
            };
            let sums = self.offset_sums(&mut packing, tiled.product, (offset, other, across), both_signed);
            let more = epilogue.push(Op::Load(sums.buffer, Mem::I32, sums.index), &[], Mem::I32.scalar());
            sum = epilogue.iadd(sum, more);
        }
        let contraction = self.contraction(packing.id, loops, (tiled, subnormal), (epilogue, sum))?;
        packing.phases.push(contraction);
        Ok(packing.phases)
    }

    /// An operand of a convolution as an array of words, at an index of it: where it lies, or a copy.
    fn channel_words(&mut self, packing: &mut Packing, of: &Channels<'_>, at: &[Ix], offset: bool) -> Result<Panel> {
        let Channels { operand, shape, dimension, groups, ref order } = *of;
        let filling = packing.filling;
        let mem = filling.of(shape.ty).ok_or_else(|| internal(self.inst(operand), "no integers"))?;
        let (channels, count) = (shape.dims[dimension] / groups, filling.count());
        let words = filling.words(channels);
        let mut dims = shape.dims.to_vec();
        dims[dimension] = groups * words;
        let place = |index: &[Ix]| linearize(&in_order(order, index), &in_order(order, &dims));
        let loops: Vec<Loop> = shape.dims.iter().map(|&d| self.new_loop(d)).collect();
        let index: Vec<Ix> = loops.iter().map(Loop::ix).collect();
        let (leaf, there) = self.through_views((operand, 0), index.clone(), &shape.dims)?;
        let from = self.input(leaf)?;
        let along = dimension + 1 == shape.rank() && order.is_sorted() && channels % count == 0;
        let dense = along && there == linearize(&index, &shape.dims);
        let changes = offset || filling == Filling::Floats;
        if dense && !changes && mem.bytes() == filling.mem().bytes() {
            return Ok(Panel { buffer: from, index: place(at) });
        }
        let buffer = self.scratch_buffer(ElementType::S32, dims.iter().product::<i64>() as usize);
        if dense {
            let mut body = packing.body();
            let (mem, to) = if changes { (Mem::I32, Mem::I32) } else { (mem, filling.mem()) };
            let flat = self.new_loop(shape.elements() as i64 * filling.mem().bytes() / to.bytes());
            let mut value = body.push(Op::Load(from, mem, flat.ix()), &[], mem.scalar());
            if changes {
                value = filling.of_memory(&mut body, value, offset);
            }
            packing.store_once((&[], flat), body, (buffer, to, flat.ix(), value));
            return Ok(Panel { buffer, index: place(at) });
        }
        for (first, all, elements) in filling.runs(channels) {
            let (group, word) = (self.new_loop(groups), self.new_loop(all));
            let mut loops: Vec<Loop> =
                order.iter().flat_map(|&d| if d == dimension { vec![group, word] } else { vec![loops[d]] }).collect();
            let mut body = packing.body();
            let mut value = filling.word(&mut body, elements, &mut |body, element| {
                let mut index = index.clone();
                index[dimension] =
                    group.ix().scale(channels).add(&word.ix().offset(first).scale(count)).offset(element);
                let (_, at) = self.through_views((operand, 0), index, &shape.dims)?;
                Ok(body.push(Op::Load(from, mem, at), &[], mem.scalar()))
            })?;
            if offset {
                value = offset_word(&mut body, value, offset_of_first(elements));
            }
            let mut index = index.clone();
            index[dimension] = group.ix().scale(words).add(&word.ix().offset(first));
            let vector = loops.iter().rposition(|l| l.extent > 1).unwrap_or(loops.len() - 1);
            let vector = loops.remove(vector);
            packing.store_once((&loops, vector), body, (buffer, Mem::I32, place(&index), value));
        }
        Ok(Panel { buffer, index: place(at) })
    }

    /// The words of the left side, in any order that the tile can walk.
    fn left_words(&mut self, packing: &mut Packing, left: &Operand) -> Result<Panel> {
        let pieced = packing.filling == Filling::Floats && packing.words_lie(left).is_none();
        if packing.is_along(&left.elements) && !pieced {
            Ok(self.words_along(packing, left, true))
        } else {
            self.words_of_rows(packing, left)
        }
    }

    /// The words of the right side, its columns next to each other.
    fn right_words(&mut self, packing: &mut Packing, right: &Operand) -> Result<Panel> {
        if !packing.is_along(&right.elements) {
            return self.words_of_rows(packing, right);
        }
        let from = self.words_along(packing, right, false);
        let (buffer, index) = self.room_for_words(packing, &[packing.words, right.across]);
        let mut body = packing.body();
        let word = body.push(Op::Load(from.buffer, Mem::I32, from.index), &[], Mem::I32.scalar());
        let word = packing.filling.of_memory(&mut body, word, right.offset);
        packing.store((&[packing.words], right.across), body, (buffer, Mem::I32, index.clone(), word));
        Ok(Panel { buffer, index })
    }

    /// Words of elements that lie side by side along the contracted axis, as these lie in memory or `finished`: where they are, or a copy.
    fn words_along(&mut self, packing: &mut Packing, side: &Operand, finished: bool) -> Panel {
        let Panel { buffer, index } = side.elements.clone();
        let (count, element) = (packing.filling.count(), packing.filling.mem());
        let offset = finished && side.offset;
        let (here, changes) = (packing.words_lie(side), offset || finished && packing.filling == Filling::Floats);
        if let Some(here) = here.clone().filter(|_| !changes) {
            return Panel { buffer, index: here };
        }
        let (to, words) = self.room_for_words(packing, &[side.across, packing.words]);
        let mut body = packing.body();
        if let Some(here) = here {
            let word = body.push(Op::Load(buffer, Mem::I32, here), &[], Mem::I32.scalar());
            let word = packing.filling.of_memory(&mut body, word, offset);
            packing.store((&[side.across], packing.words), body, (to, Mem::I32, words.clone(), word));
            return Panel { buffer: to, index: words };
        }
        let first = words.substitute(&|axis| (axis == packing.words.axis).then(Ix::default)).scale(count);
        let mut value = body.push(Op::Load(buffer, side.mem, index), &[], side.mem.scalar());
        if offset {
            value = offset_word(&mut body, value, offset_of_first(1));
        }
        packing.store((&[side.across], packing.k), body, (to, element, first.add(&packing.k.ix()), value));
        let filling = packing.words.extent * count - packing.k.extent;
        if filling > 0 {
            let (rest, mut body) = (self.new_loop(filling), packing.body());
            let zero = body.i32(0);
            let place = first.offset(packing.k.extent).add(&rest.ix());
            packing.store((&[side.across], rest), body, (to, element, place, zero));
        }
        Panel { buffer: to, index: words }
    }

    /// Words of elements that lie otherwise: of several rows, or of some that are no words where they lie.
    fn words_of_rows(&mut self, packing: &mut Packing, side: &Operand) -> Result<Panel> {
        let along = packing.is_along(&side.elements);
        let order = |words: Loop| if along { [side.across, words] } else { [words, side.across] };
        let (buffer, index) = self.room_for_words(packing, &order(packing.words));
        let count = packing.filling.count();
        for (first, all, elements) in packing.filling.runs(packing.k.extent) {
            let words = self.new_loop(all);
            let word = words.ix().offset(first);
            let mut body = packing.body();
            let mut value = packing.filling.word(&mut body, elements, &mut |body, element| {
                let at = packing.at_step(&side.elements.index, &word.scale(count).offset(element));
                Ok(body.push(Op::Load(side.elements.buffer, side.mem, at), &[], side.mem.scalar()))
            })?;
            if side.offset {
                value = offset_word(&mut body, value, offset_of_first(elements));
            }
            let place = index.substitute(&|axis| (axis == packing.words.axis).then(|| word.clone()));
            let [outer, row] = order(words);
            packing.store((&[outer], row), body, (buffer, Mem::I32, place, value));
        }
        Ok(Panel { buffer, index })
    }

    /// 128 times the sums of the bytes of the side that is not offset, with the sign that makes up for the offset.
    fn offset_sums(
        &mut self,
        packing: &mut Packing,
        product: Product,
        (offset, other, across): (Side, &Panel, Loop),
        both_signed: bool,
    ) -> Panel {
        let (ones, one) = (self.scratch_buffer(ElementType::S32, 1), self.new_loop(1));
        let mut body = packing.body();
        let word = body.i32(0x0101_0101);
        let place = Ix::constant(0);
        packing.store_once((&[], one), body, (ones, Mem::I32, place.clone(), word));
        let ones = Panel { buffer: ones, index: place };
        let (m, n, lhs, rhs) = match offset {
            Side::Left => (one, across, ones, other.clone()),
            Side::Right => (across, one, other.clone(), ones),
        };
        let (buffer, index) = self.room_for_words(packing, &[across]);
        let mut epilogue = packing.body();
        let sum = epilogue.arg(0, product.mem().scalar());
        let mut sum = epilogue.shl_imm(sum, 7);
        if both_signed {
            let zero = epilogue.i32(0);
            sum = epilogue.isub(zero, sum);
        }
        let contraction = Contraction {
            product,
            batch: packing.batch.clone(),
            m,
            n,
            k: packing.words,
            block: Contraction::whole_block(packing.words),
            lhs,
            rhs,
            epilogue,
            stores: vec![ir::Store { buffer, mem: Mem::I32, index: index.clone(), value: sum }],
            subnormal: None,
            source: Some(packing.id),
        };
        packing.phases.push(Phase::Contraction(Box::new(contraction)));
        Panel { buffer, index }
    }

    /// A scratch buffer of words for each batch and each point of `loops`, and where the words of a point lie.
    fn room_for_words(&mut self, packing: &Packing, loops: &[Loop]) -> (u32, Ix) {
        let all: Vec<Loop> = packing.batch.iter().chain(loops).copied().collect();
        let dims: Vec<i64> = all.iter().map(|l| l.extent).collect();
        let index: Vec<Ix> = all.iter().map(Loop::ix).collect();
        let elements = dims.iter().product::<i64>().max(0) as usize;
        (self.scratch_buffer(ElementType::S32, elements), linearize(&index, &dims))
    }
}

impl Packing {
    /// Whether elements lie side by side along the contracted axis.
    fn is_along(&self, elements: &Panel) -> bool {
        elements.index.stride(self.k.axis) == Some(1)
    }

    /// The index of words of a side that are ones where they lie; nothing where they are none.
    fn words_lie(&self, side: &Operand) -> Option<Ix> {
        let (count, element) = (self.filling.count(), self.filling.mem());
        let at = self.at_step(&side.elements.index, &self.words.ix().scale(count));
        let here = at.div(count);
        let aligned = side.mem.bytes() == element.bytes()
            && self.k.extent % count == 0
            && at.rem(count).as_constant() == Some(0)
            && here.stride(self.words.axis) == Some(1);
        aligned.then_some(here)
    }

    /// The index of an element at another step.
    fn at_step(&self, index: &Ix, step: &Ix) -> Ix {
        index.substitute(&|axis| (axis == self.k.axis).then(|| step.clone()))
    }

    /// An empty body of what belongs to the product.
    fn body(&self) -> Body {
        let mut body = Body::new();
        body.set_source(Some(self.id));
        body
    }

    /// A phase that stores a value for each batch and each point of the loops, the last of which is the row.
    fn store(&mut self, (loops, row): (&[Loop], Loop), body: Body, store: (u32, Mem, Ix, NodeId)) {
        let parallel: Vec<Loop> = self.batch.iter().chain(loops).copied().collect();
        self.store_once((&parallel, row), body, store);
    }

    /// As [`Packing::store`], without batches.
    fn store_once(
        &mut self,
        (parallel, vector): (&[Loop], Loop),
        body: Body,
        (buffer, mem, index, value): (u32, Mem, Ix, NodeId),
    ) {
        let stores = vec![ir::Store { buffer, mem, index, value }];
        let stage = ir::Stage { stores, ..ir::Stage::new(Vec::new(), vector, body) };
        self.phases.push(Phase::Nest(Nest { parallel: parallel.to_vec(), rows: Vec::new(), stages: vec![stage] }));
    }
}

/// What is offset in a word of its first bytes; the others stay zero.
const fn offset_of_first(bytes: i64) -> u32 {
    OFFSET >> (8 * (Filling::Bytes.count() - bytes))
}

/// Bytes of a word offset by 128, those that `which` names.
fn offset_word(body: &mut Body, word: NodeId, which: u32) -> NodeId {
    let which = body.i32(which as i32);
    body.xor(word, which)
}
