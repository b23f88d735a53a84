//! Where code comes from: numbers for the instructions of a module and its computations, by which code generation marks what
//! it emits and the object says to debuggers where that stands.
//!
//! Instructions keep their places through the passes, and those that a pass makes have the place of what they replace. A
//! number is dense in its computation, so that nothing is looked up by name.

use crate::error::Result;
use crate::hlo::{ComputationId, Instruction, InstructionId, Module, SourceLocation};
use crate::object::{LineTable, Lines, ObjectInput, Place, Source};
use crate::proto::Origins;
use cranelift_entity::SecondaryMap;
use std::sync::Arc;

/// Debug lines: what an object tells debuggers, where it is asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugLines {
    /// Which text the line table speaks of.
    pub table: LineTable,
    /// The name of the file that the program was read from, as debuggers are to look for it. What a Rust program built has the
    /// file of the call that built it instead.
    pub file: String,
}

/// The numbers of a module's computations and instructions among the sources of an object.
#[derive(Clone, Debug)]
pub struct Sources {
    entry: ComputationId,
    computations: SecondaryMap<ComputationId, u32>,
}

impl Sources {
    /// Adds what a module's code can come from to an object.
    ///
    /// # Errors
    /// Where the program's file has no name.
    pub fn declare(object: &mut ObjectInput, module: &Module, lines: &DebugLines) -> Result<Sources> {
        let file: Arc<str> = lines.file.as_str().into();
        let all = object.lines_of(|| Lines::new(lines.table, &file))?;
        let (mut computations, origins) = (SecondaryMap::new(), Origins::of(module));
        for (id, computation) in module.computations.iter() {
            let place = program_place(&file, computation.location);
            let own = Source { name: computation.name.clone(), program: place, origin: None };
            let instructions = computation.instructions.values().map(|inst| Source {
                name: inst.name.clone(),
                program: program_place(&file, inst.location),
                origin: origin(&origins, inst),
            });
            computations[id] = all.add([own].into_iter().chain(instructions))?;
        }
        Ok(Sources { entry: module.entry, computations })
    }

    /// The number of the module's entry, for code that belongs to no instruction.
    pub fn entry(&self) -> u32 {
        self.computations[self.entry]
    }

    /// The number of a computation's first instruction; the others follow as they are numbered themselves.
    pub fn first_of(&self, computation: ComputationId) -> u32 {
        self.computations[computation] + 1
    }

    /// The number of an instruction.
    pub fn instruction(&self, (computation, id): (ComputationId, InstructionId)) -> u32 {
        self.first_of(computation) + id.as_u32()
    }
}

/// A place in the program's file, or in the Rust file that built it.
fn program_place(file: &Arc<str>, location: SourceLocation) -> Option<Place> {
    let SourceLocation { line, column, file: built } = location;
    match built {
        Some(built) => Place::new(&built.into(), line, column),
        None => Place::new(file, line, column),
    }
}

/// What an instruction was made from, as its metadata say.
fn origin(origins: &Origins, inst: &Instruction) -> Option<Place> {
    let (file, line, column) = origins.place(inst)?;
    Place::new(&file.into(), line, column)
}
