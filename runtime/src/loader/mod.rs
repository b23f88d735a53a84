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
//! symbol that is called gets a stub, a jump through its GOT slot, used where the call cannot reach the function. What differs
//! between machines stands in [`relocation`].
//!
//! A custom call's symbol is asked of the caller's resolver, then of the registry of custom calls, then of the process. One
//! that nobody defines is no reason to refuse the program, which may never call it: the program calls by handle then, and the
//! handle of that symbol leads to a failure that names it, with the line of the call. A caller who would rather know at once
//! asks for [`LoadOptions::strict_symbols`].
//!
//! The unwind table is checked and made known to the process ([`unwind`]), so that a backtrace goes through the program.
//! Functions go into the map of `perf` where that is asked for ([`perf_map`]), and debuggers are shown the object ([`gdb`]).

mod elf;
mod gdb;
mod image;
mod perf_map;
mod relocation;
mod symbols;
#[cfg(test)]
mod tests;
mod unwind;

pub use image::Image;
pub use symbols::{open_library, process_symbol};

use crate::abi::{CustomCallInfo, DescriptorInfo, EntryFn, Implementation, Service};
use crate::custom_call::{BY_HANDLE, CustomCalls, Handler};
use crate::program::Library;
use crate::{LoadError, UndefinedSymbol, services};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;

/// Whether an environment variable asks for something: it is set, and not empty.
fn asked_for(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

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
    /// Whether a custom call of a symbol that nobody defines is an error here, not only where the program comes to it.
    pub strict_symbols: bool,
    /// Library services to be used in place of the runtime's own.
    pub services: &'a [Implementation],
    /// Whether the content hash is checked.
    pub verify_hash: bool,
}

impl Default for LoadOptions<'_> {
    fn default() -> Self {
        LoadOptions {
            resolver: None,
            custom_calls: None,
            process_symbols: true,
            strict_symbols: false,
            services: &[],
            verify_hash: true,
        }
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
    /// The symbols of custom calls that nobody defines.
    pub undefined: Vec<UndefinedSymbol>,
    /// Its memory, which the sizes of one object share.
    pub image: Arc<Image>,
}

/// Loads an object: a program for each size that it holds.
///
/// # Errors
/// Where the object is damaged, or not for this machine, processor or runtime.
pub fn load(bytes: &[u8], options: &LoadOptions<'_>) -> Result<Vec<Loaded>, LoadError> {
    let object = elf::Object::read(bytes, relocation::Machine::host())?;
    let (mut descriptors, holes): (Vec<DescriptorInfo>, Vec<usize>) = object.descriptors()?.into_iter().unzip();
    let hash = if options.verify_hash { crate::abi::object_hash(bytes, &holes) } else { None };
    if options.verify_hash && descriptors.iter().any(|d| Some(d.hash) != hash) {
        return Err(LoadError::Hash);
    }
    for descriptor in &descriptors {
        crate::program::check_host(descriptor)?;
    }
    let find = |symbol: &str| -> Option<Handler> {
        let function = |address: *const c_void| Handler::Function(address.expose_provenance());
        let given = options.resolver.and_then(|resolver| resolver(symbol)).map(function);
        let registered = || options.custom_calls.and_then(|calls| calls.get(symbol)).cloned();
        let of_process = || options.process_symbols.then(|| process_symbol(symbol)).flatten().map(function);
        given.or_else(registered).or_else(of_process)
    };
    let mut targets: BTreeMap<String, Handler> = BTreeMap::new();
    let mut undefined: Vec<Vec<UndefinedSymbol>> = vec![Vec::new(); descriptors.len()];
    for (descriptor, undefined) in descriptors.iter().zip(&mut undefined) {
        for CustomCallInfo { symbol, line, .. } in &descriptor.custom_calls {
            let found = match targets.get(symbol) {
                Some(Handler::Undefined) => None,
                Some(known) => Some(known.clone()),
                None => find(symbol),
            };
            if found.is_none() {
                let missing = UndefinedSymbol { symbol: symbol.clone(), line: *line };
                if options.strict_symbols {
                    return Err(missing.into());
                }
                undefined.push(missing);
            }
            targets.insert(symbol.clone(), found.unwrap_or(Handler::Undefined));
        }
    }
    // Closures and what nobody defines have no address: a program with one of them gets handles for all its custom
    // calls, and the service that reads them; so do its plain calls, which are direct otherwise.
    let by_handle = targets.values().any(|handler| !matches!(handler, Handler::Function(_)));
    let mut libraries = Vec::with_capacity(descriptors.len());
    for descriptor in &mut descriptors {
        if by_handle {
            descriptor.needed_services = descriptor.needed_services.union(Service::CustomCall.set());
        }
        libraries.push(crate::program::library(descriptor, |service| {
            if by_handle && service == Service::CustomCall {
                return Some(BY_HANDLE.function);
            }
            let own = options.services.iter().find(|i| i.service == service).map(|i| i.function);
            own.or_else(|| services::builtin(service))
        })?);
    }
    let handlers: RefCell<Vec<Arc<Handler>>> = RefCell::default();
    let resolve = |symbol: &str| -> Result<u64, LoadError> {
        let target = targets.get(symbol);
        if let (Some(handler), true) = (target, by_handle) {
            let handler = Arc::new(handler.clone());
            let address = std::ptr::from_ref(&*handler).expose_provenance();
            handlers.borrow_mut().push(handler);
            return Ok(address as u64);
        }
        match target.cloned().or_else(|| find(symbol)) {
            Some(Handler::Function(address)) => Ok(address as u64),
            Some(Handler::Closure(_)) => Err(LoadError::Unsupported(format!("a closure for the symbol '{symbol}'"))),
            // Not the symbol of a custom call: nothing stands between the program and it.
            Some(Handler::Undefined) | None => Err(UndefinedSymbol { symbol: symbol.to_owned(), line: 0 }.into()),
        }
    };
    let plan = object.plan(&resolve)?;
    let mut builder = image::Builder::new(plan.text_size, plan.rodata_size, plan.data_size)?;
    let base = builder.base();
    object.fill(&plan, base, builder.bytes_mut())?;
    let entries =
        descriptors.iter().map(|d| object.entry(&plan, &d.entry)).collect::<Result<Vec<usize>, LoadError>>()?;
    let mut image = builder.protect(object.unwind_table(&plan))?;
    image.shown = gdb::show(|| object.with_addresses(bytes, &plan, base))?;
    let image = Arc::new(image);
    perf_map::add(base, || object.functions(&plan))?;
    let handlers = handlers.into_inner();
    let mut out = Vec::with_capacity(descriptors.len());
    for (((descriptor, library), undefined), entry) in
        descriptors.into_iter().zip(libraries).zip(undefined).zip(entries)
    {
        let outside = || LoadError::Malformed("the entry lies outside the code".into());
        let entry = image.function(entry).ok_or_else(outside)?;
        let (handlers, image) = (handlers.clone(), Arc::clone(&image));
        out.push(Loaded { descriptor, entry, library, handlers, undefined, image });
    }
    Ok(out)
}
