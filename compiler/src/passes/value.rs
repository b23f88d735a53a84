//! What is known of a value while compiling: constants and arrays with all elements equal.
//!
//! Invariant: the passes keep an array of equal elements as the broadcast of a scalar constant, so that two steps of
//! looking suffice and no rule scans large literals.

use crate::hlo::{Computation, ComputationId, Instruction, InstructionId, Module, Opcode, is_frozen};
use brolga_runtime::half::{bf16, f16};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType};

/// One element of a known value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    ty: ElementType,
    bytes: [u8; 16],
}

impl Element {
    /// Element `index` of an array.
    pub fn at(literal: &ArrayLiteral, index: usize) -> Option<Element> {
        let size = literal.ty().byte_size();
        let start = index.checked_mul(size)?;
        let source = literal.bytes().get(start..start.checked_add(size)?)?;
        let mut bytes = [0; 16];
        bytes.get_mut(..size)?.copy_from_slice(source);
        Some(Element { ty: literal.ty(), bytes })
    }

    /// An integer or truth value, wrapped to the type.
    pub fn from_int(ty: ElementType, value: i128) -> Option<Element> {
        let bits = ty.bits();
        let wrapped = match ty.kind() {
            brolga_runtime::Kind::Pred => i128::from(value != 0),
            brolga_runtime::Kind::Signed => (value << (128 - bits)) >> (128 - bits),
            brolga_runtime::Kind::Unsigned => value & ((1i128 << bits) - 1),
            _ => return None,
        };
        let mut bytes = wrapped.to_le_bytes();
        bytes[ty.byte_size()..].fill(0);
        Some(Element { ty, bytes })
    }

    /// A number of one of the wide float types; `None` where the type cannot hold it exactly.
    pub fn from_float(ty: ElementType, value: f64) -> Option<Element> {
        let mut bytes = [0; 16];
        match ty {
            ElementType::F16 => bytes[..2].copy_from_slice(&f16::from_f64(value).to_bits().to_le_bytes()),
            ElementType::BF16 => bytes[..2].copy_from_slice(&bf16::from_f64(value).to_bits().to_le_bytes()),
            ElementType::F32 => bytes[..4].copy_from_slice(&(value as f32).to_bits().to_le_bytes()),
            ElementType::F64 => bytes[..8].copy_from_slice(&value.to_bits().to_le_bytes()),
            _ => return None,
        }
        let out = Element { ty, bytes };
        (out.float()?.to_bits() == value.to_bits()).then_some(out)
    }

    /// The one of any real type.
    pub fn one(ty: ElementType) -> Option<Element> {
        Element::from_int(ty, 1).or_else(|| Element::from_float(ty, 1.0))
    }

    /// Its type.
    pub fn ty(&self) -> ElementType {
        self.ty
    }

    /// The value of an integer or truth value.
    pub fn int(&self) -> Option<i128> {
        let raw = u128::from_le_bytes(self.bytes);
        match self.ty.kind() {
            brolga_runtime::Kind::Signed => {
                let shift = 128 - 8 * self.ty.byte_size() as u32;
                Some(((raw << shift) as i128) >> shift)
            }
            brolga_runtime::Kind::Unsigned | brolga_runtime::Kind::Pred => i128::try_from(raw).ok(),
            _ => None,
        }
    }

    /// The value of a wide float: `f16`, `bf16`, `f32` or `f64`.
    pub fn float(&self) -> Option<f64> {
        let b = &self.bytes;
        Some(match self.ty {
            ElementType::F16 => f16::from_le_bytes([b[0], b[1]]).to_f64(),
            ElementType::BF16 => bf16::from_le_bytes([b[0], b[1]]).to_f64(),
            ElementType::F32 => f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            ElementType::F64 => f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
            _ => return None,
        })
    }

    /// Whether this is the integer `value`.
    pub fn is_int(&self, value: i128) -> bool {
        self.int() == Some(value)
    }

    /// Whether this is the float `value`, the sign of zero included.
    pub fn is_float(&self, value: f64) -> bool {
        self.float().is_some_and(|f| f.to_bits() == value.to_bits())
    }

    /// Whether this is one, of an integer or a wide float type.
    pub fn is_one(&self) -> bool {
        self.is_int(1) && self.ty.is_integer() || self.is_float(1.0)
    }

    /// The rank-0 array.
    pub fn literal(&self) -> Option<ArrayLiteral> {
        ArrayLiteral::from_bytes(&ArrayShape::new(self.ty, []), &self.bytes[..self.ty.byte_size()])
    }
}

/// Least and greatest value of an integer type.
pub fn int_range(ty: ElementType) -> Option<(i128, i128)> {
    match ty.kind() {
        brolga_runtime::Kind::Signed => Some((-(1i128 << (ty.bits() - 1)), (1i128 << (ty.bits() - 1)) - 1)),
        brolga_runtime::Kind::Unsigned => Some((0, (1i128 << ty.bits()) - 1)),
        _ => None,
    }
}

