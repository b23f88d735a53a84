//! Sections of elementwise operations.

use super::{Example, compiled, interpreted};
use brolga_compiler::builder::{Builder, ComparisonDirection, ElementType, Op, Shape};
use brolga_runtime::ArrayLiteral;

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

type InDims = fn(&Builder, Op, Op, &[i64]) -> Op;
type Plain = fn(&Builder, Op, Op) -> Op;

/// The form for operands of unlike rank is the plain one of the smaller operand broadcast, along rows and along columns, and
/// whichever side it is on.
fn along_dimensions(pairs: &[(Plain, InDims)], m: &ArrayLiteral, r: &ArrayLiteral, c: &ArrayLiteral) {
    for (plain, in_dims) in pairs {
        for (small, dimension) in [(r, 1), (c, 0)] {
            let x = Example::new();
            let (m, s) = (x.input(m.clone()), x.input(small.clone()));
            let wide = x.b.broadcast_in_dim(s, &[2, 3], &[dimension]);
            let root = x.b.tuple(&[
                in_dims(&x.b, m, s, &[dimension]),
                in_dims(&x.b, s, m, &[dimension]),
                plain(&x.b, m, wide),
                plain(&x.b, wide, m),
            ]);
            let (module, inputs) = x.parts(root);
            for got in [interpreted(&module, &inputs), compiled(&module, &inputs)] {
                assert_eq!(got[0], got[2]);
                assert_eq!(got[1], got[3]);
            }
        }
    }
}

#[test]
fn every_binary_operation_along_named_dimensions() {
    let floats: &[(Plain, InDims)] = &[
        (|b, l, r| b.add(l, r), |b, l, r, d| b.add_in_dims(l, r, d)),
        (|b, l, r| b.sub(l, r), |b, l, r, d| b.sub_in_dims(l, r, d)),
        (|b, l, r| b.mul(l, r), |b, l, r, d| b.mul_in_dims(l, r, d)),
        (|b, l, r| b.div(l, r), |b, l, r, d| b.div_in_dims(l, r, d)),
        (|b, l, r| b.rem(l, r), |b, l, r, d| b.rem_in_dims(l, r, d)),
        (|b, l, r| b.pow(l, r), |b, l, r, d| b.pow_in_dims(l, r, d)),
        (|b, l, r| b.max(l, r), |b, l, r, d| b.max_in_dims(l, r, d)),
        (|b, l, r| b.min(l, r), |b, l, r, d| b.min_in_dims(l, r, d)),
        (|b, l, r| b.atan2(l, r), |b, l, r, d| b.atan2_in_dims(l, r, d)),
        (|b, l, r| b.complex(l, r), |b, l, r, d| b.complex_in_dims(l, r, d)),
        (|b, l, r| b.eq(l, r), |b, l, r, d| b.eq_in_dims(l, r, d)),
        (|b, l, r| b.ne(l, r), |b, l, r, d| b.ne_in_dims(l, r, d)),
        (|b, l, r| b.ge(l, r), |b, l, r, d| b.ge_in_dims(l, r, d)),
        (|b, l, r| b.gt(l, r), |b, l, r, d| b.gt_in_dims(l, r, d)),
        (|b, l, r| b.le(l, r), |b, l, r, d| b.le_in_dims(l, r, d)),
        (|b, l, r| b.lt(l, r), |b, l, r, d| b.lt_in_dims(l, r, d)),
    ];
    let f = |dims: &[i64], e: &[f32]| ArrayLiteral::from_elements(dims, e);
    let matrix = f(&[2, 3], &[1.5, 2.0, 3.0, 4.0, 5.5, 6.0]);
    along_dimensions(floats, &matrix, &f(&[3], &[2.0, 2.0, 0.5]), &f(&[2], &[1.5, 4.0]));
    let integers: &[(Plain, InDims)] = &[
        (|b, l, r| b.and(l, r), |b, l, r, d| b.and_in_dims(l, r, d)),
        (|b, l, r| b.or(l, r), |b, l, r, d| b.or_in_dims(l, r, d)),
        (|b, l, r| b.xor(l, r), |b, l, r, d| b.xor_in_dims(l, r, d)),
        (|b, l, r| b.mulhi(l, r), |b, l, r, d| b.mulhi_in_dims(l, r, d)),
        (|b, l, r| b.shift_left(l, r), |b, l, r, d| b.shift_left_in_dims(l, r, d)),
        (|b, l, r| b.shift_right_arithmetic(l, r), |b, l, r, d| b.shift_right_arithmetic_in_dims(l, r, d)),
        (|b, l, r| b.shift_right_logical(l, r), |b, l, r, d| b.shift_right_logical_in_dims(l, r, d)),
    ];
    let s = |dims: &[i64], e: &[i32]| ArrayLiteral::from_elements(dims, e);
    let matrix = s(&[2, 3], &[-17, 5, i32::MAX, 12, -1, i32::MIN]);
    along_dimensions(integers, &matrix, &s(&[3], &[3, 1, 7]), &s(&[2], &[2, 5]));
}

