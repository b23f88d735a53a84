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

/// Numbers for which every step of the formulas is exact.
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
    let norms = (0..3).map(|k| x.b.get_tuple_element(training, k)).collect::<Vec<Op>>();
    let parts = [norms[0], norms[1], norms[2], inference, x.b.get_tuple_element(grad, 2)];
    let root = x.b.tuple(&parts);
    let normal = ArrayLiteral::from_elements(&[4, 1], &[6f32, 14.0, 6.0, 14.0]);
    let (three, four) = (ArrayLiteral::from_elements(&[1], &[3f32]), ArrayLiteral::from_elements(&[1], &[4f32]));
    // The gradient with respect to the offset, the third, is the sum.
    let sum = ArrayLiteral::from_elements(&[1], &[12f32]);
    x.gives(root, &[normal.clone(), three, four, normal, sum]);
}
