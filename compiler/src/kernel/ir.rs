//! The kernel IR itself: kernels, phases, nests, stages and their row loops.

use super::body::{Body, Mem, NodeId, Op, ScalarType, Variant};
use super::index::Ix;
pub use super::index::Loop;
use super::registers::RegisterLoop;
use super::sort::Sort;
use crate::hlo::{ComputationId, InstructionId};
use brolga_runtime::ElementType;
use brolga_runtime::abi::{CustomCallAbi, Service};
use std::fmt;

/// What a kernel does with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It reads it.
    Input,
    /// It writes every element (and may read it back in later phases).
    Output,
    /// It finds the contents of the input `of` there and writes some elements, in any order: what a
    /// dynamic-update-slice or a scatter does. Buffer assignment makes the two one where it can and copies where it
    /// cannot, so the kernel does not touch buffer `of` itself.
    Update {
        /// Buffer number of an input of the same size.
        of: u32,
    },
    /// It writes and reads it; nobody else sees it.
    Scratch,
}

/// A buffer that a kernel is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Element type.
    pub ty: ElementType,
    /// Number of elements.
    pub elements: usize,
    /// What happens to it.
    pub role: Role,
}

impl Buffer {
    /// Its size.
    pub fn bytes(&self) -> i64 {
        i64::try_from(self.elements.saturating_mul(self.ty.byte_size())).unwrap_or(i64::MAX)
    }
}

/// A row buffer: memory of one worker, as long as the vector axis, that stays in the cache between stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowBuffer {
    /// ScalarType of its elements; masks are not stored.
    pub scalar: ScalarType,
    /// Number of elements.
    pub elements: i64,
}

/// Where an accumulator lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The vector axis is reduced: W partial results in registers, element `k` going to lane `k mod W`, folded by halves
    /// at the end; then the initial value is combined once. The values become [`super::body::Op::Result`] numbers.
    Lanes {
        /// Result numbers of the nest, one a component.
        results: Vec<u32>,
    },
    /// The vector axis is kept: one accumulator an element, in row buffers, that start from the initial value.
    Row {
        /// Row buffer numbers, one a component.
        rows: Vec<u32>,
    },
}

/// A reduction inside a stage.
#[derive(Clone, Debug)]
pub struct Accumulator {
    /// Initial values, uniform nodes of the stage's body, one a component.
    pub init: Vec<NodeId>,
    /// What is combined into the accumulator for each element.
    pub values: Vec<NodeId>,
    /// Bits that change nothing when combined, where such exist: the start of each lane.
    pub identity: Option<Vec<u64>>,
    /// The combiner: arguments are the accumulators, then the values.
    pub combine: Body,
    /// Its results, one a component.
    pub roots: Vec<NodeId>,
    /// Whether the values have the accumulators' form, so that two partial results combine like a result and a value.
    /// False for a multiply-add chain, which is never split over lanes.
    pub splits: bool,
    /// Where the accumulators live.
    pub place: Place,
}

impl Accumulator {
    /// The scalar type of each component.
    pub fn types(&self) -> impl Iterator<Item = ScalarType> + '_ {
        self.roots.iter().map(|&r| self.combine.scalar(r))
    }

    /// Whether it may split over virtual lanes, each of which starts from the identity.
    pub fn in_lanes(&self) -> bool {
        self.splits && self.identity.is_some()
    }

    /// Virtual lanes over which the reduction splits: 32 where every component has 32 bits, 16 otherwise. Its own types alone
    /// decide, so that sharing a row loop with another reduction does not change its order.
    pub fn lane_count(&self) -> i64 {
        if self.types().any(|l| l.bits() == 64) { 16 } else { 32 }
    }
}

/// A store to a buffer, once for each element; once for each row where neither index nor value depend on the vector
/// axis.
#[derive(Clone, Debug)]
pub struct Store {
    /// Buffer number.
    pub buffer: u32,
    /// Memory form.
    pub mem: Mem,
    /// Element offset.
    pub index: Ix,
    /// The stored node; its scalar type is that of `mem`.
    pub value: NodeId,
}

impl Store {
    /// Whether its elements along an axis lie side by side and start a line of a buffer that starts on one.
    pub fn starts_lines(&self, along: Loop) -> bool {
        let row = self.index.add(&along.ix().scale(-1));
        !row.mentions(along.axis) && row.is_multiple_of(LINE / self.mem.bytes())
    }
}

