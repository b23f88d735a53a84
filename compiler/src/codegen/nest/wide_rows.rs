//! Row loops handed to code of 256 or 512 bits: its frame is filled, the function called, the accumulators taken back.

use super::fold::Running;
use super::{AROUND, Live, NestEmitter};
use crate::codegen::clif::{import_function, signature};
use crate::codegen::flow::Flow;
use crate::codegen::lanes::{Val, clif_vector, flags};
use crate::codegen::rows::{RowLoop, Segment, Width};
use crate::codegen::target::Target;
use crate::codegen::wide::{Frame, Pointer, Uniform, WideFunction, row_function, tile_function, tile_of};
use crate::kernel::body::{Mem, ScalarType, Variant};
use crate::kernel::ir::{LINE, Stage};
use crate::object::ObjectInput;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Value, types};
use cranelift_frontend::Variable;
use cranelift_module::FuncId;

/// Functions that a phase calls for its rows.
pub type WideFunctions = Vec<(FuncId, WideFunction)>;

/// The hand-encoded functions of a kernel's phase.
pub struct WideRows<'o> {
    /// Where they are declared.
    object: &'o mut ObjectInput,
    /// The phase's symbol, which theirs follow.
    phase: String,
    /// The functions.
    pub functions: WideFunctions,
    /// The widest registers of the target.
    pub(super) widest: Width,
    /// Whether fused multiply-add is there.
    pub(super) fma: bool,
    /// Rows with less work, in elements times nodes and what folds them, stay in 128-bit registers.
    least_work: i64,
}

impl<'o> WideRows<'o> {
    /// None yet, of a phase of that symbol; `None` where the target has no wide registers.
    pub fn new(object: &'o mut ObjectInput, phase: String, target: &Target, least_work: u64) -> Option<WideRows<'o>> {
        let (widest, fma) = (target.widest_rows()?, target.variant == Variant::Fma);
        let least_work = i64::try_from(least_work).unwrap_or(i64::MAX);
        Some(WideRows { object, phase, functions: Vec::new(), widest, fma, least_work })
    }
}

/// A function for a row, and what its frame holds.
pub(super) struct WideRow {
    id: FuncId,
    frame: Frame,
}

impl WideRow {
    /// The registers that it uses.
    pub(super) fn width(&self) -> Width {
        self.frame.width
    }

    /// Whether it starts the lanes of accumulators by itself.
    pub(super) fn starts_by_itself(&self) -> bool {
        self.frame.identities
    }

    /// What of the frame does not belong to accumulators that have so many bytes in it, of so many components.
    fn unlike(&self, bytes: u32, components: usize) -> Option<String> {
        let Frame { accumulators, ref ends, width, .. } = self.frame;
        if bytes != width.bytes() * accumulators {
            return Some(format!("{bytes} bytes of accumulators for a frame of {accumulators} registers"));
        }
        let fits = ends.is_empty() || ends.len() == components;
        (!fits).then(|| format!("{} ends of {components} components", ends.len()))
    }
}

impl NestEmitter<'_, '_, '_, '_> {
    /// The function that runs the whole iterations of a row, in the widest registers that it has a form for, where it is worth one.
    pub(super) fn wide_row(&mut self, row: &RowLoop<'_>) -> Option<WideRow> {
        let wide = self.wide.as_deref()?;
        let (fma, least_work) = (wide.fma, wide.least_work);
        for &width in row.widths(wide.widest) {
            let Some(segment) = row.wide_segment(width) else { continue };
            if row.work_in(&segment) < least_work {
                return None;
            }
            if let Some(function) = self.found(row_function(self.nest, row, &segment, width, fma)) {
                return self.push_wide(function);
            }
        }
        None
    }

