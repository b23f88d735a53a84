//! Growing groups.

use super::plan::{Analysis, Class, Group, GroupKind, INLINE_LIMIT, Step, is_call, own_cost, reduced_dims};
use crate::error::{Error, Result};
use crate::hlo::{AttrKey, Instruction, InstructionId, Opcode, resolve};
use brolga_runtime::ArrayShape;
use cranelift_entity::SecondaryMap;

/// A group takes no more members than this: code size and register pressure grow with it.
const MAX_MEMBERS: usize = 256;
/// Values whose inlined cost is at most this are computed again for each user.
const CHEAP: u32 = 2;
/// A group's rows are at most this long where there is only one row: longer ones are better split over threads.
const MAX_SINGLE_ROW: i64 = 1 << 16;

/// Reshapes on one way through inlined operations that each take an index apart: the index map that comes out at the other
/// end may double with each of them.
const MAX_SPLITS: u32 = 4;

/// How an instruction follows from the members of a growing group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Follows {
    #[default]
    Clean,
    Full,
    Row,
    Tainted,
}

pub(super) struct Grower<'a> {
    a: &'a Analysis<'a>,
    group_of: SecondaryMap<InstructionId, Option<u32>>,
    groups: Vec<Group>,
    /// Inlined cost and size of each instruction that has no group.
    cost: SecondaryMap<InstructionId, (u32, u32)>,
    /// The most reshapes that take an index apart on a way from each instruction to what is in memory.
    splits: SecondaryMap<InstructionId, u32>,
    position: SecondaryMap<InstructionId, u32>,
}

fn array(inst: &Instruction) -> Option<&ArrayShape> {
    inst.shape.as_array()
}

fn elements(inst: &Instruction) -> i64 {
    array(inst).map_or(-1, |s| s.elements() as i64)
}

impl<'a> Grower<'a> {
    pub(super) fn new(a: &'a Analysis<'a>) -> Self {
        let mut position = SecondaryMap::new();
        for (i, &id) in a.computation.order.iter().enumerate() {
            position[id] = i as u32;
        }
        let (cost, splits) = (SecondaryMap::new(), SecondaryMap::new());
        Grower { a, group_of: SecondaryMap::new(), groups: Vec::new(), cost, splits, position }
    }

