//! Row loops handed to 256-bit code: its frame is filled, the function called, the accumulators taken back.

use super::NestEmitter;
use super::analysis::{StageInfo, analyse_along};
use super::fold::Mode;
use crate::codegen::driver::{import_function, signature};
use crate::codegen::flow::Flow;
use crate::codegen::lanes::{Val, flags};
use crate::codegen::wide::{Frame, Pointer, WideFunction, row_function, tile_function, tile_of, turn};
use crate::kernel::body::{Lane, Op};
use crate::kernel::ir::Stage;
use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Value, types};
use cranelift_frontend::Variable;

/// The 256-bit functions of a kernel's phase.
pub struct WideRows {
    /// Number of the first one among the functions of the program.
    pub first: u32,
    /// The functions.
    pub functions: Vec<WideFunction>,
    /// Whether fused multiply-add is there.
    pub fma: bool,
    /// Rows with less work, in elements times nodes, stay in 128-bit registers.
    pub least_work: i64,
}

impl NestEmitter<'_, '_, '_> {
    /// Runs as many whole turns as fit from element `done` of the row on in 256-bit code; the element behind them.
    pub(super) fn wide_rows(&mut self, stage: &Stage, info: &mut StageInfo, modes: &[Option<Mode>], done: i64) -> i64 {
        let n = stage.vector.extent;
        let turn = turn(stage, info);
        let whole = done + (n - done) / turn * turn;
        let Some(wide) = self.wide.as_deref() else { return done };
        // A chain goes through one element after another.
        let chained = modes.iter().any(|m| matches!(m, Some(Mode::Few(_) | Mode::Chain(_))));
        let work = (n - done).saturating_mul(info.nodes() as i64 + 1);
        if chained || whole == done || work < wide.least_work {
            return done;
        }
        let function = match row_function(self.nest, stage, info, wide.fma) {
            Ok(Some(function)) => function,
            Ok(None) => return done,
            Err(what) => {
                self.lanes.faults.report(what);
                return done;
            }
        };
        let frame = function.frame.clone();
        let variables = lane_variables(modes);
        if variables.len() as u32 != 2 * frame.accumulators {
            let (ours, theirs) = (variables.len(), frame.accumulators);
            let what = format!("{ours} halves of accumulators for a frame of {theirs} registers");
            self.lanes.faults.report(what);
            return done;
        }
        let Some(index) = self.push_wide(function) else { return done };
        let at = self.frame(&frame);
        self.fill(stage, info, &frame, at);
        for (k, &variable) in variables.iter().enumerate() {
            let v = self.b().use_var(variable);
            // A register of CLIF is half a register here; those of a component follow each other.
            self.b().ins().store(flags(), v, at, 16 * k as i32);
        }
        self.call_wide(index, at, done, whole);
        for (k, &variable) in variables.iter().enumerate() {
            let old = self.b().use_var(variable);
            let ty = self.b().func.dfg.value_type(old);
            let v = self.b().ins().load(ty, flags(), at, 16 * k as i32);
            self.b().def_var(variable, v);
        }
        whole
    }

    /// Runs a stage that is a tile in 256-bit code, where it has that form.
    pub(super) fn wide_tile(&mut self, stage: &Stage) -> bool {
        let (Some(inner), Some(wide)) = (tile_of(stage), self.wide.as_deref()) else { return false };
        let mut info = analyse_along(stage, &[inner.axis, stage.vector.axis]);
        let work = inner.extent.saturating_mul(stage.vector.extent).saturating_mul(info.nodes() as i64 + 1);
        if work < wide.least_work {
            return false;
        }
        let function = match tile_function(self.nest, stage, &info, wide.fma) {
            Ok(Some(function)) => function,
            Ok(None) => return false,
            Err(what) => {
                self.lanes.faults.report(what);
                return false;
            }
        };
        let frame = function.frame.clone();
        let Some(index) = self.push_wide(function) else { return false };
        // Pointers are to the first element of both axes.
        let zero = self.iconst(0);
        self.axes.insert(inner.axis, zero);
        self.uniform_nodes(stage, &mut info);
        self.row_pointers(stage, &mut info);
        let at = self.frame(&frame);
        self.fill(stage, &mut info, &frame, at);
        self.call_wide(index, at, 0, stage.vector.extent);
        true
    }

    /// Adds a function to those of the phase; its number.
    fn push_wide(&mut self, function: WideFunction) -> Option<u32> {
        let wide = self.wide.as_deref_mut()?;
        let index = wide.first + wide.functions.len() as u32;
        wide.functions.push(function);
        Some(index)
    }

    /// Calls a function for the elements from `begin` to `end` of the row.
    fn call_wide(&mut self, index: u32, frame: Value, begin: i64, end: i64) {
        let (begin, end) = (self.iconst(begin), self.iconst(end));
        let signature = self.b().func.import_signature(signature(3, false));
        let f = import_function(self.b().func, index, signature);
        self.b().ins().call(f, &[frame, begin, end]);
    }

    /// Memory of the stack for a frame, on a line of 32 bytes.
    fn frame(&mut self, frame: &Frame) -> Value {
        let size = frame.bytes() + 32;
        let slot = self.b().create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, size, 4));
        let start = self.b().ins().stack_addr(types::I64, slot, 0);
        let up = self.b().ins().iadd_imm_s(start, 31);
        self.b().ins().band_imm_s(up, -32)
    }

    fn fill(&mut self, stage: &Stage, info: &mut StageInfo, frame: &Frame, at: Value) {
        for (k, &id) in (0..).zip(&frame.uniforms) {
            let lane = stage.body.lane(id);
            let v = match &stage.body.node(id).op {
                // Of an index, what it is at the row's first element.
                Op::Index(ix) if info.varies[id.0 as usize] => {
                    let v = self.at(ix, Some(stage.vector.axis), &info.uniform);
                    if lane == Lane::I32 { self.b().ins().ireduce(types::I32, v) } else { v }
                }
                _ => self.uniform_node(stage, info, id),
            };
            // Both registers of a splat are the same.
            let (Val::One(v) | Val::Four(v) | Val::Pair([v, _])) = self.lanes.splat(lane, v);
            for half in [0, 16] {
                self.b().ins().store(flags(), v, at, frame.uniform(k) as i32 + half);
            }
        }
        for (k, p) in (0..).zip(&frame.pointers) {
            let pointer = match p {
                Pointer::Load(id) => info.loads.get(id).map(|l| l.0),
                Pointer::Store(number) => info.stores.get(number).map(|s| s.0),
                Pointer::Row(row) => Some(self.row_pointer(*row).0),
            };
            // Selection has seen that each is linear, and so has a pointer.
            let pointer = match pointer {
                Some(pointer) => pointer,
                None => self.lanes.missing(Lane::I64, format!("{p:?} has no pointer")),
            };
            self.b().ins().store(flags(), pointer, at, frame.pointer(k) as i32);
        }
    }
}

/// The variables of accumulators in lanes: accumulator, component, block, register.
fn lane_variables(modes: &[Option<Mode>]) -> Vec<Variable> {
    let blocks = modes.iter().filter_map(|m| match m {
        Some(Mode::Blocks(all)) => Some(all),
        _ => None,
    });
    blocks.flatten().flatten().flatten().copied().collect()
}
