//! Growing groups.

use super::order::{Node, Order};
use super::plan::{
    Analysis, Class, ComputationPlan, Group, GroupKind, INLINE_LIMIT, Step, is_call, moves, own_cost, reduced_dims,
    written,
};
use crate::error::{Error, Result};
use crate::hlo::{AttrKey, ComputationId, Instruction, InstructionId, Leaf, Module, Opcode, resolve};
use brolga_runtime::ArrayShape;
use cranelift_entity::SecondaryMap;
use hashbrown::HashSet;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Plans one computation of an optimised module (calls inlined, layouts normalised).
///
/// # Errors
/// [`Error::Unsupported`] names the first instruction that compiled code has no form for.
pub fn plan(module: &Module, id: ComputationId) -> Result<ComputationPlan> {
    let computation = &module.computations[id];
    let analysis = Analysis::new(module, computation)?;
    let mut grower = Grower::new(&analysis)?;
    for &inst in &computation.order {
        grower.visit(inst)?;
    }
    grower.finish()
}

/// A group takes no more members than this: code size and register pressure grow with it.
pub(super) const MAX_MEMBERS: usize = 256;
/// Values whose inlined cost is at most this are computed again for each user.
const CHEAP: u32 = 2;
/// What costs more than this is not computed one element after another with a running fold.
const SERIAL: u32 = 8;
/// A group's rows are at most this long where there is only one row: longer ones are better split over threads.
const MAX_SINGLE_ROW: i64 = 1 << 16;
/// Columns are at most this long where the kernel that folds them goes on over their elements: a strip of a page's width of longer
/// ones would not stay in the cache.
const MAX_COLUMN: i64 = 512;
/// Columns that are no more elements than this together may be longer: they stay there whole.
const MAX_COLUMNS_WHOLE: i64 = 1 << 17;
/// So many columns, side by side, are worth a kernel that goes on over their elements.
const LEAST_COLUMNS: i64 = 8;

/// Uses of a value that are followed to see whether they meet.
const MAX_WAYS: usize = 16;
/// A concatenation of more parts than this is computed before what follows from it, whose code each part would repeat.
const MAX_PARTS: usize = 8;
/// As many operations are computed of each part at most.
const MAX_PART_EPILOGUE: usize = 16;

/// Reshapes on one way through inlined operations that each take an index apart: the index map that comes out at the other
/// end may double with each of them.
const MAX_SPLITS: u32 = 4;

/// How an instruction follows from the members of a growing group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Follows {
    #[default]
    Clean,
    Full,
    Row,
    Tainted,
}

/// What reductions of neighbouring dimensions fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Folds {
    /// Rows: the last dimensions.
    Rows,
    /// Columns: there are dimensions behind those that are folded.
    Columns,
}

/// Which of a group's dimensions its reductions fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    /// The first one.
    pub(super) first: usize,
    /// Behind the last one.
    pub(super) end: usize,
}

/// How many elements of each kind dimensions have that are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extents {
    outer: i64,
    pub(super) folded: i64,
    columns: i64,
}

impl Split {
    pub(super) fn extents(self, dims: &[i64]) -> Extents {
        let of = |dims: &[i64]| dims.iter().product();
        let Split { first, end } = self;
        Extents { outer: of(&dims[..first]), folded: of(&dims[first..end]), columns: of(&dims[end..]) }
    }
}

/// The elements that the members of a group go by.
pub(super) struct Domain {
    pub(super) dims: Vec<i64>,
    /// What reductions among them fold.
    pub(super) split: Option<Split>,
}

/// What has grown from a seed.
struct Grown {
    domain: Domain,
    members: Vec<InstructionId>,
    /// Whether some member computes all elements.
    full: bool,
}

