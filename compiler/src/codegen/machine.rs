//! From functions to machine code: each is compiled on its own, by Cranelift or not at all.

use super::target::Target;
use crate::error::{Error, Result, Site};
use crate::object::CompiledFunction;
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::Function;

/// A function before it is machine code, or as such.
pub(super) enum Source {
    /// For Cranelift.
    Clif(Box<Function>),
    /// Done.
    Machine(Vec<u8>),
}

impl Source {
    pub(super) fn clif(function: Function) -> Source {
        Source::Clif(Box::new(function))
    }
}

/// Constants of wide code are read a register at a time.
const WIDE_ALIGNMENT: u64 = 64;

/// Compiles a function in a context, which keeps its memory for the next. A panic of the code generator is an error of ours.
pub(super) fn machine_code(
    symbol: String,
    exported: bool,
    function: Function,
    target: &Target,
    context: &mut Context,
) -> Result<CompiledFunction> {
    if !target.has_vectors() && has_vectors(&function) {
        let machine = target.isa.triple().architecture;
        let feature = format!("the target {machine}, for programs that use vectors (function '{symbol}')");
        return Err(Error::Unsupported { site: Site::default(), feature });
    }
    context.clear();
    context.func = function;
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        context.compile(&*target.isa, &mut ControlPlane::default()).map(|_| ()).map_err(|e| {
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
    CompiledFunction::from_compiled(symbol, exported, &context.func, compiled)
}

/// Whether a function has values of vector type.
fn has_vectors(function: &Function) -> bool {
    function.dfg.values().any(|v| function.dfg.value_type(v).is_vector())
}

/// Compiles functions one by one, on several threads where asked; the order and the bytes do not depend on that.
pub(super) fn compile_all(
    functions: Vec<(String, Source)>,
    target: &Target,
    threads: usize,
    exported: Option<usize>,
) -> Result<Vec<CompiledFunction>> {
    let one = |context: &mut Context, (i, (name, source)): (usize, (String, Source))| -> Result<CompiledFunction> {
        let function = match source {
            Source::Clif(function) => *function,
            Source::Machine(code) => {
                let alignment = WIDE_ALIGNMENT;
                return Ok(CompiledFunction { symbol: name, exported: false, alignment, code, relocs: Vec::new() });
            }
        };
        machine_code(name, exported == Some(i), function, target, context)
    };
    if threads <= 1 || functions.len() < 4 {
        let mut context = Context::new();
        return functions.into_iter().enumerate().map(|job| one(&mut context, job)).collect();
    }
    let jobs = std::sync::Mutex::new(functions.into_iter().enumerate().collect::<Vec<_>>());
    let done = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut context = Context::new();
                while let Some(job) = jobs.lock().ok().and_then(|mut j| j.pop()) {
                    let i = job.0;
                    let result = one(&mut context, job);
                    if let Ok(mut d) = done.lock() {
                        d.push((i, result));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, r)| r).collect()
}
