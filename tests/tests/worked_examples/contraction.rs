//! Dot and convolution.

use super::Example;
use brolga_compiler::builder::{DotDimensions, Padding};
use brolga_runtime::{ArrayLiteral, ElementType, Shape};

#[test]
fn dot_of_vectors_and_matrices() {
    let (m, k, n) = (2usize, 3usize, 4usize);
    let a: Vec<f32> = (1..=m * k).map(|i| i as f32).collect();
    let b: Vec<f32> = (1..=k * n).map(|i| (i * i) as f32).collect();
    let product = |rows: usize, columns: usize| -> Vec<f32> {
        let at = |i: usize, j: usize| (0..k).map(|p| a[i * k + p] * b[p * columns + j]).sum();
        (0..rows * columns).map(|c| at(c / columns, c % columns)).collect()
    };
    let x = Example::new();
    let root = x.b.dot(x.array(&[3], &a[..k]), x.array(&[3], &b[..k]));
    x.gives_array(root, &[], &product(1, 1));
    let x = Example::new();
    let root = x.b.dot(x.array(&[2, 3], &a), x.array(&[3], &b[..k]));
    x.gives_array(root, &[2], &product(2, 1));
    let x = Example::new();
    let root = x.b.dot(x.array(&[2, 3], &a), x.array(&[3, 4], &b));
    x.gives_array(root, &[2, 4], &product(2, 4));
}

