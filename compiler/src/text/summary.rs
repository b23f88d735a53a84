//! What a module holds, in numbers: for `parse --summary`.

use crate::hlo::Module;
use brolga_runtime::Shape;
use std::collections::BTreeMap;

/// Counts over all computations of a module, and the shapes of its entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Number of computations, those that the entry does not reach included.
    pub computations: usize,
    /// Number of instructions in them.
    pub instructions: usize,
    /// How often each operation occurs.
    pub opcodes: BTreeMap<String, usize>,
    /// Shapes of the entry's parameters.
    pub params: Vec<String>,
    /// Shape of the entry's result.
    pub result: String,
}

/// Counts what a module holds.
pub fn summary(module: &Module) -> Summary {
    let mut opcodes = BTreeMap::new();
    for &id in &module.order {
        let computation = &module.computations[id];
        for &i in &computation.order {
            *opcodes.entry(computation.instructions[i].opcode.name().to_owned()).or_insert(0) += 1;
        }
    }
    let entry = module.entry();
    // What the header says of the entry is what callers see.
    let (params, result) = match &module.config.entry_layout {
        Some((params, result)) => (params.iter().map(Shape::to_string).collect(), result.to_string()),
        None => {
            let shapes = entry.parameters().into_iter().map(|i| entry.instructions[i].shape.to_string());
            (shapes.collect(), entry.result_shape().to_string())
        }
    };
    Summary { computations: module.order.len(), instructions: opcodes.values().sum(), opcodes, params, result }
}
