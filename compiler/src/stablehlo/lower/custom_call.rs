//! Custom calls: the ones that stand for an operation with open sizes, and those that stay calls.

use super::body::{Body, quote};
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, InstructionId, Opcode};
use crate::stablehlo::ir::{Attribute, Dictionary, Element, Elements, Operation};
use brolga_runtime::{ElementType, Layout, Shape};
use std::fmt::Write;

/// Calling conventions by their numbers.
const CONVENTIONS: [&str; 5] = [
    "API_VERSION_UNSPECIFIED",
    "API_VERSION_ORIGINAL",
    "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED",
    "API_VERSION_TYPED_FFI",
];

impl<'p> Body<'_, 'p> {
    pub fn custom_call(&mut self, op: &'p Operation) -> Result<Vec<InstructionId>> {
        let target = self.text(op, "call_target_name")?.unwrap_or_default();
        match target {
            "shape_assertion" => return self.shape_assertion(op),
            "stablehlo.dynamic_top_k" => return self.dynamic_top_k(op),
            "stablehlo.dynamic_rng_bit_generator" => return self.dynamic_random_bits(op),
            "stablehlo.dynamic_reduce_window" => return self.dynamic_reduce_window(op),
            _ => {}
        }
        let operands = self.all_operands(op)?;
        let mut shapes = Vec::new();
        for k in 0..op.results.len() {
            shapes.push(match self.declared(op, k)? {
                Some(shape) => shape,
                // Sizes of results may stand in a list of their own, as operands.
                None => self.indicated_shape(op, k, &operands)?,
            });
        }
        // Operands that only say sizes are not handed on, and their layouts are left out with them.
        let sizes = op.attribute("indices_of_shape_operands").and_then(Attribute::to_ints).unwrap_or_default();
        let given = operands.len();
        let kept: Vec<usize> = (0..given).filter(|&k| !sizes.contains(&(k as i64))).collect();
        let operands: Vec<InstructionId> = kept.iter().filter_map(|&k| operands.get(k).copied()).collect();
        let mut attrs = Attrs::new().with(AttrKey::CustomCallTarget, AttrValue::Str(target.to_owned()));
        if self.bool_or(op, "has_side_effect", false)? {
            attrs.set(AttrKey::CustomCallHasSideEffect, AttrValue::Bool(true));
        }
        let convention = match op.attribute("api_version") {
            None => 1,
            Some(Attribute::Enum { word, .. }) => {
                CONVENTIONS.iter().position(|c| **c == **word).map_or(-1, |n| n as i64)
            }
            Some(_) => self.int(op, "api_version")?,
        };
        let word = usize::try_from(convention).ok().and_then(|n| CONVENTIONS.get(n));
        let word = *word.ok_or_else(|| self.unsupported(format!("the calling convention {convention}")))?;
        if convention > 1 {
            attrs.set(AttrKey::ApiVersion, AttrValue::Word(word));
        }
        let config = match op.attribute("backend_config").or(op.attribute("mhlo.backend_config")) {
            Some(Attribute::Dictionary(d)) if convention == 4 || !d.is_empty() => Some(self.dictionary_text(d)?),
            Some(Attribute::String(bytes)) if !bytes.is_empty() => {
                let text =
                    std::str::from_utf8(bytes).map_err(|_| self.unsupported("a backend_config that is not UTF-8"))?;
                Some(quote(text))
            }
            _ => None,
        };
        if let Some(config) = config {
            attrs.set(AttrKey::BackendConfig, AttrValue::Raw(config));
        }
        let called = self.called(op)?;
        if !called.is_empty() {
            attrs.set(AttrKey::CalledComputations, AttrValue::Computations(called));
        }
        self.layouts(op, &operands, (&kept, given), &mut shapes, &mut attrs)?;
        if let Some(Attribute::Array(list)) = op.attribute("output_operand_aliases") {
            let path = |indices: &[i64]| {
                let numbers: Vec<String> = indices.iter().map(i64::to_string).collect();
                format!("{{{}}}", numbers.join(","))
            };
            let mut entries = Vec::new();
            for item in list {
                let Attribute::OutputOperandAlias(alias) = item else {
                    return Err(self.invalid("attribute.kind", "expected #stablehlo.output_operand_alias<...>"));
                };
                entries.push(format!(
                    "{}: ({}, {})",
                    path(&alias.output_tuple_indices),
                    alias.operand_index,
                    path(&alias.operand_tuple_indices)
                ));
            }
            if !entries.is_empty() {
                attrs.set(AttrKey::OutputToOperandAliasing, AttrValue::Raw(format!("{{{}}}", entries.join(", "))));
            }
        }
        let count = shapes.len();
        let declared = match (shapes.pop(), count) {
            (Some(one), 1) => one,
            (last, _) => Shape::Tuple(shapes.into_iter().chain(last).collect()),
        };
        let id = self.emit(Opcode::CustomCall, &operands, attrs, Some(declared))?;
        self.several(id, count)
    }

    /// The shape of a result that an operand says: `indices_of_shape_operands`.
    fn indicated_shape(&mut self, op: &'p Operation, k: usize, operands: &[InstructionId]) -> Result<Shape> {
        let list = self.optional_ints(op, "indices_of_shape_operands")?.unwrap_or_default();
        let operand = list.get(k).and_then(|&n| usize::try_from(n).ok()).and_then(|n| operands.get(n)).copied();
        let Some(operand) = operand else {
            return Err(self.unsupported("a custom call with a result of open size"));
        };
        let dims = self.ints_of(operand)?;
        let shape = Shape::array(self.result_element(op, k)?, dims);
        crate::shape::check_shape(&shape).map_err(|e| self.broken(e))?;
        Ok(shape)
    }

    /// Layouts of operands and results, which come together. `kept` of the `given` operands are left.
    fn layouts(
        &self,
        op: &'p Operation,
        operands: &[InstructionId],
        (kept, given): (&[usize], usize),
        shapes: &mut [Shape],
        attrs: &mut Attrs,
    ) -> Result<()> {
        let with_layout = |shape: &Shape, layout: &Attribute| -> Option<Shape> {
            let order = layout.to_ints()?;
            match shape {
                Shape::Array(a) => {
                    let mut array = a.clone();
                    let minor_to_major = order.iter().map(|&d| usize::try_from(d).ok()).collect::<Option<Vec<_>>>()?;
                    if minor_to_major.len() != array.rank() {
                        return None;
                    }
                    array.layout = Some(Layout { minor_to_major, ..Layout::row_major(array.rank()) });
                    Some(Shape::Array(array))
                }
                other => Some(other.clone()),
            }
        };
        let wrong = || self.invalid("custom-call.layouts", "expected a layout for each operand and each result");
        if let Some(Attribute::Array(list)) = op.attribute("operand_layouts").filter(|a| !is_empty(a)) {
            let list: Vec<&Attribute> = match list.len() {
                n if n == operands.len() => list.iter().collect(),
                n if n == given => kept.iter().filter_map(|&k| list.get(k)).collect(),
                _ => return Err(wrong()),
            };
            let stated = operands.iter().zip(list).map(|(&o, l)| with_layout(self.shape(o), l));
            let stated: Vec<Shape> = stated.collect::<Option<_>>().ok_or_else(wrong)?;
            attrs.set(AttrKey::OperandLayoutConstraints, AttrValue::Shapes(stated));
        }
        if let Some(Attribute::Array(list)) = op.attribute("result_layouts").filter(|a| !is_empty(a)) {
            if list.len() != shapes.len() {
                return Err(wrong());
            }
            for (shape, layout) in shapes.iter_mut().zip(list) {
                *shape = with_layout(shape, layout).ok_or_else(wrong)?;
            }
        }
        Ok(())
    }

    /// An assertion about sizes, which are known now.
    fn shape_assertion(&mut self, op: &'p Operation) -> Result<Vec<InstructionId>> {
        let operands = self.all_operands(op)?;
        let Some((&condition, sizes)) = operands.split_first() else {
            return Err(self.invalid("arity", "expected a condition as operand of @shape_assertion"));
        };
        if self.ints_of(condition)?.first() == Some(&1) {
            return Ok(Vec::new());
        }
        let mut message = self.text(op, "error_message")?.unwrap_or("the shape assertion does not hold").to_owned();
        for (k, &size) in sizes.iter().enumerate() {
            let value = self.ints_of(size)?.first().copied().unwrap_or_default();
            message = message.replace(&format!("{{{k}}}"), &value.to_string());
        }
        Err(self.invalid("shape-assertion", message))
    }

    fn dynamic_top_k(&mut self, op: &'p Operation) -> Result<Vec<InstructionId>> {
        let [operand, k] = self.operands(op)?;
        let k = self.ints_of(k)?.first().copied().unwrap_or_default();
        self.top_k(operand, k)
    }

    fn dynamic_random_bits(&mut self, op: &'p Operation) -> Result<Vec<InstructionId>> {
        let [state, sizes] = self.operands(op)?;
        let dims = self.ints_of(sizes)?;
        let output = Shape::array(self.result_element(op, 1)?, dims);
        let shape = Shape::tuple(vec![self.shape(state).clone(), output]);
        let id = self.random_bits(op, state, shape)?;
        self.parts(id)
    }

    /// A dictionary as typed custom calls read it.
    fn dictionary_text(&self, dictionary: &Dictionary) -> Result<String> {
        let mut out = String::new();
        self.write_dictionary(&mut out, dictionary)?;
        Ok(out)
    }

    fn write_dictionary(&self, out: &mut String, dictionary: &Dictionary) -> Result<()> {
        out.push('{');
        for (k, (name, value)) in dictionary.iter().enumerate() {
            out.push_str(if k > 0 { ", " } else { "" });
            out.push_str(name);
            out.push_str(" = ");
            self.write_attribute(out, value)?;
        }
        out.push('}');
        Ok(())
    }

    fn write_attribute(&self, out: &mut String, value: &Attribute) -> Result<()> {
        // Writing to a string cannot fail.
        let _ = match value {
            Attribute::Unit => write!(out, "true"),
            Attribute::Bool(b) => write!(out, "{b}"),
            Attribute::Int(n, Element::Type(ElementType::U64)) => write!(out, "{} : ui64", *n as u64),
            Attribute::Int(n, element) => write!(out, "{n} : {element}"),
            Attribute::Float(x, element) => write!(out, "{} : {element}", number(*x, element)),
            Attribute::String(bytes) => {
                out.push('"');
                for &b in bytes.iter() {
                    match b {
                        b'"' | b'\\' | ..b' ' | 0x7f.. => write!(out, "\\{b:02X}").unwrap_or_default(),
                        b => out.push(char::from(b)),
                    }
                }
                out.push('"');
                Ok(())
            }
            Attribute::Dictionary(inner) => return self.write_dictionary(out, inner),
            Attribute::Ints(list, element) => {
                let items: Vec<String> = list.iter().map(i64::to_string).collect();
                write!(out, "array<{element}{}{}>", if items.is_empty() { "" } else { ": " }, items.join(", "))
            }
            Attribute::Floats(list, element) => {
                let items: Vec<String> = list.iter().map(|&x| number(x, element)).collect();
                write!(out, "array<{element}{}{}>", if items.is_empty() { "" } else { ": " }, items.join(", "))
            }
            Attribute::Elements(elements) => {
                write_elements(out, elements);
                Ok(())
            }
            _ => return Err(self.unsupported("an attribute of this kind in the backend_config of a typed call")),
        };
        Ok(())
    }
}

