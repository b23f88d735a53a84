//! Elements of a row in the registers of any machine: the one traversal of bodies and combiners.
//!
//! **Problem.** A row goes by in scalars, in registers of 128 bits that CLIF knows, and in those of 256 and 512 bits that it does
//! not. What is computed, stored and folded of the elements, and in which order, is the same for all of them; two emitters that
//! each know it differ some day.
//!
//! **Invariant.** Nothing here knows how many elements a value has or where it lies. Nodes are computed in the order of the body, stored
//! in the order of the stores, then kept in row buffers, then folded; each operation is given to the machine once for the elements
//! at hand. Where the machine has no form of one, that one alone goes element by element.
//!
//! **Algorithm.** A machine is an [`Isa`]: constants and operations. Who has leaves besides (loads, indices) adds [`Leaves`], and
//! [`values`] computes the nodes of a body. A row of a stage is a [`Row`], and [`elements`] is what happens to its elements.
//! `None` says that the machine has no form of something; what the traversal itself misses is a fault of ours and is noted.

use crate::codegen::rows::{Access, RowLoop};
use crate::hlo::InstructionId;
use crate::kernel::body::{Body, IntCond, NodeId, Op, ScalarType};
use crate::kernel::ir::{Accumulator, Place};

/// What computes.
pub trait Isa {
    /// The elements at hand of one node.
    type Value: Clone;
    /// How many elements are at hand, and in what.
    type Shape: Copy;

    /// Says for which instruction of the kernel code is emitted from now on.
    fn mark(&mut self, source: Option<InstructionId>);

    /// A constant in every element.
    fn constant(&mut self, shape: Self::Shape, scalar: ScalarType, bits: u64) -> Self::Value;

    /// One operation; `from` are the lanes of the arguments, `to` that of the result. `None` where it has no form for all elements at
    /// once.
    fn operation(&mut self, op: &Op, args: &[Self::Value], from: &[ScalarType], to: ScalarType) -> Option<Self::Value>;

    /// An operation that has no form, element by element; `None` where it has none of that either.
    fn by_elements(
        &mut self,
        op: &Op,
        args: &[Self::Value],
        from: &[ScalarType],
        to: ScalarType,
    ) -> Option<Self::Value>;

    /// Notes what is missing, a fault of ours.
    fn fault(&mut self, what: String);
}

/// The machine of something that has leaves.
pub type Machine<L> = <L as Leaves>::Isa;
/// The values of that machine.
pub type Value<L> = <Machine<L> as Isa>::Value;

/// What computes the nodes of a body.
pub trait Leaves {
    /// The machine.
    type Isa: Isa;

    /// The machine.
    fn isa(&mut self) -> &mut Self::Isa;

    /// How many elements are at hand.
    fn shape(&self) -> <Self::Isa as Isa>::Shape;

    /// A load, an index, a row buffer's element or a finished result.
    fn leaf(&mut self, body: &Body, id: NodeId, values: &Values<Value<Self>>) -> Option<Value<Self>>;
}

/// In what steps a reduction takes the elements at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// All at once.
    All,
    /// One of them.
    Element(u8),
}

/// What elements are folded into.
pub enum Partial<V> {
    /// Nothing yet: they are the first.
    Starts,
    /// What came before, by component.
    Running(Vec<V>),
}

/// Some elements of a row.
pub trait Row: Leaves {
    /// What is the same along the row, in every element.
    fn uniform(&mut self, body: &Body, id: NodeId) -> Option<Value<Self>>;

    /// Stores elements, and perhaps also those of some of the stores behind: it says of how many.
    fn store(&mut self, store: Storing<'_, Value<Self>>, values: &Values<Value<Self>>) -> Option<usize>;

    /// Reads a row buffer.
    fn row(&mut self, number: u32) -> Option<Value<Self>>;

    /// Writes a row buffer.
    fn set_row(&mut self, number: u32, value: &Value<Self>) -> Option<()>;

    /// In what steps the reduction of that number takes the elements at hand.
    fn steps(&self, reduction: usize) -> Vec<Step>;

    /// The elements that a step takes.
    fn taken(&mut self, step: Step, scalar: ScalarType, value: &Value<Self>) -> Option<Value<Self>>;

    /// What a step's elements are folded into.
    fn partial(&mut self, reduction: usize, step: Step) -> Option<Partial<Value<Self>>>;

    /// What it has become.
    fn set_partial(&mut self, reduction: usize, step: Step, new: Vec<Value<Self>>) -> Option<()>;

    /// How many elements a step has.
    fn shape_of(&self, step: Step) -> <Self::Isa as Isa>::Shape;
}

/// A store of a row.
pub struct Storing<'a, V> {
    /// Its number.
    pub number: usize,
    /// Where elements go.
    pub access: &'a Access,
    /// The scalar type of what is stored.
    pub scalar: ScalarType,
    /// What is stored.
    pub value: &'a V,
    /// What the stores behind it store, those that are along the row.
    pub behind: &'a [Option<V>],
}

