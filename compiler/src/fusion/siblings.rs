//! Groups that go by the same elements become one.
//!
//! **Problem.** A group grows over what follows from its members. What stands beside it, another function of the same array (the moments
//! of an optimizer's step, the sum of an array and that of its squares), follows from none of them, and would read the array once more.
//!
//! **Invariant.** The members of what two groups become follow from one another as those of one that has grown: element `k` from elements
//! `k`, or by way of rows that both fold. Neither waits for the other by way of something outside. No array that is updated in place
//! is read later than before.
//!
//! **Algorithm.** For each array in memory the last group is kept that computes it or reads its elements, each at its place. A group that
//! reads it too joins that one, where the two were made one soon after the other (what lies far apart would keep arrays in memory for
//! longer), and where what both compute is so little that memory is what they wait for: more would only compete for registers.

use super::grow::{Domain, Follows, Grower, MAX_MEMBERS, Split, elements};
use super::order::Way;
use super::plan::{Class, Group, GroupKind, moves};
use crate::hlo::{InstructionId, Leaf, Opcode, resolve};
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeSet;

/// What two groups cost together at most, in simple instructions an element: pairs that cost more take as long as the two do.
const MOST_COST: u32 = 48;
/// How many groups at most are made after one before another joins it.
const NEAR: u32 = 8;
/// Uses that are followed to find what a group reads, or what leads from one to another.
const MOST_STEPS: usize = 128;
/// Edges that are followed to see that neither of two groups waits for the other.
const MOST_EDGES: u64 = 256;
/// Rows are at least this long where elements join what folds them: a loop over all elements needs no rows.
const LEAST_ROW: i64 = 64;

/// The last group that goes by the elements of an array.
#[derive(Clone, Copy)]
struct Reader {
    /// One of its members.
    member: InstructionId,
    /// The number of the group that joined it last, or its own.
    number: u32,
}

/// What counts when a group joins another.
#[derive(Clone, Copy)]
struct Sibling {
    /// What its members cost, with what is inlined into them.
    cost: u32,
    /// Whether some member folds rows.
    folds: bool,
    /// Whether some member is a value of all elements.
    full: bool,
}

/// Two groups that may become one.
#[derive(Clone, Copy)]
struct Pair {
    one: Sibling,
    other: Sibling,
    /// What they would be.
    both: Sibling,
}

/// What lies between two groups.
struct Between {
    /// What is inlined into members of one and follows from members of the other.
    inlined: Vec<InstructionId>,
    /// Whether members of one follow from the other, by way of those or without.
    follow: bool,
}

impl Pair {
    fn of(one: Sibling, other: Sibling) -> Pair {
        let cost = one.cost.saturating_add(other.cost);
        let both = Sibling { cost, folds: one.folds || other.folds, full: one.full || other.full };
        Pair { one, other, both }
    }
}

