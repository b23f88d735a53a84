//! The form that every StableHLO reader makes and that the conversion to HLO takes.
//!
//! Problem: StableHLO arrives as text (pretty or generic) and as bytecode (through VHLO, in many versions), and each
//! spells the same operation differently. Invariant: a [`Program`] is in the *current generic form*. Operations carry the
//! names and attribute names that StableHLO's newest generic form has (`stablehlo.dot_general` with
//! `dot_dimension_numbers`, whatever a VHLO version or a pretty form calls it); pretty forms and old versions are undone by
//! their readers. Values are dense ids of their function and are defined before they are used; a region sees the values
//! of the regions around it. Every region is one block, whose last operation is its terminator (`stablehlo.return`,
//! `func.return`).
//!
//! What a reader may leave to the conversion: an absent attribute stands for its default, and a list of integers
//! may be [`Attribute::Ints`] or [`Attribute::Elements`] (older programs write `dense<[0, 1]> : tensor<2xi64>` where
//! newer ones write `array<i64: 0, 1>`); [`Attribute::to_ints`] takes both. Whether an operation exists, has the right number
//! of operands and follows its rules is decided there too.

use crate::hlo::{ConvolutionDims, SourceLocation};
use brolga_runtime::{ArrayLiteral, ElementType};
use cranelift_entity::{PrimaryMap, entity_impl};
use std::fmt;
use std::sync::Arc;

/// Regions, tuples, attributes and locations nest so deep at most.
pub const MAX_NESTING: usize = 128;

/// A value of a [`Function`]: a block's argument or an operation's result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(u32);
entity_impl!(Value, "value");

/// A place in a program that was traced: an entry of [`Program::locations`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocationId(u32);
entity_impl!(LocationId, "loc");

/// A `builtin.module`.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Its symbol name, where it has one.
    pub name: Option<String>,
    /// Its attributes, such as `mhlo.num_partitions`.
    pub attributes: Dictionary,
    /// The functions, in order of appearance.
    pub functions: Vec<Function>,
    /// Other operations of the module's body, such as `sdy.mesh`: name and attributes.
    pub others: Vec<Operation>,
    /// The places that operations name.
    pub locations: PrimaryMap<LocationId, Location>,
}

impl Program {
    /// The function called `name`.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|f| f.name == name)
    }
}

/// A `func.func`.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// Its symbol name.
    pub name: String,
    /// Whether only this module may call it (`private`, `nested`).
    pub is_private: bool,
    /// The types of its arguments; those of the body's block, where there is one.
    pub arguments: Vec<Type>,
    /// What it yields.
    pub results: Vec<Type>,
    /// Attributes of each argument, as many as arguments.
    pub argument_attributes: Vec<Dictionary>,
    /// Attributes of each result, as many as results.
    pub result_attributes: Vec<Dictionary>,
    /// Other attributes of the function.
    pub attributes: Dictionary,
    /// What it does; `None` for a declaration.
    pub body: Option<Region>,
    /// The values of the body and of all regions in it.
    pub values: PrimaryMap<Value, ValueData>,
    /// Where it stands in the text that was read.
    pub at: SourceLocation,
    /// Where it comes from.
    pub location: Option<LocationId>,
}

/// What is known of a value.
#[derive(Clone, Debug)]
pub struct ValueData {
    /// Its type.
    pub ty: Type,
    /// Its name in the text, without `%` and without the `#N` of several results; empty where there is no text.
    pub name: Box<str>,
    /// Where it comes from: for arguments, which have a place of their own; operations have [`Operation::location`].
    pub location: Option<LocationId>,
}

/// One block.
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// The block's arguments.
    pub arguments: Vec<Value>,
    /// Its operations; the last is the terminator. Empty for a region without a block.
    pub body: Vec<Operation>,
}

/// An operation in generic form.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its full name, such as `stablehlo.add`.
    pub name: Box<str>,
    /// The operands.
    pub operands: Vec<Value>,
    /// The results; their types stand in [`Function::values`].
    pub results: Vec<Value>,
    /// The attributes, inherent and discardable ones (`mhlo.sharding`) alike.
    pub attributes: Dictionary,
    /// The regions.
    pub regions: Vec<Region>,
    /// Where it stands in the text that was read; unknown in bytecode.
    pub at: SourceLocation,
    /// Where it comes from.
    pub location: Option<LocationId>,
}