/// The values of a body's nodes.
pub struct Values<V>(Vec<Option<V>>);

impl<V> Values<V> {
    /// None yet.
    pub fn new(body: &Body) -> Values<V> {
        Values(body.nodes().iter().map(|_| None).collect())
    }

    /// That of a node, if it has one.
    pub fn get(&self, id: NodeId) -> Option<&V> {
        self.0.get(id.0 as usize)?.as_ref()
    }

    fn set(&mut self, id: NodeId, v: V) {
        if let Some(place) = self.0.get_mut(id.0 as usize) {
            *place = Some(v);
        }
    }
}

/// Computes the nodes chosen of a body, whose arguments are `args` as far as they are needed.
pub fn values<L: Leaves + ?Sized>(
    leaves: &mut L,
    body: &Body,
    chosen: impl IntoIterator<Item = NodeId>,
    args: &[Option<Value<L>>],
    around: &mut impl FnMut(&mut L, NodeId) -> Option<Value<L>>,
) -> Option<Values<Value<L>>> {
    let mut values = Values::new(body);
    for id in chosen {
        let (node, source, shape) = (body.node(id), body.source(id), leaves.shape());
        leaves.isa().mark(source);
        let v = match &node.op {
            Op::Arg(n) => match args.get(*n as usize).cloned().flatten() {
                Some(v) => v,
                None => return missing(leaves, format!("there is no argument {n}")),
            },
            Op::Const(bits) => leaves.isa().constant(shape, node.scalar, *bits),
            Op::Load(..) | Op::Index(_) | Op::Row(_) | Op::Result(_) => leaves.leaf(body, id, &values)?,
            op => {
                for &a in &node.args {
                    argument(leaves, a, &mut values, around)?;
                }
                let inputs: Vec<Value<L>> = node.args.iter().map(|&a| values.get(a).cloned()).collect::<Option<_>>()?;
                let from: Vec<ScalarType> = node.args.iter().map(|&a| body.scalar(a)).collect();
                operation(leaves.isa(), op, &inputs, &from, node.scalar)?
            }
        };
        values.set(id, v);
    }
    Some(values)
}

/// One operation, element by element where the machine has no other form of it.
pub fn operation<I: Isa + ?Sized>(
    isa: &mut I,
    op: &Op,
    args: &[I::Value],
    from: &[ScalarType],
    to: ScalarType,
) -> Option<I::Value> {
    isa.operation(op, args, from, to).or_else(|| isa.by_elements(op, args, from, to))
}

fn missing<L: Leaves + ?Sized, T>(leaves: &mut L, what: String) -> Option<T> {
    leaves.isa().fault(what);
    None
}

/// A node's value; one that was not computed here comes from around the body.
fn argument<L: Leaves + ?Sized>(
    leaves: &mut L,
    id: NodeId,
    values: &mut Values<Value<L>>,
    around: &mut impl FnMut(&mut L, NodeId) -> Option<Value<L>>,
) -> Option<Value<L>> {
    if let Some(v) = values.get(id) {
        return Some(v.clone());
    }
    let v = around(leaves, id)?;
    values.set(id, v.clone());
    Some(v)
}

/// The values of some nodes of a body without leaves but arguments and constants, or with those of `leaves`.
pub fn roots<L: Leaves + ?Sized>(
    leaves: &mut L,
    body: &Body,
    args: &[Option<Value<L>>],
    roots: &[NodeId],
) -> Option<Vec<Value<L>>> {
    let needed = body.needed(roots.iter().copied());
    let chosen = (0..).map(NodeId).zip(&needed).filter(|(_, needed)| **needed).map(|(id, _)| id);
    let mut none = |leaves: &mut L, id: NodeId| missing(leaves, format!("node %{} has no value yet", id.0));
    let mut values = values(leaves, body, chosen, args, &mut none)?;
    roots.iter().map(|&r| argument(leaves, r, &mut values, &mut none)).collect()
}

/// A machine for bodies whose only leaves are arguments and constants.
pub struct Plain<'i, I: Isa> {
    /// The machine.
    pub isa: &'i mut I,
    /// How many elements are at hand.
    pub shape: I::Shape,
}

