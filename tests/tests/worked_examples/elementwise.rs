//! Sections of elementwise operations.

use super::Example;
use brolga_runtime::{ArrayLiteral, ElementType};

#[test]
fn clamp_with_scalar_bounds() {
    let x = Example::new();
    let (min, operand, max) = (x.scalar(0i32), x.array(&[3], &[-1i32, 5, 9]), x.scalar(6i32));
    let root = x.b.clamp(min, operand, max);
    x.gives_array(root, &[3], &[0i32, 5, 6]);
}

#[test]
fn convert_element_type() {
    let x = Example::new();
    let root = x.b.convert_element_type(x.array(&[3], &[0i32, 1, 2]), ElementType::F32);
    x.gives_array(root, &[3], &[0f32, 1.0, 2.0]);
}

#[test]
fn select_with_an_array_of_predicates() {
    let x = Example::new();
    let pred = x.pred(&[4], &[true, false, false, true]);
    let (v1, v2) = (x.array(&[4], &[1i32, 2, 3, 4]), x.array(&[4], &[100i32, 200, 300, 400]));
    let root = x.b.select(pred, v1, v2);
    x.gives_array(root, &[4], &[1i32, 200, 300, 4]);
}

#[test]
fn select_with_a_scalar_predicate() {
    let x = Example::new();
    let pred = x.pred(&[], &[true]);
    let (v1, v2) = (x.array(&[4], &[1i32, 2, 3, 4]), x.array(&[4], &[100i32, 200, 300, 400]));
    let root = x.b.select(pred, v1, v2);
    x.gives_array(root, &[4], &[1i32, 2, 3, 4]);
}

#[test]
fn select_between_tuples() {
    let x = Example::new();
    let pred = x.pred(&[], &[false]);
    let one = x.b.tuple(&[x.scalar(1i32), x.array(&[2], &[1f32, 2.0])]);
    let two = x.b.tuple(&[x.scalar(3i32), x.array(&[2], &[3f32, 4.0])]);
    let root = x.b.select(pred, one, two);
    x.gives(root, &[ArrayLiteral::scalar(3i32), ArrayLiteral::from_elements(&[2], &[3f32, 4.0])]);
}

#[test]
fn comparisons_in_the_total_order() {
    let order = [-f32::NAN, f32::NEG_INFINITY, -1.0, -0.0, 0.0, 1.0, f32::INFINITY, f32::NAN];
    let n = order.len();
    let rows: Vec<f32> = (0..n * n).map(|i| order[i / n]).collect();
    let columns: Vec<f32> = (0..n * n).map(|i| order[i % n]).collect();
    let x = Example::new();
    let dims = [n as i64; 2];
    let (a, b) = (x.array(&dims, &rows), x.array(&dims, &columns));
    let root = x.b.tuple(&[x.b.lt_total_order(a, b), x.b.eq_total_order(a, b), x.b.lt(a, b)]);
    let pairs = || (0..n * n).map(|i| (i / n, i % n));
    let less: Vec<bool> = pairs().map(|(i, j)| i < j).collect();
    let equal: Vec<bool> = pairs().map(|(i, j)| i == j).collect();
    let ieee: Vec<bool> = pairs().map(|(i, j)| order[i] < order[j]).collect();
    x.gives(root, &[less, equal, ieee].map(|w| ArrayLiteral::from_bools(&dims, &w)));
}

#[test]
fn comparisons_in_the_total_order_broadcast_along_dimensions() {
    let x = Example::new();
    let table = x.array(&[2, 2], &[-0f32, 0.0, f32::NAN, 1.0]);
    let (row, column) = (x.array(&[2], &[0f32, f32::NAN]), x.array(&[2], &[0f32, f32::NAN]));
    let b = &x.b;
    let root = b.tuple(&[
        b.lt_total_order_in_dims(table, row, &[1]),
        b.ge_total_order_in_dims(table, column, &[0]),
        b.eq_total_order_in_dims(row, table, &[1]),
        b.ne_total_order_in_dims(table, row, &[1]),
        b.le_total_order_in_dims(table, b.constant_r0(0f32), &[]),
        b.gt_total_order_in_dims(table, column, &[0]),
    ]);
    let wants = [
        [true, true, false, true],
        [false, true, true, false],
        [false, false, false, false],
        [true, true, true, true],
        [true, true, false, false],
        [false, false, false, false],
    ];
    x.gives(root, &wants.map(|w| ArrayLiteral::from_bools(&[2, 2], &w)));
}

#[test]
fn sign_of_each_case() {
    let x = Example::new();
    let root = x.b.sign(x.array(&[5], &[-3f32, -0.0, f32::NAN, 0.0, 7.0]));
    let is_nan = x.b.ne(root, root);
    let safe = x.b.select(is_nan, x.b.broadcast(x.b.constant_r0(42f32), &[5]), root);
    x.gives_array(safe, &[5], &[-1f32, -0.0, 42.0, 0.0, 1.0]);
}

#[test]
fn parts_of_a_float_and_of_a_complex_number() {
    use num_complex::Complex;
    let x = Example::new();
    let f = x.array(&[2], &[1.5f32, -2.0]);
    let z = x.array(&[2], &[Complex::new(1f32, 2.0), Complex::new(-3.0, 4.0)]);
    let root = x.b.tuple(&[x.b.real(f), x.b.imag(f), x.b.real(z), x.b.imag(z)]);
    let want = [[1.5f32, -2.0], [0.0, 0.0], [1.0, -3.0], [2.0, 4.0]];
    x.gives(root, &want.map(|w| ArrayLiteral::from_elements(&[2], &w)));
}

#[test]
fn remainder_takes_the_sign_of_the_dividend() {
    let x = Example::new();
    let (a, b) = (x.array(&[4], &[7i32, -7, 7, -7]), x.array(&[4], &[3i32, 3, -3, -3]));
    let root = x.b.rem(a, b);
    x.gives_array(root, &[4], &[1i32, -1, 1, -1]);
}

#[test]
fn a_matrix_and_a_vector_along_named_dimensions() {
    let x = Example::new();
    let (m, r) = (x.array(&[2, 3], &[1i32, 2, 3, 4, 5, 6]), x.array(&[3], &[10i32, 20, 30]));
    let root = x.b.add_in_dims(m, r, &[1]);
    x.gives_array(root, &[2, 3], &[11i32, 22, 33, 14, 25, 36]);
    let x = Example::new();
    let (m, c) = (x.array(&[2, 3], &[1i32, 2, 3, 4, 5, 6]), x.array(&[2], &[10i32, 20]));
    let root = x.b.add_in_dims(m, c, &[0]);
    x.gives_array(root, &[2, 3], &[11i32, 12, 13, 24, 25, 26]);
    // Dimensions of size one stretch.
    let x = Example::new();
    let (m, c) = (x.array(&[2, 1], &[1i32, 2]), x.array(&[1, 3], &[10i32, 20, 30]));
    let root = x.b.add(m, c);
    x.gives_array(root, &[2, 3], &[11i32, 21, 31, 12, 22, 32]);
}