impl Operation {
    /// The attribute called `name`.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.get(name)
    }
}

/// Where an operation comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// `loc(unknown)`
    Unknown,
    /// `loc("file.py":12:3)`; of a range, its beginning.
    File {
        /// The file.
        file: Arc<str>,
        /// The line, from 1.
        line: u32,
        /// The column, from 1.
        column: u32,
    },
    /// `loc("jit(f)/add"(...))`
    Name {
        /// The name.
        name: Arc<str>,
        /// What it names.
        child: Option<LocationId>,
    },
    /// `loc(callsite(callee at caller))`
    CallSite {
        /// The place inside the function that was called.
        callee: LocationId,
        /// The place of the call.
        caller: LocationId,
    },
    /// `loc(fused[...])`
    Fused(Vec<LocationId>),
}

/// Names and attributes, in order of appearance, each name once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dictionary(Vec<(Box<str>, Attribute)>);

impl Dictionary {
    /// No attributes.
    pub fn new() -> Dictionary {
        Dictionary::default()
    }

    /// The attribute called `name`.
    pub fn get(&self, name: &str) -> Option<&Attribute> {
        self.0.iter().find(|(n, _)| **n == *name).map(|(_, a)| a)
    }

    /// Sets `name`, and yields what stood there.
    pub fn set(&mut self, name: impl Into<Box<str>>, value: Attribute) -> Option<Attribute> {
        let name = name.into();
        match self.0.iter_mut().find(|(n, _)| *n == name) {
            Some((_, old)) => Some(std::mem::replace(old, value)),
            None => {
                self.0.push((name, value));
                None
            }
        }
    }

    /// Removes `name`, and yields what stood there.
    pub fn remove(&mut self, name: &str) -> Option<Attribute> {
        let place = self.0.iter().position(|(n, _)| **n == *name)?;
        Some(self.0.remove(place).1)
    }

    /// Names and attributes.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Attribute)> {
        self.0.iter().map(|(n, a)| (&**n, a))
    }

    /// True where there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The names must differ.
impl FromIterator<(Box<str>, Attribute)> for Dictionary {
    fn from_iter<I: IntoIterator<Item = (Box<str>, Attribute)>>(entries: I) -> Dictionary {
        Dictionary(entries.into_iter().collect())
    }
}

impl IntoIterator for Dictionary {
    type Item = (Box<str>, Attribute);
    type IntoIter = std::vec::IntoIter<(Box<str>, Attribute)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The type of a value, or a type that an attribute names.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// `tensor<4x?xf32>`
    Tensor(TensorType),
    /// `tensor<*xf32>`
    Unranked(Element),
    /// `memref<4xf32>`
    Buffer(TensorType),
    /// `tuple<...>`
    Tuple(Vec<Type>),
    /// `!stablehlo.token`
    Token,
    /// `!stablehlo.future<...>`
    Future(Vec<Type>),
    /// `(...) -> ...`
    Function(Vec<Type>, Vec<Type>),
    /// `f32`: a scalar type outside a tensor, in attributes.
    Element(Element),
    /// `none`
    None,
    /// A type of another dialect, as it is written.
    Other(Box<str>),
}

/// A ranked tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorType {
    /// The element type.
    pub element: Element,
    /// The sizes.
    pub dims: Vec<Dim>,
}

/// The size of one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// So many.
    Fixed(i64),
    /// `?`
    Dynamic,
    /// `?` with a bound from `#stablehlo.bounds<...>`: at most so many.
    Bounded(i64),
}

/// The type of an element.
#[derive(Clone, Debug, PartialEq)]
pub enum Element {
    /// A type that HLO has: `i1` is `pred`, `i32` is `s32`, `ui8` is `u8`.
    Type(ElementType),
    /// `index`: a 64-bit integer where it has values.
    Index,
    /// `tf32`: in the algorithm of a dot.
    Tf32,
    /// `!quant.uniform<...>`
    Quantized(Arc<Quantized>),
    /// Another type, as it is written (`i3`, `!quant.any<...>`).
    Other(Box<str>),
}

/// A uniform quantised type: `expressed = (stored - zero point) * scale`.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantized {
    /// The integers that are stored.
    pub storage: ElementType,
    /// The least stored value.
    pub storage_min: i64,
    /// The largest stored value.
    pub storage_max: i64,
    /// The floats that they stand for.
    pub expressed: ElementType,
    /// The dimension along which scales differ; `None` for one scale.
    pub axis: Option<usize>,
    /// The scales: one, or one for each index of the dimension.
    pub scales: Vec<f64>,
    /// The zero points, as many as scales.
    pub zero_points: Vec<i64>,
}

