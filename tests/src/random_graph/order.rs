//! Sorts of several operands, by comparators that need be no order.
//!
//! What decides an order must be exact; what is carried along may be anything, as long as it is the same element in every
//! engine.

use super::{Generator, Value};
use brolga_compiler::builder::{Builder, ComparisonDirection, Op};
use brolga_compiler::hlo::Module;
use brolga_runtime::{ElementType as E, Shape};

/// How a comparator compares.
#[derive(Clone, Copy)]
enum Order {
    /// The first pair, with this direction.
    Plain(ComparisonDirection),
    /// The first pair and, where it is a tie, the second in the other direction.
    ThenSecond,
}

fn comparator(types: &[E], order: Order) -> Module {
    let b = Builder::new("order");
    let mut parameters = Vec::new();
    for (k, &ty) in types.iter().enumerate() {
        for side in 0..2 {
            let number = (2 * k + side) as i64;
            parameters.push(b.parameter(number, Shape::scalar(ty), &format!("p{number}")));
        }
    }
    let (x, y) = (parameters[0], parameters[1]);
    let root = match (order, parameters.get(2..4)) {
        (Order::ThenSecond, Some(&[s, t])) => b.or(b.lt(x, y), b.and(b.eq(x, y), b.gt(s, t))),
        (Order::Plain(direction), _) => b.compare(x, y, direction),
        _ => b.lt(x, y),
    };
    b.build_with_root(root).unwrap_or_else(|e| panic!("{e}"))
}

impl Generator {
    /// Whether a value may decide an order: engines must agree on it, though not on the sign of a zero.
    fn decides(v: &Value) -> bool {
        v.note.is_exact() && v.note.is_usable()
    }

    pub(super) fn ordering(&mut self) -> Option<usize> {
        let x = self.choose(|v| Self::decides(v) && !v.shape.dims.is_empty())?;
        let shape = self.values[x].shape.clone();
        let along = self.rng.below(shape.rank() as u64) as i64;
        let mut operands = vec![x];
        for _ in 0..self.rng.below(3) {
            let ty = self.any_type();
            operands.push(self.like(&shape.with_type(ty), |v| v.note.is_usable()));
        }
        let second = operands.get(1).is_some_and(|&s| Self::decides(&self.values[s]));
        use ComparisonDirection as D;
        let direction = self.rng.pick(&[D::Lt, D::Lt, D::Gt, D::Gt, D::Le, D::Ge]);
        let order = if second && self.rng.chance(1, 3) { Order::ThenSecond } else { Order::Plain(direction) };
        let types: Vec<E> = operands.iter().map(|&o| self.values[o].ty()).collect();
        let ops: Vec<Op> = operands.iter().map(|&o| self.values[o].op).collect();
        let sorted = self.builder.sort(&ops, &comparator(&types, order), along, self.rng.chance(1, 2));
        if let [x] = operands[..] {
            let note = self.values[x].note;
            return self.add(sorted, &operands, note);
        }
        let mut last = None;
        for (k, &o) in operands.iter().enumerate() {
            let (part, note) = (self.builder.get_tuple_element(sorted, k as i64), self.values[o].note);
            last = self.add(part, &operands, note);
        }
        last
    }
}
