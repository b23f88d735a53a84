//! The worked examples of the specifications, each named by its section: what a document says comes out, comes out of
//! every engine.
//!
//! Values go in as parameters, so that compiled code computes them and constant folding does not. Examples are the same in
//! the versions of the operation semantics unless a comment says otherwise; forms that only an older version has are in
//! `older`.
#![allow(clippy::unwrap_used)]

mod contraction;
mod control;
mod devices;
mod elementwise;
mod functions;
mod indexing;
mod linalg;
mod movement;
mod older;
mod random;
mod reduction;
mod shapes;

use brolga_compiler::builder::{Builder, Op};
use brolga_compiler::hlo::{Module, Opcode};
use brolga_compiler::stablehlo::{self, ReadOptions};
use brolga_compiler::{CompileOptions, Error, compile, interp};
use brolga_runtime::{ArrayLiteral, Literal, NativeType, Program, Shape};
use std::cell::RefCell;

/// A program under construction and the values of its parameters.
struct Example {
    b: Builder,
    inputs: RefCell<Vec<ArrayLiteral>>,
}

impl Example {
    fn new() -> Example {
        Example { b: Builder::new("example"), inputs: RefCell::default() }
    }

    /// An array of the example.
    fn input(&self, value: ArrayLiteral) -> Op {
        let mut inputs = self.inputs.borrow_mut();
        let number = inputs.len() as i64;
        let op = self.b.parameter(number, Shape::Array(value.shape().clone()), &format!("p{number}"));
        inputs.push(value);
        op
    }

    fn array<T: NativeType>(&self, dims: &[i64], elements: &[T]) -> Op {
        self.input(ArrayLiteral::from_elements(dims, elements))
    }

    fn scalar<T: NativeType>(&self, value: T) -> Op {
        self.array(&[], &[value])
    }

    fn pred(&self, dims: &[i64], elements: &[bool]) -> Op {
        self.input(ArrayLiteral::from_bools(dims, elements))
    }

    /// Runs the program in every engine; the leaves of its result are `want`, bit by bit. A program that has lost its
    /// compiled form fails.
    #[track_caller]
    fn gives(self, root: Op, want: &[ArrayLiteral]) {
        let (module, inputs) = self.parts(root);
        assert_eq!(interpreted(&module, &inputs), want, "the interpreter");
        if let Some(module) = through_stablehlo(&module) {
            assert_eq!(interpreted(&module, &inputs), want, "the interpreter, of StableHLO");
        }
        assert_eq!(compiled(&module, &inputs), want, "compiled code");
    }

    /// As [`Example::gives`], of functions that are rounded: every float is within `bound` of the one wanted, as a part of
    /// it or, near zero, of one.
    #[track_caller]
    fn gives_within(self, root: Op, want: &[ArrayLiteral], bound: f64) {
        let (module, inputs) = self.parts(root);
        for (engine, got) in
            [("the interpreter", interpreted(&module, &inputs)), ("compiled code", compiled(&module, &inputs))]
        {
            assert_eq!(got.len(), want.len(), "{engine}");
            for (got, want) in got.iter().zip(want) {
                assert_eq!(got.shape(), want.shape(), "{engine}");
                let close = |(g, w): (&f32, &f32)| {
                    let (g, w) = (f64::from(*g), f64::from(*w));
                    g == w || (g - w).abs() <= bound * w.abs().max(1.0)
                };
                let (g, w) = (got.as_slice::<f32>(), want.as_slice::<f32>());
                assert!(g.iter().zip(w).all(close), "{engine}: {g:?}, expected {w:?}");
            }
        }
    }

    /// The module and its arguments. Every instruction of it stands where one of these files made it.
    #[track_caller]
    fn parts(self, root: Op) -> (Module, Vec<ArrayLiteral>) {
        let module = self.b.build_with_root(root).unwrap_or_else(|e| panic!("{e}"));
        for i in module.order.iter().flat_map(|&c| module.computations[c].instructions.values()) {
            let file = i.location.file.unwrap_or_default();
            assert!(file.contains("worked_examples"), "'{}' says that it was made in '{file}'", i.name);
        }
        (module, self.inputs.into_inner())
    }

    /// As [`Example::gives`], for one array.
    #[track_caller]
    fn gives_array<T: NativeType>(self, root: Op, dims: &[i64], elements: &[T]) {
        self.gives(root, &[ArrayLiteral::from_elements(dims, elements)]);
    }
}

/// The module written as StableHLO and read again; `None` where StableHLO has no form for it, and for a dynamic-reshape whose
/// sizes are values, which StableHLO has and the reader refuses.
#[track_caller]
fn through_stablehlo(module: &Module) -> Option<Module> {
    match stablehlo::write_text(module) {
        Ok(text) => {
            let read = stablehlo::read_text(&text, &ReadOptions::default());
            let reshape = module.entry().instructions.values().any(|i| i.opcode == Opcode::DynamicReshape);
            if reshape && matches!(read, Err(Error::Unsupported { .. })) {
                return None;
            }
            Some(read.unwrap_or_else(|e| panic!("{e}, of\n{text}")))
        }
        Err(Error::Unsupported { .. }) => None,
        Err(e) => panic!("{e}"),
    }
}

#[track_caller]
fn interpreted(module: &Module, inputs: &[ArrayLiteral]) -> Vec<ArrayLiteral> {
    let literals: Vec<Literal> = inputs.iter().cloned().map(Literal::Array).collect();
    let got = interp::run(module, &literals, &interp::Options::default()).unwrap_or_else(|e| panic!("{e}"));
    got.arrays().into_iter().cloned().collect()
}

#[track_caller]
fn compiled(module: &Module, inputs: &[ArrayLiteral]) -> Vec<ArrayLiteral> {
    let artifact = compile(module, &CompileOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let program = Program::from_object(&artifact.object).unwrap_or_else(|e| panic!("{e}"));
    program.run(&inputs.iter().collect::<Vec<_>>()).unwrap_or_else(|e| panic!("{e}"))
}

/// The array of 24 elements that several sections share.
fn v(x: &Example) -> Op {
    let mut elements = Vec::new();
    for tens in [10, 20, 30, 40] {
        elements.extend([0, 1, 2, 5, 6, 7].map(|k| (tens + k) as f32));
    }
    x.array(&[4, 2, 3], &elements)
}

/// The matrix of 4 by 3 that several sections share.
fn b43(x: &Example) -> Op {
    let elements: Vec<f32> = (0..12).map(|i| i as f32).collect();
    x.array(&[4, 3], &elements)
}