    fn inst(&self, id: InstructionId) -> &'a Instruction {
        &self.a.computation.instructions[id]
    }

    /// Decides about one instruction; its operands have been visited.
    pub(super) fn visit(&mut self, id: InstructionId) {
        if self.group_of[id].is_some() {
            return;
        }
        match self.a.class[id] {
            Some(Class::Anchor) => self.anchor(id),
            Some(Class::Reduce) => match self.row_split(id) {
                Some(split) => self.rows(id, Some(split)),
                None => self.anchor(id),
            },
            Some(Class::Inline) => {
                let (cost, size) = self.inlined_cost(id);
                self.cost[id] = (cost, size);
                self.splits[id] = self.inlined_splits(id);
                if self.must_store(id, cost, size) || self.splits[id] >= MAX_SPLITS {
                    self.rows(id, None);
                }
            }
            _ => {}
        }
    }

    fn inlined_cost(&self, id: InstructionId) -> (u32, u32) {
        let inst = self.inst(id);
        let mut total = (own_cost(inst), 1);
        for &o in &inst.operands {
            if self.a.class[o] == Some(Class::Inline) && self.group_of[o].is_none() {
                total = (total.0.saturating_add(self.cost[o].0), total.1 + self.cost[o].1);
            }
        }
        total
    }

    fn inlined_splits(&self, id: InstructionId) -> u32 {
        let inst = self.inst(id);
        let inlined = |o: &&InstructionId| self.a.class[**o] == Some(Class::Inline) && self.group_of[**o].is_none();
        let below = inst.operands.iter().filter(inlined).map(|&o| self.splits[o]).max().unwrap_or(0);
        let splits = match inst.operands.first() {
            Some(&o) if inst.opcode == Opcode::Reshape => takes_apart(inst, self.inst(o)),
            _ => false,
        };
        below + u32::from(splits)
    }

    fn must_store(&self, id: InstructionId, cost: u32, size: u32) -> bool {
        if self.a.escapes[id] || self.a.operand_of_dot[id] || size > INLINE_LIMIT || self.changes_width(id) {
            return true;
        }
        let users = &self.a.users[id];
        if users.len() > 1 && cost > CHEAP {
            return true;
        }
        // A sort reads an element for its record, and again for its place in the sorted row.
        if cost > CHEAP && users.iter().any(|&u| matches!(self.inst(u).opcode, Opcode::Sort | Opcode::TopK)) {
            return true;
        }
        // A broadcast along an outer dimension would compute the value again for each row.
        let n = elements(self.inst(id));
        cost > CHEAP
            && n > 1
            && users.iter().any(|&u| {
                let user = self.inst(u);
                user.opcode == Opcode::Broadcast && elements(user) > n && !is_prefix_broadcast(user)
            })
    }

    /// Whether an element of the result is several of the operand, or the other way round: in a chain of such, inlined,
    /// the elements that one needs would multiply.
    fn changes_width(&self, id: InstructionId) -> bool {
        let inst = self.inst(id);
        inst.opcode == Opcode::BitcastConvert
            && inst.operands.first().is_some_and(|&o| elements(self.inst(o)) != elements(inst))
    }

    /// Where a reduction folds the last dimensions of one operand, the number of dimensions kept.
    fn row_split(&self, id: InstructionId) -> Option<usize> {
        let inst = self.inst(id);
        let operand = array(self.inst(*inst.operands.first()?))?;
        let reduced = reduced_dims(inst);
        let big = |d: usize| operand.dims[d] != 1;
        let first = reduced.iter().copied().find(|&d| big(d))?;
        let suffix = (first..operand.rank()).all(|d| reduced.contains(&d) || !big(d));
        let outer: i64 = operand.dims[..first].iter().product();
        let row: i64 = operand.dims[first..].iter().product();
        (suffix && row >= 2 && (outer >= 2 || row <= MAX_SINGLE_ROW)).then_some(first)
    }

    fn new_group(&mut self, kind: GroupKind, members: Vec<InstructionId>) {
        let index = self.groups.len() as u32;
        members.iter().for_each(|&m| self.group_of[m] = Some(index));
        self.groups.push(Group { kind, members, outputs: Vec::new() });
        if self.groups[index as usize].members.len() > 1 && self.order().is_none() {
            let group = &mut self.groups[index as usize];
            for m in group.members.drain(1..) {
                self.group_of[m] = None;
            }
        }
    }

    /// A reduction, contraction, concatenation or padding, with the elementwise operations behind it where it has
    /// one user at each step.
    fn anchor(&mut self, id: InstructionId) {
        let inst = self.inst(id);
        let kind = match inst.opcode {
            Opcode::Reduce => GroupKind::Reduce(id),
            Opcode::Dot => GroupKind::Dot(id),
            Opcode::Concatenate => GroupKind::Concatenate(id),
            Opcode::DynamicUpdateSlice => GroupKind::DynamicUpdateSlice(id),
            Opcode::Scatter => GroupKind::Scatter(id),
            Opcode::ReduceWindow => GroupKind::ReduceWindow(id),
            Opcode::Convolution => GroupKind::Convolution(id),
            Opcode::Scan => GroupKind::Scan(id),
            op if is_call(op) => GroupKind::Call(id),
            Opcode::Sort => GroupKind::Sort(id),
            Opcode::TopK => GroupKind::TopK(id),
            _ => GroupKind::Pad(id),
        };
        let mut members = vec![id];
        let folds = matches!(
            kind,
            GroupKind::Reduce(_) | GroupKind::Dot(_) | GroupKind::ReduceWindow(_) | GroupKind::Convolution(_)
        );
        if folds && array(inst).is_some() {
            let mut last = id;
            while let Some(next) = self.epilogue_after(last) {
                members.push(next);
                last = next;
                if members.len() >= MAX_MEMBERS {
                    break;
                }
            }
        }
        self.new_group(kind, members);
    }

    /// The only user of `last`, where it is elementwise on the same elements.
    fn epilogue_after(&self, last: InstructionId) -> Option<InstructionId> {
        if self.a.escapes[last] || self.a.operand_of_dot[last] {
            return None;
        }
        let users = &self.a.users[last];
        let next = *users.first()?;
        let aligned = users.iter().all(|&u| u == next)
            && self.group_of[next].is_none()
            && self.a.class[next] == Some(Class::Inline)
            && is_aligned_elementwise(self.inst(next), self.inst(last));
        aligned.then_some(next)
    }

    /// A group of full values and, once `split` is known, row values.
    fn rows(&mut self, seed: InstructionId, split: Option<usize>) {
        let domain = match split {
            Some(_) => self.inst(self.inst(seed).operands[0]),
            None => self.inst(seed),
        };
        let Some(shape) = array(domain) else { return };
        let mut dims = shape.dims.clone();
        let total = shape.elements() as i64;
        let mut split = split;
        let mut follows: SecondaryMap<InstructionId, Follows> = SecondaryMap::new();
        follows[seed] = if split.is_some() { Follows::Row } else { Follows::Full };
        let mut members = vec![seed];
        let order = &self.a.computation.order;
        for &id in &order[self.position[seed] as usize + 1..] {
            let inst = self.inst(id);
            let states: Vec<Follows> = inst.operands.iter().map(|&o| follows[o]).collect();
            if states.iter().all(|&s| s == Follows::Clean) {
                continue;
            }
            follows[id] = Follows::Tainted;
            if states.contains(&Follows::Tainted) || self.group_of[id].is_some() || members.len() >= MAX_MEMBERS {
                continue;
            }
            let rows: Option<i64> = split.map(|s| dims[..s].iter().product());
            let state = match self.a.class[id] {
                Some(Class::Structural) if inst.opcode == Opcode::GetTupleElement => states[0],
                Some(Class::Inline) => self.follow_inline(inst, &states, total, rows, &dims, split),
                Some(Class::Reduce) => {
                    let operands = &inst.operands[..inst.operands.len() / 2];
                    let all_full =
                        operands.iter().zip(&states).all(|(&o, &s)| {
                            s == Follows::Full || (s == Follows::Clean && elements(self.inst(o)) == total)
                        }) && states[operands.len()..].iter().all(|&s| s == Follows::Clean);
                    match self.row_split(id) {
                        Some(new) if all_full => {
                            let operand = &array(self.inst(operands[0])).map(|s| s.dims.clone()).unwrap_or_default();
                            let new_rows: i64 = operand[..new].iter().product();
                            match rows {
                                Some(r) if r == new_rows => Follows::Row,
                                None => {
                                    split = Some(new);
                                    dims = operand.clone();
                                    Follows::Row
                                }
                                _ => Follows::Tainted,
                            }
                        }
                        _ => Follows::Tainted,
                    }
                }
                _ => Follows::Tainted,
            };
            if state == Follows::Full || state == Follows::Row {
                follows[id] = state;
                members.push(id);
            }
        }
        // Without a reduction the rows are the last dimension; loops are merged later.
        let split = split.unwrap_or(dims.len().saturating_sub(1));
        self.new_group(GroupKind::Rows { dims, split }, members);
    }

    fn follow_inline(
        &self,
        inst: &Instruction,
        states: &[Follows],
        total: i64,
        rows: Option<i64>,
        dims: &[i64],
        split: Option<usize>,
    ) -> Follows {
        let n = elements(inst);
        match inst.opcode {
            Opcode::Reshape | Opcode::Copy | Opcode::BitcastConvert if n == elements(self.inst(inst.operands[0])) => {
                states[0]
            }
            Opcode::Broadcast => {
                // The value of a row, seen from every element of it.
                let rows_kept = split.map(|s| dims[..s].iter().copied().filter(|&d| d != 1).collect::<Vec<_>>());
                match (states[0], rows, array(inst), array(self.inst(inst.operands[0]))) {
                    (Follows::Row, Some(r), Some(out), Some(operand))
                        if n == total
                            && operand.elements() as i64 == r
                            && is_prefix_broadcast(inst)
                            && rows_kept
                                == Some(
                                    out.dims
                                        .iter()
                                        .copied()
                                        .scan(1, |p, d| {
                                            *p *= d;
                                            Some((*p, d))
                                        })
                                        .take_while(|(p, _)| *p <= r)
                                        .map(|(_, d)| d)
                                        .filter(|&d| d != 1)
                                        .collect(),
                                ) =>
                    {
                        Follows::Full
                    }
                    (Follows::Row, Some(r), ..) if n == r && n == elements(self.inst(inst.operands[0])) => Follows::Row,
                    (Follows::Full, ..)
                        if n == total && n == elements(self.inst(inst.operands[0])) && is_identity_broadcast(inst) =>
                    {
                        Follows::Full
                    }
                    _ => Follows::Tainted,
                }
            }
            Opcode::Iota
            | Opcode::Slice
            | Opcode::Reverse
            | Opcode::Transpose
            | Opcode::Reshape
            | Opcode::Copy
            | Opcode::DynamicSlice
            | Opcode::Gather => Follows::Tainted,
            _ => {
                let all = |wanted: Follows| states.iter().all(|&s| s == wanted || s == Follows::Clean);
                let same = inst.operands.iter().all(|&o| elements(self.inst(o)) == n);
                if all(Follows::Full) && same && n == total {
                    Follows::Full
                } else if all(Follows::Row) && same && Some(n) == rows {
                    Follows::Row
                } else {
                    Follows::Tainted
                }
            }
        }
    }

    /// The groups and control steps in an order in which everything comes after what it needs; `None` where the groups
    /// made so far close a cycle.
    fn order(&self) -> Option<Vec<Node>> {
        let order = &self.a.computation.order;
        let node = |id: InstructionId| self.group_of[id].map_or(Node::Single(id), Node::Group);
        // Kahn's algorithm, always taking the node that stands first in the text.
        let mut pending: std::collections::HashMap<Node, usize> = std::collections::HashMap::new();
        let mut after: std::collections::HashMap<Node, Vec<Node>> = std::collections::HashMap::new();
        // What has an effect waits for all before it that has one.
        let mut effect: Option<Node> = None;
        for &id in order {
            let me = node(id);
            pending.entry(me).or_insert(0);
            let inst = self.inst(id);
            if self.a.effects[id] {
                if let Some(before) = effect {
                    *pending.entry(me).or_insert(0) += 1;
                    after.entry(before).or_default().push(me);
                }
                effect = Some(me);
            }
            let control = inst.attrs.instructions(AttrKey::ControlPredecessors).unwrap_or(&[]);
            for &o in inst.operands.iter().chain(control) {
                let other = node(o);
                if other != me {
                    *pending.entry(me).or_insert(0) += 1;
                    after.entry(other).or_default().push(me);
                }
            }
        }
        let first = |n: &Node| match n {
            Node::Single(id) => self.position[*id],
            Node::Group(g) => self.groups[*g as usize].members.iter().map(|&m| self.position[m]).max().unwrap_or(0),
        };
        let mut ready: std::collections::BTreeSet<(u32, Node)> =
            pending.iter().filter(|(_, c)| **c == 0).map(|(n, _)| (first(n), *n)).collect();
        let mut out = Vec::with_capacity(pending.len());
        while let Some((_, n)) = ready.pop_first() {
            out.push(n);
            for next in after.remove(&n).unwrap_or_default() {
                if let Some(count) = pending.get_mut(&next) {
                    *count -= 1;
                    if *count == 0 {
                        ready.insert((first(&next), next));
                    }
                }
            }
        }
        (out.len() == pending.len()).then_some(out)
    }

    /// The steps of the computation.
    pub(super) fn finish(mut self) -> Result<Vec<Step>> {
        let order = self.order().ok_or_else(|| Error::Internal("fusion closed a cycle".into()))?;
        for index in 0..self.groups.len() {
            self.groups[index].outputs = self.outputs(index as u32);
        }
        let mut steps = Vec::new();
        for node in order {
            match node {
                Node::Group(g) => {
                    let group = self.groups[g as usize].clone();
                    let effects = group.members.iter().any(|&m| self.a.effects[m]);
                    if effects || !group.outputs.is_empty() {
                        steps.push(Step::Group(group));
                    }
                }
                Node::Single(id) if self.a.class[id] == Some(Class::Control) => steps.push(Step::Control(id)),
                Node::Single(_) => {}
            }
        }
        Ok(steps)
    }

    /// The leaves that somebody outside the group needs, under the names of the instructions that compute them.
    fn outputs(&self, index: u32) -> Vec<(InstructionId, usize)> {
        let mut out = Vec::new();
        let call = matches!(self.groups[index as usize].kind, GroupKind::Call(_));
        for &m in &self.groups[index as usize].members {
            // A call writes all its results, wanted or not.
            let wanted = call || self.a.escapes[m] || self.a.users[m].iter().any(|&u| self.group_of[u] != Some(index));
            if !wanted {
                continue;
            }
            for leaf in 0..self.inst(m).shape.leaf_count() {
                let leaf = resolve(self.a.computation, (m, leaf));
                if !out.contains(&leaf) {
                    out.push(leaf);
                }
            }
        }
        out
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Node {
    Single(InstructionId),
    Group(u32),
}

/// Whether an index into a reshape's result is divided to make one into its operand: some run of dimensions that holds as
/// many elements on both sides has more than one dimension on the operand's.
fn takes_apart(reshape: &Instruction, operand: &Instruction) -> bool {
    let (Some(to), Some(from)) = (array(reshape), array(operand)) else { return false };
    let mut to = to.dims.iter().copied().filter(|&d| d != 1);
    let mut from = from.dims.iter().copied().filter(|&d| d != 1);
    while let (Some(mut a), Some(b)) = (to.next(), from.next()) {
        while a < b {
            match to.next() {
                Some(d) => a = a.saturating_mul(d),
                None => return false,
            }
        }
        if a > b {
            return true;
        }
    }
    false
}

/// Broadcast of a whole array along dimensions behind its own.
fn is_prefix_broadcast(inst: &Instruction) -> bool {
    let map = inst.attrs.ints_or_empty(AttrKey::Dimensions);
    let Some(out) = array(inst) else { return false };
    // Dimensions of size 1 may stand anywhere.
    let mut next = 0;
    for &d in map {
        let d = d.max(0) as usize;
        if (next..d).any(|skipped| out.dims.get(skipped).is_some_and(|&s| s != 1)) {
            return false;
        }
        next = d + 1;
    }
    true
}

fn is_identity_broadcast(inst: &Instruction) -> bool {
    let map = inst.attrs.ints_or_empty(AttrKey::Dimensions);
    map.windows(2).all(|w| w[0] < w[1])
}

fn is_aligned_elementwise(inst: &Instruction, operand: &Instruction) -> bool {
    let moves = matches!(
        inst.opcode,
        Opcode::Broadcast
            | Opcode::DynamicSlice
            | Opcode::Gather
            | Opcode::Iota
            | Opcode::Reverse
            | Opcode::Slice
            | Opcode::Transpose
    );
    !moves && elements(inst) == elements(operand)
}
