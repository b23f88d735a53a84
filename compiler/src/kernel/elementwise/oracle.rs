//! Every lowering against the interpreter, on the bytes of elements.
//!
//! Integers, data and exact float operations must agree bitwise (NaN with NaN), functions within a few units in the
//! last place of the type.

use super::super::body::{Body, NodeId};
use super::super::eval::eval;
use super::*;
use crate::hlo::Module;
use crate::{interp, text};
use brolga_runtime::{ArrayLiteral, ArrayShape, Literal, Scalar};

/// Values that matter in every type, and some that do not.
fn column(ty: ElementType, count: usize, seed: u64) -> ArrayLiteral {
    let mut out = ArrayLiteral::zeros(&ArrayShape::new(ty, [count as i64]));
    let edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        2.0,
        3.0,
        7.0,
        -7.0,
        8.0,
        1e-8,
        100.0,
        -100.0,
        127.0,
        128.0,
        -128.0,
        255.0,
        65504.0,
        1e5,
        -1e9,
        2147483647.0,
        -2147483648.0,
        1e20,
        -1e20,
        1e-40,
        -1e-40,
        1e-310,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let mut state = seed;
    for i in 0..count {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let uniform = (state >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0;
        let value = |k: usize| match k % 4 {
            0 => edges[(state >> 33) as usize % edges.len()],
            1 => uniform,
            2 => uniform * 20.0,
            _ => uniform * libm::exp2((state & 63) as f64 - 32.0),
        };
        let scalar = match ty.kind() {
            Kind::Pred => Scalar::Pred(state >> 40 & 1 == 1),
            Kind::Signed | Kind::Unsigned => match i % 3 {
                0 => interp_convert(value(0), ty),
                1 => interp_convert((uniform * 9.0).round(), ty),
                _ => Scalar::UInt(state >> 7),
            },
            Kind::Complex => Scalar::Complex(num_complex::Complex::new(value(i), value(i / 4))),
            _ => Scalar::Float(value(i)),
        };
        let scalar = match (ty.kind(), scalar) {
            (Kind::Signed, Scalar::UInt(v)) => Scalar::Int(v as i64),
            (_, s) => s,
        };
        out.set(i, scalar.round_to(ty));
    }
    out
}

fn interp_convert(v: f64, ty: ElementType) -> Scalar {
    if ty.is_signed_integer() { Scalar::Int(v as i64) } else { Scalar::UInt(v as u64) }
}

fn raw(array: &ArrayLiteral, i: usize, mem: super::super::body::Mem) -> u64 {
    use super::super::body::Mem;
    match mem {
        Mem::S8 => u64::from(array.bytes()[i] as i8 as i32 as u32),
        Mem::U8 => u64::from(array.bytes()[i]),
        _ => {
            let n = mem.bytes() as usize;
            let mut bytes = [0u8; 8];
            bytes[..n].copy_from_slice(&array.bytes()[i * n..][..n]);
            let v = u64::from_le_bytes(bytes);
            if mem == Mem::S16 { u64::from(v as u16 as i16 as i32 as u32) } else { v }
        }
    }
}

struct Case {
    opcode: Opcode,
    attrs: &'static str,
    operands: Vec<ElementType>,
    result: ElementType,
    /// Units in the last place of the result's type; `None`: equal.
    ulps: Option<f64>,
}

/// Significant bits and least exponent.
fn precision(ty: ElementType) -> (i32, i32) {
    match ty.real_part() {
        ElementType::F64 => (53, -1074),
        ElementType::F32 => (24, -149),
        ElementType::BF16 => (8, -133),
        ElementType::F16 => (11, -24),
        ElementType::F8E5M2 => (3, -16),
        _ => (4, -9),
    }
}

fn near(ty: ElementType, got: f64, want: f64, ulps: Option<f64>, norm: f64) -> bool {
    if got == want || got.is_nan() && want.is_nan() {
        return true;
    }
    let Some(ulps) = ulps else { return false };
    if !got.is_finite() || !want.is_finite() {
        // One side of the overflow threshold or the other.
        let limit = if ty.real_part() == ElementType::F64 { f64::MAX } else { 3.5e38 };
        let big = |v: f64| v.abs() > limit * 0.999 || ty.bits() < 32 && v.abs() > 200.0;
        return big(got) && big(want) && got.is_sign_negative() == want.is_sign_negative();
    }
    let (digits, least) = precision(ty);
    let (_, e) = libm::frexp(norm);
    (got - want).abs() <= ulps * libm::ldexp(1.0, (e - digits).max(least))
}

fn check(case: &Case, strict: bool) -> Vec<String> {
    let count = 600;
    let names = |i: usize| format!("%p{i}");
    let mut source = String::from("HloModule m\nENTRY %e {\n");
    for (i, ty) in case.operands.iter().enumerate() {
        source += &format!("  {} = {ty}[{count}] parameter({i})\n", names(i));
    }
    let list: Vec<String> = (0..case.operands.len()).map(names).collect();
    source += &format!("  ROOT %r = {}[{count}] {}({}){}\n}}\n", case.result, case.opcode, list.join(", "), case.attrs);
    let module: Module = text::parse(&source).expect("a module");
    let inputs: Vec<ArrayLiteral> =
        case.operands.iter().enumerate().map(|(i, &ty)| column(ty, count, 77 + 1000 * i as u64)).collect();
    let args: Vec<Literal> = inputs.iter().map(|a| Literal::Array(a.clone())).collect();
    let want = interp::run(&module, &args, &interp::Options::default()).expect("a result");
    let want = want.as_array().expect("an array");
    let root = module.computations[module.entry].root;
    let attrs = module.computations[module.entry].instructions[root].attrs.clone();

    let mut b = Body::new();
    let cx = ElementwiseContext { variant: Variant::Fma, strict_rounding: strict };
    let complex = case.result.is_complex() || case.operands.iter().any(|t| t.is_complex());
    let mut count_args = 0;
    let mut operand = |b: &mut Body, ty: ElementType| -> Vec<NodeId> {
        (0..if ty.is_complex() { 2 } else { 1 })
            .map(|_| {
                let part = ty.real_part();
                let mem = storage::mem_of(part).expect("a memory form");
                let arg = b.arg(count_args, mem.scalar());
                count_args += 1;
                storage::decode(b, part, arg)
            })
            .collect()
    };
    let nodes: Vec<Vec<NodeId>> = case.operands.iter().map(|&ty| operand(&mut b, ty)).collect();
    let roots = if complex {
        let parts: Vec<Parts> = nodes
            .iter()
            .map(|n| if let [re, im] = n[..] { Parts::Complex(re, im) } else { Parts::Real(n[0]) })
            .collect();
        match lower_complex(&mut b, &cx, case.opcode, &attrs, &case.operands, case.result, &parts) {
            Ok(Parts::Real(x)) => vec![x],
            Ok(Parts::Complex(re, im)) => vec![re, im],
            Err(e) => return vec![format!("{} {:?}: {}", case.opcode, case.operands, e.0)],
        }
    } else {
        let flat: Vec<NodeId> = nodes.iter().map(|n| n[0]).collect();
        match lower(&mut b, &cx, case.opcode, &attrs, &case.operands, case.result, &flat) {
            Ok(x) => vec![x],
            Err(e) => return vec![format!("{} {:?}: {}", case.opcode, case.operands, e.0)],
        }
    };
    let part = case.result.real_part();
    let roots: Vec<NodeId> = roots.into_iter().map(|r| storage::encode(&mut b, part, r)).collect();
    let mem = storage::mem_of(part).expect("a memory form");
    let n = mem.bytes() as usize;
    let mut failures = Vec::new();
    for i in 0..count {
        let mut bits = Vec::new();
        for (a, &ty) in inputs.iter().zip(&case.operands) {
            let m = storage::mem_of(ty.real_part()).expect("a memory form");
            if ty.is_complex() {
                bits.push(raw(a, 2 * i, m));
                bits.push(raw(a, 2 * i + 1, m));
            } else {
                bits.push(raw(a, i, m));
            }
        }
        let values = eval(b.nodes(), &bits);
        let mut out = ArrayLiteral::zeros(&ArrayShape::new(case.result, [1]));
        let value = |r: &NodeId| values[r.0 as usize].expect("a value");
        let bytes: Vec<u8> = roots.iter().flat_map(|r| value(r).to_le_bytes()[..n].to_vec()).collect();
        out.bytes_mut().copy_from_slice(&bytes);
        let (got, want) = (out.get(0), want.get(i));
        let good = match (got, want) {
            (Scalar::Float(g), Scalar::Float(w)) => near(case.result, g, w, case.ulps, w),
            (Scalar::Complex(g), Scalar::Complex(w)) => {
                let norm = if w.re.is_finite() && w.im.is_finite() { libm::hypot(w.re, w.im) } else { f64::NAN };
                let norm = |v: f64| if norm.is_nan() { v } else { norm };
                let same = near(case.result, g.re, w.re, case.ulps, norm(w.re))
                    && near(case.result, g.im, w.im, case.ulps, norm(w.im));
                // What is undefined in one part may be anything in the other, too; and products of c64 overflow.
                let lost = case.opcode == Opcode::Multiply && (w.re.is_infinite() || w.im.is_infinite());
                same || lost || w.re.is_nan() || w.im.is_nan()
            }
            (g, w) => g == w,
        };
        if !good {
            let args: Vec<String> = inputs.iter().map(|a| format!("{:?}", a.get(i))).collect();
            failures.push(format!("{} {:?}: {args:?}: got {got:?}, want {want:?}", case.opcode, case.operands));
        }
    }
    failures.truncate(4);
    failures
}

fn run(cases: Vec<Case>) {
    let failures: Vec<String> = cases.iter().flat_map(|c| check(c, true)).collect();
    for f in &failures {
        println!("{f}");
    }
    assert!(failures.is_empty(), "{} failures, the first: {}", failures.len(), failures[0]);
}

fn case(opcode: Opcode, ty: ElementType, ulps: Option<f64>) -> Case {
    let n = match opcode.arity() {
        crate::hlo::Arity::Exactly(n) => n,
        _ => 1,
    };
    Case { opcode, attrs: "", operands: vec![ty; n], result: ty, ulps }
}

fn real_types() -> impl Iterator<Item = ElementType> {
    ElementType::ALL.iter().copied().filter(|t| !t.is_complex())
}

#[test]
fn integer_operations_agree() {
    use Opcode::*;
    let mut cases = Vec::new();
    for ty in real_types().filter(|t| t.is_integer()) {
        for op in [
            Add,
            Subtract,
            Multiply,
            Divide,
            Remainder,
            Maximum,
            Minimum,
            And,
            Or,
            Xor,
            Not,
            Negate,
            Abs,
            Sign,
            PopulationCount,
            Clz,
            ShiftLeft,
            ShiftRightLogical,
            ShiftRightArithmetic,
            Power,
            Clamp,
            Mulhi,
        ] {
            cases.push(case(op, ty, None));
        }
    }
    for op in [Add, Multiply, Maximum, Minimum, And, Or, Xor, Not] {
        cases.push(case(op, ElementType::Pred, None));
    }
    run(cases);
}

#[test]
fn float_operations_agree() {
    use Opcode::*;
    let mut cases = Vec::new();
    for ty in [ElementType::F64, ElementType::F32, ElementType::F16, ElementType::BF16, ElementType::F8E5M2] {
        for op in [
            Add,
            Subtract,
            Multiply,
            Divide,
            Remainder,
            Maximum,
            Minimum,
            Negate,
            Abs,
            Sign,
            Floor,
            Ceil,
            RoundNearestEven,
            RoundNearestAfz,
            Sqrt,
            Clamp,
        ] {
            cases.push(case(op, ty, None));
        }
        for op in [
            Exp, Expm1, Log, Log1p, Tanh, Logistic, Sin, Cos, Tan, Sinh, Cosh, Asin, Acos, Asinh, Acosh, Atanh, Erf,
            Cbrt, Rsqrt, Atan2, Power,
        ] {
            // Narrow types are computed in f32 and may fall to the other side of a midpoint.
            cases.push(case(op, ty, Some(if ty.bits() >= 32 { 6.0 } else { 1.0 })));
        }
        cases.push(Case { result: ElementType::Pred, ..case(IsFinite, ty, None) });
    }
    run(cases);
}

#[test]
fn precision_is_reduced_in_every_type() {
    let mut cases = Vec::new();
    for ty in real_types().filter(|t| t.is_float()) {
        for attrs in [
            ", exponent_bits=5, mantissa_bits=10",
            ", exponent_bits=8, mantissa_bits=3",
            ", exponent_bits=3, mantissa_bits=30",
            ", exponent_bits=1, mantissa_bits=1",
            ", exponent_bits=4, mantissa_bits=0",
        ] {
            cases.push(Case { attrs, ..case(Opcode::ReducePrecision, ty, None) });
        }
    }
    run(cases);
}

#[test]
fn comparisons_and_selections_agree() {
    let mut cases = Vec::new();
    for ty in ElementType::ALL.iter().copied() {
        for attrs in [", direction=EQ", ", direction=NE", ", direction=LT", ", direction=GE"] {
            if ty.is_complex() && !attrs.contains('Q') && !attrs.contains('N') {
                continue;
            }
            cases.push(Case { attrs, result: ElementType::Pred, ..case(Opcode::Compare, ty, None) });
        }
        if matches!(ty, ElementType::F32 | ElementType::F64 | ElementType::F16 | ElementType::BF16) {
            let attrs = ", direction=LE, type=TOTALORDER";
            cases.push(Case { attrs, result: ElementType::Pred, ..case(Opcode::Compare, ty, None) });
        }
        let operands = vec![ElementType::Pred, ty, ty];
        cases.push(Case { operands, ..case(Opcode::Select, ty, None) });
    }
    run(cases);
}

#[test]
fn conversions_agree() {
    let mut cases = Vec::new();
    for from in ElementType::ALL.iter().copied() {
        for to in ElementType::ALL.iter().copied() {
            cases.push(Case { operands: vec![from], ..case(Opcode::Convert, to, None) });
        }
    }
    run(cases);
}

#[test]
fn stochastic_conversions_agree() {
    let mut cases = Vec::new();
    for from in real_types().filter(|t| t.is_float()) {
        let Some(random) = real_types().find(|t| t.is_unsigned_integer() && t.bits() == from.bits()) else { continue };
        for to in real_types().filter(|t| t.is_float() || t.is_integer()) {
            cases.push(Case { operands: vec![from, random], ..case(Opcode::StochasticConvert, to, None) });
        }
    }
    run(cases);
}

#[test]
fn complex_operations_agree() {
    use Opcode::*;
    let mut cases = Vec::new();
    for ty in [ElementType::C64, ElementType::C128] {
        for op in [Add, Subtract, Negate] {
            cases.push(case(op, ty, None));
        }
        for op in [
            Multiply, Divide, Exp, Expm1, Log, Log1p, Sqrt, Rsqrt, Cbrt, Sign, Logistic, Sinh, Cosh, Tanh, Sin, Cos,
            Tan,
        ] {
            // Poles cancel.
            cases.push(case(op, ty, Some(if op == Logistic { 100.0 } else { 16.0 })));
        }
        let part = ty.real_part();
        cases.push(Case { result: part, ..case(Abs, ty, Some(2.0)) });
        cases.push(Case { result: part, ..case(Real, ty, None) });
        cases.push(Case { result: part, ..case(Imag, ty, None) });
        cases.push(Case { operands: vec![part; 2], ..case(Opcode::Complex, ty, None) });
    }
    run(cases);
}
