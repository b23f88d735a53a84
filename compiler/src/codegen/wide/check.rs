//! An independent checker of the allocation.
//!
//! **Problem.** A wrong register is a wrong number in silence. The allocator is a page of bookkeeping; what it must achieve is a
//! few lines.
//!
//! **Invariant.** Replaying the steps of a turn, each instruction finds the values that it was selected with, in the order in
//! which they were selected; every store to the frame goes to a spill slot of its own; and when the turn ends, each accumulator's
//! last value is in its register and every value that is kept for the whole loop still is in its own.
//!
//! **Algorithm.** The state says which virtual register each machine register and each spill slot holds. A move copies that;
//! an instruction is compared operand by operand with the one it comes from, and its result overwrites. Nothing is known of
//! machine registers at the head of a turn but accumulators and what is kept. The checker shares no code with the allocator.

use super::allocate::{Allocated, Operand, Step};
use super::select::{Definition, Inst, Turn};
use super::{Frame, REGISTER, Reg};
use iced_x86::Code;
use std::collections::HashMap;

struct State<'t> {
    turn: &'t Turn,
    frame: &'t Frame,
    registers: [Option<Reg>; 16],
    slots: HashMap<u32, Reg>,
    /// What lies in the pool and in the frame besides the spill slots.
    homes: HashMap<Operand, Reg>,
}

