//! Attributes, types and locations.
//!
//! An entry is decoded once and kept; using it copies it. Both are paid from one budget of nodes, so that entries which name each
//! other twice over cannot stand for more than memory holds.

use super::reader::Reader;
use super::sections::{Container, Entry};
use super::{MAX_NODES, malformed, unsupported};
use crate::Result;
use crate::stablehlo::ir::{
    Attribute, Dictionary, Dim, Element, Elements, Location, LocationId, MAX_NESTING, MeshAxes, OutputOperandAlias,
    Quantized, ResultAccuracy, TensorType, Type,
};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, half};
use cranelift_entity::PrimaryMap;
use std::sync::Arc;

/// What an entry of the table of attributes is.
#[derive(Clone)]
pub(super) enum Node {
    Attribute(Attribute),
    Location(Location),
    /// Bounds of a tensor's sizes, `i64::MIN` for none.
    Bounds(Vec<i64>),
    /// A part of an axis: the size before it, and its own.
    SubAxis(i64, i64),
    /// An axis of a mesh by name, or a part of it.
    Axis(Box<str>, Option<(i64, i64)>),
}

/// An entry, and how many nodes a copy of it makes.
enum Slot<T> {
    Unread,
    Reading,
    Read(T, usize),
}

pub(super) struct Attributes<'a> {
    container: &'a Container<'a>,
    attributes: Vec<Slot<Node>>,
    types: Vec<Slot<Type>>,
    /// Attributes that are locations, as they were entered.
    location_ids: Vec<Option<LocationId>>,
    pub locations: PrimaryMap<LocationId, Location>,
    depth: usize,
    /// Nodes that may still be made.
    budget: usize,
}

/// The size that marks a dimension as dynamic.
const DYNAMIC: i64 = i64::MIN;