/// The elements of a constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Elements {
    /// The tensor's type; its sizes are fixed. For a quantised type the elements are stored values.
    pub ty: TensorType,
    /// All elements in the storage form of [`ArrayLiteral`], or a scalar that stands for every one. `index` is `s64`.
    pub data: Arc<ArrayLiteral>,
    /// Whether `data` is a scalar that stands for every element.
    pub is_splat: bool,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// `unit`, or a name alone.
    Unit,
    /// `true`
    Bool(bool),
    /// `1 : i64`: the bits of unsigned values above `i64::MAX` wrap.
    Int(i64, Element),
    /// `1.0 : f32`
    Float(f64, Element),
    /// `"text"`, which need not be UTF-8.
    String(Arc<[u8]>),
    /// `@name`, or the parts of `@outer::@inner`.
    Symbol(Vec<Box<str>>),
    /// A type.
    Type(Type),
    /// `[...]`
    Array(Vec<Attribute>),
    /// `{...}`
    Dictionary(Dictionary),
    /// `array<i64: 1, 2>`, and `array<i1: true, false>` as ones and zeros.
    Ints(Vec<i64>, Element),
    /// `array<f32: 1.0, 2.0>`
    Floats(Vec<f64>, Element),
    /// `dense<...> : tensor<...>`, `dense_resource<...>` included.
    Elements(Elements),
    /// `#stablehlo<comparison_direction EQ>`, `#chlo<comparison_type FLOAT>`: the word, and what it is a kind of.
    Enum {
        /// `comparison_direction`
        kind: Box<str>,
        /// `EQ`
        word: Box<str>,
    },
    /// `#stablehlo.dot<...>`
    Dot(Box<DotDims>),
    /// `#chlo.ragged_dot<...>`
    RaggedDot(Box<RaggedDotDims>),
    /// `#stablehlo.gather<...>`
    Gather(Box<GatherDims>),
    /// `#stablehlo.scatter<...>`
    Scatter(Box<ScatterDims>),
    /// `#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>`
    Convolution(Box<ConvolutionDims>),
    /// `#stablehlo.dot_algorithm<...>`
    DotAlgorithm(Box<DotAlgorithm>),
    /// `#stablehlo.result_accuracy<...>`
    ResultAccuracy(ResultAccuracy),
    /// `#stablehlo.output_operand_alias<...>`
    OutputOperandAlias(OutputOperandAlias),
    /// `#stablehlo.channel_handle<handle = 1, type = 0>`
    Channel {
        /// The channel's number.
        handle: i64,
        /// 0: invalid, 1: device to device, 2: device to host, 3: host to device.
        kind: i64,
    },
    /// `#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [...]>`
    MeshAxes(Box<MeshAxes>),
    /// An attribute of another dialect, as it is written.
    Other(Box<str>),
}

impl Attribute {
    /// A string.
    pub fn string(text: &str) -> Attribute {
        Attribute::String(text.as_bytes().into())
    }

    /// A list of 64-bit integers.
    pub fn ints(list: impl Into<Vec<i64>>) -> Attribute {
        Attribute::Ints(list.into(), Element::Type(ElementType::S64))
    }

    /// A 64-bit integer.
    pub fn int(value: i64) -> Attribute {
        Attribute::Int(value, Element::Type(ElementType::S64))
    }

    /// An integer or a truth value.
    pub fn to_int(&self) -> Option<i64> {
        match self {
            Attribute::Int(value, _) => Some(*value),
            Attribute::Bool(value) => Some(i64::from(*value)),
            _ => None,
        }
    }

    /// A truth value.
    pub fn to_bool(&self) -> Option<bool> {
        match self {
            Attribute::Bool(value) => Some(*value),
            Attribute::Int(value, Element::Type(ElementType::Pred)) => Some(*value != 0),
            Attribute::Unit => Some(true),
            _ => None,
        }
    }

