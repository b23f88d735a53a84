//! A reference evaluator of bodies.
//!
//! Problem: constants in a body should not be computed at run time, and expansions need an oracle that does not depend
//! on an emitter. Invariant: [`apply`] gives the exact bits that every emitter must give, NaN payloads aside; where an
//! operation is undefined (a zero divisor, a shift past the width) it gives nothing. Algorithm: one match, a value
//! being the bits of its scalar type in the low end of a `u64`, 0 or 1 for masks.

use super::index::NodeId;
use super::op::{FloatCond, IntCond, Node, Op, ScalarType};

/// The value of one operation on known arguments, `None` for operations that need a loop around them and for
/// arguments outside an operation's domain. `scalar` is what the node yields, `from` what its arguments are.
pub fn apply(op: &Op, scalar: ScalarType, from: &[ScalarType], args: &[u64]) -> Option<u64> {
    match (op, args) {
        (Op::Const(bits), _) => Some(*bits),
        (Op::Select, &[mask, then, other]) => Some(if mask != 0 { then } else { other }),
        (Op::Fma, &[a, b, c]) => match scalar {
            ScalarType::F32 => Some(bits32(f32_of(a).mul_add(f32_of(b), f32_of(c)))),
            ScalarType::F64 => Some(f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)).to_bits()),
            _ => None,
        },
        (_, &[a]) => match from.first()? {
            ScalarType::F32 => float_unary_32(op, f32_of(a), scalar),
            ScalarType::F64 => float_unary_64(op, f64::from_bits(a), scalar),
            ScalarType::I32 => int_unary_32(op, a as u32, scalar),
            ScalarType::I64 => int_unary_64(op, a, scalar),
            ScalarType::M32 | ScalarType::M64 => match op {
                Op::Not => Some(a ^ 1),
                Op::MaskCast | Op::MaskToInt => Some(a),
                _ => None,
            },
        },
        (_, &[a, b]) => match from.first()? {
            ScalarType::F32 => float_binary_32(op, f32_of(a), f32_of(b)),
            ScalarType::F64 => float_binary_64(op, f64::from_bits(a), f64::from_bits(b)),
            ScalarType::I32 => int_binary_32(op, a as u32, b as u32),
            ScalarType::I64 => int_binary_64(op, a, b),
            ScalarType::M32 | ScalarType::M64 => match op {
                Op::And => Some(a & b),
                Op::Or => Some(a | b),
                Op::Xor => Some(a ^ b),
                _ => None,
            },
        },
        _ => None,
    }
}

/// What a node gives of the values before it: nothing outside its operation's domain, nor of what has no value, unless it is chosen by
/// a mask that leaves that out.
pub fn operation(nodes: &[Node], node: &Node, values: &[Option<u64>]) -> Option<u64> {
    let value = |a: &NodeId| values.get(a.0 as usize).copied().flatten();
    if let (Op::Select, [mask, then, other]) = (&node.op, node.args.as_slice()) {
        return value(if value(mask)? != 0 { then } else { other });
    }
    let mut known = [0u64; 3];
    let mut scalars = [ScalarType::I32; 3];
    for (k, a) in node.args.iter().enumerate() {
        *known.get_mut(k)? = value(a)?;
        scalars[k] = nodes[a.0 as usize].scalar;
    }
    let n = node.args.len();
    apply(&node.op, node.scalar, &scalars[..n], &known[..n])
}

/// What every node gives of a body of arguments alone; nothing where it needs what is not given.
pub fn eval(nodes: &[Node], args: &[u64]) -> Vec<Option<u64>> {
    eval_with(nodes, |leaf| if let Op::Arg(n) = leaf.op { args.get(n as usize).copied() } else { None })
}

/// What every node gives, where `leaf` says what arguments, loads, rows, results and indices are.
pub fn eval_with(nodes: &[Node], leaf: impl Fn(&Node) -> Option<u64>) -> Vec<Option<u64>> {
    let mut values = Vec::with_capacity(nodes.len());
    for node in nodes {
        values.push(match node.op {
            Op::Arg(_) | Op::Load(..) | Op::Row(_) | Op::Result(_) | Op::Index(_) => leaf(node),
            _ => operation(nodes, node, &values),
        });
    }
    values
}