impl<'a> Attributes<'a> {
    pub(super) fn new(container: &'a Container<'a>) -> Attributes<'a> {
        Attributes {
            container,
            attributes: container.attributes.iter().map(|_| Slot::Unread).collect(),
            types: container.types.iter().map(|_| Slot::Unread).collect(),
            location_ids: vec![None; container.attributes.len()],
            locations: PrimaryMap::new(),
            depth: 0,
            budget: MAX_NODES,
        }
    }

    fn pay(&mut self, nodes: usize) -> Result<()> {
        match self.budget.checked_sub(nodes) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => Err(malformed(format!("expected attributes and types of at most {MAX_NODES} parts altogether"))),
        }
    }

    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(malformed(format!("expected attributes and types of at most {MAX_NESTING} levels")));
        }
        Ok(())
    }

    /// The attribute with that number, and its nodes.
    fn node(&mut self, index: usize) -> Result<(Node, usize)> {
        let count = self.attributes.len();
        match self.attributes.get_mut(index) {
            None => return Err(malformed(format!("expected the number of one of {count} attributes, found {index}"))),
            Some(Slot::Reading) => return Err(malformed(format!("expected attribute {index} not to hold itself"))),
            Some(Slot::Read(node, nodes)) => {
                let (node, nodes) = (node.clone(), *nodes);
                self.pay(nodes)?;
                return Ok((node, nodes));
            }
            Some(slot) => *slot = Slot::Reading,
        }
        let entry = self.container.attributes.get(index).cloned();
        let Some(entry) = entry else { return Err(malformed("expected an attribute")) };
        self.enter()?;
        let before = self.budget;
        self.pay(1)?;
        let node = self.decode(entry)?;
        let nodes = before - self.budget;
        self.depth -= 1;
        if let Some(slot) = self.attributes.get_mut(index) {
            *slot = Slot::Read(node.clone(), nodes);
        }
        Ok((node, nodes))
    }

    /// The attribute with that number.
    pub(super) fn attribute(&mut self, index: usize) -> Result<Attribute> {
        match self.node(index)?.0 {
            Node::Attribute(attribute) => Ok(attribute),
            _ => Err(malformed(format!("expected attribute {index} to be a value"))),
        }
    }

    /// The names and values of the dictionary with that number.
    pub(super) fn dictionary(&mut self, index: usize) -> Result<Dictionary> {
        match self.attribute(index)? {
            Attribute::Dictionary(dictionary) => Ok(dictionary),
            _ => Err(malformed(format!("expected attribute {index} to be a dictionary"))),
        }
    }

    /// The type with that number.
    pub(super) fn ty(&mut self, index: usize) -> Result<Type> {
        let count = self.types.len();
        match self.types.get_mut(index) {
            None => return Err(malformed(format!("expected the number of one of {count} types, found {index}"))),
            Some(Slot::Reading) => return Err(malformed(format!("expected type {index} not to hold itself"))),
            Some(Slot::Read(ty, nodes)) => {
                let (ty, nodes) = (ty.clone(), *nodes);
                self.pay(nodes)?;
                return Ok(ty);
            }
            Some(slot) => *slot = Slot::Reading,
        }
        let entry = self.container.types.get(index).cloned();
        let Some(entry) = entry else { return Err(malformed("expected a type")) };
        self.enter()?;
        let before = self.budget;
        self.pay(1)?;
        let ty = self.decode_type(entry)?;
        let nodes = before - self.budget;
        self.depth -= 1;
        if let Some(slot) = self.types.get_mut(index) {
            *slot = Slot::Read(ty.clone(), nodes);
        }
        Ok(ty)
    }

    /// The place that the attribute with that number is; `None` for an unknown one.
    pub(super) fn location(&mut self, index: usize) -> Result<Option<LocationId>> {
        if let Some(id) = self.location_ids.get(index).copied().flatten() {
            return Ok(Some(id));
        }
        match self.node(index)?.0 {
            Node::Location(Location::Unknown) => Ok(None),
            Node::Location(location) => {
                let id = self.locations.push(location);
                if let Some(slot) = self.location_ids.get_mut(index) {
                    *slot = Some(id);
                }
                Ok(Some(id))
            }
            _ => Err(malformed(format!("expected attribute {index} to be a location"))),
        }
    }

    fn decode(&mut self, entry: Entry<'a>) -> Result<Node> {
        let dialect = self.container.dialects.get(entry.dialect).copied().unwrap_or_default();
        let mut r = entry.data;
        if !entry.is_encoded {
            let text = String::from_utf8_lossy(r.until_zero()?).into_owned();
            return Ok(Node::Attribute(Attribute::Other(text.into())));
        }
        let node = match dialect {
            "builtin" => self.builtin(&mut r)?,
            "vhlo" => self.vhlo(&mut r)?,
            // How values may be divided among partitions: nothing on one, and refused by name where there are several.
            "sdy" => return Ok(Node::Attribute(Attribute::Other("#sdy".into()))),
            _ => return Err(unsupported(format!("attributes of the dialect {dialect} in bytecode"))),
        };
        if !r.is_empty() {
            return Err(malformed(format!("expected the end of an attribute at offset {}", r.position())));
        }
        Ok(node)
    }

    fn decode_type(&mut self, entry: Entry<'a>) -> Result<Type> {
        let dialect = self.container.dialects.get(entry.dialect).copied().unwrap_or_default();
        let mut r = entry.data;
        if !entry.is_encoded {
            let text = String::from_utf8_lossy(r.until_zero()?).into_owned();
            return Ok(Type::Other(text.into()));
        }
        let ty = match dialect {
            "builtin" => self.builtin_type(&mut r)?,
            "vhlo" => self.vhlo_type(&mut r)?,
            _ => return Err(unsupported(format!("types of the dialect {dialect} in bytecode"))),
        };
        if !r.is_empty() {
            return Err(malformed(format!("expected the end of a type at offset {}", r.position())));
        }
        Ok(ty)
    }

    fn next_attribute(&mut self, r: &mut Reader<'a>) -> Result<Attribute> {
        let index = r.index()?;
        self.attribute(index)
    }

    fn next_type(&mut self, r: &mut Reader<'a>) -> Result<Type> {
        let index = r.index()?;
        self.ty(index)
    }

    fn next_location(&mut self, r: &mut Reader<'a>) -> Result<LocationId> {
        let index = r.index()?;
        match self.location(index)? {
            Some(id) => Ok(id),
            None => Ok(self.locations.push(Location::Unknown)),
        }
    }

    fn next_text(&mut self, r: &mut Reader<'a>) -> Result<String> {
        match self.next_attribute(r)? {
            Attribute::String(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            _ => Err(malformed("expected a string")),
        }
    }

    fn next_string(&mut self, r: &mut Reader<'a>) -> Result<Arc<[u8]>> {
        let index = r.index()?;
        Ok(self.container.string(index)?.into())
    }

    fn attributes(&mut self, r: &mut Reader<'a>) -> Result<Vec<Attribute>> {
        let count = r.count("attributes")?;
        (0..count).map(|_| self.next_attribute(r)).collect()
    }

    fn types(&mut self, r: &mut Reader<'a>) -> Result<Vec<Type>> {
        let count = r.count("types")?;
        (0..count).map(|_| self.next_type(r)).collect()
    }

    fn entries(&mut self, r: &mut Reader<'a>) -> Result<Dictionary> {
        let count = r.count("entries")?;
        let mut names = std::collections::HashSet::with_capacity(count);
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            let name = self.next_text(r)?;
            if !names.insert(name.clone()) {
                return Err(malformed(format!("expected each name of a dictionary once, found '{name}' again")));
            }
            list.push((name.into_boxed_str(), self.next_attribute(r)?));
        }
        Ok(list.into_iter().collect())
    }

    fn builtin(&mut self, r: &mut Reader<'a>) -> Result<Node> {
        let code = r.varint()?;
        Ok(Node::Attribute(match code {
            0 => Attribute::Array(self.attributes(r)?),
            1 => Attribute::Dictionary(self.entries(r)?),
            2 => Attribute::String(self.next_string(r)?),
            3 => {
                let text = self.next_string(r)?;
                self.next_type(r)?;
                Attribute::String(text)
            }
            4 => Attribute::Symbol(vec![self.next_text(r)?.into()]),
            5 => {
                let mut parts = vec![self.next_text(r)?.into_boxed_str()];
                for inner in self.attributes(r)? {
                    match inner {
                        Attribute::Symbol(names) => parts.extend(names),
                        _ => return Err(malformed("expected a symbol")),
                    }
                }
                Attribute::Symbol(parts)
            }
            6 => Attribute::Type(self.next_type(r)?),
            7 => Attribute::Unit,
            8 => match self.next_type(r)? {
                Type::Element(element) => integer(element, r)?,
                other => return Err(malformed(format!("expected the type of an integer, found {other:?}"))),
            },
            9 => match self.next_type(r)? {
                Type::Element(element) => float(element, r)?,
                other => return Err(malformed(format!("expected the type of a float, found {other:?}"))),
            },
            10 => {
                let (callee, caller) = (self.next_location(r)?, self.next_location(r)?);
                return Ok(Node::Location(Location::CallSite { callee, caller }));
            }
            11 => {
                let file = self.next_text(r)?.into();
                let number = |r: &mut Reader<'a>| r.varint().map(|n| u32::try_from(n).unwrap_or(u32::MAX));
                return Ok(Node::Location(Location::File { file, line: number(r)?, column: number(r)? }));
            }
            12 | 13 => {
                let count = r.count("locations")?;
                let parts = (0..count).map(|_| self.next_location(r)).collect::<Result<_>>()?;
                if code == 13 {
                    self.next_attribute(r)?;
                }
                return Ok(Node::Location(Location::Fused(parts)));
            }
            14 => {
                let name = self.next_text(r)?.into();
                let child = r.index()?;
                return Ok(Node::Location(Location::Name { name, child: self.location(child)? }));
            }
            15 => return Ok(Node::Location(Location::Unknown)),
            17 => {
                let ty = self.next_type(r)?;
                let count = r.index()?;
                let blob = r.blob()?;
                match ty {
                    Type::Element(element) => {
                        let dims = vec![Dim::Fixed(i64::try_from(count).unwrap_or(i64::MAX))];
                        let elements = elements(TensorType { element: element.clone(), dims }, blob, false)?;
                        Attribute::Elements(elements)
                    }
                    other => return Err(malformed(format!("expected the type of an element, found {other:?}"))),
                }
            }
            18 => match self.next_type(r)? {
                Type::Tensor(ty) => Attribute::Elements(elements(ty, r.blob()?, true)?),
                other => return Err(malformed(format!("expected the type of a tensor, found {other:?}"))),
            },
            16 => match self.next_type(r)? {
                Type::Tensor(ty) => {
                    let number = r.index()?;
                    let count = self.container.resources.len();
                    let Some(resource) = self.container.resources.get(number) else {
                        return Err(malformed(format!(
                            "expected the number of one of {count} resources, found {number}"
                        )));
                    };
                    let Some(blob) = resource.blob else {
                        let key = String::from_utf8_lossy(resource.key);
                        return Err(malformed(format!("expected the resource '{key}' to be bytes")));
                    };
                    Attribute::Elements(elements(ty, blob, false)?)
                }
                other => return Err(malformed(format!("expected the type of a tensor, found {other:?}"))),
            },
            22 => return self.range(r),
            _ => return Err(unsupported(format!("the attribute {code} of the builtin dialect in bytecode"))),
        }))
    }

    /// A range of a file, of which the beginning is kept: how many numbers follow, and those.
    fn range(&mut self, r: &mut Reader<'a>) -> Result<Node> {
        let file = self.next_text(r)?.into();
        let count = r.count("numbers of a range")?;
        let numbers = (0..count).map(|_| r.varint()).collect::<Result<Vec<_>>>()?;
        let number = |k: usize| numbers.get(k).map_or(0, |&n| u32::try_from(n).unwrap_or(u32::MAX));
        Ok(Node::Location(Location::File { file, line: number(0), column: number(1) }))
    }

    fn vhlo(&mut self, r: &mut Reader<'a>) -> Result<Node> {
        let code = r.varint()?;
        Ok(Node::Attribute(match code {
            1 => Attribute::Array(self.attributes(r)?),
            2 => match r.varint()? {
                value @ (0 | 1) => Attribute::Bool(value == 1),
                value => return Err(malformed(format!("expected a truth value, found {value}"))),
            },
            3 => word(r, "comparison_direction", &["EQ", "NE", "GE", "GT", "LE", "LT"])?,
            4 => word(r, "comparison_type", &["NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"])?,
            5 => match r.varint()? {
                version @ 0..=4 => Attribute::Int(version as i64, Element::Type(ElementType::S32)),
                version => return Err(malformed(format!("expected a version of custom calls, found {version}"))),
            },
            6 => Attribute::Dictionary(self.entries(r)?),
            7 => word(r, "fft_type", &["FFT", "IFFT", "RFFT", "IRFFT"])?,
            8 => match self.next_type(r)? {
                Type::Element(element) => float(element, r)?,
                other => return Err(malformed(format!("expected the type of a float, found {other:?}"))),
            },
            9 => match self.next_type(r)? {
                Type::Element(element) => integer(element, r)?,
                other => return Err(malformed(format!("expected the type of an integer, found {other:?}"))),
            },
            10 => Attribute::OutputOperandAlias(OutputOperandAlias {
                output_tuple_indices: r.signed_list()?,
                operand_index: r.signed()?,
                operand_tuple_indices: r.signed_list()?,
            }),
            11 => word(r, "precision", &["DEFAULT", "HIGH", "HIGHEST"])?,
            12 => word(r, "rng_algorithm", &["DEFAULT", "THREE_FRY", "PHILOX"])?,
            13 => word(r, "rng_distribution", &["", "UNIFORM", "NORMAL"])?,
            14 => Attribute::String(self.next_string(r)?),
            15 => match self.next_type(r)? {
                Type::Tensor(ty) => Attribute::Elements(elements(ty, r.blob()?, true)?),
                other => return Err(malformed(format!("expected the type of a tensor, found {other:?}"))),
            },
            16 => word(r, "transpose", &["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])?,
            17 => Attribute::Type(self.next_type(r)?),
            18 => return Ok(Node::Bounds(r.signed_list()?)),
            19 => word(r, "result_accuracy_mode", &["DEFAULT", "HIGHEST", "TOLERANCE"])?,
            20 => {
                let (atol, rtol) = (f64::from_bits(r.signed()? as u64), f64::from_bits(r.signed()? as u64));
                let ulps = r.signed()?;
                match self.next_attribute(r)? {
                    Attribute::Enum { word: mode, .. } => {
                        Attribute::ResultAccuracy(ResultAccuracy { atol, rtol, ulps, mode })
                    }
                    _ => return Err(malformed("expected the mode of a result's accuracy")),
                }
            }
            21 => return Ok(Node::SubAxis(r.signed()?, r.signed()?)),
            22 => {
                let name = self.next_text(r)?.into();
                let part = match r.varint()? {
                    0 => None,
                    _ => {
                        let index = r.index()?;
                        match self.node(index)?.0 {
                            Node::SubAxis(before, size) => Some((before, size)),
                            _ => return Err(malformed("expected a part of an axis")),
                        }
                    }
                };
                return Ok(Node::Axis(name, part));
            }
            23 => self.mesh_axes(r)?,
            24 => {
                let name = self.next_text(r)?;
                let size = r.signed()?;
                Attribute::Other(format!("#stablehlo.mesh_axis<name = {name:?}, size = {size}>").into())
            }
            25 => {
                let axes = self.attributes_of(r)?;
                let (ids, has_ids) = r.flagged()?;
                if has_ids {
                    self.attribute(usize::try_from(ids).unwrap_or(usize::MAX))?;
                }
                Attribute::Other(format!("#stablehlo.mesh<{} axes>", axes.len()).into())
            }
            _ => return Err(unsupported(format!("the attribute {code} of VHLO"))),
        }))
    }

    fn attributes_of(&mut self, r: &mut Reader<'a>) -> Result<Vec<Attribute>> {
        match self.next_attribute(r)? {
            Attribute::Array(list) => Ok(list),
            _ => Err(malformed("expected an array")),
        }
    }

    fn mesh_axes(&mut self, r: &mut Reader<'a>) -> Result<Attribute> {
        let mesh = match self.next_attribute(r)? {
            Attribute::String(name) => String::from_utf8_lossy(&name).into_owned().into_boxed_str(),
            Attribute::Symbol(parts) => parts.into_iter().next().unwrap_or_default(),
            Attribute::Other(text) => text,
            _ => return Err(malformed("expected the name of a mesh")),
        };
        // The array of axes holds nodes that are no attributes, so it is read here.
        let index = r.index()?;
        let entry = self.container.attributes.get(index).cloned();
        let Some(Entry { is_encoded: true, mut data, .. }) = entry else { return Err(malformed("expected an array")) };
        if !matches!(data.varint()?, 0 | 1) {
            return Err(malformed("expected an array of axes"));
        }
        let count = data.count("axes")?;
        let mut axes = Vec::with_capacity(count);
        for _ in 0..count {
            let index = data.index()?;
            match self.node(index)?.0 {
                Node::Axis(name, part) => axes.push((name, part)),
                _ => return Err(malformed("expected an axis of a mesh")),
            }
        }
        Ok(Attribute::MeshAxes(Box::new(MeshAxes { mesh, axes })))
    }

    fn builtin_type(&mut self, r: &mut Reader<'a>) -> Result<Type> {
        let code = r.varint()?;
        let element = |ty| Type::Element(Element::Type(ty));
        Ok(match code {
            0 => {
                let encoded = r.varint()?;
                let (width, is_unsigned) = (encoded >> 2, encoded & 3 == 2);
                Type::Element(integer_type(width, is_unsigned))
            }
            1 => Type::Element(Element::Index),
            2 => Type::Function(self.types(r)?, self.types(r)?),
            3 => element(ElementType::BF16),
            4 => element(ElementType::F16),
            5 => element(ElementType::F32),
            6 => element(ElementType::F64),
            9 => Type::Element(complex(self.next_type(r)?)?),
            12 => Type::None,
            13 => self.tensor(r, None)?,
            15 => Type::Tuple(self.types(r)?),
            _ => return Err(unsupported(format!("the type {code} of the builtin dialect in bytecode"))),
        })
    }

    /// Sizes and an element type.
    fn tensor(&mut self, r: &mut Reader<'a>, bounds: Option<Vec<i64>>) -> Result<Type> {
        let sizes = r.signed_list()?;
        self.pay(sizes.len() / 8)?;
        let element = self.element(r)?;
        let dims = sizes.iter().enumerate().map(|(d, &size)| match size {
            DYNAMIC => match bounds.as_ref().and_then(|b| b.get(d)) {
                Some(&bound) if bound >= 0 => Ok(Dim::Bounded(bound)),
                _ => Ok(Dim::Dynamic),
            },
            0.. => Ok(Dim::Fixed(size)),
            _ => Err(malformed(format!("expected the size of a dimension, found {size}"))),
        });
        let dims = dims.collect::<Result<_>>()?;
        Ok(Type::Tensor(TensorType { element, dims }))
    }

    fn element(&mut self, r: &mut Reader<'a>) -> Result<Element> {
        match self.next_type(r)? {
            Type::Element(element) => Ok(element),
            Type::Other(text) => Ok(Element::Other(text)),
            other => Err(malformed(format!("expected the type of an element, found {other:?}"))),
        }
    }

    fn vhlo_type(&mut self, r: &mut Reader<'a>) -> Result<Type> {
        use ElementType as E;
        let code = r.varint()?;
        let element = |ty| Type::Element(Element::Type(ty));
        Ok(match code {
            0 => element(E::Pred),
            1 => Type::Element(complex(self.next_type(r)?)?),
            2 => element(E::BF16),
            3 => element(E::F16),
            4 => element(E::F32),
            5 => element(E::F64),
            6 => element(E::F8E4M3Fn),
            7 => element(E::F8E5M2),
            8 => Type::Function(self.types(r)?, self.types(r)?),
            9 => Type::Element(Element::Index),
            10 => element(E::S4),
            11 => element(E::S8),
            12 => element(E::S16),
            13 => element(E::S32),
            14 => element(E::S64),
            15 => element(E::U4),
            16 => element(E::U8),
            17 => element(E::U16),
            18 => element(E::U32),
            19 => element(E::U64),
            20 => self.tensor(r, None)?,
            21 => {
                let index = r.index()?;
                match self.node(index)?.0 {
                    Node::Bounds(bounds) => self.tensor(r, Some(bounds))?,
                    _ => return Err(unsupported("the encoding of a tensor other than bounds in bytecode")),
                }
            }
            22 => Type::Token,
            23 => Type::Tuple(self.types(r)?),
            24 => self.quantized(r)?,
            25 => Type::Unranked(self.element(r)?),
            26 => Type::Other("!shape.witness".into()),
            27 => element(E::F8E4M3Fnuz),
            28 => element(E::F8E5M2Fnuz),
            29 => element(E::F8E4M3B11Fnuz),
            30 => self.quantized_along_axis(r)?,
            31 => element(E::S2),
            32 => element(E::U2),
            33 => Type::None,
            34 => Type::Element(Element::Tf32),
            35 => element(E::F8E4M3),
            36 => element(E::F8E3M4),
            37 => element(E::F4E2M1Fn),
            38 => Type::Element(Element::Other("f6E2M3FN".into())),
            39 => Type::Element(Element::Other("f6E3M2FN".into())),
            40 => element(E::F8E8M0Fnu),
            41 => match self.tensor(r, None)? {
                Type::Tensor(ty) => Type::Buffer(ty),
                other => other,
            },
            42 => Type::Future(self.types(r)?),
            _ => return Err(unsupported(format!("the type {code} of VHLO"))),
        })
    }

    /// The type of stored integers, with the flag that says whether they have a sign, and the type that they stand for.
    fn storage(&mut self, r: &mut Reader<'a>) -> Result<(ElementType, ElementType)> {
        let flags = r.varint()?;
        let (storage, expressed) = (self.element(r)?, self.element(r)?);
        match (storage, expressed) {
            (Element::Type(storage), Element::Type(expressed)) if storage.is_integer() => {
                let is_signed = flags & 1 == 1;
                let bits = u64::from(storage.bits());
                match integer_type(bits, !is_signed) {
                    Element::Type(storage) => Ok((storage, expressed)),
                    _ => Ok((storage, expressed)),
                }
            }
            (storage, expressed) => {
                let what =
                    format!("expected a type of integers and one of floats, found {storage:?} and {expressed:?}");
                Err(malformed(what))
            }
        }
    }

    fn quantized(&mut self, r: &mut Reader<'a>) -> Result<Type> {
        let (storage, expressed) = self.storage(r)?;
        let scales = vec![f64::from_bits(r.signed()? as u64)];
        let zero_points = vec![r.signed()?];
        let (storage_min, storage_max) = (r.signed()?, r.signed()?);
        let axis = None;
        let q = Quantized { storage, storage_min, storage_max, expressed, axis, scales, zero_points };
        Ok(Type::Element(Element::Quantized(Arc::new(q))))
    }

    fn quantized_along_axis(&mut self, r: &mut Reader<'a>) -> Result<Type> {
        let (storage, expressed) = self.storage(r)?;
        let axis = Some(r.index()?);
        let (storage_min, storage_max) = (r.signed()?, r.signed()?);
        let count = r.count("scales")?;
        let scales =
            (0..count).map(|_| r.signed().map(|bits| f64::from_bits(bits as u64))).collect::<Result<Vec<_>>>()?;
        let zero_points = r.signed_list()?;
        if scales.len() != zero_points.len() {
            return Err(malformed("expected as many scales as zero points"));
        }
        let q = Quantized { storage, storage_min, storage_max, expressed, axis, scales, zero_points };
        Ok(Type::Element(Element::Quantized(Arc::new(q))))
    }
}

/// A word of an enumeration, by number.
fn word(r: &mut Reader<'_>, kind: &str, words: &[&str]) -> Result<Attribute> {
    let number = r.index()?;
    match words.get(number).filter(|w| !w.is_empty()) {
        Some(word) => Ok(Attribute::Enum { kind: kind.into(), word: (*word).into() }),
        None => Err(malformed(format!("expected the number of a {kind}, found {number}"))),
    }
}

fn integer_type(width: u64, is_unsigned: bool) -> Element {
    use ElementType as E;
    Element::Type(match (width, is_unsigned) {
        (1, _) => E::Pred,
        (2, false) => E::S2,
        (4, false) => E::S4,
        (8, false) => E::S8,
        (16, false) => E::S16,
        (32, false) => E::S32,
        (64, false) => E::S64,
        (2, true) => E::U2,
        (4, true) => E::U4,
        (8, true) => E::U8,
        (16, true) => E::U16,
        (32, true) => E::U32,
        (64, true) => E::U64,
        _ => return Element::Other(format!("{}{width}", if is_unsigned { "ui" } else { "i" }).into()),
    })
}

fn complex(part: Type) -> Result<Element> {
    match part {
        Type::Element(Element::Type(ElementType::F32)) => Ok(Element::Type(ElementType::C64)),
        Type::Element(Element::Type(ElementType::F64)) => Ok(Element::Type(ElementType::C128)),
        other => Err(unsupported(format!("complex numbers of {other:?}"))),
    }
}

fn integer(element: Element, r: &mut Reader<'_>) -> Result<Attribute> {
    let ty = match &element {
        Element::Index => ElementType::S64,
        Element::Type(ty) if ty.is_integer() || *ty == ElementType::Pred => *ty,
        other => return Err(malformed(format!("expected the type of an integer, found {other:?}"))),
    };
    let bits = if ty == ElementType::Pred { 1 } else { ty.bits() };
    let raw = r.integer(bits)?;
    if ty == ElementType::Pred {
        return Ok(Attribute::Bool(raw != 0));
    }
    let unused = 64 - bits;
    let value = match ty.is_signed_integer() {
        true => (raw << unused) >> unused,
        false => ((raw as u64) << unused >> unused) as i64,
    };
    Ok(Attribute::Int(value, element))
}

fn float(element: Element, r: &mut Reader<'_>) -> Result<Attribute> {
    use brolga_runtime::narrow;
    let ty = match &element {
        Element::Type(ty) if ty.is_float() => *ty,
        other => return Err(unsupported(format!("a float attribute of type {other:?}"))),
    };
    let raw = r.integer(ty.bits())?;
    let value = match ty {
        ElementType::F64 => f64::from_bits(raw as u64),
        ElementType::F32 => f64::from(f32::from_bits(raw as u32)),
        ElementType::F16 => half::f16::from_bits(raw as u16).to_f64(),
        ElementType::BF16 => half::bf16::from_bits(raw as u16).to_f64(),
        _ => narrow::decode(ty, raw as u8),
    };
    Ok(Attribute::Float(value, element))
}

/// The elements of a constant from MLIR's raw form: dense, one byte for elements under a byte, bits for truth values where
/// `packed`; one element that is shorter than the tensor stands for all.
fn elements(ty: TensorType, blob: &[u8], packed: bool) -> Result<Elements> {
    let stored = match &ty.element {
        Element::Type(ty) => *ty,
        Element::Index => ElementType::S64,
        Element::Quantized(q) => q.storage,
        other => return Err(unsupported(format!("constants of {other:?}"))),
    };
    let dims = ty.dims.iter().map(|d| if let Dim::Fixed(n) = d { Some(*n) } else { None });
    let Some(dims) = dims.collect::<Option<Vec<i64>>>() else {
        return Err(malformed("expected the sizes of a constant"));
    };
    let shape = ArrayShape::new(stored, dims);
    let size = stored.byte_size();
    let count = shape.checked_elements().filter(|n| n.checked_mul(size).is_some_and(|b| isize::try_from(b).is_ok()));
    let Some(count) = count else {
        return Err(unsupported(format!("a constant of 2^63 bytes or more, {shape}")));
    };
    let scalar = ArrayShape::new(stored, []);
    let wrong = || malformed(format!("expected {count} elements of {stored}, found {} bytes", blob.len()));
    if stored == ElementType::Pred {
        let bit = |k: usize| u8::from(blob.get(k / 8).is_some_and(|b| b >> (k % 8) & 1 == 1));
        // All ones stand for a tensor of ones, whatever its size.
        let is_splat = blob.len() == 1 && count > 1 && (matches!(blob, [0xff]) || !packed || count > 8);
        let bytes: Vec<u8> = if is_splat {
            blob.iter().map(|&b| u8::from(b != 0)).collect()
        } else if packed && blob.len() == count.div_ceil(8) && blob.len() != count {
            (0..count).map(bit).collect()
        } else {
            blob.iter().map(|&b| u8::from(b != 0)).collect()
        };
        let shape = if is_splat { scalar } else { shape };
        let data = ArrayLiteral::from_bytes(&shape, &bytes).ok_or_else(wrong)?;
        return Ok(Elements { ty, data: Arc::new(data), is_splat });
    }
    let is_splat = blob.len() == size && count != 1;
    let mut data = ArrayLiteral::from_bytes(if is_splat { &scalar } else { &shape }, blob).ok_or_else(wrong)?;
    if stored.bits() < 8 {
        let unused = 8 - stored.bits();
        for byte in data.bytes_mut() {
            let high = *byte << unused;
            *byte = if stored.is_signed_integer() { ((high as i8) >> unused) as u8 } else { high >> unused };
        }
    }
    Ok(Elements { ty, data: Arc::new(data), is_splat })
}