    /// Runs a segment of the row in wide code, which may fold the lanes of each accumulator into the first one.
    pub(super) fn wide_segment(
        &mut self,
        row: &RowLoop<'_>,
        live: &mut Live,
        running: &mut [Running],
        wide: &WideRow,
        segment: &Segment,
    ) {
        let WideRow { id, frame } = wide;
        let all = lane_variables(row.stage, running, frame.width);
        let (bytes, components) = (all.iter().map(|l| l.bytes).sum(), all.iter().filter(|l| l.first).count());
        if let Some(what) = wide.unlike(bytes, components) {
            self.lanes.faults.report(what);
            return;
        }
        let at = self.frame(frame);
        self.fill(row, live, frame, at);
        for lanes in all.iter().filter(|_| !frame.identities) {
            let v = self.b().use_var(lanes.variable);
            let v = if lanes.alone { self.splat_register(lanes.scalar, v) } else { v };
            self.store_again(v, at, lanes.place, lanes.bytes);
        }
        // What is left behind whole iterations, the function does by itself.
        let whole = (segment.end - segment.begin) / segment.iteration * segment.iteration;
        self.call_wide(*id, at, segment.begin, segment.begin + whole);
        let firsts = all.iter().filter(|lanes| lanes.first);
        let ends = firsts.zip(&frame.ends).map(|(lanes, &end)| (end, lanes));
        let whole = all.iter().filter(|_| frame.ends.is_empty()).map(|lanes| (lanes.place, lanes));
        for (place, lanes) in ends.chain(whole) {
            let v = match lanes.scalar {
                scalar if !lanes.alone => self.b().ins().load(clif_vector(scalar), flags(), at, place as i32),
                scalar => {
                    let v = self.lanes.load_one(Mem::of(scalar), at, place as i32);
                    if scalar.is_mask() { self.b().ins().icmp_imm_s(IntCC::NotEqual, v, 0) } else { v }
                }
            };
            self.b().def_var(lanes.variable, v);
        }
        if !frame.ends.is_empty() {
            let folded: Option<()> = running.iter_mut().map(Running::set_folded).collect();
            if folded.is_none() {
                self.lanes.faults.report("an accumulator without a vector");
            }
        }
    }

    /// Runs a stage that is a tile in wide code, where it has such a form.
    pub(super) fn wide_tile(&mut self, stage: &Stage) -> bool {
        let (Some((around, inner)), Some(wide)) = (tile_of(stage), self.wide.as_deref()) else { return false };
        let row = RowLoop::along(stage, &[inner.axis, stage.vector.axis]);
        let work = inner.extent.saturating_mul(stage.vector.extent).saturating_mul(row.work());
        if work < wide.least_work {
            return false;
        }
        if let Err(what) = row.verify() {
            self.lanes.faults.report(what);
            return false;
        }
        let Some(plain) = self.tile(&row, false) else { return false };
        let past = if stage.streams { self.tile(&row, true) } else { None };
        let times = around.iter().map(|l| l.extent).fold(self.nest.points(), i64::saturating_mul);
        self.executed.add_own(times, AROUND);
        self.executed.add_called(times, work / plain.width().vector());
        self.nested(around, &mut |this| {
            let mut live = Live::default();
            this.uniform_nodes(&row, &mut live);
            this.row_pointers(&row, &mut live);
            let Some(past) = &past else { return this.run_tile(&row, &mut live, &plain) };
            let on_lines = this.on_lines(stage);
            this.either(on_lines, &mut |this, yes| this.run_tile(&row, &mut live, if yes { past } else { &plain }));
        });
        true
    }

    /// The function of a tile, in the widest registers that it has a form for.
    fn tile(&mut self, row: &RowLoop<'_>, past: bool) -> Option<WideRow> {
        let wide = self.wide.as_deref()?;
        let (widest, fma) = (wide.widest, wide.fma);
        let widths = Width::ALL.into_iter().rev().filter(|width| width.bits() <= widest.bits());
        for width in widths {
            if let Some(function) = self.found(tile_function(self.nest, row, width, fma, past)) {
                return self.push_wide(function);
            }
        }
        None
    }

    fn run_tile(&mut self, row: &RowLoop<'_>, live: &mut Live, WideRow { id, frame }: &WideRow) {
        let at = self.frame(frame);
        self.fill(row, live, frame, at);
        self.call_wide(*id, at, 0, row.stage.vector.extent);
    }

    /// Whether the buffers that a stage stores to start on lines.
    fn on_lines(&mut self, stage: &Stage) -> Value {
        let mut all = self.iconst(0);
        for s in &stage.stores {
            let base = self.base(s.buffer);
            all = self.b().ins().bor(all, base);
        }
        let behind = self.b().ins().band_imm_s(all, LINE - 1);
        self.b().ins().icmp_imm_s(IntCC::Equal, behind, 0)
    }

    /// What was selected, if anything; a fault is noted.
    fn found(&mut self, function: Result<Option<WideFunction>, String>) -> Option<WideFunction> {
        function.unwrap_or_else(|what| {
            self.lanes.faults.report(what);
            None
        })
    }

    /// Adds a function to those of the phase.
    fn push_wide(&mut self, function: WideFunction) -> Option<WideRow> {
        let wide = self.wide.as_deref_mut()?;
        let symbol = format!("{}.row{}", wide.phase, wide.functions.len());
        match wide.object.function(&symbol, false, &signature(3, false)) {
            Ok(id) => {
                let row = WideRow { id, frame: function.frame.clone() };
                wide.functions.push((id, function));
                Some(row)
            }
            Err(e) => {
                self.lanes.faults.report(e.to_string());
                None
            }
        }
    }

