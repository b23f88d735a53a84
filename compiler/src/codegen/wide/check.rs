//! An independent checker of the allocation.
//!
//! **Problem.** A wrong register is a wrong number in silence. The allocator is a page of bookkeeping; what it must achieve is a
//! few lines.
//!
//! **Invariant.** Replaying the steps of an iteration, each instruction finds the values that it was selected with, in the order in
//! which they were selected; every store to the frame goes to a spill slot of its own; and when the iteration ends, each accumulator's
//! last value is in its register and every value that is kept for the whole loop still is in its own.
//!
//! **Algorithm.** The state says which virtual register each machine register and each spill slot holds. A move copies that;
//! an instruction is compared operand by operand with the one it comes from, and its result overwrites. Nothing is known of
//! machine registers at the head of an iteration but accumulators and what is kept. The checker shares no code with the allocator.

use super::allocate::{Allocated, Operand, Operands, Step};
use super::select::{Definition, Index, Inst, Iteration};
use super::{FIRST_MASK, Frame, MASKS_END, Reg};
use crate::codegen::rows::Width;
use hashbrown::HashMap;
use iced_x86::Code;
use smallvec::smallvec;

struct State<'t> {
    iteration: &'t Iteration,
    frame: &'t Frame,
    registers: [Option<Reg>; MASKS_END as usize],
    slots: HashMap<u32, Reg>,
    /// What lies in the pool and in the frame besides the spill slots, a register's worth of it.
    locations: HashMap<Operand, Reg>,
    /// What lies in the frame in at least one word: all broadcast values.
    words: HashMap<Operand, Reg>,
}

/// Checks an allocation of an iteration.
///
/// # Errors
/// What the first wrong step is.
pub(super) fn check(iteration: &Iteration, allocated: &Allocated, frame: &Frame) -> Result<(), String> {
    let (mut locations, mut words) = (HashMap::new(), HashMap::new());
    for (definition, r) in iteration.definitions.iter().zip((0..).map(Reg)) {
        match *definition {
            Definition::Constant(k) => locations.insert(Operand::Pool(k), r),
            Definition::Uniform(k) => {
                let location = Operand::Frame(frame.uniform(k));
                if frame.is_whole(k) {
                    locations.insert(location, r);
                }
                words.insert(location, r)
            }
            Definition::Computed | Definition::Mask | Definition::Accumulator(_) => None,
        };
    }
    let mut s =
        State { iteration, frame, registers: [None; MASKS_END as usize], slots: HashMap::new(), locations, words };
    let (load, store) = whole_moves(iteration.width);
    if iteration.starts.len() != iteration.accumulators.len()
        || iteration.starts.iter().any(|s| s.is_some() != frame.identities)
    {
        return Err("not every accumulator has one start".to_owned());
    }
    let mut before = allocated.before.iter();
    for (k, (&(start, _), constant)) in iteration.accumulators.iter().zip(&iteration.starts).enumerate() {
        let location = Operand::Frame(frame.accumulator(k as u32));
        let from = constant.map_or(location, Operand::Pool);
        match before.next() {
            Some(Step::Plain(code, operands))
                if *code == load
                    && operands.as_slice() == [Operand::Register { number: k as u8, half: false }, from] =>
            {
                s.registers[k] = Some(start);
            }
            other => return Err(format!("accumulator {k} is not loaded into its register: {other:?}")),
        }
    }
    before.try_for_each(|step| s.step(step, None))?;
    let head = s.registers;
    if allocated.body.len() != allocated.origins.len() {
        return Err(format!("{} steps of {} origins", allocated.body.len(), allocated.origins.len()));
    }
    let mut next = 0;
    for (step, &origin) in allocated.body.iter().zip(&allocated.origins) {
        if let Some(at) = origin {
            if at != next {
                return Err(format!("instruction {at} stands where {next} should"));
            }
            next += 1;
        }
        s.step(step, origin)?;
    }
    if next as usize != iteration.insts.len() {
        return Err(format!("{next} of {} instructions", iteration.insts.len()));
    }
    for (k, &held) in head.iter().enumerate() {
        let want = iteration.accumulators.get(k).map(|&(_, end)| end).or(held);
        if want.is_some() && s.registers[k] != want {
            return Err(format!("register {k} ends the iteration with {:?}, not with {want:?}", s.registers[k]));
        }
    }
    let left = |k: u32| {
        let register = k * iteration.width.bytes()..(k + 1) * iteration.width.bytes();
        frame.ends.is_empty() || frame.ends.iter().any(|end| register.contains(end))
    };
    let after = (0..iteration.accumulators.len()).filter(|&k| left(k as u32)).map(|k| {
        let location = Operand::Frame(frame.accumulator(k as u32));
        (store, smallvec![location, Operand::Register { number: k as u8, half: false }])
    });
    let stored = allocated.after.iter().map(|step| match step {
        Step::Plain(code, operands) => (*code, operands.clone()),
        Step::Broadcast { .. } | Step::Pick { .. } | Step::Put { .. } | Step::Divide { .. } => {
            (Code::INVALID, Operands::new())
        }
    });
    if after.eq(stored) { Ok(()) } else { Err("accumulators are not stored as they were loaded".to_owned()) }
}

