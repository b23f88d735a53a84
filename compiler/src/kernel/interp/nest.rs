//! Nests: stages one after another for each point, and what their reductions do.

use super::{Axes, Formula, Frame, Memory, Step, for_each_point, needed, value};
use crate::kernel::body::NodeId;
use crate::kernel::index::{Axis, Ix};
use crate::kernel::ir::{Accumulator, Nest, Place, Stage};
use std::collections::{BTreeMap, BTreeSet};

/// An element of a row, in the order in which they go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Its number along the vector axis.
    pub element: i64,
    /// Whether it may be the first of a lane that has no identity to start from.
    pub starts: bool,
}

/// Where a load or a store lies.
#[derive(Clone, Debug)]
pub enum Access {
    /// At an index of each element.
    Index(Ix),
    /// From a start, so many elements from one to the next.
    Walk {
        /// Where the row's first element lies, in all loops but the row's.
        start: Ix,
        /// Elements from one to the next.
        stride: i64,
    },
}

/// How a row goes by.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The elements, in the order in which they go by.
    pub visits: Vec<Visit>,
    /// Nodes that are computed at the first of them alone.
    pub once: BTreeSet<NodeId>,
    /// Where loads lie; those that are not here lie at their indices.
    pub loads: BTreeMap<NodeId, Access>,
    /// Where the stage's stores lie; `None` for one that happens at the first visit alone.
    pub stores: Vec<Option<Access>>,
}

impl Plan {
    /// Elements one after another, for each of which everything is computed and stored.
    pub fn in_order(stage: &Stage) -> Plan {
        let visits = (0..stage.vector.extent).map(|element| Visit { element, starts: true }).collect();
        let stores = stage.stores.iter().map(|s| Some(Access::Index(s.index.clone()))).collect();
        Plan { visits, once: BTreeSet::new(), loads: BTreeMap::new(), stores }
    }
}

/// What a point of the parallel space has to itself.
struct Point {
    rows: Vec<Vec<Option<u64>>>,
    results: Vec<Option<u64>>,
}

pub(super) fn run(nest: &Nest, memory: &mut Memory, rows: &dyn Fn(&Stage) -> Plan) -> Step<()> {
    let plans: Vec<Plan> = nest.stages.iter().map(rows).collect();
    let of_place = |a: &Accumulator| match &a.place {
        Place::Lanes { results } => results.iter().copied().max().map_or(0, |r| r as usize + 1),
        Place::Row { .. } => 0,
    };
    let results = nest.stages.iter().flat_map(|s| &s.accumulators).map(of_place).max().unwrap_or(0);
    for_each_point(&nest.parallel, &mut Vec::new(), &mut |axes| {
        memory.next_point();
        // A worker's row buffers hold anything when a point begins.
        let rows = nest.rows.iter().map(|r| vec![None; usize::try_from(r.elements).unwrap_or(0)]).collect();
        let mut point = Point { rows, results: vec![None; results] };
        nest.stages.iter().zip(&plans).try_for_each(|(stage, plan)| run_stage(stage, axes, &mut point, memory, plan))
    })
}

/// An accumulator while its stage runs.
enum Running {
    /// In order, from the initial value.
    Chain(Vec<u64>),
    /// Element `k` of the vector axis goes to lane `k mod W`; a lane that has no element yet is nothing.
    Lanes(Vec<Option<Vec<u64>>>),
    /// One for each element, in row buffers.
    Row,
}

fn run_stage(stage: &Stage, axes: &[(Axis, i64)], point: &mut Point, memory: &mut Memory, plan: &Plan) -> Step<()> {
    let body = &stage.body;
    let mut running = Vec::new();
    let combiners: Vec<Formula<'_>> = stage.accumulators.iter().map(|a| Formula::new(&a.combine, &a.roots)).collect();
    for a in &stage.accumulators {
        // Initial values are the same along every loop of the stage.
        let order = needed(body, a.init.iter().copied());
        let mut values = vec![None; body.nodes().len()];
        let uniform = Frame { axes: axes.to_vec(), rows: &point.rows, results: &point.results, ..Frame::default() };
        uniform.evaluate(body, &order, memory, &mut values)?;
        let init: Vec<u64> = a.init.iter().map(|&n| value(&values, n)).collect::<Step<_>>()?;
        running.push((start(stage, a, &init, point)?, init));
    }
    let (once, each): (Vec<_>, Vec<_>) = needed(body, stage.roots()).into_iter().partition(|id| plan.once.contains(id));
    if plan.stores.len() != stage.stores.len() {
        return Err("a plan of other stores".to_owned());
    }
    let mut values = vec![None; body.nodes().len()];
    let mut element = |axes: &mut Axes, (number, visit): (usize, &Visit)| {
        let at = usize::try_from(visit.element).map_err(|_| format!("no element {}", visit.element))?;
        memory.spend()?;
        let mut axes = axes.clone();
        axes.push((stage.vector.axis, visit.element));
        let loads = Some(&plan.loads);
        let here = Frame { axes, args: &[], rows: &point.rows, at, results: &point.results, loads };
        if number == 0 {
            here.evaluate(body, &once, memory, &mut values)?;
        }
        here.evaluate(body, &each, memory, &mut values)?;
        for (s, access) in stage.stores.iter().zip(&plan.stores) {
            let at = match access {
                Some(access) => here.access(access, stage.vector.axis, &values)?,
                None if number == 0 => here.index(&s.index, &values)?,
                None => continue,
            };
            memory.store(s.buffer, s.mem, at, value(&values, s.value)?)?;
        }
        for &(row, n) in &stage.row_stores {
            set_row(&mut point.rows, row, at, value(&values, n)?)?;
        }
        for ((a, combine), (running, _)) in stage.accumulators.iter().zip(&combiners).zip(&mut running) {
            let new: Vec<u64> = a.values.iter().map(|&n| value(&values, n)).collect::<Step<_>>()?;
            accumulate(a, combine, running, new, visit, point, memory)?;
        }
        Ok(())
    };
    for_each_point(&stage.sequential, &mut axes.to_vec(), &mut |axes| {
        plan.visits.iter().enumerate().try_for_each(|visit| element(axes, visit))
    })?;
    for ((a, combine), (running, init)) in stage.accumulators.iter().zip(&combiners).zip(running) {
        if let Place::Lanes { results } = &a.place {
            for (&r, v) in results.iter().zip(fold(a, combine, running, &init, memory)?) {
                point.results[r as usize] = Some(v);
            }
        }
    }
    Ok(())
}