/// Loops over the sequential axes around one row loop over the vector axis.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Sequential axes, outermost first.
    pub sequential: Vec<Loop>,
    /// The vector axis.
    pub vector: Loop,
    /// What is computed for each element.
    pub body: Body,
    /// Reductions over the sequential axes, and over the vector axis too where the place says so.
    pub accumulators: Vec<Accumulator>,
    /// Stores to buffers.
    pub stores: Vec<Store>,
    /// Stores to row buffers, at the vector axis' index.
    pub row_stores: Vec<(u32, NodeId)>,
    /// Whether the row stores are running values ([`Stage::running`]) whose elements may be grouped otherwise.
    pub regroups: bool,
    /// Whether the stores, all of whole lines ([`Stage::writes_lines`]), may go past the caches.
    pub streams: bool,
}

/// Bytes of a cache line.
pub const LINE: i64 = 64;

/// Bytes of a page: lines so far apart, or a multiple of it, fall into the same set of a first cache.
pub const PAGE: i64 = 4096;

/// A running value: what a row buffer holds, combined with an element at each iteration.
#[derive(Clone, Debug)]
pub struct Running {
    /// The row buffer.
    pub row: u32,
    /// An operation that [`Op::regroups`].
    pub op: Op,
    /// The element, of which no running value is part.
    pub value: NodeId,
    /// The new running value.
    pub next: NodeId,
}

/// The nodes that stores need: values, and loaded offsets of their places.
fn stored(stores: &[Store]) -> Vec<NodeId> {
    let mut out = Vec::new();
    for s in stores {
        out.push(s.value);
        s.index.for_each_value(&mut |n| out.push(n));
    }
    out
}

/// The buffer of each load.
fn loaded(body: &Body) -> impl Iterator<Item = u32> {
    body.nodes().iter().filter_map(|n| if let Op::Load(buffer, ..) = n.op { Some(buffer) } else { None })
}

/// The buffers that a body reads and stores write.
fn used(body: &Body, stores: &[Store]) -> impl Iterator<Item = u32> {
    loaded(body).chain(stores.iter().map(|s| s.buffer))
}

/// Numbers of buffers without repetitions, ascending.
fn each_once(buffers: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut out: Vec<u32> = buffers.collect();
    out.sort_unstable();
    out.dedup();
    out
}

impl Stage {
    /// A stage that computes and keeps nothing yet.
    pub fn new(sequential: Vec<Loop>, vector: Loop, body: Body) -> Stage {
        let (accumulators, stores, row_stores) = (Vec::new(), Vec::new(), Vec::new());
        Stage { sequential, vector, body, accumulators, stores, row_stores, regroups: false, streams: false }
    }

    /// The nodes of the body that are stored or folded, for each element; initial values are not among them.
    pub fn roots(&self) -> Vec<NodeId> {
        let mut out = stored(&self.stores);
        out.extend(self.row_stores.iter().map(|(_, node)| *node));
        out.extend(self.accumulators.iter().flat_map(|a| a.values.iter().copied()));
        out
    }

    /// Whether each store writes whole lines of a buffer that starts on one, as the vector axis goes by.
    pub fn writes_lines(&self) -> bool {
        let whole = |s: &Store| s.starts_lines(self.vector) && self.vector.extent % (LINE / s.mem.bytes()) == 0;
        self.stores.iter().all(whole)
    }

    /// The row stores, where each is the result of one operation that [`Op::regroups`], on what its row held and an element.
    pub fn running(&self) -> Option<Vec<Running>> {
        let body = &self.body;
        let of = |&(row, next): &(u32, NodeId)| {
            let node = body.node(next);
            let (&[x, y], true) = (&node.args[..], node.op.regroups()) else { return None };
            let is_row = |n: NodeId| body.node(n).op == Op::Row(row);
            let value = if is_row(x) { y } else { Some(x).filter(|_| is_row(y))? };
            let wanted = body.needed([value]);
            let carried = body.nodes().iter().zip(wanted).any(|(n, wanted)| wanted && matches!(n.op, Op::Row(_)));
            (!carried).then(|| Running { row, op: node.op.clone(), value, next })
        };
        self.row_stores.iter().map(of).collect()
    }