/// The moves of a whole register from memory and to it.
fn whole_moves(width: Width) -> (Code, Code) {
    match width {
        Width::W256 => (Code::VEX_Vmovups_ymm_ymmm256, Code::VEX_Vmovups_ymmm256_ymm),
        Width::W512 => (Code::EVEX_Vmovups_zmm_k1z_zmmm512, Code::EVEX_Vmovups_zmmm512_k1z_zmm),
    }
}

impl State<'_> {
    /// What an operand holds; `None` where that is unknown.
    fn held(&self, operand: &Operand) -> Option<Reg> {
        match operand {
            Operand::Register { number, .. } | Operand::Chooser(number) | Operand::Zeroing(number) => {
                *self.registers.get(usize::from(*number))?
            }
            Operand::Frame(offset) => self.slots.get(offset).or_else(|| self.locations.get(operand)).copied(),
            Operand::Pool(_) => self.locations.get(operand).copied(),
            Operand::Row(_) | Operand::Imm(_) => None,
        }
    }

    /// What a register for values holds.
    fn in_register(&self, number: u8) -> Option<Reg> {
        *self.registers.get(..usize::from(FIRST_MASK))?.get(usize::from(number))?
    }

    /// Compares the place of indices with what they are.
    fn indexed(&self, index: &Index, place: &Index<u8>) -> Option<()> {
        (index.first == place.first && self.in_register(place.of) == Some(index.of)).then_some(())
    }

    fn step(&mut self, step: &Step, origin: Option<u32>) -> Result<(), String> {
        match origin {
            None => self.transfer(step),
            Some(at) => {
                let iteration = self.iteration;
                let inst = iteration.insts.get(at as usize).ok_or_else(|| format!("there is no instruction {at}"))?;
                self.instruction(step, inst).ok_or_else(|| format!("instruction {at}, {inst:?}, became {step:?}"))
            }
        }
    }

    fn transfer(&mut self, step: &Step) -> Result<(), String> {
        let wrong = || format!("no move: {step:?}");
        let Step::Plain(code, operands) = step else { return Err(wrong()) };
        let (load, store) = whole_moves(self.iteration.width);
        // A move of masks moves a mask, to a register of masks; one of whole registers anything else.
        let mask = matches!(*code, Code::VEX_Kmovw_kr_km16 | Code::VEX_Kmovw_m16_kr);
        let right = |r: &Reg| self.iteration.is_mask(*r) == mask;
        let broadcast = match self.iteration.width {
            Width::W256 => Code::VEX_Vbroadcastsd_ymm_m64,
            Width::W512 => Code::EVEX_Vbroadcastsd_zmm_k1z_xmmm64,
        };
        match operands.as_slice() {
            // Of a broadcast value one word is as good as all.
            [Operand::Register { number, half: false }, from] if *code == broadcast => {
                let value = self.words.get(from).copied().ok_or_else(wrong)?;
                self.hold(*number, value).ok_or_else(wrong)
            }
            [Operand::Register { number, half: false }, from] if mask || *code == load => {
                if *code == Code::VEX_Kmovw_m16_kr || (mask && !matches!(from, Operand::Frame(_))) {
                    return Err(wrong());
                }
                let value = self.held(from).filter(right).ok_or_else(|| format!("of nothing known: {step:?}"))?;
                self.hold(*number, value).ok_or_else(wrong)
            }
            [Operand::Frame(offset), from @ Operand::Register { half: false, .. }] if mask || *code == store => {
                let slot = offset.checked_sub(self.frame.spill(0));
                let register = self.iteration.width.bytes();
                let whole = slot.is_some_and(|at| at % register == 0 && at / register < self.frame.spills);
                let stores = *code != Code::VEX_Kmovw_kr_km16;
                let value = self.held(from).filter(|r| whole && stores && right(r)).ok_or_else(wrong)?;
                self.slots.insert(*offset, value);
                Ok(())
            }
            _ => Err(wrong()),
        }
    }

    /// Notes what a register holds from now on; `None` where it is not one for such values. `k0` chooses nothing.
    fn hold(&mut self, number: u8, value: Reg) -> Option<()> {
        let mask = self.iteration.is_mask(value);
        let file = if mask { FIRST_MASK + 1..MASKS_END } else { 0..self.iteration.width.registers() as u8 };
        if !file.contains(&number) {
            return None;
        }
        self.registers[usize::from(number)] = Some(value);
        Some(())
    }

    /// Compares a step with its instruction and notes its result; `None` where they differ.
    fn instruction(&mut self, step: &Step, inst: &Inst) -> Option<()> {
        let is = |operand: &Operand, wanted: Reg, half: bool| {
            let form = match operand {
                Operand::Register { half: found, .. } => *found == half,
                _ => !half,
            };
            (form && self.held(operand) == Some(wanted)).then_some(())
        };
        let result = |operand: &Operand, half: bool| match *operand {
            Operand::Register { number, half: found } if found == half => Some(number),
            _ => None,
        };
        let (number, to) = match (inst, step) {
            (Inst::Plain { code, to, from, half, imm }, Step::Plain(found, operands)) if code == found => {
                let (first, rest) = operands.split_first()?;
                let expected = from.len() + usize::from(imm.is_some());
                if rest.len() != expected {
                    return None;
                }
                for (k, (&wanted, operand)) in from.iter().zip(rest).enumerate() {
                    is(operand, wanted, half >> (k + 1) & 1 == 1)?;
                }
                if let Some(imm) = imm
                    && rest.last() != Some(&Operand::Imm(*imm))
                {
                    return None;
                }
                (result(first, half & 1 == 1)?, *to)
            }
            (Inst::Blend { code, to, mask, then, otherwise }, Step::Plain(found, operands)) if code == found => {
                let [first, no, yes, selector] = operands.as_slice() else { return None };
                is(no, *otherwise, false)?;
                is(yes, *then, false)?;
                let chooses = match self.iteration.width {
                    Width::W256 => matches!(selector, Operand::Register { .. }),
                    Width::W512 => matches!(selector, Operand::Chooser(_)),
                };
                if !chooses || self.held(selector) != Some(*mask) {
                    return None;
                }
                (result(first, false)?, *to)
            }
            (Inst::Fma { wide, to, a, b, c }, Step::Plain(code, operands)) => {
                let [tied, second, third] = operands.as_slice() else { return None };
                let product = |x: &Operand, y: &Operand| {
                    let straight = is(x, *a, false).and(is(y, *b, false));
                    straight.or_else(|| is(x, *b, false).and(is(y, *a, false)))
                };
                use Code::*;
                match (*code, wide, self.iteration.width) {
                    (VEX_Vfmadd213ps_ymm_ymm_ymmm256, false, Width::W256)
                    | (VEX_Vfmadd213pd_ymm_ymm_ymmm256, true, Width::W256)
                    | (EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er, false, Width::W512)
                    | (EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er, true, Width::W512) => {
                        product(tied, second)?;
                        is(third, *c, false)?;
                    }
                    (VEX_Vfmadd231ps_ymm_ymm_ymmm256, false, Width::W256)
                    | (VEX_Vfmadd231pd_ymm_ymm_ymmm256, true, Width::W256)
                    | (EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er, false, Width::W512)
                    | (EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er, true, Width::W512) => {
                        product(second, third)?;
                        is(tied, *c, false)?;
                    }
                    _ => return None,
                }
                (result(tied, false)?, *to)
            }
            (
                Inst::Permute { to, order, low, high },
                Step::Plain(Code::EVEX_Vpermt2d_zmm_k1z_zmm_zmmm512b32, operands),
            ) if self.iteration.width == Width::W512 => {
                let [tied, second, third] = operands.as_slice() else { return None };
                for (operand, wanted) in [(tied, low), (second, order), (third, high)] {
                    is(operand, *wanted, false)?;
                }
                (result(tied, false)?, *to)
            }
            (Inst::Load { code, to, from, half, mask }, Step::Plain(found, operands)) if code == found => {
                let [first, Operand::Row(access), rest @ ..] = operands.as_slice() else { return None };
                let chosen = match (mask, rest) {
                    (None, []) => true,
                    (Some(mask), [chooser @ Operand::Zeroing(_)]) => self.held(chooser) == Some(*mask),
                    _ => false,
                };
                if access != from || !chosen {
                    return None;
                }
                (result(first, *half)?, *to)
            }
            (Inst::Insert { code, to, into, from, half, imm }, Step::Plain(found, operands)) if code == found => {
                let [first, old, Operand::Row(access), rest @ ..] = operands.as_slice() else { return None };
                is(old, *into, *half)?;
                if access != from || !rest.iter().copied().eq(imm.map(Operand::Imm)) {
                    return None;
                }
                (result(first, *half)?, *to)
            }
            (Inst::Store { code, to, from, half, imm, mask }, Step::Plain(found, operands)) if code == found => {
                let [Operand::Row(access), value, rest @ ..] = operands.as_slice() else { return None };
                is(value, *from, *half)?;
                let rest = match (mask, rest) {
                    (None, _) => rest,
                    (Some(mask), [rest @ .., chooser @ Operand::Chooser(_)]) if self.held(chooser) == Some(*mask) => {
                        rest
                    }
                    (Some(_), _) => return None,
                };
                let element = rest.iter().copied().eq(imm.map(Operand::Imm));
                return (element && access == to).then_some(());
            }
            (
                Inst::Pick { to, into, from, index, each },
                Step::Pick { to: number, into: old, from: f, index: i, each: e },
            ) if (from, each) == (f, e) => {
                self.indexed(index, i)?;
                match (into, old) {
                    (Some(into), Some(old)) if self.in_register(*old) == Some(*into) => {}
                    (None, None) => {}
                    _ => return None,
                }
                (*number, *to)
            }
            (Inst::Put { from, to, index, each }, Step::Put { from: number, to: t, index: i, each: e }) => {
                self.indexed(index, i)?;
                let same = (to, each) == (t, e) && self.in_register(*number) == Some(*from);
                return same.then_some(());
            }
            (Inst::Divide { how, to, from, live }, Step::Divide { how: h, to: number, from: places, live: l })
                if (how, live) == (h, l) && self.frame.divides =>
            {
                if places.map(|number| self.in_register(number)) != from.map(Some) {
                    return None;
                }
                (*number, *to)
            }
            (Inst::Broadcast { to, stride, wide }, Step::Broadcast { register, stride: s, wide: w }) => {
                if (stride, wide) != (s, w) {
                    return None;
                }
                (*register, *to)
            }
            _ => return None,
        };
        self.hold(number, to)
    }
}

