//! The driver of a large program, cut into parts.
//!
//! **Problem.** A driver calls every kernel and copies every result. In one function of a hundred thousand calls the compiler
//! of that function would take most of the time, for what it does grows faster than the function.
//!
//! **Invariant.** No function of a driver holds much more than [`MOST`] of what a driver does, whatever the program. A
//! program that stays below is one function. How a driver is cut depends on the schedule alone.
//!
//! **Algorithm.** What a block does, steps and copies, is a list of items, each with a weight. A list that weighs too much is
//! cut into sections, each of them a function of its own that is made in the same way; the list becomes the calls of
//! these. Their status is 0 or ends the run. A long run of copies is one item: a table in constant data, and a call of
//! the [`copier`].

use super::{Around, Driver, PhaseCode, instructions_of_copy};
use crate::codegen::attribution::Attribution;
use crate::codegen::clif::{import_function, signature};
use crate::codegen::effort::Executed;
use crate::codegen::flow::{Flow, enter};
use crate::codegen::lanes::flags;
use crate::codegen::nest::WideFunctions;
use crate::codegen::target::Target;
use crate::error::{Error, Result};
use crate::kernel::ir::Phase;
use crate::memory::schedule::{BlockId, Copy, LeafPlace, Location, Step};
use crate::object::{Numbered, ObjectInput, bytes};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    Function, InstBuilder, StackSlot, StackSlotData, StackSlotKind, UserFuncName, Value, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{DataId, FuncId};

/// What the items of one function weigh at most: the call of a kernel weighs 2 and 1 for each buffer.
const MOST: usize = 2048;
/// So many copies and more, one after another, are a table.
const TABLE: usize = 64;
/// What the code of a copy, or of a loop's or branch's test, weighs.
const SMALL: usize = 4;
/// What a loop nest or a loop in registers weighs that is part of the driver.
const INLINED: usize = 64;
/// What the call of a service or of a function outside weighs besides its buffers.
const CALL: usize = 16;
/// So many nodes of a loop in registers weigh 1.
const NODES: usize = 8;

/// The functions and tables that a driver is made of besides the entry.
pub struct Parts<'o> {
    /// Where they are declared.
    pub(super) object: &'o mut ObjectInput,
    /// The entry's symbol, which the functions' follow.
    pub(super) entry: String,
    /// The functions, with what they execute where nothing is repeated.
    pub functions: Vec<(FuncId, Function, Executed)>,
    /// The rows of phases that are part of the driver.
    pub rows: Vec<(WideFunctions, Attribution)>,
    /// How many tables the copier has.
    tables: usize,
    /// Which function that is.
    copier: Option<usize>,
    sections: u32,
}

impl Parts<'_> {
    /// None yet, of the entry of that symbol.
    pub fn new(object: &mut ObjectInput, entry: String) -> Parts<'_> {
        Parts { object, entry, functions: Vec::new(), rows: Vec::new(), tables: 0, copier: None, sections: 0 }
    }

    /// Adds a function.
    fn push(&mut self, name: &str, (mut function, executed): (Function, Executed)) -> Result<FuncId> {
        let id = self.object.function(&format!("{}.{name}", self.entry), false, &function.signature)?;
        function.name = UserFuncName::User(id.external_name());
        self.functions.push((id, function, executed));
        Ok(id)
    }

    /// Adds a table of the copier, of the program of that name.
    fn table(&mut self, symbol: &str, rows: Vec<u8>) -> Result<DataId> {
        let table = self.object.datum(&format!("{symbol}.copies.{}", self.tables), false, bytes(8, rows))?;
        self.tables += 1;
        Ok(table)
    }
}

/// One thing that a block does.
#[derive(Clone, Copy)]
pub(super) enum Item<'s> {
    /// A copy.
    Copy(&'s Copy),
    /// Many copies, one after another.
    Copies(&'s [Copy]),
    /// A step.
    Step(&'s Step),
}

/// Where the next random number comes from.
#[derive(Clone, Copy)]
pub(super) enum Counter {
    /// The entry's own.
    Slot(StackSlot),
    /// In a part: the entry's, too.
    Pointer(Value),
}

/// What a block does, in order.
fn items<'s>(around: Around<'s>, id: BlockId) -> Vec<Item<'s>> {
    let copies = &around.assignment.copies[id];
    let mut out = Vec::new();
    for (i, step) in around.schedule.blocks[id].steps.iter().enumerate() {
        if let Some(before) = copies.before.get(i) {
            add_copies(before, &mut out);
        }
        out.push(Item::Step(step));
    }
    add_copies(&copies.at_end, &mut out);
    out
}

/// Copies as items. Only the code knows where a constant lies: a table does not.
fn add_copies<'s>(copies: &'s [Copy], out: &mut Vec<Item<'s>>) {
    let constant = |c: &Copy| matches!(c.from, Location::Constant(_));
    for run in copies.chunk_by(|a, b| constant(a) == constant(b)) {
        match run {
            [first, ..] if run.len() >= TABLE && !constant(first) => out.push(Item::Copies(run)),
            _ => out.extend(run.iter().map(Item::Copy)),
        }
    }
}

