//! Arguments: of every size, and dense where functions are hard.

use super::measure::Format;
use brolga_tests::random_graph::Rng;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_PI_2, LN_2, SQRT_2};

/// Where expansions change from one piece to another, where results leave the range, zeros and poles.
const EDGES: [f64; 34] = [
    0.0,
    1e-18,
    1e-17,
    1e-9,
    1e-8,
    1e-5,
    LN_2 / 2.0,
    SQRT_2 - 1.0,
    0.5,
    FRAC_1_SQRT_2,
    0.9,
    1.0,
    SQRT_2,
    1.5,
    2.0,
    SQRT_2 + 1.0,
    3.0,
    3.93,
    4.5,
    6.0,
    9.02,
    20.0,
    22.0,
    40.0,
    88.72283,
    103.97,
    709.782712893384,
    745.1332191019411,
    8388608.0,
    4503599627370496.0,
    1.152921504606847e18,
    3.273390607896142e150,
    f64::INFINITY,
    f64::NAN,
];

/// The edges, with both signs, and the least and largest numbers.
fn edges(format: &Format) -> Vec<u64> {
    let mut out = Vec::new();
    for edge in EDGES.into_iter().chain([format.value(1), format.value(3), format.max]) {
        out.extend([format.code(edge), format.code(-edge)]);
    }
    out
}

/// A number of any size and sign: all codes are equally likely.
fn any(format: &Format, rng: &mut Rng) -> u64 {
    rng.next() >> (64 - format.ty.bits())
}

/// A number near `centre`: all distances from the last digit up are equally likely.
fn near(format: &Format, rng: &mut Rng, centre: f64) -> u64 {
    let steps = rng.next() >> rng.between(64 - i64::from(format.ty.bits()) + 2, 63);
    let code = format.code(centre);
    let moved = if rng.chance(1, 2) { code.wrapping_add(steps) } else { code.wrapping_sub(steps) };
    moved & (u64::MAX >> (64 - format.ty.bits()))
}

/// One argument in one of the ways.
fn argument(format: &Format, rng: &mut Rng) -> u64 {
    let sign = if rng.chance(1, 2) { -1.0 } else { 1.0 };
    match rng.below(6) {
        0 => any(format, rng),
        1 => format.code(sign * rng.unit() * libm::exp2(rng.between(-10, 10) as f64)),
        2 => near(format, rng, sign),
        // Multiples of a quarter turn, small ones and large ones, and the number that is nearest to one.
        3 => {
            let turns = (rng.next() >> rng.between(11, 63)) as f64;
            near(format, rng, sign * turns * FRAC_PI_2)
        }
        4 if rng.chance(1, 8) => near(format, rng, libm::ldexp(6381956970095103.0, 797)),
        _ => {
            let edge = rng.pick(&EDGES);
            near(format, rng, sign * edge)
        }
    }
}

/// Arguments of a function.
pub fn arguments(format: &Format) -> Vec<u64> {
    let mut rng = Rng::new(1);
    let mut out = edges(format);
    out.extend((0..150_000).map(|_| argument(format, &mut rng)));
    out
}

/// Pairs of arguments: all edges with each other, and numbers of related sizes.
pub fn pairs(format: &Format) -> Vec<(u64, u64)> {
    let mut rng = Rng::new(2);
    let edges = edges(format);
    let mut out: Vec<(u64, u64)> = edges.iter().flat_map(|x| edges.iter().map(|y| (*x, *y))).collect();
    for _ in 0..150_000 {
        let x = argument(format, &mut rng);
        let v = format.value(x);
        let y = match rng.below(4) {
            0 => argument(format, &mut rng),
            // Quotients near one, and near other integers.
            1 => near(format, &mut rng, v),
            2 => {
                let quotient = v / rng.between(1, 1 << 20) as f64;
                near(format, &mut rng, quotient)
            }
            // A power somewhere in the range.
            _ => format.code((rng.unit() * 2.2 - 1.1) * libm::log(format.max) / libm::log(v.abs())),
        };
        out.push((x, y));
    }
    out
}
