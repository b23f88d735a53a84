//! The schedule as variables and a tree of events.
//!
//! A *variable* is a name for contents of memory. Most values are variables of their own; values that always hold the
//! same share one: the state of a loop at its start, in its condition, in its body and after it; a part of the state
//! that the body hands on unchanged and what it started from; a conditional whose branches all yield one value. Each
//! result leaf of the program is a variable too.
//!
//! Variables of loops, conditionals and results are defined by copies. All copies at one place form a group that happens
//! at once. Events stand on a line of positions, a loop's condition before its body, branches one after another.

use super::schedule::{BlockId, Definition, KernelId, Location, Schedule, Step, ValueId};
use crate::error::{Error, Result};
use crate::kernel::ir::Role;
use cranelift_entity::{PrimaryMap, SecondaryMap, entity_impl};
use hashbrown::HashMap;
use std::collections::BTreeSet;

/// Names a variable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Variable(u32);
entity_impl!(Variable, "variable");

/// Where a variable may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StorageClass {
    /// Anywhere in the workspace, or in a result's memory.
    Anywhere,
    /// It is the memory of a result leaf.
    Result(u32),
    /// Memory that is never written.
    ReadOnly(Location),
    /// Parameter memory that may be the memory of a result leaf, too.
    Donated {
        /// The parameter leaf.
        parameter: u32,
        /// The result leaf.
        result: u32,
    },
}

pub(super) struct VariableData {
    pub bytes: u64,
    pub storage: StorageClass,
}

/// Where a group of copies stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Before(BlockId, usize),
    AtEnd(BlockId),
}

/// Copies that happen at once: (to, from).
pub(super) struct Group {
    pub place: Place,
    pub position: u32,
    /// How many loops surround it.
    pub depth: u32,
    pub copies: Vec<(Variable, Variable)>,
}

/// A kernel's use of variables.
pub(super) struct Run {
    pub position: u32,
    pub reads: Vec<Variable>,
    /// Defined here: outputs and scratch.
    pub writes: Vec<Variable>,
    /// Defined by a copy before, and changed here.
    pub updates: Vec<Variable>,
    /// Pairs (output, input) that may share memory.
    pub in_place: Vec<(Variable, Variable)>,
}

/// A branch: where it starts and ends, and what happens between.
pub(super) struct Arm {
    pub start: u32,
    pub end: u32,
    pub nodes: Vec<Node>,
}

/// What happens.
pub(super) enum Node {
    /// A group of copies, by number.
    Copies(usize),
    Run(Run),
    /// The driver looks at a variable.
    Read(u32, Variable),
    Loop {
        condition: Vec<Node>,
        /// Where the body starts.
        middle: u32,
        body: Vec<Node>,
        /// Where the back edge is.
        end: u32,
        state: Vec<Variable>,
        /// Variables read inside that have a value when an iteration starts.
        used: Vec<Variable>,
    },
    Branch {
        start: u32,
        arms: Vec<Arm>,
        results: Vec<Variable>,
    },
}

/// The program as variables and events.
pub(super) struct Flow {
    pub variables: PrimaryMap<Variable, VariableData>,
    /// The variable of each value.
    pub of: SecondaryMap<ValueId, Option<Variable>>,
    /// The variable of each result leaf.
    pub results: Vec<Variable>,
    pub groups: Vec<Group>,
    pub nodes: Vec<Node>,
    /// The position after everything.
    pub end: u32,
}

fn malformed(what: impl std::fmt::Display) -> Error {
    Error::Internal(format!("a malformed schedule: {what}"))
}

