//! The order of groups, kept while they grow.
//!
//! **Problem.** Instructions that become one group must not wait for one another by way of something outside it. To sort
//! the whole graph for each group that is tried would take time that grows with the square of the program.
//!
//! **Invariant.** Every node, a group or an instruction of none, has a rank, no two the same; what a node needs has a lower
//! one. So whatever lies on a way from one member of a new group back to another has a rank between theirs.
//!
//! **Algorithm.** As Pearce and Kelly keep a topological order while edges come: a new group searches forwards from its
//! members as far as the highest of their ranks. If it finds a member again it is refused. Otherwise a search backwards, as
//! far as the lowest, finds what must stay before the group; what the two searches found is dealt the ranks they had
//! between them anew: first what the group needs, then the group, then what needs it.

use super::plan::Analysis;
use crate::hlo::{AttrKey, InstructionId};
use cranelift_entity::SecondaryMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What is put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// An instruction of no group.
    Single(InstructionId),
    /// A group, by number.
    Group(u32),
}

/// Which instructions wait for which, and the rank of each node.
pub(super) struct Order<'a> {
    a: &'a Analysis<'a>,
    /// The place of each instruction in the text.
    pub position: SecondaryMap<InstructionId, u32>,
    /// What waits for an instruction without reading it.
    control: SecondaryMap<InstructionId, Vec<InstructionId>>,
    /// The next instruction, and the one before, that has an effect: they stay in the order of the text.
    next_effect: SecondaryMap<InstructionId, Option<InstructionId>>,
    last_effect: SecondaryMap<InstructionId, Option<InstructionId>>,
    group_of: SecondaryMap<InstructionId, Option<u32>>,
    groups: Vec<Members>,
    /// Of instructions of no group.
    rank: SecondaryMap<InstructionId, u32>,
    /// The search that last came by, told by the node's first instruction.
    seen: SecondaryMap<InstructionId, u32>,
    searches: u32,
    /// Edges that searches have followed.
    work: u64,
}

struct Members {
    list: Vec<InstructionId>,
    rank: u32,
}

/// Which way a search goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// To what waits.
    Forwards,
    /// To what is waited for.
    Backwards,
}

impl<'a> Order<'a> {
    /// Every instruction for itself; `None` where they wait for one another.
    pub fn new(a: &'a Analysis<'a>) -> Option<Self> {
        let order = &a.computation.order;
        let mut this = Order {
            a,
            position: SecondaryMap::new(),
            control: SecondaryMap::new(),
            next_effect: SecondaryMap::new(),
            last_effect: SecondaryMap::new(),
            group_of: SecondaryMap::new(),
            groups: Vec::new(),
            rank: SecondaryMap::new(),
            seen: SecondaryMap::new(),
            searches: 0,
            work: 0,
        };
        let mut effect: Option<InstructionId> = None;
        for (i, &id) in order.iter().enumerate() {
            this.position[id] = i as u32;
            for &before in
                a.computation.instructions[id].attrs.instructions(AttrKey::ControlPredecessors).unwrap_or(&[])
            {
                this.control[before].push(id);
            }
            if a.effects[id] {
                if let Some(before) = effect {
                    this.next_effect[before] = Some(id);
                    this.last_effect[id] = Some(before);
                }
                effect = Some(id);
            }
        }
        let first = this.sorted()?;
        for (rank, node) in first.into_iter().enumerate() {
            if let Node::Single(id) = node {
                this.rank[id] = rank as u32;
            }
        }
        Some(this)
    }

    /// The group of an instruction.
    pub fn group_of(&self, id: InstructionId) -> Option<u32> {
        self.group_of[id]
    }

    fn node(&self, id: InstructionId) -> Node {
        self.group_of[id].map_or(Node::Single(id), Node::Group)
    }

    fn rank(&self, node: Node) -> u32 {
        match node {
            Node::Single(id) => self.rank[id],
            Node::Group(g) => self.groups[g as usize].rank,
        }
    }

