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

use super::grow::{Follows, Grower, Grown, MAX_MEMBERS, Split, elements};
use super::plan::{Class, Group, GroupKind, moves};
use crate::hlo::{InstructionId, Leaf, Opcode, resolve};
use hashbrown::{HashMap, HashSet};

/// What two groups cost together at most, in simple instructions an element.
const MOST_COST: u32 = 48;
/// How many groups at most are made after one before another joins it.
const NEAR: u32 = 8;
/// Inlined instructions that are followed to what a group reads.
const MOST_STEPS: usize = 64;
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

impl Grower<'_> {
    /// Joins the groups that have grown.
    pub(super) fn join_siblings(&mut self) {
        let updated = self.updated();
        let mut readers: HashMap<Leaf, Reader> = HashMap::new();
        let mut costs: Vec<u32> = Vec::with_capacity(self.groups.len());
        for number in 0..self.groups.len() as u32 {
            let cost = |all: u32, &m: &InstructionId| all.saturating_add(self.inlined_cost(m).0);
            costs.push(self.groups[number as usize].members.iter().fold(0, cost));
            let Some(read) = self.elements_read(number, &updated) else { continue };
            let Some(&member) = self.groups[number as usize].members.first() else { continue };
            let mut own = number;
            for reader in read.iter().filter_map(|leaf| readers.get(leaf).copied()) {
                let Some(other) = self.order.group_of(reader.member).filter(|&other| other != own) else { continue };
                let (first, second) = (other.min(own), other.max(own));
                let cost = costs[first as usize].saturating_add(costs[second as usize]);
                if number - reader.number <= NEAR && cost <= MOST_COST && self.join(first, second) {
                    costs[first as usize] = cost;
                    own = first;
                }
            }
            let total = self.groups[own as usize].elements();
            let all_elements = |m: &&InstructionId| Some(elements(self.inst(**m))) == total;
            let computed = self.groups[own as usize].members.iter().filter(all_elements).map(|&m| (m, 0));
            let known = read.into_iter().chain(computed).map(|leaf| (leaf, Reader { member, number }));
            readers.extend(known);
        }
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
    fn elements_read(&self, group: u32, updated: &HashSet<Leaf>) -> Option<Vec<Leaf>> {
        let group = &self.groups[group as usize];
        let total = group.elements()?;
        let joins = |&m: &InstructionId| self.a.class[m] != Some(Class::Anchor);
        if !group.members.iter().all(joins) {
            return None;
        }
        let (mut found, mut steps, mut ways) = (Vec::new(), 0, group.members.clone());
        while let Some(id) = ways.pop() {
            let inst = self.inst(id);
            if moves(inst.opcode) {
                continue;
            }
            for &o in inst.operands.iter().filter(|&&o| elements(self.inst(o)) == total) {
                if self.is_inlined(o) {
                    steps += 1;
                    ways.extend((steps <= MOST_STEPS).then_some(o));
                } else if self.inst(o).opcode != Opcode::Constant {
                    found.push(resolve(self.a.computation, (o, 0)));
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        (!found.iter().any(|leaf| updated.contains(leaf))).then_some(found)
    }

    /// Makes two groups one, the first, where that may be. Whether they are.
    fn join(&mut self, first: u32, second: u32) -> bool {
        self.work += [first, second].map(|g| self.groups[g as usize].members.len() as u64).iter().sum::<u64>();
        let Some((both, between)) = self.both(first, second) else { return false };
        if !self.order.join((first, second), &between, MOST_EDGES) {
            return false;
        }
        self.groups[second as usize].members.clear();
        self.groups[first as usize] = both;
        true
    }

    /// What two groups would be together, and what of its members lies between the two now, inlined into them.
    fn both(&self, first: u32, second: u32) -> Option<(Group, Vec<InstructionId>)> {
        let (a, b) = (&self.groups[first as usize], &self.groups[second as usize]);
        let (GroupKind::Rows { dims, split }, GroupKind::Rows { dims: others, split: other }) = (&a.kind, &b.kind)
        else {
            return None;
        };
        let folds = |m: &InstructionId| self.a.class[*m] == Some(Class::Reduce);
        let split = match (a.members.iter().any(folds), b.members.iter().any(folds)) {
            (true, true) if split != other => return None,
            (false, true) => *other,
            (true, _) | (false, false) => *split,
        };
        let mut members = [&a.members[..], &b.members[..]].concat();
        let between = self.between(&members)?;
        members.extend(&between);
        members.sort_unstable_by_key(|&m| self.order.position[m]);
        let total = a.elements()?;
        let folded = members.iter().any(folds).then_some(Split { first: split, end: dims.len() });
        let short = folded.is_some_and(|split| split.extents(dims).folded < LEAST_ROW);
        let full = |&m: &InstructionId| elements(self.inst(m)) == total;
        let one_epoch = members.iter().all(|&m| self.a.epoch[m] == self.a.epoch[members[0]]);
        let fits = dims == others && members.len() <= MAX_MEMBERS && one_epoch && !(short && members.iter().any(full));
        if !fits || !self.follow_one_another(&members, dims, folded) {
            return None;
        }
        let kind = GroupKind::Rows { dims: dims.clone(), split };
        Some((Group { kind, members, outputs: Vec::new() }, between))
    }

    /// What is inlined into members and follows from others of them. Nothing where something else needs it too, for which it would be
    /// stored, or where there is too much to look at.
    fn between(&self, members: &[InstructionId]) -> Option<Vec<InstructionId>> {
        let own: HashSet<InstructionId> = members.iter().copied().collect();
        let (mut inlined, mut ways) = (HashSet::new(), members.to_vec());
        while let Some(id) = ways.pop() {
            let new = self.inst(id).operands.iter().filter(|&&o| self.is_inlined(o) && inlined.insert(o));
            ways.extend(new);
            if inlined.len() > MOST_STEPS {
                return None;
            }
        }
        let mut inlined: Vec<InstructionId> = inlined.into_iter().collect();
        inlined.sort_unstable_by_key(|&id| self.order.position[id]);
        let mut between = Vec::new();
        for id in inlined {
            if self.inst(id).operands.iter().any(|o| own.contains(o) || between.contains(o)) {
                between.push(id);
            }
        }
        let within = |u: &InstructionId| own.contains(u) || between.contains(u);
        between.iter().all(|&id| self.a.users[id].iter().all(within)).then_some(between)
    }

    /// Whether each of these, operands first, is a value of all elements or of a row that follows from the others as it may.
    fn follow_one_another(&self, members: &[InstructionId], dims: &[i64], split: Option<Split>) -> bool {
        let mut grown = Grown { dims: dims.to_vec(), split, members: Vec::new(), full: true };
        let total = dims.iter().product();
        let mut states: HashMap<InstructionId, Follows> = HashMap::with_capacity(members.len());
        members.iter().all(|&m| {
            let operands = self.inst(m).operands.iter();
            let of: Vec<Follows> = operands.map(|o| states.get(o).copied().unwrap_or_default()).collect();
            // What follows from none of them is what a group grew from.
            let seed = self.a.class[m] == Some(Class::Inline) && of.iter().all(|&state| state == Follows::Clean);
            let state = if seed { Follows::Full } else { self.state(m, &of, total, &mut grown) };
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
    }
}