#[cfg(test)]
mod tests {
    use super::super::allocate::allocate;
    use super::super::select::{Access, Division, Uniform};
    use super::super::table::widened;
    use super::*;

    /// A sum of many loads, products and a constant, with 512 bits of what many comparisons choose too: enough values at once
    /// that some are spilled.
    fn iteration(width: Width) -> Iteration {
        let mut iteration = Iteration::new(width);
        let code = |narrow| match width {
            Width::W256 => narrow,
            Width::W512 => widened(narrow).expect("a wider form"),
        };
        let mut define = |definition| {
            iteration.definitions.push(definition);
            Reg(iteration.definitions.len() as u32 - 1)
        };
        let (start, constant, uniform) =
            (define(Definition::Accumulator(0)), define(Definition::Constant(0)), define(Definition::Uniform(0)));
        let mut several = |definition| -> Vec<Reg> { (0..40).map(|_| define(definition)).collect() };
        let mut loads = several(Definition::Computed);
        let (products, chosen, sums) =
            (several(Definition::Computed), several(Definition::Computed), several(Definition::Computed));
        let (inserted, masks) = (several(Definition::Computed), several(Definition::Mask));
        for (k, &to) in loads.iter().enumerate() {
            let from = Access { pointer: 0, scale: 4, displacement: 64 * k as i32 };
            iteration.insts.push(Inst::Load {
                code: code(Code::VEX_Vmovups_ymm_ymmm256),
                to,
                from,
                half: false,
                mask: None,
            });
        }
        if width == Width::W256 {
            // An element more in the low half of each.
            for (r, &to) in loads.iter_mut().zip(&inserted) {
                let from = Access { pointer: 1, scale: 0, displacement: 12 };
                let code = Code::VEX_Vinsertps_xmm_xmm_xmmm32_imm8;
                iteration.insts.push(Inst::Insert { code, to, into: *r, from, half: true, imm: Some(16) });
                *r = to;
            }
        }
        for (k, &to) in products.iter().enumerate() {
            let c = if k % 2 == 0 { constant } else { uniform };
            iteration.insts.push(Inst::Fma { wide: false, to, a: loads[k], b: loads[39 - k], c });
        }
        let mut addends = products.clone();
        if width == Width::W512 {
            let compare = Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
            for (&to, &product) in masks.iter().zip(&products) {
                let from = smallvec![product, uniform];
                iteration.insts.push(Inst::Plain { code: compare, to, from, half: 0, imm: Some(1) });
            }
            for (k, &to) in chosen.iter().enumerate() {
                let code = code(Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm);
                let (mask, then, otherwise) = (masks[39 - k], products[k], constant);
                iteration.insts.push(Inst::Blend { code, to, mask, then, otherwise });
            }
            // Of two registers, the first of which is needed again or not.
            for (k, (&to, &low)) in inserted.iter().zip(&chosen).enumerate() {
                iteration.insts.push(Inst::Permute { to, order: constant, low, high: loads[39 - k] });
            }
            addends =
                inserted.iter().zip(&chosen).enumerate().map(|(k, (&i, &c))| if k % 3 == 0 { c } else { i }).collect();
        }
        let mut sum = start;
        for (&to, &addend) in sums.iter().zip(&addends) {
            let code = code(Code::VEX_Vaddps_ymm_ymm_ymmm256);
            iteration.insts.push(Inst::Plain { code, to, from: smallvec![sum, addend], half: 0, imm: None });
            sum = to;
        }
        let mut one = |definition| {
            iteration.definitions.push(definition);
            Reg(iteration.definitions.len() as u32 - 1)
        };
        // Elements by indices, and one by one; under a mask where there are masks.
        let (picked, gathered) = (one(Definition::Computed), one(Definition::Computed));
        let (divided, left) = (one(Definition::Computed), one(Definition::Computed));
        let mask = (width == Width::W512).then(|| one(Definition::Mask));
        let from = Access { pointer: 1, scale: 4, displacement: 0 };
        let low = |e: u8| (code(Code::VEX_Vinsertps_xmm_xmm_xmmm32_imm8), Some(e << 4));
        let each = vec![(code(Code::VEX_Vmovss_xmm_m32), None), low(1)];
        let index = |of, first| Index { of, first };
        iteration.insts.push(Inst::Pick { to: picked, into: None, from, index: index(sum, 0), each });
        let each = vec![low(2), low(3)];
        iteration.insts.push(Inst::Pick { to: gathered, into: Some(picked), from, index: index(sum, 2), each });
        let how = Division { signed: true, remainder: false };
        iteration.insts.push(Inst::Divide { how, to: divided, from: [gathered, products[0]], live: 3 });
        let each = vec![(code(Code::VEX_Vpextrb_r32m8_xmm_imm8), Some(4))];
        iteration.insts.push(Inst::Put { from: divided, to: from, index: index(gathered, 0), each });
        if let Some(to) = mask {
            let code = Code::EVEX_Vpmovd2m_kr_zmm;
            iteration.insts.push(Inst::Plain { code, to, from: smallvec![divided], half: 0, imm: None });
        }
        let row = Access { pointer: 0, scale: 4, displacement: 0 };
        let load = code(Code::VEX_Vmovups_ymm_ymmm256);
        iteration.insts.push(Inst::Load { code: load, to: left, from: row, half: false, mask });
        let store = code(Code::VEX_Vmovups_ymmm256_ymm);
        iteration.insts.push(Inst::Store { code: store, to: row, from: left, half: false, imm: None, mask });
        iteration.pool.push(vec![0; width.bytes() as usize]);
        iteration.accumulators.push((start, sum));
        iteration.starts.push(None);
        iteration
    }