/// Checks an allocation of `turn`.
///
/// # Errors
/// What the first wrong step is.
pub(super) fn check(turn: &Turn, allocated: &Allocated, frame: &Frame) -> Result<(), String> {
    let home = |definition: &Definition| match *definition {
        Definition::Constant(k) => Some(Operand::Pool(k)),
        Definition::Uniform(k) => Some(Operand::Frame(frame.uniform(k))),
        Definition::Computed | Definition::Accumulator(_) => None,
    };
    let homes = turn.definitions.iter().zip(0..).filter_map(|(d, r)| Some((home(d)?, Reg(r)))).collect();
    let mut s = State { turn, frame, registers: [None; 16], slots: HashMap::new(), homes };
    let mut before = allocated.before.iter();
    for (k, &(start, _)) in turn.accumulators.iter().enumerate() {
        let home = Operand::Frame(frame.accumulator(k as u32));
        match before.next() {
            Some(Step::Plain(Code::VEX_Vmovups_ymm_ymmm256, operands))
                if *operands == [Operand::Register { number: k as u8, half: false }, home] =>
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
    if next as usize != turn.insts.len() {
        return Err(format!("{next} of {} instructions", turn.insts.len()));
    }
    for (k, &held) in head.iter().enumerate() {
        let want = turn.accumulators.get(k).map(|&(_, end)| end).or(held);
        if want.is_some() && s.registers[k] != want {
            return Err(format!("register {k} ends the turn with {:?}, not with {want:?}", s.registers[k]));
        }
    }
    let after = (0..turn.accumulators.len()).map(|k| {
        let home = Operand::Frame(frame.accumulator(k as u32));
        (Code::VEX_Vmovups_ymmm256_ymm, vec![home, Operand::Register { number: k as u8, half: false }])
    });
    let stored = allocated.after.iter().map(|step| match step {
        Step::Plain(code, operands) => (*code, operands.clone()),
        Step::Spread { .. } => (Code::INVALID, Vec::new()),
    });
    if after.eq(stored) { Ok(()) } else { Err("accumulators are not stored as they were loaded".to_owned()) }
}

impl State<'_> {
    /// What an operand holds; `None` where that is unknown.
    fn held(&self, operand: &Operand) -> Option<Reg> {
        match operand {
            Operand::Register { number, .. } => self.registers[usize::from(*number)],
            Operand::Frame(offset) => self.slots.get(offset).or_else(|| self.homes.get(operand)).copied(),
            Operand::Pool(_) => self.homes.get(operand).copied(),
            Operand::Row(_) | Operand::Imm(_) => None,
        }
    }

    fn step(&mut self, step: &Step, origin: Option<u32>) -> Result<(), String> {
        match origin {
            None => self.transfer(step),
            Some(at) => {
                let turn = self.turn;
                let inst = turn.insts.get(at as usize).ok_or_else(|| format!("there is no instruction {at}"))?;
                self.instruction(step, inst).ok_or_else(|| format!("instruction {at}, {inst:?}, became {step:?}"))
            }
        }
    }

    fn transfer(&mut self, step: &Step) -> Result<(), String> {
        let wrong = || format!("no move: {step:?}");
        let Step::Plain(code, operands) = step else { return Err(wrong()) };
        match (*code, operands.as_slice()) {
            (Code::VEX_Vmovups_ymm_ymmm256, [Operand::Register { number, half: false }, from]) => {
                let value = self.held(from);
                self.registers[usize::from(*number)] =
                    Some(value.ok_or_else(|| format!("of nothing known: {step:?}"))?);
                Ok(())
            }
            (Code::VEX_Vmovups_ymmm256_ymm, [Operand::Frame(offset), from @ Operand::Register { half: false, .. }]) => {
                let slot = offset.checked_sub(self.frame.spill(0));
                let whole = slot.is_some_and(|at| at % REGISTER == 0 && at / REGISTER < self.frame.spills);
                let value = self.held(from).filter(|_| whole).ok_or_else(wrong)?;
                self.slots.insert(*offset, value);
                Ok(())
            }
            _ => Err(wrong()),
        }
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
                is(selector, *mask, false)?;
                (result(first, false)?, *to)
            }
            (Inst::Fma { wide, to, a, b, c }, Step::Plain(code, operands)) => {
                let [tied, second, third] = operands.as_slice() else { return None };
                let product = |x: &Operand, y: &Operand| {
                    let straight = is(x, *a, false).and(is(y, *b, false));
                    straight.or_else(|| is(x, *b, false).and(is(y, *a, false)))
                };
                use Code::*;
                match (*code, wide) {
                    (VEX_Vfmadd213ps_ymm_ymm_ymmm256, false) | (VEX_Vfmadd213pd_ymm_ymm_ymmm256, true) => {
                        product(tied, second)?;
                        is(third, *c, false)?;
                    }
                    (VEX_Vfmadd231ps_ymm_ymm_ymmm256, false) | (VEX_Vfmadd231pd_ymm_ymm_ymmm256, true) => {
                        product(second, third)?;
                        is(tied, *c, false)?;
                    }
                    _ => return None,
                }
                (result(tied, false)?, *to)
            }
            (Inst::Load { code, to, from, half }, Step::Plain(found, operands)) if code == found => {
                let [first, Operand::Row(access)] = operands.as_slice() else { return None };
                if access != from {
                    return None;
                }
                (result(first, *half)?, *to)
            }
            (Inst::Insert { code, to, into, from, imm }, Step::Plain(found, operands)) if code == found => {
                let [first, old, Operand::Row(access), rest @ ..] = operands.as_slice() else { return None };
                is(old, *into, true)?;
                if access != from || !rest.iter().copied().eq(imm.map(Operand::Imm)) {
                    return None;
                }
                (result(first, true)?, *to)
            }
            (Inst::Store { code, to, from, half, imm }, Step::Plain(found, operands)) if code == found => {
                let [Operand::Row(access), value, rest @ ..] = operands.as_slice() else { return None };
                is(value, *from, *half)?;
                let element = rest.iter().copied().eq(imm.map(Operand::Imm));
                return (element && access == to).then_some(());
            }
            (Inst::Spread { to, stride, wide }, Step::Spread { register, stride: s, wide: w }) => {
                if (stride, wide) != (s, w) {
                    return None;
                }
                (*register, *to)
            }
            _ => return None,
        };
        self.registers[usize::from(number)] = Some(to);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::allocate::allocate;
    use super::super::select::Access;
    use super::*;

    /// A sum of many loads, products and a constant: enough values at once that some are spilled.
    fn turn() -> Turn {
        let mut turn = Turn::default();
        let mut define = |definition| {
            turn.definitions.push(definition);
            Reg(turn.definitions.len() as u32 - 1)
        };
        let (start, constant, uniform) =
            (define(Definition::Accumulator(0)), define(Definition::Constant(0)), define(Definition::Uniform(0)));
        let mut loads: Vec<Reg> = (0..24).map(|_| define(Definition::Computed)).collect();
        let products: Vec<Reg> = (0..24).map(|_| define(Definition::Computed)).collect();
        let sums: Vec<Reg> = (0..24).map(|_| define(Definition::Computed)).collect();
        for (k, &to) in loads.iter().enumerate() {
            let from = Access { pointer: 0, scale: 4, displacement: 32 * k as i32 };
            turn.insts.push(Inst::Load { code: Code::VEX_Vmovups_ymm_ymmm256, to, from, half: false });
        }
        // An element more in the low half of each.
        for r in &mut loads {
            let from = Access { pointer: 1, scale: 0, displacement: 12 };
            let to = define(Definition::Computed);
            let code = Code::VEX_Vinsertps_xmm_xmm_xmmm32_imm8;
            turn.insts.push(Inst::Insert { code, to, into: *r, from, imm: Some(16) });
            *r = to;
        }
        for (k, &to) in products.iter().enumerate() {
            let c = if k % 2 == 0 { constant } else { uniform };
            turn.insts.push(Inst::Fma { wide: false, to, a: loads[k], b: loads[23 - k], c });
        }
        let mut sum = start;
        for (&to, &product) in sums.iter().zip(&products) {
            let code = Code::VEX_Vaddps_ymm_ymm_ymmm256;
            turn.insts.push(Inst::Plain { code, to, from: vec![sum, product], half: 0, imm: None });
            sum = to;
        }
        turn.pool.push([0; 32]);
        turn.accumulators.push((start, sum));
        turn
    }

    fn allocated() -> (Turn, Allocated, Frame) {
        let turn = turn();
        let mut frame = Frame { accumulators: 1, uniforms: Vec::new(), pointers: Vec::new(), spills: 0 };
        frame.uniforms.push(crate::kernel::body::NodeId(0));
        let allocated = allocate(&turn, &mut frame);
        (turn, allocated, frame)
    }

    #[test]
    fn an_allocation_is_right() {
        let (turn, allocated, frame) = allocated();
        assert!(frame.spills > 0, "nothing is spilled");
        assert_eq!(check(&turn, &allocated, &frame), Ok(()));
    }

    #[test]
    fn every_wrong_register_is_seen() {
        let (turn, allocated, frame) = allocated();
        for step in 0..allocated.body.len() {
            let Step::Plain(_, operands) = &allocated.body[step] else { continue };
            for operand in 0..operands.len() {
                let (_, mut broken, _) = self::allocated();
                let Step::Plain(_, operands) = &mut broken.body[step] else { continue };
                match &mut operands[operand] {
                    Operand::Register { number, .. } => *number = (*number + 1) % 16,
                    Operand::Frame(offset) => *offset += 32,
                    Operand::Row(access) => access.displacement += 4,
                    Operand::Pool(k) => *k += 1,
                    Operand::Imm(v) => *v ^= 1,
                }
                assert_ne!(check(&turn, &broken, &frame), Ok(()), "step {step}, operand {operand}");
            }
        }
    }

    #[test]
    fn a_step_that_is_lost_is_seen() {
        let (turn, whole, frame) = allocated();
        for step in 0..whole.body.len() {
            let (_, mut broken, _) = allocated();
            broken.body.remove(step);
            broken.origins.remove(step);
            assert_ne!(check(&turn, &broken, &frame), Ok(()), "step {step}");
        }
    }
}
