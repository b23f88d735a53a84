//! Types.

use super::Reader;
use crate::Result;
use crate::stablehlo::ir::{Dim, Element, Quantized, TensorType, Type};
use brolga_runtime::ElementType;
use std::sync::Arc;

/// Dimensions of a tensor.
const MAX_RANK: usize = 128;

impl<'a> Reader<'a> {
    /// A type.
    pub(super) fn ty(&mut self) -> Result<Type> {
        match self.optional_type()? {
            Some(ty) => Ok(ty),
            None => Err(self.c.expected("a type")),
        }
    }

    /// A type, if one comes next.
    pub(super) fn optional_type(&mut self) -> Result<Option<Type>> {
        let start = self.c.start();
        match self.c.peek() {
            Some(b'!') => self.dialect_type().map(Some),
            Some(b'(') => {
                let (operands, results) = self.function_type()?;
                Ok(Some(Type::Function(operands, results)))
            }
            Some(_) => {
                let Some(word) = self.c.word() else { return Ok(None) };
                let ty = match word {
                    "tensor" => self.tensor()?,
                    "memref" => match self.tensor()? {
                        Type::Tensor(ty) => Type::Buffer(ty),
                        _ => return Err(self.c.unsupported(start, "a memref without a rank")),
                    },
                    "tuple" => Type::Tuple(self.angle_types()?),
                    "none" => Type::None,
                    "vector" => {
                        self.c.expect("<")?;
                        self.c.balanced()?;
                        self.c.expect(">")?;
                        Type::Other(self.c.since(start).into())
                    }
                    _ => {
                        self.c.rewind(start);
                        return Ok(self.optional_element()?.map(Type::Element));
                    }
                };
                Ok(Some(ty))
            }
            None => Ok(None),
        }
    }

    /// `(T, T) -> T` or `(T, T) -> (T, T)`.
    pub(super) fn function_type(&mut self) -> Result<(Vec<Type>, Vec<Type>)> {
        self.c.enter("types")?;
        let operands = self.types_in_parentheses()?;
        self.c.expect("->")?;
        let results = if self.c.peek() == Some(b'(') { self.types_in_parentheses()? } else { vec![self.ty()?] };
        self.c.leave();
        Ok((operands, results))
    }

    /// `(T, T)`
    pub(super) fn types_in_parentheses(&mut self) -> Result<Vec<Type>> {
        let mut out = Vec::new();
        self.c.expect("(")?;
        if self.c.eat(")") {
            return Ok(out);
        }
        loop {
            out.push(self.ty()?);
            if !self.c.eat(",") {
                self.c.expect(")")?;
                return Ok(out);
            }
        }
    }

    /// `<T, T>`
    fn angle_types(&mut self) -> Result<Vec<Type>> {
        self.c.enter("types")?;
        let mut out = Vec::new();
        self.c.expect("<")?;
        if !self.c.eat(">") {
            loop {
                out.push(self.ty()?);
                if !self.c.eat(",") {
                    self.c.expect(">")?;
                    break;
                }
            }
        }
        self.c.leave();
        Ok(out)
    }

    fn dialect_type(&mut self) -> Result<Type> {
        let start = self.c.start();
        let name = self.c.name("!", "a type")?;
        match name {
            "stablehlo.token" | "mhlo.token" => return Ok(Type::Token),
            "stablehlo.future" => return Ok(Type::Future(self.angle_types()?)),
            _ => {}
        }
        if let Some(ty) = self.type_aliases.get(name) {
            return Ok(ty.clone());
        }
        if !name.contains('.') {
            return Err(self.c.error(start, format!("the alias '!{name}' of a type is not defined before its use")));
        }
        self.c.rewind(start);
        Ok(Type::Element(self.element()?))
    }

    /// `<4x?xf32, #stablehlo.bounds<?, 8>>`
    fn tensor(&mut self) -> Result<Type> {
        self.c.enter("types")?;
        self.c.expect("<")?;
        if self.c.eat("*") {
            if !self.c.rest().starts_with(b"x") {
                return Err(self.c.expected("'x' and the type of the elements"));
            }
            self.c.eat("x");
            let element = self.element()?;
            self.c.expect(">")?;
            self.c.leave();
            return Ok(Type::Unranked(element));
        }
        let mut dims = Vec::new();
        loop {
            let start = self.c.start();
            let dim = match self.c.peek() {
                Some(b'?') => {
                    self.c.eat("?");
                    Dim::Dynamic
                }
                Some(b) if b.is_ascii_digit() => {
                    let text = self.c.run(|b| b.is_ascii_digit());
                    let size = text.parse::<i64>();
                    Dim::Fixed(size.map_err(|_| self.c.error(start, "expected a size that fits 64 bits".into()))?)
                }
                _ => break,
            };
            if !self.c.rest().starts_with(b"x") {
                return Err(self.c.expected("'x' after the size of a dimension"));
            }
            self.c.eat("x");
            if dims.len() == MAX_RANK {
                return Err(self.c.error(start, format!("expected at most {MAX_RANK} dimensions")));
            }
            dims.push(dim);
        }
        let element = self.element()?;
        if self.c.eat(",") {
            self.encoding(&mut dims)?;
        }
        self.c.expect(">")?;
        self.c.leave();
        Ok(Type::Tensor(TensorType { element, dims }))
    }

