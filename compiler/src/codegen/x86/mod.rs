//! Machine code of x86-64 that is written instruction by instruction: CLIF has no form of it, or it is the same in every program.
//!
//! **Problem.** CLIF ends at 128 bits and knows neither `cpuid` nor masks, but a contraction is as fast as its widest
//! registers, and an object that is to run on several generations of processors must find out where it runs.
//!
//! **Invariant.** What is written here gives the bits of what CLIF would give. It keeps the calling convention of the
//! functions around it. Whatever the encoder refuses is an error of ours.
//!
//! **Algorithm.** [`asm`] collects instructions with labels, constants and references to the outside; [`tile`] writes the
//! register tiles of contractions for the shapes that a program calls them with; [`choice`] the function that looks at the
//! processor once and goes to the code for it; [`copy`] the copy of large arrays; [`tasks`] what hands a phase to several workers. Row loops, which need registers allotted,
//! are `codegen/wide/`.

pub mod asm;
pub mod choice;
pub mod copy;
pub mod tasks;
pub mod tile;
