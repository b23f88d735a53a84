//! Which family has the rule of an opcode. It names all of them, so that they need not name one another.

use super::rule::Rule;
use super::{
    branches, collective, contraction, convolution, elementwise, grouped, indexing, lapack, linalg, loops, movement,
    normalisation, ordering, reduction, scan, window,
};
use crate::error::Result;
use crate::hlo::{Category, Opcode};

pub(super) fn rule(r: &mut Rule<'_>) -> Result<()> {
    match r.instruction.opcode {
        Opcode::Dot => contraction::dot(r),
        Opcode::ScaledDot => grouped::scaled_dot(r),
        Opcode::RaggedDot => grouped::ragged_dot(r),
        Opcode::Convolution => convolution::convolution(r),
        Opcode::Gather | Opcode::Scatter | Opcode::DynamicSlice | Opcode::DynamicUpdateSlice => indexing::rule(r),
        Opcode::Reduce | Opcode::Map => reduction::rule(r),
        Opcode::Scan => scan::rule(r),
        Opcode::CustomCall => lapack::rule(r),
        Opcode::ReduceWindow | Opcode::SelectAndScatter => window::rule(r),
        Opcode::BatchNormTraining | Opcode::BatchNormInference | Opcode::BatchNormGrad => normalisation::rule(r),
        Opcode::While => loops::rule(r),
        Opcode::Call | Opcode::Fusion | Opcode::Conditional => branches::rule(r),
        opcode => match opcode.category() {
            Category::Structure => movement::structure(r),
            Category::Elementwise => elementwise::rule(r),
            Category::Movement => movement::rule(r),
            Category::LinearAlgebra => linalg::rule(r),
            Category::Ordering => ordering::rule(r),
            Category::Collective => collective::rule(r),
            _ => Err(r.no_rule()),
        },
    }
}
