//! Sorting and random numbers.

use super::{Builder, Op, RandomAlgorithm};
use crate::hlo::{AttrKey, AttrValue, Attrs, Module, Opcode, number_sorted_dimension};
use brolga_runtime::Shape;
use std::panic::Location;

impl Builder {
    /// `sort(operands, comparator, dimension, is_stable)`: the operands, of equal dimensions, sorted together along
    /// `dimension`; -1 stands for no number, which means the last. `comparator` takes two elements of each operand in turn,
    /// scalars, and yields whether the first comes first. The result is a tuple where there is more than one operand.
    /// Section «Sort».
    #[track_caller]
    pub fn sort(&self, operands: &[Op], comparator: &Module, dimension: i64, is_stable: bool) -> Op {
        let mut attrs = Attrs::new()
            .with(AttrKey::Dimensions, AttrValue::Ints(vec![dimension]))
            .with(AttrKey::ToApply, AttrValue::Computation(self.embed(comparator)));
        if is_stable {
            attrs.set(AttrKey::IsStable, AttrValue::Bool(true));
        }
        let first = operands.first().and_then(|&o| self.shape(o).ok());
        number_sorted_dimension(Opcode::Sort, first.as_ref(), &mut attrs);
        self.op(Opcode::Sort, operands, attrs, None)
    }

    /// `top_k(operand, k, largest)`: the `k` largest, or smallest, elements along the last dimension, in order, and their
    /// indices, as a tuple. HLO has the operation, no section describes it.
    #[track_caller]
    pub fn top_k(&self, operand: Op, k: i64, largest: bool) -> Op {
        let attrs = Attrs::new().with(AttrKey::K, AttrValue::Int(k)).with(AttrKey::Largest, AttrValue::Bool(largest));
        self.op(Opcode::TopK, &[operand], attrs, None)
    }

    #[track_caller]
    fn rng(&self, a: Op, b: Op, shape: Shape, distribution: &'static str) -> Op {
        let attrs = Attrs::new().with(AttrKey::Distribution, AttrValue::Word(distribution));
        self.op(Opcode::Rng, &[a, b], attrs, Some(shape))
    }

    /// `rng_normal(mu, sigma, shape)`: random numbers of the normal distribution with mean `mu` and standard deviation
    /// `sigma`, scalars of the shape's floating point type. Section «RngNormal».
    #[track_caller]
    pub fn rng_normal(&self, mu: Op, sigma: Op, shape: Shape) -> Op {
        self.rng(mu, sigma, shape, "rng_normal")
    }

    /// `rng_uniform(a, b, shape)`: random numbers from `a` up to but not including `b`, scalars of the shape's type.
    /// Section «RngUniform».
    #[track_caller]
    pub fn rng_uniform(&self, a: Op, b: Op, shape: Shape) -> Op {
        self.rng(a, b, shape, "rng_uniform")
    }

    /// `rng_bit_generator(algorithm, key, shape)`: random bits of the given shape and the next state, as the tuple
    /// (state, bits). Section «RngBitGenerator».
    #[track_caller]
    pub fn rng_bit_generator(&self, algorithm: RandomAlgorithm, key: Op, shape: Shape) -> Op {
        let at = Location::caller();
        self.finish(self.array_at(at, Opcode::RngBitGenerator, key).and_then(|state| {
            let attrs = Attrs::new().with(AttrKey::Algorithm, AttrValue::Raw(algorithm.word().to_owned()));
            let declared = Shape::tuple(vec![state.with_type(state.ty).into(), shape]);
            self.add_at(at, Opcode::RngBitGenerator, &[key], attrs, Some(declared))
        }))
    }
}
