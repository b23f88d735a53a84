//! The kernel interpreter: what a kernel computes, one element at a time.
//!
//! **Problem.** Emitters are tested against the HLO interpreter, two rooms away: where they differ, the fault may lie in
//! fusion, lowering, a loop transformation or the machine code. What the kernel IR says must be defined without an emitter.
//!
//! **Invariant.** Every emitter, at every width, gives the bits that this interpreter gives, NaN payloads aside. It is plain
//! and slow, shares no code with code generation, and refuses what no emitter may rely on: an operation outside its domain
//! whose value is stored, folded or an offset, an index outside its buffer, a loop variable that does not run, an element that
//! is read before it is written, an output that is not written whole, two points of a parallel space that meet in one element
//! ([`memory`]).
//!
//! **Algorithm.** Nodes are evaluated in order for each element ([`Frame`]), operations by [`super::eval::operation`]. Reductions
//! follow the rule of [`super::ir::Place`]: [`nest`]. A row goes by in order, or as a [`Plan`] of it says. Sorts are the merge sort that defines them: [`sort`].

mod memory;
mod nest;
mod sort;

pub use memory::Memory;
pub use nest::{Access, Plan, Visit};

use super::body::{Body, Mem, NodeId, Op, ScalarType, Variant};
use super::eval;
use super::index::{Axis, Ix};
use super::ir::{Contraction, Kernel, Loop, Phase, Role, Stage};
use super::registers::RegisterLoop;
use crate::error::{Error, Result, Site};
use std::collections::BTreeMap;

/// What kernels share besides their buffers.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Whether multiply-add chains round once or twice a step.
    pub variant: Variant,
    /// The state of the random number generator: the seed, and the counter.
    pub random: [u64; 2],
    /// Loads, stores and iterations of loops that are left: where there are none, the run ends with an error.
    pub budget: u64,
}

/// Runs a kernel. `buffers` are the bytes of its buffers in order; those of [`Role::Update`] hold what they update.
///
/// # Errors
/// [`Error::Internal`] where the kernel breaks a rule, [`Error::Unsupported`] for calls and where the budget is spent.
pub fn run(kernel: &Kernel, machine: &mut Machine, buffers: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    run_rows(kernel, machine, buffers, &Plan::in_order)
}

/// As [`run`], but a row goes by as `rows` says of its stage: what is right of a plan of rows gives the same.
///
/// # Errors
/// As [`run`].
pub fn run_rows(
    kernel: &Kernel,
    machine: &mut Machine,
    buffers: Vec<Vec<u8>>,
    rows: &dyn Fn(&Stage) -> Plan,
) -> Result<Vec<Vec<u8>>> {
    let mut memory = Memory::new(kernel, buffers, machine.budget)?;
    for (number, phase) in kernel.phases.iter().enumerate() {
        memory.next_phase();
        let result = match phase {
            Phase::Nest(nest) => nest::run(nest, &mut memory, rows),
            Phase::Contraction(c) => contraction(c, machine.variant, &mut memory),
            Phase::Sort(s) => sort::run(s, &mut memory),
            Phase::Registers(l) => registers(l, &mut memory),
            Phase::RandomState { delta } => random_state(kernel, *delta, &mut machine.random, &mut memory),
            Phase::Call(_) => return Err(unsupported(kernel, "calls in the kernel interpreter")),
        };
        machine.budget = memory.budget();
        if machine.budget == 0 {
            return Err(unsupported(kernel, "so long a run in the kernel interpreter"));
        }
        result.map_err(|what| Error::Internal(format!("kernel '{}', phase {number}: {what}", kernel.name)))?;
    }
    memory.finish(kernel).map_err(|what| Error::Internal(format!("kernel '{}': {what}", kernel.name)))
}

fn unsupported(kernel: &Kernel, feature: &str) -> Error {
    let site = Site { instruction: Some(kernel.name.clone()), ..Site::default() };
    Error::Unsupported { site, feature: feature.to_owned() }
}

/// The loop variables that run, outermost first, and their values.
type Axes = Vec<(Axis, i64)>;

/// What is wrong with a kernel, without saying which.
type Step<T> = std::result::Result<T, String>;

/// Where a body is evaluated: the loop variables that run, and what its leaves mean.
#[derive(Default)]
struct Frame<'a> {
    axes: Axes,
    args: &'a [u64],
    /// Row buffers, and the vector axis' index at which they are read.
    rows: &'a [Vec<Option<u64>>],
    at: usize,
    /// Finished reductions.
    results: &'a [Option<u64>],
    /// Where a plan says that loads lie; the others lie at their indices.
    loads: Option<&'a BTreeMap<NodeId, Access>>,
}

