//! Devices, meshes and shardings.

use super::{Ids, Metadata};
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct DeviceList {
    #[prost(message, repeated, tag = "1")]
    pub groups: Vec<Ids>,
    /// Where older versions keep what is now [`Instruction::iota_device_list`](super::Instruction::iota_device_list).
    #[prost(message, optional, tag = "2")]
    pub iota: Option<IotaDeviceList>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct IotaDeviceList {
    #[prost(int64, tag = "1")]
    pub groups: i64,
    #[prost(int64, tag = "2")]
    pub members: i64,
    #[prost(int64, repeated, tag = "3")]
    pub reshape: Vec<i64>,
    #[prost(int32, repeated, tag = "4")]
    pub transpose: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct MeshDeviceList {
    #[prost(message, optional, tag = "1")]
    pub mesh: Option<Mesh>,
    #[prost(message, repeated, tag = "2")]
    pub axes: Vec<AxisRef>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Mesh {
    #[prost(message, repeated, tag = "1")]
    pub axes: Vec<MeshAxis>,
    #[prost(int64, repeated, tag = "2")]
    pub device_ids: Vec<i64>,
    #[prost(message, optional, tag = "3")]
    pub iota: Option<IotaTransform>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct MeshAxis {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int64, tag = "2")]
    pub size: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct IotaTransform {
    #[prost(int64, repeated, tag = "1")]
    pub reshape: Vec<i64>,
    #[prost(int64, repeated, tag = "2")]
    pub transpose: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct AxisRef {
    #[prost(int64, tag = "1")]
    pub axis: i64,
    #[prost(message, optional, tag = "2")]
    pub part: Option<SubAxis>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct SubAxis {
    #[prost(int64, tag = "1")]
    pub pre_size: i64,
    #[prost(int64, tag = "2")]
    pub size: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct Sharding {
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(int64, repeated, tag = "3")]
    pub tile_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "4")]
    pub devices: Vec<i64>,
    #[prost(message, repeated, tag = "5")]
    pub elements: Vec<Sharding>,
    #[prost(bool, tag = "6")]
    pub replicate_on_last_dim: bool,
    #[prost(message, repeated, tag = "7")]
    pub metadata: Vec<Metadata>,
    #[prost(int32, repeated, tag = "8")]
    pub last_tile_dims: Vec<i32>,
    #[prost(int64, repeated, tag = "9")]
    pub iota_reshape: Vec<i64>,
    #[prost(int32, repeated, tag = "10")]
    pub iota_transpose: Vec<i32>,
    #[prost(bool, tag = "11")]
    pub is_shard_group: bool,
    #[prost(int64, tag = "12")]
    pub shard_group_id: i64,
    /// 0 as, 1 like.
    #[prost(int32, tag = "13")]
    pub shard_group_type: i32,
    #[prost(message, optional, tag = "14")]
    pub named: Option<NamedSharding>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct NamedSharding {
    #[prost(message, optional, tag = "2")]
    pub mesh: Option<Mesh>,
    #[prost(message, repeated, tag = "3")]
    pub dims: Vec<DimSharding>,
    #[prost(message, repeated, tag = "4")]
    pub replicated: Vec<AxisRef>,
    #[prost(message, repeated, tag = "5")]
    pub unreduced: Vec<AxisRef>,
    #[prost(message, repeated, tag = "6")]
    pub metadata: Vec<Metadata>,
    #[prost(message, repeated, tag = "7")]
    pub manual: Vec<AxisRef>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proto) struct DimSharding {
    #[prost(message, repeated, tag = "1")]
    pub axes: Vec<AxisRef>,
    #[prost(bool, tag = "2")]
    pub is_closed: bool,
}
