//! The verifier of kernels.
//!
//! **Problem.** Lowering, the transformations of loops and whoever writes a kernel by hand may leave an index out of its
//! buffer, a value without a definition, a reduction without its lanes; an emitter would turn that into machine code.
//!
//! **Invariant.** What passes here can be emitted: every operation has the arguments and scalar types that it takes, every node is
//! defined before it is used, every loop variable runs where it is mentioned, every index is inside its buffer whatever the
//! input, bounds of loaded offsets follow from the nodes that clamp them, row buffers and results are written before they are
//! read, inputs are only read and outputs are written whole; each parallel loop leads to other elements. It runs on every kernel of every compilation.
//!
//! **Algorithm.** One walk in the order of execution, with what is written so far ([`cover`](super::cover)). [`nodes`] knows the types of
//! operations, [`bounds`] proves ranges. A rule has a name, which its error and its test cite.

mod bounds;
mod nodes;
#[cfg(test)]
mod tests;

use self::bounds::in_range;
use super::body::{Body, Mem, NodeId, Op, ScalarType};
use super::cover::Cover;
use super::index::{Axis, Ix};
use super::ir::{Accumulator, Contraction, Kernel, Loop, Nest, Phase, Place, Product, Role, Stage};
use super::registers::RegisterLoop;
use super::sort::Sort;
use crate::error::{Error, Result};
use hashbrown::{HashMap, HashSet};
use nodes::{Leaves, check_body};

/// What is wrong: the rule that is broken, and where.
#[derive(Debug, PartialEq, Eq)]
struct Broken {
    rule: &'static str,
    what: String,
}

type Check<T> = std::result::Result<T, Broken>;

fn broken<T>(rule: &'static str, what: impl Into<String>) -> Check<T> {
    Err(Broken { rule, what: what.into() })
}

fn require(holds: bool, rule: &'static str, what: impl FnOnce() -> String) -> Check<()> {
    if holds { Ok(()) } else { broken(rule, what()) }
}

/// Checks a kernel.
///
/// # Errors
/// [`Error::Internal`] with the rule that is broken.
pub fn verify(kernel: &Kernel) -> Result<()> {
    check(kernel)
        .map_err(|b| Error::Internal(format!("kernel '{}' breaks the rule {}: {}", kernel.name, b.rule, b.what)))
}

fn check(kernel: &Kernel) -> Check<()> {
    let mut state = State { kernel, written: HashMap::new() };
    for (n, b) in kernel.buffers.iter().enumerate() {
        if let Role::Update { of } = b.role {
            let source = kernel.buffers.get(of as usize);
            let same = source.is_some_and(|s| s.role == Role::Input && s.ty == b.ty && s.elements == b.elements);
            require(same, "kernel.update", || {
                format!("buffer {n} updates buffer {of}, which is no input of its size")
            })?;
            state.written.insert(n as u32, Cover::unknown());
        }
    }
    for &(out, input) in &kernel.in_place {
        let pair = kernel.buffers.get(out as usize).zip(kernel.buffers.get(input as usize));
        let fits = pair.is_some_and(|(o, i)| {
            o.role == Role::Output
                && i.role == Role::Input
                && o.elements * o.ty.byte_size() == i.elements * i.ty.byte_size()
        });
        require(fits, "kernel.in-place", || format!("buffers {out} and {input} cannot be one memory"))?;
    }
    let alone = kernel.phases.len() == 1;
    for phase in &kernel.phases {
        match phase {
            Phase::Nest(nest) => state.nest(nest)?,
            Phase::Contraction(c) => state.contraction(c)?,
            Phase::Sort(s) => state.sort(s)?,
            Phase::Registers(l) => {
                require(alone, "kernel.phases", || "a loop in registers beside other phases".to_owned())?;
                state.registers(l)?;
            }
            Phase::Call(_) => {
                require(alone, "kernel.phases", || "a call beside other phases".to_owned())?;
                state.all_outputs();
            }
            Phase::RandomState { .. } => {
                require(alone, "kernel.phases", || "a random state beside other phases".to_owned())?;
                let words = |b: &super::ir::Buffer| b.role == Role::Output && b.elements * b.ty.byte_size() == 16;
                let fits = kernel.buffers.iter().filter(|b| words(b)).count() == 1 && kernel.buffers.len() == 1;
                require(fits, "kernel.random-state", || "a random state is one output of two words".to_owned())?;
                state.all_outputs();
            }
        }
    }
    state.whole()
}