impl<I: Isa> Leaves for Plain<'_, I> {
    type Isa = I;

    fn isa(&mut self) -> &mut I {
        self.isa
    }

    fn shape(&self) -> I::Shape {
        self.shape
    }

    fn leaf(&mut self, body: &Body, id: NodeId, _: &Values<I::Value>) -> Option<I::Value> {
        missing(self, format!("{:?} is no leaf of a body of arguments", body.node(id).op))
    }
}

/// A combiner's results.
pub fn combine<I: Isa>(isa: &mut I, shape: I::Shape, a: &Accumulator, args: Vec<I::Value>) -> Option<Vec<I::Value>> {
    let args: Vec<Option<I::Value>> = args.into_iter().map(Some).collect();
    roots(&mut Plain { isa, shape }, &a.combine, &args, &a.roots)
}

/// Computes, stores and folds some elements of a row.
pub fn elements<R: Row>(r: &mut R, row: &RowLoop<'_>) -> Option<()> {
    let (stage, body) = (row.stage, &row.stage.body);
    // Uniform nodes were all computed before the loop.
    let mut uniform = |r: &mut R, id: NodeId| match body.node(id).op {
        Op::Const(bits) => {
            let shape = r.shape();
            Some(r.isa().constant(shape, body.scalar(id), bits))
        }
        _ => r.uniform(body, id),
    };
    let mut values = values(r, body, row.varying(), &[], &mut uniform)?;
    let mut along = Vec::new();
    for (s, access) in stage.stores.iter().zip(&row.stores) {
        r.isa().mark(body.source(s.value));
        along.push(match access {
            Some(_) => Some(argument(r, s.value, &mut values, &mut uniform)?),
            None => None,
        });
    }
    let mut done = 0;
    for ((number, s), access) in stage.stores.iter().enumerate().zip(&row.stores) {
        let (Some(access), Some((Some(value), behind))) = (access, along.get(number..).and_then(<[_]>::split_first))
        else {
            continue;
        };
        if done > 0 {
            done -= 1;
            continue;
        }
        r.isa().mark(body.source(s.value));
        done = r.store(Storing { number, access, scalar: body.scalar(s.value), value, behind }, &values)?;
    }
    for &(number, node) in &stage.row_stores {
        r.isa().mark(body.source(node));
        let v = argument(r, node, &mut values, &mut uniform)?;
        r.set_row(number, &v)?;
    }
    for (k, a) in stage.accumulators.iter().enumerate() {
        r.isa().mark(a.roots.first().and_then(|&root| a.combine.source(root)));
        let mut new = Vec::new();
        for &n in &a.values {
            new.push((body.scalar(n), argument(r, n, &mut values, &mut uniform)?));
        }
        fold(r, k, a, new)?;
    }
    r.isa().mark(None);
    Some(())
}

/// Takes elements into a reduction.
fn fold<R: Row>(r: &mut R, k: usize, a: &Accumulator, new: Vec<(ScalarType, Value<R>)>) -> Option<()> {
    if let Place::Row { rows } = &a.place {
        let (shape, lanes) = (r.shape(), a.types().collect::<Vec<ScalarType>>());
        let mut args = Vec::new();
        for (&row, &scalar) in rows.iter().zip(&lanes) {
            let v = r.row(row)?;
            args.push(if scalar.is_mask() { mask_of(r, scalar, v)? } else { v });
        }
        args.extend(new.into_iter().map(|(_, v)| v));
        let out = combine(r.isa(), shape, a, args)?;
        for ((&row, v), &scalar) in rows.iter().zip(out).zip(&lanes) {
            let v = if scalar.is_mask() {
                operation(r.isa(), &Op::MaskToInt, &[v], &[scalar], scalar.integer())?
            } else {
                v
            };
            r.set_row(row, &v)?;
        }
        return Some(());
    }
    for step in r.steps(k) {
        let mut taken = Vec::new();
        for (scalar, v) in &new {
            taken.push(r.taken(step, *scalar, v)?);
        }
        let out = match r.partial(k, step)? {
            Partial::Starts => taken,
            Partial::Running(before) => {
                let shape = r.shape_of(step);
                combine(r.isa(), shape, a, before.into_iter().chain(taken).collect())?
            }
        };
        r.set_partial(k, step, out)?;
    }
    Some(())
}

/// The truth values that a row buffer keeps as integers.
fn mask_of<R: Row>(r: &mut R, scalar: ScalarType, raw: Value<R>) -> Option<Value<R>> {
    let (shape, integer) = (r.shape(), scalar.integer());
    let zero = r.isa().constant(shape, integer, 0);
    operation(r.isa(), &Op::ICmp(IntCond::Ne), &[raw, zero], &[integer, integer], scalar)
}
