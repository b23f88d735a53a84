//! Reductions of a stage: what they are kept in while it runs, and how that is folded at its end.

use super::{At, NestEmitter};
use crate::codegen::flow::Flow;
use crate::codegen::lanes::{Shape, Val, clif_type, clif_vector};
use crate::codegen::rows::{Mode, VECTOR};
use crate::codegen::vector::{self, Isa, Partial};
use crate::kernel::body::{Body, Op, ScalarType};
use crate::kernel::ir::{Accumulator, Loop, Place, Stage};
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;

/// The number of the result that fills a row buffer; those of stages are counted from 0.
const FILL: u32 = u32::MAX;

/// The lanes of an accumulator while a stage runs: component, vector, register.
type LaneVariables = Vec<Vec<Vec<Variable>>>;

/// A reduction while its stage runs.
pub(super) enum Running {
    /// In row buffers.
    Row,
    /// Vectors of lanes.
    Vectors(LaneVariables),
    /// The registers of each component's first vector, whose first lane all others have been folded into.
    Folded(Vec<Vec<Variable>>),
    /// One scalar an element, folded by the same tree.
    Few(Vec<Vec<Variable>>),
    /// One after another, from the initial value.
    Chain(Vec<Variable>),
}

impl Running {
    /// Whether there are lanes that are still to be folded.
    pub(super) fn has_lanes(&self) -> bool {
        matches!(self, Running::Vectors(_) | Running::Few(_))
    }

    /// Lanes of vectors have been folded into the first one of each component; `None` where one has no vector.
    pub(super) fn set_folded(&mut self) -> Option<()> {
        if let Running::Vectors(all) = self {
            let first = all.iter_mut().map(|component| component.drain(..).next()).collect::<Option<_>>()?;
            *self = Running::Folded(first);
        }
        Some(())
    }
}

impl NestEmitter<'_, '_, '_, '_> {
    /// Sets an accumulator to its start; what a wide row starts by itself has variables alone.
    pub(super) fn start(
        &mut self,
        stage: &Stage,
        a: &Accumulator,
        mode: Mode,
        init: &[Value],
        by_itself: bool,
    ) -> Running {
        let types: Vec<ScalarType> = a.types().collect();
        let n = stage.vector.extent;
        match mode {
            Mode::Row => {
                if let Place::Row { rows } = &a.place {
                    for ((&row, &scalar), &v) in rows.iter().zip(&types).zip(init) {
                        self.fill_row(stage.vector, row, scalar, v);
                    }
                }
                Running::Row
            }
            Mode::Chain => Running::Chain(init.iter().map(|&v| self.variable(v)).collect()),
            Mode::Few => {
                let mut few = Vec::new();
                for (k, &scalar) in types.iter().enumerate() {
                    let mut column = Vec::new();
                    for _ in 0..n {
                        let v = self.start_of_lane(a, k, scalar);
                        column.push(self.variable(v));
                    }
                    few.push(column);
                }
                Running::Few(few)
            }
            Mode::Vectors(vectors) => {
                let mut all = Vec::new();
                for (k, &scalar) in types.iter().enumerate() {
                    let bits = a.identity.as_ref().map_or(0, |i| i[k]);
                    let mut component = Vec::new();
                    for _ in 0..vectors {
                        component.push(if by_itself {
                            (0..scalar.bits() / 32).map(|_| self.b().declare_var(clif_vector(scalar))).collect()
                        } else {
                            let v = self.lanes.constant_vector(scalar, bits);
                            vector_registers(v).into_iter().map(|r| self.variable(r)).collect()
                        });
                    }
                    all.push(component);
                }
                Running::Vectors(all)
            }
        }
    }

    /// The identity, with which a lane starts that no first element starts.
    fn start_of_lane(&mut self, a: &Accumulator, component: usize, scalar: ScalarType) -> Value {
        match a.identity.as_ref().and_then(|i| i.get(component)) {
            Some(&bits) => self.lanes.scalar_constant(scalar, bits),
            None => self.lanes.missing(scalar, "a lane without an element and without an identity"),
        }
    }

    /// Fills a row buffer: a row loop of its own.
    fn fill_row(&mut self, vector: Loop, row: u32, scalar: ScalarType, v: Value) {
        let row_type = self.nest.rows[row as usize].scalar;
        let v = if scalar.is_mask() { self.b().ins().uextend(clif_type(row_type), v) } else { v };
        self.results.insert(FILL, v);
        let mut body = Body::new();
        let value = body.push(Op::Result(FILL), &[], row_type);
        self.pass(&Stage { row_stores: vec![(row, value)], ..Stage::new(Vec::new(), vector, body) });
    }

    /// What elements are folded into; the first of lanes without an identity start them.
    pub(super) fn partial(&mut self, a: &Accumulator, running: &Running, at: At) -> Option<Partial<Val>> {
        Some(Partial::Running(match running {
            Running::Row | Running::Folded(_) => {
                self.lanes.fault("a reduction over lanes that was not started, or is at its end".to_owned());
                return None;
            }
            Running::Chain(variables) => variables.iter().map(|&v| Val::One(self.b().use_var(v))).collect(),
            Running::Few(columns) => columns
                .iter()
                .map(|c| Some(Val::One(self.b().use_var(*c.get(at.lane as usize)?))))
                .collect::<Option<_>>()?,
            Running::Vectors(all) => {
                let (round, vector, e) = place(a, at);
                if at.starts && round == 0 && a.identity.is_none() {
                    return Some(Partial::Starts);
                }
                let mut out = Vec::new();
                for (component, scalar) in all.iter().zip(a.types()) {
                    let v = self.use_vector(component.get(vector)?);
                    out.push(if at.vector { v } else { Val::One(self.lanes.extract(scalar, v, e)) });
                }
                out
            }
        }))
    }

