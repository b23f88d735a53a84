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
//! Unwind tables are not registered: a backtrace ends at the program.

mod elf;
mod image;
mod symbols;

pub use image::Image;
pub use symbols::process_symbol;

use crate::LoadError;
use crate::abi::{DescriptorInfo, EntryFn};
use std::ffi::c_void;

/// Finds the address of a symbol.
pub type Resolver<'a> = &'a dyn Fn(&str) -> Option<*const c_void>;

/// How an object is loaded.
#[derive(Clone, Copy)]
pub struct LoadOptions<'a> {
    /// Asked first for each undefined symbol. What it returns is called by the program: it must be a function of the
    /// kind that the descriptor names.
    pub resolver: Option<Resolver<'a>>,
    /// Whether symbols of this process are used for what the resolver does not know.
    pub process_symbols: bool,
    /// Whether the content hash is checked.
    pub verify_hash: bool,
}

impl Default for LoadOptions<'_> {
    fn default() -> Self {
        LoadOptions { resolver: None, process_symbols: true, verify_hash: true }
    }
}

/// A loaded program.
pub struct Loaded {
    /// What the program says of itself.
    pub descriptor: DescriptorInfo,
    /// Its function, valid as long as the image lives.
    pub entry: EntryFn,
    /// Its memory.
    pub image: Image,
}

/// Loads an object.
///
/// # Errors
/// Where the object is damaged, or not for this machine, processor or runtime.
pub fn load(bytes: &[u8], options: &LoadOptions<'_>) -> Result<Loaded, LoadError> {
    let object = elf::Object::read(bytes)?;
    let (descriptor, hash_offset) = object.descriptor()?;
    if options.verify_hash && crate::abi::object_hash(bytes, hash_offset) != Some(descriptor.hash) {
        return Err(LoadError::Hash);
    }
    crate::program::check_host(&descriptor)?;
    let resolve = |symbol: &str| -> Result<u64, LoadError> {
        let own = options.resolver.and_then(|resolver| resolver(symbol));
        let found = own.or_else(|| options.process_symbols.then(|| process_symbol(symbol)).flatten());
        let line = descriptor.custom_calls.iter().find(|c| c.symbol == symbol).map_or(0, |c| c.line);
        found
            .map(|address| address as usize as u64)
            .ok_or_else(|| LoadError::UndefinedSymbol { symbol: symbol.to_owned(), line })
    };
    let plan = object.plan(&resolve)?;
    let mut builder = image::Builder::new(plan.text_size, plan.rodata_size, plan.data_size)?;
    let base = builder.base();
    object.fill(&plan, base, builder.bytes_mut())?;
    let entry = object.entry(&plan, &descriptor.entry)?;
    let image = builder.protect()?;
    let entry = image.function(entry).ok_or_else(|| LoadError::Malformed("the entry lies outside the code".into()))?;
    Ok(Loaded { descriptor, entry, image })
}
