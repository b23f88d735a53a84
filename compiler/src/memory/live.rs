//! When each variable is live.
//!
//! An event at position `e` has two points: at `2e` it reads, at `2e + 1` it writes. A range is half-open in points. A
//! kernel's outputs are live from its first point on, for it writes while it reads; what a copy defines is live from
//! the second, for the copies of a group read before they write.
//!
//! One walk backwards gives the exact ranges, because what is live where a loop's iteration starts is known before the
//! walk enters the loop: what is live behind it, and what its inside reads before it is defined there.

use super::flow::{Arm, Flow, Group, Node, StorageClass, Variable};
use cranelift_entity::SecondaryMap;

/// Half-open ranges of points, in ascending order, disjoint.
pub(super) type Ranges = Vec<(u32, u32)>;

/// The live ranges of all variables.
pub(super) fn ranges(flow: &Flow) -> SecondaryMap<Variable, Ranges> {
    let mut walk = Walk { groups: &flow.groups, open: SecondaryMap::new(), done: SecondaryMap::new(), opened: vec![] };
    for &result in &flow.results {
        walk.reads(result, 2 * flow.end);
    }
    walk.nodes(&flow.nodes);
    for (v, variable) in flow.variables.iter() {
        if walk.open[v] != 0 && matches!(variable.storage, StorageClass::ReadOnly(_) | StorageClass::Donated { .. }) {
            walk.defines(v, 0, 0);
        }
        walk.done[v].reverse();
    }
    walk.done
}

struct Walk<'a> {
    groups: &'a [Group],
    /// Where the live range ends that the walk is in; 0 where the variable is not live.
    open: SecondaryMap<Variable, u32>,
    done: SecondaryMap<Variable, Ranges>,
    /// For each branch around: the variables that became live in it.
    opened: Vec<Vec<Variable>>,
}

impl Walk<'_> {
    /// `v` is needed by what lies before the point `end`.
    fn reads(&mut self, v: Variable, end: u32) {
        if self.open[v] == 0 {
            self.open[v] = end;
            if let Some(list) = self.opened.last_mut() {
                list.push(v);
            }
        }
    }

    /// `v` is defined at the point `start`, and its memory is touched until `least` though nobody may need it.
    fn defines(&mut self, v: Variable, start: u32, least: u32) {
        let end = std::mem::take(&mut self.open[v]).max(least);
        if start < end {
            self.done[v].push((start, end));
        }
    }

    fn nodes(&mut self, nodes: &[Node]) {
        for node in nodes.iter().rev() {
            match node {
                Node::Copies(g) => {
                    let at = 2 * self.groups[*g].position;
                    for &(to, _) in &self.groups[*g].copies {
                        self.defines(to, at + 1, at + 2);
                    }
                    for &(_, from) in &self.groups[*g].copies {
                        self.reads(from, at + 1);
                    }
                }
                Node::Run(run) => {
                    let at = 2 * run.position;
                    run.writes.iter().for_each(|&v| self.defines(v, at, at + 2));
                    run.updates.iter().for_each(|&v| self.reads(v, at + 2));
                    run.reads.iter().for_each(|&v| self.reads(v, at + 1));
                }
                Node::Read(position, v) => self.reads(*v, 2 * position + 1),
                Node::Loop { condition, middle, body, end, state, used } => {
                    // Where the condition ends, the loop may: what is live behind it is live there.
                    let behind: Vec<Variable> = state.iter().copied().filter(|&s| self.open[s] != 0).collect();
                    used.iter().for_each(|&v| self.reads(v, 2 * end));
                    self.nodes(body);
                    behind.iter().for_each(|&v| self.reads(v, 2 * middle));
                    self.nodes(condition);
                }
                Node::Branch { start, arms, results } => self.branch(*start, arms, results),
            }
        }
    }

    fn branch(&mut self, start: u32, arms: &[Arm], results: &[Variable]) {
        let behind: Vec<Variable> = results.iter().copied().filter(|&r| self.open[r] != 0).collect();
        let mut before = Vec::new();
        for (n, arm) in arms.iter().enumerate().rev() {
            // A result that is no variable of the conditional's own stays live throughout.
            if n + 1 < arms.len() {
                for &r in &behind {
                    if self.open[r] == 0 {
                        self.open[r] = 2 * arm.end;
                    }
                }
            }
            self.opened.push(Vec::new());
            self.nodes(&arm.nodes);
            for v in self.opened.pop().unwrap_or_default() {
                if self.open[v] != 0 {
                    self.defines(v, 2 * arm.start, 0);
                    before.push(v);
                }
            }
        }
        before.iter().for_each(|&v| self.reads(v, 2 * start));
    }
}