/// Arithmetic on elements, where the section says what comes out.
#[test]
fn binary_operations_on_elements() {
    let x = Example::new();
    let (a, b) = (x.array(&[4], &[7i32, -7, 6, 1]), x.array(&[4], &[2i32, 2, -4, 31]));
    let results = [
        x.b.add(a, b),
        x.b.sub(a, b),
        x.b.mul(a, b),
        x.b.div(a, b),
        x.b.max(a, b),
        x.b.min(a, b),
        x.b.and(a, b),
        x.b.or(a, b),
        x.b.xor(a, b),
        x.b.shift_left(a, b),
        x.b.shift_right_arithmetic(a, b),
        x.b.shift_right_logical(a, b),
        x.b.pow(a, x.b.abs(b)),
        x.b.mulhi(a, b),
    ];
    let root = x.b.tuple(&results);
    let pairs = [(7i32, 2i32), (-7, 2), (6, -4), (1, 31)];
    let of = |f: &dyn Fn(i32, i32) -> i32| ArrayLiteral::from_elements(&[4], &pairs.map(|(a, b)| f(a, b)));
    // Shifts by the width or more, and by negative amounts, leave nothing, or copies of the sign.
    let fits = |b: i32| (0..32).contains(&b);
    x.gives(
        root,
        &[
            of(&|a, b| a + b),
            of(&|a, b| a - b),
            of(&|a, b| a * b),
            of(&|a, b| a / b),
            of(&|a, b| a.max(b)),
            of(&|a, b| a.min(b)),
            of(&|a, b| a & b),
            of(&|a, b| a | b),
            of(&|a, b| a ^ b),
            of(&|a, b| if fits(b) { a << b } else { 0 }),
            of(&|a, b| if fits(b) { a >> b } else { a >> 31 }),
            of(&|a, b| if fits(b) { (a as u32 >> b) as i32 } else { 0 }),
            of(&|a, b| a.wrapping_pow(b.unsigned_abs())),
            of(&|a, b| ((i64::from(a) * i64::from(b)) >> 32) as i32),
        ],
    );
}

/// What the section leaves to the implementation is one value here, in every engine.
#[test]
fn integer_division_that_overflows() {
    let x = Example::new();
    let (a, b) = (x.array(&[3], &[7i32, i32::MIN, -7]), x.array(&[3], &[0i32, -1, 0]));
    let (u, z) = (x.array(&[2], &[7u32, 0]), x.array(&[2], &[0u32, 0]));
    let root = x.b.tuple(&[x.b.div(a, b), x.b.rem(a, b), x.b.div(u, z), x.b.rem(u, z)]);
    x.gives(
        root,
        &[
            ArrayLiteral::from_elements(&[3], &[-1i32, i32::MIN, -1]),
            ArrayLiteral::from_elements(&[3], &[7i32, 0, -7]),
            ArrayLiteral::from_elements(&[2], &[u32::MAX, u32::MAX]),
            ArrayLiteral::from_elements(&[2], &[7u32, 0]),
        ],
    );
}

