//! The kernel IR, the heart: from a fused group of instructions to loops that an emitter can turn into machine code.
//!
//! **Problem.** HLO speaks of whole arrays; machine code of registers and addresses. What lies between must show which
//! loops there are and what each is for, without knowing an instruction set.
//!
//! **Invariant.** A [`ir::Kernel`] is a list of phases with a barrier between them; a phase is a parallel space and,
//! for each of its points, stages in order. A stage's **row loop** is what an emitter is handed: a trip count, a
//! straight-line [`body::Body`] of primitive nodes, loads and stores with [`index::Ix`] maps, and accumulators with a
//! fixed rule of which element goes to which partial result. Numbers are decided here: two emitters that follow the
//! rules give the same bits.
//!
//! **Algorithm.** [`lower`] walks a group back from what it stores; [`elementwise`], [`math`] and [`storage`] say how an
//! operation becomes nodes; [`simplify`] merges loops; [`text`] prints, [`mod@parse`] reads. [`mod@verify`] checks every kernel,
//! by what its stores [`cover`] too, [`interp`] says what it computes.

pub mod body;
pub mod cover;
pub mod elementwise;
pub mod eval;
pub mod index;
pub mod interp;
pub mod ir;
pub mod lower;
pub mod math;
pub mod op;
pub mod parse;
pub mod registers;
pub mod rewrite;
pub mod simplify;
pub mod sort;
pub mod storage;
pub mod text;
pub mod verify;
