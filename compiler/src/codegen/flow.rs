//! Loops, branches and addresses, for every emitter.
//!
//! Loops are tested at the bottom: Cranelift moves nothing out of a loop whose test stands at the top.

use crate::kernel::index::Axis;
use crate::kernel::ir::Loop;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_frontend::{FunctionBuilder, Variable};

/// Something that emits into a function; bodies of loops and branches are given it back.
pub trait Flow<'b>: Sized {
    /// Where code goes.
    fn b(&mut self) -> &mut FunctionBuilder<'b>;

    /// A 64-bit constant.
    fn iconst(&mut self, v: i64) -> Value {
        self.b().ins().iconst(types::I64, v)
    }

    /// A variable that starts as `v`.
    fn variable(&mut self, v: Value) -> Variable {
        let ty = self.b().func.dfg.value_type(v);
        let variable = self.b().declare_var(ty);
        self.b().def_var(variable, v);
        variable
    }

    /// `base` and `index` elements of so many bytes.
    fn element(&mut self, base: Value, index: Value, bytes: i64) -> Value {
        let offset = self.b().ins().imul_imm_s(index, bytes);
        self.b().ins().iadd(base, offset)
    }

    /// `base` and so many bytes.
    fn behind(&mut self, base: Value, bytes: i64) -> Value {
        if bytes == 0 { base } else { self.b().ins().iadd_imm_s(base, bytes) }
    }

    /// `for i in (from..to).step_by(step)`.
    fn count(&mut self, from: Value, to: Value, step: i64, body: &mut dyn FnMut(&mut Self, Value)) {
        let step = self.iconst(step);
        self.count_by(from, to, step, body);
    }

    /// As [`Flow::count`], by a step that is known when the loop is entered.
    fn count_by(&mut self, from: Value, to: Value, step: Value, body: &mut dyn FnMut(&mut Self, Value)) {
        let (head, after) = (self.b().create_block(), self.b().create_block());
        let i = self.variable(from);
        let any = self.b().ins().icmp(IntCC::SignedLessThan, from, to);
        self.b().ins().brif(any, head, &[], after, &[]);
        iterations(self, i, (head, after), to, step, body);
    }

    /// `for i in (from..to).step_by(step)` where all are constants; unrolled where it runs once.
    fn count_constant(&mut self, from: i64, to: i64, step: i64, body: &mut dyn FnMut(&mut Self, Value)) {
        match (to - from + step - 1) / step {
            n if n <= 0 => {}
            1 => {
                let i = self.iconst(from);
                body(self, i);
            }
            _ => {
                let [from, to, step] = [from, to, step].map(|v| self.iconst(v));
                let (head, after) = (self.b().create_block(), self.b().create_block());
                let i = self.variable(from);
                self.b().ins().jump(head, &[]);
                iterations(self, i, (head, after), to, step, body);
            }
        }
    }

    /// `if condition { body }`.
    fn when(&mut self, condition: Value, body: &mut dyn FnMut(&mut Self)) {
        let (then, after) = (self.b().create_block(), self.b().create_block());
        self.b().ins().brif(condition, then, &[], after, &[]);
        self.b().switch_to_block(then);
        self.b().seal_block(then);
        body(self);
        self.b().ins().jump(after, &[]);
        self.b().switch_to_block(after);
        self.b().seal_block(after);
    }

    /// `if condition { body(true) } else { body(false) }`.
    fn either(&mut self, condition: Value, body: &mut dyn FnMut(&mut Self, bool)) {
        let (yes, no, after) = (self.b().create_block(), self.b().create_block(), self.b().create_block());
        self.b().ins().brif(condition, yes, &[], no, &[]);
        for (block, which) in [(yes, true), (no, false)] {
            self.b().switch_to_block(block);
            self.b().seal_block(block);
            body(self, which);
            self.b().ins().jump(after, &[]);
        }
        self.b().switch_to_block(after);
        self.b().seal_block(after);
    }

    /// `x / by`, where `x` is less than `below`. Not left to the code generator, which does not simplify all functions.
    fn divided(&mut self, x: Value, below: i64, by: i64) -> Value {
        match reciprocal(below, by) {
            Some((1, shift)) => self.b().ins().ushr_imm_u(x, shift),
            Some((factor, shift)) => {
                let scaled = self.b().ins().imul_imm_s(x, factor);
                self.b().ins().ushr_imm_u(scaled, shift)
            }
            None => {
                let by = self.iconst(by);
                self.b().ins().udiv(x, by)
            }
        }
    }

    /// The axes of point `p` of a space, the last loop running fastest.
    fn axes_of(&mut self, loops: &[Loop], p: Value) -> Vec<(Axis, Value)> {
        let mut rest = p;
        let mut points = loops.iter().fold(1, |points: i64, l| points.saturating_mul(l.extent));
        let mut axes = Vec::new();
        for (i, l) in loops.iter().enumerate().rev() {
            if i == 0 {
                axes.push((l.axis, rest));
            } else if l.extent == 1 {
                axes.push((l.axis, self.iconst(0)));
            } else {
                let outer = self.divided(rest, points, l.extent);
                let whole = self.b().ins().imul_imm_s(outer, l.extent);
                axes.push((l.axis, self.b().ins().isub(rest, whole)));
                (rest, points) = (outer, points / l.extent);
            }
        }
        axes
    }
}