pub(super) struct Grower<'a> {
    pub(super) a: &'a Analysis<'a>,
    pub(super) order: Order<'a>,
    pub(super) groups: Vec<Group>,
    /// Inlined cost and size of each instruction that has no group.
    cost: SecondaryMap<InstructionId, (u32, u32)>,
    /// The most reshapes that take an index apart on a way from each instruction to what is in memory.
    splits: SecondaryMap<InstructionId, u32>,
    /// How each instruction follows from the members of the group that has grown as that number.
    follows: SecondaryMap<InstructionId, (u32, Follows)>,
    /// Groups that have grown, those that were given up among them.
    attempts: u32,
    /// Instructions that growing groups have looked at.
    pub(super) work: u64,
}

fn closed() -> Error {
    Error::Internal("fusion closed a cycle".into())
}

fn array(inst: &Instruction) -> Option<&ArrayShape> {
    inst.shape.as_array()
}

/// Elements of an array; of a tuple -1.
pub(super) fn elements(inst: &Instruction) -> i64 {
    array(inst).map_or(-1, |s| s.elements() as i64)
}

impl<'a> Grower<'a> {
    pub(super) fn new(a: &'a Analysis<'a>) -> Result<Self> {
        let order = Order::new(a).ok_or_else(closed)?;
        let (cost, splits, follows) = (SecondaryMap::new(), SecondaryMap::new(), SecondaryMap::new());
        Ok(Grower { a, order, groups: Vec::new(), cost, splits, follows, attempts: 0, work: 0 })
    }

