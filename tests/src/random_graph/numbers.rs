//! Random numbers: bits from a state, and draws from distributions.

use super::Generator;
use super::note::{Note, is_narrow, roundoff};
use brolga_compiler::builder::RandomAlgorithm;
use brolga_runtime::{ElementType as E, Shape};

impl Generator {
    pub(super) fn numbers(&mut self) -> Option<usize> {
        match self.rng.below(4) {
            0 | 1 => self.bits(),
            2 => self.uniform(),
            _ => self.normal(),
        }
    }

    fn bits(&mut self) -> Option<usize> {
        use RandomAlgorithm as A;
        let algorithm = self.rng.pick(&[A::Default, A::Philox, A::ThreeFry, A::ThreeFry]);
        let words = if matches!(algorithm, A::ThreeFry) { 2 } else { self.rng.pick(&[2, 3]) };
        let shape = brolga_runtime::ArrayShape::new(E::U64, [words]);
        let state = match self.choose(|v| v.shape == shape) {
            Some(found) => found,
            None => self.parameter(E::U64, &[words]),
        };
        let ty =
            self.rng.pick(&[E::U32, E::U32, E::S32, E::U64, E::S64, E::U8, E::S16, E::U4, E::F32, E::BF16, E::F64]);
        let dims = self.any_dims();
        let both = self.builder.rng_bit_generator(algorithm, self.values[state].op, Shape::array(ty, dims));
        let (next, bits) = (self.builder.get_tuple_element(both, 0), self.builder.get_tuple_element(both, 1));
        if self.rng.chance(1, 2) {
            self.add(next, &[state], Note::exact(f64::INFINITY))?;
        }
        self.add(bits, &[state], Note::exact(f64::INFINITY))
    }

    fn uniform(&mut self) -> Option<usize> {
        let (ty, dims) = (self.any_type(), self.any_dims());
        let (low, high) = self.rng.pick(&[(0.0, 1.0), (1.0, 7.0), (0.0, 3.0)]);
        let (a, b) = (self.scalar(ty, low), self.scalar(ty, high));
        let op = self.builder.rng_uniform(a, b, Shape::array(ty, dims));
        self.add(op, &[], Note::exact(high))
    }

    fn normal(&mut self) -> Option<usize> {
        let ty = self.rng.pick(&[E::F32, E::F32, E::F64, E::BF16, E::F16]);
        let dims = self.any_dims();
        let (mean, deviation) = (self.scalar(ty, 1.0), self.scalar(ty, 0.5));
        let op = self.builder.rng_normal(mean, deviation, Shape::array(ty, dims));
        // No draw of 53 bits is farther than nine deviations from the mean.
        let compute = roundoff(if ty == E::F64 { E::F64 } else { E::F32 });
        let err = 5.5 * (24.0 * compute + if is_narrow(ty) { 2.0 * roundoff(ty) } else { 0.0 });
        self.add(op, &[], Note { bound: 5.5, err, rel: 0.0, loose_zero: true })
    }
}