    /// Text in UTF-8.
    pub fn to_str(&self) -> Option<&str> {
        match self {
            Attribute::String(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The integers of a list, of a constant in row-major order, or of an array of integers.
    pub fn to_ints(&self) -> Option<Vec<i64>> {
        match self {
            Attribute::Ints(list, _) => Some(list.clone()),
            Attribute::Elements(elements) => elements.to_ints(),
            Attribute::Array(list) => list.iter().map(Attribute::to_int).collect(),
            _ => None,
        }
    }

    /// The word of an enumeration.
    pub fn to_word(&self) -> Option<&str> {
        match self {
            Attribute::Enum { word, .. } => Some(word),
            _ => None,
        }
    }
}

impl Elements {
    /// The sizes; `None` where one is not fixed.
    pub fn dims(&self) -> Option<Vec<i64>> {
        let fixed = |d: &Dim| match d {
            Dim::Fixed(n) => Some(*n),
            _ => None,
        };
        self.ty.dims.iter().map(fixed).collect()
    }

    /// The elements as integers, where they are integers or truth values and not more than a million.
    pub fn to_ints(&self) -> Option<Vec<i64>> {
        const LONGEST: usize = 1 << 20;
        let ty = self.data.ty();
        if !ty.is_integer() && ty != ElementType::Pred {
            return None;
        }
        if !self.is_splat {
            return Some((0..self.data.elements()).map(|k| self.data.get(k).as_i64()).collect());
        }
        let count = self.dims()?.iter().try_fold(1usize, |n, &d| n.checked_mul(usize::try_from(d).ok()?))?;
        (count <= LONGEST).then(|| vec![self.data.get(0).as_i64(); count])
    }
}

/// `dot_dimension_numbers`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DotDims {
    /// Batch dimensions of the left.
    pub lhs_batching: Vec<i64>,
    /// Batch dimensions of the right.
    pub rhs_batching: Vec<i64>,
    /// Summed dimensions of the left.
    pub lhs_contracting: Vec<i64>,
    /// Summed dimensions of the right.
    pub rhs_contracting: Vec<i64>,
}

/// `ragged_dot_dimension_numbers`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RaggedDotDims {
    /// What is summed and what runs along.
    pub dot: DotDims,
    /// The dimension of the left that is divided into groups.
    pub lhs_ragged: Vec<i64>,
    /// The dimension of the right that numbers the groups.
    pub rhs_group: Vec<i64>,
}

/// `dimension_numbers` of a gather.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatherDims {
    /// Dimensions of the result that run inside a slice.
    pub offset_dims: Vec<i64>,
    /// Dimensions of the operand that slices drop.
    pub collapsed_slice_dims: Vec<i64>,
    /// Operand dimensions that run along with the indices.
    pub operand_batching_dims: Vec<i64>,
    /// Dimensions of the indices that run along with the operand.
    pub start_indices_batching_dims: Vec<i64>,
    /// Which operand dimension each element of an index vector starts.
    pub start_index_map: Vec<i64>,
    /// The dimension of the indices that holds index vectors.
    pub index_vector_dim: i64,
}

/// `scatter_dimension_numbers`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScatterDims {
    /// Dimensions of the updates that run inside a window.
    pub update_window_dims: Vec<i64>,
    /// Dimensions of the operand that windows lack.
    pub inserted_window_dims: Vec<i64>,
    /// Operand dimensions that run along with the indices.
    pub input_batching_dims: Vec<i64>,
    /// Dimensions of the indices that run along with the operand.
    pub scatter_indices_batching_dims: Vec<i64>,
    /// Which operand dimension each element of an index vector starts.
    pub scatter_dims_to_operand_dims: Vec<i64>,
    /// The dimension of the indices that holds index vectors.
    pub index_vector_dim: i64,
}

/// `algorithm` of a dot.
#[derive(Clone, Debug, PartialEq)]
pub struct DotAlgorithm {
    /// The type to which the left is rounded.
    pub lhs_precision_type: Element,
    /// The type to which the right is rounded.
    pub rhs_precision_type: Element,
    /// The type in which products are summed.
    pub accumulation_type: Element,
    /// Parts that the left is split into.
    pub lhs_component_count: i64,
    /// Parts that the right is split into.
    pub rhs_component_count: i64,
    /// Products of parts.
    pub num_primitive_operations: i64,
    /// Whether sums may lose bits.
    pub allow_imprecise_accumulation: bool,
}

/// `result_accuracy` of a transcendental function.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultAccuracy {
    /// Absolute tolerance.
    pub atol: f64,
    /// Relative tolerance.
    pub rtol: f64,
    /// Tolerance in units of the last place.
    pub ulps: i64,
    /// `DEFAULT`, `HIGHEST` or `TOLERANCE`.
    pub mode: Box<str>,
}

