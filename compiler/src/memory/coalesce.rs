//! Classes of variables with one place.
//!
//! Two classes may become one where no range of a variable of one meets a range of a variable of the other. There is
//! one exception: an output and the input that it overwrites in place meet in the point where their kernel reads, and
//! only there.
//!
//! Which classes to join is a greedy choice. Each copy wants its two sides in one class, and what is copied in an inner
//! loop, then what is larger, asks first. Once all copies have been asked, outputs join inputs that they may overwrite:
//! that saves memory, but it must not make a copy harder. (In `a, b = b, a + b` the sum over `a` would turn two copies into
//! three.)

use super::flow::{Flow, Node, Run, StorageClass, Variable};
use super::live::Ranges;
use cranelift_entity::SecondaryMap;
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeMap;

/// Where a class lies, as far as that is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Region {
    /// In the workspace.
    #[default]
    Workspace,
    /// In a result's memory.
    Result(u32),
    /// In memory that is never written: the class has one member.
    ReadOnly,
}

/// The classes.
pub(super) struct Classes {
    next: SecondaryMap<Variable, Option<Variable>>,
    /// Of each root: the live ranges of its members, by start.
    live: SecondaryMap<Variable, BTreeMap<(u32, Variable), u32>>,
    region: SecondaryMap<Variable, Region>,
    /// Position of a kernel, output and input: these two may share memory there.
    in_place: HashSet<(u32, Variable, Variable)>,
}

/// Sorts variables into classes.
pub(super) fn coalesce(flow: &Flow, ranges: &SecondaryMap<Variable, Ranges>) -> Classes {
    let mut classes = Classes {
        next: SecondaryMap::new(),
        live: SecondaryMap::new(),
        region: SecondaryMap::new(),
        in_place: HashSet::new(),
    };
    let mut runs = Vec::new();
    collect(&flow.nodes, &mut runs);
    for run in &runs {
        classes.in_place.extend(run.in_place.iter().map(|&(o, i)| (run.position, o, i)));
    }
    for (v, variable) in flow.variables.iter() {
        if variable.bytes > 0 {
            classes.live[v] = ranges[v].iter().map(|&(start, end)| ((start, v), end)).collect();
        }
        classes.region[v] = match variable.storage {
            StorageClass::Anywhere => Region::Workspace,
            StorageClass::Result(n) => Region::Result(n),
            StorageClass::ReadOnly(_) | StorageClass::Donated { .. } => Region::ReadOnly,
        };
    }
    // A donated parameter's memory is the result's: what lies there must keep clear of it.
    for (v, variable) in flow.variables.iter() {
        if let StorageClass::Donated { result, .. } = variable.storage
            && let Some(&result) = flow.results.get(result as usize)
        {
            classes.region[v] = Region::Workspace;
            classes.join(result, v);
        }
    }
    let mut copies: Vec<_> = flow.groups.iter().flat_map(|g| g.copies.iter().map(move |&c| (g.depth, c))).collect();
    copies.sort_by_key(|&(depth, (to, _))| std::cmp::Reverse((depth, flow.variables[to].bytes)));
    for (_, (to, from)) in copies {
        classes.try_join(to, from);
    }
    let mut read_by: HashMap<Variable, Vec<usize>> = HashMap::new();
    for (g, group) in flow.groups.iter().enumerate() {
        for &(to, from) in &group.copies {
            if classes.of(to) != classes.of(from) {
                let groups = read_by.entry(from).or_default();
                if groups.last() != Some(&g) {
                    groups.push(g);
                }
            }
        }
    }
    for run in runs {
        for &(output, input) in &run.in_place {
            let class = classes.of(input);
            let tangled = read_by.get(&output).into_iter().flatten().any(|&g| {
                let mut copies = flow.groups[g].copies.iter();
                copies.any(|&(to, _)| classes.of(to) == class)
            });
            if !tangled {
                classes.try_join(input, output);
            }
        }
    }
    classes
}

fn collect<'a>(nodes: &'a [Node], out: &mut Vec<&'a Run>) {
    for node in nodes {
        match node {
            Node::Run(run) => out.push(run),
            Node::Loop { condition, body, .. } => {
                collect(condition, out);
                collect(body, out);
            }
            Node::Branch { arms, .. } => arms.iter().for_each(|arm| collect(&arm.nodes, out)),
            Node::Copies(_) | Node::Read(..) => {}
        }
    }
}

impl Classes {
    /// The class of a variable, named by one of its members.
    pub(super) fn of(&self, mut v: Variable) -> Variable {
        while let Some(up) = self.next[v] {
            v = up;
        }
        v
    }

    /// Where a class lies.
    pub(super) fn region(&self, class: Variable) -> Region {
        self.region[class]
    }

    /// When something in a class is live, as ranges in ascending order that may meet.
    pub(super) fn live(&self, class: Variable) -> impl Iterator<Item = (u32, u32)> {
        self.live[class].iter().map(|(&(start, _), &end)| (start, end))
    }

    fn try_join(&mut self, a: Variable, b: Variable) {
        let (a, b) = (self.of(a), self.of(b));
        let regions = match (self.region[a], self.region[b]) {
            (Region::ReadOnly, _) | (_, Region::ReadOnly) => false,
            (Region::Workspace, _) | (_, Region::Workspace) => true,
            (Region::Result(m), Region::Result(n)) => m == n,
        };
        if a != b && regions && !self.meet(a, b) {
            self.join(a, b);
        }
    }

    /// Whether the live ranges of two classes meet where they must not.
    fn meet(&self, a: Variable, b: Variable) -> bool {
        let (few, many) = if self.live[a].len() <= self.live[b].len() { (a, b) } else { (b, a) };
        let many = &self.live[many];
        self.live[few].iter().any(|(&(start, v), &end)| {
            // Ends ascend with starts, for members of a class meet in single points only.
            let before = many.range(..(end, Variable::from_u32(0))).rev();
            before.take_while(|&(_, &e)| e > start).any(|(&(s, w), &e)| {
                let (from, to) = (s.max(start), e.min(end));
                let kernel = from / 2;
                let in_place = self.in_place.contains(&(kernel, v, w)) || self.in_place.contains(&(kernel, w, v));
                !(in_place && from % 2 == 0 && to == from + 1)
            })
        })
    }

    fn join(&mut self, a: Variable, b: Variable) {
        let (a, b) = (self.of(a), self.of(b));
        let (into, gone) = if self.live[a].len() >= self.live[b].len() { (a, b) } else { (b, a) };
        let region = if self.region[a] == Region::Workspace { self.region[b] } else { self.region[a] };
        let moved = std::mem::take(&mut self.live[gone]);
        self.live[into].extend(moved);
        self.region[into] = region;
        self.next[gone] = Some(into);
    }
}
