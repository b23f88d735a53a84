//! The checker: it does not trust the assigner, it validates what came out.
//!
//! # Lattice
//!
//! Memory is a set of *regions*: the workspace, each parameter, each result, each constant. The state of a region is a
//! map from disjoint byte ranges to sets of *facts*. A fact `(v, base)` on a range says: byte `i` of the range is byte
//! `i - base` of value `v`, whatever way the program took to this point. A range without facts may hold anything: that
//! is the bottom for reading, and where every check fails. Two states meet by intersecting facts byte for byte.
//!
//! # Rules
//!
//! * **Start.** Parameters and constants hold their values; nothing else holds anything.
//! * **Read** of `v`: every byte of `v`'s location has the fact `(v, start of the location)`.
//! * **Write** of a range: it lies within the workspace or within a result; all facts there are gone. A write to a
//!   constant or a parameter is an error. Where the result may share a parameter's memory, facts about the same bytes of
//!   the parameter go, too.
//! * **Copy**: the two sides are one or do not overlap; facts move along. A copy from a donated parameter to its result
//!   leaves the parameter's facts alone: where the two are one, it changes nothing.
//! * **Kernel**: reads its inputs; then writes outputs and scratch, which do not overlap one another; outputs get facts.
//!   An input may overlap an output or scratch only if they are one range and `in_place` lists them. An updated buffer
//!   must hold the value that it updates.
//! * **Conditional**: each branch starts from the state at the conditional. Where a branch ends with its `k`th value in
//!   the location of result `k`, the fact of that result holds there. The state behind is the meet of the branches.
//! * **Loop**: an invariant is guessed and proved. The guess: the state before the loop, less every range that something
//!   in the loop writes, plus the fact of each condition parameter whose location holds its initial value. The proof: walk
//!   condition and body from there; at the back edge each location of a guessed parameter must hold the body's value for
//!   it. A parameter that fails is not guessed again and the walk is repeated: facts only ever get fewer, and with fewer
//!   facts no check passes that failed before. Facts on what the loop does not write hold by themselves, and facts of
//!   values that an iteration defines do not outlive it. The body starts, and the code behind the loop goes on, from the
//!   state where the condition ends, its parameters' facts passed on under the new names.
//! * **End.** Each result holds its value.

use super::schedule::{Assignment, BlockId, ConstantId, Copy, Definition, KernelId, Location, Schedule, Step, ValueId};
use crate::error::{Error, Result};
use crate::kernel::ir::{Buffer, Role};
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeMap;

/// Checks that an assignment keeps every value until its last reader has seen it.
///
/// # Errors
/// [`Error::Internal`] says which read, write or copy is wrong.
pub fn check(schedule: &Schedule, assignment: &Assignment) -> Result<()> {
    let mut checker = Checker {
        schedule,
        assignment,
        donated: schedule.donated.iter().map(|&(p, r, _)| (r, p)).collect(),
        refuted: HashSet::new(),
    };
    let mut state = State::default();
    for (v, value) in schedule.values.iter() {
        let region = match value.definition {
            Definition::Parameter(n) => Region::Parameter(n),
            Definition::Constant(c) => Region::Constant(c),
            Definition::Step | Definition::BlockParameter => continue,
        };
        let bytes = checker.bytes(v);
        state.add(Range { region, start: 0, end: bytes }, (v, 0));
    }
    let entry = schedule.entry.ok_or_else(|| Error::Internal("a schedule without an entry".into()))?;
    checker.block(entry, &mut state)?;
    for (n, &v) in schedule.results.iter().enumerate() {
        let range = Range { region: Region::Result(n as u32), start: 0, end: checker.bytes(v) };
        if !state.holds(range, v) {
            return Err(wrong(format!("result {n} does not hold {v} in the end")));
        }
    }
    Ok(())
}