/// Reads a schedule.
///
/// # Errors
/// [`Error::Internal`] where it is malformed.
pub(super) fn flow(schedule: &Schedule) -> Result<Flow> {
    let entry = schedule.entry.ok_or_else(|| malformed("no entry"))?;
    let mut same = Same { schedule, next: SecondaryMap::new() };
    same.block(entry)?;
    let mut variables = PrimaryMap::new();
    let mut of = SecondaryMap::new();
    let donated: HashMap<u32, u32> = schedule.donated.iter().map(|&(p, r, _)| (p, r)).collect();
    for (v, value) in schedule.values.iter() {
        if same.find(v) == v {
            let storage = match value.definition {
                Definition::Constant(c) => StorageClass::ReadOnly(Location::Constant(c)),
                Definition::Parameter(parameter) => match donated.get(&parameter) {
                    Some(&result) => StorageClass::Donated { parameter, result },
                    None => StorageClass::ReadOnly(Location::Parameter(parameter)),
                },
                Definition::Step | Definition::BlockParameter => StorageClass::Anywhere,
            };
            let bytes = value.shape.byte_size() as u64;
            of[v] = Some(variables.push(VariableData { bytes, storage }));
        }
    }
    for v in schedule.values.keys() {
        of[v] = of[same.find(v)];
    }
    let mut results = Vec::new();
    for (n, &v) in schedule.results.iter().enumerate() {
        let bytes = schedule.values[v].shape.byte_size() as u64;
        results.push(variables.push(VariableData { bytes, storage: StorageClass::Result(n as u32) }));
    }
    let mut reader = Reader { schedule, variables: &variables, of: &of, groups: Vec::new(), position: 0, depth: 0 };
    let (mut nodes, _) = reader.block(entry)?;
    let values: Vec<Variable> = schedule.results.iter().map(|&v| reader.variable(v)).collect::<Result<_>>()?;
    nodes.push(reader.group(Place::AtEnd(entry), &results, &values)?);
    let (mut groups, end) = (reader.groups, reader.position);
    drop_unneeded(&mut groups, &nodes, &results, variables.len());
    for node in &mut nodes {
        uses(node, &groups);
    }
    Ok(Flow { variables, of, results, groups, nodes, end })
}

/// Which values always hold the same: a forest, each tree a set.
struct Same<'a> {
    schedule: &'a Schedule,
    next: SecondaryMap<ValueId, Option<ValueId>>,
}

