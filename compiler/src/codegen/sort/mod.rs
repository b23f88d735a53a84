//! Sorted rows as CLIF.
//!
//! **Problem.** A row may be strided, of any length, with any number of operands of any types, and its comparator any
//! straight-line code; moving all of that for each comparison would cost more than comparing.
//!
//! **Invariant.** A row is sorted as *records* in the worker's scratch: a few columns, each contiguous, in two halves
//! between which passes go back and forth. What is stored in the end is a permutation of the row whatever the comparator
//! answers, and no address depends on its answers but through counters that stay inside their runs.
//!
//! **Algorithm.** [`Records`] decides what is carried. With a key of at most 32 bits, one 64-bit column holds the key and
//! below it the only operand, if that fits, or else the position; a longer key has a column of its own. Without a key there
//! is a column for each operand that the comparator reads, and one for the other operand, or the position where there are
//! several. Operands that are not carried are read again at their position when the row is stored.
//!
//! Keys of long rows are sorted digit by digit, from the last (the counts of all digits are made while the records are; a
//! digit that all elements share costs nothing). Everything else is a bottom-up merge sort whose inner loop has no branch
//! that depends on data. The first few of many are kept by insertion into a short list, more of them in batches ([`first`]).

mod first;

use super::address::{Bases, Point};
use super::flow::Flow;
use super::lanes::{Lanes, Shape, Val, clif_type, flags};
use super::vector::{Leaves, Values, roots};
use crate::kernel::body::{Body, Mem, NodeId, Op, ScalarType};
use crate::kernel::index::{Axis, Ix};
use crate::kernel::sort::{Sort, SortKey};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use hashbrown::HashMap;

/// Rows of at least this many elements for each digit of their keys are sorted by digits.
const RADIX_ROW: i64 = 64;
/// Rows of at least this length have long digits.
const LONG_ROW: i64 = 1 << 14;
/// Bits of a digit of short and of long rows.
const DIGIT_BITS: [u32; 2] = [8, 11];
/// At most this many elements are kept by insertion, ...
const SELECT_KEEP: i64 = 64;
/// ... where the row is this many times as long.
const SELECT_RATIO: i64 = 4;
/// More are kept in batches of so many times as many, ...
const BATCH: i64 = 4;
/// ... where the row is this many times as long.
const BATCH_RATIO: i64 = 256;
/// What a column of the records holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// A key of at most 32 bits; below it 32 bits of operand 0 or of the position.
    Packed {
        /// Whether the position.
        position: bool,
    },
    /// A longer key.
    Key,
    /// An operand.
    Operand(usize),
    /// The position in the row.
    Position,
}

/// How records are put in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Method {
    /// Digit by digit: the lowest bit of each digit in the first column, and its width.
    Digits(Vec<(u32, u32)>),
    /// A merge sort.
    Merge,
    /// Insertion into the list of those that are kept.
    Select,
    /// A merge sort of batches, of each of which those are kept that come first.
    Batches,
}

/// The records of a row.
#[derive(Clone, Debug)]
struct Records {
    columns: Vec<Column>,
    method: Method,
    /// How many there are in a half.
    count: i64,
    /// Offset of each column in a half, and the bytes of a half.
    offsets: Vec<i64>,
    half: i64,
    /// Ordered by the key, not by the comparator.
    by_key: bool,
}

fn column_mem(sort: &Sort, column: Column) -> Mem {
    match column {
        Column::Packed { .. } | Column::Key => Mem::I64,
        Column::Position => Mem::I32,
        // Floats are moved as integers: a selection between those has no branch.
        Column::Operand(k) => match sort.operands[k].mem {
            Mem::F32 => Mem::I32,
            Mem::F64 => Mem::I64,
            other => other,
        },
    }
}

/// Arguments that a node follows from.
fn arguments(body: &Body, root: NodeId) -> Vec<usize> {
    let needed = body.needed([root]);
    let used = body.nodes().iter().zip(needed).filter(|(_, needed)| *needed);
    used.filter_map(|(node, _)| if let Op::Arg(n) = node.op { Some(n as usize) } else { None }).collect()
}

