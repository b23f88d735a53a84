//! «Shapes and layout» and «Tensors»: how arrays lie in memory, and what a tensor is.

use super::Example;
use brolga_compiler::builder::{Builder, scalar_computation};
use brolga_compiler::hlo::Opcode;
use brolga_compiler::{CompileOptions, compile, text};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Layout, Program};

/// The order in which a matrix of 2 by 3 lies in memory: `a d b e c f` where dimension 0 is minor, `a b c d e f` where
/// dimension 1 is.
#[test]
fn minor_to_major_order_of_a_matrix() {
    for (layout, stored) in [("{0,1}", *b"adbecf"), ("{1,0}", *b"abcdef")] {
        let source = format!(
            "HloModule m, entry_computation_layout={{(u8[2,3]{layout})->u8[2,3]{{1,0}}}}\n\n\
             ENTRY main {{\n  x = u8[2,3]{layout} parameter(0)\n  ROOT y = u8[2,3]{{1,0}} copy(x)\n}}\n"
        );
        let module = text::parse(&source).unwrap();
        let artifact = compile(&module, &CompileOptions::default()).unwrap();
        let program = Program::from_object(&artifact.object).unwrap();
        let minor_to_major = if layout == "{0,1}" { vec![0, 1] } else { vec![1, 0] };
        let shape = &artifact.descriptor.parameters[0].shape;
        let found = shape.layout.clone().unwrap_or_else(|| Layout::row_major(2));
        assert_eq!(found.minor_to_major, minor_to_major);
        // Arguments are logical: the runtime lays them out. Memory itself is what the entry function sees.
        let logical = ArrayLiteral::from_bytes(&ArrayShape::new(ElementType::U8, [2, 3]), b"abcdef").unwrap();
        let got = program.run(&[&logical]).unwrap();
        assert_eq!(got[0].bytes(), b"abcdef", "{layout}");
        let strides: [usize; 2] = if layout == "{0,1}" { [1, 2] } else { [3, 1] };
        let mut memory = [0u8; 6];
        (0..6).for_each(|i| memory[i / 3 * strides[0] + i % 3 * strides[1]] = b"abcdef"[i]);
        assert_eq!(memory, stored);
    }
}

#[test]
fn the_default_layout_is_major_to_minor() {
    assert_eq!(Layout::row_major(4).minor_to_major, [3, 2, 1, 0]);
    assert!(Layout::row_major(3).is_row_major());
}

#[test]
fn strides_of_a_tensor_of_five_by_three_by_two() {
    assert_eq!(ArrayShape::new(ElementType::F32, [5, 3, 2]).strides(), [6, 2, 1]);
    // Column-major strides are the row-major ones of the reversed shape, reversed.
    let mut column = ArrayShape::new(ElementType::F32, [2, 3, 5]).strides();
    column.reverse();
    assert_eq!(column, [1, 5, 15]);
}

/// The squared norm of a difference, which the page uses to show what not to allocate: the difference is never stored.
#[test]
fn l2_of_a_difference_needs_no_memory_for_it() {
    let (p, q): (Vec<f32>, Vec<f32>) = ((0..64).map(|i| i as f32).collect(), (0..64).map(|i| (i % 7) as f32).collect());
    let b = Builder::new("l2");
    let shape = brolga_runtime::Shape::array(ElementType::F32, [64]);
    let (x, y) = (b.parameter(0, shape.clone(), "x"), b.parameter(1, shape, "y"));
    let t = b.sub(x, y);
    let add = scalar_computation(Opcode::Add, ElementType::F32).unwrap();
    b.reduce_all(b.mul(t, t), b.zero(ElementType::F32), &add);
    let artifact = compile(&b.build().unwrap(), &CompileOptions::default()).unwrap();
    assert_eq!(artifact.descriptor.workspace_fixed, 0, "{}", artifact.kernel_text());
    let program = Program::from_object(&artifact.object).unwrap();
    let inputs = [&p, &q].map(|v| ArrayLiteral::from_elements(&[64], v));
    let got = program.run(&inputs.iter().collect::<Vec<_>>()).unwrap();
    let want: f32 = p.iter().zip(&q).map(|(a, b)| (a - b) * (a - b)).sum();
    assert_eq!(got[0].as_slice::<f32>(), [want]);
}

/// Reshaping and slicing are simple views, padding is a complex one: whatever chain of them, elements only move.
#[test]
fn views_read_the_tensor_that_they_view() {
    let x = Example::new();
    let elements: Vec<f32> = (0..24).map(|i| i as f32).collect();
    let t = x.array(&[4, 6], &elements);
    let view = x.b.reshape(x.b.slice(t, &[1, 0], &[3, 6], &[1, 2]), &[6]);
    let padded = x.b.pad(
        view,
        x.b.zero(ElementType::F32),
        &[brolga_compiler::hlo::PaddingDimension { low: 1, high: 1, interior: 0 }],
    );
    x.gives_array(padded, &[8], &[0f32, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 0.0]);
}
