//! A host that answers custom calls from the runtime's registry, so that one registration serves every engine.

use super::control::is_external;
use super::{Host, execution, invalid};
use crate::Result;
use crate::custom_call::describe;
use crate::hlo::{AttrKey, AttrValue, ComputationId, Instruction, Module, Opcode};
use brolga_runtime::{CustomCalls, Literal, Shape, UndefinedSymbol};
use cranelift_entity::SecondaryMap;

/// The symbols of custom calls that `calls` has no function for, each once, with the line of its first call. A run fails
/// that comes to one; whether it does is not asked here.
pub fn undefined_symbols(module: &Module, calls: &CustomCalls) -> Vec<UndefinedSymbol> {
    let mut out: Vec<UndefinedSymbol> = Vec::new();
    let mut seen: SecondaryMap<ComputationId, bool> = SecondaryMap::new();
    let mut open = vec![module.entry];
    while let Some(id) = open.pop() {
        if std::mem::replace(&mut seen[id], true) {
            continue;
        }
        let computation = &module.computations[id];
        for inst in computation.order.iter().map(|&i| &computation.instructions[i]) {
            open.extend(inst.attrs.called());
            if inst.opcode != Opcode::CustomCall || !is_external(module, inst) {
                continue;
            }
            let (symbol, line) = (inst.attrs.str(AttrKey::CustomCallTarget).unwrap_or_default(), inst.location.line);
            match out.iter_mut().find(|known| known.symbol == symbol) {
                Some(known) => known.line = known.line.min(line),
                None if calls.contains(symbol) => {}
                None => out.push(UndefinedSymbol { symbol: symbol.to_owned(), line }),
            }
        }
    }
    out.sort_by_key(|symbol| symbol.line);
    out
}

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
