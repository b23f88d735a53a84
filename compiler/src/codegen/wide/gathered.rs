//! Elements that each have an index: indices that are no line along the row, loads and stores by them.

use super::select::{Access, Selector, Uniform, Vector};
use super::single::Places;
use super::{Anchor, Reg};
use crate::codegen::rows;
use crate::codegen::vector::{Values, operation};
use crate::kernel::body::{Op, ScalarType};
use crate::kernel::index::{Atom, Ix};
use iced_x86::Code;
use smallvec::smallvec;

/// What an index is divided by a positive number.
struct Floor {
    /// The index, made non-negative by adding a multiple of the divisor.
    index: Vector,
    /// Its quotients.
    quotients: Vector,
    /// The largest of them.
    most: i64,
    /// What the quotients of the index itself have more.
    shift: i64,
}

/// A term of an index as an index.
fn term((atom, c): &(Atom, i64)) -> Ix {
    Ix { constant: 0, terms: vec![(atom.clone(), *c)] }
}

impl Selector<'_> {
    /// An index in 64-bit lanes, which may hang on what differs along the row in any way.
    pub(super) fn indices(&mut self, ix: &Ix, values: &Values<Vector>) -> Option<Vector> {
        let axis = self.row.stage.vector.axis;
        if let Some(stride) = self.row.stride(ix, axis) {
            return if stride == 0 {
                Some(self.same(ScalarType::I64, Uniform::Index(self.row.start(ix), ScalarType::I64)))
            } else {
                self.linear(ix, ScalarType::I64, stride)
            };
        }
        // What is linear goes by together, each other term by itself.
        let (linear, other): (Vec<_>, Vec<_>) =
            ix.terms.iter().partition(|t| self.row.stride(&term(t), axis).is_some());
        let linear = Ix { constant: ix.constant, terms: linear.into_iter().cloned().collect() };
        let mut sum = match linear.as_constant() {
            Some(0) => None,
            _ => Some(self.indices(&linear, values)?),
        };
        for (atom, c) in other {
            let (v, range) = match atom {
                Atom::Axis(..) => return None,
                Atom::Value(node, low, high) => (values.get(*node)?.clone(), (*low, *high)),
                Atom::Div(x, n) => {
                    let Floor { quotients, shift, most, .. } = self.floor(x, *n, values)?;
                    let shifted = match shift {
                        0 => quotients,
                        _ => {
                            let by = self.constant(ScalarType::I64, shift as u64);
                            self.pairwise(&Op::IAdd, &quotients, &[by; 2])?
                        }
                    };
                    (shifted, (shift, shift.checked_add(most)?))
                }
                Atom::Mod(x, n) => {
                    let Floor { index, quotients, most, .. } = self.floor(x, *n, values)?;
                    let whole = self.times(quotients, (0, most), *n)?;
                    (self.pairwise(&Op::ISub, &index, &whole)?, (0, n - 1))
                }
            };
            let v = self.times(v, range, *c)?;
            sum = Some(match sum {
                Some(sum) => self.pairwise(&Op::IAdd, &sum, &v)?,
                None => v,
            });
        }
        sum
    }

    fn pairwise(&mut self, op: &Op, a: &[Reg], b: &[Reg]) -> Option<Vector> {
        a.iter().zip(b).map(|(&a, &b)| self.each(op, true, a, b)).collect()
    }

    /// A vector of 64-bit lanes in a range, times a constant.
    fn times(&mut self, v: Vector, (low, high): (i64, i64), by: i64) -> Option<Vector> {
        if by == 1 {
            return Some(v);
        }
        let words = 0..=i64::from(u32::MAX);
        let factor = self.constant(ScalarType::I64, by as u64);
        if words.contains(&low) && words.contains(&high) && words.contains(&by) {
            return Some(v.iter().map(|&v| self.plain(Code::VEX_Vpmuludq_ymm_ymm_ymmm256, &[v, factor])).collect());
        }
        operation(self, &Op::IMul, &[v, smallvec![factor; 2]], &[ScalarType::I64; 2], ScalarType::I64)
    }

    /// An index divided by a positive number, toward minus infinity.
    fn floor(&mut self, x: &Ix, n: i64, values: &Values<Vector>) -> Option<Floor> {
        let (low, high) = x.range();
        let shift = if low < 0 { low.div_euclid(n) } else { 0 };
        let added = shift.checked_mul(n)?.checked_neg()?;
        let index = self.indices(&x.offset(added), values)?;
        let largest = high.checked_add(added)?;
        let bits = 64 - (n - 1).leading_zeros();
        let quotients = if n & (n - 1) == 0 {
            index.iter().map(|&v| self.with_imm(Code::VEX_Vpsrlq_ymm_ymm_imm8, &[v], bits as u8)).collect()
        } else if largest < 1 << 31 && n < 1 << 31 {
            // x * m >> (31 + bits) is the quotient of every x below 2^31 where m = ceil(2^(31 + bits) / n), which is below 2^32.
            let m = self.constant(ScalarType::I64, (1u64 << (31 + bits)) / n as u64 + 1);
            index
                .iter()
                .map(|&v| {
                    let product = self.plain(Code::VEX_Vpmuludq_ymm_ymm_ymmm256, &[v, m]);
                    self.with_imm(Code::VEX_Vpsrlq_ymm_ymm_imm8, &[product], 31 + bits as u8)
                })
                .collect()
        } else {
            let n = self.constant(ScalarType::I64, n as u64);
            operation(self, &Op::UDiv, &[index.clone(), smallvec![n; 2]], &[ScalarType::I64; 2], ScalarType::I64)?
        };
        Some(Floor { index, quotients, most: largest / n, shift })
    }

    /// Where the elements of an access lie: what is the same along the row goes into a pointer, the rest into lanes of 32 bits; `None`
    /// where it does not fit.
    fn places(&mut self, access: &rows::Access, ix: &Ix, values: &Values<Vector>) -> Option<Places> {
        let axis = self.row.stage.vector.axis;
        let same = |t: &&(Atom, i64)| self.row.stride(&term(t), axis) == Some(0);
        let (fixed, varying): (Vec<_>, Vec<_>) = ix.terms.iter().partition(same);
        let index = Ix { constant: ix.constant, terms: fixed.into_iter().cloned().collect() };
        let varying = Ix { constant: 0, terms: varying.into_iter().cloned().collect() };
        let (low, high) = varying.range();
        if i32::try_from(low).is_err() || i32::try_from(high).is_err() {
            return None;
        }
        let indices = self.indices(&varying, values)?;
        let indices = self.narrow(&indices);
        let bytes = access.mem.bytes();
        let pointer = self.anchor(Anchor { buffer: access.buffer, bytes, index });
        let base = Access { pointer, scale: bytes as u32, displacement: 0 };
        Some(Places::Found { base, indices })
    }

    /// A vector of elements, each at an index of its own.
    pub(super) fn gather(&mut self, access: &rows::Access, ix: &Ix, values: &Values<Vector>) -> Option<Vector> {
        let places = self.places(access, ix, values)?;
        self.load_single(access.mem, &places)
    }

    /// Stores a vector, each element at an index of its own.
    pub(super) fn scatter(&mut self, access: &rows::Access, v: &Vector, values: &Values<Vector>) -> Option<()> {
        let places = self.places(access, &access.start, values)?;
        self.store_single(access.mem, &places, v)
    }
}