    /// The most virtual lanes of a reduction over the vector axis; 0 where there is none. The lanes of every other reduction
    /// divide them.
    pub fn lane_count(&self) -> i64 {
        let over = self.accumulators.iter().filter(|a| matches!(a.place, Place::Lanes { .. }));
        over.map(Accumulator::lane_count).max().unwrap_or(0)
    }
}

/// A parallel space, and the stages that run one after another for each of its points.
#[derive(Clone, Debug)]
pub struct Nest {
    /// Parallel axes, outermost first.
    pub parallel: Vec<Loop>,
    /// Row buffers of a worker.
    pub rows: Vec<RowBuffer>,
    /// The stages.
    pub stages: Vec<Stage>,
}

impl Nest {
    /// Number of points of the parallel space.
    pub fn points(&self) -> i64 {
        self.parallel.iter().map(|l| l.extent).product()
    }
}

/// An operand of a contraction: where element (batch, row or column, k) lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    /// Buffer number.
    pub buffer: u32,
    /// Element offset, in the axes of the contraction.
    pub index: Ix,
}

/// What a step of a contraction multiplies and adds to the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Product {
    /// Two `f32`.
    F32,
    /// Two `f64`.
    F64,
    /// Two words of four bytes each, `u8` on the left and `s8` on the right: all four products, modulo 2^32.
    U8S8,
    /// As [`Product::U8S8`], `s8` on the left and `u8` on the right.
    S8U8,
    /// Two words of two `s16` each: both products, modulo 2^32.
    S16,
    /// Two words of two `bf16` each, for sums in `f32`: the product of the high halves first, then that of the low ones, each as one of
    /// `f32`.
    Bf16,
}

/// The elements of words, on the left and on the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements {
    /// The bits of each.
    pub bits: u8,
    /// Whether those of either side are signed.
    pub signed: [bool; 2],
}

impl Product {
    /// Every product with its name in texts.
    pub const ALL: [(Product, &str); 6] = [
        (Product::F32, "f32"),
        (Product::F64, "f64"),
        (Product::U8S8, "u8xs8"),
        (Product::S8U8, "s8xu8"),
        (Product::S16, "s16xs16"),
        (Product::Bf16, "bf16xbf16"),
    ];

    /// How sums lie in memory.
    pub const fn mem(self) -> Mem {
        match self {
            Product::F32 | Product::Bf16 => Mem::F32,
            Product::F64 => Mem::F64,
            Product::U8S8 | Product::S8U8 | Product::S16 => Mem::I32,
        }
    }

    /// How what is multiplied lies in memory, elements or words: in as many bytes as sums.
    pub const fn factor(self) -> Mem {
        match self {
            Product::F32 => Mem::F32,
            Product::F64 => Mem::F64,
            Product::U8S8 | Product::S8U8 | Product::S16 | Product::Bf16 => Mem::I32,
        }
    }

    /// The product of elements of that scalar type, as floats.
    pub const fn of(scalar: ScalarType) -> Product {
        if matches!(scalar, ScalarType::F64) { Product::F64 } else { Product::F32 }
    }

    /// What operands of it are arrays of; `None` of words.
    pub const fn element(self) -> Option<ElementType> {
        match self {
            Product::F32 => Some(ElementType::F32),
            Product::F64 => Some(ElementType::F64),
            Product::U8S8 | Product::S8U8 | Product::S16 | Product::Bf16 => None,
        }
    }

    /// What its words have in them; `None` where those are no integers.
    pub const fn elements(self) -> Option<Elements> {
        match self {
            Product::F32 | Product::F64 | Product::Bf16 => None,
            Product::U8S8 => Some(Elements { bits: 8, signed: [false, true] }),
            Product::S8U8 => Some(Elements { bits: 8, signed: [true, false] }),
            Product::S16 => Some(Elements { bits: 16, signed: [true, true] }),
        }
    }

