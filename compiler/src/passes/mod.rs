//! Module passes: from a module as it was read to one that fusion likes.
//!
//! Problem: programs arrive with layouts, calls, asynchronous forms, steps that cancel, constants to compute; the
//! rooms below want one flat, row-major, minimal graph. Invariant: each pass leaves a valid module that means the
//! same; instructions with effects are never moved, merged, duplicated or dropped, `opt-barrier` survives, control
//! predecessors hold, and what replaces an instruction carries its source place, so that a later error still names a
//! line. Algorithm: a file per pass, each a function from module to [`Stats`], all over the machinery of [`rewrite`];
//! [`optimize`] runs them in order and repeats the cheap ones until nothing changes, at most [`MAX_ROUNDS`] times.

pub mod async_to_sync;
pub mod cse;
pub mod dce;
pub mod dynamic;
pub mod expand;
pub mod feeds;
pub mod fold;
pub mod gathered;
pub mod inline;
pub mod layout;
pub mod loops;
pub mod markers;
pub mod one_device;
pub mod one_tuples;
pub mod rewrite;
pub mod simplify;
pub mod top_k;
pub mod transposed_dot;
pub mod turned_operands;
pub mod value;
pub mod while_state;

#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use crate::hlo::Module;
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

/// Rounds of simplification after which the pipeline stops, whether or not something still changes.
pub const MAX_ROUNDS: usize = 16;

/// How often a pass made each kind of change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats(BTreeMap<&'static str, usize>);

impl Stats {
    /// Counts `times` changes.
    pub fn add(&mut self, kind: &'static str, times: usize) {
        if times > 0 {
            *self.0.entry(kind).or_default() += times;
        }
    }

    /// Changes of all kinds.
    pub fn changes(&self) -> usize {
        self.0.values().sum()
    }

    /// Changes of one kind.
    pub fn count(&self, kind: &str) -> usize {
        self.0.get(kind).copied().unwrap_or(0)
    }

