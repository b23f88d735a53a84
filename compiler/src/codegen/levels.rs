//! A program for several levels of one kind of processor.
//!
//! **Problem.** One object is to run at the speed of the processor that it finds, and on all from the lowest level on.
//!
//! **Invariant.** The levels share constants, workspace and numeric variant; each has functions of its own, whose names say
//! the level. A processor below the lowest executes nothing of them. Levels may differ in what their workers need besides and in the
//! services that they use (a contraction is cut for the tile of its level): the program asks for the most, and for all.
//!
//! **Algorithm.** The schedule is compiled into the object once for each target, and behind these functions stands the one
//! that callers call, which finds out the level ([`super::x86::choice`]). A target without levels, or one that asks nothing
//! of the processor, is called straight away.

use super::attribution::Attribution;
use super::clif::host_signature;
use super::driver::Shared;
use super::program::{self, Code, CodegenOptions};
use super::target::Target;
use super::x86::choice::{self, Needs};
use crate::error::{Error, Result};
use crate::memory::schedule::{Assignment, Schedule};
use crate::object::{ObjectInput, zeros};
use brolga_runtime::abi::{CustomCallInfo, Services};
use cranelift_module::FuncId;

/// Whether a program asks the processor before it runs.
pub fn asks(targets: &[Target]) -> bool {
    targets.len() > 1 || targets.iter().any(|t| t.is_x86() && !t.features.is_empty())
}

/// What the levels of a program give together.
pub struct Levels {
    /// The function that callers call.
    pub entry: FuncId,
    /// Bytes of workspace besides the schedule's own, for each worker, of the level that needs most.
    pub per_worker: u64,
    /// CLIF of each function, where it was asked for.
    pub clif: Vec<String>,
    /// Services that the code of some level uses where they are offered.
    pub services: Services,
    /// Services that it cannot do without.
    pub needed: Services,
    /// Functions outside the object.
    pub custom_calls: Vec<CustomCallInfo>,
}

/// Compiles a schedule into the object for each of the targets, the lowest first; `symbol` is the entry's.
///
/// # Errors
/// Those of [`program::compile`]; `Internal` where there is no target.
pub fn compile(
    object: &mut ObjectInput,
    symbol: &str,
    schedule: &Schedule,
    assignment: &Assignment,
    targets: &[Target],
    options: CodegenOptions<'_>,
) -> Result<Levels> {
    let internal = |what: &str| Error::Internal(format!("program '{symbol}': {what}"));
    let Some((lowest, higher)) = targets.split_first() else { return Err(internal("there is no target")) };
    let asks = asks(targets);
    let shared = Shared::declare(symbol, schedule, lowest, object)?;
    let Code { mut entry, mut per_worker, mut clif, mut services } =
        program::compile(object, &shared, !asks, schedule, assignment, lowest, options)?;
    if asks {
        let mut entries = vec![(Needs::of(&lowest.features), entry)];
        for target in higher {
            let code = program::compile(object, &shared, false, schedule, assignment, target, options)?;
            per_worker = per_worker.max(code.per_worker);
            services = services.union(code.services);
            clif.extend(code.clif);
            entries.push((Needs::of(&target.features), code.entry));
        }
        let state = object.datum(&format!("{symbol}.level"), true, zeros(4, 4))?;
        entry = object.function(symbol, true, &host_signature(4, true, lowest))?;
        object.define(entry, choice::function(&entries, state)?.aligned(16, Attribution::of_entry(options.sources)))?;
    }
    let Shared { calls, .. } = shared;
    Ok(Levels { entry, per_worker, clif, services, needed: calls.services, custom_calls: calls.functions })
}