/// The array that a `constant` instruction holds.
pub fn constant(computation: &Computation, id: InstructionId) -> Option<&ArrayLiteral> {
    let instruction = &computation.instructions[id];
    match instruction.opcode {
        Opcode::Constant => instruction.literal()?.as_array(),
        _ => None,
    }
}

/// What a value is a constant of, seen through broadcasts, reshapes, transposes, copies.
fn source(computation: &Computation, id: InstructionId) -> Option<&Instruction> {
    let mut id = id;
    // Chains of movement collapse in simplification; the bound only keeps a single question cheap.
    for _ in 0..8 {
        let instruction = &computation.instructions[id];
        match instruction.opcode {
            Opcode::Constant => return Some(instruction),
            Opcode::Broadcast | Opcode::Reshape | Opcode::Transpose | Opcode::Copy => {
                id = instruction.operands.first().copied()?;
            }
            _ => return None,
        }
    }
    None
}

/// The element that a value repeats: that of a constant of one element.
pub fn splat(computation: &Computation, id: InstructionId) -> Option<Element> {
    let literal = source(computation, id)?.literal()?.as_array()?;
    if literal.elements() == 1 { Element::at(literal, 0) } else { None }
}

/// Whether a value is a constant that comes from a frozen parameter.
pub fn frozen(computation: &Computation, id: InstructionId) -> bool {
    source(computation, id).is_some_and(is_frozen)
}

/// Whether an instruction is such a constant, or reads one.
pub fn reads_frozen(computation: &Computation, id: InstructionId) -> bool {
    let instruction = &computation.instructions[id];
    is_frozen(instruction) || instruction.operands.iter().any(|&operand| frozen(computation, operand))
}

/// The elements of a constant of integers, in row-major order.
pub fn ints(literal: &ArrayLiteral) -> Option<Vec<i128>> {
    (0..literal.elements()).map(|i| Element::at(literal, i)?.int()).collect()
}

/// The operation of a computation that merely applies one commutative operation to its two parameters.
pub fn binary_reducer(module: &Module, id: ComputationId) -> Option<Opcode> {
    let computation = &module.computations[id];
    let root = &computation.instructions[computation.root];
    let parameters = computation.parameters();
    let [a, b] = parameters[..] else { return None };
    let both = root.operands == [a, b] || root.operands == [b, a];
    (both && root.opcode.is_commutative() && root.opcode.is_elementwise()).then_some(root.opcode)
}

/// Whether folding `scalar` into anything with `opcode` changes nothing, bit for bit.
pub fn is_identity(opcode: Opcode, scalar: &Element) -> bool {
    let range = int_range(scalar.ty());
    match opcode {
        // 0.0 + -0.0 is 0.0: only the negative zero leaves every float alone.
        Opcode::Add => range.is_some() && scalar.is_int(0) || scalar.is_float(-0.0),
        Opcode::Multiply => scalar.is_one(),
        Opcode::Maximum => range.is_some_and(|(low, _)| scalar.is_int(low)) || scalar.is_float(f64::NEG_INFINITY),
        Opcode::Minimum => range.is_some_and(|(_, high)| scalar.is_int(high)) || scalar.is_float(f64::INFINITY),
        Opcode::Or | Opcode::Xor => scalar.is_int(0),
        Opcode::And => is_all_ones(scalar),
        _ => false,
    }
}

/// Whether every bit of an integer or truth value is set.
pub fn is_all_ones(scalar: &Element) -> bool {
    match int_range(scalar.ty()) {
        Some((0, high)) => scalar.is_int(high),
        Some(_) => scalar.is_int(-1),
        None => scalar.ty() == ElementType::Pred && scalar.is_int(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_to_their_type() {
        let minus_one = Element::from_int(ElementType::S4, 15).expect("s4");
        assert_eq!(minus_one.int(), Some(-1));
        assert!(is_all_ones(&minus_one));
        assert_eq!(Element::from_int(ElementType::U4, -1).and_then(|s| s.int()), Some(15));
        assert_eq!(Element::from_int(ElementType::U64, -1).and_then(|s| s.int()), Some(u64::MAX.into()));
        assert_eq!(int_range(ElementType::S1), Some((-1, 0)));
    }

    #[test]
    fn floats_must_be_exact() {
        assert!(Element::from_float(ElementType::BF16, 0.1).is_none());
        assert!(Element::from_float(ElementType::F16, 0.5).is_some_and(|s| s.is_float(0.5)));
        assert!(!Element::from_float(ElementType::F32, 0.0).is_some_and(|s| s.is_float(-0.0)));
    }
}
