//! The registry: functions by name, for programs that run in this process.

use super::views::CustomCall;
use super::{Description, call};
use crate::abi::{Leaf, array_leaves};
use crate::program::memory::{AlignedBytes, load, store};
use crate::{ArrayLiteral, Literal};
use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::c_void;
use std::sync::Arc;

/// What a registered closure returns; the error's text is the message of the failed run.
pub type CustomCallResult = Result<(), Box<dyn Error + Send + Sync>>;

pub(super) type Closure = Arc<dyn Fn(&mut CustomCall<'_>) -> CustomCallResult + Send + Sync>;

/// What a name leads to.
#[derive(Clone)]
pub(crate) enum Handler {
    /// A closure.
    Closure(Closure),
    /// The exposed address of a function.
    Function(usize),
    /// Nothing: nobody defines the symbol.
    #[cfg(feature = "loader")]
    Undefined,
}

/// Custom calls by name.
///
/// ```
/// use brolga_runtime::CustomCalls;
///
/// let mut calls = CustomCalls::new();
/// calls.register("double", |call| {
///     let x = call.operand::<f32>(0)?;
///     for (y, x) in call.result_mut::<f32>(0)?.as_mut_slice().iter_mut().zip(x.as_slice()) {
///         *y = 2.0 * x;
///     }
///     Ok(())
/// });
/// ```
///
/// A registry is given to the loader
#[cfg_attr(feature = "loader", doc = "([`LoadOptions::custom_calls`](crate::loader::LoadOptions))")]
/// or to the interpreter; clones share the closures. An error that a closure returns, or a panic in it, fails the run
/// with its message and nothing else: the same program can run again.
#[derive(Clone, Default)]
pub struct CustomCalls {
    handlers: BTreeMap<String, Handler>,
    process_symbols: bool,
}

impl CustomCalls {
    /// An empty registry.
    pub fn new() -> CustomCalls {
        CustomCalls::default()
    }

    /// Registers a closure under a custom call target, in place of what had the name. It serves every calling
    /// convention, and may run on several threads at once where several runs do.
    pub fn register<F>(&mut self, name: impl Into<String>, function: F) -> &mut CustomCalls
    where
        F: Fn(&mut CustomCall<'_>) -> CustomCallResult + Send + Sync + 'static,
    {
        self.handlers.insert(name.into(), Handler::Closure(Arc::new(function)));
        self
    }

    /// Registers a function with a C interface.
    ///
    /// # Safety
    /// The function has the calling convention of every custom call of that name in the programs that are run with the
    /// registry, keeps to their shapes, and stays where it is as long as one of them lives.
    pub unsafe fn register_function(&mut self, name: impl Into<String>, address: *const c_void) -> &mut CustomCalls {
        self.handlers.insert(name.into(), Handler::Function(address.expose_provenance()));
        self
    }

    /// Whether the interpreter looks for what is not registered among the symbols of this process; the loader has an
    /// option of its own. A symbol that is found is called: it must be a function of the kind that the program says.
    #[cfg(feature = "loader")]
    pub fn use_process_symbols(&mut self, yes: bool) -> &mut CustomCalls {
        self.process_symbols = yes;
        self
    }

    #[cfg(feature = "loader")]
    pub(crate) fn get(&self, name: &str) -> Option<&Handler> {
        self.handlers.get(name)
    }

    /// Whether a call of that name leads to a function.
    pub fn contains(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn find(&self, name: &str) -> Option<Handler> {
        if let Some(found) = self.handlers.get(name) {
            return Some(found.clone());
        }
        #[cfg(feature = "loader")]
        if self.process_symbols {
            return crate::loader::process_symbol(name).map(|a| Handler::Function(a.expose_provenance()));
        }
        let _ = self.process_symbols;
        None
    }

    /// Calls a function on literals, as the interpreter does; `None` where there is no such function.
    ///
    /// # Errors
    /// Where the operands are not those of the description, and what the function says.
    pub fn call(&self, description: &Description, operands: &[&Literal]) -> Option<Result<Literal, String>> {
        let handler = self.find(&description.target)?;
        Some(call_literals(&handler, description, operands))
    }
}

impl std::fmt::Debug for CustomCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.handlers.keys()).finish()
    }
}

fn call_literals(handler: &Handler, d: &Description, operands: &[&Literal]) -> Result<Literal, String> {
    let arrays: Vec<&ArrayLiteral> = operands.iter().flat_map(|o| o.arrays()).collect();
    let shapes = d.operand_arrays();
    let leaf = |shape: &crate::ArrayShape| Leaf::new(shape.clone());
    let fits = arrays.len() == shapes.len()
        && arrays.iter().zip(&shapes).all(|(a, s)| a.ty() == s.ty && a.dims() == s.dims.as_slice());
    if !fits {
        return Err(format!("the operands of custom call '{}' are not those that it declares", d.target));
    }
    let mut buffers = Vec::new();
    for (array, shape) in arrays.iter().zip(&shapes) {
        let mut bytes = AlignedBytes::new(shape.byte_size() as u64).map_err(|e| e.to_string())?;
        store(&leaf(shape), array, bytes.bytes_mut()).map_err(|e| e.to_string())?;
        buffers.push(bytes);
    }
    let results = d.result_arrays();
    for shape in &results {
        buffers.push(AlignedBytes::new(shape.byte_size() as u64).map_err(|e| e.to_string())?);
    }
    let mut pointers: Vec<*mut c_void> = buffers.iter().map(|b| b.as_ptr().cast()).collect();
    for alias in &d.aliases {
        // The shared buffer is the result's, which starts as a copy of the operand.
        let to = shapes.len() + alias.result;
        let size = buffers.get(alias.operand).map_or(0, |b| b.bytes().len() as u64);
        crate::room_for(size).map_err(|e| e.to_string())?;
        let copy = buffers.get(alias.operand).map(|b| b.bytes().to_vec());
        if let (Some(from), Some(target)) = (copy, buffers.get_mut(to)) {
            if from.len() != target.bytes().len() {
                return Err("a result shares the buffer of an operand of another size".to_owned());
            }
            target.bytes_mut().copy_from_slice(&from);
        }
        let shared = pointers.get(to).copied();
        if let (Some(shared), Some(operand)) = (shared, pointers.get_mut(alias.operand)) {
            *operand = shared;
        }
    }
    // SAFETY: each pointer leads to a buffer of its array's size that lives through the call; results are apart from
    // all but what they alias. Who registered an address, or lets symbols be found, vouches for the function.
    unsafe { call::handler(d, handler, &pointers) }.map_err(|f| f.message)?;
    let mut values = Vec::new();
    for (k, (shape, buffer)) in results.iter().zip(buffers.iter().skip(shapes.len())).enumerate() {
        values.push(load(k, &leaf(shape), buffer.bytes()).map_err(|e| e.to_string())?);
    }
    debug_assert_eq!(values.len(), array_leaves(&d.result).len());
    Literal::from_arrays(&d.result, &mut values.into_iter()).ok_or_else(|| format!("a result of shape {}", d.result))
}