    pub(super) fn inst(&self, id: InstructionId) -> &'a Instruction {
        &self.a.computation.instructions[id]
    }

    /// Decides about one instruction; its operands have been visited.
    pub(super) fn visit(&mut self, id: InstructionId) -> Result<()> {
        if self.order.group_of(id).is_some() {
            return Ok(());
        }
        match self.a.class[id] {
            Some(Class::Anchor) => self.anchor(id)?,
            Some(Class::Reduce) => match self.split(id) {
                Some((split, Folds::Rows)) => self.rows(id, Some(split)),
                Some((split, Folds::Columns)) => self.columns(id, split)?,
                None => self.anchor(id)?,
            },
            Some(Class::Inline) => {
                let (cost, size) = self.inlined_cost(id);
                self.cost[id] = (cost, size);
                self.splits[id] = self.inlined_splits(id);
                if self.must_store(id, cost, size) || self.splits[id] >= MAX_SPLITS {
                    match self.inst(id).opcode {
                        Opcode::Concatenate => self.anchor(id)?,
                        _ => self.rows(id, None),
                    }
                }
            }
            Some(Class::Structural | Class::Control) | None => {}
        }
        Ok(())
    }

    /// Whether what needs the elements of an instruction computes them itself.
    pub(super) fn is_inlined(&self, id: InstructionId) -> bool {
        self.a.class[id] == Some(Class::Inline) && self.order.group_of(id).is_none()
    }

    /// What an instruction costs, and how many it is, with those that are inlined into it.
    pub(super) fn inlined_cost(&self, id: InstructionId) -> (u32, u32) {
        let inst = self.inst(id);
        let mut total = (own_cost(inst), 1);
        for &o in inst.operands.iter().filter(|&&o| self.is_inlined(o)) {
            total = (total.0.saturating_add(self.cost[o].0), total.1 + self.cost[o].1);
        }
        total
    }

    fn inlined_splits(&self, id: InstructionId) -> u32 {
        let inst = self.inst(id);
        let inlined = inst.operands.iter().filter(|&&o| self.is_inlined(o));
        let below = inlined.map(|&o| self.splits[o]).max().unwrap_or(0);
        let splits = match inst.operands.first() {
            Some(&o) if inst.opcode == Opcode::Reshape => takes_apart(inst, self.inst(o)),
            _ => false,
        };
        below + u32::from(splits)
    }

    fn must_store(&self, id: InstructionId, cost: u32, size: u32) -> bool {
        if self.a.escapes[id] || self.a.materialized[id] || size > INLINE_LIMIT || self.changes_width(id) {
            return true;
        }
        let users = &self.a.users[id];
        if users.len() > 1 && cost > CHEAP && !self.meets_in_one_loop(id) {
            return true;
        }
        if cost > CHEAP && users.iter().any(|&u| self.a.epoch[u] != self.a.epoch[id]) {
            return true;
        }
        if cost > SERIAL && users.iter().any(|&u| self.a.serial[u]) {
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

    /// Whether all that is computed of a value is in one group, which goes by its elements once, or will be inlined there: then nothing
    /// computes it twice, and a store would only be read back. Such a value comes behind the group's seed in the text.
    fn meets_in_one_loop(&self, id: InstructionId) -> bool {
        let (mut found, mut steps, mut ways) = (None, 0, vec![id]);
        while let Some(of) = ways.pop() {
            let users = &self.a.users[of];
            steps += users.len();
            if users.is_empty() || steps > MAX_WAYS || self.a.escapes[of] || self.a.materialized[of] {
                return false;
            }
            for &user in users {
                let inst = self.inst(user);
                if !is_aligned_elementwise(inst, self.inst(of)) || self.a.epoch[user] != self.a.epoch[id] {
                    return false;
                }
                match self.order.group_of(user) {
                    Some(group) if found.is_none_or(|other| other == group) => found = Some(group),
                    None if self.a.class[user] == Some(Class::Inline) => ways.push(user),
                    Some(_) | None => return false,
                }
            }
        }
        let folds = |&m: &InstructionId| self.a.class[m] != Some(Class::Inline);
        found
            .and_then(|group| self.groups.get(group as usize))
            .is_some_and(|group| matches!(group.kind, GroupKind::Rows { .. }) && !group.members.iter().any(folds))
    }

    /// Whether an element of the result is several of the operand, or the other way round: in a chain of such, inlined,
    /// the elements that one needs would multiply.
    fn changes_width(&self, id: InstructionId) -> bool {
        let inst = self.inst(id);
        inst.opcode == Opcode::BitcastConvert
            && inst.operands.first().is_some_and(|&o| elements(self.inst(o)) != elements(inst))
    }

    /// Where a reduction folds neighbouring dimensions of its operands: which, and whether that makes it one of rows or one of
    /// columns.
    fn split(&self, id: InstructionId) -> Option<(Split, Folds)> {
        let inst = self.inst(id);
        let operand = array(self.inst(*inst.operands.first()?))?;
        let reduced = reduced_dims(inst);
        let big = |d: usize| operand.dims[d] != 1;
        let first = reduced.iter().copied().find(|&d| big(d))?;
        let last = reduced.iter().copied().rfind(|&d| big(d))?;
        if !(first..=last).all(|d| reduced.contains(&d) || !big(d)) {
            return None;
        }
        let split = Split { first, end: last + 1 };
        let n = split.extents(&operand.dims);
        if n.columns == 1 {
            let rows = n.folded >= 2 && (n.outer >= 2 || n.folded <= MAX_SINGLE_ROW);
            return rows.then_some((Split { end: operand.rank(), ..split }, Folds::Rows));
        }
        let stays = n.folded <= MAX_COLUMN || n.folded.saturating_mul(n.columns) <= MAX_COLUMNS_WHOLE;
        let columns = n.folded >= 2 && n.columns >= LEAST_COLUMNS && n.outer >= 1 && stays;
        columns.then_some((split, Folds::Columns))
    }

    fn new_group(&mut self, kind: GroupKind, mut members: Vec<InstructionId>) {
        if !self.order.add(&members) {
            members.truncate(1);
        }
        self.groups.push(Group { kind, members, outputs: Vec::new() });
    }

    /// A reduction, contraction, concatenation or padding, with the elementwise operations behind it where it has
    /// one user at each step.
    fn anchor(&mut self, id: InstructionId) -> Result<()> {
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
            Opcode::Pad => GroupKind::Pad(id),
            op => return Err(Error::Internal(format!("fusion: '{op}' makes no kernel of its own"))),
        };
        let mut members = vec![id];
        let folds = matches!(
            kind,
            GroupKind::Reduce(_) | GroupKind::Dot(_) | GroupKind::ReduceWindow(_) | GroupKind::Convolution(_)
        );
        if folds && array(inst).is_some() {
            let (mut last, mut cost) = (id, 0);
            while let Some(next) = self.epilogue_after(last) {
                cost += own_cost(self.inst(next));
                if self.a.serial[id] && cost > SERIAL {
                    break;
                }
                members.push(next);
                last = next;
                if members.len() >= MAX_MEMBERS {
                    break;
                }
            }
            let dims = array(inst).map_or(&[][..], |s| &s.dims);
            members.extend(self.padding_of(last, dims));
        } else if !folds && self.moves_by_parts(inst) {
            members.extend(self.stored_epilogue(id));
        }
        self.new_group(kind, members);
        Ok(())
    }

    /// The padding, of one value, that alone reads `last`, which has the elements of `dims` in their order: the group stores into the
    /// padded array and fills what is around.
    fn padding_of(&self, last: InstructionId, dims: &[i64]) -> Option<InstructionId> {
        let (&pad, others) = self.a.users[last].split_first()?;
        let inst = self.inst(pad);
        let big = |dims: &[i64]| dims.iter().copied().filter(|&d| d != 1).collect::<Vec<_>>();
        let same = array(self.inst(last)).is_some_and(|s| big(&s.dims) == big(dims));
        let constant = |id: InstructionId| self.inst(id).opcode == Opcode::Constant;
        let edges = || inst.attrs.padding(AttrKey::Padding).unwrap_or(&[]).iter();
        (inst.opcode == Opcode::Pad
            && others.is_empty()
            && same
            && elements(self.inst(last)) > 0
            && !self.a.escapes[last]
            && !self.a.materialized[last]
            && self.order.group_of(pad).is_none()
            && self.a.epoch[pad] == self.a.epoch[last]
            && inst.operands.first() == Some(&last)
            && inst.operands.get(1).is_some_and(|&o| constant(o))
            && edges().all(|e| e.low >= 0 && e.high >= 0 && e.interior == 0))
        .then_some(pad)
    }

    /// The paddings of a group's members; `vector` are the dimensions that its vector axis runs over.
    fn paddings(&self, members: &[InstructionId], dims: &[i64], split: Split, vector: &[i64]) -> Vec<InstructionId> {
        let total: i64 = dims.iter().product();
        let kept = [&dims[..split.first], &dims[split.end..]].concat();
        let padded = |&m: &InstructionId| {
            let row = elements(self.inst(m)) != total || self.a.class[m] == Some(Class::Reduce);
            let (within, along) = if row { (&kept[..], &dims[split.end..]) } else { (dims, vector) };
            // What lies across several dimensions of a padded row would be stored element by element.
            let one_row = along.iter().filter(|&&d| d != 1).count() <= 1;
            one_row.then(|| self.padding_of(m, within)).flatten()
        };
        members.iter().filter_map(padded).collect()
    }

    /// Whether what is computed of a concatenation or padding can be computed of each of its parts.
    fn moves_by_parts(&self, inst: &Instruction) -> bool {
        match inst.opcode {
            Opcode::Concatenate => inst.operands.len() <= MAX_PARTS,
            // Gaps are filled with everything else, before what is between them.
            Opcode::Pad => inst.attrs.padding(AttrKey::Padding).unwrap_or(&[]).iter().all(|e| e.interior == 0),
            _ => false,
        }
    }

    /// The elementwise operations behind a concatenation or padding as far as one that is stored anyway: nothing, where none is.
    fn stored_epilogue(&self, id: InstructionId) -> Vec<InstructionId> {
        let (mut members, mut stored, mut last) = (Vec::new(), 0, id);
        while members.len() < MAX_PART_EPILOGUE
            && let Some(next) = self.epilogue_after(last)
            && array(self.inst(next)).zip(array(self.inst(id))).is_some_and(|(a, b)| a.same_dims(b))
        {
            members.push(next);
            last = next;
            if self.a.escapes[next] || self.a.materialized[next] || self.a.users[next].len() > 1 {
                stored = members.len();
            }
        }
        members.truncate(stored);
        members
    }

    /// The only user of `last`, where it is elementwise on the same elements.
    fn epilogue_after(&self, last: InstructionId) -> Option<InstructionId> {
        if self.a.escapes[last] || self.a.materialized[last] {
            return None;
        }
        let users = &self.a.users[last];
        let next = *users.first()?;
        let aligned = users.iter().all(|&u| u == next)
            && self.is_inlined(next)
            && self.a.epoch[next] == self.a.epoch[last]
            && is_aligned_elementwise(self.inst(next), self.inst(last));
        aligned.then_some(next)
    }

    /// A group of full values and, once some reduction has split them into rows, row values.
    fn rows(&mut self, seed: InstructionId, split: Option<Split>) {
        let Some(Grown { domain: Domain { dims, split }, mut members, .. }) = self.grown(seed, split) else { return };
        // Without a reduction the rows are the last dimension; loops are merged later.
        let split = split.map_or(dims.len().saturating_sub(1), |s| s.first);
        let rows = Split { first: split, end: dims.len() };
        members.extend(self.paddings(&members, &dims, rows, &dims[split..]));
        self.new_group(GroupKind::Rows { dims, split }, members);
    }

    /// A group of a reduction of columns and what goes on over all their elements; where nothing does, a reduction that may be
    /// folded in parts.
    fn columns(&mut self, seed: InstructionId, split: Split) -> Result<()> {
        match self.grown(seed, Some(split)) {
            Some(Grown { domain: Domain { dims, split: Some(split) }, mut members, full: true }) => {
                let Split { first, end } = split;
                members.extend(self.paddings(&members, &dims, split, &dims[end..]));
                self.new_group(GroupKind::Columns { dims, split: first, end }, members);
                if let Some(group) = self.groups.last_mut().filter(|g| g.members.len() == 1) {
                    group.kind = GroupKind::Reduce(seed);
                }
                Ok(())
            }
            _ => self.anchor(seed),
        }
    }

    /// What joins a seed: a reduction with its `split`, or a value of all elements.
    fn grown(&mut self, seed: InstructionId, split: Option<Split>) -> Option<Grown> {
        let over = match split {
            Some(_) => self.inst(self.inst(seed).operands[0]),
            None => self.inst(seed),
        };
        let shape = array(over)?;
        let total = shape.elements() as i64;
        let domain = Domain { dims: shape.dims.clone(), split };
        let mut grown = Grown { domain, members: vec![seed], full: split.is_none() };
        // One that was given up has no number of its own.
        self.attempts += 1;
        let mut front = Front::new(self.attempts);
        let state = if split.is_some() { Follows::Row } else { Follows::Full };
        front.follow(self, seed, state);
        let mut states: Vec<Follows> = Vec::new();
        while grown.members.len() < MAX_MEMBERS
            && let Some(id) = front.next(self)
        {
            let inst = self.inst(id);
            if !self.may_join(id) || self.a.epoch[id] != self.a.epoch[seed] {
                front.follow(self, id, Follows::Tainted);
                continue;
            }
            states.clear();
            states.extend(inst.operands.iter().map(|&o| front.state(self, o)));
            if states.contains(&Follows::Tainted) {
                front.follow(self, id, Follows::Tainted);
                continue;
            }
            let state = self.state(id, &states, total, &mut grown.domain);
            front.follow(self, id, state);
            if state == Follows::Full || state == Follows::Row {
                grown.members.push(id);
                grown.full |= state == Follows::Full;
            }
        }
        Some(grown)
    }

    /// How an instruction follows from operands in these states.
    pub(super) fn state(&self, id: InstructionId, states: &[Follows], total: i64, domain: &mut Domain) -> Follows {
        let inst = self.inst(id);
        match self.a.class[id] {
            Some(Class::Structural) if inst.opcode == Opcode::GetTupleElement => states[0],
            Some(Class::Inline) => self.follow_inline(inst, states, total, domain),
            Some(Class::Reduce) => self.follow_reduce(id, states, total, domain),
            _ => Follows::Tainted,
        }
    }

    /// How a reduction follows from operands in these states: the first one, of rows, splits a group of full values.
    fn follow_reduce(&self, id: InstructionId, states: &[Follows], total: i64, domain: &mut Domain) -> Follows {
        let inst = self.inst(id);
        let (operands, inits) = states.split_at(inst.operands.len() / 2);
        let full = |(&o, &s): (&InstructionId, &Follows)| {
            s == Follows::Full || (s == Follows::Clean && elements(self.inst(o)) == total)
        };
        let all_full = inst.operands.iter().zip(operands).all(full) && inits.iter().all(|&s| s == Follows::Clean);
        let operand = inst.operands.first().and_then(|&o| array(self.inst(o)));
        let (Some((new, folds)), Some(operand), true) = (self.split(id), operand, all_full) else {
            return Follows::Tainted;
        };
        match domain.split {
            Some(split) if split.extents(&domain.dims) == new.extents(&operand.dims) => Follows::Row,
            None if folds == Folds::Rows => {
                domain.split = Some(new);
                domain.dims.clone_from(&operand.dims);
                Follows::Row
            }
            _ => Follows::Tainted,
        }
    }

    fn follow_inline(&self, inst: &Instruction, states: &[Follows], total: i64, domain: &Domain) -> Follows {
        let n = elements(inst);
        let rows = domain.split.map(|s| s.extents(&domain.dims)).map(|n| n.outer * n.columns);
        match inst.opcode {
            Opcode::Reshape | Opcode::Copy | Opcode::BitcastConvert if n == elements(self.inst(inst.operands[0])) => {
                states[0]
            }
            Opcode::Broadcast => {
                let same = n == elements(self.inst(inst.operands[0])) && is_identity_broadcast(inst);
                match states[0] {
                    // The value of a row, seen from every element of it.
                    Follows::Row if n == total && self.repeats_rows(inst, domain) => Follows::Full,
                    Follows::Row if Some(n) == rows && same => Follows::Row,
                    Follows::Full if n == total && same => Follows::Full,
                    _ => Follows::Tainted,
                }
            }
            Opcode::Iota | Opcode::Reshape | Opcode::Copy => Follows::Tainted,
            op if moves(op) => Follows::Tainted,
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

    /// Whether a broadcast gives every element of a row or column that is folded its value: what it repeats is what is folded, and
    /// the dimensions around it are those of the group, in their order. Dimensions of size 1 may stand anywhere.
    fn repeats_rows(&self, broadcast: &Instruction, domain: &Domain) -> bool {
        let map = broadcast.attrs.ints_or_empty(AttrKey::Dimensions);
        let operand = broadcast.operands.first().and_then(|&o| array(self.inst(o)));
        let (Some(split), Some(out), Some(operand)) = (domain.split, array(broadcast), operand) else { return false };
        let kept: Vec<usize> =
            map.iter().zip(&operand.dims).filter(|(_, d)| **d != 1).map(|(&d, _)| d.max(0) as usize).collect();
        let big = |dims: &[i64]| dims.iter().copied().filter(|&d| d != 1).collect::<Vec<_>>();
        let (outer, columns) = (big(&domain.dims[..split.first]), big(&domain.dims[split.end..]));
        let (before, behind) = kept.split_at(outer.len().min(kept.len()));
        let of = |kept: &[usize]| kept.iter().filter_map(|&d| out.dims.get(d).copied()).collect::<Vec<_>>();
        let from = before.last().map_or(0, |&d| d + 1);
        let to = behind.first().copied().unwrap_or(out.rank());
        // What is repeated lies between the two and nowhere else.
        let repeated = (0..out.rank()).filter(|d| out.dims[*d] != 1 && !kept.contains(d));
        kept.is_sorted_by(|a, b| a < b)
            && of(before) == outer
            && of(behind) == columns
            && repeated.clone().all(|d| (from..to).contains(&d))
            && repeated.map(|d| out.dims[d]).product::<i64>() == split.extents(&domain.dims).folded
    }

    /// Whether an instruction may become a member of a group that grows over it.
    fn may_join(&self, id: InstructionId) -> bool {
        let class = match self.a.class[id] {
            Some(Class::Inline | Class::Reduce) => true,
            Some(Class::Structural) => self.inst(id).opcode == Opcode::GetTupleElement,
            _ => false,
        };
        class && self.order.group_of(id).is_none()
    }

    /// The steps of the computation.
    pub(super) fn finish(mut self) -> Result<ComputationPlan> {
        self.join_siblings();
        let order = self.order.sorted().ok_or_else(closed)?;
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
        Ok(ComputationPlan { steps, work: self.work + self.order.work() })
    }

    /// The leaves that somebody outside the group needs, under the names of the instructions that compute them.
    fn outputs(&self, index: u32) -> Vec<Leaf> {
        let mut out = Vec::new();
        let mut seen: HashSet<Leaf> = HashSet::new();
        // A call writes all its results, wanted or not.
        if let GroupKind::Call(id) = self.groups[index as usize].kind {
            return written(self.a.computation, id);
        }
        for &m in &self.groups[index as usize].members {
            let outside = |&u: &InstructionId| self.order.group_of(u) != Some(index);
            let wanted = self.a.escapes[m] || self.a.users[m].iter().any(outside);
            if !wanted {
                continue;
            }
            for leaf in 0..self.inst(m).shape.leaf_count() {
                let leaf = resolve(self.a.computation, (m, leaf));
                if seen.insert(leaf) {
                    out.push(leaf);
                }
            }
        }
        out
    }
}

/// The instructions that follow from the members of a growing group, found in the order of the text and no further than
/// one may still join: the users of each are a list, and those of all are merged.
struct Front {
    group: u32,
    /// Where the next user of an instruction stands, and the number of the use.
    uses: BinaryHeap<Reverse<(u32, InstructionId, u32)>>,
    /// Nothing behind this place in the text can join.
    last: u32,
}

impl Front {
    fn new(group: u32) -> Front {
        Front { group, uses: BinaryHeap::new(), last: 0 }
    }

    fn state(&self, grower: &Grower<'_>, id: InstructionId) -> Follows {
        let (group, state) = grower.follows[id];
        if group == self.group { state } else { Follows::Clean }
    }

    /// Says how an instruction follows.
    fn follow(&mut self, grower: &mut Grower<'_>, id: InstructionId, state: Follows) {
        grower.follows[id] = (self.group, state);
        if state != Follows::Tainted {
            let users = grower.a.users[id].iter().rev();
            let furthest = users.copied().find(|&u| grower.may_join(u)).map_or(0, |u| grower.order.position[u]);
            self.last = self.last.max(furthest);
        }
        self.push(grower, id, 0);
    }

    fn push(&mut self, grower: &Grower<'_>, id: InstructionId, n: u32) {
        if let Some(&user) = grower.a.users[id].get(n as usize) {
            self.uses.push(Reverse((grower.order.position[user], id, n)));
        }
    }

    /// The next instruction that follows.
    fn next(&mut self, grower: &mut Grower<'_>) -> Option<InstructionId> {
        while let Some(Reverse((place, id, n))) = self.uses.pop() {
            if place > self.last {
                return None;
            }
            grower.work += 1;
            self.push(grower, id, n + 1);
            let user = grower.a.users[id][n as usize];
            if self.state(grower, user) == Follows::Clean {
                return Some(user);
            }
        }
        None
    }
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
    let aligned = !moves(inst.opcode) && inst.opcode != Opcode::Iota;
    aligned && elements(inst) == elements(operand)
}