fn wrong(message: String) -> Error {
    Error::Internal(format!("buffer assignment: {message}"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Region {
    Workspace,
    Parameter(u32),
    Result(u32),
    Constant(ConstantId),
}

/// Bytes of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    region: Region,
    start: u64,
    end: u64,
}

impl Range {
    fn at(location: Location, bytes: u64) -> Range {
        let (region, start) = match location {
            Location::Workspace(offset) => (Region::Workspace, offset),
            Location::Parameter(n) => (Region::Parameter(n), 0),
            Location::Result(n) => (Region::Result(n), 0),
            Location::Constant(c) => (Region::Constant(c), 0),
        };
        Range { region, start, end: start.saturating_add(bytes) }
    }

    fn overlaps(self, other: Range) -> bool {
        self.region == other.region && self.start < other.end && other.start < self.end
    }
}

/// A value, and where its first byte would be.
type Fact = (ValueId, i128);

/// A byte range's end, and what is known of it.
#[derive(Clone, Debug)]
struct Piece {
    end: u64,
    facts: Vec<Fact>,
}

/// What is known of memory.
#[derive(Clone, Debug, Default)]
struct State {
    regions: HashMap<Region, BTreeMap<u64, Piece>>,
}

impl State {
    /// Makes piece borders of the range's ends.
    fn split(&mut self, range: Range) -> &mut BTreeMap<u64, Piece> {
        let pieces = self.regions.entry(range.region).or_default();
        for at in [range.start, range.end] {
            if let Some((_, piece)) = pieces.range_mut(..at).next_back()
                && piece.end > at
            {
                let rest = piece.clone();
                piece.end = at;
                pieces.insert(at, rest);
            }
        }
        pieces
    }

    fn clear(&mut self, range: Range) {
        let pieces = self.split(range);
        let gone: Vec<u64> = pieces.range(range.start..range.end).map(|(&start, _)| start).collect();
        for start in gone {
            pieces.remove(&start);
        }
    }

    fn add(&mut self, range: Range, fact: Fact) {
        let pieces = self.split(range);
        let mut at = range.start;
        let mut gaps = Vec::new();
        for (&start, piece) in pieces.range_mut(range.start..range.end) {
            if at < start {
                gaps.push((at, start));
            }
            at = piece.end;
            if !piece.facts.contains(&fact) {
                piece.facts.push(fact);
            }
        }
        if at < range.end {
            gaps.push((at, range.end));
        }
        for (start, end) in gaps {
            pieces.insert(start, Piece { end, facts: vec![fact] });
        }
    }

    /// Whether the range holds the whole value.
    fn holds(&self, range: Range, v: ValueId) -> bool {
        if range.start == range.end {
            return true;
        }
        let Some(pieces) = self.regions.get(&range.region) else { return false };
        let first = pieces.range(..=range.start).next_back().map_or(range.start, |(&start, _)| start);
        let mut at = range.start;
        for (&start, piece) in pieces.range(first..range.end) {
            if piece.end <= range.start {
                continue;
            }
            if start > at || !piece.facts.contains(&(v, i128::from(range.start))) {
                return false;
            }
            at = piece.end;
        }
        at >= range.end
    }

    fn copy(&mut self, from: Range, to: Range) {
        let shift = i128::from(to.start) - i128::from(from.start);
        let moved: Vec<(u64, Piece)> =
            self.split(from).range(from.start..from.end).map(|(&start, piece)| (start, piece.clone())).collect();
        self.clear(to);
        let pieces = self.regions.entry(to.region).or_default();
        for (start, mut piece) in moved {
            piece.facts.iter_mut().for_each(|fact| fact.1 += shift);
            piece.end = piece.end - from.start + to.start;
            pieces.insert(start - from.start + to.start, piece);
        }
    }

    fn forget(&mut self, values: &HashSet<ValueId>) {
        for piece in self.regions.values_mut().flat_map(|pieces| pieces.values_mut()) {
            piece.facts.retain(|(v, _)| !values.contains(v));
        }
    }

    fn meet(&self, other: &State) -> State {
        let mut out = State::default();
        for (region, pieces) in &self.regions {
            let Some(others) = other.regions.get(region) else { continue };
            let met = out.regions.entry(*region).or_default();
            for (&start, piece) in pieces {
                let first = others.range(..=start).next_back().map_or(start, |(&s, _)| s);
                for (&s, theirs) in others.range(first..piece.end) {
                    let (from, to) = (start.max(s), piece.end.min(theirs.end));
                    if from < to {
                        let facts = piece.facts.iter().copied().filter(|f| theirs.facts.contains(f)).collect();
                        met.insert(from, Piece { end: to, facts });
                    }
                }
            }
        }
        out
    }
}

struct Checker<'a> {
    schedule: &'a Schedule,
    assignment: &'a Assignment,
    /// The parameter whose memory each result may share.
    donated: HashMap<u32, u32>,
    /// Condition parameters that their location does not keep.
    refuted: HashSet<ValueId>,
}

impl Checker<'_> {
    fn bytes(&self, v: ValueId) -> u64 {
        self.schedule.values[v].shape.byte_size() as u64
    }

    fn range(&self, v: ValueId) -> Option<Range> {
        Some(Range::at(self.assignment.locations[v]?, self.bytes(v)))
    }

    fn located(&self, v: ValueId, why: &dyn Fn() -> String) -> Result<Range> {
        let range = self.range(v).ok_or_else(|| wrong(format!("{} needs {v}, which has no location", why())))?;
        if range.region == Region::Workspace && range.start % 64 != 0 {
            return Err(wrong(format!("{v} is not aligned")));
        }
        Ok(range)
    }

    fn read(&self, state: &State, v: ValueId, why: &dyn Fn() -> String) -> Result<Range> {
        let range = self.located(v, why)?;
        if !state.holds(range, v) {
            return Err(wrong(format!("{} reads {v}, which {range:?} does not hold", why())));
        }
        Ok(range)
    }

    /// That a range may be written.
    fn writable(&self, range: Range, why: &dyn Fn() -> String) -> Result<()> {
        let size = match range.region {
            Region::Workspace => Some(self.assignment.workspace),
            Region::Result(n) => self.schedule.results.get(n as usize).map(|&v| self.bytes(v)),
            Region::Parameter(_) | Region::Constant(_) => None,
        };
        match size {
            Some(size) if range.end <= size => Ok(()),
            _ if range.start == range.end => Ok(()),
            _ => Err(wrong(format!("{} writes {range:?}, which it must not", why()))),
        }
    }

    /// The parameter bytes that a write to the range may change.
    fn shadow(&self, range: Range) -> Option<Range> {
        match range.region {
            Region::Result(n) => self.donated.get(&n).map(|&p| Range { region: Region::Parameter(p), ..range }),
            _ => None,
        }
    }

    fn overlap(&self, a: Range, b: Range) -> bool {
        let shadows = |a, b| self.shadow(a).is_some_and(|s: Range| s.overlaps(b));
        a.overlaps(b) || shadows(a, b) || shadows(b, a)
    }

    fn write(&self, state: &mut State, range: Range, why: &dyn Fn() -> String) -> Result<()> {
        self.writable(range, why)?;
        state.clear(range);
        if let Some(shadow) = self.shadow(range) {
            state.clear(shadow);
        }
        Ok(())
    }

    fn copies(&self, copies: &[Copy], state: &mut State, why: &dyn Fn() -> String) -> Result<()> {
        for c in copies {
            let (from, to) = (Range::at(c.from, c.bytes), Range::at(c.to, c.bytes));
            if from == to {
                continue;
            }
            if from.overlaps(to) {
                return Err(wrong(format!("{} copies {from:?} to {to:?}, which overlap", why())));
            }
            self.writable(to, why)?;
            state.copy(from, to);
            if let Some(shadow) = self.shadow(to)
                && shadow != from
            {
                state.clear(shadow);
            }
        }
        Ok(())
    }

    /// Gives `new` the fact that its location holds it where that location holds `old`.
    fn pass(&self, seen: &State, state: &mut State, old: ValueId, new: ValueId) -> bool {
        let Some(range) = self.range(new) else { return false };
        let holds = seen.holds(Range { end: range.start.saturating_add(self.bytes(old)), ..range }, old);
        if holds {
            state.add(range, (new, i128::from(range.start)));
        }
        holds
    }

    fn block(&mut self, id: BlockId, state: &mut State) -> Result<()> {
        let (schedule, assignment) = (self.schedule, self.assignment);
        let copies = &assignment.copies[id];
        for (i, step) in schedule.blocks[id].steps.iter().enumerate() {
            if let Some(before) = copies.before.get(i) {
                self.copies(before, state, &|| format!("before step {i} of {id}"))?;
            }
            match step {
                Step::Kernel { kernel, buffers } => self.kernel(*kernel, buffers, state)?,
                Step::While { .. } => self.iterate(step, state)?,
                Step::Conditional { index, branches, results, .. } => {
                    self.read(state, *index, &|| "a conditional".into())?;
                    let mut behind: Option<State> = None;
                    for (branch, values) in branches {
                        let mut arm = state.clone();
                        self.block(*branch, &mut arm)?;
                        let seen = arm.clone();
                        for (&old, &new) in values.iter().zip(results) {
                            self.pass(&seen, &mut arm, old, new);
                        }
                        behind = Some(behind.map_or_else(|| arm.clone(), |b| b.meet(&arm)));
                    }
                    *state = behind.unwrap_or_default();
                }
            }
        }
        self.copies(&copies.at_end, state, &|| format!("the end of {id}"))
    }

    fn kernel(&self, id: KernelId, buffers: &[ValueId], state: &mut State) -> Result<()> {
        let kernel = &self.schedule.kernels[id];
        let why = || format!("{id} ({})", kernel.name);
        if kernel.buffers.len() != buffers.len() {
            return Err(wrong(format!("{} has {} buffers", why(), kernel.buffers.len())));
        }
        let of = |b: &Buffer| if let Role::Update { of } = b.role { Some(of as usize) } else { None };
        let updated: HashSet<usize> = kernel.buffers.iter().filter_map(of).collect();
        let mut ranges = Vec::with_capacity(buffers.len());
        for (p, (&v, buffer)) in buffers.iter().zip(&kernel.buffers).enumerate() {
            ranges.push(match buffer.role {
                // The kernel sees what is updated where the update is.
                Role::Input if updated.contains(&p) => None,
                Role::Input => Some(self.read(state, v, &why)?),
                Role::Output | Role::Scratch => Some(self.located(v, &why)?),
                Role::Update { of } => {
                    let range = self.located(v, &why)?;
                    if !buffers.get(of as usize).is_some_and(|&old| state.holds(range, old)) {
                        return Err(wrong(format!("{} updates {v}, where there is nothing to update", why())));
                    }
                    Some(range)
                }
            });
        }
        for (p, written) in ranges.iter().enumerate().filter(|(p, _)| kernel.buffers[*p].role != Role::Input) {
            for (q, other) in ranges.iter().enumerate().filter(|(q, _)| *q != p) {
                let (Some(written), Some(other)) = (*written, *other) else { continue };
                let allowed = written.start == other.start
                    && written.end == other.end
                    && kernel.buffers[q].role == Role::Input
                    && kernel.in_place.contains(&(p as u32, q as u32));
                if !allowed && self.overlap(written, other) {
                    let (a, b) = (buffers[p], buffers[q]);
                    return Err(wrong(format!("{} writes {a} over {b} while it needs it", why())));
                }
            }
        }
        for (p, &v) in buffers.iter().enumerate() {
            let (role, Some(range)) = (kernel.buffers[p].role, ranges[p]) else { continue };
            if role != Role::Input {
                self.write(state, range, &why)?;
            }
            if matches!(role, Role::Output | Role::Update { .. }) {
                state.add(range, (v, i128::from(range.start)));
            }
        }
        Ok(())
    }

    fn iterate(&mut self, step: &Step, state: &mut State) -> Result<()> {
        let Step::While {
            init,
            condition,
            condition_parameters,
            condition_result,
            body,
            body_parameters,
            body_results,
            results,
        } = step
        else {
            return Ok(());
        };
        let mut effects = Effects::default();
        effects.defined.extend(condition_parameters.iter().chain(body_parameters));
        self.effects(*condition, &mut effects);
        self.effects(*body, &mut effects);
        let seen = state.clone();
        let mut head = state.clone();
        head.forget(&effects.defined);
        for &range in &effects.written {
            head.clear(range);
            if let Some(shadow) = self.shadow(range) {
                head.clear(shadow);
            }
        }
        loop {
            let mut now = head.clone();
            let mut guessed = Vec::new();
            for (k, (&old, &new)) in init.iter().zip(condition_parameters).enumerate() {
                if !self.refuted.contains(&new) && self.pass(&seen, &mut now, old, new) {
                    guessed.push(k);
                }
            }
            self.block(*condition, &mut now)?;
            self.read(&now, *condition_result, &|| "a loop".into())?;
            let exit = now.clone();
            for (&old, &new) in condition_parameters.iter().zip(body_parameters) {
                self.pass(&exit, &mut now, old, new);
            }
            self.block(*body, &mut now)?;
            let failed: Vec<ValueId> = guessed
                .into_iter()
                .filter(|&k| {
                    let range = self.range(condition_parameters[k]);
                    !range.is_some_and(|r| body_results.get(k).is_some_and(|&v| now.holds(r, v)))
                })
                .map(|k| condition_parameters[k])
                .collect();
            if failed.is_empty() {
                *state = exit.clone();
                for (&old, &new) in condition_parameters.iter().zip(results) {
                    self.pass(&exit, state, old, new);
                }
                return Ok(());
            }
            self.refuted.extend(failed);
        }
    }

    /// What a block and all within it writes and defines.
    fn effects(&self, id: BlockId, out: &mut Effects) {
        let copies = &self.assignment.copies[id];
        let copied = copies.all();
        out.written.extend(copied.filter(|c| c.from != c.to).map(|c| Range::at(c.to, c.bytes)));
        for step in &self.schedule.blocks[id].steps {
            match step {
                Step::Kernel { kernel, buffers } => {
                    for (buffer, &v) in self.schedule.kernels[*kernel].buffers.iter().zip(buffers) {
                        if buffer.role != Role::Input {
                            out.defined.insert(v);
                            out.written.extend(self.range(v));
                        }
                    }
                }
                Step::While { condition, condition_parameters, body, body_parameters, results, .. } => {
                    out.defined.extend(condition_parameters.iter().chain(body_parameters).chain(results));
                    self.effects(*condition, out);
                    self.effects(*body, out);
                }
                Step::Conditional { branches, results, .. } => {
                    out.defined.extend(results);
                    branches.iter().for_each(|(branch, _)| self.effects(*branch, out));
                }
            }
        }
    }
}

#[derive(Default)]
struct Effects {
    written: Vec<Range>,
    defined: HashSet<ValueId>,
}
