//! Sine, cosine and tangent, over the whole range of the scalar type.
//!
//! Reduction: the argument is multiplied by 1 / (2 pi) and whole turns are dropped. Of a large argument every bit is a
//! multiple of some power of two, so that the leading bits of 1 / (2 pi) give whole turns only: a window of the
//! number's bits, chosen by the argument's exponent, is enough. For `F32` the product is taken in `F64`, where the
//! argument has half the bits of a significand, and five windows of two constants cover all exponents. For `F64` a
//! table of 53-bit pieces is looked up by a tree of selects, and sums carry their rounding errors along.

use super::super::body::{Body, FloatCond, IntCond, NodeId, Op, ScalarType, Variant};
use super::Fx;

/// (sin(t) / t - 1) / t^2 in powers of t^2, up to pi / 4.
const SIN_F32: &[f64] = &[-0.16666655242443085, 0.00833212397992611, -0.00019506159878801554];
const SIN_F64: &[f64] = &[
    -0.1666666666666664,
    0.008333333333323327,
    -0.00019841269829878633,
    2.755731356024656e-06,
    -2.5050720339642534e-08,
    1.5893893445764542e-10,
];
/// (cos(t) - 1 + t^2 / 2) / t^4 in powers of t^2, up to pi / 4.
const COS_F32: &[f64] = &[0.041666653007268906, -0.0013887584209442139, 2.44565999309998e-05];
const COS_F64: &[f64] = &[
    0.04166666666666665,
    -0.001388888888888265,
    2.480158729448255e-05,
    -2.755731568876134e-07,
    2.0875889982690893e-09,
    -1.1367534806301296e-11,
];

/// The same two, to 30 bits, in `F64`: cos(t) as a whole.
const TAN_SIN: &[f64] = SIN_F32;
const TAN_COS: &[f64] = &[1.0, -0.5, 0.041666653007268906, -0.0013887584209442139, 2.44565999309998e-05];

/// 1 / (2 pi) without its leading 0, 23, 44, 65 and 86 bits, each as a sum of two; and where the windows begin. No product is
/// as large as 2^46 quarter turns, so that the second of the two adds less than a hundredth of one.
const WINDOWS: [(f64, f64, f64); 5] = [
    (0.0, 0.15915494309189535, -9.839338337591243e-18),
    (70368744177664.0, 5.112412189826888e-08, 1.5185066224124615e-24),
    (1.4757395258967641e+20, 3.6261410673097966e-15, -1.3304005198798648e-31),
    (3.094850098213451e+26, 2.6901432026846873e-20, -4.225483619501883e-37),
    (6.490371073168535e+32, 6.317065088957875e-27, -3.297606234835828e-43),
];

/// 1 / (2 pi) in pieces of 53 bits, each an integer.
const PIECES: [f64; 24] = [
    1433540284805664.0,
    5957137479487989.0,
    1860064896635571.0,
    1390943429720389.0,
    5020298653118683.0,
    5144493106191662.0,
    13822778938275.0,
    1274606832502572.0,
    2618186147303855.0,
    5962356354247068.0,
    3945969191208999.0,
    1767297002589415.0,
    7404395570781948.0,
    5211350100443133.0,
    7893600668900899.0,
    798806392691533.0,
    5619025154952634.0,
    4299362769199082.0,
    1599398431227260.0,
    6691545962833886.0,
    1452770359377327.0,
    7619584807961952.0,
    1795012743845719.0,
    7938401074855181.0,
];

/// An angle in [-pi/4, pi/4], with what `F64` does not hold of it, and the number of quarter turns to add (as an
/// integer of the scalar type's width, its low two bits).
///
/// For `F32` the angle is in `F64` as it comes from [`reduce_single`], and [`reduce`] rounds it.
struct Reduced {
    angle: NodeId,
    rest: Option<NodeId>,
    quarters: NodeId,
}

/// Reduces |x|.
fn reduce(fx: &mut Fx<'_>, x: NodeId) -> Reduced {
    let size = fx.b.fabs(x);
    if fx.double() {
        return reduce_double(fx, size);
    }
    let wide = reduce_single(fx, size);
    Reduced { angle: fx.b.convert(Op::Demote, wide.angle, ScalarType::F32), ..wide }
}