/// As IEEE 754 has it: a NaN is unlike everything, zeros are equal; and every direction as a value.
#[test]
fn comparisons_of_floats() {
    let x = Example::new();
    let (a, b) = (x.array(&[5], &[1f32, 2.0, f32::NAN, -0.0, 3.0]), x.array(&[5], &[1f32, 3.0, f32::NAN, 0.0, 2.0]));
    use ComparisonDirection::{Eq, Ge, Gt, Le, Lt, Ne};
    let root = x.b.tuple(&[Eq, Ne, Ge, Gt, Le, Lt].map(|d| x.b.compare(a, b, d)));
    let want = [
        [true, false, false, true, false],
        [false, true, true, false, true],
        [true, false, false, true, true],
        [false, false, false, false, true],
        [true, true, false, true, false],
        [false, true, false, false, false],
    ];
    x.gives(root, &want.map(|w| ArrayLiteral::from_bools(&[5], &w)));
}

#[test]
fn every_comparison_in_the_total_order() {
    let order = [-f32::NAN, f32::NEG_INFINITY, -0.0, 0.0, f32::INFINITY, f32::NAN];
    let x = Example::new();
    let (a, b) = (x.array(&[5], &order[..5]), x.array(&[5], &order[1..]));
    let total: [Plain; 6] = [
        |b, l, r| b.lt_total_order(l, r),
        |b, l, r| b.le_total_order(l, r),
        |b, l, r| b.gt_total_order(l, r),
        |b, l, r| b.ge_total_order(l, r),
        |b, l, r| b.eq_total_order(l, r),
        |b, l, r| b.ne_total_order(l, r),
    ];
    let results: Vec<Op> = total.iter().flat_map(|f| [f(&x.b, a, b), f(&x.b, a, a)]).collect();
    let root = x.b.tuple(&results);
    let want = [(true, false), (true, true), (false, false), (false, true), (false, true), (true, false)];
    let all: Vec<ArrayLiteral> =
        want.iter().flat_map(|&(up, same)| [up, same].map(|w| ArrayLiteral::from_bools(&[5], &[w; 5]))).collect();
    x.gives(root, &all);
}

/// Bounds may be arrays too; where the lower is above the upper, the upper is the result.
#[test]
fn clamp_with_bounds_of_the_same_shape() {
    let x = Example::new();
    let (min, max) = (x.array(&[4], &[0i32, 0, 4, 9]), x.array(&[4], &[3i32, 1, 6, 2]));
    let root = x.b.clamp(min, x.array(&[4], &[5i32, -1, 5, 5]), max);
    x.gives_array(root, &[4], &[3i32, 0, 5, 2]);
    let b = Builder::new("wrong");
    let v = |n: i64, d: i64| b.parameter(n, Shape::array(ElementType::S32, [d]), "v");
    b.clamp(v(0, 3), v(1, 4), v(2, 3));
    assert!(b.build().is_err());
}

#[test]
fn conversions_between_kinds_of_numbers() {
    let x = Example::new();
    let f = x.array(&[5], &[2.9f32, -2.9, f32::NAN, 1e20, 16_777_217.0]);
    let i = x.array(&[2], &[16_777_217i32, -1]);
    let root = x.b.tuple(&[
        x.b.convert_element_type(f, ElementType::S32),
        x.b.convert_element_type(f, ElementType::Pred),
        // To the nearest, ties to even.
        x.b.convert_element_type(i, ElementType::F32),
        x.b.convert_element_type(i, ElementType::U8),
        x.b.convert_element_type(x.pred(&[2], &[true, false]), ElementType::F32),
    ]);
    x.gives(
        root,
        &[
            ArrayLiteral::from_elements(&[5], &[2i32, -2, 0, i32::MAX, 16_777_216]),
            ArrayLiteral::from_bools(&[5], &[true; 5]),
            ArrayLiteral::from_elements(&[2], &[16_777_216f32, -1.0]),
            ArrayLiteral::from_elements(&[2], &[1u8, 255]),
            ArrayLiteral::from_elements(&[2], &[1f32, 0.0]),
        ],
    );
}

