//! Lowered operations against direct computation on the types.

use super::super::body::Body;
use super::super::eval::eval;
use super::*;
use crate::hlo::AttrValue;

fn run(opcode: Opcode, attrs: &Attrs, types: &[ElementType], result: ElementType, args: &[u64]) -> u64 {
    let mut b = Body::new();
    let operands: Vec<NodeId> =
        types.iter().enumerate().map(|(i, &ty)| b.arg(i as u32, storage::compute_type(ty))).collect();
    let cx = ElementwiseContext { variant: Variant::Fma, strict_rounding: true };
    let value = lower(&mut b, &cx, opcode, attrs, types, result, &operands).expect("a lowering");
    assert_eq!(b.scalar(value), storage::compute_type(result), "{opcode} {types:?}");
    eval(b.nodes(), args)[value.0 as usize].expect("a value")
}

fn int(opcode: Opcode, ty: ElementType, args: &[i64]) -> i64 {
    let types = vec![ty; args.len()];
    let mask = if ty.bits() == 64 { u64::MAX } else { 0xffff_ffff };
    let bits: Vec<u64> = args.iter().map(|&v| v as u64 & mask).collect();
    let out = run(opcode, &Attrs::new(), &types, ty, &bits);
    match (ty.bits(), ty.is_signed_integer()) {
        (64, _) => out as i64,
        (_, true) => i64::from(out as i32),
        _ => i64::from(out as u32),
    }
}

