//! Attributes: builtin ones by their syntax, StableHLO's and CHLO's by their names, all others kept as they are written.

use super::Reader;
use super::cursor::{Cursor, fit, shorten, to_i128};
use crate::Result;
use crate::stablehlo::ir::{
    Attribute, Dictionary, DotAlgorithm, DotDims, Element, GatherDims, MeshAxes, OutputOperandAlias, RaggedDotDims,
    ResultAccuracy, ScatterDims,
};
use brolga_runtime::{ElementType, Scalar};

/// Words of enumerations: `#stablehlo<fft_type FFT>` and `#stablehlo.fft_type<FFT>`.
const ENUMS: [&str; 10] = [
    "comparison_direction",
    "comparison_type",
    "custom_call_api_version",
    "fft_type",
    "precision",
    "result_accuracy_mode",
    "rng_algorithm",
    "rng_distribution",
    "transpose",
    "ragged_dot_mode",
];

impl<'a> Reader<'a> {
    /// `{name = value, name}`, if it comes next.
    pub(super) fn optional_dictionary(&mut self, into: &mut Dictionary) -> Result<()> {
        if self.c.peek() == Some(b'{') && !self.c.at("{-#") { self.dictionary(into) } else { Ok(()) }
    }

    /// `{name = value, name}`
    pub(super) fn dictionary(&mut self, into: &mut Dictionary) -> Result<()> {
        self.c.enter("attributes")?;
        self.c.expect("{")?;
        if !self.c.eat("}") {
            loop {
                let start = self.c.start();
                let name: String = if self.c.peek() == Some(b'"') {
                    let bytes = self.c.string("the name of an attribute")?;
                    String::from_utf8(bytes).map_err(|_| self.c.error(start, "expected a name in UTF-8".to_owned()))?
                } else {
                    match self.c.word() {
                        Some(word) => word.to_owned(),
                        None => return Err(self.c.expected("the name of an attribute")),
                    }
                };
                let end = self.c.pos();
                let value = if self.c.eat("=") { self.attribute()? } else { Attribute::Unit };
                if into.get(&name).is_some() {
                    let message = format!("expected each attribute once, found '{name}' again");
                    return Err(self.c.error_span(start, end, message));
                }
                into.set(name, value);
                if !self.c.eat(",") {
                    self.c.expect("}")?;
                    break;
                }
            }
        }
        self.c.leave();
        Ok(())
    }

    /// An attribute.
    pub(super) fn attribute(&mut self) -> Result<Attribute> {
        self.c.enter("attributes")?;
        let value = self.attribute_inside()?;
        self.c.leave();
        Ok(value)
    }

    fn attribute_inside(&mut self) -> Result<Attribute> {
        let start = self.c.start();
        match self.c.peek() {
            Some(b'"') => {
                let bytes = self.c.string("a string")?;
                // A string may say its type, which means nothing here.
                if self.c.eat(":") {
                    self.ty()?;
                }
                Ok(Attribute::String(bytes.into()))
            }
            Some(b'@') => {
                let mut parts = vec![self.c.symbol()?.into_boxed_str()];
                while self.c.eat("::") {
                    parts.push(self.c.symbol()?.into_boxed_str());
                }
                Ok(Attribute::Symbol(parts))
            }
            Some(b'[') => {
                let mut list = Vec::new();
                self.c.expect("[")?;
                if !self.c.eat("]") {
                    loop {
                        list.push(self.attribute()?);
                        if !self.c.eat(",") {
                            self.c.expect("]")?;
                            break;
                        }
                    }
                }
                Ok(Attribute::Array(list))
            }
            Some(b'{') => {
                let mut dictionary = Dictionary::new();
                self.dictionary(&mut dictionary)?;
                Ok(Attribute::Dictionary(dictionary))
            }
            Some(b'#') => self.hash_attribute(),
            Some(b) if b.is_ascii_digit() || b == b'-' => self.number(),
            Some(b'(' | b'!') => self.ty().map(Attribute::Type),
            _ => match self.c.peek_word() {
                Some("true" | "false") => Ok(Attribute::Bool(self.c.word() == Some("true"))),
                Some("unit") => {
                    self.c.word();
                    Ok(Attribute::Unit)
                }
                Some("array") => self.dense_array(),
                Some("dense" | "dense_resource") => self.elements(),
                Some("sparse") => Err(self.c.unsupported(start, "sparse constants")),
                Some("loc") => {
                    self.location()?;
                    Ok(Attribute::Unit)
                }
                Some("affine_map" | "affine_set" | "strided" | "opaque" | "distinct") => {
                    self.c.word();
                    if self.c.eat("[") {
                        self.c.balanced()?;
                        self.c.expect("]")?;
                    }
                    self.c.expect("<")?;
                    self.c.balanced()?;
                    self.c.expect(">")?;
                    Ok(Attribute::Other(self.c.since(start).into()))
                }
                _ => match self.optional_type()? {
                    Some(ty) => Ok(Attribute::Type(ty)),
                    None => Err(self.c.expected("an attribute")),
                },
            },
        }
    }

