//! Dense linear algebra and Fourier transforms.

use super::{Builder, FftKind, Op, TransposeKind};
use crate::hlo::{AttrKey, AttrValue, Attrs, Opcode};

impl Builder {
    /// `cholesky(a, lower)`: the factor of each positive definite matrix in the last two dimensions. Section «Cholesky».
    #[track_caller]
    pub fn cholesky(&self, a: Op, lower: bool) -> Op {
        self.op(Opcode::Cholesky, &[a], Attrs::new().with(AttrKey::Lower, AttrValue::Bool(lower)), None)
    }

    /// `triangular_solve(a, b, left_side, lower, unit_diagonal, transpose_a)`: the `x` of `op(a) x = b`, or of
    /// `x op(a) = b` where `left_side` is false; it has the shape of `b`. Section «TriangularSolve».
    #[track_caller]
    pub fn triangular_solve(
        &self,
        a: Op,
        b: Op,
        left_side: bool,
        lower: bool,
        unit_diagonal: bool,
        transpose_a: TransposeKind,
    ) -> Op {
        let attrs = Attrs::new()
            .with(AttrKey::LeftSide, AttrValue::Bool(left_side))
            .with(AttrKey::Lower, AttrValue::Bool(lower))
            .with(AttrKey::UnitDiagonal, AttrValue::Bool(unit_diagonal))
            .with(AttrKey::TransposeA, AttrValue::Word(transpose_a.word()));
        self.op(Opcode::TriangularSolve, &[a, b], attrs, None)
    }

    /// `fft(operand, fft_type, fft_length)`: the Fourier transform of the last one to three dimensions, whose sizes
    /// `fft_length` gives. Section «Fft».
    #[track_caller]
    pub fn fft(&self, operand: Op, fft_type: FftKind, fft_length: &[i64]) -> Op {
        let attrs = Attrs::new()
            .with(AttrKey::FftType, AttrValue::Word(fft_type.word()))
            .with(AttrKey::FftLength, AttrValue::Ints(fft_length.to_vec()));
        self.op(Opcode::Fft, &[operand], attrs, None)
    }
}
