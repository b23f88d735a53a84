//! Register loops as CLIF: scalars only.

use super::address::Bases;
use super::lanes::{Lanes, Shape, Val};
use super::vector::{Plain, roots};
use crate::kernel::body::{Body, NodeId};
use crate::kernel::registers::RegisterLoop;
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;

/// Emits the nodes that the roots need; `args` are the arguments.
fn emit(lanes: &mut Lanes<'_, '_>, body: &Body, args: &[Value], wanted: &[NodeId]) -> Vec<Value> {
    let args: Vec<Option<Val>> = args.iter().map(|&v| Some(Val::One(v))).collect();
    let mut plain = Plain { isa: &mut *lanes, shape: Shape::One };
    match roots(&mut plain, body, &args, wanted) {
        Some(all) => all.into_iter().map(|v| lanes.scalar(v)).collect(),
        None => wanted.iter().map(|&r| lanes.missing(body.scalar(r), "a register loop has no scalar form")).collect(),
    }
}

/// Emits a register loop; `bases` are the initial arrays, then the final ones.
pub fn emit_loop(lanes: &mut Lanes<'_, '_>, l: &RegisterLoop, bases: &Bases) {
    let n = l.state.len();
    let mut variables: Vec<Variable> = Vec::new();
    for (k, a) in l.state.iter().enumerate() {
        let from = lanes.base(bases, k as u32);
        for i in 0..a.elements {
            let raw = lanes.load_one(a.mem, from, (i as i64 * a.mem.bytes()) as i32);
            let (body, root) = &l.decode[k];
            for v in emit(lanes, body, &[raw], &[*root]) {
                let ty = lanes.b.func.dfg.value_type(v);
                let variable = lanes.b.declare_var(ty);
                lanes.b.def_var(variable, v);
                variables.push(variable);
            }
        }
    }
    // Tested before the loop and at its bottom, as Cranelift likes its loops.
    let (head, after) = (lanes.b.create_block(), lanes.b.create_block());
    let test = |lanes: &mut Lanes<'_, '_>| {
        let state: Vec<Value> = variables.iter().map(|&v| lanes.b.use_var(v)).collect();
        let more = emit(lanes, &l.condition.0, &state, &[l.condition.1]);
        lanes.b.ins().brif(more[0], head, &[], after, &[]);
    };
    test(lanes);
    lanes.b.switch_to_block(head);
    let state: Vec<Value> = variables.iter().map(|&v| lanes.b.use_var(v)).collect();
    let next = emit(lanes, &l.body.0, &state, &l.body.1);
    for (&variable, v) in variables.iter().zip(next) {
        lanes.b.def_var(variable, v);
    }
    test(lanes);
    lanes.b.seal_block(head);
    lanes.b.switch_to_block(after);
    lanes.b.seal_block(after);
    let mut rest = variables.iter();
    for (k, a) in l.state.iter().enumerate() {
        let to = lanes.base(bases, (n + k) as u32);
        for (i, &variable) in rest.by_ref().take(a.elements).enumerate() {
            let v = lanes.b.use_var(variable);
            let (body, root) = &l.encode[k];
            for v in emit(lanes, body, &[v], &[*root]) {
                lanes.store_one(a.mem, v, to, (i as i64 * a.mem.bytes()) as i32);
            }
        }
    }
}
