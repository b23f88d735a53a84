//! Index expressions, and where buffers start, as values.

use super::flow::Flow;
use super::lanes::{Lanes, flags};
use crate::kernel::body::{NodeId, ScalarType};
use crate::kernel::index::{Atom, Axis, Ix};
use cranelift_codegen::ir::{InstBuilder, Value, types};
use cranelift_frontend::FunctionBuilder;
use hashbrown::HashMap;

/// Pointers of buffers, by number: of those that the code around uses.
#[derive(Clone, Debug, Default)]
pub struct Bases(HashMap<u32, Value>);

impl Bases {
    /// The pointers of some buffers, out of the table of their kernel's.
    pub fn load(b: &mut FunctionBuilder<'_>, table: Value, buffers: &[u32]) -> Bases {
        let load = |&k: &u32| (k, b.ins().load(types::I64, flags(), table, 8 * k as i32));
        Bases(buffers.iter().map(load).collect())
    }

    /// The same and one more.
    pub fn with(mut self, buffer: u32, pointer: Value) -> Bases {
        self.0.insert(buffer, pointer);
        self
    }
}

impl Lanes<'_, '_> {
    /// The pointer of a buffer.
    pub fn base(&mut self, bases: &Bases, buffer: u32) -> Value {
        match bases.0.get(&buffer) {
            Some(&base) => base,
            None => self.missing(ScalarType::I64, format!("buffer {buffer} is used where its pointer is not known")),
        }
    }

    /// The value of an index expression where the axes and the loaded offsets have the values given.
    pub fn index(&mut self, ix: &Ix, at: Point<'_>) -> Value {
        let mut sum: Option<Value> = None;
        for (atom, c) in &ix.terms {
            let v = match atom {
                Atom::Axis(a, _) => match at.axes.get(a) {
                    Some(&v) => v,
                    None => self.missing(ScalarType::I64, format!("axis i{} runs in no loop around its use", a.0)),
                },
                Atom::Div(x, n) => {
                    let (x, low) = self.non_negative(x, *n, at);
                    let n_value = self.iconst(*n);
                    let q = self.b.ins().udiv(x, n_value);
                    if low == 0 { q } else { self.b.ins().iadd_imm_s(q, low / n) }
                }
                Atom::Mod(x, n) => {
                    let (x, _) = self.non_negative(x, *n, at);
                    let n = self.iconst(*n);
                    self.b.ins().urem(x, n)
                }
                Atom::Value(node, _, _) => match at.values.get(node) {
                    Some(&v) => v,
                    None => {
                        self.missing(ScalarType::I64, format!("the offset %{} is used before it is loaded", node.0))
                    }
                },
            };
            let term = if *c == 1 { v } else { self.b.ins().imul_imm_s(v, *c) };
            sum = Some(match sum {
                Some(s) => self.b.ins().iadd(s, term),
                None => term,
            });
        }
        match sum {
            Some(s) if ix.constant == 0 => s,
            Some(s) => self.b.ins().iadd_imm_s(s, ix.constant),
            None => self.iconst(ix.constant),
        }
    }

    /// `x` made non-negative by adding a multiple of `n`, and what must be added to the floor quotient times `n`.
    fn non_negative(&mut self, x: &Ix, n: i64, at: Point<'_>) -> (Value, i64) {
        let (low, _) = x.range();
        let shift = if low < 0 { low.div_euclid(n) * n } else { 0 };
        let v = self.index(x, at);
        (if shift == 0 { v } else { self.b.ins().iadd_imm_s(v, -shift) }, shift)
    }
}

/// Where an index expression is taken.
#[derive(Clone, Copy)]
pub struct Point<'p> {
    /// The loop variables that are running.
    pub axes: &'p HashMap<Axis, Value>,
    /// The loaded offsets.
    pub values: &'p HashMap<NodeId, Value>,
}
