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
mod indexing;
mod movement;
mod older;
mod reduction;
mod shapes;

use brolga_compiler::builder::{Builder, Op};
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

    /// Runs the program in every engine; the leaves of its result are `want`, bit by bit.
    #[track_caller]
    fn gives(self, root: Op, want: &[ArrayLiteral]) {
        let module = self.b.build_with_root(root).unwrap_or_else(|e| panic!("{e}"));
        let inputs = self.inputs.into_inner();
        let literals: Vec<Literal> = inputs.iter().cloned().map(Literal::Array).collect();
        let got = interp::run(&module, &literals, &interp::Options::default()).unwrap_or_else(|e| panic!("{e}"));
        let got: Vec<ArrayLiteral> = got.arrays().into_iter().cloned().collect();
        assert_eq!(got, want, "the interpreter");
        let artifact = match compile(&module, &CompileOptions::default()) {
            Ok(artifact) => artifact,
            Err(e @ Error::Unsupported { .. }) => {
                println!("no compiled form: {}", e.message());
                return;
            }
            Err(e) => panic!("{e}"),
        };
        let program = Program::from_object(&artifact.object).unwrap_or_else(|e| panic!("{e}"));
        let inputs: Vec<&ArrayLiteral> = inputs.iter().collect();
        let got = program.run(&inputs).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(got, want, "compiled code");
    }

    /// As [`Example::gives`], for one array.
    #[track_caller]
    fn gives_array<T: NativeType>(self, root: Op, dims: &[i64], elements: &[T]) {
        self.gives(root, &[ArrayLiteral::from_elements(dims, elements)]);
    }
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
