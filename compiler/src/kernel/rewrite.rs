//! Rewriting kernels: buffers renumbered, index maps substituted.

use super::body::{Args, Body, NodeId, Op};
use super::index::{Axis, Ix};
use super::ir::{Accumulator, Contraction, Nest, Phase, Stage, Store};

/// A copy of `body` with every index map replaced by what `change` makes of it, and where each node went; `None` where a node uses one that
/// is not there.
pub fn map_indices(body: &Body, change: &impl Fn(&Ix) -> Ix) -> Option<(Body, Vec<NodeId>)> {
    map_body(body, &|op| op.map_index(change))
}

fn map_body(body: &Body, change: &impl Fn(&Op) -> Op) -> Option<(Body, Vec<NodeId>)> {
    let mut out = Body::sized(body.nodes().len());
    let all = vec![true; body.nodes().len()];
    let places = copy(&mut out, body, &all, &|op| Copied::Op(change(op)))?;
    Some((out, places.into_iter().collect::<Option<_>>()?))
}

/// What becomes of a node that is copied.
pub enum Copied {
    /// This operation on copies of its arguments.
    Op(Op),
    /// A node that the new body has already.
    Node(NodeId),
    /// The new body has nothing like it: there is no copy.
    Missing,
}

/// Copies the nodes of `body` that are `wanted` to the end of `out`, and says where each went; `None` where one uses a node that is not wanted.
pub fn copy(
    out: &mut Body,
    body: &Body,
    wanted: &[bool],
    change: &impl Fn(&Op) -> Copied,
) -> Option<Vec<Option<NodeId>>> {
    copy_nodes(out, body, wanted, &|_, op| change(op))
}

/// As [`copy`], where what becomes of a node may depend on which it is.
pub fn copy_nodes(
    out: &mut Body,
    body: &Body,
    wanted: &[bool],
    change: &impl Fn(NodeId, &Op) -> Copied,
) -> Option<Vec<Option<NodeId>>> {
    let mut places: Vec<Option<NodeId>> = Vec::with_capacity(body.nodes().len());
    for ((id, node), wanted) in (0..).map(NodeId).zip(body.nodes()).zip(wanted) {
        if !wanted {
            places.push(None);
            continue;
        }
        let op = match change(id, &node.op) {
            Copied::Node(n) => {
                places.push(Some(n));
                continue;
            }
            Copied::Op(op) => op,
            Copied::Missing => return None,
        };
        let op = match op.index().filter(|ix| ix.has_values()) {
            Some(ix) => {
                let ix = moved_index(ix, out, &places)?;
                op.map_index(|_| ix.clone())
            }
            None => op,
        };
        let mut args = Args::from_slice(&node.args);
        for a in &mut args {
            *a = place(&places, *a)?;
        }
        places.push(Some(out.push_of(body.source(id), op, &args, node.scalar)));
    }
    Some(places)
}

/// An index whose loaded offsets have been copied to `body`; `None` where one has not.
fn moved_index(ix: &Ix, body: &Body, places: &[Option<NodeId>]) -> Option<Ix> {
    let mut known = true;
    ix.for_each_value(&mut |n| known &= place(places, n).is_some());
    let moved = |n, low, high| body.offset(place(places, n).unwrap_or(n), low, high);
    known.then(|| ix.replace_values(&moved))
}

/// Where a copied node went.
pub fn place(places: &[Option<NodeId>], node: NodeId) -> Option<NodeId> {
    places.get(node.0 as usize).copied().flatten()
}

/// The store of a copied node, at what `change` makes of its index map.
pub fn copied_store(
    store: &Store,
    body: &Body,
    places: &[Option<NodeId>],
    change: impl FnOnce(&Ix) -> Ix,
) -> Option<Store> {
    let index = moved_index(&change(&store.index), body, places)?;
    Some(Store { index, value: place(places, store.value)?, ..store.clone() })
}

