//! «Element-wise unary functions»: each function of the list at points whose values are known.

use super::Example;
use brolga_compiler::builder::{Builder, Op};
use brolga_runtime::ArrayLiteral;
use num_complex::Complex;
use std::f32::consts::{E, FRAC_PI_2, FRAC_PI_4, LN_2, PI};

type Function = fn(&Builder, Op) -> Op;

/// Functions of floats: points and values, a few units of rounding apart at most.
#[test]
fn functions_of_floats() {
    const INF: f32 = f32::INFINITY;
    let table: &[(Function, &[f32], &[f32])] = &[
        (|b, x| b.cbrt(x), &[8.0, -27.0, 0.0], &[2.0, -3.0, 0.0]),
        (|b, x| b.cos(x), &[0.0, PI, PI / 3.0], &[1.0, -1.0, 0.5]),
        (|b, x| b.erf(x), &[0.0, 0.5, -INF], &[0.0, 0.520_499_9, -1.0]),
        (|b, x| b.exp(x), &[0.0, 1.0, -INF], &[1.0, E, 0.0]),
        (|b, x| b.expm1(x), &[0.0, 1e-10, LN_2], &[0.0, 1e-10, 1.0]),
        (|b, x| b.log(x), &[1.0, E, 0.0], &[0.0, 1.0, -INF]),
        (|b, x| b.log1p(x), &[0.0, 1e-10, 1.0], &[0.0, 1e-10, LN_2]),
        (|b, x| b.logistic(x), &[0.0, INF, -INF], &[0.5, 1.0, 0.0]),
        (|b, x| b.rsqrt(x), &[4.0, 0.25, INF], &[0.5, 2.0, 0.0]),
        (|b, x| b.sin(x), &[0.0, FRAC_PI_2, PI / 6.0], &[0.0, 1.0, 0.5]),
        (|b, x| b.sqrt(x), &[4.0, 2.25, 0.0], &[2.0, 1.5, 0.0]),
        (|b, x| b.tan(x), &[0.0, FRAC_PI_4, -FRAC_PI_4], &[0.0, 1.0, -1.0]),
        (|b, x| b.tanh(x), &[0.0, INF, 0.549_306_15], &[0.0, 1.0, 0.5]),
        // Not in the list, of the same form.
        (|b, x| b.acos(x), &[1.0, 0.5, -1.0], &[0.0, PI / 3.0, PI]),
        (|b, x| b.acosh(x), &[1.0, 1.25, INF], &[0.0, LN_2, INF]),
        (|b, x| b.asin(x), &[0.0, 0.5, 1.0], &[0.0, PI / 6.0, FRAC_PI_2]),
        (|b, x| b.asinh(x), &[0.0, 0.75, -0.75], &[0.0, LN_2, -LN_2]),
        (|b, x| b.atanh(x), &[0.0, 0.6, -0.6], &[0.0, LN_2, -LN_2]),
        (|b, x| b.cosh(x), &[0.0, LN_2, -LN_2], &[1.0, 1.25, 1.25]),
        (|b, x| b.sinh(x), &[0.0, LN_2, -LN_2], &[0.0, 0.75, -0.75]),
    ];
    for (function, points, values) in table {
        let x = Example::new();
        let root = function(&x.b, x.array(&[3], points));
        x.gives_within(root, &[ArrayLiteral::from_elements(&[3], values)], 1e-6);
    }
}

