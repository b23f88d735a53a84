//! Reductions of a stage: what they are kept in while it runs, and how that is folded at its end.

use super::{Elements, NestEmitter};
use crate::codegen::flow::Flow;
use crate::codegen::lanes::{Val, scalar_type};
use crate::codegen::rows::{BLOCK, Mode};
use crate::kernel::body::{Body, IntCond, Lane, Mem, NodeId, Op};
use crate::kernel::ir::{Accumulator, Place, Stage};
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;
use std::collections::HashMap;

/// The lanes of an accumulator while a stage runs: component, block, register.
type LaneVariables = Vec<Vec<Vec<Variable>>>;

/// A reduction while its stage runs.
pub(super) enum Running {
    /// In row buffers.
    Row,
    /// Blocks of lanes.
    Blocks(LaneVariables),
    /// One scalar an element, folded by the same tree.
    Few(Vec<Vec<Variable>>),
    /// One after another, from the initial value.
    Chain(Vec<Variable>),
}

impl NestEmitter<'_, '_, '_, '_> {
    /// Sets an accumulator to its start.
    pub(super) fn start(&mut self, stage: &Stage, a: &Accumulator, mode: Mode, init: &[Value]) -> Running {
        let lanes: Vec<Lane> = a.lanes().collect();
        let n = stage.vector.extent;
        match mode {
            Mode::Row => {
                if let Place::Row { rows } = &a.place {
                    for ((&row, &lane), &v) in rows.iter().zip(&lanes).zip(init) {
                        self.fill_row(row, lane, v, n);
                    }
                }
                Running::Row
            }
            Mode::Chain => Running::Chain(init.iter().map(|&v| self.variable(v)).collect()),
            Mode::Few => {
                let mut few = Vec::new();
                for (k, &lane) in lanes.iter().enumerate() {
                    let mut column = Vec::new();
                    for _ in 0..n {
                        let v = self.start_of_lane(a, k, lane);
                        column.push(self.variable(v));
                    }
                    few.push(column);
                }
                Running::Few(few)
            }
            Mode::Blocks(blocks) => {
                let mut all = Vec::new();
                for (k, &lane) in lanes.iter().enumerate() {
                    let bits = a.identity.as_ref().map_or(0, |i| i[k]);
                    let mut component = Vec::new();
                    for _ in 0..blocks {
                        let v = self.lanes.constant_block(lane, bits);
                        component.push(block_registers(v).into_iter().map(|r| self.variable(r)).collect());
                    }
                    all.push(component);
                }
                Running::Blocks(all)
            }
        }
    }

    /// The identity, with which a lane starts that no first element starts.
    fn start_of_lane(&mut self, a: &Accumulator, component: usize, lane: Lane) -> Value {
        match a.identity.as_ref().and_then(|i| i.get(component)) {
            Some(&bits) => self.lanes.constant(lane, bits),
            None => self.lanes.missing(lane, "a lane without an element and without an identity"),
        }
    }

    fn fill_row(&mut self, row: u32, lane: Lane, v: Value, n: i64) {
        let (pointer, row_lane) = self.row_pointer(row);
        let v = if lane.is_mask() { self.b().ins().uextend(scalar_type(row_lane), v) } else { v };
        let bytes = i64::from(row_lane.bits() / 8);
        let block = self.lanes.splat(row_lane, v);
        let whole = n / BLOCK * BLOCK;
        self.count_constant(0, whole, BLOCK, &mut |this, i| {
            let at = this.element(pointer, i, bytes);
            this.lanes.store_block(Mem::of(row_lane), block, at, 0);
        });
        self.count_constant(whole, n, 1, &mut |this, i| {
            let at = this.element(pointer, i, bytes);
            this.lanes.store_one(Mem::of(row_lane), v, at, 0);
        });
    }

