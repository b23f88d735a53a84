//! Calls, branches, loops and tuples.

use super::Example;
use brolga_compiler::builder::Builder;
use brolga_compiler::hlo::{AttrKey, Module, Opcode};
use brolga_runtime::ElementType::{F32, S32};
use brolga_runtime::{ArrayLiteral, Shape};

fn scaled(name: &str, by: f32) -> Module {
    let b = Builder::new(name);
    b.mul(b.parameter(0, Shape::array(F32, [2]), "x"), b.constant_r0(by));
    b.build().unwrap()
}

#[test]
fn tuple_and_get_tuple_element() {
    let x = Example::new();
    let elements: Vec<f32> = (0..10).map(|i| i as f32).collect();
    let t = x.b.tuple(&[x.array(&[10], &elements), x.scalar(5i32)]);
    let root = x.b.get_tuple_element(t, 1);
    assert_eq!(x.b.shape(root).unwrap(), Shape::scalar(S32), "the shape matches");
    x.gives_array(root, &[], &[5i32]);
}

#[test]
fn call_and_composite_call() {
    let x = Example::new();
    let value = x.array(&[2], &[1f32, 2.0]);
    let plain = x.b.call(&scaled("double", 2.0), &[value]);
    let attributes = Some("{n = 1 : i32, tensor = dense<1> : tensor<i32>}");
    let composite = x.b.composite_call(&scaled("triple", 3.0), &[value], "foo.bar", attributes, 1);
    let none = Builder::new("nothing");
    none.constant_r0(7f32);
    let empty = x.b.call(&none.build().unwrap(), &[]);
    let root = x.b.tuple(&[plain, composite, empty]);
    x.gives(
        root,
        &[
            ArrayLiteral::from_elements(&[2], &[2f32, 4.0]),
            ArrayLiteral::from_elements(&[2], &[3f32, 6.0]),
            ArrayLiteral::scalar(7f32),
        ],
    );
}

#[test]
fn a_composite_call_says_what_it_is() {
    let b = Builder::new("main");
    let x = b.parameter(0, Shape::array(F32, [2]), "x");
    b.composite_call(&scaled("triple", 3.0), &[x], "foo.bar", None, 0);
    let module = b.build().unwrap();
    let entry = module.entry();
    let call = &entry.instructions[entry.root];
    assert_eq!((call.opcode, call.attrs.bool(AttrKey::IsComposite)), (Opcode::Call, Some(true)));
    let text = brolga_compiler::text::print(&module, &Default::default());
    assert!(text.contains("composite.name=\"foo.bar\"") && text.contains("composite.version=\"0\""), "{text}");
    brolga_compiler::text::parse(&text).unwrap();
}

#[test]
fn conditional_runs_one_branch() {
    for (pred, want) in [(true, [2f32, 4.0]), (false, [30.0, 60.0])] {
        let x = Example::new();
        let (t, f) = (x.array(&[2], &[1f32, 2.0]), x.array(&[2], &[10f32, 20.0]));
        let root = x.b.conditional(x.pred(&[], &[pred]), t, &scaled("double", 2.0), f, &scaled("triple", 3.0));
        x.gives_array(root, &[2], &want);
    }
}

#[test]
fn conditional_with_an_index_out_of_range_runs_the_last_branch() {
    for (index, factor) in [(0, 2f32), (1, 3.0), (2, 5.0), (3, 5.0), (-1, 5.0), (i32::MIN, 5.0)] {
        let x = Example::new();
        let value = x.array(&[2], &[1f32, 2.0]);
        let branches = [scaled("a", 2.0), scaled("b", 3.0), scaled("c", 5.0)];
        let all: Vec<&Module> = branches.iter().collect();
        let root = x.b.conditional_indexed(x.scalar(index), &all, &[value; 3]);
        x.gives_array(root, &[2], &[factor, 2.0 * factor]);
    }
}