fn f32_of(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn bits32(v: f32) -> u64 {
    u64::from(v.to_bits())
}

macro_rules! float_ops {
    ($unary:ident, $binary:ident, $ty:ty, $bits:expr) => {
        fn $unary(op: &Op, a: $ty, scalar: ScalarType) -> Option<u64> {
            let same = |v: $ty| Some($bits(v));
            match (op, scalar) {
                (Op::FNeg, _) => same(-a),
                (Op::FAbs, _) => same(a.abs()),
                (Op::Sqrt, _) => same(a.sqrt()),
                (Op::Floor, _) => same(a.floor()),
                (Op::Ceil, _) => same(a.ceil()),
                (Op::Trunc, _) => same(a.trunc()),
                (Op::Nearest, _) => same(a.round_ties_even()),
                (Op::Bitcast, _) => same(a),
                (Op::FToS, ScalarType::I32) => Some(u64::from(a as i32 as u32)),
                (Op::FToS, ScalarType::I64) => Some(a as i64 as u64),
                (Op::FToU, ScalarType::I32) => Some(u64::from(a as u32)),
                (Op::FToU, ScalarType::I64) => Some(a as u64),
                (Op::FToSFast, ScalarType::I32) => {
                    let fits = a > -2147483904.0 && a < 2147483648.0;
                    Some(u64::from(if fits { a as i32 as u32 } else { 0x8000_0000 }))
                }
                (Op::Promote, ScalarType::F64) => Some(f64::from(a as f32).to_bits()),
                (Op::Demote, ScalarType::F32) => Some(bits32(a as f32)),
                _ => None,
            }
        }

        fn $binary(op: &Op, a: $ty, b: $ty) -> Option<u64> {
            Some(match op {
                Op::FAdd => $bits(a + b),
                Op::FSub => $bits(a - b),
                Op::FMul => $bits(a * b),
                Op::FDiv => $bits(a / b),
                Op::FMinPseudo => $bits(if a < b { a } else { b }),
                Op::FMaxPseudo => $bits(if a > b { a } else { b }),
                Op::FCmp(cond) => u64::from(match cond {
                    FloatCond::Eq => a == b,
                    FloatCond::Ne => a != b,
                    FloatCond::Lt => a < b,
                    FloatCond::Le => a <= b,
                    FloatCond::Gt => a > b,
                    FloatCond::Ge => a >= b,
                    FloatCond::Uno => a.is_nan() || b.is_nan(),
                }),
                _ => return None,
            })
        }
    };
}

float_ops!(float_unary_32, float_binary_32, f32, bits32);
float_ops!(float_unary_64, float_binary_64, f64, f64::to_bits);

macro_rules! int_ops {
    ($unary:ident, $binary:ident, $unsigned:ty, $signed:ty, $wide:ty, $signed_wide:ty, $bits:literal) => {
        fn $unary(op: &Op, a: $unsigned, scalar: ScalarType) -> Option<u64> {
            let shift = |by: u8| u32::from(by) < $bits;
            Some(match (op, scalar) {
                (Op::Not, _) => u64::from(!a),
                (Op::Clz, _) => u64::from(a.leading_zeros()),
                (Op::Popcnt, _) => u64::from(a.count_ones()),
                (Op::Bitcast | Op::UExt, _) => u64::from(a),
                (Op::ShlImm(by), _) if shift(*by) => u64::from(a << by),
                (Op::LShrImm(by), _) if shift(*by) => u64::from(a >> by),
                (Op::AShrImm(by), _) if shift(*by) => u64::from((a as $signed >> by) as $unsigned),
                (Op::SToF, ScalarType::F32) => bits32(a as $signed as f32),
                (Op::SToF, ScalarType::F64) => (a as $signed as f64).to_bits(),
                (Op::UToF, ScalarType::F32) => bits32(a as f32),
                (Op::UToF, ScalarType::F64) => (a as f64).to_bits(),
                (Op::SExt, _) => a as $signed as i64 as u64,
                (Op::Wrap, _) => u64::from(a as u32),
                _ => return None,
            })
        }

        fn $binary(op: &Op, a: $unsigned, b: $unsigned) -> Option<u64> {
            let (sa, sb) = (a as $signed, b as $signed);
            let signed = |v: $signed| u64::from(v as $unsigned);
            let shift = (b < $bits).then_some(b as u32);
            Some(match op {
                Op::IAdd => u64::from(a.wrapping_add(b)),
                Op::ISub => u64::from(a.wrapping_sub(b)),
                Op::IMul => u64::from(a.wrapping_mul(b)),
                Op::SMulHi => signed(((sa as $signed_wide * sb as $signed_wide) >> $bits) as $signed),
                Op::UMulHi => u64::from(((a as $wide * b as $wide) >> $bits) as $unsigned),
                Op::SDiv => signed(sa.checked_div(sb)?),
                Op::SRem => signed(sa.checked_rem(sb)?),
                Op::UDiv => u64::from(a.checked_div(b)?),
                Op::URem => u64::from(a.checked_rem(b)?),
                Op::SMin => signed(sa.min(sb)),
                Op::SMax => signed(sa.max(sb)),
                Op::UMin => u64::from(a.min(b)),
                Op::UMax => u64::from(a.max(b)),
                Op::And => u64::from(a & b),
                Op::Or => u64::from(a | b),
                Op::Xor => u64::from(a ^ b),
                Op::Shl => u64::from(a << shift?),
                Op::LShr => u64::from(a >> shift?),
                Op::AShr => signed(sa >> shift?),
                Op::ICmp(cond) => u64::from(match cond {
                    IntCond::Eq => a == b,
                    IntCond::Ne => a != b,
                    IntCond::SLt => sa < sb,
                    IntCond::SLe => sa <= sb,
                    IntCond::SGt => sa > sb,
                    IntCond::SGe => sa >= sb,
                    IntCond::ULt => a < b,
                    IntCond::ULe => a <= b,
                    IntCond::UGt => a > b,
                    IntCond::UGe => a >= b,
                }),
                _ => return None,
            })
        }
    };
}

int_ops!(int_unary_32, int_binary_32, u32, i32, u64, i64, 32);
int_ops!(int_unary_64, int_binary_64, u64, i64, u128, i128, 64);

#[cfg(test)]
mod tests {
    use super::super::body::Body;
    use super::*;

    #[test]
    fn values_follow_the_lanes() {
        let mut b = Body::new();
        let (x, y) = (b.arg(0, ScalarType::I32), b.arg(1, ScalarType::I32));
        let (sum, high) = (b.iadd(x, y), b.smulhi(x, y));
        let less = b.icmp(IntCond::SLt, x, y);
        let picked = b.select(less, x, y);
        let values = eval(b.nodes(), &[0xffff_fffe, 3]);
        let got = [sum, high, less, picked].map(|id| values[id.0 as usize]);
        assert_eq!(got, [1, 0xffff_ffff, 1, 0xffff_fffe].map(Some));
    }

    #[test]
    fn what_is_not_given_has_no_value() {
        let mut b = Body::new();
        let (x, y) = (b.arg(0, ScalarType::I32), b.arg(1, ScalarType::I32));
        let (quotient, less) = (b.udiv(x, y), b.icmp(IntCond::ULt, x, y));
        let follows = b.iadd(quotient, x);
        let chosen = b.select(less, quotient, x);
        let of = |args: &[u64]| [quotient, follows, chosen].map(|id| eval(b.nodes(), args)[id.0 as usize]);
        assert_eq!(of(&[7, 8]), [0, 7, 0].map(Some));
        assert_eq!(of(&[7, 0]), [None, None, Some(7)], "a zero divisor, and a choice that leaves it out");
        assert_eq!(of(&[7]), [None; 3], "a second argument is missing");
    }

    #[test]
    fn undefined_operations_stay() {
        let mut b = Body::new();
        let (x, zero, two) = (b.i32(6), b.i32(0), b.i32(2));
        let bad = b.sdiv(x, zero);
        assert_eq!(b.constant_bits(bad), None);
        let good = b.sdiv(x, two);
        assert_eq!(b.constant_bits(good), Some(3));
    }
}