fn reduce_single(fx: &mut Fx<'_>, size: NodeId) -> Reduced {
    let wide = fx.b.convert(Op::Promote, size, ScalarType::F64);
    let mut w = Fx { b: &mut *fx.b, v: fx.v, scalar: ScalarType::F64 };
    // Of quarter turns rather than turns where the product is not taken apart.
    let scale = if w.v == Variant::Fma { 4.0 } else { 1.0 };
    let (mut high, mut low) = (w.c(scale * WINDOWS[0].1), w.c(scale * WINDOWS[0].2));
    for (from, next_high, next_low) in &WINDOWS[1..] {
        let beyond = w.is(wide, FloatCond::Ge, *from);
        let (next_high, next_low) = (w.c(scale * next_high), w.c(scale * next_low));
        high = w.b.select(beyond, next_high, high);
        low = w.b.select(beyond, next_low, low);
    }
    let anchor = w.anchor();
    let anchor = w.c(anchor);
    let four = w.c(4.0);
    let (shifted, part) = match w.v {
        // No window's product reaches 2^51, so that its nearest integer is there, and what is left is rounded once. The little that the
        // low part adds may leave the angle as much beyond an eighth of a turn, where the polynomials still hold.
        Variant::Fma => {
            let quarters = w.b.fma(wide, high, anchor);
            let minus = w.sub(anchor, quarters);
            let part = w.b.fma(wide, high, minus);
            (quarters, w.b.fma(wide, low, part))
        }
        Variant::NoFma => {
            // The argument has 24 bits: products with halves of the constant are exact.
            let bits = w.bits(high);
            let mask = w.int(-1 << 27);
            let bits = w.b.and(bits, mask);
            let top = w.float(bits);
            let bottom = w.sub(high, top);
            let (p, q) = (w.mul(wide, top), w.mul(wide, bottom));
            let (p_whole, q_whole) = (w.b.nearest(p), w.b.nearest(q));
            let (p, q) = (w.sub(p, p_whole), w.sub(q, q_whole));
            let r = w.mul(wide, low);
            let rest = w.add(q, r);
            let turns = w.add(p, rest);
            // Exact: a product with four.
            let shifted = w.fma(turns, four, anchor);
            let quarters = w.sub(shifted, anchor);
            let minus = w.b.fneg(quarters);
            (shifted, w.fma(turns, four, minus))
        }
    };
    let angle = w.scale(part, std::f64::consts::FRAC_PI_2);
    let bits = w.bits(shifted);
    let quarters = fx.b.convert(Op::Wrap, bits, ScalarType::I32);
    Reduced { angle, rest: None, quarters }
}