impl Frame<'_> {
    /// Where an access lies at the vector axis' index; its start knows nothing of that axis, and is evaluated without it.
    fn access(&self, access: &Access, vector: Axis, values: &[Option<u64>]) -> Step<i64> {
        match access {
            Access::Index(ix) => self.index(ix, values),
            Access::Walk { start, stride } => {
                let axes = self.axes.iter().copied().filter(|(a, _)| *a != vector).collect();
                let start = Frame { axes, ..Frame::default() }.index(start, values)?;
                Ok(start + stride * self.axis(vector).ok_or("a walk without its row")?)
            }
        }
    }

    fn axis(&self, axis: Axis) -> Option<i64> {
        self.axes.iter().rev().find(|(a, _)| *a == axis).map(|(_, v)| *v)
    }

    /// The value of an index expression.
    fn index(&self, ix: &Ix, values: &[Option<u64>]) -> Step<i64> {
        let missing = std::cell::Cell::new(None);
        let axis = |a: Axis| {
            self.axis(a).unwrap_or_else(|| {
                missing.set(Some(format!("the loop i{} does not run", a.0)));
                0
            })
        };
        let loaded = |n: NodeId| {
            values.get(n.0 as usize).copied().flatten().map_or_else(
                || {
                    missing.set(Some(format!("the offset %{} has no value", n.0)));
                    0
                },
                |v| v as i64,
            )
        };
        let value = ix.eval(&axis, &loaded);
        in_bounds(ix, &loaded)?;
        match missing.take() {
            Some(what) => Err(format!("{what} in {ix}")),
            None => Ok(value),
        }
    }

    /// Evaluates the nodes of `order` into `values`.
    fn evaluate(&self, body: &Body, order: &[NodeId], memory: &Memory, values: &mut [Option<u64>]) -> Step<()> {
        for &id in order {
            let node = body.node(id);
            let value = match &node.op {
                Op::Arg(n) => *self.args.get(*n as usize).ok_or_else(|| format!("no argument {n}"))?,
                Op::Load(buffer, mem, ix) => {
                    let planned = self.loads.and_then(|loads| loads.get(&id)).zip(self.axes.last());
                    let at = match planned {
                        Some((access, (vector, _))) => self.access(access, *vector, values)?,
                        None => self.index(ix, values)?,
                    };
                    memory.load(*buffer, *mem, at)?
                }
                Op::Row(row) => {
                    let row_values = self.rows.get(*row as usize).ok_or_else(|| format!("no row{row}"))?;
                    let value = row_values.get(self.at).copied().flatten();
                    value.ok_or_else(|| format!("row{row}[{}] is read before it is written", self.at))?
                }
                Op::Result(n) => {
                    let value = self.results.get(*n as usize).copied().flatten();
                    value.ok_or_else(|| format!("result r{n} is read before it is folded"))?
                }
                Op::Index(ix) => truncate(node.scalar, self.index(ix, values)? as u64),
                _ => {
                    // Whoever stores, folds or goes by what is nothing finds that it has no value.
                    values[id.0 as usize] = eval::operation(body.nodes(), node, values);
                    continue;
                }
            };
            values[id.0 as usize] = Some(value);
        }
        Ok(())
    }
}

/// Refuses a loaded offset outside the bounds that simplification relied on.
fn in_bounds(ix: &Ix, loaded: &impl Fn(NodeId) -> i64) -> Step<()> {
    let mut wrong = None;
    ix.for_each_bounded_value(&mut |n, low, high| {
        let v = loaded(n);
        if !(low..=high).contains(&v) {
            wrong = Some(format!("the offset %{} is {v}, said to lie in {low}..={high}", n.0));
        }
    });
    wrong.map_or(Ok(()), Err)
}

fn truncate(scalar: ScalarType, bits: u64) -> u64 {
    if scalar.bits() == 32 { bits & u64::from(u32::MAX) } else { bits }
}

/// The nodes that `roots` need, in order.
fn needed(body: &Body, roots: impl IntoIterator<Item = NodeId>) -> Vec<NodeId> {
    (0..).map(NodeId).zip(body.needed(roots)).filter_map(|(id, needed)| needed.then_some(id)).collect()
}

/// A body of arguments alone, ready to be applied many times.
struct Formula<'k> {
    body: &'k Body,
    roots: &'k [NodeId],
    order: Vec<NodeId>,
}

impl<'k> Formula<'k> {
    fn new(body: &'k Body, roots: &'k [NodeId]) -> Formula<'k> {
        Formula { body, roots, order: needed(body, roots.iter().copied()) }
    }

    /// The values of the roots.
    fn of(&self, args: &[u64], memory: &Memory) -> Step<Vec<u64>> {
        let mut values = vec![None; self.body.nodes().len()];
        Frame { args, ..Frame::default() }.evaluate(self.body, &self.order, memory, &mut values)?;
        self.roots.iter().map(|&r| value(&values, r)).collect()
    }
}