impl Records {
    fn new(sort: &Sort, columns: Vec<Column>, method: Method, by_key: bool) -> Records {
        let count = match method {
            Method::Digits(_) | Method::Merge => sort.row.extent,
            Method::Select => sort.keep,
            Method::Batches => BATCH * sort.keep,
        };
        let (mut offsets, mut half) = (Vec::new(), 0);
        for &c in &columns {
            offsets.push(half);
            half += (count * column_mem(sort, c).bytes() + 63) / 64 * 64;
        }
        Records { columns, method, count, offsets, half, by_key }
    }

    fn by_key(sort: &Sort, key: &SortKey) -> Records {
        let n = sort.row.extent;
        let alone = if sort.operands.len() == 1 { Some(sort.operands[0].mem.bytes()) } else { None };
        let packed = key.bits <= 32;
        let columns = if packed {
            vec![Column::Packed { position: alone.is_none_or(|bytes| bytes > 4) }]
        } else {
            vec![Column::Key, if alone.is_some() { Column::Operand(0) } else { Column::Position }]
        };
        let longest = DIGIT_BITS[usize::from(n >= LONG_ROW)];
        let count = key.bits.div_ceil(longest).max(1);
        let width = key.bits.div_ceil(count).max(1);
        let low = if packed { 32 } else { 0 };
        let digits = (0..count).map(|d| (low + d * width, width)).collect();
        let one = columns == [Column::Packed { position: true }];
        let method = if one && sort.keep <= SELECT_KEEP && n / SELECT_RATIO >= sort.keep {
            Method::Select
        } else if one && sort.keep > SELECT_KEEP && n / BATCH_RATIO >= sort.keep {
            Method::Batches
        } else if n / RADIX_ROW >= i64::from(count) {
            Method::Digits(digits)
        } else {
            Method::Merge
        };
        Records::new(sort, columns, method, true)
    }

    fn by_comparator(sort: &Sort) -> Records {
        let read: Vec<usize> = arguments(&sort.comparator, sort.before).into_iter().map(|n| n / 2).collect();
        let (keys, rest): (Vec<usize>, Vec<usize>) = (0..sort.operands.len()).partition(|k| read.contains(k));
        let mut columns: Vec<Column> = keys.into_iter().map(Column::Operand).collect();
        match rest.as_slice() {
            [] => {}
            [one] => columns.push(Column::Operand(*one)),
            _ => columns.push(Column::Position),
        }
        Records::new(sort, columns, Method::Merge, false)
    }

    /// The records that a sort may need: those for its key, those for its comparator.
    fn of(sort: &Sort) -> (Option<Records>, Option<Records>) {
        let always = sort.key.as_ref().is_some_and(|k| k.unordered.is_none());
        let by_key = sort.key.as_ref().map(|k| Records::by_key(sort, k));
        (by_key, if always { None } else { Some(Records::by_comparator(sort)) })
    }

    /// Bytes of the counts of one digit.
    fn count_bytes(width: u32) -> i64 {
        4 << width
    }

    fn scratch_bytes(&self) -> i64 {
        let counts: i64 = match &self.method {
            Method::Digits(digits) => digits.iter().map(|&(_, width)| Records::count_bytes(width)).sum(),
            Method::Merge | Method::Select | Method::Batches => 0,
        };
        2 * self.half + counts
    }
}

/// Bytes of scratch that a worker needs.
pub fn scratch_bytes(sort: &Sort) -> u64 {
    let (by_key, by_comparator) = Records::of(sort);
    by_key
        .iter()
        .chain(&by_comparator)
        .map(|r| (r.scratch_bytes().max(0) as u64).next_multiple_of(64))
        .max()
        .unwrap_or(0)
}

/// The two halves of the records while passes run: where they are, where the next pass writes.
#[derive(Clone, Copy)]
struct Halves {
    from: Variable,
    to: Variable,
}

struct Emitter<'f, 'b, 'k> {
    lanes: Lanes<'f, 'b>,
    sort: &'k Sort,
    bases: &'k Bases,
    scratch: Value,
    axes: HashMap<Axis, Value>,
}

/// Sorts the rows from `begin` to `end`.
pub fn emit(lanes: Lanes<'_, '_>, sort: &Sort, bases: &Bases, (begin, end): (Value, Value), scratch: Value) {
    let mut emitter = Emitter { lanes, sort, bases, scratch, axes: HashMap::new() };
    emitter.count(begin, end, 1, &mut |this, point| {
        let axes = this.axes_of(&sort.parallel, point);
        this.axes.extend(axes);
        this.row();
    });
}