    /// `1 : i64`, `1.0 : f32`, `0x7FC00000 : f32`
    fn number(&mut self) -> Result<Attribute> {
        let start = self.c.start();
        let text = self.number_text()?;
        let is_float = !text.contains("0x") && text.contains(['.', 'e', 'E']);
        let element = if self.c.eat(":") { Some(self.element()?) } else { None };
        let float_type = match &element {
            Some(Element::Type(ty)) if ty.is_float() => Some(*ty),
            _ => None,
        };
        if is_float || float_type.is_some() {
            let value = match text.strip_prefix("0x").zip(float_type) {
                Some((hex, ty)) => float_of_bits(hex, ty),
                None => text.parse().ok(),
            };
            let value = value.ok_or_else(|| self.c.error(start, format!("expected a number, found '{text}'")))?;
            // The type holds no more digits than it has bits for.
            let value = float_type.map_or(value, |ty| Scalar::Float(value).round_to(ty).as_f64());
            return Ok(Attribute::Float(value, element.unwrap_or(Element::Type(ElementType::F64))));
        }
        let value = to_i128(text).and_then(fit);
        let message = || format!("expected an integer that fits 64 bits, found '{}'", shorten(text));
        let value = value.ok_or_else(|| self.c.error(start, message()))?;
        Ok(Attribute::Int(value, element.unwrap_or(Element::Type(ElementType::S64))))
    }