    /// A step: `sum` and the product of `x`, on the left, and `y`.
    pub fn step(self, body: &mut Body, variant: Variant, [x, y, sum]: [NodeId; 3]) -> NodeId {
        if self == Product::Bf16 {
            return [false, true].into_iter().fold(sum, |sum, low| {
                let [x, y] = [x, y].map(|word| {
                    let half = if low {
                        body.shl_imm(word, 16)
                    } else {
                        let high = body.i32(!0xffff);
                        body.and(word, high)
                    };
                    body.bitcast(half, ScalarType::F32)
                });
                body.mul_add(variant, x, y, sum)
            });
        }
        let Some(Elements { bits, signed }) = self.elements() else { return body.mul_add(variant, x, y, sum) };
        let mut total = sum;
        let rest = 32 - bits;
        for spare in (0..=rest).rev().step_by(usize::from(bits)) {
            let [x, y] = [(x, signed[0]), (y, signed[1])].map(|(word, signed)| {
                let high = body.shl_imm(word, spare);
                if signed { body.ashr_imm(high, rest) } else { body.lshr_imm(high, rest) }
            });
            let product = body.imul(x, y);
            total = body.iadd(total, product);
        }
        total
    }

    /// The sums of two blocks together.
    pub fn sum(self, body: &mut Body, a: NodeId, b: NodeId) -> NodeId {
        match self {
            Product::F32 | Product::F64 | Product::Bf16 => body.fadd(a, b),
            Product::U8S8 | Product::S8U8 | Product::S16 => body.iadd(a, b),
        }
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Product::ALL.iter().find(|(p, _)| p == self).map_or("", |(_, name)| name))
    }
}

/// A blocked matrix product with an epilogue: `out[b, m, n] = epilogue(sum over k of lhs[b, m, k] * rhs[b, k, n])`.
///
/// A sum goes by in blocks of `block` steps of `k`, the last of which may be shorter: each is one chain of steps
/// ([`Product::step`]; of floats fused multiply-adds, two roundings in the variant without FMA) in ascending `k` that starts from
/// zero, and the blocks are added in ascending order.
#[derive(Clone, Debug)]
pub struct Contraction {
    /// What operands and accumulators are, and how they are multiplied.
    pub product: Product,
    /// Batch axes.
    pub batch: Vec<Loop>,
    /// Row axis.
    pub m: Loop,
    /// Column axis.
    pub n: Loop,
    /// Contracted axis.
    pub k: Loop,
    /// Steps of a block of `k`: 1 to its extent.
    pub block: i64,
    /// The left operand, in `batch`, `m` and `k`.
    pub lhs: Panel,
    /// The right operand, in `batch`, `k` and `n`.
    pub rhs: Panel,
    /// What happens to each finished element: argument 0 is the sum; loads are in `batch`, `m` and `n`.
    pub epilogue: Body,
    /// Stores of the epilogue, in `batch`, `m` and `n`.
    pub stores: Vec<Store>,
    /// Of words of `bf16`, the buffer of one `u32` that says whether a product or a sum may be subnormal: not zero where one may, for
    /// instructions flush those.
    pub subnormal: Option<u32>,
    /// The product among the instructions of the kernel, where it is known.
    pub source: Option<InstructionId>,
}

/// The most steps of `k` in a block: a chain is less exact the longer it is.
const LONGEST_CHAIN: i64 = 256;
/// Runs of steps and of rows that are cut into fewer are not followed.
const LEAST_STEPS: i64 = 3;
/// As for steps.
const LEAST_ROWS: i64 = 4;
/// Rows of a block: a multiple of every tile's rows; with the steps of a block it takes a fraction of a second-level cache.
pub const ROW_BLOCK: i64 = 96;
/// Runs of so many rows are still read in one part; a longer one is cut into at most [`ROW_BLOCK`].
const RUN_ROWS: i64 = 2 * ROW_BLOCK;

/// The largest number that divides `run` and is at most `most`.
fn largest_divisor(run: i64, most: i64) -> Option<i64> {
    (1..=most.min(run)).rev().find(|d| run % d == 0)
}

impl Contraction {
    /// How many products of elements it adds up.
    pub fn products(&self) -> i64 {
        let loops = self.batch.iter().chain([&self.m, &self.n, &self.k]);
        loops.fold(1, |n, l| n.saturating_mul(l.extent))
    }

    /// The steps of a block, where nothing is read in place that is linear in shorter runs.
    pub fn whole_block(k: Loop) -> i64 {
        LONGEST_CHAIN.min(k.extent)
    }