    /// The instruction that stands for a node among those seen.
    fn name(&self, node: Node) -> InstructionId {
        self.list(&node)[0]
    }

    /// The instructions of a node.
    fn list<'n>(&'n self, node: &'n Node) -> &'n [InstructionId] {
        match node {
            Node::Single(id) => std::slice::from_ref(id),
            Node::Group(g) => &self.groups[*g as usize].list,
        }
    }

    /// Calls `visit` with every instruction that waits for this one, or that it waits for, and whether it is for the order
    /// of effects.
    fn neighbours(&self, id: InstructionId, way: Way, visit: &mut dyn FnMut(InstructionId, bool)) {
        let inst = &self.a.computation.instructions[id];
        let (data, control, effect): (&[_], &[_], _) = match way {
            Way::Forwards => (&self.a.users[id], &self.control[id], self.next_effect[id]),
            Way::Backwards => {
                let control = inst.attrs.instructions(AttrKey::ControlPredecessors).unwrap_or(&[]);
                (&inst.operands, control, self.last_effect[id])
            }
        };
        data.iter().chain(control).for_each(|&other| visit(other, false));
        effect.into_iter().for_each(|other| visit(other, true));
    }

    /// Makes instructions of no group one, unless they would wait for one another by way of others: then only the first
    /// is in the group. Whether all are.
    pub fn add(&mut self, members: &[InstructionId]) -> bool {
        let index = self.groups.len() as u32;
        let Some(&first) = members.first() else { return true };
        let rank = match members {
            [_] => Some(self.rank[first]),
            _ => self.merge(&members.iter().map(|&m| Node::Single(m)).collect::<Vec<_>>(), u64::MAX),
        };
        let list = if rank.is_some() { members.to_vec() } else { vec![first] };
        list.iter().for_each(|&m| self.group_of[m] = Some(index));
        self.groups.push(Members { list, rank: rank.unwrap_or(self.rank[first]) });
        rank.is_some()
    }

    /// Adds the members of the second group to the first, and what lies `between` them and is in no group, unless they would wait for
    /// one another by way of others, or that takes more than `most` edges to find out: then nothing changes. Whether they are one.
    pub fn join(&mut self, (first, second): (u32, u32), between: &[InstructionId], most: u64) -> bool {
        let groups = [first, second].map(Node::Group).into_iter();
        let nodes: Vec<Node> = groups.chain(between.iter().map(|&id| Node::Single(id))).collect();
        let Some(rank) = self.merge(&nodes, most) else { return false };
        let mut moved = std::mem::take(&mut self.groups[second as usize].list);
        moved.extend(between);
        moved.iter().for_each(|&m| self.group_of[m] = Some(first));
        let group = &mut self.groups[first as usize];
        group.list.extend(moved);
        group.rank = rank;
        true
    }

    /// Makes room for one node instead of several; its rank, `None` where they wait for one another, or a search takes more than `most`
    /// edges.
    fn merge(&mut self, nodes: &[Node], most: u64) -> Option<u32> {
        let mut ranks: Vec<u32> = nodes.iter().map(|&node| self.rank(node)).collect();
        let (low, high) = (ranks.iter().copied().min()?, ranks.iter().copied().max()?);
        self.searches += 1;
        let own = self.searches;
        let mut members = Vec::new();
        for node in nodes {
            members.extend_from_slice(self.list(node));
            let name = self.name(*node);
            self.seen[name] = own;
        }
        let mut after = self.search(&members, Way::Forwards, (own, most), |rank| rank < high)?;
        let mut before = self.search(&members, Way::Backwards, (own, most), |rank| rank > low)?;
        for found in [&mut before, &mut after] {
            found.sort_unstable_by_key(|&node| self.rank(node));
            ranks.extend(found.iter().map(|&node| self.rank(node)));
        }
        ranks.sort_unstable();
        for (&node, &rank) in before.iter().zip(&ranks) {
            self.put(node, rank);
        }
        for (&node, &rank) in after.iter().rev().zip(ranks.iter().rev()) {
            self.put(node, rank);
        }
        ranks.get(before.len()).copied()
    }

