//! Sections that move elements.

use super::{Example, b43, v};
use brolga_compiler::builder::{Op, PaddingDimension};
use brolga_runtime::{ArrayLiteral, ElementType, Shape};

#[test]
fn broadcast() {
    let x = Example::new();
    let root = x.b.broadcast(x.scalar(2.0f32), &[2, 3]);
    x.gives_array(root, &[2, 3], &[2.0f32; 6]);
    // output[i0, ..., j0, ...] = operand[j0, ...]
    let x = Example::new();
    let root = x.b.broadcast(x.array(&[2], &[5i32, 6]), &[3]);
    x.gives_array(root, &[3, 2], &[5i32, 6, 5, 6, 5, 6]);
}

#[test]
fn broadcast_in_dim() {
    let x = Example::new();
    let root = x.b.broadcast_in_dim(x.array(&[2, 1], &[1i32, 2]), &[2, 3, 2], &[0, 1]);
    x.gives_array(root, &[2, 3, 2], &[1i32, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
}

#[test]
fn bitcast_convert_type_between_widths() {
    use ElementType::{F16, F32};
    for (from, dims, to, want) in [
        (F32, &[10][..], F16, &[10, 2][..]),
        (F32, &[], F16, &[2]),
        (F16, &[10, 2], F32, &[10]),
        (ElementType::S32, &[3], ElementType::S8, &[3, 4]),
    ] {
        let x = Example::new();
        let shape = brolga_runtime::ArrayShape::new(from, dims);
        let mut data = ArrayLiteral::zeros(&shape);
        data.bytes_mut().iter_mut().enumerate().for_each(|(i, b)| *b = (i * 37 % 120) as u8);
        let bytes = data.bytes().to_vec();
        let root = x.b.bitcast_convert_type(x.input(data), to);
        let want = ArrayLiteral::from_bytes(&brolga_runtime::ArrayShape::new(to, want), &bytes).unwrap();
        x.gives(root, &[want]);
    }
}

#[test]
fn collapse() {
    let flat: Vec<f32> = [10, 20, 30, 40].iter().flat_map(|t| [0, 1, 2, 5, 6, 7].map(|k| (t + k) as f32)).collect();
    for (dimensions, want) in [(&[0, 1, 2][..], &[24][..]), (&[0, 1], &[8, 3]), (&[1, 2], &[4, 6])] {
        let x = Example::new();
        let root = x.b.collapse(v(&x), dimensions);
        x.gives_array(root, want, &flat);
    }
    for wrong in [&[1, 0][..], &[0, 2]] {
        let x = Example::new();
        x.b.collapse(v(&x), wrong);
        assert!(x.b.build().is_err(), "{wrong:?} is no valid set of dimensions");
    }
}

#[test]
fn concatenate_one_dimensional() {
    let x = Example::new();
    let parts = [x.array(&[2], &[2i32, 3]), x.array(&[2], &[4i32, 5]), x.array(&[2], &[6i32, 7])];
    let root = x.b.concat_in_dim(&parts, 0);
    x.gives_array(root, &[6], &[2i32, 3, 4, 5, 6, 7]);
}

#[test]
fn concatenate_two_dimensional() {
    let x = Example::new();
    let (a, b) = (x.array(&[3, 2], &[1i32, 2, 3, 4, 5, 6]), x.array(&[1, 2], &[7i32, 8]));
    let root = x.b.concat_in_dim(&[a, b], 0);
    x.gives_array(root, &[4, 2], &[1i32, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn iota() {
    let rows: Vec<i32> = (0..32).map(|i| i / 8).collect();
    let columns: Vec<i32> = (0..32).map(|i| i % 8).collect();
    for (dimension, want) in [(0, rows), (1, columns)] {
        let x = Example::new();
        let root = x.b.iota(Shape::array(ElementType::S32, [4, 8]), dimension);
        x.gives_array(root, &[4, 8], &want);
    }
}

#[test]
fn pad_figures() {
    let matrix = [1i32, 2, 3, 4, 5, 6];
    let at = |low, high, interior| PaddingDimension { low, high, interior };
    let edges = [1i32, 2, 3, 0, 0, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0];
    let mut first = Vec::new();
    edges.as_chunks::<5>().0.iter().for_each(|row| first.extend([0].iter().chain(row).copied()));
    let between = vec![1i32, 0, 2, 0, 3, 0, 0, 0, 0, 0, 4, 0, 5, 0, 6];
    let mut both = Vec::new();
    for row in between.as_chunks::<5>().0 {
        both.extend([0].iter().chain(row).chain(&[0, 0]).copied());
    }
    both.extend([0; 8]);
    for (config, dims, want) in [
        ([at(0, 1, 0), at(1, 2, 0)], [3, 6], first),
        ([at(0, 0, 1), at(0, 0, 1)], [3, 5], between),
        ([at(0, 1, 1), at(1, 2, 1)], [4, 8], both),
    ] {
        let x = Example::new();
        let root = x.b.pad(x.array(&[2, 3], &matrix), x.scalar(0i32), &config);
        x.gives_array(root, &dims, &want);
    }
    // Nothing to pad is the operand; negative amounts cut what interior padding has spread.
    let x = Example::new();
    let root = x.b.pad(x.array(&[3], &[1i32, 2, 3]), x.scalar(9i32), &[at(0, 0, 0)]);
    x.gives_array(root, &[3], &[1i32, 2, 3]);
    let x = Example::new();
    let root = x.b.pad(x.array(&[3], &[1i32, 2, 3]), x.scalar(9i32), &[at(-1, -1, 1)]);
    x.gives_array(root, &[3], &[9i32, 2, 9]);
}

#[test]
fn reshape_in_order() {
    let flat: Vec<f32> = [10, 20, 30, 40].iter().flat_map(|t| [0, 1, 2, 5, 6, 7].map(|k| (t + k) as f32)).collect();
    for sizes in [&[24][..], &[8, 3]] {
        let x = Example::new();
        let root = x.b.reshape_in_order(v(&x), &[0, 1, 2], sizes);
        x.gives_array(root, sizes, &flat);
    }
}

#[test]
fn reshape_out_of_order() {
    let turned: Vec<f32> = [0, 1, 2, 5, 6, 7].iter().flat_map(|k| [10, 20, 30, 40].map(|t| (t + k) as f32)).collect();
    for sizes in [&[24][..], &[8, 3], &[2, 6, 2]] {
        let x = Example::new();
        let root = x.b.reshape_in_order(v(&x), &[1, 2, 0], sizes);
        x.gives_array(root, sizes, &turned);
    }
}

#[test]
fn reshape_of_single_elements() {
    let x = Example::new();
    let root = x.b.reshape_in_order(x.array(&[1, 1], &[5f32]), &[0, 1], &[]);
    x.gives_array(root, &[], &[5f32]);
    let x = Example::new();
    let root = x.b.reshape_in_order(x.scalar(5f32), &[], &[1, 1]);
    x.gives_array(root, &[1, 1], &[5f32]);
}

#[test]
fn rev_maps_each_index() {
    // i becomes N - 1 - i along each dimension to reverse.
    for dims in [&[0][..], &[1], &[0, 1]] {
        let x = Example::new();
        let root = x.b.rev(b43(&x), dims);
        let mut want = vec![0f32; 12];
        for i in 0..4 {
            for j in 0..3 {
                let p = if dims.contains(&0) { 3 - i } else { i };
                let q = if dims.contains(&1) { 2 - j } else { j };
                want[p * 3 + q] = (i * 3 + j) as f32;
            }
        }
        x.gives_array(root, &[4, 3], &want);
    }
}

#[test]
fn slice_one_dimensional() {
    let x = Example::new();
    let root = x.b.slice(x.array(&[5], &[0f32, 1.0, 2.0, 3.0, 4.0]), &[2], &[4], &[1]);
    x.gives_array(root, &[2], &[2f32, 3.0]);
}

#[test]
fn slice_two_dimensional() {
    let x = Example::new();
    let root = x.b.slice(b43(&x), &[2, 1], &[4, 3], &[1, 1]);
    x.gives_array(root, &[2, 2], &[7f32, 8.0, 10.0, 11.0]);
}

#[test]
fn transpose_is_a_reshape_in_order() {
    for permutation in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
        let x = Example::new();
        let operand = v(&x);
        let dims = [4, 2, 3];
        let permuted: Vec<i64> = permutation.iter().map(|&p| dims[p as usize]).collect();
        let by_reshape = x.b.reshape_in_order(operand, &permutation, &permuted);
        let transposed = x.b.transpose(operand, &permutation);
        assert_eq!(x.b.shape(transposed).unwrap(), Shape::array(ElementType::F32, permuted));
        let same = x.b.eq(transposed, by_reshape);
        x.gives(same, &[ArrayLiteral::from_bools(&permutation.map(|p| dims[p as usize]), &[true; 24])]);
    }
}

#[test]
fn bitcast_convert_type_of_one_width() {
    let x = Example::new();
    let root = x.b.bitcast_convert_type(x.array(&[3], &[0x3F80_0000i32, i32::MIN, 0x7FC0_0001]), ElementType::F32);
    let back = x.b.bitcast_convert_type(root, ElementType::U32);
    x.gives_array(back, &[3], &[0x3F80_0000u32, 1 << 31, 0x7FC0_0001]);
    let x = Example::new();
    let root = x.b.bitcast_convert_type(x.array(&[2], &[0x3F80_0000i32, i32::MIN]), ElementType::F32);
    x.gives_array(root, &[2], &[1f32, -0.0]);
}

/// The last dimension holds the parts of one element, those of the lowest bits first; another size is refused.
#[test]
fn bitcast_convert_type_asks_for_whole_elements() {
    let x = Example::new();
    let root = x.b.bitcast_convert_type(x.scalar(0x0403_0201i32), ElementType::S8);
    x.gives_array(root, &[4], &[1i8, 2, 3, 4]);
    let x = Example::new();
    x.b.bitcast_convert_type(x.array(&[2, 3], &[0i8; 6]), ElementType::S32);
    assert!(x.b.build().is_err());
}

/// A dimension may go anywhere and ones stretch; other sizes must fit, each dimension has a place of its own.
#[test]
fn broadcast_in_dim_puts_dimensions_anywhere() {
    let x = Example::new();
    let root = x.b.broadcast_in_dim(x.array(&[2], &[1i32, 2]), &[2, 3], &[0]);
    x.gives_array(root, &[2, 3], &[1i32, 1, 1, 2, 2, 2]);
    let x = Example::new();
    let root = x.b.broadcast_in_dim(x.array(&[1, 2], &[1i32, 2]), &[3, 2, 2], &[0, 2]);
    x.gives_array(root, &[3, 2, 2], &[1i32, 2].repeat(6));
    for (sizes, numbers) in [(&[3, 3][..], &[0][..]), (&[2, 3], &[5]), (&[2, 3], &[]), (&[2, 3], &[0, 1])] {
        let x = Example::new();
        x.b.broadcast_in_dim(x.array(&[2], &[1i32, 2]), sizes, numbers);
        assert!(x.b.build().is_err(), "{sizes:?} {numbers:?}");
    }
}

/// Along the first, the middle and the last dimension, one operand and many; what is ragged, or has no dimension, is refused.
#[test]
fn concatenate_along_each_dimension() {
    for (dimension, dims, want) in [
        (0, [4, 1, 2], [1i32, 2, 3, 4, 5, 6, 7, 8]),
        (1, [2, 2, 2], [1, 2, 5, 6, 3, 4, 7, 8]),
        (2, [2, 1, 4], [1, 2, 5, 6, 3, 4, 7, 8]),
    ] {
        let x = Example::new();
        let (a, b) = (x.array(&[2, 1, 2], &[1i32, 2, 3, 4]), x.array(&[2, 1, 2], &[5i32, 6, 7, 8]));
        let root = x.b.concat_in_dim(&[a, b], dimension);
        x.gives_array(root, &dims, &want);
    }
    let x = Example::new();
    let root = x.b.concat_in_dim(&[x.array(&[2], &[1i32, 2])], 0);
    x.gives_array(root, &[2], &[1i32, 2]);
    for dimension in [0, 1] {
        let x = Example::new();
        x.b.concat_in_dim(&[x.array(&[2, 2], &[1i32; 4]), x.array(&[3, 3], &[1i32; 9])], dimension);
        assert!(x.b.build().is_err());
    }
    let x = Example::new();
    x.b.concat_in_dim(&[x.scalar(1i32), x.scalar(2i32)], 0);
    assert!(x.b.build().is_err());
}

/// Of a float type it is the integers, converted.
#[test]
fn iota_of_floats_is_the_converted_iota() {
    for ty in [ElementType::F32, ElementType::F16, ElementType::BF16, ElementType::F64] {
        let x = Example::new();
        // bf16 has 8 bits: from 257 on not every integer is there.
        let floats = x.b.iota(Shape::array(ty, [2, 300]), 1);
        let integers = x.b.iota(Shape::array(ElementType::S32, [2, 300]), 1);
        let root = x.b.eq(floats, x.b.convert_element_type(integers, ty));
        x.gives(root, &[ArrayLiteral::from_bools(&[2, 300], &[true; 600])]);
    }
}

#[test]
fn slice_with_strides_and_empty_slices() {
    let x = Example::new();
    let root = x.b.slice(b43(&x), &[0, 0], &[4, 3], &[3, 2]);
    x.gives_array(root, &[2, 2], &[0f32, 2.0, 9.0, 11.0]);
    let x = Example::new();
    let root = x.b.slice(b43(&x), &[1, 2], &[1, 3], &[1, 1]);
    x.gives_array::<f32>(root, &[0, 1], &[]);
    let x = Example::new();
    let root = x.b.slice_in_dim(b43(&x), 1, 4, 2, 0);
    x.gives_array(root, &[2, 3], &[3f32, 4.0, 5.0, 9.0, 10.0, 11.0]);
    for (start, limit, strides) in [([-1, 0], [4, 3], [1, 1]), ([0, 0], [5, 3], [1, 1]), ([0, 0], [4, 3], [1, 0])] {
        let x = Example::new();
        x.b.slice(b43(&x), &start, &limit, &strides);
        assert!(x.b.build().is_err());
    }
}

/// The product of the sizes stays; the order of dimensions is a permutation of all.
#[test]
fn reshape_refuses_other_sizes_and_orders() {
    let wrong: [fn(&Example) -> Op; 4] = [
        |x| x.b.reshape(v(x), &[5, 5]),
        |x| x.b.reshape_in_order(v(x), &[0, 1], &[24]),
        |x| x.b.reshape_in_order(v(x), &[0, 1, 1], &[24]),
        |x| x.b.collapse(v(x), &[2, 3]),
    ];
    for make in wrong {
        let x = Example::new();
        make(&x);
        assert!(x.b.build().is_err());
    }
}

/// Negative amounts cut, on either side and past what is there; what is left may be padding alone.
#[test]
fn pad_cuts_with_negative_amounts() {
    let at = |low, high, interior| PaddingDimension { low, high, interior };
    for (config, want) in [
        (at(-1, 0, 0), &[2i32, 3][..]),
        (at(0, -2, 0), &[1]),
        (at(2, -4, 0), &[9]),
        (at(-3, 1, 1), &[9, 3, 9]),
        (at(-3, 2, 0), &[9, 9]),
        (at(-2, -1, 0), &[]),
    ] {
        let x = Example::new();
        let root = x.b.pad(x.array(&[3], &[1i32, 2, 3]), x.scalar(9i32), &[config]);
        x.gives_array(root, &[want.len() as i64], want);
    }
}

#[test]
fn a_copy_is_its_operand() {
    let x = Example::new();
    let root = x.b.copy(x.array(&[2], &[1f32, -0.0]));
    x.gives_array(root, &[2], &[1f32, -0.0]);
}
