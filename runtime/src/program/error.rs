//! What can go wrong when a program is loaded or run.

use crate::OutOfMemory;
#[cfg(feature = "loader")]
use crate::abi::DescriptorInfo;
use crate::abi::{Architecture, DescriptorError, IsaFeatures, Services, Status};

/// Why a program cannot be used here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The bytes are not an object that can be loaded.
    #[error("malformed object: {0}")]
    Malformed(String),
    /// The object has no descriptor, so it does not come from this compiler.
    #[error("the object has no Brolga descriptor")]
    NoDescriptor,
    /// The descriptor cannot be read.
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
    /// The object was changed or damaged since it was written.
    #[error("the object's content does not match its hash: it is damaged or was modified")]
    Hash,
    /// The object is for other machines.
    #[error("the program is for {found}, this machine is {}", host_name(*expected))]
    Machine {
        /// The architecture of this process.
        expected: Option<Architecture>,
        /// The program's.
        found: String,
    },
    /// This processor lacks instructions.
    #[error("the program needs instruction-set features that this processor lacks: {missing}")]
    Features {
        /// Which.
        missing: IsaFeatures,
    },
    /// This runtime lacks services.
    #[error("the program needs services that this runtime does not offer: {missing}")]
    Services {
        /// Which.
        missing: Services,
    },
    /// A symbol was found nowhere.
    #[error(transparent)]
    UndefinedSymbol(#[from] UndefinedSymbol),
    /// The object uses something that the loader does not know.
    #[error("the loader does not support {0}")]
    Unsupported(String),
    /// A relocation's target is too far away.
    #[error("relocation of '{0}' is out of range")]
    OutOfRange(String),
    /// The object holds a program for several sizes.
    #[error("the object is for several sizes ({0}); `Sizes` loads such objects")]
    Sizes(String),
    /// The object holds several programs.
    #[error("the object holds several programs ({0}); `Program::all_from_object` loads such objects")]
    Several(String),
    /// Programs that are not the sizes of one.
    #[error("'{0}' is no size of the program that comes before it")]
    NoSize(String),
    /// The operating system refused memory.
    #[error("cannot map memory: {0}")]
    Memory(String),
}

impl LoadError {
    /// What an object is refused with that holds more than one program.
    #[cfg(feature = "loader")]
    pub(super) fn several(programs: &[super::Program]) -> LoadError {
        let list = |text: fn(&DescriptorInfo) -> String| {
            programs.iter().map(|p| text(p.descriptor())).collect::<Vec<_>>().join(", ")
        };
        match programs.iter().all(|p| !p.descriptor().open.is_empty()) {
            true => LoadError::Sizes(list(DescriptorInfo::size_text)),
            false => LoadError::Several(list(|d| d.entry.clone())),
        }
    }
}

/// A symbol that a program calls and nobody defines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("undefined symbol '{symbol}'{}", line_text(*line))]
pub struct UndefinedSymbol {
    /// Its name.
    pub symbol: String,
    /// The line of the first custom call of it in the HLO text, 0 where unknown.
    pub line: u32,
}

fn host_name(architecture: Option<Architecture>) -> String {
    architecture.map_or_else(|| "of an unknown kind".to_owned(), |a| a.to_string())
}

fn line_text(line: u32) -> String {
    if line > 0 { format!(", called at line {line} of the HLO text") } else { String::new() }
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Wrong number of arguments.
    #[error("the program takes {expected} parameters, {found} arguments were given")]
    Count {
        /// How many parameters there are.
        expected: usize,
        /// How many arguments were given.
        found: usize,
    },
    /// An argument does not fit its parameter, or a buffer its shape.
    #[error("array {index}{} is {expected}, what was given is {found}", name_text(name))]
    Shape {
        /// Number of the parameter leaf.
        index: usize,
        /// Its name, where it has one.
        name: String,
        /// Its shape.
        expected: String,
        /// The argument's.
        found: String,
    },
    /// The program was not compiled for the size at hand.
    #[error("the program was compiled for the sizes {sizes}, not for {found}")]
    Size {
        /// The size that was asked for.
        found: String,
        /// Those that there are.
        sizes: String,
    },
    /// There is no parameter or result of that number.
    #[error("there is no buffer number {0}")]
    Index(usize),
    /// Memory is exhausted.
    #[error("cannot allocate {0} bytes")]
    OutOfMemory(u64),
    /// The program stores something in a way that literals cannot express.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// A result's dynamic size exceeds its bound or is negative.
    #[error("result {index} says that dimension {dimension} has size {size}")]
    DynamicSize {
        /// Number of the result leaf.
        index: usize,
        /// Which dimension.
        dimension: usize,
        /// Its size according to the program.
        size: i32,
    },
    /// The program, or what was given with it, does not fit the devices that run it.
    #[error("{0}")]
    Devices(String),
    /// The run failed on one of several devices.
    #[error("device {device}: {error}")]
    Device {
        /// The device that failed first.
        device: usize,
        /// Why.
        error: Box<RunError>,
    },
    /// The program returned a status other than 0.
    #[error("the program failed with status {code}{}", status_text(*code))]
    Status {
        /// The status.
        code: i32,
    },
    /// A service or a custom call failed and said why.
    #[error("{message}")]
    Failed {
        /// The status that the program returned.
        code: i32,
        /// What the service said.
        message: String,
    },
}

/// Why a program could not be loaded or run: what generated bindings return.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be used here.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A run failed, or there was no memory for one.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl From<OutOfMemory> for RunError {
    fn from(OutOfMemory(bytes): OutOfMemory) -> RunError {
        RunError::OutOfMemory(bytes)
    }
}

fn name_text(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" ('{name}')") }
}

fn status_text(code: i32) -> String {
    Status::from_code(code).map_or_else(String::new, |s| format!(" ({s})"))
}