fn reduce_double(fx: &mut Fx<'_>, size: NodeId) -> Reduced {
    // The number of whole pieces that only give whole turns: (exponent - 52) / 53, at least 0.
    let bits = fx.bits(size);
    let exponent = fx.b.lshr_imm(bits, 52);
    let exponent = super::log::to_float(fx, exponent);
    let bias = fx.c(-1075.0 / 53.0);
    let inverse = fx.c(1.0 / 53.0 + 1e-9);
    let k = fx.mul(exponent, inverse);
    let k = fx.add(k, bias);
    let k = fx.b.floor(k);
    let k = fx.at_least(k, 0.0);
    let anchor = fx.anchor();
    let anchor = fx.c(anchor);
    let k = fx.add(k, anchor);
    let k = fx.bits(k);
    // The table from entry k on, by one level of selects for each bit of k.
    let mut table: Vec<NodeId> = PIECES.iter().map(|&p| fx.c(p * 2f64.powi(-53))).collect();
    for (bit, keep) in [(4u8, 20), (3, 12), (2, 8), (1, 6), (0, 5)] {
        let one = fx.int(1 << bit);
        let set = fx.b.and(k, one);
        let set = fx.b.icmp(IntCond::Eq, set, one);
        let next: Vec<NodeId> = (0..keep)
            .map(|i| match table.get(i + (1 << bit)) {
                Some(&far) => fx.b.select(set, far, table[i]),
                None => table[i],
            })
            .collect();
        table = next;
    }
    // The argument without those turns' powers of two: 53 k is taken off its exponent, where k is the low bits of the
    // anchored number.
    let mask = fx.int(31);
    let k = fx.b.and(k, mask);
    let (k4, k16, k32) = (fx.b.shl_imm(k, 2), fx.b.shl_imm(k, 4), fx.b.shl_imm(k, 5));
    let sum = fx.b.iadd(k, k4);
    let sum = fx.b.iadd(sum, k16);
    let sum = fx.b.iadd(sum, k32);
    let field = fx.b.shl_imm(sum, 52);
    let bits = fx.b.isub(bits, field);
    let x = fx.float(bits);
    // Products with five pieces, each 53 bits further down.
    let mut products = Vec::new();
    for (i, &piece) in table.iter().enumerate() {
        let x = fx.scale(x, 2f64.powi(-53 * i as i32));
        products.push(if i < 4 { fx.two_product(x, piece) } else { (fx.mul(x, piece), x) });
    }
    let [(p0, e0), (p1, e1), (p2, e2), (p3, e3), (p4, _)] = products[..] else {
        return Reduced { angle: size, rest: None, quarters: k };
    };
    let mut fractions = [p0, e0, p1, e1].map(|p| {
        let whole = fx.b.nearest(p);
        fx.sub(p, whole)
    });
    let [f0, g0, f1, g1] = &mut fractions;
    let (s, t1) = fx.two_sum(*f0, *g0);
    let (s, t2) = fx.two_sum(s, *f1);
    let (s, t3) = fx.two_sum(s, *g1);
    let (s, t4) = fx.two_sum(s, p2);
    let (four, anchor) = (fx.c(4.0), fx.anchor());
    let anchor = fx.c(anchor);
    let shifted = fx.fma(s, four, anchor);
    let quarters = fx.sub(shifted, anchor);
    let quarter = fx.scale(quarters, 0.25);
    let s = fx.sub(s, quarter);
    // What is left may be tiny: all smaller parts are summed with their errors.
    let (l, u1) = fx.two_sum(t1, t2);
    let (l, u2) = fx.two_sum(l, t3);
    let (l, u3) = fx.two_sum(l, t4);
    let (l, u4) = fx.two_sum(l, e2);
    let (l, u5) = fx.two_sum(l, p3);
    let mut tail = fx.add(u1, u2);
    for u in [u3, u4, u5, e3, p4] {
        tail = fx.add(tail, u);
    }
    let (high, low) = fx.two_sum(s, l);
    let low = fx.add(low, tail);
    let (high, low) = fx.fast_two_sum(high, low);
    // From turns to radians.
    let (tau, tau_low) = (fx.c(std::f64::consts::TAU), fx.c(2.4492935982947064e-16));
    let (angle, error) = fx.two_product(high, tau);
    let rest = fx.fma(high, tau_low, error);
    let rest = fx.fma(low, tau, rest);
    // Infinity has no angle.
    let nothing = fx.sub(size, size);
    let angle = fx.add(angle, nothing);
    let quarters = fx.bits(shifted);
    Reduced { angle, rest: Some(rest), quarters }
}

/// Sine and cosine of the reduced angle.
fn kernels(fx: &mut Fx<'_>, r: &Reduced) -> (NodeId, NodeId) {
    let t = r.angle;
    let z = fx.mul(t, t);
    let s = fx.poly2(z, SIN_F32, SIN_F64);
    let cube = fx.mul(t, z);
    let c = fx.poly2(z, COS_F32, COS_F64);
    let square = fx.mul(z, z);
    let (one, half) = (fx.c(1.0), fx.c(-0.5));
    match r.rest {
        None => {
            let sin = fx.fma(cube, s, t);
            let cos = fx.fma(z, half, one);
            (sin, fx.fma(square, c, cos))
        }
        Some(rest) => {
            // sin(t + d) = sin t + d (1 - t^2 / 2), cos(t + d) = cos t - d t.
            let slope = fx.fma(z, half, one);
            let d = fx.mul(rest, slope);
            let sin = fx.fma(cube, s, d);
            let sin = fx.add(t, sin);
            // 1 - t^2 / 2 with its rounding error.
            let h = fx.scale(z, 0.5);
            let w = fx.sub(one, h);
            let back = fx.sub(one, w);
            let lost = fx.sub(back, h);
            let d = fx.mul(rest, t);
            let lost = fx.sub(lost, d);
            let cos = fx.fma(square, c, lost);
            (sin, fx.add(w, cos))
        }
    }
}