    /// Emits a combiner on blocks or scalars.
    fn combine(&mut self, a: &Accumulator, args: &[Val], block: bool) -> Vec<Val> {
        let mut values: HashMap<NodeId, Val> = HashMap::new();
        let needed = a.combine.needed(a.roots.iter().copied());
        for (i, node) in a.combine.nodes().iter().enumerate().filter(|(i, _)| needed[*i]) {
            self.lanes.mark(a.combine.source(NodeId(i as u32)));
            let v = match &node.op {
                Op::Arg(n) => match args.get(*n as usize) {
                    Some(&v) => v,
                    None => Val::One(self.lanes.missing(node.lane, format!("a combiner has no argument {n}"))),
                },
                Op::Const(bits) if block => self.lanes.constant_block(node.lane, *bits),
                Op::Const(bits) => Val::One(self.lanes.constant(node.lane, *bits)),
                op => {
                    let inputs: Vec<Val> = node.args.iter().map(|x| self.combined(&values, *x, &a.combine)).collect();
                    let from: Vec<Lane> = node.args.iter().map(|&x| a.combine.lane(x)).collect();
                    self.lanes.node(op, &inputs, &from, node.lane)
                }
            };
            values.insert(NodeId(i as u32), v);
        }
        a.roots.iter().map(|r| self.combined(&values, *r, &a.combine)).collect()
    }

    fn combined(&mut self, values: &HashMap<NodeId, Val>, id: NodeId, body: &Body) -> Val {
        match values.get(&id) {
            Some(&v) => v,
            None => Val::One(self.lanes.missing(body.lane(id), format!("node %{} of a combiner has no value", id.0))),
        }
    }

    /// Takes what was computed for some elements into an accumulator.
    pub(super) fn accumulate(&mut self, a: &Accumulator, running: &Running, new: &[(Lane, Val)], at: Elements) {
        let Elements { i, offset, block, lane, starts } = at;
        match (running, &a.place) {
            (Running::Row, Place::Row { rows }) => {
                let lanes: Vec<Lane> = a.lanes().collect();
                let mut args = Vec::new();
                for (&row, &lane) in rows.iter().zip(&lanes) {
                    let raw = self.row_access(row, i, offset, None, block);
                    args.push(if lane.is_mask() { self.mask_from_row(lane, raw, block) } else { raw });
                }
                args.extend(new.iter().map(|&(_, v)| v));
                let out = self.combine(a, &args, block);
                for ((&row, v), &lane) in rows.iter().zip(out).zip(&lanes) {
                    let v =
                        if lane.is_mask() { self.lanes.node(&Op::MaskToInt, &[v], &[lane], lane.integer()) } else { v };
                    self.row_access(row, i, offset, Some(v), block);
                }
            }
            (Running::Chain(variables), _) => {
                for e in 0..if block { BLOCK as u8 } else { 1 } {
                    let mut args: Vec<Val> = variables.iter().map(|&v| Val::One(self.b().use_var(v))).collect();
                    for &(lane, v) in new {
                        args.push(Val::One(self.lanes.extract(lane, v, e)));
                    }
                    let out = self.combine(a, &args, false);
                    for (&variable, v) in variables.iter().zip(out) {
                        self.define(variable, v);
                    }
                }
            }
            (Running::Few(columns), _) => {
                let variables: Vec<Variable> = columns.iter().map(|c| c[lane as usize]).collect();
                let mut args: Vec<Val> = variables.iter().map(|&v| Val::One(self.b().use_var(v))).collect();
                args.extend(new.iter().map(|&(_, v)| v));
                let out = self.combine(a, &args, false);
                for (variable, v) in variables.into_iter().zip(out) {
                    self.define(variable, v);
                }
            }
            (Running::Blocks(all), _) => {
                // A reduction of fewer lanes goes round them more than once in a turn of the loop.
                let (round, lane) = (lane / a.lane_count(), lane % a.lane_count());
                let at = (lane / BLOCK) as usize;
                if starts && round == 0 && a.identity.is_none() {
                    for (component, &(_, v)) in all.iter().zip(new) {
                        for (&variable, r) in component[at].iter().zip(block_registers(v)) {
                            self.b().def_var(variable, r);
                        }
                    }
                    return;
                }
                let old: Vec<Val> = all.iter().map(|c| self.use_block(&c[at])).collect();
                let lanes: Vec<Lane> = a.lanes().collect();
                let e = (lane % BLOCK) as u8;
                let mut args = Vec::new();
                for (&v, &l) in old.iter().zip(&lanes) {
                    args.push(if block { v } else { Val::One(self.lanes.extract(l, v, e)) });
                }
                args.extend(new.iter().map(|&(_, v)| v));
                let out = self.combine(a, &args, block);
                for (((component, v), &l), &before) in all.iter().zip(out).zip(&lanes).zip(&old) {
                    let v = match v {
                        Val::One(x) => self.lanes.insert(l, before, e, x),
                        v => v,
                    };
                    for (&variable, r) in component[at].iter().zip(block_registers(v)) {
                        self.b().def_var(variable, r);
                    }
                }
            }
            (Running::Row, Place::Lanes { .. }) => {
                self.lanes.faults.report("a reduction over lanes that was not started")
            }
        }
    }

