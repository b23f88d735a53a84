//! Where an instruction comes from: places in source files, the values it once was, what was measured of it.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct StackFrameIndex {
    #[prost(string, repeated, tag = "1")]
    pub files: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub functions: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    pub locations: Vec<FileLocation>,
    #[prost(message, repeated, tag = "4")]
    pub frames: Vec<StackFrame>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct FileLocation {
    #[prost(int32, tag = "1")]
    pub file_name_id: i32,
    #[prost(int32, tag = "2")]
    pub function_name_id: i32,
    #[prost(int32, tag = "3")]
    pub line: i32,
    #[prost(int32, tag = "4")]
    pub column: i32,
    #[prost(int32, tag = "5")]
    pub end_line: i32,
    #[prost(int32, tag = "6")]
    pub end_column: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct StackFrame {
    #[prost(int32, tag = "1")]
    pub file_location_id: i32,
    #[prost(int32, tag = "2")]
    pub parent_frame_id: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metadata {
    #[prost(string, tag = "1")]
    pub op_type: String,
    #[prost(string, tag = "2")]
    pub op_name: String,
    #[prost(string, tag = "3")]
    pub source_file: String,
    #[prost(int32, tag = "4")]
    pub source_line: i32,
    #[prost(int32, repeated, tag = "5")]
    pub profile_type: Vec<i32>,
    #[prost(string, tag = "12")]
    pub deduplicated_name: String,
    #[prost(int32, tag = "15")]
    pub stack_frame_id: i32,
    #[prost(string, tag = "16")]
    pub scheduling_name: String,
    #[prost(int32, tag = "17")]
    pub source_end_line: i32,
    #[prost(int32, tag = "18")]
    pub source_column: i32,
    #[prost(int32, tag = "19")]
    pub source_end_column: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Statistics {
    #[prost(int64, tag = "1")]
    pub visualized: i64,
    #[prost(message, repeated, tag = "2")]
    pub statistics: Vec<Statistic>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Statistic {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(double, tag = "2")]
    pub value: f64,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct OriginalValue {
    #[prost(message, repeated, tag = "1")]
    pub elements: Vec<OriginalElement>,
    #[prost(bool, tag = "2")]
    pub is_synthetic_call: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct OriginalElement {
    #[prost(int64, repeated, tag = "1")]
    pub index: Vec<i64>,
    #[prost(message, optional, tag = "2")]
    pub array: Option<OriginalArray>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct OriginalArray {
    #[prost(string, tag = "1")]
    pub instruction: String,
    #[prost(int64, repeated, tag = "2")]
    pub index: Vec<i64>,
}
