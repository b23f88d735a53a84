//! Machine code.
//!
//! **Problem.** A schedule of kernels, with a place for every value, must become functions of a target machine: fast to
//! compile, free of relocations where that is possible, and the same bytes however many threads compile.
//!
//! **Invariant.** One driver a module, with native branches for control flow, cut into functions where it is large;
//! a function for each phase of a kernel, which is given pointers and a range of its parallel space. No CLIF
//! is emitted that would become a library call: the object writer refuses such code. Every function is compiled on its
//! own, so threads cannot change a byte.
//!
//! **Algorithm.** [`program`] lists the functions and [`driver`] builds the one that calls them. A row loop is planned
//! ([`rows`]) before [`nest`] emits it, and what its elements are is computed by one traversal for every machine ([`vector`]); [`contraction`] and [`sort`] build phases out of blocks of
//! [`lanes`] and of register [`tile`]s; rows worth it are machine code of our own ([`wide`]), and so are the tiles of wider
//! registers ([`x86`]); [`target`] finds the machine, and [`levels`] joins what was compiled for several of one kind.

mod address;
mod attribution;
mod clif;
pub mod contraction;
mod driver;
mod effort;
mod fault;
mod flow;
pub mod lanes;
pub mod levels;
mod machine;
pub mod nest;
mod phase;
mod program;
pub mod queries;
pub mod registers;
pub mod rows;
pub mod selector;
pub mod sort;
pub mod target;
mod tasks;
pub mod tile;
mod vector;
mod wide;
mod x86;

pub use effort::Effort;
pub use program::{CodegenOptions, WIDE_WORK};
pub use tasks::DEFAULT_GRAIN;