    /// What stands behind the element type: bounds of dynamic dimensions.
    fn encoding(&mut self, dims: &mut [Dim]) -> Result<()> {
        let start = self.c.start();
        let mut name = self.c.name("#", "the encoding of a tensor")?;
        let back = self.c.pos();
        if let Some(text) = self.raw_aliases.get(name).copied() {
            // The alias stands for text elsewhere: read it there, and come back.
            self.c.rewind(text);
            name = self.c.name("#", "the encoding of a tensor")?;
            let bounds = self.bounds(start, name)?;
            self.c.rewind(back);
            return self.apply_bounds(start, dims, &bounds);
        }
        let bounds = self.bounds(start, name)?;
        self.apply_bounds(start, dims, &bounds)
    }

    fn bounds(&mut self, start: usize, name: &str) -> Result<Vec<Option<i64>>> {
        let mut bounds: Vec<Option<i64>> = Vec::new();
        let item = |c: &mut super::cursor::Cursor<'_>| {
            bounds.push(if c.eat("?") { None } else { Some(c.int("a bound")?) });
            Ok(())
        };
        match name {
            "stablehlo.bounds" | "mhlo.bounds" => self.c.list("<", ">", item)?,
            "stablehlo.type_extensions" | "mhlo.type_extensions" => {
                self.c.expect("<")?;
                self.c.expect_word("bounds")?;
                self.c.expect("=")?;
                self.c.list("[", "]", item)?;
                self.c.expect(">")?;
            }
            _ => return Err(self.c.unsupported(start, format!("the encoding #{name} of a tensor"))),
        }
        Ok(bounds)
    }

    fn apply_bounds(&self, start: usize, dims: &mut [Dim], bounds: &[Option<i64>]) -> Result<()> {
        if bounds.len() != dims.len() {
            let message = format!("expected bounds of {} dimensions, found {}", dims.len(), bounds.len());
            return Err(self.c.error(start, message));
        }
        for (dim, bound) in dims.iter_mut().zip(bounds) {
            match (&dim, bound) {
                (_, None) => {}
                (Dim::Fixed(_), Some(_)) => {
                    let message = "expected a bound of dimensions of open size ('?') only".to_owned();
                    return Err(self.c.error(start, message));
                }
                (_, Some(bound)) => *dim = Dim::Bounded(*bound),
            }
        }
        Ok(())
    }

    /// The type of an element.
    pub(super) fn element(&mut self) -> Result<Element> {
        match self.optional_element()? {
            Some(element) => Ok(element),
            None => Err(self.c.expected("the type of an element")),
        }
    }

    fn optional_element(&mut self) -> Result<Option<Element>> {
        let start = self.c.start();
        if self.c.peek() == Some(b'!') {
            let name = self.c.name("!", "a type")?;
            if let Some(Type::Element(element)) = self.type_aliases.get(name) {
                return Ok(Some(element.clone()));
            }
            if name == "quant.uniform" {
                return self.quantized(start).map(Some);
            }
            if self.c.rest().first() == Some(&b'<') {
                self.c.eat("<");
                self.c.balanced()?;
                self.c.expect(">")?;
            }
            return Ok(Some(Element::Other(self.c.since(start).into())));
        }
        let Some(word) = self.c.word() else { return Ok(None) };
        if word == "complex" {
            self.c.expect("<")?;
            let part = self.c.start();
            let ty = match self.element()? {
                Element::Type(ElementType::F32) => ElementType::C64,
                Element::Type(ElementType::F64) => ElementType::C128,
                _ => return Err(self.c.unsupported(part, "complex numbers of other parts than f32 and f64")),
            };
            self.c.expect(">")?;
            return Ok(Some(Element::Type(ty)));
        }
        let element = element_named(word);
        if element.is_none() {
            self.c.rewind(start);
        }
        Ok(element)
    }

    /// `<i8<-127:127>:f32:1, {1.0:0, 2.0:0}>`
    fn quantized(&mut self, start: usize) -> Result<Element> {
        self.c.expect("<")?;
        let at = self.c.start();
        let storage = match self.c.word().and_then(storage_named) {
            Some(ty) => ty,
            None => {
                self.c.rewind(at);
                return Err(self.c.expected("the type of stored values"));
            }
        };
        let bits = storage.bits();
        let (mut min, mut max) = if storage.is_signed_integer() {
            (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1)
        } else {
            (0, (1i64 << bits) - 1)
        };
        let limits = (min, max);
        if self.c.eat("<") {
            let at = self.c.start();
            min = self.c.int("the least stored value")?;
            self.c.expect(":")?;
            max = self.c.int("the largest stored value")?;
            if min < limits.0 || max > limits.1 || min >= max {
                let message = format!("expected stored values between {} and {}, in order", limits.0, limits.1);
                return Err(self.c.error(at, message));
            }
            self.c.expect(">")?;
        }
        self.c.expect(":")?;
        let at = self.c.start();
        let expressed = match self.element()? {
            Element::Type(ty) if ty.is_float() => ty,
            _ => return Err(self.c.error(at, "expected a type of floats".to_owned())),
        };
        let mut axis = None;
        if self.c.eat(":") {
            if self.c.peek() == Some(b'{') {
                return Err(self.c.unsupported(start, "a quantised type with blocks of scales"));
            }
            let at = self.c.start();
            let n = self.c.int("the dimension of the scales")?;
            let n = usize::try_from(n).map_err(|_| self.c.error(at, "expected a dimension".to_owned()))?;
            axis = Some(n);
        }
        self.c.expect(",")?;
        let (mut scales, mut zero_points) = (Vec::new(), Vec::new());
        if axis.is_some() {
            self.c.expect("{")?;
            if !self.c.eat("}") {
                loop {
                    self.scale(&mut scales, &mut zero_points)?;
                    if !self.c.eat(",") {
                        self.c.expect("}")?;
                        break;
                    }
                }
            }
        } else {
            self.scale(&mut scales, &mut zero_points)?;
        }
        self.c.expect(">")?;
        let quantized = Quantized { storage, storage_min: min, storage_max: max, expressed, axis, scales, zero_points };
        Ok(Element::Quantized(Arc::new(quantized)))
    }

    fn scale(&mut self, scales: &mut Vec<f64>, zero_points: &mut Vec<i64>) -> Result<()> {
        let start = self.c.start();
        let scale = self.real()?;
        if !(scale > 0.0 && scale.is_finite()) {
            return Err(self.c.error(start, "expected a positive scale".to_owned()));
        }
        scales.push(scale);
        zero_points.push(if self.c.eat(":") { self.c.int("a zero point")? } else { 0 });
        Ok(())
    }
}