    /// The text of a number, whose sign stands by it.
    pub(super) fn number_text(&mut self) -> Result<&'a str> {
        let start = self.c.start();
        let text = self.c.int_text("a number")?;
        if text.contains('x') {
            return Ok(text);
        }
        if self.c.rest().first() == Some(&b'.') {
            self.c.run(|b| b == b'.' || b.is_ascii_digit());
        }
        if let [b'e' | b'E', next, ..] = self.c.rest()
            && (next.is_ascii_digit() || matches!(next, b'+' | b'-'))
        {
            self.c.run(|b| matches!(b, b'e' | b'E'));
            self.c.run(|b| matches!(b, b'+' | b'-'));
            self.c.run(|b| b.is_ascii_digit());
        }
        Ok(self.c.since(start))
    }

    /// A number with a point, or an integer.
    pub(super) fn real(&mut self) -> Result<f64> {
        let start = self.c.start();
        let text = self.number_text()?;
        text.parse().map_err(|_| self.c.error(start, format!("expected a number, found '{}'", shorten(text))))
    }

    /// `array<i64: 1, 2>`
    fn dense_array(&mut self) -> Result<Attribute> {
        self.c.expect_word("array")?;
        self.c.expect("<")?;
        let start = self.c.start();
        let element = self.element()?;
        let Element::Type(ty) = element else {
            return Err(self.c.error(start, "expected a type of integers or floats".to_owned()));
        };
        let (mut ints, mut floats) = (Vec::new(), Vec::new());
        if self.c.eat(":") {
            loop {
                if ty.is_float() {
                    let start = self.c.start();
                    let text = self.number_text()?;
                    let value = match text.strip_prefix("0x") {
                        Some(hex) => float_of_bits(hex, ty),
                        None => text.parse().ok(),
                    };
                    let message = || format!("expected a number, found '{}'", shorten(text));
                    floats.push(value.ok_or_else(|| self.c.error(start, message()))?);
                } else {
                    ints.push(match self.c.peek_word() {
                        Some(word @ ("true" | "false")) => {
                            self.c.word();
                            i64::from(word == "true")
                        }
                        _ => self.c.int("an integer")?,
                    });
                }
                if !self.c.eat(",") {
                    break;
                }
            }
        }
        self.c.expect(">")?;
        Ok(if ty.is_float() { Attribute::Floats(floats, element) } else { Attribute::Ints(ints, element) })
    }

    /// What begins with `#`: an alias, or an attribute of a dialect.
    fn hash_attribute(&mut self) -> Result<Attribute> {
        let start = self.c.start();
        let name = self.c.name("#", "an attribute")?;
        if let Some(value) = self.attribute_aliases.get(name) {
            return Ok(value.clone());
        }
        let (dialect, mut mnemonic) = name.split_once('.').unwrap_or((name, ""));
        let has_body = self.c.rest().first() == Some(&b'<');
        if mnemonic.is_empty() && !has_body {
            let message = format!("the alias '#{name}' of an attribute is not defined before its use");
            return Err(self.c.error(start, message));
        }
        if matches!(dialect, "stablehlo" | "chlo" | "mhlo") && has_body {
            let body = self.c.pos();
            self.c.expect("<")?;
            // `#stablehlo<mnemonic ...>` is the older way to write `#stablehlo.mnemonic<...>`.
            let inner = if mnemonic.is_empty() { self.c.word().unwrap_or_default() } else { mnemonic };
            if ENUMS.contains(&inner) {
                // Either brackets of its own, or the word at once.
                let own = mnemonic.is_empty() && self.c.eat("<");
                let word = self.c.word().unwrap_or_default();
                if own {
                    self.c.expect(">")?;
                }
                self.c.expect(">")?;
                return Ok(Attribute::Enum { kind: inner.into(), word: word.into() });
            }
            if mnemonic.is_empty() && self.c.eat("<") {
                mnemonic = inner;
                let value = self.structured(mnemonic)?;
                if let Some(value) = value {
                    self.c.expect(">")?;
                    self.c.expect(">")?;
                    return Ok(value);
                }
            } else if let Some(value) = self.structured(inner)? {
                self.c.expect(">")?;
                return Ok(value);
            }
            self.c.rewind(body);
        }
        if self.c.rest().first() == Some(&b'<') {
            self.c.eat("<");
            self.c.balanced()?;
            self.c.expect(">")?;
        }
        Ok(Attribute::Other(self.c.since(start).into()))
    }

    /// The inside of a structured attribute; `None` where `mnemonic` is none that has a form of its own.
    pub(super) fn structured(&mut self, mnemonic: &str) -> Result<Option<Attribute>> {
        Ok(Some(match mnemonic {
            "dot" => {
                let mut dims = DotDims::default();
                self.fields(|r, name| Ok(dot_field(&mut r.c, name, &mut dims)?.is_some()))?;
                Attribute::Dot(Box::new(dims))
            }
            "ragged_dot" => {
                let mut dims = RaggedDotDims::default();
                self.fields(|r, name| {
                    match name {
                        "lhs_ragged_dimensions" => dims.lhs_ragged = r.c.ints("a dimension")?,
                        "rhs_group_dimensions" => dims.rhs_group = r.c.ints("a dimension")?,
                        _ => return Ok(dot_field(&mut r.c, name, &mut dims.dot)?.is_some()),
                    }
                    Ok(true)
                })?;
                Attribute::RaggedDot(Box::new(dims))
            }
            "gather" => {
                let mut dims = GatherDims::default();
                self.fields(|r, name| {
                    match name {
                        "offset_dims" => dims.offset_dims = r.c.ints("a dimension")?,
                        "collapsed_slice_dims" => dims.collapsed_slice_dims = r.c.ints("a dimension")?,
                        "operand_batching_dims" => dims.operand_batching_dims = r.c.ints("a dimension")?,
                        "start_indices_batching_dims" => dims.start_indices_batching_dims = r.c.ints("a dimension")?,
                        "start_index_map" => dims.start_index_map = r.c.ints("a dimension")?,
                        "index_vector_dim" => dims.index_vector_dim = r.c.int("a dimension")?,
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?;
                Attribute::Gather(Box::new(dims))
            }
            "scatter" => {
                let mut dims = ScatterDims::default();
                self.fields(|r, name| {
                    match name {
                        "update_window_dims" => dims.update_window_dims = r.c.ints("a dimension")?,
                        "inserted_window_dims" => dims.inserted_window_dims = r.c.ints("a dimension")?,
                        "input_batching_dims" => dims.input_batching_dims = r.c.ints("a dimension")?,
                        "scatter_indices_batching_dims" => {
                            dims.scatter_indices_batching_dims = r.c.ints("a dimension")?;
                        }
                        "scatter_dims_to_operand_dims" => {
                            dims.scatter_dims_to_operand_dims = r.c.ints("a dimension")?;
                        }
                        "index_vector_dim" => dims.index_vector_dim = r.c.int("a dimension")?,
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?;
                Attribute::Scatter(Box::new(dims))
            }
            "conv" => Attribute::Convolution(Box::new(self.convolution_dims()?)),
            "dot_algorithm" => Attribute::DotAlgorithm(Box::new(self.dot_algorithm()?)),
            "result_accuracy" => {
                let mut accuracy = ResultAccuracy { atol: 0.0, rtol: 0.0, ulps: 0, mode: "DEFAULT".into() };
                self.fields(|r, name| {
                    match name {
                        "atol" => accuracy.atol = r.real()?,
                        "rtol" => accuracy.rtol = r.real()?,
                        "ulps" => accuracy.ulps = r.c.int("a number of units")?,
                        "mode" => match r.attribute()? {
                            Attribute::Enum { word, .. } => accuracy.mode = word,
                            _ => return Err(r.c.expected("#stablehlo.result_accuracy_mode<...>")),
                        },
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?;
                Attribute::ResultAccuracy(accuracy)
            }
            "output_operand_alias" => {
                let mut alias = OutputOperandAlias {
                    output_tuple_indices: Vec::new(),
                    operand_index: 0,
                    operand_tuple_indices: Vec::new(),
                };
                self.fields(|r, name| {
                    match name {
                        "output_tuple_indices" => alias.output_tuple_indices = r.c.ints("an index")?,
                        "operand_index" => alias.operand_index = r.c.int("an operand's number")?,
                        "operand_tuple_indices" => alias.operand_tuple_indices = r.c.ints("an index")?,
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?;
                Attribute::OutputOperandAlias(alias)
            }
            "channel_handle" => {
                let (mut handle, mut kind) = (0, 0);
                self.fields(|r, name| {
                    match name {
                        "handle" => handle = r.c.int("a channel's number")?,
                        "type" => kind = r.c.int("a channel's type")?,
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?;
                Attribute::Channel { handle, kind }
            }
            "replica_group_mesh_axes" => {
                let mut axes = MeshAxes { mesh: "".into(), axes: Vec::new() };
                self.fields(|r, name| {
                    match name {
                        "mesh" if r.c.peek() == Some(b'@') => axes.mesh = r.c.symbol()?.into(),
                        "axes" => axes.axes = r.axes()?,
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?;
                Attribute::MeshAxes(Box::new(axes))
            }
            _ => return Ok(None),
        }))
    }

    /// `name = value` with commas between them, up to the closing `>`, which stays.
    fn fields(&mut self, mut field: impl FnMut(&mut Self, &str) -> Result<bool>) -> Result<()> {
        let mut seen: Vec<&str> = Vec::new();
        while self.c.peek() != Some(b'>') {
            let start = self.c.start();
            let Some(name) = self.c.word() else { return Err(self.c.expected("the name of a field")) };
            let end = self.c.pos();
            if seen.contains(&name) {
                return Err(self.c.error(start, format!("expected each field once, found '{name}' again")));
            }
            seen.push(name);
            self.c.expect("=")?;
            if !field(self, name)? {
                let message = format!("expected a field of this attribute, found '{name}'");
                return Err(self.c.error_span(start, end, message));
            }
            if !self.c.eat(",") {
                break;
            }
        }
        Ok(())
    }

    /// `lhs_precision_type = tf32, ...`, up to the closing `>`.
    pub(super) fn dot_algorithm(&mut self) -> Result<DotAlgorithm> {
        let f32 = || Element::Type(ElementType::F32);
        let mut algorithm = DotAlgorithm {
            lhs_precision_type: f32(),
            rhs_precision_type: f32(),
            accumulation_type: f32(),
            lhs_component_count: 1,
            rhs_component_count: 1,
            num_primitive_operations: 1,
            allow_imprecise_accumulation: false,
        };
        self.fields(|r, name| {
            match name {
                "lhs_precision_type" => algorithm.lhs_precision_type = r.element()?,
                "rhs_precision_type" => algorithm.rhs_precision_type = r.element()?,
                "accumulation_type" => algorithm.accumulation_type = r.element()?,
                "lhs_component_count" => algorithm.lhs_component_count = r.c.int("a count")?,
                "rhs_component_count" => algorithm.rhs_component_count = r.c.int("a count")?,
                "num_primitive_operations" => algorithm.num_primitive_operations = r.c.int("a count")?,
                "allow_imprecise_accumulation" => {
                    algorithm.allow_imprecise_accumulation = r.attribute()?.to_bool().unwrap_or(false);
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(algorithm)
    }

    /// `[#stablehlo.axis_ref<name = "x", sub_axis_info = (1)2>]`
    fn axes(&mut self) -> Result<Vec<crate::stablehlo::ir::MeshAxis>> {
        let mut out = Vec::new();
        self.c.expect("[")?;
        while !self.c.eat("]") {
            if self.c.peek() == Some(b'#') {
                self.c.name("#", "an axis")?;
            }
            self.c.expect("<")?;
            let (mut axis, mut part) = (String::new(), None);
            self.fields(|r, name| {
                match name {
                    "name" => axis = String::from_utf8_lossy(&r.c.string("the name of an axis")?).into_owned(),
                    "sub_axis_info" => {
                        r.c.expect("(")?;
                        let before = r.c.int("a size")?;
                        r.c.expect(")")?;
                        part = Some((before, r.c.int("a size")?));
                    }
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
            self.c.expect(">")?;
            out.push((axis.into_boxed_str(), part));
            if !self.c.eat(",") {
                self.c.expect("]")?;
                break;
            }
        }
        Ok(out)
    }
}

fn dot_field(c: &mut Cursor<'_>, name: &str, dims: &mut DotDims) -> Result<Option<()>> {
    let field = match name {
        "lhs_batching_dimensions" => &mut dims.lhs_batching,
        "rhs_batching_dimensions" => &mut dims.rhs_batching,
        "lhs_contracting_dimensions" => &mut dims.lhs_contracting,
        "rhs_contracting_dimensions" => &mut dims.rhs_contracting,
        _ => return Ok(None),
    };
    *field = c.ints("a dimension")?;
    Ok(Some(()))
}

/// The number whose bits `hex` writes.
fn float_of_bits(hex: &str, ty: ElementType) -> Option<f64> {
    let bits = u64::from_str_radix(hex, 16).ok()?;
    let mut literal = brolga_runtime::ArrayLiteral::zeros(&brolga_runtime::ArrayShape::new(ty, []));
    let storage = literal.bytes_mut();
    let bytes = bits.to_le_bytes();
    let fits = bytes.get(storage.len()..)?.iter().all(|&b| b == 0);
    storage.copy_from_slice(bytes.get(..storage.len())?);
    fits.then(|| literal.get(0).as_f64())
}