    /// Kinds and counts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.0.iter().map(|(&kind, &count)| (kind, count))
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Stats) {
        other.iter().for_each(|(kind, count)| self.add(kind, count));
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (kind, count)) in self.iter().enumerate() {
            write!(f, "{}{kind}: {count}", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// How the pipeline runs.
#[derive(Clone, Debug)]
pub struct PassOptions {
    /// Verify the module after each pass; on by default in debug builds.
    pub verify: bool,
    /// Keep the layouts of entry parameters and results for callers; without it, callers pass row-major arrays.
    pub keep_entry_layouts: bool,
    /// Simplify, fold and merge; without it only what code generation needs is done.
    pub optimize: bool,
}

impl Default for PassOptions {
    fn default() -> Self {
        PassOptions { verify: cfg!(debug_assertions), keep_entry_layouts: true, optimize: true }
    }
}

/// One run of one pass.
#[derive(Clone, Debug)]
pub struct PassRecord {
    /// The pass.
    pub name: &'static str,
    /// Its place in the pipeline, from 0.
    pub position: usize,
    /// What it changed.
    pub stats: Stats,
    /// How long it took.
    pub time: Duration,
    /// Live instructions of the module afterwards.
    pub instructions: usize,
}

/// What the pipeline did, in order.
#[derive(Clone, Debug, Default)]
pub struct PipelineStats {
    /// Every run of every pass.
    pub records: Vec<PassRecord>,
}

impl PipelineStats {
    /// Time and changes of each pass over all its runs, in order of first run.
    pub fn by_pass(&self) -> Vec<(&'static str, Duration, Stats)> {
        let mut out: Vec<(&'static str, Duration, Stats)> = Vec::new();
        for record in &self.records {
            match out.iter_mut().find(|(name, ..)| *name == record.name) {
                Some((_, time, stats)) => {
                    *time += record.time;
                    stats.merge(&record.stats);
                }
                None => out.push((record.name, record.time, record.stats.clone())),
            }
        }
        out
    }
}

/// A table for `--time-passes`.
impl fmt::Display for PipelineStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: Duration = self.records.iter().map(|r| r.time).sum();
        for (name, time, stats) in self.by_pass() {
            writeln!(f, "{:>9.3} ms  {name:<14} {stats}", time.as_secs_f64() * 1e3)?;
        }
        write!(f, "{:>9.3} ms  total, {} runs", total.as_secs_f64() * 1e3, self.records.len())
    }
}

/// What the runs of a pipeline share.
struct State {
    keep_entry_layouts: bool,
    /// Instructions that inlining may still add, over all rounds.
    inline_budget: usize,
    /// Passes that changed nothing, and that would change nothing again: the module is still what it was.
    idle: Vec<&'static str>,
}

/// A pass: from module to what it changed.
type Pass = fn(&mut Module, &mut State) -> Result<Stats>;

/// Passes that run once, first.
const PREPARE: &[(&str, Pass)] = &[
    ("markers", |m, _| markers::run(m)),
    ("top-k", |m, _| top_k::run(m)),
    ("layout", |m, s| layout::run_with(m, s.keep_entry_layouts)),
    ("one-tuples", |m, _| one_tuples::run(m)),
    ("async-to-sync", |m, _| async_to_sync::run(m)),
    ("one-device", |m, _| one_device::run(m)),
    ("gathered", |m, _| gathered::run(m)),
    ("feeds", |m, _| feeds::run(m)),
    ("inline", |m, s| inline::run_within(m, &mut s.inline_budget)),
    ("expand-dynamic", |m, _| expand::run_dynamic(m)),
    ("dynamic", |m, _| dynamic::run(m)),
    ("expand", |m, _| expand::run(m)),
    ("dce", |m, _| dce::run(m)),
];

/// Passes that repeat until nothing changes; none runs on what it has seen already.
const REPEAT: &[(&str, Pass)] = &[
    ("simplify", |m, _| simplify::run(m)),
    ("transposed-dot", |m, _| transposed_dot::run(m)),
    ("turned-operands", |m, _| turned_operands::run(m)),
    ("fold", |m, _| fold::run(m)),
    ("cse", |m, _| cse::run(m)),
    ("while-state", |m, _| while_state::run(m)),
    ("dce", |m, _| dce::run(m)),
    ("inline", |m, s| inline::run_within(m, &mut s.inline_budget)),
];

/// Runs the whole pipeline.
pub fn optimize(module: &mut Module, options: &PassOptions) -> Result<PipelineStats> {
    optimize_with(module, options, &mut |_, _| {})
}

/// As [`optimize`]; `observe` sees the module after each pass, with the pass's name: a hook for dumps.
pub fn optimize_with(
    module: &mut Module,
    options: &PassOptions,
    observe: &mut dyn FnMut(&str, &Module),
) -> Result<PipelineStats> {
    let mut pipeline = PipelineStats { records: Vec::with_capacity(PREPARE.len() + REPEAT.len()) };
    rewrite::sort_computations(module)?;
    let mut state = State {
        keep_entry_layouts: options.keep_entry_layouts,
        inline_budget: inline::budget(module),
        idle: Vec::new(),
    };
    for &(name, pass) in PREPARE {
        step(module, options, &mut state, &mut pipeline, observe, (name, pass))?;
    }
    for _ in 0..if options.optimize { MAX_ROUNDS } else { 0 } {
        let mut changes = 0;
        for &(name, pass) in REPEAT {
            changes += step(module, options, &mut state, &mut pipeline, observe, (name, pass))?;
        }
        if changes == 0 {
            break;
        }
    }
    Ok(pipeline)
}

fn step(
    module: &mut Module,
    options: &PassOptions,
    state: &mut State,
    pipeline: &mut PipelineStats,
    observe: &mut dyn FnMut(&str, &Module),
    (name, pass): (&'static str, Pass),
) -> Result<usize> {
    if state.idle.contains(&name) {
        return Ok(0);
    }
    let start = Instant::now();
    let stats = pass(module, state)?;
    let time = start.elapsed();
    let instructions = module.order.iter().map(|&c| module.computations[c].order.len()).sum();
    let changes = stats.changes();
    if changes > 0 {
        state.idle.clear();
    } else {
        state.idle.push(name);
    }
    observe(name, module);
    if options.verify {
        crate::shape::verify(module).map_err(|e| Error::Internal(format!("after pass {name}: {e}")))?;
    }
    pipeline.records.push(PassRecord { name, position: pipeline.records.len(), stats, time, instructions });
    Ok(changes)
}