fn set_row(rows: &mut [Vec<Option<u64>>], row: u32, at: usize, v: u64) -> Step<()> {
    let place = rows.get_mut(row as usize).and_then(|r| r.get_mut(at));
    *place.ok_or_else(|| format!("row{row} has no element {at}"))? = Some(v);
    Ok(())
}

fn start(stage: &Stage, a: &Accumulator, init: &[u64], point: &mut Point) -> Step<Running> {
    let n = stage.vector.extent;
    match &a.place {
        Place::Row { rows } => {
            for (&row, &v) in rows.iter().zip(init) {
                (0..usize::try_from(n).unwrap_or(0)).try_for_each(|at| set_row(&mut point.rows, row, at, v))?;
            }
            Ok(Running::Row)
        }
        Place::Lanes { .. } => {
            let width = a.lane_count();
            // Lanes start from the identity, or from the first elements where those fill every lane just once.
            let whole = a.identity.is_some() || (stage.sequential.is_empty() && n >= width);
            Ok(if !a.splits || !whole {
                Running::Chain(init.to_vec())
            } else {
                let lanes = n.min(width);
                Running::Lanes((0..lanes).map(|_| a.identity.clone()).collect())
            })
        }
    }
}

fn combined(combine: &Formula<'_>, old: &[u64], new: &[u64], memory: &Memory) -> Step<Vec<u64>> {
    let args: Vec<u64> = old.iter().chain(new).copied().collect();
    combine.of(&args, memory)
}

fn accumulate(
    a: &Accumulator,
    combine: &Formula<'_>,
    running: &mut Running,
    new: Vec<u64>,
    visit: &Visit,
    point: &mut Point,
    memory: &Memory,
) -> Step<()> {
    let at = visit.element as usize;
    match running {
        Running::Chain(state) => *state = combined(combine, state, &new, memory)?,
        Running::Lanes(lanes) => {
            let width = a.lane_count() as usize;
            let lane = lanes.get_mut(at % width).ok_or_else(|| format!("no lane for element {at}"))?;
            *lane = Some(match lane {
                Some(old) => combined(combine, old, &new, memory)?,
                None if visit.starts => new,
                None => return Err(format!("element {at} is the first of its lane, but starts none")),
            });
        }
        Running::Row => {
            let Place::Row { rows } = &a.place else { return Err("an accumulator lost its row".to_owned()) };
            let old = |&row: &u32| point.rows.get(row as usize).and_then(|r| r.get(at).copied()).flatten();
            let old: Option<Vec<u64>> = rows.iter().map(old).collect();
            let old = old.ok_or("an accumulator's row is not set")?;
            let out = combined(combine, &old, &new, memory)?;
            rows.iter().zip(out).try_for_each(|(&row, v)| set_row(&mut point.rows, row, at, v))?;
        }
    }
    Ok(())
}

/// Folds lanes by halves and combines the initial value.
fn fold(a: &Accumulator, combine: &Formula<'_>, running: Running, init: &[u64], memory: &Memory) -> Step<Vec<u64>> {
    let mut lanes = match running {
        Running::Chain(state) => return Ok(state),
        Running::Row => return Ok(Vec::new()),
        Running::Lanes(lanes) => lanes,
    };
    let mut half = a.lane_count() as usize / 2;
    while half >= 1 {
        for i in 0..half {
            if let Some(Some(right)) = lanes.get(i + half) {
                let left = lanes[i].as_ref().ok_or("a lane has no element")?;
                lanes[i] = Some(combined(combine, left, right, memory)?);
            }
        }
        lanes.truncate(half);
        half /= 2;
    }
    let total = lanes.first().cloned().flatten().ok_or("a reduction of nothing has no identity")?;
    combined(combine, init, &total, memory)
}
