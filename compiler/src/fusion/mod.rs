//! Fusion: which instructions form which kernel.
//!
//! **Problem.** Memory traffic and calls cost more than arithmetic. An elementwise or movement operation should never
//! write its result only for the next operation to read it back; but nothing expensive may be computed twice, and the
//! kernels, taken as single steps, must still have an order.
//!
//! **Invariant.** Every instruction is one of: *structural* (parameters, constants, tuples: no code), a *control* step,
//! a *member* of exactly one group, or *inlined* into each of its users through an index map. The graph whose nodes
//! are groups and single instructions has no cycle.
//!
//! **Algorithm.** Instructions are visited operands first. One that must be stored (the world outside needs it, several
//! users want it and it is not cheap, a contraction reads it) or that reduces starts a group, unless it belongs to one
//! already. The group then *grows* over the instructions behind it, which are classed by how they follow from the
//! members: `Clean` (not at all), `Full` (element `k` follows from elements `k`), `Row` (the value of row `i`, once
//! some reduction of a row has split the elements into rows), `Tainted` (any other way). What is full or row
//! joins, so that softmax or a layer norm is one group, over columns that lie side by side as over rows. A group that would close a cycle shrinks to its seed; [`order`]
//! finds that without looking at more than what lies between its members. Groups that go by the elements of the same array are joined
//! in the end ([`siblings`]).

mod grow;
mod order;
mod plan;
mod siblings;
mod why;

pub use grow::plan;
pub use plan::{ComputationPlan, Group, GroupKind, Step};
pub(crate) use plan::{CumulativeWindow, WRITTEN_OUT, cumulative_window, is_splat, own_cost, reduced_dims, written};
pub use why::{Ending, Reason, endings};
