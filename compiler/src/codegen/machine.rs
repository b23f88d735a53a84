//! From functions to machine code: each is compiled on its own, by Cranelift or not at all.

use super::attribution::Attribution;
use super::effort::{Effort, Executed};
use super::target::Target;
use super::x86::asm::Assembled;
use crate::error::{Error, Result};
use crate::object::CompiledFunction;
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::Function;
use cranelift_module::FuncId;
use std::num::NonZero;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::ScopedJoinHandle;

/// A function before it is machine code, or as such.
pub(super) enum Source {
    /// For Cranelift, with what it executes where that is known.
    Clif(Box<Function>, Option<Executed>),
    /// Done.
    Machine(Assembled),
}

impl Source {
    pub(super) fn clif(function: Function, executed: Option<Executed>) -> Source {
        Source::Clif(Box::new(function), executed)
    }

    /// What Cranelift's code executes, where that is known.
    pub(super) fn executed(&self) -> Option<Executed> {
        match *self {
            Source::Clif(_, executed) => executed,
            Source::Machine(_) => None,
        }
    }
}

/// A function that was declared.
pub(super) struct Declared {
    pub(super) id: FuncId,
    pub(super) symbol: String,
    pub(super) source: Source,
    /// What it comes from.
    pub(super) attribution: Attribution,
}

/// Constants of wide code are read a register at a time.
const WIDE_ALIGNMENT: u64 = 64;

/// Compiles a function in a context, which keeps its memory for the next. A panic of the code generator is an error of ours. The
/// instructions are printed where the context is to and nobody else prints them.
pub(super) fn machine_code(
    (id, attribution): (FuncId, Attribution),
    symbol: &str,
    function: Function,
    (target, effort): (&Target, Effort),
    context: &mut Context,
) -> Result<CompiledFunction> {
    let printed = context.want_disasm && !target.is_x86();
    let isa = target.isa_for(effort);
    context.clear();
    context.func = function;
    context.set_disasm(printed);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        context.compile(isa, &mut ControlPlane::default()).map(|_| ()).map_err(|e| {
            let text = cranelift_codegen::print_errors::pretty_error(e.func, e.inner);
            Error::Internal(format!("function '{symbol}': {text}"))
        })
    }));
    match caught {
        Ok(result) => result?,
        Err(_) => return Err(Error::Internal(format!("the code generator panicked on function '{symbol}'"))),
    }
    let compiled =
        context.compiled_code().ok_or_else(|| Error::Internal(format!("function '{symbol}' has no code")))?;
    let named = |e: Error| Error::Internal(format!("function '{symbol}': {}", e.message()));
    CompiledFunction::from_compiled(id, &context.func, compiled, isa, attribution.number(None)).map_err(named)
}

/// As many threads as are asked for, or where that is 0 as the machine has. To find out the standard library reads several files, which
/// takes as long as a third of a small program: once in a process.
fn wanted(threads: usize) -> usize {
    static MACHINE: OnceLock<usize> = OnceLock::new();
    match threads {
        0 => *MACHINE.get_or_init(|| std::thread::available_parallelism().map_or(1, NonZero::get)),
        n => n,
    }
}

/// Compiles functions one by one, each with the effort of the same number, on several threads where asked; the order and the bytes do
/// not depend on that.
pub(super) fn compile_all(
    functions: Vec<Declared>,
    efforts: Vec<Effort>,
    target: &Target,
    threads: usize,
    printed: bool,
) -> Result<Vec<(FuncId, CompiledFunction)>> {
    let compiled = functions.iter().filter(|f| matches!(f.source, Source::Clif(..))).count();
    let functions = functions.into_iter().zip(efforts);
    let one = |context: &mut Context, (Declared { id, symbol, source, attribution }, effort)| match source {
        Source::Clif(function, _) => {
            context.set_disasm(printed);
            Ok((id, machine_code((id, attribution), &symbol, *function, (target, effort), context)?))
        }
        Source::Machine(assembled) => Ok((id, assembled.aligned(WIDE_ALIGNMENT, attribution))),
    };
    // Starting a thread takes as long as a small function; what is machine code already takes no time.
    let most = compiled / 2;
    let threads = if most < 2 { 1 } else { wanted(threads).min(most) };
    if threads == 1 {
        let mut context = Context::new();
        return functions.map(|job| one(&mut context, job)).collect();
    }
    let jobs = Mutex::new(functions.enumerate().collect::<Vec<_>>());
    let work = || {
        let mut context = Context::new();
        let mut done = Vec::new();
        let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).pop();
        while let Some((place, job)) = next() {
            done.push((place, one(&mut context, job)));
        }
        done
    };
    let done = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let mut all = Vec::new();
    for done in done {
        all.extend(done.map_err(|_| Error::Internal("a thread that compiles functions panicked".into()))?);
    }
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, compiled)| compiled).collect()
}