    fn put(&mut self, node: Node, rank: u32) {
        match node {
            Node::Single(id) => self.rank[id] = rank,
            Node::Group(g) => self.groups[g as usize].rank = rank,
        }
    }

    /// The nodes outside that `members`, whose nodes are marked as seen by `own`, lead to over ranks within bounds; `None` where these
    /// lead back to a member, or there are more than `most` edges.
    fn search(
        &mut self,
        members: &[InstructionId],
        way: Way,
        (own, most): (u32, u64),
        within: impl Fn(u32) -> bool,
    ) -> Option<Vec<Node>> {
        self.searches += 1;
        let search = self.searches;
        let mut found: Vec<Node> = Vec::new();
        let mut next: Vec<InstructionId> = Vec::new();
        let mut closed = false;
        let mut done = 0;
        let limit = self.work.saturating_add(most);
        let mut look = |this: &mut Self, id: InstructionId, inside: bool, found: &mut Vec<Node>| {
            this.neighbours(id, way, &mut |other, effect| {
                closed |= inside && effect && this.seen[other] == own;
                next.push(other);
            });
            this.work += next.len() as u64;
            closed |= this.work > limit;
            for other in next.drain(..) {
                let node = this.node(other);
                let name = this.name(node);
                if this.seen[name] == own {
                    closed |= !inside;
                } else if this.seen[name] != search && within(this.rank(node)) {
                    this.seen[name] = search;
                    found.push(node);
                }
            }
            !closed
        };
        for &m in members {
            if !look(self, m, true, &mut found) {
                return None;
            }
        }
        while let Some(node) = found.get(done) {
            done += 1;
            for id in self.list(node).to_vec() {
                if !look(self, id, false, &mut found) {
                    return None;
                }
            }
        }
        Some(found)
    }

    /// All nodes, everything after what it needs, and first what stands first in the text; `None` where nodes wait for one
    /// another.
    pub fn sorted(&self) -> Option<Vec<Node>> {
        let order = &self.a.computation.order;
        let place = |node: Node| self.list(&node).iter().map(|&m| self.position[m]).max();
        // What each node still waits for, told by its first instruction.
        let mut pending: SecondaryMap<InstructionId, u32> = SecondaryMap::with_capacity(order.len());
        let mut nodes = 0;
        let mut ready = BinaryHeap::new();
        let named = |id: InstructionId| self.name(self.node(id));
        let outside =
            |id: InstructionId, other: InstructionId, effect: bool| effect || self.node(id) != self.node(other);
        for &id in order {
            let name = named(id);
            nodes += usize::from(name == id);
            self.neighbours(id, Way::Backwards, &mut |other, effect| {
                pending[name] += u32::from(outside(id, other, effect))
            });
        }
        for &id in order {
            if named(id) == id && pending[id] == 0 {
                ready.push(Reverse((place(self.node(id)), id)));
            }
        }
        let mut out = Vec::with_capacity(nodes);
        while let Some(Reverse((_, name))) = ready.pop() {
            let node = self.node(name);
            out.push(node);
            for &id in self.list(&node) {
                self.neighbours(id, Way::Forwards, &mut |other, effect| {
                    if outside(id, other, effect) {
                        let waits = named(other);
                        pending[waits] -= 1;
                        if pending[waits] == 0 {
                            ready.push(Reverse((place(self.node(waits)), waits)));
                        }
                    }
                });
            }
        }
        (out.len() == nodes).then_some(out)
    }

    /// Edges that searches have followed so far.
    pub fn work(&self) -> u64 {
        self.work
    }
}
