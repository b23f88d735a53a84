//! Compiled programs, ready to run: loaded from object bytes or linked into this binary.
//!
//! Problem: calling the bare function takes buffers of the right sizes, alignments and layouts, a workspace and a
//! context; getting one wrong is memory corruption. Invariant: everything here derives those from the program's own
//! descriptor, and checks each argument against it, before the function is called. [`Program::run`] is the short way;
//! a [`Session`] keeps the buffers between calls, a [`Store`](crate::store::Store) those of tensors that several programs
//! share; [`Program::call_raw`] is the function itself.

mod bound;
mod error;
mod host;
pub(crate) mod memory;
mod session;
mod sizes;

pub(crate) use bound::Bound;
pub use error::{Error, LoadError, RunError, UndefinedSymbol};
pub use session::{Caller, Session};
pub use sizes::Sizes;

use crate::ArrayLiteral;
use crate::abi::{
    Context, DescriptorInfo, EntryFn, Implementation, IsaFeatures, Service, ServiceFn, Services, host_architecture,
};
use crate::devices::Device;
use crate::feed::Feeds;
use crate::pool::{Executor, Pool, Serial};
use host::Host;
use memory::{AlignedBytes, check_argument, is_literal_form, load, store};
use std::ffi::c_void;
use std::sync::Arc;

/// A compiled program. Clones share the code.
#[derive(Clone)]
pub struct Program {
    inner: Arc<Inner>,
}

struct Inner {
    descriptor: DescriptorInfo,
    entry: EntryFn,
    library: Library,
    /// The memory that `entry` lies in, where it was loaded.
    #[cfg(feature = "loader")]
    _image: Option<Arc<crate::loader::Image>>,
    /// What its custom calls lead to, where it calls them by handle.
    #[cfg(feature = "loader")]
    _handlers: Vec<Arc<crate::custom_call::Handler>>,
    undefined: Vec<UndefinedSymbol>,
}

/// How a program is run.
#[derive(Clone, Default)]
pub struct RunOptions {
    /// Number of workers for parallel loops; 0 and 1 mean the calling thread alone. Ignored where `executor` is
    /// given. More than one spawns threads for each run or session: lend an executor to keep them.
    pub threads: usize,
    /// Where parallel loops run.
    pub executor: Option<Arc<dyn Executor>>,
    /// Seed of the stateful random number generators.
    pub seed: u64,
    /// What the program's infeeds read and its outfeeds write.
    pub feeds: Feeds,
    /// Which device of several this run is. A program that was compiled for several devices runs on no other.
    pub device: Option<Device>,
}

impl RunOptions {
    fn executor(&self) -> Arc<dyn Executor> {
        match &self.executor {
            Some(executor) => Arc::clone(executor),
            None if self.threads > 1 => Arc::new(Pool::new(self.threads)),
            None => Arc::new(Serial),
        }
    }
}

/// The library services of a program.
pub(crate) type Library = [Option<ServiceFn>; Service::COUNT];

/// Puts the services that a program needs into their slots.
pub(crate) fn library(
    descriptor: &DescriptorInfo,
    find: impl Fn(Service) -> Option<ServiceFn>,
) -> Result<Library, LoadError> {
    let mut library: Library = [None; Service::COUNT];
    let mut missing = Services(descriptor.needed_services.0 & !Host::OFFERED.0);
    for &service in Service::ALL {
        if missing.contains(service.set())
            && let (Some(slot), Some(function)) = (library.get_mut(service.slot()), find(service))
        {
            *slot = Some(function);
            missing = Services(missing.0 & !service.set().0);
        }
    }
    if missing == Services::NONE { Ok(library) } else { Err(LoadError::Services { missing }) }
}

/// Checks that this process can run the program at all.
pub(crate) fn check_host(descriptor: &DescriptorInfo) -> Result<(), LoadError> {
    let expected = host_architecture();
    if expected != Some(descriptor.architecture) {
        return Err(LoadError::Machine { expected, found: descriptor.architecture.to_string() });
    }
    let missing = descriptor.features.without(IsaFeatures::detect());
    if !missing.is_empty() {
        return Err(LoadError::Features { missing });
    }
    Ok(())
}

impl Program {
    /// Loads the bytes of an object file that this compiler wrote; symbols of custom calls are looked up in this
    /// process. A run fails that comes to a call which nobody defines: see [`Program::undefined_symbols`].
    ///
    /// The object is code that will run with the rights of this process: load only what you trust. Its content hash
    /// guards against accidents, not against malice.
    ///
    /// # Errors
    /// Where the object is damaged, not for this machine, processor or runtime, for several sizes, which [`Sizes`]
    /// loads, or holds several programs, which [`Program::all_from_object`] loads.
    #[cfg(feature = "loader")]
    pub fn from_object(bytes: &[u8]) -> Result<Program, LoadError> {
        Program::from_object_with(bytes, &crate::loader::LoadOptions::default())
    }

