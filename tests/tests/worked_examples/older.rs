//! Forms that only older versions of the operation semantics have.

use super::{Example, b43};
use brolga_compiler::builder::{Builder, DotDimensions, GatherDimensions, Padding};
use brolga_runtime::{ArrayLiteral, ElementType, NativeType, Shape};

const LINE: [f32; 5] = [0.0, 1.0, 2.0, 3.0, 4.0];

#[test]
fn clamp_takes_the_operand_first() {
    let x = Example::new();
    let (operand, min, max) = (x.array(&[3], &[-1i32, 5, 9]), x.scalar(0i32), x.scalar(6i32));
    let root = x.b.clamp_operand_first(operand, min, max);
    x.gives_array(root, &[3], &[0i32, 5, 6]);
}

#[test]
fn logical_operations_take_truth_values() {
    let x = Example::new();
    let (p, q) = (x.pred(&[4], &[true, true, false, false]), x.pred(&[4], &[true, false, true, false]));
    let root = x.b.tuple(&[x.b.logical_and(p, q), x.b.logical_or(p, q), x.b.logical_not(p)]);
    let want = [[true, false, false, false], [true, true, true, false], [false, false, true, true]];
    x.gives(root, &want.map(|w| ArrayLiteral::from_bools(&[4], &w)));
    let b = Builder::new("wrong");
    b.logical_not(b.parameter(0, Shape::array(ElementType::S32, [4]), "x"));
    assert!(b.build().is_err());
}

#[test]
fn sign_of_a_negative_zero_is_zero() {
    let x = Example::new();
    let root = x.b.sign_without_negative_zero(x.array(&[4], &[-3f32, -0.0, 0.0, 7.0]));
    x.gives_array(root, &[4], &[-1f32, 0.0, 0.0, 1.0]);
}

#[test]
fn dynamic_slice_with_a_vector_of_indices() {
    let x = Example::new();
    let root = x.b.dynamic_slice_from_vector(x.array(&[5], &LINE), x.array(&[1], &[2i32]), &[2]);
    x.gives_array(root, &[2], &[2f32, 3.0]);
    let x = Example::new();
    let root = x.b.dynamic_slice_from_vector(b43(&x), x.array(&[2], &[2i32, 1]), &[2, 2]);
    x.gives_array(root, &[2, 2], &[7f32, 8.0, 10.0, 11.0]);
}

#[test]
fn dynamic_slice_modulo_the_size() {
    for (start, want) in [(2, [2f32, 3.0]), (4, [4.0, 0.0]), (5, [0.0, 1.0]), (11, [1.0, 2.0]), (-1, [4.0, 0.0])] {
        let x = Example::new();
        let root = x.b.dynamic_slice_modulo(x.array(&[5], &LINE), x.array(&[1], &[start]), &[2]);
        x.gives_array(root, &[2], &want);
    }
    let x = Example::new();
    let root = x.b.dynamic_slice_modulo(b43(&x), x.array(&[2], &[3u32, 2]), &[2, 2]);
    x.gives_array(root, &[2, 2], &[11f32, 9.0, 2.0, 0.0]);
}

#[test]
fn dynamic_update_slice_with_a_vector_of_indices() {
    let x = Example::new();
    let (a, u) = (x.array(&[5], &LINE), x.array(&[2], &[5f32, 6.0]));
    let root = x.b.dynamic_update_slice_from_vector(a, u, x.array(&[1], &[2i32]));
    x.gives_array(root, &[5], &[0f32, 1.0, 5.0, 6.0, 4.0]);
}

#[test]
fn dynamic_update_slice_modulo_the_size() {
    for (start, want) in [
        (2, [0f32, 1.0, 5.0, 6.0, 4.0]),
        (4, [6.0, 1.0, 2.0, 3.0, 5.0]),
        (5, [5.0, 6.0, 2.0, 3.0, 4.0]),
        (-2, [0.0, 1.0, 2.0, 5.0, 6.0]),
    ] {
        let x = Example::new();
        let (a, u) = (x.array(&[5], &LINE), x.array(&[2], &[5f32, 6.0]));
        let root = x.b.dynamic_update_slice_modulo(a, u, x.array(&[1], &[start]));
        x.gives_array(root, &[5], &want);
    }
    let x = Example::new();
    let u = x.array(&[3, 2], &[12f32, 13.0, 14.0, 15.0, 16.0, 17.0]);
    let root = x.b.dynamic_update_slice_modulo(b43(&x), u, x.array(&[2], &[1i32, 1]));
    x.gives_array(root, &[4, 3], &[0f32, 1.0, 2.0, 3.0, 12.0, 13.0, 6.0, 14.0, 15.0, 9.0, 16.0, 17.0]);
}