/// An entry of `output_operand_aliases`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputOperandAlias {
    /// Path to the leaf of the result.
    pub output_tuple_indices: Vec<i64>,
    /// The operand's number.
    pub operand_index: i64,
    /// Path to the leaf of the operand.
    pub operand_tuple_indices: Vec<i64>,
}

/// An axis of a mesh: its name, and for a part of an axis the size before it and its own.
pub type MeshAxis = (Box<str>, Option<(i64, i64)>);

/// Replica groups as axes of a mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshAxes {
    /// The mesh's symbol.
    pub mesh: Box<str>,
    /// The axes.
    pub axes: Vec<MeshAxis>,
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Type(ty) => f.write_str(&element_name(*ty)),
            Element::Index => f.write_str("index"),
            Element::Tf32 => f.write_str("tf32"),
            Element::Other(text) => f.write_str(text),
            Element::Quantized(q) => {
                let letter = if q.storage.is_signed_integer() { 'i' } else { 'u' };
                write!(f, "!quant.uniform<{letter}{}:{}", q.storage.bits(), element_name(q.expressed))?;
                if let Some(axis) = q.axis {
                    write!(f, ":{axis}")?;
                }
                f.write_str(", ")?;
                let open = if q.axis.is_some() { "{" } else { "" };
                f.write_str(open)?;
                for (k, (scale, zero)) in q.scales.iter().zip(&q.zero_points).enumerate() {
                    write!(f, "{}{scale:?}:{zero}", if k > 0 { ", " } else { "" })?;
                }
                f.write_str(if q.axis.is_some() { "}>" } else { ">" })
            }
        }
    }
}

/// MLIR's name of an element type.
fn element_name(ty: ElementType) -> String {
    match ty {
        ElementType::Pred => "i1".to_owned(),
        ElementType::C64 => "complex<f32>".to_owned(),
        ElementType::C128 => "complex<f64>".to_owned(),
        ty if ty.is_signed_integer() => format!("i{}", ty.bits()),
        ty if ty.is_unsigned_integer() => format!("ui{}", ty.bits()),
        ElementType::F16 | ElementType::BF16 | ElementType::F32 | ElementType::F64 => ty.name().to_owned(),
        ty => {
            // The narrow formats are written in capitals but for the first letter.
            let name = ty.name();
            format!("f{}", name.get(1..).unwrap_or_default().to_ascii_uppercase())
        }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for dim in &self.dims {
            match dim {
                Dim::Fixed(n) => write!(f, "{n}x")?,
                Dim::Dynamic | Dim::Bounded(_) => f.write_str("?x")?,
            }
        }
        write!(f, "{}", self.element)?;
        if self.dims.iter().any(|d| matches!(d, Dim::Bounded(_))) {
            f.write_str(", #stablehlo.bounds<")?;
            for (k, dim) in self.dims.iter().enumerate() {
                f.write_str(if k > 0 { ", " } else { "" })?;
                match dim {
                    Dim::Bounded(n) => write!(f, "{n}")?,
                    Dim::Fixed(_) | Dim::Dynamic => f.write_str("?")?,
                }
            }
            f.write_str(">")?;
        }
        Ok(())
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, types: &[Type]| {
            for (k, ty) in types.iter().enumerate() {
                write!(f, "{}{ty}", if k > 0 { ", " } else { "" })?;
            }
            Ok(())
        };
        match self {
            Type::Tensor(ty) => write!(f, "tensor<{ty}>"),
            Type::Buffer(ty) => write!(f, "memref<{ty}>"),
            Type::Unranked(element) => write!(f, "tensor<*x{element}>"),
            Type::Token => f.write_str("!stablehlo.token"),
            Type::None => f.write_str("none"),
            Type::Element(element) => write!(f, "{element}"),
            Type::Other(text) => f.write_str(text),
            Type::Tuple(parts) => {
                f.write_str("tuple<")?;
                list(f, parts)?;
                f.write_str(">")
            }
            Type::Future(parts) => {
                f.write_str("!stablehlo.future<")?;
                list(f, parts)?;
                f.write_str(">")
            }
            Type::Function(operands, results) => {
                f.write_str("(")?;
                list(f, operands)?;
                f.write_str(") -> (")?;
                list(f, results)?;
                f.write_str(")")
            }
        }
    }
}
