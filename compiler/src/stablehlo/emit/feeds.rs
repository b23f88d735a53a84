//! Feeds and transfers.

use super::body::{Body, Frame, Repr, dictionary};
use super::unsupported;
use crate::error::Result;
use crate::hlo::{AttrKey, Instruction, Opcode};
use crate::stablehlo::ir::{Attribute, Dictionary, Type, Value};
use brolga_runtime::Shape;
use std::rc::Rc;

/// Kinds of channels.
const DEVICE_TO_DEVICE: i64 = 1;
const DEVICE_TO_HOST: i64 = 2;
const HOST_TO_DEVICE: i64 = 3;

impl Body<'_, '_> {
    /// The token operand, or one that waits for nothing.
    fn token(&mut self, frame: &Frame<'_>, i: &Instruction, k: usize) -> Result<Value> {
        if k < i.operands.len() { self.leaf(frame, i, k) } else { self.no_token() }
    }

    pub fn infeed(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let token = self.token(frame, i, 0)?;
        let Some([data, Shape::Token]) = i.shape.as_tuple() else {
            return Err(unsupported(i, "a result without a token"));
        };
        let parts = fed(i, data)?;
        let mut attributes = Dictionary::new();
        if let Some(config) = i.attrs.str(AttrKey::InfeedConfig) {
            attributes.set("infeed_config", Attribute::string(config));
        }
        self.received(i, "stablehlo.infeed", token, attributes, parts, data)
    }

    /// An operation that yields the leaves of a value and a token.
    fn received(
        &mut self,
        i: &Instruction,
        name: &str,
        token: Value,
        attributes: Dictionary,
        parts: &[Shape],
        data: &Shape,
    ) -> Result<Repr> {
        let mut types = parts.iter().map(|p| self.type_of(i, p)).collect::<Result<Vec<_>>>()?;
        types.push(Type::Token);
        let results = self.add(name, vec![token], attributes, Vec::new(), types);
        let mut results = results.into_iter();
        let data = self.unflattened(data, &mut results)?;
        let token = self.unflattened(&Shape::Token, &mut results)?;
        Ok(Repr::Tuple(Rc::from([data, token])))
    }

    pub fn outfeed(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let data = self.shape(frame, i, 0)?;
        fed(i, data)?;
        let value = self.operand(frame, i, 0)?.clone();
        let mut operands = Vec::new();
        self.leaves(&value, &mut operands)?;
        operands.push(self.token(frame, i, 1)?);
        let mut attributes = Dictionary::new();
        if let Some(config) = i.attrs.str(AttrKey::OutfeedConfig) {
            attributes.set("outfeed_config", Attribute::string(config));
        }
        self.one(i, "stablehlo.outfeed", operands, attributes)
    }

    fn transfer(&self, i: &Instruction, to_host: i64) -> Result<Dictionary> {
        let host = i.attrs.bool(AttrKey::IsHostTransfer) == Some(true);
        let handle = i.attrs.int(AttrKey::ChannelId).unwrap_or_default();
        let kind = if host { to_host } else { DEVICE_TO_DEVICE };
        let mut out = dictionary([
            ("channel_handle", Attribute::Channel { handle, kind }),
            ("is_host_transfer", Attribute::Bool(host)),
        ]);
        if i.attrs.get(AttrKey::SourceTargetPairs).is_some() {
            out.set("source_target_pairs", self.pairs(i)?);
        }
        Ok(out)
    }

    /// The state of a send is its token: nobody but its `send-done` looks at it.
    pub fn send(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let value = self.operand(frame, i, 0)?.clone();
        let mut operands = Vec::new();
        self.leaves(&value, &mut operands)?;
        operands.push(self.leaf(frame, i, 1)?);
        let attributes = self.transfer(i, DEVICE_TO_HOST)?;
        let results = self.add("stablehlo.send", operands, attributes, Vec::new(), vec![Type::Token]);
        Ok(Repr::Tuple(results.into_iter().map(Repr::Value).collect()))
    }

    pub fn send_done(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        begun(frame, i, Opcode::Send)?;
        let state = self.operand(frame, i, 0)?.clone();
        self.element(&state, 0)
    }

    pub fn receive(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let start = begun(frame, i, Opcode::Recv)?;
        let token = self.leaf(frame, start, 0)?;
        let Some([data, Shape::Token]) = i.shape.as_tuple() else {
            return Err(unsupported(i, "a result without a token"));
        };
        let attributes = self.transfer(start, HOST_TO_DEVICE)?;
        let parts = match data {
            Shape::Tuple(parts) if parts.len() != 1 => &parts[..],
            Shape::Tuple(_) => return Err(unsupported(i, "a tuple of one")),
            one => std::slice::from_ref(one),
        };
        self.received(i, "stablehlo.recv", token, attributes, parts, data)
    }
}

/// The instruction that begins what `i` ends.
fn begun<'f>(frame: &'f Frame<'_>, i: &Instruction, opcode: Opcode) -> Result<&'f Instruction> {
    let start = i.operands.first().map(|&id| &frame.computation.instructions[id]);
    start.filter(|s| s.opcode == opcode).ok_or_else(|| unsupported(i, format!("an operand other than a {opcode}")))
}

/// The arrays of a value that a queue carries. StableHLO's feeds carry tuples.
fn fed<'s>(i: &Instruction, data: &'s Shape) -> Result<&'s [Shape]> {
    match data {
        Shape::Tuple(parts) => Ok(parts),
        _ => Err(unsupported(i, "a value that is no tuple")),
    }
}
