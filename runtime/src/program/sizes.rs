//! A program that was compiled for several sizes: an entry for each, told apart by the sizes of dimensions that its source
//! leaves open.

use super::{LoadError, Program, RunError, RunOptions};
use crate::ArrayLiteral;
use crate::abi::{OpenDimension, size_text};

/// The sizes of one program. A program of one size is one of these too, which takes whatever it is given to that size.
#[derive(Clone, Debug)]
pub struct Sizes {
    programs: Vec<Program>,
}

impl Sizes {
    /// Puts the sizes of a program together, such as those that are linked into this binary.
    ///
    /// # Errors
    /// Where there is none, or they are not different sizes of one program.
    pub fn new(programs: Vec<Program>) -> Result<Sizes, LoadError> {
        let Some(first) = programs.first() else { return Err(LoadError::NoDescriptor) };
        let (open, name) = (&first.descriptor().open, first.descriptor().program_name());
        let mut seen = std::collections::HashSet::new();
        for program in &programs {
            let descriptor = program.descriptor();
            let belongs = descriptor.open == *open && descriptor.program_name() == name;
            if !belongs || !seen.insert(descriptor.sizes()) {
                return Err(LoadError::NoSize(descriptor.entry.clone()));
            }
        }
        Ok(Sizes { programs })
    }

    /// Loads the bytes of an object file, as [`Program::from_object`] does.
    ///
    /// # Errors
    /// Where the object is damaged, or not for this machine, processor or runtime.
    #[cfg(feature = "loader")]
    pub fn from_object(bytes: &[u8]) -> Result<Sizes, LoadError> {
        Sizes::from_object_with(bytes, &crate::loader::LoadOptions::default())
    }

    /// As [`Sizes::from_object`], with a say in how symbols are found.
    ///
    /// # Errors
    /// As [`Sizes::from_object`].
    #[cfg(feature = "loader")]
    pub fn from_object_with(bytes: &[u8], options: &crate::loader::LoadOptions<'_>) -> Result<Sizes, LoadError> {
        let programs = Program::all_from_object(bytes, options)?;
        match programs.len() > 1 && programs.iter().all(|p| p.descriptor().open.is_empty()) {
            true => Err(LoadError::several(&programs)),
            false => Sizes::new(programs),
        }
    }

    /// A program for each size.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// The dimensions whose sizes tell the programs apart, in the order that [`Sizes::select`] takes them.
    pub fn open(&self) -> &[OpenDimension] {
        self.programs.first().map_or(&[], |p| &p.descriptor().open)
    }

    /// The program for these sizes of the open dimensions.
    ///
    /// # Errors
    /// [`RunError::Size`] names the sizes that there are.
    pub fn select(&self, sizes: &[i64]) -> Result<&Program, RunError> {
        let fits = |p: &&Program| p.descriptor().sizes() == sizes;
        self.programs.iter().find(fits).ok_or_else(|| RunError::Size {
            found: if sizes.len() == self.open().len() {
                size_text(self.open(), sizes)
            } else {
                format!("{} sizes instead of {}", sizes.len(), self.open().len())
            },
            sizes: self.list(),
        })
    }

    /// What errors call a parameter.
    fn parameter_name(&self, index: usize) -> String {
        let leaves = self.programs.first().map(|p| &p.descriptor().parameters);
        leaves.and_then(|leaves| leaves.get(index)).map_or_else(String::new, |leaf| leaf.name.clone())
    }

    /// The program for arguments of these shapes.
    ///
    /// # Errors
    /// As [`Sizes::select`], and where arguments are too few or have too few dimensions.
    pub fn select_for(&self, arguments: &[&ArrayLiteral]) -> Result<&Program, RunError> {
        let mut sizes = Vec::with_capacity(self.open().len());
        for open in self.open() {
            let index = open.parameter as usize;
            let expected = self.programs.first().map_or(0, |p| p.descriptor().parameters.len());
            let argument = arguments.get(index).ok_or(RunError::Count { expected, found: arguments.len() })?;
            let size = argument.dims().get(open.dimension as usize).ok_or_else(|| RunError::Shape {
                index,
                name: self.parameter_name(index),
                expected: format!("of more than {} dimensions", open.dimension),
                found: format!("of {}", argument.dims().len()),
            })?;
            sizes.push(*size);
        }
        self.select(&sizes)
    }

    /// Runs the program for the arguments' sizes on the calling thread.
    ///
    /// # Errors
    /// As [`Sizes::select_for`] and [`Program::run`].
    pub fn run(&self, arguments: &[&ArrayLiteral]) -> Result<Vec<ArrayLiteral>, RunError> {
        self.run_with(arguments, &RunOptions::default())
    }

    /// Runs the program for the arguments' sizes.
    ///
    /// # Errors
    /// As [`Sizes::run`].
    pub fn run_with(&self, arguments: &[&ArrayLiteral], options: &RunOptions) -> Result<Vec<ArrayLiteral>, RunError> {
        self.select_for(arguments)?.run_with(arguments, options)
    }

    /// The sizes, as messages list them.
    fn list(&self) -> String {
        let all: Vec<String> = self.programs.iter().map(|p| p.descriptor().size_text()).collect();
        all.join(", ")
    }
}