    /// As [`Program::from_object`], with a say in how symbols are found.
    ///
    /// # Errors
    /// As [`Program::from_object`].
    #[cfg(feature = "loader")]
    pub fn from_object_with(bytes: &[u8], options: &crate::loader::LoadOptions<'_>) -> Result<Program, LoadError> {
        let mut programs = Program::all_from_object(bytes, options)?;
        match (programs.pop(), programs.is_empty()) {
            (Some(program), true) => Ok(program),
            (Some(last), false) => {
                programs.push(last);
                Err(LoadError::several(&programs))
            }
            (None, _) => Err(LoadError::NoDescriptor),
        }
    }

    /// The programs of an object, in the order of its descriptors: one for each computation, or for each size of one.
    ///
    /// # Errors
    /// Where the object is damaged, or not for this machine, processor or runtime.
    #[cfg(feature = "loader")]
    pub fn all_from_object(bytes: &[u8], options: &crate::loader::LoadOptions<'_>) -> Result<Vec<Program>, LoadError> {
        let program = |loaded: crate::loader::Loaded| {
            let (descriptor, entry, library) = (loaded.descriptor, loaded.entry, loaded.library);
            let (_image, _handlers, undefined) = (Some(loaded.image), loaded.handlers, loaded.undefined);
            Program { inner: Arc::new(Inner { descriptor, entry, library, _image, _handlers, undefined }) }
        };
        Ok(crate::loader::load(bytes, options)?.into_iter().map(program).collect())
    }

    /// A program that is linked into this binary: its symbols `NAME_descriptor` and `NAME`.
    ///
    /// # Errors
    /// Where the program is not for this processor or runtime.
    ///
    /// # Safety
    /// `descriptor` points to the descriptor of the program whose function is `entry`.
    pub unsafe fn from_linked(descriptor: *const u8, entry: EntryFn) -> Result<Program, LoadError> {
        // SAFETY: the caller's promise is the same.
        unsafe { Program::from_linked_with(descriptor, entry, &[]) }
    }

    /// As [`Program::from_linked`], with the library services that the program needs. Only what is named here becomes
    /// part of the binary.
    ///
    /// # Errors
    /// As [`Program::from_linked`], and where a service is missing.
    ///
    /// # Safety
    /// As [`Program::from_linked`].
    pub unsafe fn from_linked_with(
        descriptor: *const u8,
        entry: EntryFn,
        services: &[Implementation],
    ) -> Result<Program, LoadError> {
        // SAFETY: the caller promises that this is a descriptor.
        let descriptor = unsafe { DescriptorInfo::decode_raw(descriptor) }?;
        check_host(&descriptor)?;
        let library = library(&descriptor, |s| services.iter().find(|i| i.service == s).map(|i| i.function))?;
        Ok(Program {
            inner: Arc::new(Inner {
                descriptor,
                entry,
                library,
                #[cfg(feature = "loader")]
                _image: None,
                #[cfg(feature = "loader")]
                _handlers: Vec::new(),
                undefined: Vec::new(),
            }),
        })
    }

    /// What the program says of itself.
    pub fn descriptor(&self) -> &DescriptorInfo {
        &self.inner.descriptor
    }

    /// The symbols of custom calls that nobody defines, each once: a run that comes to a call of one fails, and says so.
    /// Empty for programs that are linked or were loaded with
    #[cfg_attr(feature = "loader", doc = "[`strict_symbols`](crate::loader::LoadOptions::strict_symbols).")]
    #[cfg_attr(not(feature = "loader"), doc = "strict symbols.")]
    pub fn undefined_symbols(&self) -> &[UndefinedSymbol] {
        &self.inner.undefined
    }

    pub(crate) fn library(&self) -> &Library {
        &self.inner.library
    }

    /// The bare function, valid as long as the program lives.
    pub fn entry(&self) -> EntryFn {
        self.inner.entry
    }

    /// Runs the program on the calling thread.
    ///
    /// # Errors
    /// Where an argument does not fit its parameter, memory is exhausted or the program fails.
    pub fn run(&self, arguments: &[&ArrayLiteral]) -> Result<Vec<ArrayLiteral>, RunError> {
        self.run_with(arguments, &RunOptions::default())
    }