    /// What it has become.
    pub(super) fn set_partial(&mut self, a: &Accumulator, running: &Running, at: At, new: Vec<Val>) -> Option<()> {
        match running {
            Running::Row | Running::Folded(_) => return None,
            Running::Chain(variables) => variables.iter().zip(new).for_each(|(&variable, v)| self.define(variable, v)),
            Running::Few(columns) => {
                for (column, v) in columns.iter().zip(new) {
                    self.define(*column.get(at.lane as usize)?, v);
                }
            }
            Running::Vectors(all) => {
                let (_, vector, e) = place(a, at);
                for ((component, scalar), v) in all.iter().zip(a.types()).zip(new) {
                    let registers = component.get(vector)?;
                    let v = match v {
                        Val::One(x) => {
                            let before = self.use_vector(registers);
                            self.lanes.insert(scalar, before, e, x)
                        }
                        v => v,
                    };
                    for (&variable, r) in registers.iter().zip(vector_registers(v)) {
                        self.b().def_var(variable, r);
                    }
                }
            }
        }
        Some(())
    }

    fn define(&mut self, variable: Variable, v: Val) {
        let v = self.lanes.scalar(v);
        self.b().def_var(variable, v);
    }

    /// A combiner on vectors or scalars.
    fn combine(&mut self, a: &Accumulator, args: Vec<Val>, shape: Shape) -> Vec<Val> {
        match vector::combine(&mut self.lanes, shape, a, args) {
            Some(all) => all,
            None => {
                a.types().map(|scalar| Val::One(self.lanes.missing(scalar, "a combiner has no form in CLIF"))).collect()
            }
        }
    }

    fn use_vector(&mut self, registers: &[Variable]) -> Val {
        match *registers {
            [a, b] => Val::Pair([self.b().use_var(a), self.b().use_var(b)]),
            [a, b, c, d] => Val::Each([a, b, c, d].map(|v| self.b().use_var(v))),
            [a, ..] => Val::Four(self.b().use_var(a)),
            [] => Val::One(self.lanes.missing(ScalarType::I64, "an accumulator without registers")),
        }
    }

    /// Folds lanes by halves, and combines the initial value.
    pub(super) fn fold(&mut self, a: &Accumulator, running: &Running, init: &[Value]) -> Vec<Value> {
        let types: Vec<ScalarType> = a.types().collect();
        // One row of components for each scalar lane that is left.
        let mut scalars: Vec<Vec<Value>> = match running {
            Running::Row => return Vec::new(),
            Running::Chain(variables) => return variables.iter().map(|&v| self.b().use_var(v)).collect(),
            Running::Few(columns) => {
                let n = columns.first().map_or(0, Vec::len);
                (0..n).map(|i| columns.iter().map(|c| self.b().use_var(c[i])).collect()).collect()
            }
            Running::Folded(all) => {
                let first = all.iter().zip(&types).map(|(registers, &scalar)| {
                    let vector = self.use_vector(registers);
                    self.lanes.extract(scalar, vector, 0)
                });
                vec![first.collect()]
            }
            Running::Vectors(all) => {
                let mut vectors: Vec<Vec<Val>> = (0..all[0].len())
                    .map(|i| all.iter().map(|component| self.use_vector(&component[i])).collect())
                    .collect();
                let mut half = (a.lane_count() / VECTOR / 2) as usize;
                while half >= 1 {
                    for i in 0..half {
                        if i + half < vectors.len() {
                            let args = vectors[i].iter().chain(&vectors[i + half]).copied().collect();
                            vectors[i] = self.combine(a, args, Shape::Vector);
                        }
                    }
                    vectors.truncate(half);
                    half /= 2;
                }
                (0..VECTOR as u8)
                    .map(|e| vectors[0].iter().zip(&types).map(|(&v, &l)| self.lanes.extract(l, v, e)).collect())
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
        let args = args.iter().map(|&v| Val::One(v)).collect();
        self.combine(a, args, Shape::One).into_iter().map(|v| self.lanes.scalar(v)).collect()
    }
}

/// Where elements enter the lanes of a reduction: which time round, in which vector, at which of its elements. One of fewer lanes goes
/// round them more than once in an iteration of the loop.
fn place(a: &Accumulator, at: At) -> (i64, usize, u8) {
    let (round, lane) = (at.lane / a.lane_count(), at.lane % a.lane_count());
    (round, (lane / VECTOR) as usize, (lane % VECTOR) as u8)
}

fn vector_registers(v: Val) -> Vec<Value> {
    match v {
        Val::One(v) | Val::Four(v) => vec![v],
        Val::Pair(p) => p.to_vec(),
        Val::Each(e) => e.to_vec(),
    }
}
