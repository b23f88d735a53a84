//! Reductions, windows, maps and sorts.

use super::Example;
use brolga_compiler::builder::{Builder, Op, Padding, scalar_computation};
use brolga_compiler::hlo::{Module, Opcode};
use brolga_runtime::ElementType::{F32, S32};
use brolga_runtime::{ArrayLiteral, ElementType, Shape};

fn of(opcode: Opcode) -> Module {
    scalar_computation(opcode, F32).unwrap()
}

#[test]
fn reduce_one_dimension() {
    let x = Example::new();
    let root = x.b.reduce(x.array(&[4], &[10f32, 11.0, 12.0, 13.0]), x.scalar(0f32), &of(Opcode::Add), &[0]);
    x.gives_array(root, &[], &[46f32]);
}

#[test]
fn reduce_a_matrix_along_either_dimension() {
    for (dimension, want) in [(0, &[5f32, 7.0, 9.0][..]), (1, &[6.0, 15.0])] {
        let x = Example::new();
        let matrix = x.array(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let root = x.b.reduce(matrix, x.scalar(0f32), &of(Opcode::Add), &[dimension]);
        x.gives_array(root, &[want.len() as i64], want);
    }
}

#[test]
fn reduce_an_array_of_three_dimensions() {
    let block = [1f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    let rows = [6f32, 15.0];
    for (dimensions, sizes, want) in [
        (&[0][..], &[2, 3][..], block.map(|e| 4.0 * e).to_vec()),
        (&[2], &[4, 2], rows.repeat(4)),
        (&[0, 1], &[3], vec![20.0, 28.0, 36.0]),
        (&[0, 1, 2], &[], vec![84.0]),
    ] {
        let x = Example::new();
        let array = x.array(&[4, 2, 3], &block.repeat(4));
        let root = x.b.reduce(array, x.scalar(0f32), &of(Opcode::Add), dimensions);
        x.gives_array(root, sizes, &want);
    }
}

/// The function of the section, which takes the later of equal values, applied from the first element on.
#[test]
fn variadic_reduce_finds_the_maximum_and_its_place() {
    let f = Builder::new("f");
    let max = f.parameter(0, Shape::scalar(F32), "max");
    let arg_max = f.parameter(1, Shape::scalar(S32), "argmax");
    let value = f.parameter(2, Shape::scalar(F32), "value");
    let index = f.parameter(3, Shape::scalar(S32), "index");
    let newer = f.ge(value, max);
    f.tuple(&[f.select(newer, value, max), f.select(newer, index, arg_max)]);
    let f = f.build().unwrap();
    let x = Example::new();
    let values = x.array(&[7], &[3f32, 9.0, -4.0, 8.0, 2.0, 7.5, 1.0]);
    let places = x.b.iota(Shape::array(S32, [7]), 0);
    let root = x.b.reduce_many(&[values, places], &[x.scalar(f32::NEG_INFINITY), x.scalar(-1i32)], &f, &[0]);
    x.gives(root, &[ArrayLiteral::scalar(9f32), ArrayLiteral::scalar(1i32)]);
}

#[test]
fn reduce_window_of_two_by_three() {
    let x = Example::new();
    let input: Vec<f32> = (0..24).map(|i| (i * 7 % 24) as f32).collect();
    let root = x.b.reduce_window(
        x.array(&[4, 6], &input),
        x.scalar(f32::MIN),
        &of(Opcode::Maximum),
        &[2, 3],
        &[2, 3],
        &Padding::Valid,
    );
    let block =
        |i: usize, j: usize| (0..6).map(|k| input[(i * 2 + k / 3) * 6 + j * 3 + k % 3]).fold(f32::MIN, f32::max);
    x.gives_array(root, &[2, 2], &[block(0, 0), block(0, 1), block(1, 0), block(1, 1)]);
}

#[test]
fn reduce_window_with_each_padding() {
    for (padding, want) in [(Padding::Valid, &[100f32, 1.0][..]), (Padding::Same, &[1000.0, 10.0, 1.0])] {
        let x = Example::new();
        let input = x.array(&[5], &[10000f32, 1000.0, 100.0, 10.0, 1.0]);
        let root = x.b.reduce_window(input, x.scalar(f32::MAX), &of(Opcode::Minimum), &[3], &[2], &padding);
        x.gives_array(root, &[want.len() as i64], want);
    }
}

#[test]
fn map_with_a_further_argument() {
    let f = Builder::new("f");
    let scalar = |n: i64| f.parameter(n, Shape::scalar(F32), &format!("e{n}"));
    let [a, b, c, par] = [0, 1, 2, 3].map(scalar);
    f.add(f.mul(a, b), f.mul(c, par));
    let f = f.build().unwrap();
    let x = Example::new();
    let ops = [[1f32, 2.0], [3.0, 4.0], [5.0, 6.0]].map(|e| x.array(&[2], &e));
    let root = x.b.map_with_static_operands(&ops, &f, &[x.scalar(10f32)]);
    x.gives_array(root, &[2], &[53f32, 68.0]);
}

/// `select` is `>=`, `scatter` an addition, as in the figures.
fn select_and_scatter(
    dims: &[i64],
    operand: &[f32],
    strides: &[i64],
    source_dims: &[i64],
    source: &[f32],
    want: &[f32],
) {
    let ge = Builder::new("select");
    let (p, q) = (ge.parameter(0, Shape::scalar(F32), "p"), ge.parameter(1, Shape::scalar(F32), "q"));
    ge.ge(p, q);
    let x = Example::new();
    let (operand, source) = (x.array(dims, operand), x.array(source_dims, source));
    let select = ge.build().unwrap();
    let zero = x.scalar(0f32);
    let add = of(Opcode::Add);
    let root = x.b.select_and_scatter(operand, &select, &[2, 3], strides, &Padding::Valid, source, zero, &add);
    x.gives_array(root, dims, want);
}

#[test]
fn select_and_scatter_without_overlap() {
    let operand = [7f32, 2., 5., 3., 10., 2., 3., 8., 9., 3., 4., 2., 1., 5., 7., 5., 6., 1., 0., 6., 2., 7., 2., 8.];
    let mut want = [0f32; 24];
    (want[8], want[4], want[14], want[23]) = (2.0, 6.0, 3.0, 1.0);
    select_and_scatter(&[4, 6], &operand, &[2, 3], &[2, 2], &[2.0, 6.0, 3.0, 1.0], &want);
}

/// Both windows of the top row select the 9, which receives 2 + 6.
#[test]
fn select_and_scatter_with_overlap() {
    let operand = [7f32, 2., 5., 3., 8., 3., 8., 9., 3., 4., 1., 5., 7., 5., 6., 0., 6., 2., 10., 2.];
    let mut want = [0f32; 20];
    (want[7], want[12], want[18]) = (8.0, 3.0, 1.0);
    select_and_scatter(&[4, 5], &operand, &[2, 2], &[2, 2], &[2.0, 6.0, 3.0, 1.0], &want);
}

fn first_less(types: &[ElementType]) -> Module {
    let b = Builder::new("less");
    let parameters: Vec<Op> = types
        .iter()
        .flat_map(|&ty| [ty, ty])
        .enumerate()
        .map(|(n, ty)| b.parameter(n as i64, Shape::scalar(ty), &format!("p{n}")))
        .collect();
    b.lt(parameters[0], parameters[1]);
    b.build().unwrap()
}

#[test]
fn windows_with_holes_and_padding_of_every_kind() {
    let line = [1f32, 2.0, 3.0, 4.0, 5.0];
    for (base, window, padding, want) in [
        (1, 2, Padding::Same, &[2f32, 4.0, 6.0, 8.0, 4.0][..]),
        (1, 2, Padding::Valid, &[4.0, 6.0, 8.0]),
        (2, 1, Padding::Valid, &[1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0]),
        (2, 1, Padding::Same, &[1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 5.0]),
        (1, 2, Padding::Explicit(vec![(2, 0)]), &[1.0, 2.0, 4.0, 6.0, 8.0]),
    ] {
        let x = Example::new();
        let (operand, zero) = (x.array(&[5], &line), x.scalar(0f32));
        let add = scalar_computation(Opcode::Add, F32).unwrap();
        let root = x.b.reduce_window_dilated(&[operand], &[zero], &add, &[2], &[1], &[base], &[window], &padding);
        x.gives_array(root, &[want.len() as i64], want);
    }
}

#[test]
fn sort_of_three_operands() {
    let x = Example::new();
    let operands = [x.array(&[2], &[3i32, 1]), x.array(&[2], &[42i32, 50]), x.array(&[2], &[-3f32, 1.1])];
    let root = x.b.sort(&operands, &first_less(&[S32, S32, F32]), 0, false);
    x.gives(
        root,
        &[
            ArrayLiteral::from_elements(&[2], &[1i32, 3]),
            ArrayLiteral::from_elements(&[2], &[50i32, 42]),
            ArrayLiteral::from_elements(&[2], &[1.1f32, -3.0]),
        ],
    );
}

#[test]
fn sort_of_rows_and_of_columns() {
    let matrix = [3i32, 1, 2, 9, 7, 8];
    // No number, -1, is the last dimension.
    for (dimension, want) in [(0, [3i32, 1, 2, 9, 7, 8]), (1, [1, 2, 3, 7, 8, 9]), (-1, [1, 2, 3, 7, 8, 9])] {
        let x = Example::new();
        let root = x.b.sort(&[x.array(&[2, 3], &matrix)], &first_less(&[S32]), dimension, false);
        x.gives_array(root, &[2, 3], &want);
    }
}

#[test]
fn a_stable_sort_keeps_the_order_of_equals() {
    let x = Example::new();
    let keys = [2i32, 1, 2, 1, 0, 2];
    let operands = [x.array(&[6], &keys), x.array(&[6], &[0i32, 1, 2, 3, 4, 5])];
    let root = x.b.sort(&operands, &first_less(&[S32, S32]), 0, true);
    x.gives(
        root,
        &[
            ArrayLiteral::from_elements(&[6], &[0i32, 1, 1, 2, 2, 2]),
            ArrayLiteral::from_elements(&[6], &[4i32, 1, 3, 0, 2, 5]),
        ],
    );
}

/// Numbers for which the steps of the formulas are exact, but for a third.
#[test]
fn batch_norm_follows_its_formulas() {
    let x = Example::new();
    let operand = x.array(&[4, 1], &[1f32, 5.0, 1.0, 5.0]);
    let (scale, offset) = (x.array(&[1], &[6f32]), x.array(&[1], &[10f32]));
    // Mean 3, variance 4; with an epsilon of 5 the deviation is 3.
    let training = x.b.batch_norm_training(operand, scale, offset, 5.0, 1);
    let (mean, variance) = (x.array(&[1], &[3f32]), x.array(&[1], &[4f32]));
    let inference = x.b.batch_norm_inference(operand, scale, offset, mean, variance, 5.0, 1);
    let gradient = x.array(&[4, 1], &[1f32, 2.0, 3.0, 6.0]);
    let grad = x.b.batch_norm_grad(operand, scale, mean, variance, gradient, 5.0, 1);
    // The deviations are -2, 2, -2, 2. Of the gradients 1, 2, 3, 6, d is 3 and c, the mean of the gradients times the
    // deviations over 9, is 2 / 9 (over sigma squared and epsilon); the scale over the deviation is 2.
    let parts: Vec<Op> = (0..3).flat_map(|k| [training, grad].map(|of| x.b.get_tuple_element(of, k))).collect();
    let root = x.b.tuple(&[&parts[..], &[inference]].concat());
    let normal = ArrayLiteral::from_elements(&[4, 1], &[6f32, 14.0, 6.0, 14.0]);
    let (three, four) = (ArrayLiteral::from_elements(&[1], &[3f32]), ArrayLiteral::from_elements(&[1], &[4f32]));
    let (d, c) = (3f32, 2.0 / 9.0);
    let to_operand: Vec<f32> =
        [(1f32, -2f32), (2.0, 2.0), (3.0, -2.0), (6.0, 2.0)].iter().map(|(g, e)| 2.0 * (g - d - c * e)).collect();
    let to_operand = ArrayLiteral::from_elements(&[4, 1], &to_operand);
    // The sum of the gradients times the deviations, over 3.
    let to_scale = ArrayLiteral::from_elements(&[1], &[8f32 / 3.0]);
    let to_offset = ArrayLiteral::from_elements(&[1], &[12f32]);
    x.gives_within(root, &[normal.clone(), to_operand, three, to_scale, four, to_offset, normal], 1e-6);
}

/// SAME over 5 with windows of 3 and strides of 2 pads one place at each end: windows [.,7,5], [5,9,1], [1,9.5,.]. What is padded is
/// never chosen.
#[test]
fn select_and_scatter_with_same_padding() {
    let ge = Builder::new("select");
    let (p, q) = (ge.parameter(0, Shape::scalar(F32), "p"), ge.parameter(1, Shape::scalar(F32), "q"));
    ge.ge(p, q);
    let ge = ge.build().unwrap();
    // Whatever the sign, an element is chosen, never a zero of the padding.
    for (sign, want) in [(1f32, [12f32, 2.0, 22.0, 2.0, 32.0]), (-1.0, [2.0, 12.0, 2.0, 52.0, 2.0])] {
        let x = Example::new();
        let operand = x.array(&[5], &[7f32, 5.0, 9.0, 1.0, 9.5].map(|e| sign * e));
        let source = x.array(&[3], &[10f32, 20.0, 30.0]);
        // The initial value, no identity here, is at each place once.
        let (init, add) = (x.scalar(2f32), of(Opcode::Add));
        let root = x.b.select_and_scatter(operand, &ge, &[3], &[2], &Padding::Same, source, init, &add);
        x.gives_array(root, &[5], &want);
    }
}

/// Holes between the elements of the base and of the window take no part; the padding is outside of the dilated base.
#[test]
fn reduce_window_with_dilations() {
    let line = [1f32, 2.0, 4.0, 8.0];
    for (base, window, padding, want) in [
        (1, 2, (0, 0), &[5f32, 10.0][..]),
        (2, 1, (0, 0), &[1.0, 2.0, 2.0, 4.0, 4.0, 8.0]),
        (2, 2, (0, 0), &[3.0, 0.0, 6.0, 0.0, 12.0]),
        (2, 1, (1, 2), &[1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 8.0, 8.0, 0.0]),
        (1, 1, (-1, 0), &[6.0, 12.0]),
    ] {
        let x = Example::new();
        let (operand, zero) = (x.array(&[4], &line), x.scalar(0f32));
        let root = x.b.reduce_window_with_general_padding(
            &[operand],
            &[zero],
            &of(Opcode::Add),
            &[2],
            &[1],
            &[base],
            &[window],
            &[padding],
        );
        x.gives_array(root, &[want.len() as i64], want);
    }
}

/// The largest of each window of 2 by 2 and its place, over windows that overlap in both dimensions.
#[test]
fn variadic_reduce_window_over_two_dimensions() {
    let f = Builder::new("f");
    let max = f.parameter(0, Shape::scalar(F32), "max");
    let place = f.parameter(1, Shape::scalar(S32), "place");
    let value = f.parameter(2, Shape::scalar(F32), "value");
    let index = f.parameter(3, Shape::scalar(S32), "index");
    let newer = f.gt(value, max);
    f.tuple(&[f.select(newer, value, max), f.select(newer, index, place)]);
    let f = f.build().unwrap();
    let values = [3f32, 8.0, 1.0, 4.0, 9.0, 2.0, 7.0, 5.0, 6.0, 0.0, 12.0, 11.0];
    let mut want = (Vec::new(), Vec::new());
    for (i, j) in (0..6).map(|n| (n / 3, n % 3)) {
        let window = [(i, j), (i, j + 1), (i + 1, j), (i + 1, j + 1)].map(|(p, q)| p * 4 + q);
        let best = window.into_iter().max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap();
        want.0.push(values[best]);
        want.1.push(best as i32);
    }
    let x = Example::new();
    let operands = [x.array(&[3, 4], &values), x.array(&[3, 4], &(0..12).collect::<Vec<i32>>())];
    let inits = [x.scalar(f32::NEG_INFINITY), x.scalar(-1i32)];
    let root = x.b.reduce_window_many(&operands, &inits, &f, &[2, 2], &[1, 1], &Padding::Valid);
    x.gives(root, &[ArrayLiteral::from_elements(&[2, 3], &want.0), ArrayLiteral::from_elements(&[2, 3], &want.1)]);
}

/// Over two dimensions at once, in the order of the rows.
#[test]
fn variadic_reduce_over_two_dimensions() {
    let f = Builder::new("f");
    let [a, b, c, d] = [F32, S32, F32, S32].map(Shape::scalar);
    let (sum, count) = (f.parameter(0, a, "sum"), f.parameter(1, b, "count"));
    let (value, one) = (f.parameter(2, c, "value"), f.parameter(3, d, "one"));
    f.tuple(&[f.add(sum, value), f.add(count, one)]);
    let f = f.build().unwrap();
    let x = Example::new();
    let values: Vec<f32> = (0..24).map(|i| i as f32).collect();
    let operands = [x.array(&[2, 3, 4], &values), x.array(&[2, 3, 4], &[1i32; 24])];
    let root = x.b.reduce_many(&operands, &[x.scalar(0f32), x.scalar(0i32)], &f, &[0, 2]);
    x.gives(
        root,
        &[ArrayLiteral::from_elements(&[3], &[60f32, 92.0, 124.0]), ArrayLiteral::from_elements(&[3], &[8i32, 8, 8])],
    );
}

/// An initial value that is no identity enters once, from the left; the order of dimensions says nothing.
#[test]
fn reduce_takes_its_initial_value_once() {
    for dimensions in [[0, 1], [1, 0]] {
        let x = Example::new();
        let root =
            x.b.reduce(x.array(&[2, 2], &[1f32, 2.0, 3.0, 4.0]), x.scalar(100f32), &of(Opcode::Add), &dimensions);
        x.gives_array(root, &[], &[110f32]);
    }
    let x = Example::new();
    let root = x.b.reduce(x.array(&[0, 2], &[0f32; 0]), x.scalar(100f32), &of(Opcode::Add), &[0]);
    x.gives_array(root, &[2], &[100f32, 100.0]);
}

/// Rounded to the nearest with ties to even, past the range infinite, below it zero; NaN stays, and more bits than the type has do
/// nothing.
#[test]
fn reduce_precision_rounds_to_a_format() {
    let points = [1f32 + 1.0 / 1024.0, 1.0 + 1.0 / 2048.0, 1.0 + 3.0 / 2048.0, 65519.0, 65520.0, -1e30, 1e-30, -0.0];
    let halves = [1f32 + 1.0 / 1024.0, 1.0, 1.0 + 2.0 / 1024.0, 65504.0, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0];
    for (exponent, mantissa, want) in [
        (5, 10, halves),
        (8, 23, points),
        (11, 52, points),
        (8, 0, [1.0, 1.0, 1.0, 65536.0, 65536.0, -(2f32.powi(100)), 2f32.powi(-100), -0.0]),
        (1, 10, [0.0, 0.0, 0.0, f32::INFINITY, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0]),
    ] {
        let x = Example::new();
        let root = x.b.reduce_precision(x.array(&[8], &points), exponent, mantissa);
        x.gives_array(root, &[8], &want);
    }
    let x = Example::new();
    let rounded = x.b.reduce_precision(x.array(&[2], &[f32::NAN, f32::INFINITY]), 5, 10);
    let root = x.b.tuple(&[x.b.ne(rounded, rounded), x.b.is_finite(rounded)]);
    x.gives(root, &[ArrayLiteral::from_bools(&[2], &[true, false]), ArrayLiteral::from_bools(&[2], &[false, false])]);
    for (exponent, mantissa) in [(0, 10), (5, -1)] {
        let b = Builder::new("wrong");
        b.reduce_precision(b.parameter(0, Shape::scalar(F32), "x"), exponent, mantissa);
        assert!(b.build().is_err(), "an exponent bit is needed, and no fewer than no bits of the mantissa");
    }
}

/// Operands of unlike types, and a result of a third: the place of each element stays.
#[test]
fn map_to_another_type() {
    let f = Builder::new("f");
    let (a, n) = (f.parameter(0, Shape::scalar(F32), "a"), f.parameter(1, Shape::scalar(S32), "n"));
    f.gt(a, f.convert_element_type(n, F32));
    let f = f.build().unwrap();
    let x = Example::new();
    let root = x.b.map(&[x.array(&[2, 2], &[1f32, 2.5, 3.0, -1.0]), x.array(&[2, 2], &[1i32, 2, 4, -2])], &f);
    x.gives(root, &[ArrayLiteral::from_bools(&[2, 2], &[false, true, false, true])]);
}

/// The formulas with batch, feature and two spatial dimensions, summed in f64 beside the program.
#[test]
fn batch_norm_of_four_dimensions() {
    let (dims, feature) = ([3usize, 2, 2, 2], |i: usize| i / 4 % 2);
    let operand: Vec<f32> = (0..24).map(|i| ((i * 7) % 11) as f32 / 4.0 + 3.0 * feature(i) as f32).collect();
    let gradient: Vec<f32> = (0..24).map(|i| ((i * 5) % 9) as f32 / 3.0 - 1.0).collect();
    let (scale, offset, epsilon) = ([1.5f32, -0.5], [0.25f32, 2.0], 0.125f64);
    let f = |v: &[f32], i: usize| f64::from(v[i]);
    let mean_of = |value: &dyn Fn(usize) -> f64| {
        [0, 1].map(|l| (0..24).filter(|&i| feature(i) == l).map(value).sum::<f64>() / 12.0)
    };
    let mean = mean_of(&|i| f(&operand, i));
    let variance = mean_of(&|i| (f(&operand, i) - mean[feature(i)]).powi(2));
    let c = mean_of(&|i| f(&gradient, i) * (f(&operand, i) - mean[feature(i)]) / (variance[feature(i)] + epsilon));
    let d = mean_of(&|i| f(&gradient, i));
    let deviation = |l: usize| (variance[l] + epsilon).sqrt();
    let every = |value: &dyn Fn(usize, usize) -> f64| {
        let elements: Vec<f32> = (0..24).map(|i| value(i, feature(i)) as f32).collect();
        ArrayLiteral::from_elements(&dims.map(|d| d as i64), &elements)
    };
    let each = |values: [f64; 2]| ArrayLiteral::from_elements(&[2], &values.map(|v| v as f32));
    let normal = every(&|i, l| f64::from(scale[l]) * (f(&operand, i) - mean[l]) / deviation(l) + f64::from(offset[l]));
    let to_operand = every(&|i, l| {
        f64::from(scale[l]) / deviation(l) * (f(&gradient, i) - d[l] - c[l] * (f(&operand, i) - mean[l]))
    });
    let to_scale = each([0, 1].map(|l| 12.0 * c[l] * deviation(l)));
    let to_offset = each(d.map(|d| 12.0 * d));

    let x = Example::new();
    let dims = dims.map(|d| d as i64);
    let (o, g) = (x.array(&dims, &operand), x.array(&dims, &gradient));
    let (s, t) = (x.array(&[2], &scale), x.array(&[2], &offset));
    let (m, v) = (x.input(each(mean)), x.input(each(variance)));
    let training = x.b.batch_norm_training(o, s, t, epsilon, 1);
    let inference = x.b.batch_norm_inference(o, s, t, m, v, epsilon, 1);
    let grad = x.b.batch_norm_grad(o, s, m, v, g, epsilon, 1);
    let mut parts: Vec<Op> = [training, grad]
        .iter()
        .flat_map(|&of| (0..3).map(|k| x.b.get_tuple_element(of, k)).collect::<Vec<_>>())
        .collect();
    parts.push(inference);
    let root = x.b.tuple(&parts);
    let want = [normal.clone(), each(mean), each(variance), to_operand, to_scale, to_offset, normal];
    x.gives_within(root, &want, 1e-5);
}

/// The epsilon keeps the division from zero: where all elements are equal, what is left is the offset.
#[test]
fn batch_norm_of_equal_elements() {
    let x = Example::new();
    let (scale, offset) = (x.array(&[1], &[3f32]), x.array(&[1], &[0.5f32]));
    let all = x.b.batch_norm_training(x.array(&[4, 1], &[7f32; 4]), scale, offset, 0.001, 1);
    let root = x.b.tuple(&[x.b.get_tuple_element(all, 0), x.b.get_tuple_element(all, 2)]);
    x.gives(root, &[ArrayLiteral::from_elements(&[4, 1], &[0.5f32; 4]), ArrayLiteral::from_elements(&[1], &[0f32])]);
}

/// With several operands and keys that are equal, a second pair of the comparator's parameters breaks the tie.
#[test]
fn sort_with_a_second_key() {
    let b = Builder::new("less");
    let p: Vec<Op> = (0..4).map(|n| b.parameter(n, Shape::scalar(S32), &format!("p{n}"))).collect();
    b.or(b.lt(p[0], p[1]), b.and(b.eq(p[0], p[1]), b.gt(p[2], p[3])));
    let x = Example::new();
    let operands = [x.array(&[5], &[2i32, 1, 2, 1, 0]), x.array(&[5], &[5i32, 6, 7, 8, 9])];
    let root = x.b.sort(&operands, &b.build().unwrap(), 0, false);
    x.gives(
        root,
        &[
            ArrayLiteral::from_elements(&[5], &[0i32, 1, 1, 2, 2]),
            ArrayLiteral::from_elements(&[5], &[9i32, 8, 6, 7, 5]),
        ],
    );
}

/// The largest first, of equals the first; the smallest, where that is asked for; indices beside.
#[test]
fn top_k_of_rows() {
    for (largest, values, places) in
        [(true, [9f32, 7.0, 3.0, 3.0], [1i32, 2, 0, 1]), (false, [2.0, 7.0, 1.0, 3.0], [0, 2, 2, 0])]
    {
        let x = Example::new();
        let root = x.b.top_k(x.array(&[2, 3], &[2f32, 9.0, 7.0, 3.0, 3.0, 1.0]), 2, largest);
        x.gives(root, &[ArrayLiteral::from_elements(&[2, 2], &values), ArrayLiteral::from_elements(&[2, 2], &places)]);
    }
}

/// Running sums, forwards and backwards: each step takes the slice and the carry, and yields both.
#[test]
fn scan_forwards_and_backwards() {
    let f = Builder::new("f");
    let (slice, carry) = (f.parameter(0, Shape::scalar(F32), "slice"), f.parameter(1, Shape::scalar(F32), "carry"));
    let sum = f.add(slice, carry);
    f.tuple(&[sum, sum]);
    let f = f.build().unwrap();
    for (reverse, sums) in [(false, [11f32, 13.0, 17.0]), (true, [17.0, 16.0, 14.0])] {
        let x = Example::new();
        let root = x.b.scan(&[x.array(&[3], &[1f32, 2.0, 4.0])], &[x.scalar(10f32)], &f, 0, reverse);
        x.gives(root, &[ArrayLiteral::from_elements(&[3], &sums), ArrayLiteral::scalar(17f32)]);
    }
}

#[test]
fn sort_without_a_dimension_takes_the_last() {
    let source = "HloModule m\nless {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  ROOT r = pred[] compare(a, b), \
                  direction=LT\n}\nENTRY main {\n  x = s32[2,3] parameter(0)\n  ROOT y = s32[2,3] sort(x), to_apply=less\n}\n";
    let module = brolga_compiler::text::parse(source).unwrap();
    let input = [ArrayLiteral::from_elements(&[2, 3], &[3i32, 1, 2, 9, 7, 8])];
    for got in [super::interpreted(&module, &input), super::compiled(&module, &input)] {
        assert_eq!(got, [ArrayLiteral::from_elements(&[2, 3], &[1i32, 2, 3, 7, 8, 9])]);
    }
}
