//! Simplification of kernels: neighbouring loops become one where every index map allows it.

use super::body::{Mem, Op};
use super::index::{Axis, Ix};
use super::ir::{Kernel, Loop, Nest, Phase, Place, Role, Store};
use super::rewrite::{indices, substitute};
use hashbrown::HashMap;

/// Merges neighbouring parallel loops; the last parallel loop with the vector loop where the nest is elementwise; the
/// last sequential loop with the vector loop where both are folded.
pub fn merge_loops(kernel: &mut Kernel) {
    for phase in &mut kernel.phases {
        if let Phase::Nest(nest) = phase {
            drop_single(nest);
            merge_parallel(nest);
            merge_with_vector(nest);
            merge_sequential(nest);
        }
    }
}

fn drop_single(nest: &mut Nest) {
    nest.parallel.retain(|l| l.extent != 1);
    for stage in &mut nest.stages {
        stage.sequential.retain(|l| l.extent != 1);
    }
}

/// One loop instead of `outer` and `inner`, and the nest whose index maps have it, where no map is left with a division or remainder that
/// was not there before.
fn try_merge(nest: &Nest, outer: Loop, inner: Loop) -> Option<(Loop, Nest)> {
    let extent = outer.extent.checked_mul(inner.extent)?;
    let merged = Loop { axis: inner.axis, extent };
    let whole = merged.ix();
    let (high, low) = (whole.div(inner.extent), whole.rem(inner.extent));
    let replace = |a: Axis| replacement(a, outer.axis, inner.axis, &high, &low);
    let fits = indices(nest)
        .filter(|ix| ix.mentions(outer.axis) || ix.mentions(inner.axis))
        .all(|ix| ix.substitute(&replace).stride(merged.axis).is_some());
    if fits { Some((merged, substitute(nest, &replace)?)) } else { None }
}

fn replacement(a: Axis, outer: Axis, inner: Axis, high: &Ix, low: &Ix) -> Option<Ix> {
    if a == outer {
        Some(high.clone())
    } else if a == inner {
        Some(low.clone())
    } else {
        None
    }
}

fn merge_parallel(nest: &mut Nest) {
    let mut i = 0;
    while i + 1 < nest.parallel.len() {
        let (outer, inner) = (nest.parallel[i], nest.parallel[i + 1]);
        match try_merge(nest, outer, inner) {
            Some((merged, new)) => {
                *nest = new;
                nest.parallel[i] = merged;
                nest.parallel.remove(i + 1);
                i = i.saturating_sub(1);
            }
            None => i += 1,
        }
    }
}

fn merge_with_vector(nest: &mut Nest) {
    loop {
        let [stage] = nest.stages.as_slice() else { return };
        let plain = stage.accumulators.is_empty() && stage.row_stores.is_empty() && stage.sequential.is_empty();
        let (true, Some(&outer)) = (plain, nest.parallel.last()) else { return };
        let inner = stage.vector;
        let Some((merged, new)) = try_merge(nest, outer, inner) else { return };
        *nest = new;
        nest.parallel.pop();
        nest.stages[0].vector = merged;
    }
}

fn merge_sequential(nest: &mut Nest) {
    let [first, ..] = nest.stages.as_slice() else { return };
    let folded = first.accumulators.iter().all(|a| matches!(a.place, Place::Lanes { .. }))
        && first.stores.is_empty()
        && first.row_stores.is_empty();
    if !folded {
        return;
    }
    while let Some(&outer) = nest.stages[0].sequential.last() {
        let inner = nest.stages[0].vector;
        // A row that a later stage runs over again keeps its own loop.
        let shared = nest.stages[1..].iter().any(|s| s.vector.axis == inner.axis);
        let Some((merged, new)) = (if shared { None } else { try_merge(nest, outer, inner) }) else { return };
        *nest = new;
        nest.stages[0].sequential.pop();
        nest.stages[0].vector = merged;
    }
}

/// Leaves the copies of an update or scatter to buffer assignment, where its last phase reads nothing of the array that
/// it changes: all phases but the last copy one operand each.
pub fn leave_copies(kernel: &mut Kernel) {
    let Some((Phase::Nest(update), copies)) = kernel.phases.split_last() else { return };
    let read = |input: u32| {
        update.stages.iter().any(|s| s.body.nodes().iter().any(|n| matches!(&n.op, Op::Load(b, _, _) if *b == input)))
    };
    let found: Vec<Option<(u32, u32)>> =
        copies.iter().map(|copy| copied(kernel, copy).filter(|(_, input)| !read(*input))).collect();
    for (output, input) in found.iter().flatten() {
        kernel.buffers[*output as usize].role = Role::Update { of: *input };
    }
    let mut left = found.into_iter();
    kernel.phases.retain(|_| left.next().flatten().is_none());
}

