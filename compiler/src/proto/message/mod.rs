//! The messages of XLA's `hlo.proto` and `xla_data.proto`, as far as a program needs them.
//!
//! Field numbers are XLA's; fields that say nothing about a program are left out and skipped by the decoder. Messages that come
//! in great numbers or nest without limit (computations, instructions, elements of tuple literals) are kept as bytes, which
//! have the same form on the wire: they are decoded one at a time, so that a file never costs many times its own size.
//!
//! One file for each thing that is described: `module`, `instruction`, `value` (shapes and literals), `dimensions`, `placement`
//! (devices and shardings) and `origin` (where an instruction comes from).

mod dimensions;
mod instruction;
mod module;
mod origin;
mod placement;
mod value;

pub(super) use dimensions::{
    ConvolutionDims, DotDims, IndexedDims, Padding, PaddingDimension, RaggedDotDims, Slice, Window, WindowDimension,
};
pub(super) use instruction::{
    Entry, FrontendAttributes, Instruction, OperandAlias, Pair, Precision, ResultAccuracy, SparsityConfig,
    TensorSparsity, Tolerance, TriangularSolve,
};
pub(super) use module::{AliasEntry, Aliases, Computation, Donor, Donors, Inputs, Module, Payload, Schedule, Sequence};
pub(super) use origin::{
    FileLocation, Metadata, OriginalArray, OriginalElement, OriginalValue, StackFrame, StackFrameIndex, Statistic,
    Statistics,
};
pub(super) use placement::{
    AxisRef, DeviceList, DimSharding, IotaDeviceList, IotaTransform, Mesh, MeshAxis, MeshDeviceList, NamedSharding,
    Sharding, SubAxis,
};
pub(super) use value::{Layout, Literal, ProgramShape, Shape, Split};

use prost::Message;

/// A message whose one field is a list of numbers: a sequence of instructions, a replica group, a tile, parameter-free paths.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Ids {
    #[prost(int64, repeated, tag = "1")]
    pub ids: Vec<i64>,
}

/// A message whose one field is a truth value.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Flag {
    #[prost(bool, tag = "1")]
    pub value: bool,
}

/// A message whose one field is a list of truth values.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Flags {
    #[prost(bool, repeated, tag = "1")]
    pub values: Vec<bool>,
}
