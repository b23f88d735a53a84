//! Loops and branches.

use super::note::Note;
use super::{Generator, Value};
use brolga_compiler::builder::{Builder, Op};
use brolga_compiler::hlo::Module;
use brolga_runtime::{ElementType as E, Shape};

fn built(b: Builder, root: Op) -> Module {
    b.build_with_root(root).unwrap_or_else(|e| panic!("{e}"))
}

impl Generator {
    pub(super) fn control(&mut self) -> Option<usize> {
        if self.rng.chance(1, 2) { self.counted_loop() } else { self.branch() }
    }

    /// One operation with one answer on values of the type; `b` is the builder of a region.
    fn region_step(&mut self, b: &Builder, v: Op, shape: &brolga_runtime::ArrayShape) -> Op {
        let ty = shape.ty;
        let rank = shape.rank() as u64;
        match self.rng.below(4) {
            0 if rank > 0 => b.rev(v, &[self.rng.below(rank) as i64]),
            1 if ty != E::Pred => b.neg(v),
            2 if ty.is_integer() => b.add(v, v),
            _ if ty == E::Pred || ty.is_integer() => b.not(v),
            _ => b.abs(b.neg(v)),
        }
    }

    fn counted_loop(&mut self) -> Option<usize> {
        let x = self.choose(|v| v.note.is_usable() && (v.ty().bits() > 8 || !v.ty().is_float()))?;
        let Value { shape, op: start, note } = self.values[x].clone();
        let two = self.rng.chance(1, 3);
        let mut state = vec![Shape::scalar(E::S32), Shape::Array(shape.clone())];
        if two {
            state.push(Shape::Array(shape.clone()));
        }
        let state = Shape::tuple(state);
        let times = self.rng.between(0, 5);
        let condition = {
            let b = Builder::new("more");
            let t = b.parameter(0, state.clone(), "state");
            let i = b.get_tuple_element(t, 0);
            let n = b.constant_r0(times as i32);
            let root = b.lt(i, n);
            built(b, root)
        };
        let body = {
            let b = Builder::new("turn");
            let t = b.parameter(0, state, "state");
            let i = b.add(b.get_tuple_element(t, 0), b.constant_r0(1i32));
            let mut v = b.get_tuple_element(t, 1);
            for _ in 0..1 + self.rng.below(3) {
                v = self.region_step(&b, v, &shape);
            }
            // The two arrays change places, which an update in place must not get wrong.
            let root = if two { b.tuple(&[i, b.get_tuple_element(t, 2), v]) } else { b.tuple(&[i, v]) };
            built(b, root)
        };
        let zero = self.builder.constant_r0(0i32);
        let second = if two { Some(self.like(&shape, |v| v.note.is_usable())) } else { None };
        let note = second.map_or(note, |s| note.either(self.values[s].note));
        if !note.is_exact() && !note.bound.is_finite() && shape.ty.is_float() {
            return None;
        }
        let mut init = vec![zero, start];
        init.extend(second.map(|s| self.values[s].op));
        let init = self.builder.tuple(&init);
        let result = self.builder.while_(&condition, &body, init);
        let operands: Vec<usize> = [x].into_iter().chain(second).collect();
        let last = if two { self.rng.between(1, 2) } else { 1 };
        let op = self.builder.get_tuple_element(result, last);
        self.add(op, &operands, note)
    }

    fn branch(&mut self) -> Option<usize> {
        let x = self.choose(|v| v.note.is_usable())?;
        let Value { shape, op: operand, note } = self.values[x].clone();
        let mut region = |name: &str| {
            let b = Builder::new(name);
            let v = b.parameter(0, Shape::Array(shape.clone()), "v");
            let root = self.region_step(&b, v, &shape);
            built(b, root)
        };
        let (one, other) = (region("one"), region("other"));
        let found = self.choose(|v| v.ty() == E::Pred && v.shape.dims.is_empty());
        let made = match found {
            Some(p) => {
                self.used[p] = true;
                self.builder.conditional(self.values[p].op, operand, &one, operand, &other)
            }
            None => {
                let p = self.parameter(E::S32, &[]);
                self.used[p] = true;
                self.builder.conditional_indexed(self.values[p].op, &[&one, &other], &[operand, operand])
            }
        };
        self.add(made, &[x], Note { ..note })
    }
}
