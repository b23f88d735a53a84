//! Custom calls.

use super::body::{Body, Frame, Repr, dictionary};
use super::{attributes, unsupported};
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Instruction};
use crate::proto::kept;
use crate::stablehlo::ir::{Attribute, Dictionary, OutputOperandAlias};
use brolga_runtime::Shape;

/// Targets that StableHLO programs, and their readers, take for operations.
const RESERVED: [&str; 4] = [
    "shape_assertion",
    "stablehlo.dynamic_top_k",
    "stablehlo.dynamic_rng_bit_generator",
    "stablehlo.dynamic_reduce_window",
];

impl Body<'_, '_> {
    pub fn custom_call(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let target = i.attrs.str(AttrKey::CustomCallTarget).unwrap_or_default();
        if RESERVED.contains(&target) {
            return Err(unsupported(i, format!("the target {target}, which means something else there,")));
        }
        let mut operands = Vec::new();
        for k in 0..i.operands.len() {
            let operand = self.operand(frame, i, k)?.clone();
            operands.push(self.packed(&operand)?);
        }
        let convention = match i.attrs.word(AttrKey::ApiVersion) {
            Some("API_VERSION_UNSPECIFIED") => 0,
            None | Some("API_VERSION_ORIGINAL") => 1,
            Some("API_VERSION_STATUS_RETURNING") => 2,
            Some("API_VERSION_STATUS_RETURNING_UNIFIED") => 3,
            Some("API_VERSION_TYPED_FFI") => 4,
            Some(other) => return Err(unsupported(i, other)),
        };
        let mut attributes = dictionary([
            ("call_target_name", Attribute::string(target)),
            ("api_version", attributes::int32(convention)),
        ]);
        if i.attrs.bool(AttrKey::CustomCallHasSideEffect) == Some(true) {
            attributes.set("has_side_effect", Attribute::Bool(true));
        }
        if let Some(config) = self.backend_config(i, convention)? {
            attributes.set("backend_config", config);
        }
        let called = i.attrs.computations(AttrKey::CalledComputations).unwrap_or_default().to_vec();
        if !called.is_empty() {
            let mut names = Vec::new();
            for id in called {
                let computation = &self.emitter.module.computations[id];
                let tuple = |s: &Shape| s.as_tuple().is_some();
                let parameters = computation.parameters();
                if parameters.iter().any(|&p| tuple(&computation.instructions[p].shape)) {
                    return Err(unsupported(i, "a called computation that takes a tuple"));
                }
                names.push(Attribute::Symbol(vec![self.emitter.function_of(id).into()]));
            }
            attributes.set("called_computations", Attribute::Array(names));
        }
        self.layouts(frame, i, &mut attributes)?;
        if let Some(text) = i.attrs.raw(AttrKey::OutputToOperandAliasing) {
            let pairs = kept::operand_alias_messages(text).map_err(|_| unsupported(i, "output_to_operand_aliasing"))?;
            let alias = |output_tuple_indices, operand_index, operand_tuple_indices| {
                let alias = OutputOperandAlias { output_tuple_indices, operand_index, operand_tuple_indices };
                Attribute::OutputOperandAlias(alias)
            };
            let each = pairs.into_iter().map(|p| alias(p.output_index, p.operand, p.operand_index));
            attributes.set("output_operand_aliases", Attribute::Array(each.collect()));
        }
        match &i.shape {
            // The parts of a tuple of one would be taken for a result alone.
            Shape::Tuple(parts) if parts.len() == 1 => self.one(i, "stablehlo.custom_call", operands, attributes),
            _ => self.parts(i, "stablehlo.custom_call", operands, attributes, Vec::new()),
        }
    }

    /// A dictionary for typed calls, a string for the others.
    fn backend_config(&self, i: &Instruction, convention: i64) -> Result<Option<Attribute>> {
        let text = match i.attrs.raw(AttrKey::BackendConfig) {
            Some(text) => kept::backend_config_bytes(text).map_err(|_| unsupported(i, "backend_config"))?,
            None => Vec::new(),
        };
        let text = String::from_utf8(text).map_err(|_| unsupported(i, "backend_config"))?;
        if convention != 4 {
            return Ok((!text.is_empty()).then(|| Attribute::string(&text)));
        }
        let text = if text.trim().is_empty() { "{}" } else { &text };
        let wrong = |_| unsupported(i, "a backend_config that is no dictionary of typed attributes");
        crate::stablehlo::text::dictionary(text).map(|d| Some(Attribute::Dictionary(d))).map_err(wrong)
    }

    /// Layouts of operands and results, which stand together or not at all.
    fn layouts(&self, frame: &Frame<'_>, i: &Instruction, into: &mut Dictionary) -> Result<()> {
        let results = match &i.shape {
            Shape::Tuple(parts) if parts.len() != 1 => &parts[..],
            one => std::slice::from_ref(one),
        };
        let operands: Vec<Shape> = match i.attrs.get(AttrKey::OperandLayoutConstraints) {
            Some(AttrValue::Shapes(shapes)) => shapes.clone(),
            _ if i.shape.leaves().into_iter().all(attributes::is_row_major) => return Ok(()),
            _ => (0..i.operands.len()).map(|k| self.shape(frame, i, k).cloned()).collect::<Result<_>>()?,
        };
        let list = |shapes: &[Shape]| {
            let each = shapes.iter().map(|s| match s {
                Shape::Tuple(_) => Err("of a tuple".to_owned()),
                leaf => attributes::layout(leaf),
            });
            let each: std::result::Result<Vec<_>, String> = each.collect();
            each.map(Attribute::Array).map_err(|layout| unsupported(i, format!("the layout {layout}")))
        };
        into.set("operand_layouts", list(&operands)?);
        into.set("result_layouts", list(results)?);
        Ok(())
    }
}