    /// The steps of a block whose left operand is the base of a convolution, at an index in row-major order: where it can be read in
    /// place, in runs of `k`, no block is in two of them. Where the base lies otherwise it is packed, in the same blocks.
    pub fn block_of_windows(base: &Ix, m: Loop, k: Loop) -> i64 {
        let run = base.run(k.axis, k.extent).map(|(run, _)| run).filter(|&run| run < k.extent);
        let steps =
            run.and_then(|run| largest_divisor(run, LONGEST_CHAIN)).filter(|&steps| steps >= LEAST_STEPS.min(k.extent));
        steps.filter(|_| Contraction::rows_of_run(base, m).is_some()).unwrap_or(Contraction::whole_block(k))
    }

    /// The rows of a part of the left operand in which it is linear, all of them or a divisor of a run, where they are worth reading in
    /// place.
    pub fn rows_of_run(lhs: &Ix, m: Loop) -> Option<i64> {
        let (run, _) = lhs.run(m.axis, m.extent)?;
        let whole = run <= RUN_ROWS || run == m.extent;
        let part = if whole { run } else { largest_divisor(run, ROW_BLOCK)? };
        (part >= LEAST_ROWS.min(m.extent)).then_some(part)
    }

    /// The numbers of the buffers that it reads and writes, each once, ascending.
    pub fn buffers(&self) -> Vec<u32> {
        let operands = [self.lhs.buffer, self.rhs.buffer].into_iter().chain(self.subnormal);
        each_once(operands.chain(used(&self.epilogue, &self.stores)))
    }

    /// The nodes of the epilogue that are stored.
    pub fn roots(&self) -> Vec<NodeId> {
        stored(&self.stores)
    }
}

/// What a call goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Callee {
    /// A library service of the context.
    Service(Service),
    /// A function outside the object.
    Function {
        /// Its symbol.
        symbol: String,
        /// How it is called. All but [`CustomCallAbi::Original`] go through [`Service::CustomCall`].
        abi: CustomCallAbi,
    },
}

/// A call of something that is no loop nest. The kernel's buffers are the operands, then the results, each dense and
/// row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCall {
    /// What is called.
    pub callee: Callee,
    /// The words of the call, as [`brolga_runtime::abi::encode_call`] makes them.
    pub words: Vec<i64>,
}

/// One parallel phase; a barrier stands between phases.
#[derive(Clone, Debug)]
pub enum Phase {
    /// Loops.
    Nest(Nest),
    /// A blocked contraction.
    Contraction(Box<Contraction>),
    /// A loop over tiny tensors; the only phase of its kernel.
    Registers(Box<RegisterLoop>),
    /// A call; the only phase of its kernel.
    Call(Box<HostCall>),
    /// Writes the state of the run's random number generator, `u64[2]`: the context's seed, and the counter before
    /// `delta` is added to it; the only phase of its kernel.
    RandomState {
        /// How far the counter advances.
        delta: u64,
    },
    /// Sorted rows.
    Sort(Box<Sort>),
}

impl Phase {
    /// The numbers of the buffers that it reads and writes, each once, ascending; none of a call and of the state of random numbers, which
    /// take those of their kernel as they stand.
    pub fn buffers(&self) -> Vec<u32> {
        match self {
            Phase::Nest(nest) => each_once(nest.stages.iter().flat_map(|s| used(&s.body, &s.stores))),
            Phase::Contraction(c) => c.buffers(),
            Phase::Registers(l) => (0..2 * l.state.len() as u32).collect(),
            Phase::Sort(sort) => {
                let stored = sort.operands.iter().filter_map(|o| o.store.as_ref().map(|(buffer, _)| *buffer));
                each_once(loaded(&sort.load).chain(stored))
            }
            Phase::Call(_) | Phase::RandomState { .. } => Vec::new(),
        }
    }

    /// The loops, where it is such.
    pub fn as_nest(&self) -> Option<&Nest> {
        if let Phase::Nest(nest) = self { Some(nest) } else { None }
    }
}

/// A kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its name: that of its main output.
    pub name: String,
    /// Its buffers, inputs first.
    pub buffers: Vec<Buffer>,
    /// Its phases.
    pub phases: Vec<Phase>,
    /// Pairs (output buffer, input buffer) that may be the same memory: every element is read, if at all, before or
    /// while the element of the same offset is written, and by the same iteration.
    pub in_place: Vec<(u32, u32)>,
    /// Source line of the main output, 0 where unknown.
    pub line: u32,
    /// The instruction of the main output; `None` of a kernel that was made by hand. The sources of its nodes are of the same
    /// computation.
    pub source: Option<(ComputationId, InstructionId)>,
}