/// Neither the size of a dimension nor the sum of a start and a size fits a type of eight bits.
#[test]
fn modulo_forms_take_indices_narrower_than_sizes() {
    fn both<T: NativeType>(n: i64, start: T, at: usize) {
        let line: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let x = Example::new();
        let root = x.b.dynamic_slice_modulo(x.array(&[n], &line), x.array(&[1], &[start]), &[2]);
        x.gives_array(root, &[2], &[line[at], line[(at + 1) % line.len()]]);
        let x = Example::new();
        let (a, u) = (x.array(&[n], &line), x.array(&[2], &[-1f32, -2.0]));
        let root = x.b.dynamic_update_slice_modulo(a, u, x.array(&[1], &[start]));
        let mut want = line.clone();
        (want[at], want[(at + 1) % line.len()]) = (-1.0, -2.0);
        x.gives_array(root, &[n], &want);
    }
    both(100, 50i8, 50);
    both(100, -1i8, 99);
    both(100, -128i8, 72);
    both(100, 127i8, 27);
    both(300, 127i8, 127);
    both(300, -1i8, 299);
    both(200, 199u8, 199);
    both(200, 255u8, 55);
    both(300, 255u8, 255);
    both(70_000, -1i16, 69_999);
    both(5, i32::MIN, 2);
    both(5, u64::MAX, 0);
}

#[test]
fn slice_has_no_strides_and_no_empty_result() {
    let x = Example::new();
    let root = x.b.slice_without_strides(b43(&x), &[2, 1], &[4, 3]);
    x.gives_array(root, &[2, 2], &[7f32, 8.0, 10.0, 11.0]);
    let b = Builder::new("empty");
    let x = b.parameter(0, Shape::array(ElementType::F32, [4]), "x");
    b.slice_without_strides(x, &[2], &[2]);
    assert!(b.build().is_err());
}

#[test]
fn sort_takes_one_operand_and_no_comparator() {
    let x = Example::new();
    let root = x.b.sort_ascending(x.array(&[5], &[3f32, -0.0, 0.0, -7.5, 1.0]));
    x.gives_array(root, &[5], &[-7.5f32, -0.0, 0.0, 1.0, 3.0]);
}

#[test]
fn dot_contracts_the_last_dimension_with_the_one_before_the_last() {
    let x = Example::new();
    let values = |n: usize| (0..n).map(|i| (i % 5) as f32).collect::<Vec<f32>>();
    let (lhs, rhs) = (x.array(&[2, 3, 4], &values(24)), x.array(&[5, 4, 2], &values(40)));
    let numbers = DotDimensions { lhs_contracting: vec![2], rhs_contracting: vec![1], ..DotDimensions::default() };
    let dot = x.b.dot_last_dimensions(lhs, rhs);
    assert_eq!(x.b.shape(dot).unwrap(), Shape::array(ElementType::F32, [2, 3, 5, 2]));
    let same = x.b.eq(dot, x.b.dot_general(lhs, rhs, &numbers));
    x.gives(same, &[ArrayLiteral::from_bools(&[2, 3, 5, 2], &[true; 60])]);
    let x = Example::new();
    let root = x.b.dot_last_dimensions(x.array(&[2, 2], &[1f32, 2.0, 3.0, 4.0]), x.array(&[2], &[1f32, 10.0]));
    x.gives_array(root, &[2], &[21f32, 43.0]);
}

/// Half the numbers are ones, near enough, and all of them are where the mean says so.
#[test]
fn rng_bernoulli_of_a_mean() {
    for (mean, low, high) in [(0f32, 0u32, 0u32), (1.0, 4096, 4096), (0.5, 1500, 2600)] {
        let b = Builder::new("coins");
        b.rng_bernoulli(b.constant_r0(mean), Shape::array(ElementType::U32, [4096]));
        let module = b.build().unwrap();
        let got = brolga_compiler::interp::run(&module, &[], &Default::default()).unwrap();
        let ones: u32 = got.as_array().unwrap().as_slice::<u32>().iter().sum();
        assert!((low..=high).contains(&ones), "{ones} ones of 4096 with mean {mean}");
    }
    let b = Builder::new("wrong");
    b.rng_bernoulli(b.constant_r0(0.5f32), Shape::array(ElementType::F32, [4]));
    assert!(b.build().is_err());
}

