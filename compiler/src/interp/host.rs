//! A host that answers custom calls from the runtime's registry, so that one registration serves every engine.

use super::{Host, execution, invalid};
use crate::Result;
use crate::custom_call::describe;
use crate::hlo::{AttrKey, AttrValue, Instruction};
use brolga_runtime::{CustomCalls, Literal, Shape};

/// Answers custom calls from a registry.
#[derive(Clone, Copy, Debug)]
pub struct RegistryHost<'a>(pub &'a CustomCalls);

impl Host for RegistryHost<'_> {
    fn custom_call(&mut self, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
        let shapes: Vec<Shape> = match inst.attrs.get(AttrKey::OperandLayoutConstraints) {
            Some(AttrValue::Shapes(shapes)) => shapes.clone(),
            _ => operands.iter().map(|o| o.shape()).collect(),
        };
        let description = describe(inst, &shapes)?;
        match self.0.call(&description, operands) {
            Some(Ok(result)) if super::accepts(&inst.shape, &result) => Ok(result),
            Some(Ok(result)) => Err(invalid(inst, format!("expected {:#}, found {:#}", inst.shape, result.shape()))),
            Some(Err(message)) => Err(execution(inst, message)),
            None => {
                let target = &description.target;
                Err(execution(inst, format!("undefined symbol '{target}': no function of that name is registered")))
            }
        }
    }
}
