//! Dynamic slices, gather and scatter, and sizes that are only known when the program runs.

use super::{Example, b43};
use brolga_compiler::builder::{Builder, GatherDimensions, ScatterDimensions, Shape, scalar_computation};
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

/// The index vectors lie along dimension 0 or 1 of the indices, not along the last one.
#[test]
fn gather_with_index_vectors_inside() {
    let starts = [[0i64, 2, 5], [8, 3, 1]];
    let numbers = |index_vector_dim| GatherDimensions {
        offset_dims: vec![1, 2],
        start_index_map: vec![0, 1],
        index_vector_dim,
        ..GatherDimensions::default()
    };
    let want: Vec<f32> = (0..3)
        .flat_map(|g| (0..4).map(move |o| ((starts[0][g] + o / 2) * 100 + starts[1][g] + o % 2) as f32))
        .collect();
    let x = Example::new();
    let root = x.b.gather(grid(&x), x.array(&[2, 3], starts.as_flattened()), &numbers(0), &[2, 2], false);
    x.gives_array(root, &[3, 2, 2], &want);
    // Of rank 3, in the middle: two batches, of which each has its own three vectors.
    let both: Vec<i64> = [starts, [starts[1], starts[0].map(|i| i / 2)]].as_flattened().as_flattened().to_vec();
    let x = Example::new();
    let more = GatherDimensions { offset_dims: vec![2, 3], ..numbers(1) };
    let root = x.b.gather(grid(&x), x.array(&[2, 2, 3], &both), &more, &[2, 2], false);
    let mut all = want;
    for (column, row) in starts[0].into_iter().zip(starts[1]) {
        let column = column / 2;
        all.extend((0..4).map(|o| ((row + o / 2) * 100 + column + o % 2) as f32));
    }
    x.gives_array(root, &[2, 3, 2, 2], &all);
}

/// A start outside is moved inwards, each index by itself; no rule of the section speaks of it.
#[test]
fn gather_clamps_its_starts() {
    let x = Example::new();
    let numbers = GatherDimensions {
        offset_dims: vec![1, 2],
        start_index_map: vec![1, 0],
        index_vector_dim: 1,
        ..GatherDimensions::default()
    };
    let starts = [100i64, -5, -1, 99];
    let root = x.b.gather(grid(&x), x.array(&[2, 2], &starts), &numbers, &[1, 2], false);
    x.gives_array(root, &[2, 1, 2], &[9f32, 10.0, 1500.0, 1501.0]);
}

/// Two operands of unlike types are updated together: the computation sees both present values, then both updates.
#[test]
fn scatter_of_several_operands() {
    let b = Builder::new("both");
    let (f, s) = (Shape::scalar(ElementType::F32), Shape::scalar(ElementType::S32));
    let (p, q) = (b.parameter(0, f.clone(), "p"), b.parameter(1, s.clone(), "q"));
    let (u, v) = (b.parameter(2, f, "u"), b.parameter(3, s, "v"));
    // The larger wins, and with it its label.
    let newer = b.gt(u, p);
    b.tuple(&[b.select(newer, u, p), b.select(newer, v, q)]);
    let larger = b.build().unwrap();
    let numbers = ScatterDimensions {
        update_window_dims: vec![1],
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDimensions::default()
    };
    let x = Example::new();
    let operands = [x.array(&[3, 2], &[5f32, 0.0, 0.0, 5.0, 5.0, 5.0]), x.array(&[3, 2], &[-1i32; 6])];
    let updates = [x.array(&[3, 2], &[1f32, 2.0, 3.0, 4.0, 9.0, 1.5]), x.array(&[3, 2], &[10i32, 11, 20, 21, 30, 31])];
    // Rows 0, 1 and 0 again, which takes updates in their order.
    let root = x.b.scatter(&operands, x.array(&[3], &[0i32, 1, 0]), &updates, &larger, &numbers, false, false);
    x.gives(
        root,
        &[
            ArrayLiteral::from_elements(&[3, 2], &[9f32, 2.0, 3.0, 5.0, 5.0, 5.0]),
            ArrayLiteral::from_elements(&[3, 2], &[30i32, 11, 20, -1, -1, -1]),
        ],
    );
}