/// The output and the input of a phase that stores what it loads, element by element.
fn copied(kernel: &Kernel, phase: &Phase) -> Option<(u32, u32)> {
    let Phase::Nest(nest) = phase else { return None };
    let [stage] = nest.stages.as_slice() else { return None };
    let first = stage.stores.first()?;
    // The value stored is a load of the same element, whatever conversions the element type asks for; each part of a
    // complex number is an element.
    let loads: Vec<(u32, &Ix)> = stage
        .body
        .nodes()
        .iter()
        .filter_map(|n| match &n.op {
            Op::Load(b, _, ix) => Some((*b, ix)),
            _ => None,
        })
        .collect();
    let (input, _) = *loads.first()?;
    let pairs = loads.len() == stage.stores.len()
        && stage.stores.iter().zip(&loads).all(|(s, (b, ix))| {
            let own = stage.stores.len() == 1 || matches!(&stage.body.node(s.value).op, Op::Load(_, _, i) if i == *ix);
            own && s.buffer == first.buffer && *b == input && **ix == s.index
        });
    let same = kernel.buffers.get(input as usize)?.ty == kernel.buffers.get(first.buffer as usize)?.ty;
    let plain = pairs && stage.body.nodes().iter().all(|n| !matches!(n.op, Op::Index(_)));
    (same && plain).then_some((first.buffer, input))
}

/// Whether two stores are those of the parts of one complex number, so that no other element's parts lie there.
fn are_parts(a: &Ix, b: &Ix) -> bool {
    let even = a.constant % 2 == 0 && a.terms.iter().all(|(_, c)| c % 2 == 0);
    even && *b == a.offset(1)
}

/// Pairs (output, input) that may be the same memory: the kernel has nests alone, one of which loads the input, before any other
/// stores the output, and in it every load of the input has the very index of a store to the output, in the same stage or an
/// earlier one.
pub fn in_place_pairs(kernel: &Kernel) -> Vec<(u32, u32)> {
    let nests = kernel.phases.iter().map(|phase| match phase {
        Phase::Nest(nest) => Some(nest),
        _ => None,
    });
    let Some(nests) = nests.collect::<Option<Vec<&Nest>>>() else { return Vec::new() };
    let accesses = Accesses::of(&nests);
    let of_role = |role: Role| (0u32..).zip(&kernel.buffers).filter(move |(_, b)| b.role == role);
    let mut pairs = Vec::new();
    for (o, out) in of_role(Role::Output) {
        let Some(stores) = accesses.stores.get(&o) else { continue };
        for (i, input) in of_role(Role::Input) {
            let same_size = input.elements == out.elements && input.ty.byte_size() == out.ty.byte_size();
            let loads = accesses.loads.get(&i).map(Vec::as_slice).unwrap_or_default();
            if same_size && is_read_before_written(stores, loads) {
                pairs.push((o, i));
            }
        }
    }
    pairs
}

/// An access, with the number of its nest and of its stage there.
type At<T> = ((usize, usize), T);

/// What nests load and store, by buffer, in their order.
#[derive(Default)]
struct Accesses<'k> {
    loads: HashMap<u32, Vec<At<(Mem, &'k Ix)>>>,
    stores: HashMap<u32, Vec<At<&'k Store>>>,
}

impl<'k> Accesses<'k> {
    fn of(nests: &[&'k Nest]) -> Accesses<'k> {
        let mut all = Accesses::default();
        let stages = nests
            .iter()
            .enumerate()
            .flat_map(|(n, nest)| nest.stages.iter().enumerate().map(move |(s, x)| ((n, s), x)));
        for (at, stage) in stages {
            for node in stage.body.nodes() {
                if let Op::Load(buffer, mem, ix) = &node.op {
                    all.loads.entry(*buffer).or_default().push((at, (*mem, ix)));
                }
            }
            for store in &stage.stores {
                all.stores.entry(store.buffer).or_default().push((at, store));
            }
        }
        all
    }
}

/// Whether each element of an input, loaded so, is loaded no later than the element in its place of an output, stored so.
fn is_read_before_written(stores: &[At<&Store>], loads: &[At<(Mem, &Ix)>]) -> bool {
    let Some(&((nest, _), _)) = stores.first() else { return false };
    let first = stores.iter().take_while(|((n, _), _)| *n == nest);
    let stores: Vec<(usize, &Store)> = first.map(|&((_, stage), store)| (stage, store)).collect();
    let stage = match stores.as_slice() {
        [(stage, _)] => *stage,
        [(stage, a), (other, b)] if stage == other && are_parts(&a.index, &b.index) => *stage,
        // What waits in the output for a later stage.
        [(stage, first), rest @ ..] if rest.iter().all(|(s, x)| s > stage && x.index == first.index) => *stage,
        _ => return false,
    };
    let own = |mem: Mem, ix: &Ix| stores.iter().any(|(_, s)| s.index == *ix && s.mem.bytes() == mem.bytes());
    loads.iter().all(|&((n, s), (mem, ix))| n == nest && s <= stage && own(mem, ix))
}