#[test]
fn batch_norm_grad_yields_the_offset_second() {
    let x = Example::new();
    let (operand, grad) = (x.array(&[4, 1], &[1f32, 5.0, 1.0, 5.0]), x.array(&[4, 1], &[1f32, 2.0, 3.0, 6.0]));
    let [scale, mean, variance] = [6f32, 3.0, 4.0].map(|v| x.array(&[1], &[v]));
    let older = x.b.batch_norm_grad_offset_first(operand, scale, mean, variance, grad, 5.0, 1);
    let newer = x.b.batch_norm_grad(operand, scale, mean, variance, grad, 5.0, 1);
    let part = |of, k| x.b.get_tuple_element(of, k);
    let same = [x.b.eq(part(older, 1), part(newer, 2)), x.b.eq(part(older, 2), part(newer, 1)), part(older, 1)];
    let root = x.b.tuple(&same);
    let yes = ArrayLiteral::from_bools(&[1], &[true]);
    x.gives(root, &[yes.clone(), yes, ArrayLiteral::from_elements(&[1], &[12f32])]);
}

/// The computation takes a whole table beside the element.
#[test]
fn map_with_a_static_array() {
    let f = Builder::new("picks");
    let x = f.parameter(0, Shape::scalar(ElementType::F32), "x");
    let i = f.parameter(1, Shape::scalar(ElementType::S32), "i");
    let table = f.parameter(2, Shape::array(ElementType::F32, [4]), "table");
    let scale = f.parameter(3, Shape::scalar(ElementType::F32), "scale");
    f.add(f.mul(x, scale), f.reshape(f.dynamic_slice(table, &[i], &[1]), &[]));
    let picks = f.build().unwrap();
    let x = Example::new();
    let elements = x.array(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let indices = x.array(&[2, 3], &[3i32, 0, 1, 2, 2, 0]);
    let (table, scale) = (x.array(&[4], &[0.5f32, 0.25, 0.125, 0.0625]), x.scalar(10f32));
    let root = x.b.map_with_static_operands(&[elements, indices], &picks, &[table, scale]);
    x.gives_array(root, &[2, 3], &[10.0625f32, 20.5, 30.25, 40.125, 50.125, 60.5]);
    let x = Example::new();
    let (elements, indices) = (x.array::<f32>(&[0, 3], &[]), x.array::<i32>(&[0, 3], &[]));
    let (table, scale) = (x.array(&[4], &[0f32; 4]), x.scalar(10f32));
    let root = x.b.map_with_static_operands(&[elements, indices], &picks, &[table, scale]);
    x.gives_array::<f32>(root, &[0, 3], &[]);
}

#[test]
fn convolutions_have_no_group_counts() {
    let x = Example::new();
    let (lhs, rhs) = (x.array(&[1, 1, 4], &[1f32, 2.0, 3.0, 4.0]), x.array(&[1, 1, 2], &[1f32, 10.0]));
    let plain = x.b.conv_without_groups(lhs, rhs, &[2], &Padding::Valid);
    let padded = x.b.conv_with_general_padding_without_groups(lhs, rhs, &[1], &[(1, 0)], &[], &[2]);
    let root = x.b.tuple(&[plain, padded]);
    let want = [
        ArrayLiteral::from_elements(&[1, 1, 2], &[21f32, 43.0]),
        ArrayLiteral::from_elements(&[1, 1, 3], &[20f32, 31.0, 42.0]),
    ];
    x.gives(root, &want);
}

#[test]
fn gather_takes_a_promise_of_unique_indices() {
    let x = Example::new();
    let (operand, indices) = (x.array(&[4], &[1f32, 2.0, 3.0, 4.0]), x.array(&[2, 1], &[3i32, 1]));
    let numbers = GatherDimensions {
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: 1,
        ..Default::default()
    };
    let root = x.b.gather_with_unique_indices(operand, indices, &numbers, &[1], false, true);
    x.gives_array(root, &[2], &[4f32, 2.0]);
}

#[test]
fn logical_operations_broadcast_along_dimensions() {
    let x = Example::new();
    let table = x.pred(&[2, 3], &[true, true, false, false, true, false]);
    let row = x.pred(&[3], &[true, false, false]);
    let column = x.pred(&[2], &[false, true]);
    let root = x.b.tuple(&[x.b.logical_and_in_dims(table, row, &[1]), x.b.logical_or_in_dims(column, table, &[0])]);
    let want = [[true, false, false, false, false, false], [true, true, false, true, true, true]];
    x.gives(root, &want.map(|w| ArrayLiteral::from_bools(&[2, 3], &w)));
    let b = Builder::new("wrong");
    let ints = b.parameter(0, Shape::array(ElementType::S32, [4]), "x");
    b.logical_and_in_dims(ints, ints, &[]);
    assert!(b.build().is_err());
}