fn value(values: &[Option<u64>], id: NodeId) -> Step<u64> {
    values.get(id.0 as usize).copied().flatten().ok_or_else(|| format!("%{} has no value", id.0))
}

/// Calls `visit` for every point of the loops, the last running fastest, with their variables behind those in `axes`.
fn for_each_point(loops: &[Loop], axes: &mut Axes, visit: &mut dyn FnMut(&mut Axes) -> Step<()>) -> Step<()> {
    match loops {
        [] => visit(axes),
        [first, rest @ ..] => {
            for i in 0..first.extent {
                axes.push((first.axis, i));
                for_each_point(rest, axes, visit)?;
                axes.pop();
            }
            Ok(())
        }
    }
}

fn contraction(c: &Contraction, variant: Variant, memory: &mut Memory) -> Step<()> {
    let (mem, factor) = (c.product.mem(), c.product.factor());
    let mut chain = Body::new();
    let [a, b] = [0, 1].map(|k| chain.arg(k, factor.scalar()));
    let sum = chain.arg(2, mem.scalar());
    let next = [c.product.step(&mut chain, variant, [a, b, sum])];
    let chain = Formula::new(&chain, &next);
    let mut more = Body::new();
    let blocks = [0, 1].map(|k| more.arg(k, mem.scalar()));
    let next = [c.product.sum(&mut more, blocks[0], blocks[1])];
    let more = Formula::new(&more, &next);
    let after = |before: Option<u64>, total: u64, memory: &Memory| match before {
        Some(before) => Ok(more.of(&[total, before], memory)?[0]),
        None => Step::Ok(total),
    };
    let order = needed(&c.epilogue, c.roots());
    let loops: Vec<Loop> = c.batch.iter().copied().chain([c.m, c.n]).collect();
    for_each_point(&loops, &mut Vec::new(), &mut |axes| {
        memory.next_point();
        // Of the blocks before, and of the one that runs.
        let (mut before, mut total) = (None, 0);
        for k in 0..c.k.extent {
            if k > 0 && k % c.block == 0 {
                before = Some(after(before, total, memory)?);
                total = 0;
            }
            let mut frame = Frame { axes: axes.clone(), ..Frame::default() };
            frame.axes.push((c.k.axis, k));
            let x = memory.load(c.lhs.buffer, factor, frame.index(&c.lhs.index, &[])?)?;
            let y = memory.load(c.rhs.buffer, factor, frame.index(&c.rhs.index, &[])?)?;
            total = chain.of(&[x, y, total], memory)?[0];
        }
        let args = [after(before, total, memory)?];
        let frame = Frame { axes: axes.clone(), args: &args, ..Frame::default() };
        let mut values = vec![None; c.epilogue.nodes().len()];
        frame.evaluate(&c.epilogue, &order, memory, &mut values)?;
        for s in &c.stores {
            memory.store(s.buffer, s.mem, frame.index(&s.index, &values)?, value(&values, s.value)?)?;
        }
        Ok(())
    })
}

fn registers(l: &RegisterLoop, memory: &mut Memory) -> Step<()> {
    memory.next_point();
    let conversion = |list: &[(Body, NodeId)], k: usize, v: u64, memory: &Memory| -> Step<u64> {
        let (body, root) = list.get(k).ok_or_else(|| format!("state {k} has no conversion"))?;
        Ok(Formula::new(body, &[*root]).of(&[v], memory)?[0])
    };
    let mut state = Vec::new();
    for (k, a) in l.state.iter().enumerate() {
        for i in 0..a.elements as i64 {
            let raw = memory.load(k as u32, a.mem, i)?;
            state.push(conversion(&l.decode, k, raw, memory)?);
        }
    }
    let more = [l.condition.1];
    let (more, next) = (Formula::new(&l.condition.0, &more), Formula::new(&l.body.0, &l.body.1));
    while more.of(&state, memory)?[0] != 0 {
        memory.spend()?;
        state = next.of(&state, memory)?;
    }
    let mut rest = state.into_iter();
    for (k, a) in l.state.iter().enumerate() {
        for i in 0..a.elements as i64 {
            let v = rest.next().ok_or("the state has lost an element")?;
            let raw = conversion(&l.encode, k, v, memory)?;
            memory.store((l.state.len() + k) as u32, a.mem, i, raw)?;
        }
    }
    Ok(())
}

fn random_state(kernel: &Kernel, delta: u64, seed: &mut [u64; 2], memory: &mut Memory) -> Step<()> {
    memory.next_point();
    let out = kernel.buffers.iter().position(|b| b.role == Role::Output).ok_or("no buffer for the state")?;
    for (i, &word) in seed.iter().enumerate() {
        memory.store(out as u32, Mem::I64, i as i64, word)?;
    }
    seed[1] = seed[1].wrapping_add(delta);
    Ok(())
}
