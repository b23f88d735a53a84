//! Scans: the loop that a scan is, counted, is differentiated instead.
//!
//! The state of that loop has a counter, the inputs, the outputs as far as they are made, and the carries. What it hands on
//! unchanged, and what its derivative does not read, is not kept: of a scan's loop the carries alone are.

use super::counted::{COUNTER, condition, shapes_of, state, zeros_of};
use super::replay::{element, leaves, may_run_again, replay};
use super::rule::Rule;
use super::trips::MOST;
use crate::builder::{Builder, Op, Shape};
use crate::error::Result;
use crate::hlo::{AttrKey, Module};
use brolga_runtime::ArrayShape;

pub(super) fn rule(r: &mut Rule<'_>) -> Result<()> {
    let computation = r.callee(AttrKey::ToApply)?;
    may_run_again(r, &computation)?;
    let scan = Scan::of(r)?;
    if scan.length > MOST {
        return Err(r.refuse(&format!("of more than {MOST} steps")));
    }
    r.instead(|r| scan.written_out(r, &computation))
}

/// What a scan walks over.
struct Scan {
    axis: usize,
    length: i64,
    /// How many of the operands are inputs; the others are the first carries.
    inputs: usize,
    outputs: Vec<ArrayShape>,
}

impl Scan {
    fn of(r: &Rule<'_>) -> Result<Scan> {
        let count = r.operands.len();
        let carries = r.attrs().int(AttrKey::NumCarries).map_or(Some(count / 2), |n| usize::try_from(n).ok());
        let inputs = carries.and_then(|n| count.checked_sub(n)).ok_or_else(|| r.broken("has too few operands"))?;
        let parts = match &r.instruction.shape {
            Shape::Tuple(parts) => parts.to_vec(),
            one => vec![one.clone()],
        };
        let outputs = (parts.len() + inputs).checked_sub(count).and_then(|n| parts.get(..n)).unwrap_or_default();
        let outputs = outputs.iter().filter_map(Shape::as_array).map(|a| a.with_type(a.ty)).collect();
        let first = r.shape(r.operand(0)?)?;
        let [axis] = r.attrs().dimension_numbers(AttrKey::Dimensions)[..] else {
            return Err(r.broken("walks no dimension"));
        };
        let length = first.dims.get(axis).copied().ok_or_else(|| r.broken("walks a dimension that is not there"))?;
        Ok(Scan { axis, length, inputs, outputs })
    }

    /// The sizes of an array of one slice, and of the slice.
    fn slice(&self, array: &ArrayShape) -> (Vec<i64>, Vec<i64>) {
        let (mut thick, mut thin) = (array.dims.clone(), array.dims.clone());
        thick[self.axis] = 1;
        thin.remove(self.axis);
        (thick, thin)
    }

    /// The leaves of the result, made by a loop.
    fn written_out(&self, r: &Rule<'_>, computation: &Module) -> Result<Vec<Op>> {
        let (inputs, carries) = r.operands.split_at(self.inputs);
        let empty: Vec<Op> = self.outputs.iter().map(|o| zeros_of(r.b, o)).collect();
        if self.length == 0 {
            let all = empty.iter().chain(carries).map(|&op| leaves(r.b, op)).collect::<Result<Vec<_>>>()?;
            return Ok(all.concat());
        }
        let init = [&[r.b.zero(COUNTER)], inputs, &empty, carries].concat();
        let shapes = shapes_of(r.b, &init)?;
        let body = self.body(r, computation, &shapes)?;
        let limit = i32::try_from(self.length).map_err(|_| r.broken("has too many steps"))?;
        let last = r.b.while_(&condition(r, &shapes, Some(limit))?, &body, r.b.tuple(&init));
        let results = (1 + inputs.len()..init.len()).map(|k| leaves(r.b, r.b.get_tuple_element(last, k as i64)));
        Ok(results.collect::<Result<Vec<_>>>()?.concat())
    }

    /// A step: slices are read, the computation is copied in, slices are written.
    fn body(&self, r: &Rule<'_>, computation: &Module, shapes: &[Shape]) -> Result<Module> {
        let b = Builder::new_at(r.at, &format!("{}.step", computation.name));
        let now = state(&b, shapes);
        let (counter, rest) = (now[0], &now[1..]);
        let (inputs, rest) = rest.split_at(self.inputs);
        let (outputs, carries) = rest.split_at(self.outputs.len());
        let at = match r.attrs().bool(AttrKey::IsReverse).unwrap_or(false) {
            true => b.sub(b.constant_r0(i32::try_from(self.length - 1).unwrap_or(0)), counter),
            false => counter,
        };
        let zero = b.zero(COUNTER);
        let place = |rank: usize| (0..rank).map(|d| if d == self.axis { at } else { zero }).collect::<Vec<Op>>();
        let mut arguments = Vec::with_capacity(self.inputs + carries.len());
        for &input in inputs {
            let array = r.shape_in(&b, input)?;
            let (thick, thin) = self.slice(&array);
            let slice = b.dynamic_slice(input, &place(array.rank()), &thick);
            arguments.push(Some(b.reshape(slice, &thin)));
        }
        arguments.extend(carries.iter().copied().map(Some));
        let result = replay(&b, r.at, computation, &arguments)?;
        let count = outputs.len() + carries.len();
        let results: Vec<Op> = match b.shape(result)? {
            Shape::Tuple(_) => (0..count).map(|k| element(&b, result, k)).collect(),
            _ => vec![result],
        };
        let mut next = vec![b.add(counter, b.one(COUNTER))];
        next.extend(inputs);
        for (&output, &slice) in outputs.iter().zip(&results) {
            let array = r.shape_in(&b, output)?;
            let thick = b.reshape(slice, &self.slice(&array).0);
            next.push(b.dynamic_update_slice(output, thick, &place(array.rank())));
        }
        next.extend(results.get(outputs.len()..).unwrap_or_default());
        let root = b.tuple(&next);
        b.build_with_root(root)
    }
}
