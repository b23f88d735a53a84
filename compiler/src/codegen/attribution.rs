//! What emitted code is said to come from.

use crate::hlo::{ComputationId, InstructionId};
use crate::kernel::ir::Kernel;
use crate::sources::Sources;
use cranelift_codegen::ir::SourceLoc;
use cranelift_frontend::FunctionBuilder;

/// The sources of a function: numbers of [`Sources`], or none where nobody asks for lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attribution(Option<Known>);

#[derive(Clone, Copy, Debug)]
struct Known {
    /// Of what belongs to nothing else.
    own: u32,
    /// Of the first instruction of the function's computation.
    first: u32,
}

impl Attribution {
    /// Of a function that belongs to the program as a whole, or several of its instructions.
    pub fn of_entry(sources: Option<&Sources>) -> Attribution {
        Attribution(sources.map(|s| Known { own: s.entry(), first: s.entry() + 1 }))
    }

    /// Of what computes an instruction.
    pub fn of(sources: Option<&Sources>, (computation, id): (ComputationId, InstructionId)) -> Attribution {
        let known = |s: &Sources| Known { own: s.instruction((computation, id)), first: s.first_of(computation) };
        Attribution(sources.map(known))
    }

    /// Of a kernel's phase.
    pub fn of_kernel(sources: Option<&Sources>, kernel: &Kernel) -> Attribution {
        kernel.source.map_or_else(|| Attribution::of_entry(sources), |source| Attribution::of(sources, source))
    }

    /// Of a part that belongs to an instruction of the same computation, where that is known.
    pub fn within(self, source: Option<InstructionId>) -> Attribution {
        Attribution(self.0.map(|known| Known { own: known.number(source), ..known }))
    }

    /// The number of an instruction of the function's computation; of the function where none is said.
    pub fn number(self, source: Option<InstructionId>) -> Option<u32> {
        self.0.map(|known| known.number(source))
    }

    /// Says what is emitted from now on.
    pub fn mark(self, b: &mut FunctionBuilder<'_>, source: Option<InstructionId>) {
        if let Some(number) = self.number(source) {
            // Cranelift counts from the first that it sees; the number before that one would be none.
            b.func.params.ensure_base_srcloc(SourceLoc::new(0));
            b.set_srcloc(SourceLoc::new(number));
        }
    }
}

impl Known {
    fn number(self, source: Option<InstructionId>) -> u32 {
        source.map_or(self.own, |id| self.first + id.as_u32())
    }
}