/// Calls `change` for every buffer number of a phase; `None` where its bodies are not whole.
pub fn for_each_buffer(phase: &mut Phase, change: &impl Fn(&mut u32)) -> Option<()> {
    let in_body = |body: &mut Body| -> Option<Vec<NodeId>> {
        let (new, places) = map_body(body, &|op| match op {
            Op::Load(buffer, mem, ix) => {
                let mut buffer = *buffer;
                change(&mut buffer);
                Op::Load(buffer, *mem, ix.clone())
            }
            other => other.clone(),
        })?;
        *body = new;
        Some(places)
    };
    match phase {
        Phase::Nest(nest) => {
            for stage in &mut nest.stages {
                let places = in_body(&mut stage.body)?;
                move_nodes(stage, &places);
                stage.stores.iter_mut().for_each(|s| change(&mut s.buffer));
            }
        }
        // Its buffers are numbered by position.
        Phase::Registers(_) | Phase::Call(_) | Phase::RandomState { .. } => {}
        Phase::Contraction(c) => {
            let places = in_body(&mut c.epilogue)?;
            move_stores(c, &places);
            c.stores.iter_mut().for_each(|s| change(&mut s.buffer));
            change(&mut c.lhs.buffer);
            change(&mut c.rhs.buffer);
            if let Some(subnormal) = &mut c.subnormal {
                change(subnormal);
            }
        }
        Phase::Sort(sort) => {
            let places = in_body(&mut sort.load)?;
            for operand in &mut sort.operands {
                operand.value = places[operand.value.0 as usize];
                if let Some((buffer, _)) = &mut operand.store {
                    change(buffer);
                }
            }
        }
    }
    Some(())
}

fn move_stores(c: &mut Contraction, places: &[NodeId]) {
    c.stores.iter_mut().for_each(|s| s.value = places[s.value.0 as usize]);
}

/// Renames the nodes that a stage refers to.
fn move_nodes(stage: &mut Stage, places: &[NodeId]) {
    let at = |n: &mut NodeId| *n = places[n.0 as usize];
    for s in &mut stage.stores {
        at(&mut s.value);
        s.index = s.index.replace_values(&|n, low, high| stage.body.offset(places[n.0 as usize], low, high));
    }
    stage.row_stores.iter_mut().for_each(|(_, n)| at(n));
    for a in &mut stage.accumulators {
        let Accumulator { init, values, .. } = a;
        init.iter_mut().chain(values).for_each(at);
    }
}

/// Every index map of a nest.
pub fn indices(nest: &Nest) -> impl Iterator<Item = &Ix> {
    nest.stages.iter().flat_map(|stage| {
        let loads = stage.body.nodes().iter().filter_map(|n| n.op.index());
        loads.chain(stage.stores.iter().map(|s| &s.index))
    })
}

/// The nest with other indices for axes, in every index map; `None` where its bodies are not whole.
pub fn substitute(nest: &Nest, replace: &impl Fn(Axis) -> Option<Ix>) -> Option<Nest> {
    let of_stage = |stage: &Stage| {
        let (body, places) = map_indices(&stage.body, &|ix| ix.substitute(replace))?;
        // Before offsets become what the new body says of them, whose axes are replaced already.
        let stores = stage.stores.iter().map(|s| Store { index: s.index.substitute(replace), ..s.clone() }).collect();
        let mut new = Stage {
            accumulators: stage.accumulators.clone(),
            stores,
            row_stores: stage.row_stores.clone(),
            regroups: stage.regroups,
            streams: stage.streams,
            ..Stage::new(stage.sequential.clone(), stage.vector, body)
        };
        move_nodes(&mut new, &places);
        Some(new)
    };
    let stages = nest.stages.iter().map(of_stage).collect::<Option<_>>()?;
    Some(Nest { parallel: nest.parallel.clone(), rows: nest.rows.clone(), stages })
}
