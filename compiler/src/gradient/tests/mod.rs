//! Each rule against central differences in `f64`, through the interpreter.

mod control;
mod dense;
mod devices;
mod errors;
mod pointwise;
mod random;

use super::replay::leaves;
use crate::builder::{ArrayLiteral, Builder, ElementType, Literal, Op, Opcode, Shape, scalar_computation};
use crate::hlo::Module;
use crate::interp::{Options, run};
use crate::text::parse;
use brolga_runtime::{ArrayShape, Scalar};
use std::panic::Location;

/// Numbers between 0 and 1 that look random and never come twice.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An array of numbers of a range; integers count from 0 to 3.
    fn array(&mut self, shape: &ArrayShape, low: f64, high: f64) -> ArrayLiteral {
        let mut out = ArrayLiteral::zeros(shape);
        for i in 0..out.elements() {
            let mut real = || low + (high - low) * self.next();
            let value = match shape.ty {
                ty if ty.is_complex() => Scalar::Complex(num_complex::Complex::new(real(), real())),
                ty if ty.is_float() => Scalar::Float(real()),
                ElementType::Pred => Scalar::Pred(self.next() < 0.5),
                _ => Scalar::Int((self.next() * 4.0) as i64),
            };
            out.set(i, value.round_to(shape.ty));
        }
        out
    }
}

/// The sum of all numbers of a value, each with a weight of its own.
fn weighted(b: &Builder, value: Op, numbers: &mut Numbers) -> Op {
    let mut total = b.constant_r0(0.0f64);
    for leaf in leaves(b, value).expect("a value of this builder") {
        let shape = b.shape(leaf).expect("a leaf");
        let Some(array) = shape.as_array().filter(|a| a.ty.is_float() || a.ty.is_complex()).cloned() else { continue };
        let weights = b.constant_literal(numbers.array(&array.with_type(array.ty), -1.0, 1.0));
        let product = b.mul(leaf, weights);
        let product = if array.ty.is_complex() { b.real(product) } else { product };
        let ty = array.ty.real_part();
        let add = scalar_computation(Opcode::Add, ty).expect("a sum");
        total = b.add(total, b.convert_element_type(b.reduce_all(product, b.zero(ty), &add), ElementType::F64));
    }
    total
}

/// The program with the weighted sum of its result in place of it, and with its gradient with respect to all floats where
/// `derivatives` of them are asked for; of the second, the loss is the weighted sum of the first derivatives.
fn with_gradient(text: &str, derivatives: usize) -> Module {
    let module = parse(&format!("HloModule m\n{text}")).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let (b, root) = Builder::open(Location::caller(), &module).expect("the program is verified");
    let mut numbers = Numbers(7);
    let mut results = vec![weighted(&b, root.expect("a root"), &mut numbers)];
    for _ in 0..derivatives {
        let is_smooth =
            |p: &Op| b.shape(*p).is_ok_and(|s| s.as_array().is_some_and(|a| a.ty.is_float() || a.ty.is_complex()));
        let variables: Vec<Op> = b.parameters().into_iter().filter(is_smooth).collect();
        let loss = match results.len() {
            1 => results[0],
            _ => weighted(&b, b.tuple(&results[1..]), &mut numbers),
        };
        results = std::iter::once(loss).chain(b.gradient(loss, &variables)).collect();
    }
    let root = b.tuple(&results);
    b.build_with_root(root).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn arguments(module: &Module, low: f64, high: f64) -> Vec<Literal> {
    let mut numbers = Numbers(3);
    let entry = module.entry();
    let shape = |&p| match &entry.instructions[p].shape {
        Shape::Array(a) => numbers.array(&a.with_type(a.ty), low, high).into(),
        other => panic!("no values of {other}"),
    };
    entry.parameters().iter().map(shape).collect()
}

fn results(module: &Module, arguments: &[Literal]) -> Vec<ArrayLiteral> {
    let out = run(module, arguments, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    out.arrays().into_iter().cloned().collect()
}

fn moved(arguments: &[Literal], which: usize, element: usize, by: Scalar) -> Vec<Literal> {
    let mut out = arguments.to_vec();
    let mut array = out[which].as_array().expect("an array").clone();
    let (was, by) = (array.get(element).as_complex(), by.as_complex());
    let value = if array.ty().is_complex() { Scalar::Complex(was + by) } else { Scalar::Float(was.re + by.re) };
    array.set(element, value);
    out[which] = array.into();
    out
}

/// Compares the gradients of a program with differences of four points.
fn compare(text: &str, order: usize, low: f64, high: f64) {
    const STEP: f64 = 1e-3;
    const TOLERANCE: f64 = 1e-8;
    let module = with_gradient(text, order);
    let arguments = arguments(&module, low, high);
    let found = results(&module, &arguments);
    let loss = |args: &[Literal]| results(&module, args)[0].get(0).as_f64();
    let smooth = |l: &Literal| l.as_array().is_some_and(|a| a.ty().is_float() || a.ty().is_complex());
    let variables = (0..arguments.len()).filter(|&i| smooth(&arguments[i]));
    let mut compared = 0;
    for (which, derivative) in variables.zip(&found[1..]) {
        let array = arguments[which].as_array().expect("an array");
        assert_eq!(derivative.dims(), array.dims(), "{text}");
        for element in 0..array.elements() {
            let difference = |unit: Scalar| {
                let at = |k: f64| {
                    let by = unit.as_complex() * (k * STEP);
                    loss(&moved(&arguments, which, element, Scalar::Complex(by)))
                };
                (8.0 * (at(1.0) - at(-1.0)) - (at(2.0) - at(-2.0))) / (12.0 * STEP)
            };
            let found = derivative.get(element).as_complex();
            let mut parts = vec![(found.re, difference(Scalar::Float(1.0)))];
            if array.ty().is_complex() {
                // Cotangents are not conjugated: the loss changes by the real part of their product with the change.
                let i = Scalar::Complex(num_complex::Complex::new(0.0, 1.0));
                parts.push((-found.im, difference(i)));
            }
            for (found, expected) in parts {
                let near = (found - expected).abs() <= TOLERANCE * expected.abs().max(1.0);
                assert!(near, "argument {which}, element {element}: {found}, by differences {expected}\n{text}");
                compared += 1;
            }
        }
    }
    assert!(compared > 0, "nothing to compare in\n{text}");
}

/// First derivatives, of arguments between `low` and `high`.
fn once(low: f64, high: f64, text: &str) {
    compare(text, 1, low, high);
}

/// First and second derivatives.
fn twice(low: f64, high: f64, text: &str) {
    compare(text, 1, low, high);
    compare(text, 2, low, high);
}

/// Computations that programs of these tests call.
const COMPUTATIONS: &str = "
add { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT r = f64[] add(a, b) }
mul { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT r = f64[] multiply(a, b) }
max { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT r = f64[] maximum(a, b) }
min { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT r = f64[] minimum(a, b) }
ge { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE }
set { a = f64[] parameter(0)
  ROOT b = f64[] parameter(1) }
";

fn program(body: &str) -> String {
    format!("{COMPUTATIONS}ENTRY e {{\n{body}\n}}")
}