    fn define(&mut self, variable: Variable, v: Val) {
        let v = self.lanes.scalar(v);
        self.b().def_var(variable, v);
    }

    fn mask_from_row(&mut self, lane: Lane, raw: Val, block: bool) -> Val {
        let zero = if block {
            self.lanes.constant_block(lane.integer(), 0)
        } else {
            Val::One(self.lanes.constant(lane.integer(), 0))
        };
        let ne = Op::ICmp(IntCond::Ne);
        self.lanes.node(&ne, &[raw, zero], &[lane.integer(), lane.integer()], lane)
    }

    fn use_block(&mut self, registers: &[Variable]) -> Val {
        match *registers {
            [a, b] => Val::Pair([self.b().use_var(a), self.b().use_var(b)]),
            [a, b, c, d] => Val::Each([a, b, c, d].map(|v| self.b().use_var(v))),
            [a, ..] => Val::Four(self.b().use_var(a)),
            [] => Val::One(self.lanes.missing(Lane::I64, "an accumulator without registers")),
        }
    }

    /// Folds lanes by halves and combines the initial value.
    pub(super) fn fold(&mut self, a: &Accumulator, running: &Running, init: &[Value]) -> Vec<Value> {
        let lanes: Vec<Lane> = a.lanes().collect();
        // One row of components for each scalar lane that is left.
        let mut scalars: Vec<Vec<Value>> = match running {
            Running::Row => return Vec::new(),
            Running::Chain(variables) => return variables.iter().map(|&v| self.b().use_var(v)).collect(),
            Running::Few(columns) => {
                let n = columns.first().map_or(0, Vec::len);
                (0..n).map(|i| columns.iter().map(|c| self.b().use_var(c[i])).collect()).collect()
            }
            Running::Blocks(all) => {
                let mut blocks: Vec<Vec<Val>> = (0..all[0].len())
                    .map(|i| all.iter().map(|component| self.use_block(&component[i])).collect())
                    .collect();
                let mut half = (a.lane_count() / BLOCK / 2) as usize;
                while half >= 1 {
                    for i in 0..half {
                        if i + half < blocks.len() {
                            let args: Vec<Val> = blocks[i].iter().chain(&blocks[i + half]).copied().collect();
                            blocks[i] = self.combine(a, &args, true);
                        }
                    }
                    blocks.truncate(half);
                    half /= 2;
                }
                (0..BLOCK as u8)
                    .map(|e| blocks[0].iter().zip(&lanes).map(|(&v, &l)| self.lanes.extract(l, v, e)).collect())
                    .collect()
            }
        };
        let mut half = (scalars.len() as u64).next_power_of_two() as usize / 2;
        while half >= 1 {
            for i in 0..half {
                if i + half < scalars.len() {
                    let args: Vec<Value> = scalars[i].iter().chain(&scalars[i + half]).copied().collect();
                    scalars[i] = self.combine_scalars(a, &args);
                }
            }
            scalars.truncate(half);
            half /= 2;
        }
        let args: Vec<Value> = init.iter().chain(scalars.first().map_or(&[][..], |s| s)).copied().collect();
        self.combine_scalars(a, &args)
    }

    fn combine_scalars(&mut self, a: &Accumulator, args: &[Value]) -> Vec<Value> {
        let args: Vec<Val> = args.iter().map(|&v| Val::One(v)).collect();
        self.combine(a, &args, false).into_iter().map(|v| self.lanes.scalar(v)).collect()
    }
}

fn block_registers(v: Val) -> Vec<Value> {
    match v {
        Val::One(v) | Val::Four(v) => vec![v],
        Val::Pair(p) => p.to_vec(),
        Val::Each(e) => e.to_vec(),
    }
}