#[test]
fn dot_general_with_contracting_dimensions() {
    let x = Example::new();
    let lhs = x.array(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let rhs = x.array(&[2, 3], &[1f32, 1.0, 1.0, 2.0, 2.0, 2.0]);
    let numbers = DotDimensions { lhs_contracting: vec![1], rhs_contracting: vec![1], ..DotDimensions::default() };
    let root = x.b.dot_general(lhs, rhs, &numbers);
    x.gives_array(root, &[2, 2], &[6f32, 12.0, 15.0, 30.0]);
}

#[test]
fn dot_general_with_batch_dimensions() {
    let x = Example::new();
    let values = [1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let lhs = x.array(&[2, 2, 2], &values);
    let rhs = x.array(&[2, 2, 2], &[1f32, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0]);
    let numbers =
        DotDimensions { lhs_contracting: vec![2], rhs_contracting: vec![1], lhs_batch: vec![0], rhs_batch: vec![0] };
    let root = x.b.dot_general(lhs, rhs, &numbers);
    x.gives_array(root, &[2, 2, 2], &values);
}

#[test]
fn dot_general_puts_batch_dimensions_first() {
    for (batch, lhs, rhs, want) in
        [(1, &[5, 2, 3][..], &[5, 3, 4][..], &[5, 2, 4][..]), (2, &[5, 6, 2, 3], &[5, 6, 3, 4], &[5, 6, 2, 4])]
    {
        let x = Example::new();
        let numbers = DotDimensions {
            lhs_contracting: vec![batch + 1],
            rhs_contracting: vec![batch],
            lhs_batch: (0..batch).collect(),
            rhs_batch: (0..batch).collect(),
        };
        let ones = |dims: &[i64]| x.array(dims, &vec![1f32; dims.iter().product::<i64>() as usize]);
        let root = x.b.dot_general(ones(lhs), ones(rhs), &numbers);
        assert_eq!(x.b.shape(root).unwrap(), Shape::array(ElementType::F32, want));
        x.gives_array(root, want, &vec![3f32; want.iter().product::<i64>() as usize]);
    }
}

/// The pseudo-code of the section, with whole numbers so that any order of summation is exact.
#[test]
fn convolution_as_its_pseudo_code_says() {
    let (batch, iz_n, iy_n, ix_n) = (2i64, 3i64, 5i64, 6i64);
    let (oz_n, ky_n, kx_n) = (4i64, 3i64, 2i64);
    let (stride_y, stride_x) = (2i64, 1i64);
    let padding = [(1i64, 2i64), (2, -1)];
    let size = |dims: [i64; 4]| dims.iter().product::<i64>();
    let (in_dims, kernel_dims) = ([batch, iz_n, iy_n, ix_n], [oz_n, iz_n, ky_n, kx_n]);
    let input: Vec<f32> = (0..size(in_dims)).map(|i| (i * 7 % 11 - 5) as f32).collect();
    let kernel: Vec<f32> = (0..size(kernel_dims)).map(|i| (i * 5 % 7 - 3) as f32).collect();
    let places = |n: i64, (low, high): (i64, i64), k: i64, stride: i64| (n + low + high - k) / stride + 1;
    let (oy_n, ox_n) = (places(iy_n, padding[0], ky_n, stride_y), places(ix_n, padding[1], kx_n, stride_x));
    let mut want = Vec::new();
    for b in 0..batch {
        for oz in 0..oz_n {
            for oy in 0..oy_n {
                for ox in 0..ox_n {
                    let mut value = 0f32;
                    for iz in 0..iz_n {
                        for ky in 0..ky_n {
                            for kx in 0..kx_n {
                                let iy = oy * stride_y + ky - padding[0].0;
                                let ix = ox * stride_x + kx - padding[1].0;
                                // A negative amount of padding cuts the area.
                                let inside = (0..iy_n).contains(&iy) && (0..ix_n).contains(&ix);
                                if inside {
                                    let i = ((b * iz_n + iz) * iy_n + iy) * ix_n + ix;
                                    let k = ((oz * iz_n + iz) * ky_n + ky) * kx_n + kx;
                                    value += input[i as usize] * kernel[k as usize];
                                }
                            }
                        }
                    }
                    want.push(value);
                }
            }
        }
    }
    let x = Example::new();
    let (lhs, rhs) = (x.array(&in_dims, &input), x.array(&kernel_dims, &kernel));
    let root = x.b.conv_with_general_padding(lhs, rhs, &[stride_y, stride_x], &padding, &[], &[], 1, 1);
    x.gives_array(root, &[batch, oz_n, oy_n, ox_n], &want);
}

#[test]
fn convolution_padding_words_dilations_and_groups() {
    let line = [1f32, 2.0, 3.0, 4.0];
    let conv = |padding: &Padding, want: &[f32]| {
        let x = Example::new();
        let (lhs, rhs) = (x.array(&[1, 1, 4], &line), x.array(&[1, 1, 3], &[1f32, 10.0, 100.0]));
        let root = x.b.conv(lhs, rhs, &[1], padding, 1, 1);
        x.gives_array(root, &[1, 1, want.len() as i64], want);
    };
    conv(&Padding::Valid, &[321.0, 432.0]);
    conv(&Padding::Same, &[210.0, 321.0, 432.0, 43.0]);
    // A dilation of d puts d - 1 holes between neighbours.
    let x = Example::new();
    let (lhs, rhs) = (x.array(&[1, 1, 4], &line), x.array(&[1, 1, 2], &[1f32, 10.0]));
    let parts = [
        x.b.conv_with_general_padding(lhs, rhs, &[1], &[(0, 0)], &[2], &[1], 1, 1),
        x.b.conv_with_general_padding(lhs, rhs, &[1], &[(0, 0)], &[1], &[2], 1, 1),
    ];
    let root = x.b.tuple(&parts);
    x.gives(
        root,
        &[
            ArrayLiteral::from_elements(&[1, 1, 6], &[1f32, 20.0, 2.0, 30.0, 3.0, 40.0]),
            ArrayLiteral::from_elements(&[1, 1, 2], &[31f32, 42.0]),
        ],
    );
    // Depthwise: as many groups as input features.
    let x = Example::new();
    let lhs = x.array(&[1, 2, 2], &[1f32, 2.0, 3.0, 4.0]);
    let rhs = x.array(&[4, 1, 1], &[1f32, 10.0, 100.0, 1000.0]);
    let root = x.b.conv(lhs, rhs, &[1], &Padding::Valid, 2, 1);
    x.gives_array(root, &[1, 4, 2], &[1f32, 2.0, 10.0, 20.0, 300.0, 400.0, 3000.0, 4000.0]);
    // Each half of the batch meets its half of the output features.
    let x = Example::new();
    let lhs = x.array(&[2, 1, 2], &[1f32, 2.0, 3.0, 4.0]);
    let rhs = x.array(&[2, 1, 1], &[1f32, 10.0]);
    let root = x.b.conv(lhs, rhs, &[1], &Padding::Valid, 1, 2);
    x.gives_array(root, &[1, 2, 2], &[1f32, 2.0, 30.0, 40.0]);
}