/// Types of stored values: `i8` and `u8`.
fn storage_named(word: &str) -> Option<ElementType> {
    Some(match word {
        "i2" => ElementType::S2,
        "i4" => ElementType::S4,
        "i8" => ElementType::S8,
        "i16" => ElementType::S16,
        "i32" => ElementType::S32,
        "u2" | "ui2" => ElementType::U2,
        "u4" | "ui4" => ElementType::U4,
        "u8" | "ui8" => ElementType::U8,
        "u16" | "ui16" => ElementType::U16,
        "u32" | "ui32" => ElementType::U32,
        _ => return None,
    })
}

/// The builtin type called `word`.
fn element_named(word: &str) -> Option<Element> {
    use ElementType as E;
    Some(Element::Type(match word {
        "i1" => E::Pred,
        "i2" => E::S2,
        "i4" => E::S4,
        "i8" => E::S8,
        "i16" => E::S16,
        "i32" => E::S32,
        "i64" => E::S64,
        "ui2" => E::U2,
        "ui4" => E::U4,
        "ui8" => E::U8,
        "ui16" => E::U16,
        "ui32" => E::U32,
        "ui64" => E::U64,
        "f4E2M1FN" => E::F4E2M1Fn,
        "f8E3M4" => E::F8E3M4,
        "f8E4M3" => E::F8E4M3,
        "f8E4M3B11FNUZ" => E::F8E4M3B11Fnuz,
        "f8E4M3FN" => E::F8E4M3Fn,
        "f8E4M3FNUZ" => E::F8E4M3Fnuz,
        "f8E5M2" => E::F8E5M2,
        "f8E5M2FNUZ" => E::F8E5M2Fnuz,
        "f8E8M0FNU" => E::F8E8M0Fnu,
        "f16" => E::F16,
        "bf16" => E::BF16,
        "f32" => E::F32,
        "f64" => E::F64,
        "index" => return Some(Element::Index),
        "tf32" => return Some(Element::Tf32),
        "f6E2M3FN" | "f6E3M2FN" | "f80" | "f128" => return Some(Element::Other(word.into())),
        _ => {
            let digits = word.strip_prefix("ui").or(word.strip_prefix("si")).or(word.strip_prefix('i'))?;
            let is_integer = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            return is_integer.then(|| Element::Other(word.into()));
        }
    }))
}
