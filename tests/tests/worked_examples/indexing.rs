//! Dynamic slices, gather and scatter, and sizes that are only known when the program runs.

use super::{Example, b43};
use brolga_compiler::builder::{GatherDimensions, ScatterDimensions, scalar_computation};
use brolga_compiler::hlo::Opcode;
use brolga_runtime::{ArrayLiteral, ElementType};

const LINE: [f32; 5] = [0.0, 1.0, 2.0, 3.0, 4.0];

#[test]
fn dynamic_slice_one_dimensional() {
    let x = Example::new();
    let root = x.b.dynamic_slice(x.array(&[5], &LINE), &[x.scalar(2i32)], &[2]);
    x.gives_array(root, &[2], &[2f32, 3.0]);
}

#[test]
fn dynamic_slice_two_dimensional() {
    let x = Example::new();
    let root = x.b.dynamic_slice(b43(&x), &[x.scalar(2i32), x.scalar(1i32)], &[2, 2]);
    x.gives_array(root, &[2, 2], &[7f32, 8.0, 10.0, 11.0]);
}

#[test]
fn dynamic_slice_clamps_each_index() {
    for (start, want) in [(-7, [0f32, 1.0]), (3, [3.0, 4.0]), (4, [3.0, 4.0]), (i32::MAX, [3.0, 4.0])] {
        let x = Example::new();
        let root = x.b.dynamic_slice(x.array(&[5], &LINE), &[x.scalar(start)], &[2]);
        x.gives_array(root, &[2], &want);
    }
}

#[test]
fn dynamic_update_slice_one_dimensional() {
    let x = Example::new();
    let root = x.b.dynamic_update_slice(x.array(&[5], &LINE), x.array(&[2], &[5f32, 6.0]), &[x.scalar(2i32)]);
    x.gives_array(root, &[5], &[0f32, 1.0, 5.0, 6.0, 4.0]);
}

#[test]
fn dynamic_update_slice_two_dimensional() {
    let x = Example::new();
    let u = x.array(&[3, 2], &[12f32, 13.0, 14.0, 15.0, 16.0, 17.0]);
    let root = x.b.dynamic_update_slice(b43(&x), u, &[x.scalar(1i32), x.scalar(1i32)]);
    x.gives_array(root, &[4, 3], &[0f32, 1.0, 2.0, 3.0, 12.0, 13.0, 6.0, 14.0, 15.0, 9.0, 16.0, 17.0]);
}

/// An array of 16 by 11 whose element at (i, j) is 100 i + j.
fn grid(x: &Example) -> brolga_compiler::builder::Op {
    let elements: Vec<f32> = (0..176).map(|i| (i / 11 * 100 + i % 11) as f32).collect();
    x.array(&[16, 11], &elements)
}

const STARTS: [i64; 10] = [0, 0, 8, 5, 3, 2, 1, 4, 6, 1];

#[test]
fn gather_of_five_slices() {
    let x = Example::new();
    let numbers = GatherDimensions {
        offset_dims: vec![1, 2],
        start_index_map: vec![0, 1],
        index_vector_dim: 1,
        ..GatherDimensions::default()
    };
    let root = x.b.gather(grid(&x), x.array(&[5, 2], &STARTS), &numbers, &[8, 6], false);
    let mut want = Vec::new();
    for g in STARTS.as_chunks::<2>().0 {
        want.extend((0..8).flat_map(|o0| (0..6).map(move |o1| ((g[0] + o0) * 100 + g[1] + o1) as f32)));
    }
    x.gives_array(root, &[5, 8, 6], &want);
}

#[test]
fn gather_with_more_dimensions_of_indices() {
    let x = Example::new();
    let numbers = GatherDimensions {
        offset_dims: vec![2, 3],
        start_index_map: vec![0, 1],
        index_vector_dim: 2,
        ..GatherDimensions::default()
    };
    let starts: Vec<i64> = (0..40).map(|i| if i % 2 == 0 { i % 9 } else { i % 6 }).collect();
    let root = x.b.gather(grid(&x), x.array(&[4, 5, 2], &starts), &numbers, &[8, 6], false);
    let mut want = Vec::new();
    for g in starts.as_chunks::<2>().0 {
        want.extend((0..8).flat_map(|o0| (0..6).map(move |o1| ((g[0] + o0) * 100 + g[1] + o1) as f32)));
    }
    x.gives_array(root, &[4, 5, 8, 6], &want);
}