    fn allocated(width: Width) -> (Iteration, Allocated, Frame) {
        let iteration = iteration(width);
        let mut frame = Frame { accumulators: 1, ..Frame::new(width) };
        frame.uniforms.push(Uniform::Node(crate::kernel::body::NodeId(0)));
        let allocated = allocate(&iteration, &mut frame);
        (iteration, allocated, frame)
    }

    #[test]
    fn an_allocation_is_right() {
        for width in Width::ALL {
            let (iteration, allocated, frame) = allocated(width);
            assert!(frame.spills > 0, "nothing is spilled");
            assert_eq!(check(&iteration, &allocated, &frame), Ok(()));
            let masks = allocated.body.iter().filter(|s| matches!(s, Step::Plain(Code::VEX_Kmovw_m16_kr, _))).count();
            assert_eq!(masks > 0, width == Width::W512, "masks that are spilled");
        }
    }

    #[test]
    fn every_wrong_register_is_seen() {
        for width in Width::ALL {
            let (iteration, allocated, frame) = allocated(width);
            let next = |number: &mut u8| {
                *number = match number.checked_sub(FIRST_MASK) {
                    Some(mask) => FIRST_MASK + (mask + 1) % 8,
                    None => (*number + 1) % width.registers() as u8,
                }
            };
            for step in 0..allocated.body.len() {
                for operand in 0.. {
                    let mut broken = self::allocated(width).1;
                    match &mut broken.body[step] {
                        Step::Plain(_, operands) => match operands.get_mut(operand) {
                            Some(
                                Operand::Register { number, .. } | Operand::Chooser(number) | Operand::Zeroing(number),
                            ) => next(number),
                            Some(Operand::Frame(offset)) => *offset += width.bytes(),
                            Some(Operand::Row(access)) => access.displacement += 4,
                            Some(Operand::Pool(k)) => *k += 1,
                            Some(Operand::Imm(v)) => *v ^= 1,
                            None => break,
                        },
                        Step::Pick { to, into, from, index, each } => match (operand, into) {
                            (0, _) => next(to),
                            (1, _) => next(&mut index.of),
                            (2, _) => index.first ^= 2,
                            (3, _) => from.displacement += 4,
                            (4, _) => each.truncate(1),
                            (5, Some(into)) => next(into),
                            _ => break,
                        },
                        Step::Put { from, to, index, each } => match operand {
                            0 => next(from),
                            1 => next(&mut index.of),
                            2 => index.first ^= 2,
                            3 => to.scale = 1,
                            4 => each.clear(),
                            _ => break,
                        },
                        Step::Divide { to, from, live, how } => match operand {
                            0 => next(to),
                            1 => next(&mut from[0]),
                            2 => next(&mut from[1]),
                            3 => *live += 1,
                            4 => how.remainder = true,
                            _ => break,
                        },
                        Step::Broadcast { .. } => break,
                    }
                    assert_ne!(check(&iteration, &broken, &frame), Ok(()), "step {step}, operand {operand}");
                }
            }
        }
    }

