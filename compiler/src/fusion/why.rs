//! Why a kernel ends where it does, for people.
//!
//! Growing a group asks many small questions and keeps no answers: most instructions are looked at by several groups. Here the
//! questions are asked again about one edge of the finished plan, from a value that a group stores to an instruction that uses
//! it outside, and the first that has an answer gives it.

use super::grow::MAX_MEMBERS;
use super::plan::{Analysis, Class, ComputationPlan, Group, GroupKind, Step, moves};
use crate::error::Result;
use crate::hlo::{ComputationId, Instruction, InstructionId, Module, Opcode};
use hashbrown::HashMap;
use std::fmt;

/// Why a value is stored and its user is no member of the group that computes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The caller, a tuple or control flow takes the array.
    Taken,
    /// The user reads the whole array, or changes it in place.
    ReadWhole,
    /// The user begins a kernel of its own.
    Begins,
    /// The two stand on different sides of an exchange between devices.
    Exchange,
    /// The user takes its elements from other places.
    Moves,
    /// The user runs over another number of elements than the kernel.
    OtherElements,
    /// The kernel has as many members as one may have.
    Full,
    /// Several instructions use the result of a kernel that has room for one at each step.
    Several,
    /// The kernel goes from element to element, and the user costs more than is computed that way.
    OneByOne,
    /// The user needs something else that is not finished while the kernel runs.
    Order,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Taken => "the caller, a tuple or control flow takes the array",
            Reason::ReadWhole => "it reads the whole array, or changes it in place",
            Reason::Begins => "it begins a kernel of its own",
            Reason::Exchange => "an exchange between devices lies between them",
            Reason::Moves => "it takes its elements from other places",
            Reason::OtherElements => "it runs over another number of elements",
            Reason::Full => "the kernel has as many members as one may have",
            Reason::Several => "it is one of several users, and such a kernel goes on with one alone",
            Reason::OneByOne => "it costs too much for a kernel that takes one element after another",
            Reason::Order => "it needs something that is not finished while the kernel runs",
        })
    }
}

/// A value that a group stores, and who uses it outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The member that computes it.
    pub stored: InstructionId,
    /// The instruction that uses it; `None` for whoever takes the computation's result.
    pub user: Option<InstructionId>,
    /// Why that is no member.
    pub reason: Reason,
}

/// The ends of all groups of a computation, in the order of the plan's steps, those of a step by its members.
///
/// # Errors
/// As [`plan`](super::plan()).
pub fn endings(module: &Module, id: ComputationId, plan: &ComputationPlan) -> Result<Vec<Vec<Ending>>> {
    let computation = &module.computations[id];
    let analysis = Analysis::new(module, computation)?;
    let mut group_of: HashMap<InstructionId, usize> = HashMap::new();
    for (number, step) in plan.steps.iter().enumerate() {
        if let Step::Group(group) = step {
            group_of.extend(group.members.iter().map(|&member| (member, number)));
        }
    }
    let mut out = Vec::with_capacity(plan.steps.len());
    for (number, step) in plan.steps.iter().enumerate() {
        let mut ends = Vec::new();
        if let Step::Group(group) = step {
            for &stored in &group.members {
                if stored == computation.root {
                    ends.push(Ending { stored, user: None, reason: Reason::Taken });
                }
                for &user in analysis.users[stored].iter().filter(|u| group_of.get(*u) != Some(&number)) {
                    ends.push(Ending { stored, user: Some(user), reason: reason(&analysis, group, stored, user) });
                }
            }
            ends.dedup();
        }
        out.push(ends);
    }
    Ok(out)
}

fn elements(inst: &Instruction) -> Option<usize> {
    inst.shape.as_array().map(|s| s.elements())
}

fn reason(a: &Analysis<'_>, group: &Group, stored: InstructionId, user: InstructionId) -> Reason {
    let inst = |id: InstructionId| &a.computation.instructions[id];
    let moves = moves(inst(user).opcode);
    let folds = matches!(
        group.kind,
        GroupKind::Reduce(_) | GroupKind::Dot(_) | GroupKind::ReduceWindow(_) | GroupKind::Convolution(_)
    );
    match a.class[user] {
        Some(Class::Structural | Class::Control) => Reason::Taken,
        Some(Class::Anchor) if a.materialized[stored] => Reason::ReadWhole,
        _ if a.epoch[user] != a.epoch[stored] => Reason::Exchange,
        Some(Class::Anchor) => Reason::Begins,
        _ if moves => Reason::Moves,
        _ if elements(inst(user)) != elements(inst(stored)) && inst(user).opcode != Opcode::Reduce => {
            Reason::OtherElements
        }
        _ if group.members.len() >= MAX_MEMBERS => Reason::Full,
        _ if folds && a.users[stored].iter().any(|&u| u != user) => Reason::Several,
        Some(Class::Reduce) => Reason::Begins,
        _ if matches!(group.kind, GroupKind::ReduceWindow(id) if a.serial[id]) => Reason::OneByOne,
        _ => Reason::Order,
    }
}