    /// Runs the program.
    ///
    /// # Errors
    /// As [`Program::run`].
    pub fn run_with(&self, arguments: &[&ArrayLiteral], options: &RunOptions) -> Result<Vec<ArrayLiteral>, RunError> {
        let descriptor = self.descriptor();
        if arguments.len() != descriptor.parameters.len() {
            return Err(RunError::Count { expected: descriptor.parameters.len(), found: arguments.len() });
        }
        self.check_devices(options)?;
        // A parameter that a result must share gets a copy, for the program writes to it.
        let shared: Vec<Option<usize>> = (0..descriptor.results.len()).map(|r| self.must_alias(r)).collect();
        let mut copies: Vec<Option<AlignedBytes>> = Vec::with_capacity(arguments.len());
        let mut parameters: Vec<*const c_void> = Vec::with_capacity(arguments.len());
        for (i, (leaf, &literal)) in descriptor.parameters.iter().zip(arguments).enumerate() {
            check_argument(i, leaf, literal)?;
            if is_literal_form(leaf) && !shared.contains(&Some(i)) {
                parameters.push(literal.bytes().as_ptr().cast());
                copies.push(None);
            } else {
                let mut copy = AlignedBytes::new(leaf.byte_size())?;
                store(leaf, literal, copy.bytes_mut())?;
                parameters.push(copy.as_ptr().cast_const().cast());
                copies.push(Some(copy));
            }
        }
        let mut buffers: Vec<ResultSlot> = Vec::with_capacity(descriptor.results.len());
        for (leaf, alias) in descriptor.results.iter().zip(&shared) {
            buffers.push(match alias {
                Some(parameter) => ResultSlot::Parameter(*parameter),
                None if is_literal_form(leaf) => ResultSlot::Literal(ArrayLiteral::try_zeros(&leaf.shape)?),
                None => ResultSlot::Bytes(AlignedBytes::new(leaf.byte_size())?),
            });
        }
        let results: Vec<*mut c_void> = buffers
            .iter_mut()
            .map(|slot| match slot {
                ResultSlot::Literal(literal) => literal.bytes_mut().as_mut_ptr().cast(),
                ResultSlot::Bytes(bytes) => bytes.as_ptr().cast(),
                ResultSlot::Parameter(p) => parameters.get(*p).map_or(std::ptr::null_mut(), |p| p.cast_mut()),
            })
            .collect();
        let host = Host::new(self, options);
        let workspace = self.workspace(host.workers())?;
        let context = host.context(options.seed, &self.inner.library);
        // SAFETY: each pointer leads to a live buffer of its leaf's size and alignment (literals are at least 8-byte aligned),
        // parameters that the program writes to are copies of our own, results are not otherwise borrowed, the
        // workspace fits the host's workers, and the host outlives the call.
        let code = unsafe { self.call_raw(&parameters, &results, workspace.as_ptr().cast(), &context) };
        host.outcome(code)?;
        let mut out = Vec::with_capacity(buffers.len());
        for (i, (slot, leaf)) in buffers.into_iter().zip(&descriptor.results).enumerate() {
            out.push(match slot {
                ResultSlot::Literal(literal) => literal,
                ResultSlot::Bytes(bytes) => load(i, leaf, bytes.bytes())?,
                ResultSlot::Parameter(p) => match copies.get(p) {
                    Some(Some(copy)) => load(i, leaf, copy.bytes())?,
                    _ => return Err(RunError::Index(p)),
                },
            });
        }
        Ok(out)
    }

    /// Allocates buffers for repeated calls.
    ///
    /// # Errors
    /// Where memory is exhausted.
    pub fn session(&self, options: &RunOptions) -> Result<Session, RunError> {
        Session::new(self, options)
    }

    /// Calls the function itself and returns its status.
    ///
    /// # Safety
    /// `parameters` and `results` have as many pointers as the descriptor has leaves, each to a buffer of its leaf's
    /// size, aligned for its element; results overlap nothing but declared aliases; `workspace` is 64-byte aligned
    /// and as large as [`DescriptorInfo::workspace_size`] of the context's workers (1 without a context) says;
    /// `context` is null only where the program needs no service, and its services keep their promises.
    #[inline]
    pub unsafe fn call_raw(
        &self,
        parameters: &[*const c_void],
        results: &[*mut c_void],
        workspace: *mut c_void,
        context: *const Context,
    ) -> i32 {
        debug_assert_eq!(parameters.len(), self.descriptor().parameters.len());
        debug_assert_eq!(results.len(), self.descriptor().results.len());
        // SAFETY: the caller promises what the function needs.
        unsafe { (self.inner.entry)(parameters.as_ptr(), results.as_ptr(), workspace, context) }
    }

    /// A program computes with the number of devices it was compiled for.
    fn check_devices(&self, options: &RunOptions) -> Result<(), RunError> {
        let [replicas, partitions] = self.descriptor().devices.map(|n| n as usize);
        let given = options.device.as_ref().map(Device::place);
        let found = given.map_or((1, 1), |place| (place.replicas, place.partitions));
        if found == (replicas, partitions) {
            return Ok(());
        }
        let found = match given {
            Some(place) => format!("{} x {}", place.replicas, place.partitions),
            None => "one device alone".to_owned(),
        };
        Err(RunError::Devices(format!(
            "the program was compiled for {replicas} replicas of {partitions} partitions, and runs on {found}"
        )))
    }

    /// The parameter whose buffer the result must share.
    fn must_alias(&self, result: usize) -> Option<usize> {
        let mut aliases = self.descriptor().aliases.iter();
        aliases.find(|a| a.must && a.result as usize == result).map(|a| a.parameter as usize)
    }

    fn workspace(&self, workers: u32) -> Result<AlignedBytes, RunError> {
        AlignedBytes::new(self.descriptor().workspace_size(workers).ok_or(RunError::OutOfMemory(u64::MAX))?)
    }
}

enum ResultSlot {
    Literal(ArrayLiteral),
    Bytes(AlignedBytes),
    Parameter(usize),
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Program({})", self.descriptor().entry)
    }
}