impl Grower<'_> {
    /// Joins the groups that have grown.
    pub(super) fn join_siblings(&mut self) {
        let updated = self.updated();
        let mut readers: HashMap<Leaf, Reader> = HashMap::new();
        let mut siblings: Vec<Sibling> = Vec::with_capacity(self.groups.len());
        let mut joined = BTreeSet::new();
        for number in 0..self.groups.len() as u32 {
            siblings.push(self.sibling(number));
            let Some(read) = self.elements_read(number, &updated) else { continue };
            let Group { members, .. } = &self.groups[number as usize];
            let Some(&member) = members.first() else { continue };
            let total = self.groups[number as usize].elements();
            let all_elements = |m: &&InstructionId| Some(elements(self.inst(**m))) == total;
            let computed: Vec<Leaf> = members.iter().filter(all_elements).map(|&m| (m, 0)).collect();
            let mut own = number;
            for reader in read.iter().filter_map(|leaf| readers.get(leaf).copied()) {
                let Some(other) = self.order.group_of(reader.member).filter(|&other| other != own) else { continue };
                let (first, second) = (other.min(own), other.max(own));
                let pair = Pair::of(siblings[first as usize], siblings[second as usize]);
                let near = number - reader.number <= NEAR && pair.both.cost <= MOST_COST;
                if near && self.join((first, second), pair) {
                    siblings[first as usize] = pair.both;
                    joined.insert(first);
                    own = first;
                }
            }
            let known = read.into_iter().chain(computed).map(|leaf| (leaf, Reader { member, number }));
            readers.extend(known);
        }
        for group in joined {
            self.groups[group as usize].members.sort_unstable_by_key(|&m| self.order.position[m]);
        }
    }

    fn sibling(&self, group: u32) -> Sibling {
        let group = &self.groups[group as usize];
        let members = || group.members.iter();
        let cost = members().fold(0u32, |all, &m| all.saturating_add(self.inlined_cost(m).0));
        let folds = members().any(|&m| self.a.class[m] == Some(Class::Reduce));
        let full = members().any(|&m| Some(elements(self.inst(m))) == group.elements());
        Sibling { cost, folds, full }
    }

    /// The arrays that something changes in place.
    fn updated(&self) -> HashSet<Leaf> {
        let mut updated = HashSet::new();
        for &id in &self.a.computation.order {
            let inst = self.inst(id);
            let count = match inst.opcode {
                Opcode::DynamicUpdateSlice => 1,
                Opcode::Scatter => inst.operands.len().saturating_sub(1) / 2,
                _ => 0,
            };
            updated.extend(inst.operands.iter().take(count).map(|&o| resolve(self.a.computation, (o, 0))));
        }
        updated
    }

    /// The arrays in memory of which a group of rows reads each element where it computes one. Nothing of a group that may not be joined:
    /// one that stores into paddings, or reads what is updated.
    fn elements_read(&self, group: u32, updated: &HashSet<Leaf>) -> Option<BTreeSet<Leaf>> {
        let group = &self.groups[group as usize];
        let total = group.elements()?;
        let joins = |&m: &InstructionId| self.a.class[m] != Some(Class::Anchor);
        if !group.members.iter().all(joins) {
            return None;
        }
        let leaf = |id: InstructionId| resolve(self.a.computation, (id, 0));
        if !updated.is_empty() {
            let mut reads_updated = false;
            self.through_inlined(&group.members, Way::Backwards, |_, operand| {
                reads_updated |= !self.is_inlined(operand) && updated.contains(&leaf(operand));
                true
            })?;
            if reads_updated {
                return None;
            }
        }
        let mut found = BTreeSet::new();
        self.through_inlined(&group.members, Way::Backwards, |id, operand| {
            let aligned = !moves(self.inst(id).opcode) && elements(self.inst(operand)) == total;
            let stored = !self.is_inlined(operand) && self.inst(operand).opcode != Opcode::Constant;
            found.extend((aligned && stored).then(|| leaf(operand)));
            aligned
        })?;
        Some(found)
    }

    /// Calls `visit` with each instruction that members lead to, behind the one that uses it or is used by it; from one that is inlined it
    /// goes on where `visit` says so. The instructions that it went on from, `None` where there is more to look at than one may.
    fn through_inlined(
        &self,
        members: &[InstructionId],
        way: Way,
        mut visit: impl FnMut(InstructionId, InstructionId) -> bool,
    ) -> Option<HashSet<InstructionId>> {
        let (mut seen, mut ways, mut steps) = (HashSet::new(), members.to_vec(), 0);
        while let Some(id) = ways.pop() {
            let next = self.next(id, way);
            steps += next.len();
            if steps > MOST_STEPS {
                return None;
            }
            ways.extend(next.iter().filter(|&&n| visit(id, n) && self.is_inlined(n) && seen.insert(n)));
        }
        Some(seen)
    }

    fn next(&self, id: InstructionId, way: Way) -> &[InstructionId] {
        match way {
            Way::Backwards => &self.inst(id).operands,
            Way::Forwards => &self.a.users[id],
        }
    }

    /// Makes two groups one, the first, where that may be. Whether they are.
    fn join(&mut self, (first, second): (u32, u32), Pair { one, other, both }: Pair) -> bool {
        let (a, b) = (&self.groups[first as usize], &self.groups[second as usize]);
        let (GroupKind::Rows { dims, split }, GroupKind::Rows { dims: others, split: other_split }) =
            (&a.kind, &b.kind)
        else {
            return false;
        };
        let one_epoch = self.a.epoch[a.members[0]] == self.a.epoch[b.members[0]];
        if dims != others || !one_epoch {
            return false;
        }
        let split = match (one.folds, other.folds) {
            (true, true) if split != other_split => return false,
            (false, true) => *other_split,
            (true, _) | (false, false) => *split,
        };
        let folded = both.folds.then_some(Split { first: split, end: dims.len() });
        let short = folded.is_some_and(|split| split.extents(dims).folded < LEAST_ROW);
        if short && both.full {
            return false;
        }
        let Some(between) = self.between(first, second) else { return false };
        let members = [&b.members[..], &between.inlined].concat();
        if a.members.len() + members.len() > MAX_MEMBERS {
            return false;
        }
        if between.follow {
            let mut all = [&a.members[..], &members].concat();
            all.sort_unstable_by_key(|&m| self.order.position[m]);
            if !self.follow_one_another(&all, dims, folded) {
                return false;
            }
        }
        let kind = GroupKind::Rows { dims: dims.clone(), split };
        if !self.order.join((first, second), &between.inlined, MOST_EDGES) {
            return false;
        }
        self.work += members.len() as u64;
        self.groups[second as usize].members.clear();
        let group = &mut self.groups[first as usize];
        group.members.extend(members);
        group.kind = kind;
        true
    }

    /// What is inlined and lies between two groups. Nothing where something else needs it too, for which it would be stored, or where
    /// there is too much to look at.
    fn between(&self, first: u32, second: u32) -> Option<Between> {
        let mut between = Between { inlined: Vec::new(), follow: false };
        for way in [Way::Backwards, Way::Forwards] {
            let seen = self.through_inlined(&self.groups[second as usize].members, way, |_, next| {
                between.follow |= self.order.group_of(next) == Some(first);
                true
            })?;
            // What leads to the first group, found from there on.
            let mut found: Vec<InstructionId> = seen.into_iter().collect();
            found.sort_unstable_by_key(|&id| self.order.position[id]);
            if way == Way::Forwards {
                found.reverse();
            }
            for id in found {
                let leads = |&n: &InstructionId| self.order.group_of(n) == Some(first) || between.inlined.contains(&n);
                if self.next(id, way).iter().any(leads) {
                    between.inlined.push(id);
                }
            }
        }
        let within = |u: &InstructionId| match self.order.group_of(*u) {
            Some(group) => group == first || group == second,
            None => between.inlined.contains(u),
        };
        between.inlined.iter().all(|&id| self.a.users[id].iter().all(within)).then_some(between)
    }

    /// Whether each of these, operands first, is a value of all elements or of a row that follows from the others as it may.
    fn follow_one_another(&self, members: &[InstructionId], dims: &[i64], split: Option<Split>) -> bool {
        let mut domain = Domain { dims: dims.to_vec(), split };
        let total = dims.iter().product();
        let mut states: HashMap<InstructionId, Follows> = HashMap::with_capacity(members.len());
        members.iter().all(|&m| {
            let operands = self.inst(m).operands.iter();
            let of: Vec<Follows> = operands.map(|o| states.get(o).copied().unwrap_or_default()).collect();
            // What follows from none of them is what a group grew from.
            let seed = self.a.class[m] == Some(Class::Inline) && of.iter().all(|&state| state == Follows::Clean);
            let state = if seed { Follows::Full } else { self.state(m, &of, total, &mut domain) };
            states.insert(m, state);
            matches!(state, Follows::Full | Follows::Row)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::fusion::{Step, plan};
    use crate::text;

    /// The names of the members of each kernel, in order.
    fn kernels(body: &str) -> Vec<String> {
        let source = format!(
            "HloModule m\nadd {{\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT s = f32[] add(p, q)\n}}\n\
             ENTRY e {{\n  x = f32[40,100] parameter(0)\n  y = f32[40,100] parameter(1)\n  zero = f32[] constant(0)\n{body}\n}}"
        );
        let module = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
        let computation = module.entry();
        let plan = plan(&module, module.entry).unwrap();
        let names = |step: &Step| match step {
            Step::Group(group) => {
                group.members.iter().map(|&m| &*computation.instructions[m].name).collect::<Vec<_>>().join(" ")
            }
            Step::Control(id) => computation.instructions[*id].name.to_string(),
        };
        plan.steps.iter().map(names).collect()
    }

    #[test]
    fn functions_of_one_array_are_one_kernel() {
        let found = kernels(
            "  a = f32[40,100] negate(x)
  b = f32[40,100] multiply(x, y)
  c = f32[40,100] exponential(y)
  ROOT t = (f32[40,100], f32[40,100], f32[40,100]) tuple(a, b, c)",
        );
        assert_eq!(found, ["a b c"]);
    }

    #[test]
    fn folds_of_the_same_rows_are_one_kernel() {
        let found = kernels(
            "  a = f32[40] reduce(x, zero), dimensions={1}, to_apply=add
  square = f32[40,100] multiply(x, x)
  b = f32[40] reduce(square, zero), dimensions={1}, to_apply=add
  c = f32[40,100] negate(x)
  ROOT t = (f32[40], f32[40], f32[40,100]) tuple(a, b, c)",
        );
        assert_eq!(found, ["a b c"], "the square is computed where it is folded");
    }

    /// The moments of an optimizer's step and what it makes of them, which needs one of them by way of what was inlined.
    #[test]
    fn what_lies_between_becomes_a_member() {
        let found = kernels(
            "  m = f32[40,100] add(x, y)
  v = f32[40,100] multiply(y, y)
  root = f32[40,100] sqrt(v)
  step = f32[40,100] divide(m, root)
  ROOT t = (f32[40,100], f32[40,100], f32[40,100]) tuple(m, v, step)",
        );
        assert_eq!(found, ["m v root step"]);
    }

    #[test]
    fn what_waits_for_the_other_is_a_kernel_of_its_own() {
        let product = "dot(a, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}";
        let found = kernels(&format!(
            "  a = f32[40,100] negate(x)
  d = f32[40,40] {product}
  f = f32[40] reduce(d, zero), dimensions={{1}}, to_apply=add
  g = f32[40,100] broadcast(f), dimensions={{0}}
  b = f32[40,100] multiply(x, g)
  ROOT t = (f32[40,100], f32[40,100]) tuple(a, b)"
        ));
        assert_eq!(found, ["a", "d", "f", "b"]);
        let found = kernels(
            "  a = f32[40,100] negate(x)
  turned = f32[100,40] transpose(a), dimensions={1,0}
  b = f32[40,100] reshape(turned)
  c = f32[40,100] multiply(x, b)
  ROOT t = (f32[40,100], f32[40,100]) tuple(a, c)",
        );
        assert_eq!(found, ["a", "c"], "an element of one needs others of the other");
    }

    #[test]
    fn what_has_other_dimensions_is_a_kernel_of_its_own() {
        let found = kernels(
            "  flat = f32[4000] reshape(x)
  a = f32[4000] negate(flat)
  b = f32[40] reduce(x, zero), dimensions={1}, to_apply=add
  ROOT t = (f32[4000], f32[40]) tuple(a, b)",
        );
        assert_eq!(found, ["a", "b"]);
    }

    #[test]
    fn what_computes_much_is_a_kernel_of_its_own() {
        let one = |name: &str, of: &str| {
            format!(
                "  {name}0 = f32[40,100] sine({of})\n  {name}1 = f32[40,100] exponential({name}0)\n  \
                 {name} = f32[40,100] tanh({name}1)\n"
            )
        };
        let root = "  ROOT t = (f32[40,100], f32[40,100]) tuple(a, b)";
        assert_eq!(kernels(&format!("{}{}{root}", one("a", "x"), one("b", "x"))), ["a", "b"]);
    }

    #[test]
    fn what_is_updated_is_not_read_later() {
        let update = "dynamic-update-slice(x, y, k, k)";
        let found = kernels(&format!(
            "  k = s32[] constant(0)
  a = f32[40,100] negate(x)
  b = f32[40,100] sine(x)
  u = f32[40,100] {update}
  ROOT t = (f32[40,100], f32[40,100], f32[40,100]) tuple(a, b, u)"
        ));
        assert_eq!(found, ["a", "b", "u"]);
        let found = kernels(
            "  k = s32[] constant(0)
  twice = f32[80,100] concatenate(x, y), dimensions={0}
  half = f32[40,100] slice(twice), slice={[40:80],[0:100]}
  a = f32[40,100] negate(x)
  b = f32[40,100] multiply(x, half)
  u = f32[80,100] dynamic-update-slice(twice, y, k, k)
  ROOT t = (f32[40,100], f32[40,100], f32[80,100]) tuple(a, b, u)",
        );
        assert_eq!(found, ["twice", "a", "b", "u"], "nor what is read elsewhere");
    }
}