impl Same<'_> {
    fn find(&mut self, v: ValueId) -> ValueId {
        let mut root = v;
        while let Some(up) = self.next[root] {
            root = up;
        }
        let mut at = v;
        while let Some(up) = self.next[at] {
            self.next[at] = Some(root);
            at = up;
        }
        root
    }

    fn block(&mut self, id: BlockId) -> Result<()> {
        let schedule = self.schedule;
        for step in &schedule.blocks[id].steps {
            match step {
                Step::Kernel { .. } => {}
                Step::While {
                    init,
                    condition,
                    condition_parameters,
                    body,
                    body_parameters,
                    body_results,
                    results,
                    ..
                } => {
                    let n = results.len();
                    if [init, condition_parameters, body_parameters, body_results].iter().any(|l| l.len() != n) {
                        return Err(malformed("a loop's states differ in length"));
                    }
                    for (k, &state) in results.iter().enumerate() {
                        self.next[condition_parameters[k]] = Some(state);
                        self.next[body_parameters[k]] = Some(state);
                    }
                    self.block(*condition)?;
                    self.block(*body)?;
                    for (k, &state) in results.iter().enumerate() {
                        let (first, next) = (self.find(init[k]), self.find(body_results[k]));
                        if next == state || next == first {
                            self.next[state] = Some(first);
                        }
                    }
                }
                Step::Conditional { branches, results, .. } => {
                    if branches.iter().any(|(_, r)| r.len() != results.len()) {
                        return Err(malformed("a conditional's results differ in length"));
                    }
                    for (branch, _) in branches {
                        self.block(*branch)?;
                    }
                    for (k, &result) in results.iter().enumerate() {
                        let mut values: Vec<ValueId> = branches.iter().map(|(_, r)| self.find(r[k])).collect();
                        values.dedup();
                        if let [one] = values[..] {
                            self.next[result] = Some(one);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

struct Reader<'a> {
    schedule: &'a Schedule,
    variables: &'a PrimaryMap<Variable, VariableData>,
    of: &'a SecondaryMap<ValueId, Option<Variable>>,
    groups: Vec<Group>,
    position: u32,
    depth: u32,
}

impl Reader<'_> {
    fn variable(&self, v: ValueId) -> Result<Variable> {
        self.of[v].ok_or_else(|| malformed(format!("{v} is not defined")))
    }

    fn list(&self, values: &[ValueId]) -> Result<Vec<Variable>> {
        values.iter().map(|&v| self.variable(v)).collect()
    }

    fn next(&mut self) -> u32 {
        self.position += 1;
        self.position - 1
    }

    /// A group that copies `from` to `to`.
    fn group(&mut self, place: Place, to: &[Variable], from: &[Variable]) -> Result<Node> {
        let copies: Vec<_> = to.iter().copied().zip(from.iter().copied()).filter(|(t, f)| t != f).collect();
        for &(t, f) in &copies {
            if self.variables[t].bytes != self.variables[f].bytes {
                return Err(malformed(format!("a copy between different sizes at {place:?}")));
            }
        }
        let copies = copies.into_iter().filter(|(t, _)| self.variables[*t].bytes > 0).collect();
        let position = self.next();
        self.groups.push(Group { place, position, depth: self.depth, copies });
        Ok(Node::Copies(self.groups.len() - 1))
    }

    /// The nodes of a block; and whatever the caller adds behind them stands at the block's end.
    fn block(&mut self, id: BlockId) -> Result<(Vec<Node>, u32)> {
        let schedule = self.schedule;
        let start = self.next();
        let mut nodes = Vec::new();
        for (i, step) in schedule.blocks[id].steps.iter().enumerate() {
            let place = Place::Before(id, i);
            match step {
                Step::Kernel { kernel, buffers } => self.kernel(place, *kernel, buffers, &mut nodes)?,
                Step::While { init, condition, condition_result, body, body_results, results, .. } => {
                    let (first, state) = (self.list(init)?, self.list(results)?);
                    nodes.push(self.group(place, &state, &first)?);
                    self.depth += 1;
                    let (mut test, _) = self.block(*condition)?;
                    let read = self.variable(*condition_result)?;
                    test.push(Node::Read(self.next(), read));
                    let (mut inner, middle) = self.block(*body)?;
                    let next = self.list(body_results)?;
                    inner.push(self.group(Place::AtEnd(*body), &state, &next)?);
                    self.depth -= 1;
                    let (condition, body, end, used) = (test, inner, self.next(), Vec::new());
                    nodes.push(Node::Loop { condition, middle, body, end, state, used });
                }
                Step::Conditional { index, branches, results, .. } => {
                    let read = self.variable(*index)?;
                    nodes.push(Node::Read(self.next(), read));
                    let results = self.list(results)?;
                    let first = self.next();
                    let mut arms = Vec::new();
                    for (branch, values) in branches {
                        let (mut inner, start) = self.block(*branch)?;
                        let values = self.list(values)?;
                        inner.push(self.group(Place::AtEnd(*branch), &results, &values)?);
                        arms.push(Arm { start, end: self.next(), nodes: inner });
                    }
                    nodes.push(Node::Branch { start: first, arms, results });
                }
            }
        }
        Ok((nodes, start))
    }

    fn kernel(&mut self, place: Place, kernel: KernelId, buffers: &[ValueId], nodes: &mut Vec<Node>) -> Result<()> {
        let kernel = &self.schedule.kernels[kernel];
        if kernel.buffers.len() != buffers.len() {
            return Err(malformed(format!("kernel '{}' wants {} buffers", kernel.name, kernel.buffers.len())));
        }
        let variables = self.list(buffers)?;
        let sources: BTreeSet<u32> = kernel
            .buffers
            .iter()
            .filter_map(|b| match b.role {
                Role::Update { of } => Some(of),
                _ => None,
            })
            .collect();
        let mut run = Run { position: 0, reads: vec![], writes: vec![], updates: vec![], in_place: vec![] };
        let (mut to, mut from) = (Vec::new(), Vec::new());
        for (p, buffer) in kernel.buffers.iter().enumerate() {
            match buffer.role {
                Role::Input if sources.contains(&(p as u32)) => {}
                Role::Input => run.reads.push(variables[p]),
                Role::Output | Role::Scratch => run.writes.push(variables[p]),
                Role::Update { of } => {
                    let source = variables.get(of as usize).ok_or_else(|| malformed("an update of no buffer"))?;
                    to.push(variables[p]);
                    from.push(*source);
                    run.updates.push(variables[p]);
                }
            }
        }
        if !to.is_empty() {
            nodes.push(self.group(place, &to, &from)?);
        }
        for &(output, input) in &kernel.in_place {
            let (Some(&o), Some(&i)) = (variables.get(output as usize), variables.get(input as usize)) else {
                return Err(malformed(format!("kernel '{}' pairs buffers that it has not", kernel.name)));
            };
            // The kernel may read the same variable through several buffers: each of them must allow it.
            let all = (0u32..).zip(&kernel.buffers).zip(&variables).all(|((p, buffer), &v)| {
                v != i || buffer.role != Role::Input || sources.contains(&p) || kernel.in_place.contains(&(output, p))
            });
            if all && self.variables[o].bytes == self.variables[i].bytes {
                run.in_place.push((o, i));
            }
        }
        run.position = self.next();
        nodes.push(Node::Run(run));
        Ok(())
    }
}

/// Drops the copies to variables that nobody needs.
fn drop_unneeded(groups: &mut [Group], nodes: &[Node], results: &[Variable], variables: usize) {
    let mut needed: SecondaryMap<Variable, bool> = SecondaryMap::with_capacity(variables);
    let mut work: Vec<Variable> = results.to_vec();
    reads(nodes, &mut work);
    let mut sources: SecondaryMap<Variable, Vec<Variable>> = SecondaryMap::new();
    for &(to, from) in groups.iter().flat_map(|g| &g.copies) {
        sources[to].push(from);
    }
    while let Some(v) = work.pop() {
        if !std::mem::replace(&mut needed[v], true) {
            work.extend(&sources[v]);
        }
    }
    for group in groups {
        group.copies.retain(|(to, _)| needed[*to]);
    }
}

/// Everything that a kernel or the driver reads.
fn reads(nodes: &[Node], out: &mut Vec<Variable>) {
    for node in nodes {
        match node {
            Node::Copies(_) => {}
            Node::Run(run) => out.extend(run.reads.iter().chain(&run.updates)),
            Node::Read(_, v) => out.push(*v),
            Node::Loop { condition, body, .. } => {
                reads(condition, out);
                reads(body, out);
            }
            Node::Branch { arms, .. } => arms.iter().for_each(|arm| reads(&arm.nodes, out)),
        }
    }
}

/// What a node reads and what it defines; on the way each loop learns what it uses.
fn uses(node: &mut Node, groups: &[Group]) -> (BTreeSet<Variable>, BTreeSet<Variable>) {
    let (mut read, mut defined) = (BTreeSet::new(), BTreeSet::new());
    let mut all = |nodes: &mut [Node]| {
        for node in nodes {
            let (r, d) = uses(node, groups);
            read.extend(r);
            defined.extend(d);
        }
    };
    match node {
        Node::Loop { condition, body, state, used, .. } => {
            all(condition);
            all(body);
            state.iter().for_each(|s| _ = defined.remove(s));
            *used = read.difference(&defined).copied().collect();
        }
        Node::Branch { arms, .. } => arms.iter_mut().for_each(|arm| all(&mut arm.nodes)),
        Node::Copies(g) => {
            for &(to, from) in &groups[*g].copies {
                defined.insert(to);
                read.insert(from);
            }
        }
        Node::Run(run) => {
            read.extend(run.reads.iter().chain(&run.updates));
            defined.extend(&run.writes);
        }
        Node::Read(_, v) => _ = read.insert(*v),
    }
    (read, defined)
}