impl<'b> Flow<'b> for Emitter<'_, 'b, '_> {
    fn b(&mut self) -> &mut FunctionBuilder<'b> {
        self.lanes.b
    }
}

impl<'f, 'b> Leaves for Emitter<'f, 'b, '_> {
    type Isa = Lanes<'f, 'b>;

    fn isa(&mut self) -> &mut Lanes<'f, 'b> {
        &mut self.lanes
    }

    fn shape(&self) -> Shape {
        Shape::One
    }

    fn leaf(&mut self, body: &Body, id: NodeId, values: &Values<Val>) -> Option<Val> {
        let node = body.node(id);
        let mut offsets = HashMap::new();
        if let Some(ix) = node.op.index() {
            ix.for_each_value(&mut |n| {
                offsets.extend(values.get(n).map(|&v| (n, self.lanes.scalar(v))));
            });
        }
        Some(Val::One(match &node.op {
            Op::Load(buffer, mem, ix) => {
                let index = self.at(ix, &offsets);
                let base = self.base(*buffer);
                let at = self.element(base, index, mem.bytes());
                self.lanes.load_one(*mem, at, 0)
            }
            Op::Index(ix) => {
                let v = self.at(ix, &offsets);
                if node.scalar == ScalarType::I32 { self.b().ins().ireduce(types::I32, v) } else { v }
            }
            op => self.lanes.missing(node.scalar, format!("{op:?} is no leaf of a sort")),
        }))
    }
}

