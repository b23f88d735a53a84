//! The relocations and stubs of each machine.
//!
//! **Problem.** A linker's work differs between machines in three things: which relocations there are, what an instruction makes of
//! an address, and how a call reaches further than its own field.
//!
//! **Invariant.** A relocation changes bytes of its field alone, and only where the value fits into it: what is out of range is an
//! error. **Algorithm.** [`Machine::needs`] says of a relocation, before anything has an address, what it will want; when all is laid
//! out, [`Machine::apply`] fills its field in. A stub (on aarch64 called a veneer) is a jump through the symbol's slot in the global
//! offset table, which may lie anywhere; a call uses it where the function itself is out of reach.

mod aarch64;
mod x86_64;

use object::Architecture;

/// A machine whose objects the loader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Machine {
    X86_64,
    Aarch64,
}

/// What a relocation wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    /// Bytes of its field; 0 where there is nothing to do.
    pub(super) width: usize,
    /// A slot of the symbol in the global offset table.
    pub(super) slot: bool,
    /// A stub, for a function that may be out of reach.
    pub(super) stub: bool,
}

impl Needs {
    const NOTHING: Needs = Needs { width: 0, slot: false, stub: false };

    const fn field(width: usize) -> Needs {
        Needs { width, slot: false, stub: false }
    }

    const fn slot(width: usize) -> Needs {
        Needs { width, slot: true, stub: false }
    }

    /// Of a call, which reaches everything in the image but perhaps not what lies outside.
    const fn call(undefined: bool) -> Needs {
        Needs { width: 4, slot: undefined, stub: undefined }
    }
}

/// A relocation, with the addresses that it may refer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    pub(super) r_type: u32,
    pub(super) addend: i64,
    /// Where the field will be.
    pub(super) place: u64,
    pub(super) symbol: u64,
    pub(super) slot: Option<u64>,
    pub(super) stub: Option<u64>,
}

impl Reference {
    /// An address plus the addend.
    fn plus(&self, address: u64) -> u64 {
        address.wrapping_add_signed(self.addend)
    }

    /// The distance from the field to an address plus the addend.
    fn distance(&self, address: u64) -> i64 {
        self.plus(address).wrapping_sub(self.place) as i64
    }
}

impl Machine {
    /// That of this process.
    pub(super) fn host() -> Option<Machine> {
        if cfg!(target_arch = "x86_64") {
            Some(Machine::X86_64)
        } else if cfg!(all(target_arch = "aarch64", target_endian = "little")) {
            Some(Machine::Aarch64)
        } else {
            None
        }
    }

    /// What an object calls it.
    pub(super) fn architecture(self) -> Architecture {
        match self {
            Machine::X86_64 => Architecture::X86_64,
            Machine::Aarch64 => Architecture::Aarch64,
        }
    }

    /// Bytes of a stub, which is aligned to as many.
    pub(super) fn stub_size(self) -> usize {
        match self {
            Machine::X86_64 => x86_64::STUB_SIZE,
            Machine::Aarch64 => aarch64::STUB_SIZE,
        }
    }

    /// What a relocation of a type wants, for a symbol that is `undefined` or not; `None` for an unknown type.
    pub(super) fn needs(self, r_type: u32, undefined: bool) -> Option<Needs> {
        match self {
            Machine::X86_64 => x86_64::needs(r_type, undefined),
            Machine::Aarch64 => aarch64::needs(r_type, undefined),
        }
    }

    /// The stub at an address, which jumps to where the slot at another leads; `None` where that is out of reach.
    pub(super) fn stub(self, at: u64, slot: u64) -> Option<Vec<u8>> {
        match self {
            Machine::X86_64 => x86_64::stub(at, slot),
            Machine::Aarch64 => aarch64::stub(at, slot),
        }
    }

    /// Fills a field in; `None` where what it refers to is out of reach.
    pub(super) fn apply(self, field: &mut [u8], reference: &Reference) -> Option<()> {
        match self {
            Machine::X86_64 => x86_64::apply(field, reference),
            Machine::Aarch64 => aarch64::apply(field, reference),
        }
    }
}

/// Writes a number of as many bytes as the field has.
fn put<const N: usize>(field: &mut [u8], bytes: [u8; N]) -> Option<()> {
    *field.first_chunk_mut()? = bytes;
    Some(())
}
