//! Tensors: declarations that several computations share, and descriptions of what a compiled program does with memory.
//!
//! Problem: a graph of values says neither what is kept between computations, nor what may be assigned, nor which values share
//! memory; training needs the first two, and whoever reasons about memory the third. Invariant: a tensor that was declared is
//! one array for all computations of its [`TensorGraph`]; an assignment is its next value, which every later read of the
//! computation sees, and which takes the place of the last one in memory. What cannot be assigned is refused in words.
//!
//! A tensor lies in memory as its declaration says, in any order of dimensions and padded, for whoever passes or keeps its buffer; in
//! computations its layout has no meaning.
//!
//! Algorithm: a [`Computation`] is a [`Builder`](crate::builder::Builder) in which each declared tensor has a present value, at
//! first a parameter; an assignment replaces it. When the computation is whole, the parameters that it uses stay, and the
//! assigned values become results that must share their parameters' buffers. So a program is plain HLO, one module for each
//! computation, and one object has all of them (`compile_computations`); names and attributes of tensors stand in the
//! descriptors, from which [`brolga_runtime::Store`] makes the memory that they share. [`describe`] reads back, from a finished
//! compilation, where every value lies and which values are views.
//!
//! Source: Nervana graph's «Tensors»; `docs/semantics/tensors.md` walks through it.
//!
//! ```
//! use brolga_compiler::CompileOptions;
//! use brolga_compiler::builder::{ArrayLiteral, ElementType};
//! use brolga_compiler::tensor::TensorGraph;
//! use brolga_runtime::loader::LoadOptions;
//! use brolga_runtime::{ArrayShape, Program, RunOptions, Store};
//!
//! let mut graph = TensorGraph::new("counter");
//! let total = graph.variable("total", ArrayLiteral::scalar(10.0f32));
//! let x = graph.placeholder("x", ArrayShape::new(ElementType::F32, []));
//! graph.computation("add", |c| {
//!     let sum = c.add(c.read(&total), c.read(&x));
//!     c.assign(&total, sum);
//!     Ok(vec![])
//! })?;
//! graph.computation("twice", |c| Ok(vec![c.add(c.read(&total), c.read(&total))]))?;
//! let object = graph.compile(&CompileOptions::native())?.object;
//!
//! let programs = Program::all_from_object(&object, &LoadOptions::default())?;
//! let mut store = Store::new(&programs, &RunOptions::default())?;
//! store.initialise()?;
//! store.call("add", &[("x", &ArrayLiteral::scalar(5.0f32))])?;
//! assert_eq!(store.call("twice", &[])?, [ArrayLiteral::scalar(30.0f32)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod computation;
mod declaration;
mod description;
mod graph;
mod program;
mod view;

pub use brolga_runtime::abi::TensorFlags;
pub use computation::Computation;
pub use declaration::{Content, Tensor};
pub use description::{Storage, Strided, TensorDescription, describe};
pub use graph::TensorGraph;
pub use view::{Target, TensorView};