impl Emitter<'_, '_, '_> {
    /// `for i in 0..n`.
    fn each(&mut self, n: i64, body: &mut dyn FnMut(&mut Self, Value)) {
        self.count_constant(0, n, 1, body);
    }

    /// The pointer of a buffer.
    fn base(&mut self, buffer: u32) -> Value {
        self.lanes.base(self.bases, buffer)
    }

    fn at(&mut self, ix: &Ix, values: &HashMap<NodeId, Value>) -> Value {
        self.lanes.index(ix, Point { axes: &self.axes, values })
    }

    /// The scalars of some nodes of a body.
    fn values(&mut self, body: &Body, args: &[Option<Value>], wanted: &[NodeId]) -> Vec<Value> {
        let args: Vec<Option<Val>> = args.iter().map(|v| v.map(Val::One)).collect();
        match roots(self, body, &args, wanted) {
            Some(all) => all.into_iter().map(|v| self.lanes.scalar(v)).collect(),
            None => wanted.iter().map(|&r| self.lanes.missing(body.scalar(r), "a sort has no scalar form")).collect(),
        }
    }

    /// The elements of some operands at place `i` of the row; nothing for the others.
    fn elements(&mut self, i: Value, wanted: &[usize]) -> Vec<Option<Value>> {
        let sort = self.sort;
        self.axes.insert(sort.row.axis, i);
        let roots: Vec<NodeId> = wanted.iter().map(|&k| sort.operands[k].value).collect();
        let values = self.values(&sort.load, &[], &roots);
        let mut out = vec![None; sort.operands.len()];
        wanted.iter().zip(values).for_each(|(&k, v)| out[k] = Some(v));
        out
    }

    /// A float's bits as an integer; integers stay.
    fn as_integer(&mut self, v: Value) -> Value {
        let ty = self.b().func.dfg.value_type(v);
        if ty == types::F32 {
            self.b().ins().bitcast(types::I32, MemFlagsData::new(), v)
        } else if ty == types::F64 {
            self.b().ins().bitcast(types::I64, MemFlagsData::new(), v)
        } else {
            v
        }
    }

    /// An operand's element as the scalar type of its memory form.
    fn as_operand(&mut self, k: usize, v: Value) -> Value {
        let ty = clif_type(self.sort.operands[k].mem.scalar());
        let have = self.b().func.dfg.value_type(v);
        if have == ty { v } else { self.b().ins().bitcast(ty, MemFlagsData::new(), v) }
    }

    fn load(&mut self, r: &Records, half: Value, column: usize, i: Value) -> Value {
        let mem = column_mem(self.sort, r.columns[column]);
        let start = self.b().ins().iadd_imm_s(half, r.offsets[column]);
        let at = self.element(start, i, mem.bytes());
        self.lanes.load_one(mem, at, 0)
    }

    fn store(&mut self, r: &Records, half: Value, column: usize, i: Value, v: Value) {
        let mem = column_mem(self.sort, r.columns[column]);
        let start = self.b().ins().iadd_imm_s(half, r.offsets[column]);
        let at = self.element(start, i, mem.bytes());
        self.lanes.store_one(mem, v, at, 0);
    }

    fn row(&mut self) {
        match Records::of(self.sort) {
            (Some(by_key), None) => {
                let half = self.scratch;
                self.fill(&by_key, half, None);
                self.order(&by_key);
            }
            (None, Some(by_comparator)) => self.compared_row(&by_comparator),
            (Some(by_key), Some(by_comparator)) => {
                let none = self.b().ins().iconst(types::I8, 0);
                let unordered = self.variable(none);
                let half = self.scratch;
                self.fill(&by_key, half, Some(unordered));
                let (plain, other, after) = (self.b().create_block(), self.b().create_block(), self.b().create_block());
                let any = self.b().use_var(unordered);
                self.b().ins().brif(any, other, &[], plain, &[]);
                for (block, by_key) in [(plain, Some(&by_key)), (other, None)] {
                    self.b().switch_to_block(block);
                    self.b().seal_block(block);
                    match by_key {
                        Some(r) => self.order(r),
                        None => self.compared_row(&by_comparator),
                    }
                    self.b().ins().jump(after, &[]);
                }
                self.b().switch_to_block(after);
                self.b().seal_block(after);
            }
            (None, None) => {}
        }
    }

    fn compared_row(&mut self, r: &Records) {
        let half = self.scratch;
        self.fill(r, half, None);
        self.order(r);
    }

    /// Puts records in order and stores the row.
    fn order(&mut self, r: &Records) {
        let scratch = self.scratch;
        let from = self.variable(scratch);
        let other = self.b().ins().iadd_imm_s(scratch, r.half);
        let to = self.variable(other);
        let halves = Halves { from, to };
        match &r.method {
            Method::Digits(digits) => self.digits(r, digits, halves),
            Method::Merge => self.merge_sort(r, halves),
            Method::Select | Method::Batches => {}
        }
        let half = self.b().use_var(from);
        self.output(r, half);
    }

    fn swap(&mut self, halves: Halves) {
        let (from, to) = (self.b().use_var(halves.from), self.b().use_var(halves.to));
        self.b().def_var(halves.from, to);
        self.b().def_var(halves.to, from);
    }

    /// The record of element `i`, one value a column.
    fn record(&mut self, r: &Records, i: Value, unordered: Option<Variable>) -> Vec<Value> {
        let sort = self.sort;
        let key = sort.key.as_ref().filter(|_| r.by_key);
        let mut wanted = Vec::new();
        if let Some(key) = key {
            wanted.extend(arguments(&key.body, key.root));
            wanted.extend(key.unordered.map(|n| arguments(&key.body, n)).unwrap_or_default());
        }
        for c in &r.columns {
            match c {
                Column::Operand(k) => wanted.push(*k),
                Column::Packed { position: false } => wanted.push(0),
                Column::Packed { position: true } | Column::Key | Column::Position => {}
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        let elements = self.elements(i, &wanted);
        let key_value = key.and_then(|key| {
            let roots: Vec<NodeId> = std::iter::once(key.root).chain(key.unordered).collect();
            let values = self.values(&key.body, &elements, &roots);
            if let (Some(flag), Some(&mask)) = (unordered, values.get(1)) {
                let before = self.b().use_var(flag);
                let all = self.b().ins().bor(before, mask);
                self.b().def_var(flag, all);
            }
            values.first().copied()
        });
        let mut record = Vec::new();
        for &c in &r.columns {
            let position = self.b().ins().ireduce(types::I32, i);
            let operand = |k: usize| elements.get(k).copied().flatten();
            let v = match c {
                Column::Position => Some(position),
                Column::Operand(k) => operand(k).map(|v| self.as_integer(v)),
                Column::Key => key_value,
                Column::Packed { position: by_position } => key_value.map(|key| {
                    let low = match operand(0).filter(|_| !by_position) {
                        Some(v) => self.as_integer(v),
                        None => position,
                    };
                    let (key, low) = (self.b().ins().uextend(types::I64, key), self.b().ins().uextend(types::I64, low));
                    let high = self.b().ins().ishl_imm_u(key, 32);
                    self.b().ins().bor(high, low)
                }),
            };
            record.push(match v {
                Some(v) => v,
                None => self.lanes.missing(ScalarType::I32, format!("a record's column {c:?} has no value")),
            });
        }
        record
    }

    /// Makes the records of the row, in the first half; counts digits, or keeps the first ones, where that is the method.
    fn fill(&mut self, r: &Records, half: Value, unordered: Option<Variable>) {
        let n = self.sort.row.extent;
        match &r.method {
            Method::Merge => self.each(n, &mut |this, i| {
                let record = this.record(r, i, unordered);
                record.into_iter().enumerate().for_each(|(c, v)| this.store(r, half, c, i, v));
            }),
            Method::Digits(digits) => {
                let bytes: i64 = digits.iter().map(|&(_, width)| Records::count_bytes(width)).sum();
                let counts = self.counts(r, digits, 0);
                let zero = self.iconst(0);
                self.each(bytes / 8, &mut |this, i| {
                    let at = this.element(counts, i, 8);
                    this.b().ins().store(flags(), zero, at, 0);
                });
                self.each(n, &mut |this, i| {
                    let record = this.record(r, i, unordered);
                    for (d, &digit) in digits.iter().enumerate() {
                        let counts = this.counts(r, digits, d);
                        let at = this.digit_count(counts, record[0], digit);
                        let old = this.b().ins().load(types::I32, flags(), at, 0);
                        let new = this.b().ins().iadd_imm_s(old, 1);
                        this.b().ins().store(flags(), new, at, 0);
                    }
                    record.into_iter().enumerate().for_each(|(c, v)| this.store(r, half, c, i, v));
                });
            }
            Method::Select => self.select(r, half, unordered),
            Method::Batches => self.batches(r, half, unordered),
        }
    }

    /// Where the counts of a digit lie.
    fn counts(&mut self, r: &Records, digits: &[(u32, u32)], digit: usize) -> Value {
        let before: i64 = digits.iter().take(digit).map(|&(_, width)| Records::count_bytes(width)).sum();
        let scratch = self.scratch;
        self.b().ins().iadd_imm_s(scratch, 2 * r.half + before)
    }

    /// The address of the count of a record's digit.
    fn digit_count(&mut self, counts: Value, record: Value, (low, width): (u32, u32)) -> Value {
        let shifted = self.b().ins().ushr_imm_u(record, i64::from(low));
        let digit = self.b().ins().band_imm_u(shifted, (1 << width) - 1);
        self.element(counts, digit, 4)
    }

    /// Sorts digit by digit, the last first; the counts are made.
    fn digits(&mut self, r: &Records, digits: &[(u32, u32)], halves: Halves) {
        let n = self.sort.row.extent;
        for (d, &digit) in digits.iter().enumerate() {
            let counts = self.counts(r, digits, d);
            // A digit that all elements share changes nothing.
            let (from, zero) = (self.b().use_var(halves.from), self.iconst(0));
            let first = self.load(r, from, 0, zero);
            let at = self.digit_count(counts, first, digit);
            let of_first = self.b().ins().load(types::I32, flags(), at, 0);
            let all = self.b().ins().iconst(types::I32, n & i64::from(u32::MAX));
            let differs = self.b().ins().icmp(IntCC::NotEqual, of_first, all);
            self.when(differs, &mut |this| {
                let none = this.b().ins().iconst(types::I32, 0);
                let sum = this.variable(none);
                this.each(1 << digit.1, &mut |this, i| {
                    let at = this.element(counts, i, 4);
                    let count = this.b().ins().load(types::I32, flags(), at, 0);
                    let start = this.b().use_var(sum);
                    this.b().ins().store(flags(), start, at, 0);
                    let next = this.b().ins().iadd(start, count);
                    this.b().def_var(sum, next);
                });
                let (from, to) = (this.b().use_var(halves.from), this.b().use_var(halves.to));
                this.each(n, &mut |this, i| {
                    let record: Vec<Value> = (0..r.columns.len()).map(|c| this.load(r, from, c, i)).collect();
                    let at = this.digit_count(counts, record[0], digit);
                    let place = this.b().ins().load(types::I32, flags(), at, 0);
                    let next = this.b().ins().iadd_imm_s(place, 1);
                    this.b().ins().store(flags(), next, at, 0);
                    let place = this.b().ins().uextend(types::I64, place);
                    record.into_iter().enumerate().for_each(|(c, v)| this.store(r, to, c, place, v));
                });
                this.swap(halves);
            });
        }
    }

    /// Whether record `a` comes before record `b`; columns that this does not depend on may be anything.
    fn before(&mut self, r: &Records, a: &[Value], b: &[Value]) -> Value {
        if !r.by_key {
            let sort = self.sort;
            let mut args = vec![None; 2 * sort.operands.len()];
            for (c, column) in r.columns.iter().enumerate() {
                if let &Column::Operand(k) = column
                    && self.decides(r, c)
                {
                    args[2 * k] = Some(self.as_operand(k, a[c]));
                    args[2 * k + 1] = Some(self.as_operand(k, b[c]));
                }
            }
            let answer = self.values(&sort.comparator, &args, &[sort.before]);
            return answer[0];
        }
        let (mut a, mut b) = (a[0], b[0]);
        // Positions below the keys break ties as stability does; elements of an operand would not.
        if r.columns[0] == (Column::Packed { position: false }) {
            a = self.b().ins().ushr_imm_u(a, 32);
            b = self.b().ins().ushr_imm_u(b, 32);
        }
        self.b().ins().icmp(IntCC::UnsignedLessThan, a, b)
    }

    /// Whether a column decides the order.
    fn decides(&self, r: &Records, column: usize) -> bool {
        match r.columns[column] {
            Column::Packed { .. } | Column::Key => true,
            Column::Position => false,
            Column::Operand(k) => {
                !r.by_key && arguments(&self.sort.comparator, self.sort.before).iter().any(|n| n / 2 == k)
            }
        }
    }

    fn merge_sort(&mut self, r: &Records, halves: Halves) {
        let (n, columns) = (r.count, r.columns.len());
        // Runs of one become runs of two where they are.
        let half = self.b().use_var(halves.from);
        self.count_constant(0, n / 2 * 2, 2, &mut |this, i| {
            let next = this.b().ins().iadd_imm_s(i, 1);
            let left: Vec<Value> = (0..columns).map(|c| this.load(r, half, c, i)).collect();
            let right: Vec<Value> = (0..columns).map(|c| this.load(r, half, c, next)).collect();
            let exchange = this.before(r, &right, &left);
            for c in 0..columns {
                let first = this.b().ins().select(exchange, right[c], left[c]);
                let second = this.b().ins().select(exchange, left[c], right[c]);
                this.store(r, half, c, i, first);
                this.store(r, half, c, next, second);
            }
        });
        if n <= 2 {
            return;
        }
        let two = self.iconst(2);
        let width = self.variable(two);
        let (head, after) = (self.b().create_block(), self.b().create_block());
        self.b().ins().jump(head, &[]);
        self.b().switch_to_block(head);
        let run = self.b().use_var(width);
        let twice = self.b().ins().iadd(run, run);
        let (zero, end) = (self.iconst(0), self.iconst(n));
        self.count_by(zero, end, twice, &mut |this, low| this.merge(r, halves, low, run));
        self.swap(halves);
        self.b().def_var(width, twice);
        let more = self.b().ins().icmp(IntCC::SignedLessThan, twice, end);
        self.b().ins().brif(more, head, &[], after, &[]);
        self.b().seal_block(head);
        self.b().switch_to_block(after);
        self.b().seal_block(after);
    }

    /// Merges the runs at `low` and `low + run`, of `run` elements each as far as the records go.
    fn merge(&mut self, r: &Records, halves: Halves, low: Value, run: Value) {
        let n = self.iconst(r.count);
        let (from, to) = (self.b().use_var(halves.from), self.b().use_var(halves.to));
        let within = |this: &mut Self, v: Value| {
            let less = this.b().ins().icmp(IntCC::SignedLessThan, v, n);
            this.b().ins().select(less, v, n)
        };
        let middle = self.b().ins().iadd(low, run);
        let end = self.b().ins().iadd(middle, run);
        let (middle, end) = (within(self, middle), within(self, end));
        let (left, right, out) = (self.variable(low), self.variable(middle), self.variable(low));
        let (head, rest) = (self.b().create_block(), self.b().create_block());
        let any = self.b().ins().icmp(IntCC::SignedLessThan, middle, end);
        self.b().ins().brif(any, head, &[], rest, &[]);
        self.b().switch_to_block(head);
        let (l, x, o) = (self.b().use_var(left), self.b().use_var(right), self.b().use_var(out));
        let zero = self.iconst(0);
        let (mut lefts, mut rights) = (Vec::new(), Vec::new());
        for c in 0..r.columns.len() {
            let decides = self.decides(r, c);
            lefts.push(if decides { self.load(r, from, c, l) } else { zero });
            rights.push(if decides { self.load(r, from, c, x) } else { zero });
        }
        let take_right = self.before(r, &rights, &lefts);
        for c in 0..r.columns.len() {
            let v = if self.decides(r, c) {
                self.b().ins().select(take_right, rights[c], lefts[c])
            } else {
                let at = self.b().ins().select(take_right, x, l);
                self.load(r, from, c, at)
            };
            self.store(r, to, c, o, v);
        }
        let step = self.b().ins().uextend(types::I64, take_right);
        let (next_right, next_out) = (self.b().ins().iadd(x, step), self.b().ins().iadd_imm_s(o, 1));
        let next_left = self.b().ins().iadd_imm_s(l, 1);
        let next_left = self.b().ins().isub(next_left, step);
        self.b().def_var(left, next_left);
        self.b().def_var(right, next_right);
        self.b().def_var(out, next_out);
        let on_left = self.b().ins().icmp(IntCC::SignedLessThan, next_left, middle);
        let on_right = self.b().ins().icmp(IntCC::SignedLessThan, next_right, end);
        let more = self.b().ins().band(on_left, on_right);
        self.b().ins().brif(more, head, &[], rest, &[]);
        self.b().seal_block(head);
        self.b().switch_to_block(rest);
        self.b().seal_block(rest);
        // One of the runs has elements left.
        let (l, x, o) = (self.b().use_var(left), self.b().use_var(right), self.b().use_var(out));
        let on_left = self.b().ins().icmp(IntCC::SignedLessThan, l, middle);
        let (start, stop) = (self.b().ins().select(on_left, l, x), self.b().ins().select(on_left, middle, end));
        let by = self.b().ins().isub(o, start);
        self.count(start, stop, 1, &mut |this, i| {
            let place = this.b().ins().iadd(i, by);
            for c in 0..r.columns.len() {
                let v = this.load(r, from, c, i);
                this.store(r, to, c, place, v);
            }
        });
    }

    /// Stores the sorted row, as much of it as is kept.
    fn output(&mut self, r: &Records, half: Value) {
        let sort = self.sort;
        self.each(sort.keep, &mut |this, i| {
            let mut elements: Vec<Option<Value>> = vec![None; sort.operands.len()];
            let mut position = i;
            for (c, &column) in r.columns.iter().enumerate() {
                match column {
                    Column::Key => {}
                    Column::Operand(k) => {
                        let v = this.load(r, half, c, i);
                        elements[k] = Some(this.as_operand(k, v));
                    }
                    Column::Position => {
                        let v = this.load(r, half, c, i);
                        position = this.b().ins().uextend(types::I64, v);
                    }
                    Column::Packed { position: true } => {
                        let v = this.load(r, half, c, i);
                        position = this.b().ins().band_imm_u(v, i64::from(u32::MAX));
                    }
                    Column::Packed { position: false } => {
                        let v = this.load(r, half, c, i);
                        let low = this.b().ins().ireduce(types::I32, v);
                        elements[0] = Some(this.as_operand(0, low));
                    }
                }
            }
            let stored = sort.operands.iter().enumerate().filter(|(_, o)| o.store.is_some());
            let missing: Vec<usize> = stored.map(|(k, _)| k).filter(|&k| elements[k].is_none()).collect();
            let read = this.elements(position, &missing);
            this.axes.insert(sort.row.axis, i);
            for ((o, carried), read) in sort.operands.iter().zip(elements).zip(read) {
                if let Some((buffer, index)) = &o.store {
                    let v = match carried.or(read) {
                        Some(v) => v,
                        None => this.lanes.missing(o.mem.scalar(), "an operand of a sort is neither carried nor read"),
                    };
                    let index = this.at(index, &HashMap::new());
                    let base = this.base(*buffer);
                    let at = this.element(base, index, o.mem.bytes());
                    this.lanes.store_one(o.mem, v, at, 0);
                }
            }
        });
    }
}
