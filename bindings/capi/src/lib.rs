//! The runtime for callers in C, and in whatever speaks its language: load a program, ask what it takes and gives, run it.
//!
//! Problem: the bare function of a program checks nothing, and a caller in another language can express neither a Rust type
//! nor an unwinding panic. Invariant: every pointer that comes in is checked for null and every index for its range before
//! it is used; sizes, alignments and overlaps of buffers are checked against the program's descriptor before it runs; no
//! panic leaves a function; what fails returns a status below 0 (or null, or 0 of a count) and leaves a text for
//! `brolga_error_message`. Handles are made by `..._create` and `..._load`, freed by `..._destroy`, and independent of each
//! other: a session keeps its program, a program its custom calls, a run its feeds, whatever is destroyed first. Algorithm:
//! each function is a shell around a call of `brolga-runtime`: [`failure::guard`] runs it, catches panics and stores the text.
//!
//! `include/brolga.h` is made of the declarations here by cbindgen, behind the types that the headers of compiled programs
//! declare too, so that both kinds of header serve one file. A test makes it anew and compares.

mod array;
mod custom_calls;
mod describe;
mod devices;
mod failure;
mod feeds;
mod object;
mod run;

pub use array::Array;
pub use custom_calls::*;
pub use describe::*;
pub use devices::*;
pub use failure::*;
pub use feeds::*;
pub use object::*;
pub use run::*;