/// Index vectors along dimension 0, which name the operand's dimensions in the other order.
#[test]
fn scatter_with_index_vectors_inside() {
    let numbers = ScatterDimensions {
        inserted_window_dims: vec![0, 1],
        scatter_dims_to_operand_dims: vec![1, 0],
        index_vector_dim: 0,
        ..ScatterDimensions::default()
    };
    let add = scalar_computation(Opcode::Add, ElementType::F32).unwrap();
    let x = Example::new();
    let (operand, updates) = (x.array(&[2, 3], &[0f32; 6]), x.array(&[3], &[1f32, 2.0, 4.0]));
    // Columns 2, 0, 2 of rows 0, 1, 0.
    let indices = x.array(&[2, 3], &[2i32, 0, 2, 0, 1, 0]);
    let root = x.b.scatter(&[operand], indices, &[updates], &add, &numbers, false, false);
    x.gives_array(root, &[2, 3], &[0f32, 0.0, 5.0, 2.0, 0.0, 0.0]);
}

/// Batching dimensions run along: row `i` of the indices looks into row `i` of the operand.
#[test]
fn gather_and_scatter_with_batching_dimensions() {
    let gathering = GatherDimensions {
        collapsed_slice_dims: vec![1],
        start_index_map: vec![1],
        index_vector_dim: 2,
        operand_batching_dims: vec![0],
        start_indices_batching_dims: vec![0],
        ..GatherDimensions::default()
    };
    let scattering = ScatterDimensions {
        inserted_window_dims: vec![1],
        scatter_dims_to_operand_dims: vec![1],
        index_vector_dim: 2,
        input_batching_dims: vec![0],
        scatter_indices_batching_dims: vec![0],
        ..ScatterDimensions::default()
    };
    let add = scalar_computation(Opcode::Add, ElementType::F32).unwrap();
    let x = Example::new();
    let operand = x.array(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let indices = x.array(&[2, 2], &[2i32, 0, 1, 1]);
    let taken = x.b.gather(operand, indices, &gathering, &[1, 1], false);
    let put = x.b.scatter(&[operand], indices, &[taken], &add, &scattering, false, false);
    let root = x.b.tuple(&[taken, put]);
    x.gives(
        root,
        &[
            ArrayLiteral::from_elements(&[2, 2], &[3f32, 1.0, 5.0, 5.0]),
            ArrayLiteral::from_elements(&[2, 3], &[2f32, 2.0, 6.0, 4.0, 15.0, 6.0]),
        ],
    );
}

/// Each index is moved inwards by itself; those of an unsigned type are never negative.
#[test]
fn dynamic_update_slice_clamps_each_index() {
    for (start, want) in [(-3, [5f32, 6.0, 2.0, 3.0, 4.0]), (4, [0.0, 1.0, 2.0, 5.0, 6.0])] {
        let x = Example::new();
        let root = x.b.dynamic_update_slice(x.array(&[5], &LINE), x.array(&[2], &[5f32, 6.0]), &[x.scalar(start)]);
        x.gives_array(root, &[5], &want);
    }
    let x = Example::new();
    let root = x.b.dynamic_slice(b43(&x), &[x.scalar(u8::MAX), x.scalar(1u8)], &[1, 2]);
    x.gives_array(root, &[1, 2], &[10f32, 11.0]);
}

/// A window of the updates may be smaller than the operand's dimension; where it lies, the index vector says.
#[test]
fn scatter_of_windows_smaller_than_the_operand() {
    let numbers = ScatterDimensions {
        update_window_dims: vec![0, 1],
        scatter_dims_to_operand_dims: vec![1],
        index_vector_dim: 1,
        ..ScatterDimensions::default()
    };
    let add = scalar_computation(Opcode::Add, ElementType::F32).unwrap();
    let x = Example::new();
    let (operand, updates) = (x.array(&[2, 3], &[0f32; 6]), x.array(&[1, 2, 2], &[1f32, 2.0, 3.0, 4.0]));
    let root = x.b.scatter(&[operand], x.array(&[2], &[1i32, 0]), &[updates], &add, &numbers, false, false);
    // Updates [0, :, 0] = 1, 3 begin at column 1; [0, :, 1] = 2, 4 at column 0.
    x.gives_array(root, &[2, 3], &[2f32, 5.0, 3.0, 0.0, 0.0, 0.0]);
}

/// What a caller promises of the indices changes nothing where it is true.
#[test]
fn promises_about_indices_change_nothing() {
    let gathering = GatherDimensions {
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: 1,
        ..GatherDimensions::default()
    };
    let scattering = ScatterDimensions {
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDimensions::default()
    };
    let add = scalar_computation(Opcode::Add, ElementType::F32).unwrap();
    for promised in [false, true] {
        let x = Example::new();
        let (operand, sorted) = (x.array(&[5], &LINE), x.array(&[3], &[0i32, 2, 3]));
        let taken = x.b.gather(operand, sorted, &gathering, &[1], promised);
        let put = x.b.scatter(&[operand], sorted, &[taken], &add, &scattering, promised, promised);
        let root = x.b.tuple(&[taken, put]);
        x.gives(
            root,
            &[
                ArrayLiteral::from_elements(&[3], &[0f32, 2.0, 3.0]),
                ArrayLiteral::from_elements(&[5], &[0f32, 1.0, 4.0, 6.0, 4.0]),
            ],
        );
    }
}

/// The size follows the value; larger than the bound, or negative, it is the nearest that can be.
#[test]
fn get_dimension_size_of_what_was_set() {
    for (size, want) in [(3i32, 3i32), (0, 0), (4, 4), (9, 4), (-2, 0)] {
        let x = Example::new();
        let set = x.b.set_dimension_size(x.array(&[2, 4], &[1f32; 8]), x.scalar(size), 1);
        let add = scalar_computation(Opcode::Add, ElementType::F32).unwrap();
        let sum = x.b.reduce_all(set, x.b.constant_r0(0f32), &add);
        let root = x.b.tuple(&[x.b.get_dimension_size(set, 1), x.b.get_dimension_size(set, 0), sum]);
        x.gives(
            root,
            &[ArrayLiteral::scalar(want), ArrayLiteral::scalar(2i32), ArrayLiteral::scalar(2.0 * want as f32)],
        );
    }
}

/// The true sizes arrive as values; elements keep their row-major order.
#[test]
fn dynamic_reshape_takes_its_sizes_as_values() {
    let x = Example::new();
    let flat = x.array(&[6], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let matrix = x.b.dynamic_reshape(flat, &[x.scalar(2i32), x.scalar(3i32)], &[2, 3], &[true, false]);
    let add = scalar_computation(Opcode::Add, ElementType::F32).unwrap();
    let columns = x.b.reduce(matrix, x.b.constant_r0(0f32), &add, &[0]);
    let root = x.b.tuple(&[x.b.get_dimension_size(matrix, 0), columns]);
    x.gives(root, &[ArrayLiteral::scalar(2i32), ArrayLiteral::from_elements(&[3], &[5f32, 7.0, 9.0])]);
}

/// The text asks for sizes above zero; XLA takes an empty slice.
#[test]
fn dynamic_slice_of_size_zero_is_empty() {
    let x = Example::new();
    let matrix = x.array(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let root = x.b.dynamic_slice(matrix, &[x.scalar(1i32), x.scalar(9i32)], &[2, 0]);
    x.gives_array::<f32>(root, &[2, 0], &[]);
}