#[test]
fn gather_nd_takes_whole_rows() {
    let x = Example::new();
    let numbers = GatherDimensions {
        offset_dims: vec![2],
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: 2,
        ..GatherDimensions::default()
    };
    let rows: Vec<i64> = (0..20).map(|i| i * 7 % 16).collect();
    let root = x.b.gather(grid(&x), x.array(&[4, 5, 1], &rows), &numbers, &[1, 11], false);
    let want: Vec<f32> = rows.iter().flat_map(|r| (0..11).map(move |o| (r * 100 + o) as f32)).collect();
    x.gives_array(root, &[4, 5, 11], &want);
}

#[test]
fn an_index_vector_dimension_equal_to_the_rank_means_scalars() {
    let numbers = |index_vector_dim| GatherDimensions {
        offset_dims: vec![2],
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim,
        ..GatherDimensions::default()
    };
    let x = Example::new();
    let rows: Vec<i64> = (0..6).collect();
    let plain = x.b.gather(grid(&x), x.array(&[2, 3], &rows), &numbers(2), &[1, 11], false);
    let want: Vec<f32> = rows.iter().flat_map(|r| (0..11).map(move |o| (r * 100 + o) as f32)).collect();
    x.gives_array(plain, &[2, 3, 11], &want);
}

#[test]
fn scatter_puts_back_what_gather_took() {
    let x = Example::new();
    let operand = x.array(&[4, 3], &[0f32; 12]);
    let updates = x.array(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let numbers = ScatterDimensions {
        update_window_dims: vec![1],
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDimensions::default()
    };
    let add = scalar_computation(Opcode::Add, ElementType::F32).unwrap();
    let root = x.b.scatter(&[operand], x.array(&[2], &[3i32, 1]), &[updates], &add, &numbers, false, true);
    x.gives_array(root, &[4, 3], &[0f32, 0.0, 0.0, 4.0, 5.0, 6.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0]);
}

#[test]
fn scatter_hands_the_present_value_first_and_skips_what_is_outside() {
    let x = Example::new();
    let operand = x.array(&[3], &[10i32, 20, 30]);
    let updates = x.array(&[3], &[1i32, 2, 3]);
    let numbers = ScatterDimensions {
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDimensions::default()
    };
    let subtract = scalar_computation(Opcode::Subtract, ElementType::S32).unwrap();
    let root = x.b.scatter(&[operand], x.array(&[3], &[2i32, 3, -1]), &[updates], &subtract, &numbers, false, false);
    x.gives_array(root, &[3], &[10i32, 20, 29]);
}

#[test]
fn set_dimension_size_hides_what_is_past_it() {
    let x = Example::new();
    let v = x.array(&[10], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
    let five = x.b.set_dimension_size(v, x.scalar(5i32), 0);
    let six = x.b.set_dimension_size(v, x.scalar(6i32), 0);
    let add = scalar_computation(Opcode::Add, ElementType::F32).unwrap();
    let multiply = scalar_computation(Opcode::Multiply, ElementType::F32).unwrap();
    let (zero, one) = (x.b.constant_r0(0f32), x.b.constant_r0(1f32));
    let results = [
        x.b.reduce_all(five, zero, &add),
        x.b.reduce_all(five, one, &multiply),
        x.b.reduce_all(six, zero, &add),
        x.b.get_dimension_size(five, 0),
        x.b.get_dimension_size(v, 0),
    ];
    let root = x.b.tuple(&results);
    let floats = [15f32, 120.0, 21.0].map(ArrayLiteral::scalar);
    let sizes = [5i32, 10].map(ArrayLiteral::scalar);
    x.gives(root, &[&floats[..], &sizes[..]].concat());
}
