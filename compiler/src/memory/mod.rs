//! A buffer for every value.
//!
//! **Problem.** Kernels work on memory: the caller's parameters and results, constants, and one workspace whose size must
//! be known beforehand. HLO has values, not memory: a loop hands its state on as if each iteration made a new one, a
//! conditional yields what one of its branches made, a program may yield the same value twice.
//!
//! **Invariant.** When a step reads a value, the value's location holds it: nothing else has been written there since.
//! Constants and parameters are never written, except that a result may lie over a parameter that the caller donates.
//! [`check`](check()) proves all of that for a finished assignment, and shares no code with what made it.
//!
//! **Algorithm.** As a compiler leaves SSA form:
//!
//! 1. [`flow`]: values that always hold the same become one *variable*. What is left of loops, conditionals and results
//!    are variables with several definitions, each a copy, and the copies that happen at one place form a group that
//!    happens at once. A copy that nobody needs is dropped.
//! 2. [`live`]: when each variable is live, as half-open ranges on a line of positions, holes included: exact, because
//!    control flow is structured.
//! 3. [`coalesce`]: variables that a copy joins become one class, with one place in memory, where their ranges do not
//!    meet; the copies of inner loops first. Then outputs that may overwrite a dying input join it. A result of the
//!    program is a class that has its place already.
//! 4. [`pack`]: offsets in the workspace, so that classes live at the same time do not overlap.
//! 5. [`assign`](assign()): the copies that are left, put in an order that reads before it overwrites, with a temporary
//!    where they run in a circle.
//!
//! **Donation.** Where the program declares that a result may (or must) share a parameter's memory, the code is right
//! whether the caller passes one pointer or two: nothing is written to that result while the parameter is still needed,
//! except by kernels that may work in place; and where the result starts from the parameter's contents there is a copy,
//! which the driver skips when it finds the two pointers equal.

pub mod assign;
pub mod build;
pub mod check;
pub mod lifetimes;
pub mod run;
pub mod schedule;

mod coalesce;
mod flow;
mod live;
mod pack;
#[cfg(test)]
mod tests;
mod text;

pub use assign::assign;
pub use build::build;
pub use check::check;
pub use lifetimes::lifetimes;
