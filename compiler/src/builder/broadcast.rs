//! Implicit broadcasting: what the specification does for the binary operations before they meet.
//!
//! The operand of lower rank is laid along `broadcast_dimensions` of the other (a scalar along none); then dimensions of
//! size one stretch to those of the other side. Both steps become explicit `reshape` and `broadcast` instructions.

use super::{At, Builder, Op, Step};
use crate::hlo::{AttrKey, AttrValue, Attrs, Opcode};
use crate::shape::RuleError;
use brolga_runtime::{ArrayShape, Shape};

impl Builder {
    /// Both operands with equal dimensions.
    pub(super) fn broadcast_pair(
        &self,
        at: At,
        opcode: Opcode,
        lhs: Op,
        rhs: Op,
        dimensions: &[i64],
    ) -> Step<(Op, Op)> {
        let (a, b) = (self.array_at(at, opcode, lhs)?, self.array_at(at, opcode, rhs)?);
        let rank = a.rank().max(b.rank());
        let (maps, small) = match (a.rank() < rank, b.rank() < rank) {
            (false, false) => {
                let identity: Vec<usize> = (0..rank).collect();
                let given_fits = dimensions.is_empty() || dimensions.iter().copied().eq(0..rank as i64);
                if !given_fits {
                    return Err(self.reject_dimensions(at, opcode, &a, &b, dimensions));
                }
                ((identity.clone(), identity), None)
            }
            (lhs_is_small, _) => {
                let small = if lhs_is_small { &a } else { &b };
                let map: Option<Vec<usize>> =
                    dimensions.iter().map(|&d| usize::try_from(d).ok().filter(|&d| d < rank)).collect();
                let Some(map) = map.filter(|m| m.len() == small.rank() && m.is_sorted_by(|x, y| x < y)) else {
                    return Err(self.reject_dimensions(at, opcode, &a, &b, dimensions));
                };
                let identity: Vec<usize> = (0..rank).collect();
                (if lhs_is_small { (map, identity) } else { (identity, map) }, Some(()))
            }
        };
        if small.is_none() && a.dims == b.dims {
            return Ok((lhs, rhs));
        }
        let broadcast = |s: &ArrayShape, map: &[usize]| {
            let mut out = vec![(1, false); rank];
            map.iter().enumerate().for_each(|(i, &d)| out[d] = (s.dims[i], s.dynamic[i]));
            out
        };
        let mut target = Vec::with_capacity(rank);
        for (x, y) in broadcast(&a, &maps.0).into_iter().zip(broadcast(&b, &maps.1)) {
            match (x, y) {
                (x, y) if x.0 == y.0 => target.push((x.0, x.1 || y.1)),
                ((1, _), y) => target.push(y),
                (x, (1, _)) => target.push(x),
                _ => return Err(self.reject_dimensions(at, opcode, &a, &b, dimensions)),
            }
        }
        Ok((self.stretch(at, lhs, &a, &maps.0, &target)?, self.stretch(at, rhs, &b, &maps.1, &target)?))
    }

    fn reject_dimensions(
        &self,
        at: At,
        opcode: Opcode,
        a: &ArrayShape,
        b: &ArrayShape,
        dimensions: &[i64],
    ) -> super::Failed {
        let along = match dimensions {
            [] => String::new(),
            some => format!(" along dimensions {some:?}"),
        };
        let message =
            format!("expected operands of {opcode} that broadcast to each other{along}, found {a:#} and {b:#}");
        self.reject_plain(at, RuleError::new("builder.broadcast", message))
    }

    /// Lays `op` along the dimensions `map` of `target`; sizes of one stretch.
    fn stretch(&self, at: At, op: Op, shape: &ArrayShape, map: &[usize], target: &[(i64, bool)]) -> Step {
        let dims: Vec<i64> = target.iter().map(|t| t.0).collect();
        if shape.dims == dims {
            return Ok(op);
        }
        let kept: Vec<usize> = (0..shape.rank()).filter(|&i| shape.dims[i] == dims[map[i]]).collect();
        let mut op = op;
        if kept.len() < shape.rank() {
            let squeezed = ArrayShape {
                ty: shape.ty,
                dims: kept.iter().map(|&i| shape.dims[i]).collect(),
                dynamic: kept.iter().map(|&i| shape.dynamic[i]).collect(),
                layout: None,
            };
            op = self.add_at(at, Opcode::Reshape, &[op], Attrs::new(), Some(squeezed.into()))?;
        }
        let dynamic = target.iter().map(|t| t.1).collect();
        let result = Shape::Array(ArrayShape { ty: shape.ty, dims, dynamic, layout: None });
        let numbers = kept.iter().map(|&i| map[i] as i64).collect();
        let attrs = Attrs::new().with(AttrKey::Dimensions, AttrValue::Ints(numbers));
        self.add_at(at, Opcode::Broadcast, &[op], attrs, Some(result))
    }
}