/// Up where the random fraction is below the part that is cut off.
#[test]
fn stochastic_convert_follows_its_random_bits() {
    let x = Example::new();
    let quarter = 1u32 << 30;
    let root = x.b.stochastic_convert(
        x.array(&[4], &[2.5f32, 2.5, -2.25, -2.25]),
        x.array(&[4], &[quarter, 3 * quarter, quarter - 1, quarter]),
        ElementType::S32,
    );
    x.gives_array(root, &[4], &[3i32, 2, -3, -2]);
}

/// Of truth values a sum is an or and a product an and, and so are the larger and the smaller.
#[test]
fn arithmetic_on_truth_values() {
    let x = Example::new();
    let (p, q) = (x.pred(&[4], &[true, true, false, false]), x.pred(&[4], &[true, false, true, false]));
    let ors = [x.b.add(p, q), x.b.max(p, q), x.b.or(p, q)];
    let ands = [x.b.mul(p, q), x.b.min(p, q), x.b.and(p, q)];
    let root = x.b.tuple(&[&ors[..], &ands[..], &[x.b.xor(p, q)]].concat());
    let [or, and, xor] = [[true, true, true, false], [true, false, false, false], [false, true, true, false]]
        .map(|w| ArrayLiteral::from_bools(&[4], &w));
    x.gives(root, &[or.clone(), or.clone(), or, and.clone(), and.clone(), and, xor]);
}

/// Where sections ask for one type T, two are refused, in the operation's name; tuples are no arrays.
#[test]
fn operands_of_unlike_types_are_refused() {
    type Wrong = fn(&Builder, Op, Op, Op) -> Op;
    let wrong: [(&str, Wrong); 13] = [
        ("add", |b, f, i, _| b.add(f, i)),
        ("compare", |b, f, i, _| b.lt(f, i)),
        ("clamp", |b, f, i, _| b.clamp(i, f, f)),
        ("select", |b, f, i, _| b.select(b.constant_pred(true), f, i)),
        ("concatenate", |b, f, i, _| b.concat_in_dim(&[f, i], 0)),
        ("pad", |b, f, _, _| b.pad(f, b.constant_r0(1i32), &[brolga_compiler::builder::PaddingDimension::default()])),
        ("dynamic-update-slice", |b, f, i, _| b.dynamic_update_slice(f, i, &[b.constant_r0(0i32)])),
        ("dynamic-slice", |b, f, _, _| b.dynamic_slice(f, &[b.constant_r0(0f32)], &[1])),
        ("complex", |b, f, i, _| b.complex(f, i)),
        ("convert", |b, _, _, t| b.convert_element_type(t, ElementType::S32)),
        ("bitcast-convert", |b, _, _, t| b.bitcast_convert_type(t, ElementType::S32)),
        ("get-dimension-size", |b, _, _, t| b.get_dimension_size(t, 0)),
        ("set-dimension-size", |b, _, _, t| b.set_dimension_size(t, b.constant_r0(1i32), 0)),
    ];
    for (operation, make) in wrong {
        let b = Builder::new("wrong");
        let f = b.parameter(0, Shape::array(ElementType::F32, [4]), "f");
        let i = b.parameter(1, Shape::array(ElementType::S32, [4]), "i");
        make(&b, f, i, b.tuple(&[f]));
        let error = b.build().unwrap_err().to_string();
        assert!(error.contains(operation), "{operation}: {error}");
    }
}