/// Moves bit 1 of the number of quarters to the sign bit, the rest cleared.
fn half_turn_sign(fx: &mut Fx<'_>, quarters: NodeId) -> NodeId {
    let up = fx.b.shl_imm(quarters, (fx.scalar.bits() - 2) as u8);
    let top = fx.float(up);
    fx.sign_bits(top)
}

/// Whether the number of quarters is odd.
fn odd(fx: &mut Fx<'_>, quarters: NodeId) -> NodeId {
    let one = fx.int(1);
    let bit = fx.b.and(quarters, one);
    fx.b.icmp(IntCond::Eq, bit, one)
}

/// For `F64` the small parts of a tiny angle are out of range: its sine and tangent are the angle itself.
fn keep_tiny(fx: &mut Fx<'_>, x: NodeId, value: NodeId) -> NodeId {
    if !fx.double() {
        return value;
    }
    let size = fx.b.fabs(x);
    let tiny = fx.is(size, FloatCond::Lt, 1e-9);
    fx.b.select(tiny, x, value)
}

/// The sine, at most 2 ULP for every argument.
pub fn sin(b: &mut Body, v: Variant, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    let r = reduce(&mut fx, x);
    let (s, c) = kernels(&mut fx, &r);
    let odd = odd(&mut fx, r.quarters);
    let value = fx.b.select(odd, c, s);
    let turned = half_turn_sign(&mut fx, r.quarters);
    let own = fx.sign_bits(x);
    let sign = fx.b.xor(turned, own);
    let value = fx.flip(value, sign);
    keep_tiny(&mut fx, x, value)
}

/// The cosine, at most 2 ULP for every argument.
pub fn cos(b: &mut Body, v: Variant, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    let r = reduce(&mut fx, x);
    let (s, c) = kernels(&mut fx, &r);
    let odd = odd(&mut fx, r.quarters);
    let value = fx.b.select(odd, s, c);
    let one = fx.int(1);
    let next = fx.b.iadd(r.quarters, one);
    let sign = half_turn_sign(&mut fx, next);
    fx.flip(value, sign)
}

/// The tangent, at most 3 ULP for every argument.
pub fn tan(b: &mut Body, v: Variant, x: NodeId) -> NodeId {
    let mut fx = Fx::new(b, v, x);
    let (quarters, value) = if fx.double() {
        let r = reduce(&mut fx, x);
        let (s, c) = kernels(&mut fx, &r);
        let odd = odd(&mut fx, r.quarters);
        let top = fx.b.select(odd, c, s);
        let bottom = fx.b.select(odd, s, c);
        (r.quarters, fx.div(top, bottom))
    } else {
        // Sine, cosine and quotient in F64 too: one rounding in place of four.
        let size = fx.b.fabs(x);
        let r = reduce_single(&mut fx, size);
        let odd = odd(&mut fx, r.quarters);
        let mut w = Fx { b: &mut *fx.b, v, scalar: ScalarType::F64 };
        let z = w.mul(r.angle, r.angle);
        let s = w.poly(z, TAN_SIN);
        let cube = w.mul(r.angle, z);
        let s = w.fma(cube, s, r.angle);
        let c = w.poly(z, TAN_COS);
        let top = w.b.select(odd, c, s);
        let bottom = w.b.select(odd, s, c);
        let value = w.div(top, bottom);
        (r.quarters, fx.b.convert(Op::Demote, value, ScalarType::F32))
    };
    let own = fx.sign_bits(x);
    let bit = fx.b.shl_imm(quarters, (fx.scalar.bits() - 1) as u8);
    let sign = fx.b.xor(own, bit);
    let value = fx.flip(value, sign);
    keep_tiny(&mut fx, x, value)
}
