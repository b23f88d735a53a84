//! Buffer assignment: the algorithm of [`super`], step by step.

use super::coalesce::{Classes, Region, coalesce};
use super::flow::{Flow, Group, Place, StorageClass, Variable, flow};
use super::live::{self, Ranges};
use super::pack::{Item, pack};
use super::schedule::{Assignment, BlockCopies, Copy, Location, Schedule};
use crate::error::Result;
use cranelift_entity::SecondaryMap;
use hashbrown::HashMap;

/// Gives every value a place.
///
/// # Errors
/// [`crate::Error::Internal`] where the schedule is malformed, [`crate::Error::Unsupported`] where the workspace fits no
/// address space.
pub fn assign(schedule: &Schedule) -> Result<Assignment> {
    let flow = flow(schedule)?;
    let ranges = live::ranges(&flow);
    let classes = coalesce(&flow, &ranges);
    let sequences: Vec<Sequence> = flow.groups.iter().map(|g| sequence(&flow, &classes, g)).collect();
    let (items, item_of) = items(&flow, &classes, &sequences);
    let (offsets, workspace) = pack(&items)?;

    let location = |v: Variable| -> Option<Location> {
        match (flow.variables[v].storage, classes.region(classes.of(v))) {
            (StorageClass::ReadOnly(location), _) => Some(location),
            (StorageClass::Donated { parameter, .. }, _) => Some(Location::Parameter(parameter)),
            (_, Region::Result(n)) => Some(Location::Result(n)),
            _ => match item_of.get(&Memory::Class(classes.of(v))) {
                Some(&i) => Some(Location::Workspace(offsets[i])),
                // Nothing is ever there.
                None => (flow.variables[v].bytes == 0).then_some(Location::Workspace(0)),
            },
        }
    };
    let mut out = Assignment { locations: SecondaryMap::new(), copies: SecondaryMap::new(), workspace };
    for v in schedule.values.keys() {
        out.locations[v] = flow.of[v].and_then(location);
    }
    for (id, block) in schedule.blocks.iter() {
        out.copies[id] = BlockCopies { before: vec![Vec::new(); block.steps.len()], at_end: Vec::new() };
    }
    for (g, (group, sequence)) in flow.groups.iter().zip(&sequences).enumerate() {
        let at = |end: End| match end {
            End::Variable(v) => location(v),
            End::Temporary => item_of.get(&Memory::Temporary(g)).map(|&i| Location::Workspace(offsets[i])),
        };
        let copies = sequence.copies.iter().filter_map(|c| {
            let (to, from) = (at(c.to)?, at(c.from)?);
            Some(Copy { from, to, bytes: c.bytes })
        });
        match group.place {
            Place::Before(block, i) => {
                if let Some(list) = out.copies[block].before.get_mut(i) {
                    list.extend(copies);
                }
            }
            Place::AtEnd(block) => out.copies[block].at_end.extend(copies),
        }
    }
    Ok(out)
}

/// One side of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Variable(Variable),
    /// The group's own memory.
    Temporary,
}

struct Move {
    to: End,
    from: End,
    bytes: u64,
}

/// The copies of a group, in an order in which they can be made one after another.
struct Sequence {
    copies: Vec<Move>,
    /// Bytes of the temporary, 0 where there is none.
    temporary: u64,
}

/// What a variable's memory is called while it has no address: variables that differ here do not overlap when a group
/// makes its copies.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Memory {
    Class(Variable),
    Temporary(usize),
}

