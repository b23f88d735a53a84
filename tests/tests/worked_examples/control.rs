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
    let state = Shape::Tuple(vec![Shape::scalar(S32), Shape::array(F32, [10])]);
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