/// The pseudo-code: a thousand times a constant vector, added to an accumulator.
#[test]
fn while_counts_to_a_thousand() {
    let state = Shape::tuple(vec![Shape::scalar(S32), Shape::array(F32, [10])]);
    let c = Builder::new("condition");
    let s = c.parameter(0, state.clone(), "result");
    c.lt(c.get_tuple_element(s, 0), c.constant_r0(1000i32));
    let body = Builder::new("body");
    let s = body.parameter(0, state, "result");
    let iteration = body.add(body.get_tuple_element(s, 0), body.constant_r0(1i32));
    let constant: Vec<f32> = (0..10).map(|i| i as f32 / 4.0).collect();
    let vector = body.add(body.get_tuple_element(s, 1), body.constant_r1(&constant));
    body.tuple(&[iteration, vector]);
    let x = Example::new();
    let init = x.b.tuple(&[x.scalar(0i32), x.array(&[10], &[0f32; 10])]);
    let root = x.b.while_(&c.build().unwrap(), &body.build().unwrap(), init);
    let sum: Vec<f32> = constant.iter().map(|e| e * 1000.0).collect();
    x.gives(root, &[ArrayLiteral::scalar(1000i32), ArrayLiteral::from_elements(&[10], &sum)]);
}

#[test]
fn optimization_barrier_hands_values_on() {
    let x = Example::new();
    let pair = x.b.tuple(&[x.scalar(1f32), x.scalar(2f32)]);
    let root = x.b.optimization_barrier(pair);
    x.gives(root, &[ArrayLiteral::scalar(1f32), ArrayLiteral::scalar(2f32)]);
}

/// The condition is asked first; a loop may stand in the body of another, which the oldest version forbade.
#[test]
fn while_may_not_run_and_may_be_nested() {
    let state = Shape::tuple(vec![Shape::scalar(S32), Shape::scalar(F32)]);
    let below = |name: &str, limit: i32| {
        let c = Builder::new(name);
        let s = c.parameter(0, state.clone(), "s");
        c.lt(c.get_tuple_element(s, 0), c.constant_r0(limit));
        c.build().unwrap()
    };
    let step = |name: &str, by: f32| {
        let b = Builder::new(name);
        let s = b.parameter(0, state.clone(), "s");
        let next = b.add(b.get_tuple_element(s, 0), b.constant_r0(1i32));
        b.tuple(&[next, b.add(b.get_tuple_element(s, 1), b.constant_r0(by))]);
        b.build().unwrap()
    };
    let (three, inner) = (below("three", 3), step("inner", 1.0));
    let outer = Builder::new("outer");
    let s = outer.parameter(0, state.clone(), "s");
    let fresh = outer.tuple(&[outer.constant_r0(0i32), outer.get_tuple_element(s, 1)]);
    let sum = outer.get_tuple_element(outer.while_(&three, &inner, fresh), 1);
    outer.tuple(&[outer.add(outer.get_tuple_element(s, 0), outer.constant_r0(1i32)), sum]);
    let outer = outer.build().unwrap();
    for (start, want) in [(0, (4, 12.5f32)), (2, (4, 6.5)), (4, (4, 0.5)), (9, (9, 0.5))] {
        let x = Example::new();
        let init = x.b.tuple(&[x.scalar(start), x.scalar(0.5f32)]);
        let root = x.b.while_(&below("four", 4), &outer, init);
        x.gives(root, &[ArrayLiteral::scalar(want.0), ArrayLiteral::scalar(want.1)]);
    }
}

/// Each branch has an operand of its own type; all yield one type.
#[test]
fn conditional_operands_of_unlike_types() {
    let widened = Builder::new("widened");
    widened.convert_element_type(widened.parameter(0, Shape::array(S32, [2]), "x"), F32);
    let widened = widened.build().unwrap();
    for (index, want) in [(0, [2f32, 4.0]), (1, [7.0, 8.0])] {
        let x = Example::new();
        let operands = [x.array(&[2], &[1f32, 2.0]), x.array(&[2], &[7i32, 8])];
        let root = x.b.conditional_indexed(x.scalar(index), &[&scaled("double", 2.0), &widened], &operands);
        x.gives_array(root, &[2], &want);
    }
}