/// Orders the copies of a group that are left.
fn sequence(flow: &Flow, classes: &Classes, group: &Group) -> Sequence {
    let mut out = Sequence { copies: Vec::new(), temporary: 0 };
    let mut pending: Vec<(Variable, End)> = Vec::new();
    for &(to, from) in &group.copies {
        let donated = matches!(flow.variables[from].storage, StorageClass::Donated { .. });
        if classes.of(to) != classes.of(from) {
            pending.push((to, End::Variable(from)));
        } else if donated {
            // Whether the two are one is the caller's choice. If they are, no other copy is disturbed.
            let bytes = flow.variables[to].bytes;
            out.copies.push(Move { to: End::Variable(to), from: End::Variable(from), bytes });
        }
    }
    // How many copies still read each class, and which copy writes it.
    let mut readers: HashMap<Variable, usize> = HashMap::new();
    let mut writer: HashMap<Variable, usize> = HashMap::new();
    for (i, &(to, from)) in pending.iter().enumerate() {
        if let End::Variable(from) = from {
            *readers.entry(classes.of(from)).or_default() += 1;
        }
        writer.insert(classes.of(to), i);
    }
    let mut ready: Vec<usize> =
        (0..pending.len()).rev().filter(|&i| !readers.contains_key(&classes.of(pending[i].0))).collect();
    let mut done = vec![false; pending.len()];
    let mut first = 0;
    loop {
        while let Some(i) = ready.pop() {
            let (to, from) = pending[i];
            out.copies.push(Move { to: End::Variable(to), from, bytes: flow.variables[to].bytes });
            done[i] = true;
            if let End::Variable(from) = from {
                let class = classes.of(from);
                let left = readers.entry(class).or_default();
                *left -= 1;
                if *left == 0
                    && let Some(&w) = writer.get(&class)
                    && !done[w]
                {
                    ready.push(w);
                }
            }
        }
        // Every copy that is left waits for another: a circle. What one of them would overwrite moves out of the way.
        while done.get(first) == Some(&true) {
            first += 1;
        }
        let Some(&(to, _)) = pending.get(first) else { return out };
        let class = classes.of(to);
        let reader = (first..pending.len()).find(|&i| {
            let (_, from) = pending[i];
            !done[i] && matches!(from, End::Variable(v) if classes.of(v) == class)
        });
        if let Some(reader) = reader {
            let (to, from) = pending[reader];
            let bytes = flow.variables[to].bytes;
            out.copies.push(Move { to: End::Temporary, from, bytes });
            out.temporary = out.temporary.max(bytes);
            for (i, (_, other)) in pending.iter_mut().enumerate() {
                if !done[i] && matches!(*other, End::Variable(v) if classes.of(v) == class) {
                    *other = End::Temporary;
                }
            }
        }
        readers.remove(&class);
        ready.push(first);
    }
}

/// What needs room in the workspace, and which item is whose.
fn items(flow: &Flow, classes: &Classes, sequences: &[Sequence]) -> (Vec<Item>, HashMap<Memory, usize>) {
    let (mut items, mut item_of) = (Vec::new(), HashMap::new());
    for (v, variable) in flow.variables.iter() {
        let class = classes.of(v);
        if classes.region(class) == Region::Workspace && classes.live(class).next().is_some() {
            item_of.entry(Memory::Class(class)).or_insert_with(|| {
                items.push(Item { bytes: variable.bytes, live: classes.live(class).collect() });
                items.len() - 1
            });
        }
    }
    for (g, (group, sequence)) in flow.groups.iter().zip(sequences).enumerate() {
        let while_copying = (2 * group.position, 2 * group.position + 2);
        if sequence.temporary > 0 {
            item_of.insert(Memory::Temporary(g), items.len());
            items.push(Item { bytes: sequence.temporary, live: vec![while_copying] });
        }
        // The copies are made one after another, so that neither side may have another's memory meanwhile.
        for end in sequence.copies.iter().flat_map(|c| [c.to, c.from]) {
            if let End::Variable(v) = end
                && let Some(&i) = item_of.get(&Memory::Class(classes.of(v)))
            {
                items[i].live.push(while_copying);
            }
        }
    }
    for item in &mut items {
        item.live.sort_unstable();
        let mut merged: Ranges = Vec::with_capacity(item.live.len());
        for &(start, end) in &item.live {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        item.live = merged;
    }
    (items, item_of)
}
