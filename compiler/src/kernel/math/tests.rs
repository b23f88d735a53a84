//! How far the expansions are from the functions.

use super::super::eval::eval;
use super::*;

/// Distance in units of the last place of the scalar type: `want` is more precise than the scalar type for f32.
fn ulps(scalar: ScalarType, got: f64, want: f64) -> f64 {
    if got.is_nan() || want.is_nan() {
        return if got.is_nan() && want.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let (digits, least, huge) =
        if scalar == ScalarType::F32 { (24, -149, f64::from(f32::MAX)) } else { (53, -1074, f64::MAX) };
    if got.is_infinite() || want.is_infinite() || want.abs() > huge {
        let rounded = if scalar == ScalarType::F32 { f64::from(want as f32) } else { want };
        return if got == rounded {
            0.0
        } else if got.is_infinite() && want.abs() > huge * 0.9999999 {
            1.0
        } else {
            f64::INFINITY
        };
    }
    if got == 0.0 && want == 0.0 {
        return 0.0;
    }
    let (_, exponent) = libm::frexp(want);
    let ulp = libm::ldexp(1.0, (exponent - digits).max(least));
    (got - want).abs() / ulp
}

/// Sample arguments: special values, every exponent, and a dense net around one.
fn samples(scalar: ScalarType, count: u64) -> Vec<u64> {
    let mut out = Vec::new();
    let edges =
        [0.0, 0.5, 1.0, 2.0, 3.0, 88.0, 88.72283, 89.0, 104.0, 709.78, 745.0, 1e-30, 1e30, f64::INFINITY, f64::NAN];
    for e in edges {
        for s in [e, -e] {
            let bits = if scalar == ScalarType::F32 { u64::from((s as f32).to_bits()) } else { s.to_bits() };
            for d in [-1i64, 0, 1] {
                out.push(bits.wrapping_add_signed(d) & if scalar == ScalarType::F32 { 0xffff_ffff } else { u64::MAX });
            }
        }
    }
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for i in 0..count {
        let r = next();
        let v = match i % 4 {
            // Any bits at all.
            0 => None,
            // Around one, by some binades.
            1 | 2 => Some(((r >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0) * libm::exp2((r & 15) as f64 - 8.0)),
            _ => Some(1.0 + (r as i64 as f64) / i64::MAX as f64 * 0.5),
        };
        out.push(match (v, scalar) {
            (None, ScalarType::F32) => r & 0xffff_ffff,
            (None, _) => r,
            (Some(v), ScalarType::F32) => u64::from((v as f32).to_bits()),
            (Some(v), _) => v.to_bits(),
        });
    }
    out
}

fn value(scalar: ScalarType, bits: u64) -> f64 {
    scalar.float(bits).expect("a float type")
}

type Expansion = fn(&mut Body, Variant, NodeId) -> NodeId;

/// The largest error of a function of one argument over `arguments`, and where.
fn worst(
    scalar: ScalarType,
    v: Variant,
    f: Expansion,
    want: fn(f64) -> f64,
    arguments: impl Iterator<Item = u64>,
) -> (f64, f64, usize) {
    let mut b = Body::new();
    let x = b.arg(0, scalar);
    let y = f(&mut b, v, x);
    let nodes = b.operations();
    let mut worst = (0.0, 0.0);
    for bits in arguments {
        let got = value(scalar, eval(b.nodes(), &[bits])[y.0 as usize].expect("a value"));
        let argument = value(scalar, bits);
        let error = ulps(scalar, got, want(argument));
        if error > worst.0 {
            worst = (error, argument);
        }
    }
    (worst.0, worst.1, nodes)
}

fn reference_logistic(x: f64) -> f64 {
    if x < 0.0 { libm::exp(x) / (1.0 + libm::exp(x)) } else { 1.0 / (1.0 + libm::exp(-x)) }
}

/// Name, expansion, reference, bound for f32 and for f64.
type Unary = (&'static str, Expansion, fn(f64) -> f64, f64, f64);

const UNARY: &[Unary] = &[
    ("exp", exp, libm::exp, 2.0, 2.0),
    ("expm1", expm1, libm::expm1, 2.0, 2.0),
    ("log", log, libm::log, 2.0, 2.0),
    ("log1p", log1p, libm::log1p, 2.0, 2.5),
    ("tanh", tanh, libm::tanh, 6.0, 4.0),
    ("sin", sin, libm::sin, 2.0, 2.0),
    ("cos", cos, libm::cos, 2.0, 2.0),
    ("tan", tan, libm::tan, 3.0, 3.0),
    ("sinh", sinh, libm::sinh, 3.0, 3.0),
    ("cosh", cosh, libm::cosh, 3.0, 3.0),
    ("asinh", asinh, libm::asinh, 4.0, 4.0),
    ("acosh", acosh, |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) }, 4.0, 4.0),
    ("atanh", atanh, libm::atanh, 4.0, 4.0),
    ("atan", atan, libm::atan, 2.5, 2.0),
    ("asin", asin, libm::asin, 3.0, 3.0),
    ("acos", acos, libm::acos, 3.0, 3.0),
    ("erf", erf, libm::erf, 7.0, 4.0),
    ("cbrt", cbrt, libm::cbrt, 2.0, 2.0),
    ("logistic", logistic, reference_logistic, 3.0, 4.0),
];

#[test]
fn unary_functions_keep_their_bounds() {
    let mut failed = Vec::new();
    for (name, f, want, single, double) in UNARY {
        for (scalar, bound) in [(ScalarType::F32, *single), (ScalarType::F64, *double)] {
            for v in [Variant::Fma, Variant::NoFma] {
                let (error, at, nodes) = worst(scalar, v, *f, *want, samples(scalar, 100_000).into_iter());
                println!("{name:10} {scalar:?} {v:?}: {error:.3} ULP at {at:e}, {nodes} nodes");
                if error > bound {
                    failed.push(format!("{name} {scalar:?} {v:?}: {error} at {at:e}"));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

type Expansion2 = fn(&mut Body, Variant, NodeId, NodeId) -> NodeId;

/// Name, expansion, reference, bound for f32 and for f64.
type Binary = (&'static str, Expansion2, fn(f64, f64) -> f64, f64, f64);

const BINARY: &[Binary] = &[
    ("atan2", atan2, libm::atan2, 3.0, 3.0),
    ("pow", pow, libm::pow, 2.0, 2.0),
    ("remainder", remainder, |x, y| x % y, 0.0, 0.0),
];

/// Pairs of arguments: all special values with each other, and mixed samples; powers of moderate size among them.
fn pairs(scalar: ScalarType) -> Vec<(u64, u64)> {
    let encode = |v: f64| if scalar == ScalarType::F32 { u64::from((v as f32).to_bits()) } else { v.to_bits() };
    let least = value(scalar, 1);
    let edges = [
        0.0,
        least,
        3.0 * least,
        1e-30,
        0.5,
        1.0,
        1.5,
        2.0,
        3.0,
        4.5,
        127.0,
        128.0,
        1e10,
        1e30,
        f64::INFINITY,
        f64::NAN,
    ];
    let mut out = Vec::new();
    for x in edges {
        for y in edges {
            for (s, t) in [(1.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0)] {
                out.push((encode(s * x), encode(t * y)));
            }
        }
    }
    let (a, b) = (samples(scalar, 60_000), samples(scalar, 90_001));
    out.extend(a.iter().zip(b.iter().rev()).map(|(&x, &y)| (x, y)));
    for (i, (&x, &y)) in a.iter().zip(b.iter().rev()).enumerate() {
        // A base near one with an exponent that keeps the power in range.
        let base = 1.0 + (value(scalar, x) % 1.0).abs();
        let exponent = value(scalar, y) % 1000.0;
        if i % 2 == 0 && base.is_finite() && exponent.is_finite() {
            out.push((encode(base), encode(exponent)));
        }
    }
    out
}

#[test]
fn binary_functions_keep_their_bounds() {
    let mut failed = Vec::new();
    for (name, f, want, single, double) in BINARY {
        for (scalar, bound) in [(ScalarType::F32, *single), (ScalarType::F64, *double)] {
            for v in [Variant::Fma, Variant::NoFma] {
                let mut b = Body::new();
                let (x, y) = (b.arg(0, scalar), b.arg(1, scalar));
                let z = f(&mut b, v, x, y);
                let nodes = b.operations();
                let mut worst = (0.0, 0.0, 0.0);
                for (xs, ys) in pairs(scalar) {
                    let got = value(scalar, eval(b.nodes(), &[xs, ys])[z.0 as usize].expect("a value"));
                    let (xv, yv) = (value(scalar, xs), value(scalar, ys));
                    let error = ulps(scalar, got, want(xv, yv));
                    if error > worst.0 {
                        worst = (error, xv, yv);
                    }
                }
                println!(
                    "{name:10} {scalar:?} {v:?}: {:.3} ULP at {:e}, {:e}, {nodes} nodes",
                    worst.0, worst.1, worst.2
                );
                if worst.0 > bound {
                    failed.push(format!("{name} {scalar:?} {v:?}: {worst:?}"));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
