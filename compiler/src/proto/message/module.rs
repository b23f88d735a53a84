//! The module, its computations, and what stands beside them.

use super::{FrontendAttributes, Ids, ProgramShape, StackFrameIndex};
use prost::Message;
use prost::bytes::Bytes;

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Module {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub entry_name: String,
    /// Each a [`Computation`].
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub computations: Vec<Bytes>,
    #[prost(message, optional, tag = "4")]
    pub host_program_shape: Option<ProgramShape>,
    #[prost(int64, tag = "5")]
    pub id: i64,
    #[prost(int64, tag = "6")]
    pub entry_id: i64,
    #[prost(message, optional, tag = "7")]
    pub schedule: Option<Schedule>,
    #[prost(message, optional, tag = "8")]
    pub aliases: Option<Aliases>,
    #[prost(message, optional, tag = "17")]
    pub stack_frames: Option<StackFrameIndex>,
    #[prost(message, optional, tag = "18")]
    pub donors: Option<Donors>,
    #[prost(message, optional, tag = "19")]
    pub frontend_attributes: Option<FrontendAttributes>,
    #[prost(bytes = "bytes", repeated, tag = "22")]
    pub payloads: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Schedule {
    #[prost(message, repeated, tag = "1")]
    pub sequences: Vec<Sequence>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Sequence {
    #[prost(int64, tag = "1")]
    pub computation: i64,
    #[prost(message, optional, tag = "2")]
    pub instructions: Option<Ids>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Aliases {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<AliasEntry>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct AliasEntry {
    #[prost(int64, repeated, tag = "1")]
    pub output_index: Vec<i64>,
    #[prost(int64, tag = "2")]
    pub parameter: i64,
    #[prost(int64, repeated, tag = "3")]
    pub parameter_index: Vec<i64>,
    /// 1 may, 2 must.
    #[prost(int32, tag = "4")]
    pub kind: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Donors {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<Donor>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Donor {
    #[prost(int64, tag = "1")]
    pub parameter: i64,
    #[prost(int64, repeated, tag = "2")]
    pub index: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Computation {
    #[prost(string, tag = "1")]
    pub name: String,
    /// Each an [`Instruction`](super::Instruction).
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub instructions: Vec<Bytes>,
    #[prost(message, optional, tag = "4")]
    pub program_shape: Option<ProgramShape>,
    #[prost(int64, tag = "5")]
    pub id: i64,
    #[prost(int64, tag = "6")]
    pub root_id: i64,
    #[prost(bool, tag = "7")]
    pub is_fusion: bool,
    #[prost(string, tag = "8")]
    pub execution_thread: String,
}

/// Bytes, or the number of an entry of [`Module::payloads`].
#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Payload {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub value: Option<Bytes>,
    #[prost(int64, optional, tag = "2")]
    pub id: Option<i64>,
}

/// `HloInputs`: what one device was given. An `HloSnapshot` has its own list.
#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Inputs {
    /// Each a [`Literal`](super::Literal).
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub arguments: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub descriptors: Vec<Bytes>,
}