/// A factor and a shift that divide numbers `below` 2^31. Where `by` is at most 2^b, the factor is 2^(32 + b) / `by`, too large by less than
/// 1: what that adds to a product is less than 2^31, and 2^(32 + b) / `by` would be needed to change a quotient.
fn reciprocal(below: i64, by: i64) -> Option<(i64, i64)> {
    const MOST: i64 = 1 << 31;
    if below > MOST || !(1..=MOST).contains(&by) {
        return None;
    }
    if by & (by - 1) == 0 {
        return Some((1, i64::from(by.ilog2())));
    }
    let shift = 32 + i64::from(by.ilog2() + 1);
    Some((((1u64 << shift) / by as u64) as i64 + 1, shift))
}

impl<'b> Flow<'b> for FunctionBuilder<'b> {
    fn b(&mut self) -> &mut FunctionBuilder<'b> {
        self
    }
}

/// Starts a function's code in its entry block; the parameters.
pub fn enter(b: &mut FunctionBuilder<'_>) -> Vec<Value> {
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    b.seal_block(entry);
    b.block_params(entry).to_vec()
}

/// The iterations of a loop that has been entered.
fn iterations<'b, E: Flow<'b>>(
    e: &mut E,
    i: Variable,
    (head, after): (Block, Block),
    to: Value,
    step: Value,
    body: &mut dyn FnMut(&mut E, Value),
) {
    e.b().switch_to_block(head);
    let now = e.b().use_var(i);
    body(e, now);
    let next = e.b().ins().iadd(now, step);
    e.b().def_var(i, next);
    let more = e.b().ins().icmp(IntCC::SignedLessThan, next, to);
    e.b().ins().brif(more, head, &[], after, &[]);
    e.b().seal_block(head);
    e.b().switch_to_block(after);
    e.b().seal_block(after);
}

#[cfg(test)]
mod tests {
    use super::reciprocal;

    #[test]
    fn reciprocals_divide() {
        let most = 1i64 << 31;
        let near = |n: i64| [n - 2, n - 1, n, n + 1, n + 2];
        let divisors = (1..300).chain((8..31).flat_map(|b| near(1 << b))).chain([54, most / 3, most - 1, most]);
        for by in divisors {
            let Some((factor, shift)) = reciprocal(most, by) else { panic!("{by}") };
            let multiples = (1..40).chain((0..40).map(|k| (most - 1) / by - k)).filter(|&k| k > 0);
            for x in multiples.flat_map(|k| near(k * by)).chain(near(most - 3)).filter(|x| (0..most).contains(x)) {
                let quotient = (x as u64 * factor as u64) >> shift;
                assert!((x as u64).checked_mul(factor as u64).is_some() && quotient == (x / by) as u64, "{x} / {by}");
            }
        }
        assert_eq!(reciprocal(most + 1, 3), None);
        assert_eq!(reciprocal(most, 0), None);
    }
}