fn weight(around: Around<'_>, item: Item<'_>) -> usize {
    match item {
        Item::Copy(_) | Item::Copies(_) => SMALL,
        Item::Step(Step::Kernel { kernel, buffers }) => {
            let phases = around.schedule.kernels[*kernel].phases.iter().enumerate();
            let inlined = phases.map(|(p, phase)| match (phase, around.phases.get(&(*kernel, p))) {
                (Phase::Registers(l), Some(PhaseCode::Inline)) => INLINED + l.body.0.nodes().len() / NODES,
                (Phase::Nest(_), Some(PhaseCode::Inline)) => INLINED,
                (Phase::Call(_), _) => CALL,
                _ => 0,
            });
            2 + buffers.len() + inlined.sum::<usize>()
        }
        Item::Step(Step::While { condition, body, .. }) => {
            SMALL + block_weight(around, *condition) + block_weight(around, *body)
        }
        Item::Step(Step::Conditional { branches, .. }) => {
            branches.iter().map(|&(branch, _)| SMALL + block_weight(around, branch)).sum()
        }
    }
}

/// What a block weighs once it is cut.
fn block_weight(around: Around<'_>, id: BlockId) -> usize {
    let total: usize = items(around, id).into_iter().map(|item| weight(around, item)).sum();
    if total <= MOST { total } else { SMALL * total.div_ceil(section(total)) }
}

/// What a section weighs of so much.
fn section(total: usize) -> usize {
    total.div_ceil(MOST / SMALL).max(MOST)
}

impl Driver<'_, '_, '_> {
    /// Emits what a block does.
    pub(super) fn block(&mut self, id: BlockId) -> Result<()> {
        let items = items(self.around, id);
        self.items(&items)
    }

    fn items(&mut self, items: &[Item<'_>]) -> Result<()> {
        let weights: Vec<usize> = items.iter().map(|&item| weight(self.around, item)).collect();
        let total: usize = weights.iter().sum();
        if total <= MOST || items.len() < 2 {
            return items.iter().try_for_each(|&item| self.item(item));
        }
        let most = section(total);
        let (mut first, mut sum) = (0, 0);
        for (i, w) in weights.into_iter().enumerate() {
            if sum + w > most && first < i {
                self.part(&items[first..i])?;
                (first, sum) = (i, 0);
            }
            sum += w;
        }
        self.part(&items[first..])
    }

    fn item(&mut self, item: Item<'_>) -> Result<()> {
        self.mark(Attribution::of_entry(self.around.sources));
        match item {
            Item::Copy(c) => {
                self.copy(c)?;
                Ok(())
            }
            Item::Copies(list) => self.copy_all(list),
            Item::Step(step) => self.step(step),
        }
    }

    /// Items in a function of their own, and its call.
    fn part(&mut self, items: &[Item<'_>]) -> Result<()> {
        let function = Driver::make(self.around, self.parts, true, &mut |part| part.items(items))?;
        self.parts.sections += 1;
        let name = format!("part{}", self.parts.sections);
        let id = self.parts.push(&name, function)?;
        let signature = self.b.func.import_signature(signature(PARAMETERS, true));
        let part = import_function(self.b.func, id, signature);
        let counter = match self.counter {
            Some(counter) => self.counter_address(counter),
            None => self.b.ins().iconst(types::I64, 0),
        };
        let arguments = [self.parameters.base, self.results.base, self.workspace, self.context, counter];
        let call = self.b.ins().call(part, &arguments);
        let status = self.b.inst_results(call)[0];
        let fine = self.b.ins().icmp_imm_s(IntCC::Equal, status, 0);
        self.return_unless(fine, status);
        Ok(())
    }

    /// Where the counter of the random number generator lies.
    pub(super) fn counter_address(&mut self, counter: Counter) -> Value {
        match counter {
            Counter::Slot(slot) => self.b.ins().stack_addr(types::I64, slot, 0),
            Counter::Pointer(pointer) => pointer,
        }
    }

    /// Copies by way of a table.
    fn copy_all(&mut self, copies: &[Copy]) -> Result<()> {
        let side = |location: Location| match location {
            Location::Parameter(n) => Ok((Bases::PARAMETERS, self.parameters.place(n)?)),
            Location::Result(n) => Ok((Bases::RESULTS, self.results.place(n)?)),
            Location::Workspace(offset) => Ok((Bases::WORKSPACE, LeafPlace { leaf: 0, offset })),
            Location::Constant(c) => Err(Error::Internal(format!("{c} in a table of copies"))),
        };
        let mut table = Vec::with_capacity(copies.len() * Row::SIZE as usize);
        let mut number = |value: u64, size: usize| {
            let start = table.len();
            table.extend_from_slice(&value.to_le_bytes()[..size]);
            self.around.target.order_bytes(&mut table[start..], size);
        };
        for c in copies {
            let ((from, source), (to, target)) = (side(c.from)?, side(c.to)?);
            for word in [from as u32, source.leaf, to as u32, target.leaf] {
                number(u64::from(word), 4);
            }
            for word in [source.offset, target.offset, c.bytes] {
                number(word, 8);
            }
        }
        let data = self.parts.table(&self.around.shared.symbol, table)?;
        let at = match self.parts.copier {
            Some(at) => at,
            None => {
                self.parts.push("copies", (copier(self.around.target), Executed::default()))?;
                *self.parts.copier.insert(self.parts.functions.len() - 1)
            }
        };
        let missing = || Error::Internal("a table of copies without its function".into());
        let (copier, _, executed) = self.parts.functions.get_mut(at).ok_or_else(missing)?;
        let copier = *copier;
        copies.iter().for_each(|c| executed.add_own(1, instructions_of_copy(c.bytes)));
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, Bases::SIZE, 3);
        let slot = self.b.create_sized_stack_slot(slot);
        let workspace = self.b.ins().stack_addr(types::I64, slot, Bases::POINTER);
        let words = [
            (8 * Bases::PARAMETERS as i32, self.parameters.base),
            (8 * Bases::RESULTS as i32, self.results.base),
            (8 * Bases::WORKSPACE as i32, workspace),
            (Bases::POINTER, self.workspace),
        ];
        for (offset, value) in words {
            self.b.ins().stack_store(types::I64, value, slot, offset);
        }
        let bases = self.b.ins().stack_addr(types::I64, slot, 0);
        let (table, count) = (self.data(data), self.b.ins().iconst(types::I64, copies.len() as i64));
        let signature = self.b.func.import_signature(signature(3, false));
        let copier = import_function(self.b.func, copier, signature);
        self.b.ins().call(copier, &[table, count, bases]);
        Ok(())
    }
}