    #[test]
    fn a_step_that_is_lost_is_seen() {
        for width in Width::ALL {
            let (iteration, whole, frame) = allocated(width);
            for step in 0..whole.body.len() {
                let mut broken = allocated(width).1;
                broken.body.remove(step);
                broken.origins.remove(step);
                assert_ne!(check(&iteration, &broken, &frame), Ok(()), "step {step}");
            }
        }
    }

    /// A sum from zero of a row's elements times a broadcast value: what is brought to registers before the loop.
    #[test]
    fn what_lies_in_registers_before_the_loop_is_checked() {
        for width in Width::ALL {
            let mut iteration = Iteration::new(width);
            iteration.definitions = vec![Definition::Accumulator(0), Definition::Uniform(0), Definition::Constant(0)];
            iteration.definitions.extend([Definition::Computed; 2]);
            let [start, uniform, _, element, sum] = [0, 1, 2, 3, 4].map(Reg);
            let from = Access { pointer: 0, scale: 4, displacement: 0 };
            let load = whole_moves(width).0;
            iteration.insts.push(Inst::Load { code: load, to: element, from, half: false, mask: None });
            iteration.insts.push(Inst::Fma { wide: false, to: sum, a: element, b: uniform, c: start });
            iteration.pool.push(vec![0; width.bytes() as usize]);
            iteration.accumulators.push((start, sum));
            iteration.starts.push(Some(0));
            let mut frame = Frame { accumulators: 1, identities: true, ..Frame::new(width) };
            frame.uniforms.push(Uniform::Node(crate::kernel::body::NodeId(0)));
            let right = allocate(&iteration, &mut frame);
            assert_eq!(check(&iteration, &right, &frame), Ok(()));
            let [Step::Plain(_, first), Step::Plain(broadcast, second)] = right.before.as_slice() else {
                panic!("an accumulator and a broadcast value: {:?}", right.before)
            };
            let [accumulator, other] = [Operand::Register { number: 0, half: false }, second[0]];
            for wrong in [
                // From the frame, where nothing is.
                vec![Step::Plain(load, smallvec![accumulator, Operand::Frame(0)]), right.before[1].clone()],
                vec![right.before[1].clone(), right.before[0].clone()],
                vec![right.before[0].clone()],
                // Words of what is not broadcast.
                vec![right.before[0].clone(), Step::Plain(*broadcast, smallvec![other, Operand::Pool(0)])],
                vec![right.before[0].clone(), Step::Plain(*broadcast, smallvec![other, Operand::Frame(0)])],
                vec![Step::Plain(*broadcast, first.clone()), right.before[1].clone()],
            ] {
                let broken = Allocated { before: wrong, ..allocate(&iteration, &mut frame.clone()) };
                assert_ne!(check(&iteration, &broken, &frame), Ok(()), "{:?}", broken.before);
            }
            frame.identities = false;
            assert_ne!(check(&iteration, &right, &frame), Ok(()), "starts that the frame does not have");
            frame.identities = true;
            // One word of the value is there; an instruction that takes all of it from the frame has the frame filled so.
            assert_eq!(frame.whole, [false]);
            let mut broken = allocate(&iteration, &mut frame);
            let product = broken.body.iter_mut().find_map(|step| match step {
                Step::Plain(_, operands) => operands.iter_mut().find(|operand| **operand == other),
                _ => None,
            });
            *product.expect("the value is a factor") = Operand::Frame(frame.uniform(0));
            assert_ne!(check(&iteration, &broken, &frame), Ok(()), "words that the frame does not have");
            frame.whole = vec![true];
            assert_eq!(check(&iteration, &broken, &frame), Ok(()));
        }
    }
}