#[test]
fn small_integers_wrap_and_divide_as_defined() {
    for ty in [ElementType::S4, ElementType::U4, ElementType::S8, ElementType::U8, ElementType::S2] {
        let bits = ty.bits();
        let signed = ty.is_signed_integer();
        let (low, high) = if signed { (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
        let wrap = |v: i64| if signed { v << (64 - bits) >> (64 - bits) } else { v & ((1 << bits) - 1) };
        let step = if bits == 8 { 7 } else { 1 };
        for x in (low..=high).step_by(step).chain([high]) {
            for y in (low..=high).step_by(step).chain([0, high]) {
                assert_eq!(int(Opcode::Add, ty, &[x, y]), wrap(x + y));
                assert_eq!(int(Opcode::Multiply, ty, &[x, y]), wrap(x * y));
                let quotient = if y == 0 { -1 } else { x / y };
                assert_eq!(int(Opcode::Divide, ty, &[x, y]), wrap(quotient), "{ty} {x}/{y}");
                assert_eq!(int(Opcode::Remainder, ty, &[x, y]), if y == 0 { x } else { x % y }, "{ty} {x}%{y}");
                let amount = (y & ((1 << bits) - 1)) as u32;
                let left = if amount >= bits { 0 } else { wrap(x << amount) };
                assert_eq!(int(Opcode::ShiftLeft, ty, &[x, y]), left, "{ty} {x}<<{y}");
                let arithmetic = wrap(x) << (64 - bits) >> (64 - bits) >> amount.min(bits - 1);
                assert_eq!(int(Opcode::ShiftRightArithmetic, ty, &[x, y]), wrap(arithmetic), "{ty} {x}>>{y}");
                let logical = if amount >= bits { 0 } else { wrap((x & ((1 << bits) - 1)) >> amount) };
                assert_eq!(int(Opcode::ShiftRightLogical, ty, &[x, y]), logical, "{ty} {x}>>>{y}");
                assert_eq!(int(Opcode::Mulhi, ty, &[x, y]), (x * y) >> bits, "{ty} mulhi {x} {y}");
                if y >= 0 {
                    let power = (0..y).fold(1i64, |p, _| wrap(p * x));
                    assert_eq!(int(Opcode::Power, ty, &[x, y]), power, "{ty} {x}**{y}");
                }
            }
            // Bits of an s4 are counted in the byte that holds it.
            let unsigned = (x & ((1 << bits) - 1)) as u64;
            let counted = if ty == ElementType::S4 { (x & 0xff) as u64 } else { unsigned };
            assert_eq!(int(Opcode::PopulationCount, ty, &[x]), wrap(i64::from(counted.count_ones())));
            let zeros = i64::from(unsigned.leading_zeros()) - 64 + i64::from(bits);
            assert_eq!(int(Opcode::Clz, ty, &[x]), wrap(zeros), "{ty} clz {x}");
            assert_eq!(int(Opcode::Abs, ty, &[x]), wrap(x.abs()));
            assert_eq!(int(Opcode::Sign, ty, &[x]), wrap(x.signum()));
            assert_eq!(int(Opcode::Not, ty, &[x]), wrap(!x));
        }
    }
}

#[test]
fn wide_integers_keep_their_edges() {
    for (ty, least) in [(ElementType::S32, i64::from(i32::MIN)), (ElementType::S64, i64::MIN)] {
        assert_eq!(int(Opcode::Divide, ty, &[least, -1]), least);
        assert_eq!(int(Opcode::Remainder, ty, &[least, -1]), 0);
        assert_eq!(int(Opcode::Divide, ty, &[7, 0]), -1);
        assert_eq!(int(Opcode::Divide, ty, &[-7, 2]), -3);
        assert_eq!(int(Opcode::Power, ty, &[-1, -3]), -1);
        assert_eq!(int(Opcode::Power, ty, &[3, -3]), 0);
        assert_eq!(int(Opcode::Power, ty, &[-3, 5]), -243);
        assert_eq!(int(Opcode::Clz, ty, &[1]), i64::from(ty.bits()) - 1);
        assert_eq!(int(Opcode::PopulationCount, ty, &[-1]), i64::from(ty.bits()));
        assert_eq!(int(Opcode::ShiftLeft, ty, &[1, -1]), 0);
        assert_eq!(int(Opcode::ShiftRightArithmetic, ty, &[-8, 1000]), -1);
    }
    assert_eq!(int(Opcode::Divide, ElementType::U32, &[7, 0]), i64::from(u32::MAX));
    assert_eq!(int(Opcode::Maximum, ElementType::U32, &[0xffff_ffff, 1]), 0xffff_ffff);
}

fn to_f32(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

#[test]
fn conversions_saturate_and_round_once() {
    let none = Attrs::new();
    let from_f32 = |v: f32, to| run(Opcode::Convert, &none, &[ElementType::F32], to, &[u64::from(v.to_bits())]);
    assert_eq!(from_f32(300.7, ElementType::U8), 255);
    assert_eq!(from_f32(-300.7, ElementType::S8) as i32, -128);
    assert_eq!(from_f32(-3.7, ElementType::S4) as i32, -3);
    assert_eq!(from_f32(f32::NAN, ElementType::S8), 0);
    assert_eq!(from_f32(f32::NAN, ElementType::S64), 0);
    assert_eq!(from_f32(1e30, ElementType::S64), i64::MAX as u64);
    assert_eq!(from_f32(-1.0, ElementType::U64), 0);
    assert_eq!(from_f32(f32::NAN, ElementType::Pred), 1);
    assert_eq!(from_f32(-0.0, ElementType::Pred), 0);
    assert_eq!(to_f32(from_f32(1.003_906_2, ElementType::BF16)), 1.0);
    let from_s64 = |v: i64, to| to_f32(run(Opcode::Convert, &none, &[ElementType::S64], to, &[v as u64]));
    // Just above a midpoint of bf16: through f32 or f64 alone it would go down.
    let midpoint = 0x4040_0000_0000_0000i64;
    assert_eq!(from_s64(midpoint + 1, ElementType::BF16), 4647714815446351872.0);
    assert_eq!(from_s64(-(midpoint + 1), ElementType::BF16), -from_s64(midpoint + 1, ElementType::BF16));
    assert_eq!(from_s64(midpoint, ElementType::BF16), 4611686018427387904.0);
    let from_u32 = |v: u32, to| to_f32(run(Opcode::Convert, &none, &[ElementType::U32], to, &[u64::from(v)]));
    assert_eq!(from_u32(u32::MAX, ElementType::F32), 4294967296.0);
    assert_eq!(from_u32(65519, ElementType::F16), 65504.0);
    assert_eq!(from_u32(65520, ElementType::F16), f32::INFINITY);
    let narrowing = run(Opcode::Convert, &none, &[ElementType::S64], ElementType::U4, &[0xff_ffff_ffff_fff7]);
    assert_eq!(narrowing, 7);
    assert_eq!(run(Opcode::Convert, &none, &[ElementType::S8], ElementType::U64, &[0xffff_ffff]), u64::MAX);
}

#[test]
fn comparisons_know_nan_and_the_total_order() {
    let f = |v: f32| u64::from(v.to_bits());
    let compare = |direction: &'static str, kind: Option<&'static str>, x: f32, y: f32| {
        let mut attrs = Attrs::new().with(AttrKey::Direction, AttrValue::Word(direction));
        if let Some(kind) = kind {
            attrs.set(AttrKey::ComparisonType, AttrValue::Word(kind));
        }
        run(Opcode::Compare, &attrs, &[ElementType::F32; 2], ElementType::Pred, &[f(x), f(y)]) == 1
    };
    assert!(!compare("LE", None, f32::NAN, 1.0) && compare("NE", None, f32::NAN, f32::NAN));
    assert!(compare("EQ", None, -0.0, 0.0));
    let order = [-f32::NAN, f32::NEG_INFINITY, -1.0, -0.0, 0.0, 1.0, f32::INFINITY, f32::NAN];
    for (i, &x) in order.iter().enumerate() {
        for (j, &y) in order.iter().enumerate() {
            assert_eq!(compare("LT", Some("TOTALORDER"), x, y), i < j);
            assert_eq!(compare("GE", Some("TOTALORDER"), x, y), i >= j);
        }
    }
}

#[test]
fn precision_is_reduced_as_defined() {
    let reduce = |e: i64, m: i64, ty: ElementType, x: f32| {
        let attrs =
            Attrs::new().with(AttrKey::ExponentBits, AttrValue::Int(e)).with(AttrKey::MantissaBits, AttrValue::Int(m));
        to_f32(run(Opcode::ReducePrecision, &attrs, &[ty], ty, &[u64::from(x.to_bits())]))
    };
    assert_eq!(reduce(5, 10, ElementType::F32, 65519.0), 65504.0);
    assert_eq!(reduce(5, 10, ElementType::F32, 65520.0), f32::INFINITY);
    assert_eq!(reduce(5, 10, ElementType::F32, -1e-9), -0.0);
    assert_eq!(reduce(8, 7, ElementType::F32, 1.003_906_2), 1.0);
    assert!(reduce(5, 2, ElementType::F32, f32::NAN).is_nan());
    assert_eq!(reduce(5, 2, ElementType::F16, 65504.0), f32::INFINITY);
    assert_eq!(reduce(5, 10, ElementType::F16, 5.960_464_5e-8), 5.960_464_5e-8);
    assert_eq!(reduce(23, 40, ElementType::F32, 1.2345678), 1.2345678);
}

#[test]
fn what_has_no_lowering_says_so() {
    let mut b = Body::new();
    let x = b.arg(0, ScalarType::F32);
    let cx = ElementwiseContext::default();
    let ty = ElementType::F32;
    assert!(lower(&mut b, &cx, Opcode::Not, &Attrs::new(), &[ty], ty, &[x]).is_err());
    assert!(lower(&mut b, &cx, Opcode::Add, &Attrs::new(), &[ty], ty, &[x]).is_err());
    assert!(lower(&mut b, &cx, Opcode::Add, &Attrs::new(), &[], ty, &[]).is_err());
}