fn is_empty(attribute: &Attribute) -> bool {
    matches!(attribute, Attribute::Array(list) if list.is_empty())
}

/// A number with a point, or its bits where it has none.
fn number(x: f64, element: &Element) -> String {
    if x.is_finite() {
        return format!("{x:?}");
    }
    match element {
        Element::Type(ElementType::F32) => format!("{:#010x}", (x as f32).to_bits()),
        _ => format!("{:#018x}", x.to_bits()),
    }
}

fn write_elements(out: &mut String, elements: &Elements) {
    let data = &elements.data;
    let item = |k: usize| {
        let value = data.get(k);
        if data.ty().is_float() { format!("{:?}", value.as_f64()) } else { value.as_i64().to_string() }
    };
    out.push_str("dense<");
    if elements.is_splat {
        out.push_str(&item(0));
    } else {
        let dims = elements.dims().unwrap_or_default();
        nested(out, &dims, &mut (0..data.elements()).map(item));
    }
    let _ = write!(out, "> : tensor<{}>", elements.ty);
}

/// As deep as the rank, which is limited.
fn nested(out: &mut String, dims: &[i64], items: &mut dyn Iterator<Item = String>) {
    let Some((&size, inner)) = dims.split_first() else {
        out.push_str(&items.next().unwrap_or_default());
        return;
    };
    out.push('[');
    for k in 0..size {
        out.push_str(if k > 0 { ", " } else { "" });
        nested(out, inner, items);
    }
    out.push(']');
}