/// What has happened so far.
struct State<'a> {
    kernel: &'a Kernel,
    /// Buffers besides the inputs that hold something, and what of them is written.
    written: HashMap<u32, Cover>,
}

/// The loops that run at some place.
type Scope = Vec<Loop>;

fn scope_of<'a>(groups: impl IntoIterator<Item = &'a [Loop]>) -> Check<Scope> {
    let mut seen: HashSet<Axis> = HashSet::new();
    let mut out = Scope::new();
    for l in groups.into_iter().flatten() {
        require(l.extent >= 1, "kernel.extent", || format!("the loop {l} has no element"))?;
        require(seen.insert(l.axis), "kernel.axis", || format!("the loop i{} runs inside itself", l.axis.0))?;
        out.push(*l);
    }
    Ok(out)
}

impl State<'_> {
    /// Every byte of what callers or later phases may read is written, as far as stores have linear indices.
    fn whole(mut self) -> Check<()> {
        for (n, b) in (0u32..).zip(&self.kernel.buffers) {
            let cover = self.written.remove(&n);
            // A contraction uses scratch for sums of its own.
            let cover = match b.role {
                Role::Input | Role::Update { .. } => continue,
                Role::Output => cover.unwrap_or_default(),
                Role::Scratch => cover.unwrap_or_else(Cover::unknown),
            };
            let bytes = b.bytes();
            if let Some(at) = cover.first_missing(bytes) {
                return broken("kernel.output", format!("of {bytes} bytes of buffer {n}, byte {at} is never written"));
            }
        }
        Ok(())
    }

    fn all_outputs(&mut self) {
        let outputs = (0u32..).zip(&self.kernel.buffers).filter(|(_, b)| b.role != Role::Input);
        self.written.extend(outputs.map(|(n, _)| (n, Cover::unknown())));
    }

    /// Elements of a form that a buffer holds.
    fn capacity(&self, buffer: u32, mem: Mem) -> Check<i64> {
        let b = self.kernel.buffers.get(buffer as usize);
        let Some(b) = b else { return broken("kernel.buffer", format!("there is no buffer {buffer}")) };
        Ok(b.bytes() / mem.bytes())
    }

    /// An index into a buffer, in the given loops.
    fn index(&self, buffer: u32, mem: Mem, ix: &Ix, scope: &Scope, body: &Body) -> Check<()> {
        let capacity = self.capacity(buffer, mem)?;
        bounds::check_scope(ix, scope, body)?;
        require(in_range(ix, 0, capacity - 1), "kernel.index", || {
            let (low, high) = ix.range();
            format!("the offset {ix} lies in {low}..={high}, buffer {buffer} has {capacity} elements")
        })
    }

    fn readable(&self, buffer: u32) -> Check<()> {
        let input = self.kernel.buffers.get(buffer as usize).is_some_and(|b| b.role == Role::Input);
        require(input || self.written.contains_key(&buffer), "kernel.role", || {
            format!("buffer {buffer} is read before it is written")
        })
    }

    fn writable(&self, buffer: u32) -> Check<()> {
        let input = self.kernel.buffers.get(buffer as usize).is_none_or(|b| b.role == Role::Input);
        require(!input, "kernel.role", || format!("buffer {buffer} is an input and is written"))
    }

    /// Every load of `body` that `roots` need.
    fn loads(&self, body: &Body, needed: &[bool], scope: &Scope) -> Check<()> {
        for node in body.nodes().iter().zip(needed).filter(|(_, n)| **n).map(|(node, _)| node) {
            match &node.op {
                Op::Load(buffer, mem, ix) => {
                    self.readable(*buffer)?;
                    self.index(*buffer, *mem, ix, scope, body)?;
                }
                Op::Index(ix) => bounds::check_scope(ix, scope, body)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn stores(&mut self, stores: &[super::ir::Store], body: &Body, scope: &Scope) -> Check<()> {
        for s in stores {
            self.writable(s.buffer)?;
            self.index(s.buffer, s.mem, &s.index, scope, body)?;
            let scalar = body.nodes().get(s.value.0 as usize).map(|n| n.scalar);
            require(scalar == Some(s.mem.scalar()), "kernel.type", || {
                format!("%{} is stored as {}", s.value.0, s.mem)
            })?;
            self.written.entry(s.buffer).or_default().add(&s.index, s.mem, scope);
        }
        Ok(())
    }

    fn nest(&mut self, nest: &Nest) -> Check<()> {
        // Of each row buffer, how many elements are set; of each result, its scalar type.
        let mut rows: Vec<Option<i64>> = vec![None; nest.rows.len()];
        let mut results: Vec<Option<ScalarType>> = Vec::new();
        for (number, stage) in nest.stages.iter().enumerate() {
            self.stage(nest, stage, &mut rows, &mut results)
                .map_err(|b| Broken { what: format!("stage {number}: {}", b.what), ..b })?;
        }
        Ok(())
    }

    fn stage(
        &mut self,
        nest: &Nest,
        stage: &Stage,
        rows: &mut [Option<i64>],
        results: &mut Vec<Option<ScalarType>>,
    ) -> Check<()> {
        let n = stage.vector.extent;
        let outside = scope_of([&nest.parallel[..]])?;
        let scope = scope_of([&nest.parallel[..], &stage.sequential, std::slice::from_ref(&stage.vector)])?;
        for a in &stage.accumulators {
            if let Place::Row { rows: numbers } = &a.place {
                for &row in numbers {
                    set_row(nest, rows, row, n)?;
                }
            }
        }
        let row_type = |row: u32| -> Check<ScalarType> {
            let buffer = nest.rows.get(row as usize);
            let Some(buffer) = buffer else { return broken("kernel.row", format!("there is no row{row}")) };
            let set = rows.get(row as usize).copied().flatten().unwrap_or(0);
            require(set >= n, "kernel.row", || format!("{n} elements of row{row} are read, {set} are written"))?;
            Ok(buffer.scalar)
        };
        let result_type = |r: u32| -> Check<ScalarType> {
            let scalar = results.get(r as usize).copied().flatten();
            scalar.map_or_else(|| broken("kernel.result", format!("r{r} is read before it is folded")), Ok)
        };
        let leaves = Leaves { args: &[], row: &row_type, result: &result_type };
        let body = &stage.body;
        let inits: Vec<NodeId> = stage.accumulators.iter().flat_map(|a| a.init.iter().copied()).collect();
        let needed = check_body(body, &inits, &leaves)?;
        // Initial values are the same along every loop of the stage, and there is no element of a row.
        self.loads(body, &needed, &outside)?;
        let in_row = body.nodes().iter().zip(&needed).any(|(node, n)| *n && matches!(node.op, Op::Row(_)));
        require(!in_row, "kernel.init", || "an initial value is read from a row".to_owned())?;
        let needed = check_body(body, &stage.roots(), &leaves)?;
        self.loads(body, &needed, &scope)?;
        stage.stores.iter().try_for_each(|s| apart(&s.index, &nest.parallel))?;
        self.stores(&stage.stores, body, &scope)?;
        for &(row, node) in &stage.row_stores {
            let scalar = nest.rows.get(row as usize).map(|r| r.scalar);
            require(scalar == Some(body.scalar(node)), "kernel.type", || format!("%{} is stored in row{row}", node.0))?;
        }
        let running = || stage.running().is_some_and(|all| !all.is_empty()) && stage.accumulators.is_empty();
        require(!stage.regroups || running(), "kernel.running", || {
            "a row holds more than a running value of elements".to_owned()
        })?;
        require(!stage.streams || stage.writes_lines(), "kernel.stream", || {
            "what goes past the caches is not whole lines".to_owned()
        })?;
        for a in &stage.accumulators {
            accumulator(nest, body, a)?;
        }
        for &(row, _) in &stage.row_stores {
            set_row(nest, rows, row, n)?;
        }
        for a in &stage.accumulators {
            if let Place::Lanes { results: numbers } = &a.place {
                for (&r, scalar) in numbers.iter().zip(a.types()) {
                    let r = r as usize;
                    results.resize(results.len().max(r + 1), None);
                    require(results[r].is_none(), "kernel.result", || format!("r{r} is folded twice"))?;
                    results[r] = Some(scalar);
                }
            }
        }
        Ok(())
    }

    fn contraction(&mut self, c: &Contraction) -> Check<()> {
        let mem = c.product.mem();
        let scope_with = |loops: &[Loop]| scope_of([&c.batch[..], loops]);
        scope_with(&[c.m, c.n, c.k])?;
        require((1..=c.k.extent).contains(&c.block), "kernel.contraction", || {
            format!("{} steps are no block of {}", c.block, c.k)
        })?;
        let empty = Body::new();
        for (panel, loops) in [(&c.lhs, [c.m, c.k]), (&c.rhs, [c.k, c.n])] {
            self.readable(panel.buffer)?;
            self.index(panel.buffer, c.product.factor(), &panel.index, &scope_with(&loops)?, &empty)?;
        }
        let scope = scope_with(&[c.m, c.n])?;
        let args = [mem.scalar()];
        let needed = check_body(&c.epilogue, &c.roots(), &Leaves { args: &args, ..Leaves::none() })?;
        self.loads(&c.epilogue, &needed, &scope)?;
        self.stores(&c.stores, &c.epilogue, &scope)?;
        require(c.subnormal.is_some() == (c.product == Product::Bf16), "kernel.contraction", || {
            format!("nothing, or something, says where sums of {} are subnormal", c.product)
        })?;
        if let Some(subnormal) = c.subnormal {
            self.readable(subnormal)?;
            self.index(subnormal, Mem::I32, &Ix::constant(0), &scope_with(&[])?, &empty)?;
        }
        Ok(())
    }

    fn sort(&mut self, s: &Sort) -> Check<()> {
        let scope = scope_of([&s.parallel[..], std::slice::from_ref(&s.row)])?;
        let roots: Vec<NodeId> = s.operands.iter().map(|o| o.value).collect();
        let needed = check_body(&s.load, &roots, &Leaves::none())?;
        self.loads(&s.load, &needed, &scope)?;
        require((0..=s.row.extent).contains(&s.keep), "kernel.sort", || format!("{} elements are kept", s.keep))?;
        let kept = Loop { axis: s.row.axis, extent: s.keep.max(1) };
        let stored = scope_of([&s.parallel[..], &[kept]])?;
        for (k, o) in s.operands.iter().enumerate() {
            let scalar = s.load.scalar(o.value);
            require(scalar == o.mem.scalar(), "kernel.type", || {
                format!("operand {k} is {scalar}, stored as {}", o.mem)
            })?;
            if let Some((buffer, ix)) = &o.store {
                self.writable(*buffer)?;
                let ix = ix.substitute(&|a| (a == kept.axis).then(|| kept.ix()));
                self.index(*buffer, o.mem, &ix, &stored, &s.load)?;
                apart(&ix, &s.parallel)?;
                self.written.entry(*buffer).or_default().add(&ix, o.mem, &stored);
            }
        }
        let pairs: Vec<ScalarType> = s.operands.iter().flat_map(|o| [o.mem.scalar(); 2]).collect();
        check_body(&s.comparator, &[s.before], &Leaves { args: &pairs, ..Leaves::none() })?;
        require(s.comparator.scalar(s.before).is_mask(), "kernel.type", || "a comparator yields a mask".to_owned())?;
        if let Some(key) = &s.key {
            let scalars: Vec<ScalarType> = s.operands.iter().map(|o| o.mem.scalar()).collect();
            let roots: Vec<NodeId> = key.unordered.into_iter().chain([key.root]).collect();
            check_body(&key.body, &roots, &Leaves { args: &scalars, ..Leaves::none() })?;
            let scalar = key.body.scalar(key.root);
            let integer = scalar == scalar.integer() && key.bits <= scalar.bits();
            let masked = key.unordered.is_none_or(|n| key.body.scalar(n).is_mask());
            require(integer && masked, "kernel.sort", || "a key is an integer".to_owned())?;
        }
        Ok(())
    }

    fn registers(&mut self, l: &RegisterLoop) -> Check<()> {
        let n = l.state.len();
        let counts = (l.decode.len(), l.encode.len(), self.kernel.buffers.len());
        require(counts == (n, n, 2 * n), "kernel.registers", || format!("{n} arrays of state, {counts:?}"))?;
        let mut scalars = Vec::new();
        for (k, a) in l.state.iter().enumerate() {
            for (buffer, role) in [(k, Role::Input), (n + k, Role::Output)] {
                let b = &self.kernel.buffers[buffer];
                let fits = b.role == role && self.capacity(buffer as u32, a.mem)? >= a.elements as i64;
                require(fits, "kernel.registers", || format!("buffer {buffer} does not hold state {k}"))?;
            }
            let (decode, value) = &l.decode[k];
            check_body(decode, &[*value], &Leaves { args: &[a.mem.scalar()], ..Leaves::none() })?;
            let scalar = decode.scalar(*value);
            let (encode, raw) = &l.encode[k];
            check_body(encode, &[*raw], &Leaves { args: &[scalar], ..Leaves::none() })?;
            require(encode.scalar(*raw) == a.mem.scalar(), "kernel.type", || {
                format!("state {k} is stored as {}", a.mem)
            })?;
            scalars.extend(std::iter::repeat_n(scalar, a.elements));
        }
        let leaves = Leaves { args: &scalars, ..Leaves::none() };
        check_body(&l.condition.0, &[l.condition.1], &leaves)?;
        let mask = l.condition.0.scalar(l.condition.1).is_mask();
        require(mask, "kernel.type", || "a loop's condition is a mask".to_owned())?;
        check_body(&l.body.0, &l.body.1, &leaves)?;
        let next: Vec<ScalarType> = l.body.1.iter().map(|&r| l.body.0.scalar(r)).collect();
        require(next == scalars, "kernel.registers", || {
            "the next state has other scalar types than the state".to_owned()
        })?;
        self.all_outputs();
        Ok(())
    }
}

/// Points of a parallel space, which run at the same time, store elements of their own: each of its loops leads elsewhere.
fn apart(ix: &Ix, parallel: &[Loop]) -> Check<()> {
    let same = parallel.iter().find(|l| l.extent > 1 && !ix.mentions(l.axis)).filter(|_| !ix.has_values());
    require(same.is_none(), "kernel.race", || {
        format!("all points along i{} store at {ix}", same.map_or(0, |l| l.axis.0))
    })
}

fn set_row(nest: &Nest, rows: &mut [Option<i64>], row: u32, n: i64) -> Check<()> {
    let room = nest.rows.get(row as usize).map_or(0, |r| r.elements);
    require(n <= room, "kernel.row", || format!("{n} elements are written to row{row} of {room}"))?;
    if let Some(set) = rows.get_mut(row as usize) {
        *set = Some(set.unwrap_or(0).max(n));
    }
    Ok(())
}

/// An accumulator: as many initial values, roots and places as it has components, of the same scalar types.
fn accumulator(nest: &Nest, body: &Body, a: &Accumulator) -> Check<()> {
    let n = a.init.len();
    let places = match &a.place {
        Place::Lanes { results } => results.len(),
        Place::Row { rows } => rows.len(),
    };
    let counts = (a.roots.len(), places, a.identity.as_ref().map_or(n, Vec::len));
    require(n > 0 && counts == (n, n, n), "kernel.accumulator", || format!("{n} components, {counts:?} of the rest"))?;
    let args: Vec<ScalarType> = a.init.iter().chain(&a.values).map(|&v| body.scalar(v)).collect();
    check_body(&a.combine, &a.roots, &Leaves { args: &args, ..Leaves::none() })?;
    require(a.types().eq(args[..n].iter().copied()), "kernel.accumulator", || {
        "a combiner yields other scalar types than it is given".to_owned()
    })?;
    // Two partial results combine like a result and a value.
    require(!a.splits || args[..n] == args[n..], "kernel.accumulator", || {
        "a reduction over lanes whose values are no results".to_owned()
    })?;
    if let Place::Row { rows } = &a.place {
        for (&row, scalar) in rows.iter().zip(a.types()) {
            let held = nest.rows.get(row as usize).map(|r| r.scalar);
            let wanted = if scalar.is_mask() { scalar.integer() } else { scalar };
            require(held == Some(wanted), "kernel.row", || format!("row{row} does not hold {scalar}"))?;
        }
    }
    Ok(())
}