/// What is exact has the bits that the list says.
#[test]
fn functions_that_are_exact() {
    let table: &[(Function, [f32; 6], [f32; 6])] = &[
        (|b, x| b.abs(x), [-1.5, 1.5, -0.0, 0.0, f32::NEG_INFINITY, 3.0], [1.5, 1.5, 0.0, 0.0, f32::INFINITY, 3.0]),
        (|b, x| b.neg(x), [-1.5, 1.5, -0.0, 0.0, f32::NEG_INFINITY, 3.0], [1.5, -1.5, 0.0, -0.0, f32::INFINITY, -3.0]),
        (|b, x| b.ceil(x), [1.2, -1.2, 2.0, -0.5, 1e20, 0.0], [2.0, -1.0, 2.0, -0.0, 1e20, 0.0]),
        (|b, x| b.floor(x), [1.2, -1.2, 2.0, -0.5, 1e20, -0.0], [1.0, -2.0, 2.0, -1.0, 1e20, -0.0]),
        (|b, x| b.round(x), [0.5, 1.5, 2.5, -0.5, -2.5, 0.49], [1.0, 2.0, 3.0, -1.0, -3.0, 0.0]),
        (|b, x| b.round_nearest_even(x), [0.5, 1.5, 2.5, -0.5, -2.5, 0.49], [0.0, 2.0, 2.0, -0.0, -2.0, 0.0]),
        (|b, x| b.real(x), [1.0, -2.0, 0.5, 0.0, 4.0, 5.0], [1.0, -2.0, 0.5, 0.0, 4.0, 5.0]),
        (|b, x| b.imag(x), [1.0, -2.0, 0.5, 0.0, 4.0, 5.0], [0.0; 6]),
    ];
    for (function, points, values) in table {
        let x = Example::new();
        let root = function(&x.b, x.array(&[6], points));
        x.gives_array(root, &[6], values);
    }
}

#[test]
fn is_finite_of_each_kind() {
    let x = Example::new();
    let root = x.b.is_finite(x.array(&[5], &[0f32, f32::MAX, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]));
    x.gives(root, &[ArrayLiteral::from_bools(&[5], &[true, true, false, false, false])]);
}

#[test]
fn bits_of_integers_and_truth_values() {
    let x = Example::new();
    let (n, p) = (x.array(&[4], &[0u32, 1, 0xF0, u32::MAX]), x.pred(&[2], &[true, false]));
    let s = x.array(&[3], &[0i8, -1, 7]);
    let root = x.b.tuple(&[x.b.clz(n), x.b.population_count(n), x.b.not(n), x.b.not(p), x.b.clz(s), x.b.not(s)]);
    x.gives(
        root,
        &[
            ArrayLiteral::from_elements(&[4], &[32u32, 31, 24, 0]),
            ArrayLiteral::from_elements(&[4], &[0u32, 1, 4, 32]),
            ArrayLiteral::from_elements(&[4], &[u32::MAX, u32::MAX - 1, !0xF0, 0]),
            ArrayLiteral::from_bools(&[2], &[false, true]),
            ArrayLiteral::from_elements(&[3], &[8i8, 0, 5]),
            ArrayLiteral::from_elements(&[3], &[-1i8, 0, -8]),
        ],
    );
}

/// A scalar is allowed; the result has the operand's shape; integers have a sign and a magnitude too.
#[test]
fn unary_functions_keep_the_shape() {
    let x = Example::new();
    let (scalar, matrix) = (x.scalar(-2.5f32), x.array(&[2, 1], &[-7i32, 0]));
    let root = x.b.tuple(&[x.b.abs(scalar), x.b.abs(matrix), x.b.sign(matrix), x.b.neg(matrix)]);
    x.gives(
        root,
        &[
            ArrayLiteral::scalar(2.5f32),
            ArrayLiteral::from_elements(&[2, 1], &[7i32, 0]),
            ArrayLiteral::from_elements(&[2, 1], &[-1i32, 0]),
            ArrayLiteral::from_elements(&[2, 1], &[7i32, 0]),
        ],
    );
}

#[test]
fn magnitude_of_a_complex_number() {
    let x = Example::new();
    let root = x.b.abs(x.array(&[2], &[Complex::new(3f32, 4.0), Complex::new(0.0, -2.0)]));
    x.gives_array(root, &[2], &[5f32, 2.0]);
}
