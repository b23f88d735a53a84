//! Training steps of losses.

use brolga_compiler::Result;
use brolga_compiler::builder::{Builder, ElementType, Op};
use brolga_compiler::gradient::differentiate;
use brolga_compiler::hlo::{InstructionId, Module};

/// The loss that `loss` computes, and its first `trained` parameters after one step against the gradient, `rate` times as long.
///
/// # Errors
/// As [`differentiate`].
pub fn descent(loss: &Module, trained: usize, rate: f32) -> Result<Module> {
    let numbers: Vec<usize> = (0..trained).collect();
    let derivatives = differentiate(loss, &numbers)?;
    let b = Builder::new(format!("{}_step", loss.name));
    let entry = loss.entry();
    let parameter = |(n, &id): (usize, &InstructionId)| b.parameter(n as i64, entry.instructions[id].shape.clone(), "");
    let parameters: Vec<Op> = entry.parameters().iter().enumerate().map(parameter).collect();
    let all = b.call(&derivatives, &parameters);
    let mut results = vec![b.get_tuple_element(all, 0)];
    for (&parameter, n) in parameters.iter().zip(1..=trained) {
        let gradient = b.get_tuple_element(all, n as i64);
        let ty = b.shape(gradient)?.as_array().map_or(ElementType::F32, |a| a.ty);
        let rate = b.convert_element_type(b.constant_r0(rate), ty);
        results.push(b.sub(parameter, b.mul(gradient, rate)));
    }
    let root = b.tuple(&results);
    b.build_with_root(root)
}
