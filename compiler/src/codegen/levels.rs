//! A program for several levels of one kind of processor.
//!
//! **Problem.** One object is to run at the speed of the processor that it finds, and on all from the lowest level on.
//!
//! **Invariant.** The levels share constants, workspace and numeric variant; each has functions of its own, whose names say
//! the level. A processor below the lowest executes nothing of them.
//!
//! **Algorithm.** The schedule is compiled once for each target. Their functions go into one list, behind them the function
//! that callers call, which finds out the level ([`super::x86::choice`]). A target without levels, or one that asks nothing
//! of the processor, is called straight away.

use super::program::{self, Code, CodegenOptions};
use super::target::Target;
use super::x86::{
    asm::Assembled,
    choice::{self, Needs},
};
use crate::error::{Error, Result};
use crate::memory::schedule::{Assignment, Schedule};
use crate::object::{self, CompiledFunction, DataInit, DataObject};

/// Whether a program asks the processor before it runs.
pub fn asks(targets: &[Target]) -> bool {
    targets.len() > 1 || targets.iter().any(|t| t.is_x86() && !t.features.is_empty())
}

/// Compiles a schedule for each of the targets, the lowest first; `symbol` is the entry's.
///
/// # Errors
/// Those of [`program::compile`]; `Internal` where the levels differ in what they must share.
pub fn compile(
    symbol: &str,
    schedule: &Schedule,
    assignment: &Assignment,
    targets: &[Target],
    options: CodegenOptions,
) -> Result<Code> {
    let internal = |what: &str| Error::Internal(format!("program '{symbol}': {what}"));
    let Some(lowest) = targets.first() else { return Err(internal("there is no target")) };
    let asks = asks(targets);
    let mut all = program::compile(symbol, !asks, schedule, assignment, lowest, options)?;
    if !asks {
        return Ok(with_constants(symbol, schedule, all));
    }
    let number = |n: usize| u32::try_from(n).map_err(|_| internal("there are too many functions"));
    let mut entries = vec![(Needs::of(&lowest.features), number(all.functions.len())? - 1)];
    for target in targets.iter().skip(1) {
        let code = program::compile(symbol, false, schedule, assignment, target, options)?;
        let shared = code.data == all.data
            && code.custom_calls == all.custom_calls
            && (code.per_worker, code.services, code.needed) == (all.per_worker, all.services, all.needed);
        if !shared {
            return Err(internal("its levels differ in more than their functions"));
        }
        let base = number(all.functions.len())?;
        for mut function in code.functions {
            for reloc in &mut function.relocs {
                if let object::Target::Function(i) = &mut reloc.target {
                    *i += base;
                }
            }
            all.functions.push(function);
        }
        all.clif.extend(code.clif);
        entries.push((Needs::of(&target.features), number(all.functions.len())? - 1));
    }
    let mut all = with_constants(symbol, schedule, all);
    let state = number(all.data.len())?;
    let symbol_of_state = format!("{symbol}.level");
    let init = DataInit::Zeros(4);
    all.data.push(DataObject { symbol: symbol_of_state, alignment: 4, writable: true, init, relocs: Vec::new() });
    let Assembled { code, relocs } = choice::function(&entries, state)?;
    all.functions.push(CompiledFunction { symbol: symbol.to_owned(), exported: true, alignment: 16, code, relocs });
    Ok(all)
}

/// Puts the schedule's constants before the rest of the data, where the functions know them.
fn with_constants(symbol: &str, schedule: &Schedule, mut code: Code) -> Code {
    let constants = schedule.constants.iter();
    let constants = constants.map(|(c, array)| {
        DataObject::constant(format!("{symbol}.constant.{}", c.as_u32()), 64, array.bytes().to_vec())
    });
    code.data.splice(0..0, constants);
    code
}
