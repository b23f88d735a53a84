//! Bits under another type.
//!
//! Where widths differ, several elements of the narrower type, the least significant first, make one of the wider; they
//! are the last dimension of the narrower array. A part of a complex number counts as an element of its own.

use super::{Known, Lowerer, Stage, internal};
use crate::error::Result;
use crate::hlo::{Instruction, Leaf, resolve};
use crate::kernel::body::{IntCond, NodeId, Op, ScalarType};
use crate::kernel::index::Ix;
use crate::kernel::storage;
use brolga_runtime::ElementType;

impl Lowerer<'_> {
    /// A part of the result, of type `ty`, of a bitcast-convert.
    pub(super) fn bitcast(
        &mut self,
        stage: &mut Stage,
        known: &Known,
        inst: &Instruction,
        (ty, part): (ElementType, u32),
        index: &[Ix],
    ) -> Result<NodeId> {
        let operand = *inst.operands.first().ok_or_else(|| internal(inst, "an operand is missing"))?;
        let operand = resolve(self.c, (operand, 0));
        let from = self.leaf_shape(operand)?.ty;
        let (have, want) = (from.real_part(), ty.real_part());
        if from.bits() > ty.bits() || have.bits() > want.bits() {
            // Which of the pieces of the operand's element this is.
            let mut place = index.to_vec();
            let last = match from.bits() > ty.bits() {
                true => place.pop().ok_or_else(|| internal(inst, "no dimension for the pieces of an element"))?,
                false => Ix::default(),
            };
            let piece = last.scale(i64::from(storage::parts(ty))).offset(i64::from(part));
            let bits = self.piece(stage, known, operand, (have, want), &place, &piece)?;
            return Ok(storage::from_bits(&mut stage.body, want, bits));
        }
        let parts = storage::parts(from);
        let pieces = want.bits() / have.bits();
        let scalar = storage::compute_type(want).integer();
        let mut bits: Option<NodeId> = None;
        for k in 0..pieces {
            let unit = part * pieces + k;
            let mut place = index.to_vec();
            if ty.bits() > from.bits() {
                place.push(Ix::constant(i64::from(unit / parts)));
            }
            let x = self.part(stage, known, (operand, unit % parts), &place)?;
            let b = &mut stage.body;
            let mut x = storage::to_bits(b, have, x);
            if b.scalar(x) != scalar {
                x = b.convert(Op::UExt, x, scalar);
            }
            if k > 0 {
                x = b.shl_imm(x, (k * have.bits()) as u8);
            }
            bits = Some(match bits {
                Some(low) => b.or(low, x),
                None => x,
            });
        }
        let bits = bits.ok_or_else(|| internal(inst, "an element without bits"))?;
        Ok(storage::from_bits(&mut stage.body, want, bits))
    }

    /// Piece number `piece`, as wide as `want`, of an element of `operand`, whose parts are of type `have`.
    fn piece(
        &mut self,
        stage: &mut Stage,
        known: &Known,
        operand: Leaf,
        (have, want): (ElementType, ElementType),
        place: &[Ix],
        piece: &Ix,
    ) -> Result<NodeId> {
        let in_part = i64::from(have.bits() / want.bits());
        let which = piece.div(in_part);
        let mut x = match which.as_constant() {
            Some(part) => self.part(stage, known, (operand, part as u32), place)?,
            None => {
                let re = self.part(stage, known, (operand, 0), place)?;
                let im = self.part(stage, known, (operand, 1), place)?;
                let which = stage.body.push(Op::Index(which), &[], ScalarType::I32);
                let zero = stage.body.i32(0);
                let first = stage.body.icmp(IntCond::Eq, which, zero);
                stage.body.select(first, re, im)
            }
        };
        let b = &mut stage.body;
        x = storage::to_bits(b, have, x);
        let scalar = b.scalar(x);
        let shift = piece.rem(in_part).scale(i64::from(want.bits()));
        x = match shift.as_constant() {
            Some(0) => x,
            Some(by) => b.lshr_imm(x, by as u8),
            None => {
                let by = b.push(Op::Index(shift), &[], scalar);
                b.lshr(x, by)
            }
        };
        Ok(if scalar == ScalarType::I64 && want.bits() <= 32 { b.convert(Op::Wrap, x, ScalarType::I32) } else { x })
    }
}