/// Parameters of a part: the entry's, and the address of the random state.
pub(super) const PARAMETERS: usize = 5;

/// Tables of pointers that a copy's two sides are found by: the caller's two, and one that holds the workspace.
struct Bases;

impl Bases {
    const PARAMETERS: usize = 0;
    const RESULTS: usize = 1;
    const WORKSPACE: usize = 2;
    /// Where the workspace's pointer itself lies, behind the three.
    const POINTER: i32 = 24;
    const SIZE: u32 = 32;
}

/// Byte offsets of a copy in a table.
struct Row;

impl Row {
    const FROM_BASE: i32 = 0;
    const FROM_LEAF: i32 = 4;
    const TO_BASE: i32 = 8;
    const TO_LEAF: i32 = 12;
    const FROM_OFFSET: i32 = 16;
    const TO_OFFSET: i32 = 24;
    const BYTES: i32 = 32;
    const SIZE: i64 = 40;
}

/// `fn(table: *const Row, count: i64, bases: *const *const *mut u8)`: makes the copies of a table, one after another; one
/// between equal pointers is none.
fn copier(target: &Target) -> Function {
    let own = signature(3, false);
    let mut function = Function::with_name_signature(UserFuncName::default(), own);
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut function, &mut context);
    let values = enter(&mut b);
    let [table, count, bases] = [0, 1, 2].map(|i| values[i]);
    let zero = b.iconst(0);
    b.count(zero, count, 1, &mut |b, i| {
        let row = b.element(table, i, Row::SIZE);
        let [from, to] =
            [(Row::FROM_BASE, Row::FROM_LEAF, Row::FROM_OFFSET), (Row::TO_BASE, Row::TO_LEAF, Row::TO_OFFSET)].map(
                |(base, leaf, offset)| {
                    let [base, leaf] = [base, leaf].map(|at| {
                        let n = b.ins().load(types::I32, flags(), row, at);
                        b.ins().uextend(types::I64, n)
                    });
                    let base = b.element(bases, base, 8);
                    let base = b.ins().load(types::I64, flags(), base, 0);
                    let leaf = b.element(base, leaf, 8);
                    let leaf = b.ins().load(types::I64, flags(), leaf, 0);
                    let offset = b.ins().load(types::I64, flags(), row, offset);
                    b.ins().iadd(leaf, offset)
                },
            );
        let bytes = b.ins().load(types::I64, flags(), row, Row::BYTES);
        let apart = b.ins().icmp(IntCC::NotEqual, from, to);
        b.when(apart, &mut |b| copy_bytes(b, from, to, bytes));
    });
    b.ins().return_(&[]);
    b.finalize(target.isa.frontend_config());
    function
}

/// Copies so many bytes: 64 at a time, then 8, then single ones.
fn copy_bytes(b: &mut FunctionBuilder<'_>, from: Value, to: Value, bytes: Value) {
    let mut start = b.iconst(0);
    for (ty, size, unrolled) in [(types::I64, 8, 8), (types::I64, 8, 1), (types::I8, 1, 1)] {
        let step = size * unrolled;
        let end = b.ins().band_imm_s(bytes, -step);
        b.count(start, end, step, &mut |b, at| {
            let (source, target) = (b.ins().iadd(from, at), b.ins().iadd(to, at));
            let offsets = (0..unrolled).map(|k| (size * k) as i32);
            let words: Vec<(i32, Value)> = offsets.map(|k| (k, b.ins().load(ty, flags(), source, k))).collect();
            for (k, word) in words {
                b.ins().store(flags(), word, target, k);
            }
        });
        start = end;
    }
}
