//! The in-memory loader: the bytes of a relocatable object become a function that can be called.
//!
//! Problem: what tests and the JIT run must be what ships, so there is one artifact, the object file, and this is
//! a linker for one such file. Its input may be damaged.
//!
//! Invariant: no byte of the object is trusted. Sizes and offsets are checked, sums do not overflow, a symbol's address
//! lies in its section, and nothing is executed here. Memory is never writable and executable at once. Whatever the
//! program cannot run with (machine, processor features, interface version, services, symbols) is refused in words.
//!
//! Algorithm: find and check the descriptor and the content hash; lay the allocated sections out as text and stubs |
//! read-only data and GOT | writable data, each on pages of its own; copy, apply relocations, protect. Each undefined
//! symbol that is called gets a stub, a jump through its GOT slot, used where the call cannot reach the function.
//!
//! A custom call's symbol is asked of the caller's resolver, then of the registry of custom calls, then of the process.
//!
//! Unwind tables are not registered: a backtrace ends at the program.

mod elf;
mod image;
mod symbols;

pub use image::Image;
pub use symbols::{open_library, process_symbol};

use crate::abi::{DescriptorInfo, EntryFn, Implementation, Service};
use crate::custom_call::{BY_HANDLE, CustomCalls, Handler};
use crate::program::Library;
use crate::{LoadError, services};
use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Arc;

/// Finds the address of a symbol.
pub type Resolver<'a> = &'a dyn Fn(&str) -> Option<*const c_void>;

/// How an object is loaded.
#[derive(Clone, Copy)]
pub struct LoadOptions<'a> {
    /// Asked first for each undefined symbol. What it returns is called by the program: it must be a function of the
    /// kind that the descriptor names.
    pub resolver: Option<Resolver<'a>>,
    /// Asked next: functions and closures by name. The program keeps those that it uses.
    pub custom_calls: Option<&'a CustomCalls>,
    /// Whether symbols of this process are used for what neither knows.
    pub process_symbols: bool,
    /// Library services to be used in place of the runtime's own.
    pub services: &'a [Implementation],
    /// Whether the content hash is checked.
    pub verify_hash: bool,
}

impl Default for LoadOptions<'_> {
    fn default() -> Self {
        LoadOptions { resolver: None, custom_calls: None, process_symbols: true, services: &[], verify_hash: true }
    }
}

/// A loaded program.
pub struct Loaded {
    /// What the program says of itself.
    pub descriptor: DescriptorInfo,
    /// Its function, valid as long as the image lives.
    pub entry: EntryFn,
    /// The library services that it needs.
    pub(crate) library: Library,
    /// What its custom calls lead to, where it calls them by handle.
    pub(crate) handlers: Vec<Arc<Handler>>,
    /// Its memory.
    pub image: Image,
}

/// Loads an object.
///
/// # Errors
/// Where the object is damaged, or not for this machine, processor or runtime.
pub fn load(bytes: &[u8], options: &LoadOptions<'_>) -> Result<Loaded, LoadError> {
    let object = elf::Object::read(bytes)?;
    let (mut descriptor, hash_offset) = object.descriptor()?;
    if options.verify_hash && crate::abi::object_hash(bytes, hash_offset) != Some(descriptor.hash) {
        return Err(LoadError::Hash);
    }
    crate::program::check_host(&descriptor)?;
    let registered = |symbol: &str| options.custom_calls.and_then(|calls| calls.get(symbol));
    // Closures have no address: a program that calls one gets handles for all its custom calls, and the service that
    // reads them; so do its plain calls, which are direct otherwise.
    let by_handle = descriptor.custom_calls.iter().any(|c| matches!(registered(&c.symbol), Some(Handler::Closure(_))));
    if by_handle {
        descriptor.needed_services = descriptor.needed_services.union(Service::CustomCall.set());
    }
    let library = crate::program::library(&descriptor, |service| {
        if by_handle && service == Service::CustomCall {
            return Some(BY_HANDLE.function);
        }
        let own = options.services.iter().find(|i| i.service == service).map(|i| i.function);
        own.or_else(|| services::builtin(service))
    })?;
    let handlers: RefCell<Vec<Arc<Handler>>> = RefCell::default();
    let resolve = |symbol: &str| -> Result<u64, LoadError> {
        let given = options.resolver.and_then(|resolver| resolver(symbol));
        let function = |address: *const c_void| Handler::Function(address.expose_provenance());
        let found = given.map(function).or_else(|| registered(symbol).cloned());
        let of_process = || options.process_symbols.then(|| process_symbol(symbol)).flatten();
        let found = found.or_else(|| of_process().map(function));
        let call = descriptor.custom_calls.iter().find(|c| c.symbol == symbol);
        let line = call.map_or(0, |c| c.line);
        match found {
            None => Err(LoadError::UndefinedSymbol { symbol: symbol.to_owned(), line }),
            Some(handler) if by_handle && call.is_some() => {
                let handler = Arc::new(handler);
                let address = std::ptr::from_ref(&*handler).expose_provenance();
                handlers.borrow_mut().push(handler);
                Ok(address as u64)
            }
            Some(Handler::Function(address)) => Ok(address as u64),
            Some(Handler::Closure(_)) => Err(LoadError::Unsupported(format!("a closure for the symbol '{symbol}'"))),
        }
    };
    let plan = object.plan(&resolve)?;
    let mut builder = image::Builder::new(plan.text_size, plan.rodata_size, plan.data_size)?;
    let base = builder.base();
    object.fill(&plan, base, builder.bytes_mut())?;
    let entry = object.entry(&plan, &descriptor.entry)?;
    let image = builder.protect()?;
    let entry = image.function(entry).ok_or_else(|| LoadError::Malformed("the entry lies outside the code".into()))?;
    let handlers = handlers.into_inner();
    Ok(Loaded { descriptor, entry, library, handlers, image })
}