    /// Calls a function for the elements from `begin` to `end` of the row.
    fn call_wide(&mut self, id: FuncId, frame: Value, begin: i64, end: i64) {
        let (begin, end) = (self.iconst(begin), self.iconst(end));
        let signature = self.b().func.import_signature(signature(3, false));
        let f = import_function(self.b().func, id, signature);
        self.b().ins().call(f, &[frame, begin, end]);
    }

    /// Memory of the stack for a frame, where a register may lie.
    fn frame(&mut self, frame: &Frame) -> Value {
        let line = frame.width.bytes();
        let size = frame.bytes() + line;
        let slot = self.b().create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, size, 4));
        let start = self.b().ins().stack_addr(types::I64, slot, 0);
        let up = self.b().ins().iadd_imm_s(start, i64::from(line) - 1);
        self.b().ins().band_imm_s(up, -i64::from(line))
    }

    /// A register of a splat, all of which are the same.
    fn splat_register(&mut self, scalar: ScalarType, v: Value) -> Value {
        let (Val::One(v) | Val::Four(v) | Val::Pair([v, _]) | Val::Each([v, ..])) = self.lanes.splat(scalar, v);
        v
    }

    /// Stores a register again and again, until so many bytes of a frame have it.
    fn store_again(&mut self, v: Value, frame: Value, place: u32, bytes: u32) {
        for behind in (0..bytes).step_by(REGISTER as usize) {
            self.b().ins().store(flags(), v, frame, (place + behind) as i32);
        }
    }

    fn fill(&mut self, row: &RowLoop<'_>, live: &mut Live, frame: &Frame, at: Value) {
        for (k, uniform) in (0..).zip(&frame.uniforms) {
            let (scalar, v) = match uniform {
                Uniform::Node(id) => (row.stage.body.scalar(*id), self.uniform_node(row, live, *id)),
                Uniform::Index(ix, scalar) => {
                    let v = self.at(ix, &live.uniform);
                    (*scalar, if *scalar == ScalarType::I32 { self.b().ins().ireduce(types::I32, v) } else { v })
                }
            };
            let v = self.splat_register(scalar, v);
            let bytes = if frame.is_whole(k) { frame.width.bytes() } else { REGISTER };
            self.store_again(v, at, frame.uniform(k), bytes);
        }
        for (k, p) in (0..).zip(&frame.pointers) {
            let pointer = match p {
                Pointer::Load(id) => live.loads.get(id).copied(),
                Pointer::Store(number) => live.stores.get(number).copied(),
                Pointer::Row(number) if self.single(*number).is_some() => None,
                Pointer::Row(number) => Some(self.row_start(*number).0),
                Pointer::Anchor(k) => {
                    let anchor = frame.anchors.get(*k as usize);
                    anchor.map(|a| self.address(live, a.buffer, &a.index, a.bytes))
                }
            };
            // Selection has seen that each is linear, and so has a pointer.
            let pointer = match pointer {
                Some(address) => self.pointer(address),
                None => self.lanes.missing(ScalarType::I64, format!("{p:?} has no pointer")),
            };
            self.b().ins().store(flags(), pointer, at, frame.pointer(k) as i32);
        }
    }
}

/// Bytes of a register of CLIF.
const REGISTER: u32 = 16;

/// A variable of an accumulator in lanes, and where it lies in a frame.
struct Lanes {
    variable: Variable,
    scalar: ScalarType,
    /// Whether it is the only lane of its component, whose register in the frame then holds nothing else.
    alone: bool,
    /// Whether it has the first lane of its component.
    first: bool,
    place: u32,
    bytes: u32,
}

/// The variables of accumulators in the order of a frame: accumulator, component, vector, register. Each vector has one register of the
/// frame, or two, and each of these several of CLIF.
fn lane_variables(stage: &Stage, running: &[Running], width: Width) -> Vec<Lanes> {
    let mut all: Vec<Lanes> = Vec::new();
    let mut push = |variable, scalar, alone, first| {
        let place = all.last().map_or(0, |before| before.place + before.bytes);
        let bytes = if alone { width.bytes() } else { REGISTER };
        all.push(Lanes { variable, scalar, alone, first, place, bytes });
    };
    for (a, running) in stage.accumulators.iter().zip(running) {
        match running {
            Running::Vectors(components) => {
                for (component, scalar) in components.iter().zip(a.types()) {
                    for (k, &variable) in component.iter().flatten().enumerate() {
                        push(variable, scalar, false, k == 0);
                    }
                }
            }
            Running::Chain(variables) => {
                variables.iter().zip(a.types()).for_each(|(&variable, scalar)| push(variable, scalar, true, true));
            }
            Running::Row | Running::Few(_) | Running::Folded(_) => {}
        }
    }
    all
}
