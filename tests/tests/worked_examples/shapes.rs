//! «Shapes and layout» and «Tensors»: how arrays lie in memory, and what a tensor is.

use super::Example;
use brolga_compiler::builder::{Builder, scalar_computation};
use brolga_compiler::hlo::Opcode;
use brolga_compiler::{CompileOptions, compile, text};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Layout, Program, RunOptions};

/// The order in which a matrix of 2 by 3 lies in memory: `a d b e c f` where dimension 0 is minor, `a b c d e f` where
/// dimension 1 is. Bytes go into the buffers of the program and come out of them as they lie.
#[test]
fn minor_to_major_order_of_a_matrix() {
    let orders = [("{0,1}", [0, 1], *b"adbecf"), ("{1,0}", [1, 0], *b"abcdef")];
    for (from, minor_to_major, stored) in orders {
        for (to, _, wanted) in orders {
            let source = format!(
                "HloModule m, entry_computation_layout={{(u8[2,3]{from})->u8[2,3]{to}}}\n\n\
                 ENTRY main {{\n  x = u8[2,3]{from} parameter(0)\n  ROOT y = u8[2,3]{to} copy(x)\n}}\n"
            );
            let module = text::parse(&source).unwrap();
            let artifact = compile(&module, &CompileOptions::default()).unwrap();
            let shape = &artifact.descriptor.parameters[0].shape;
            let found = shape.layout.clone().unwrap_or_else(|| Layout::row_major(2));
            assert_eq!(found.minor_to_major, minor_to_major);
            let program = Program::from_object(&artifact.object).unwrap();
            let mut session = program.session(&RunOptions::default()).unwrap();
            session.parameter_bytes_mut(0).unwrap().copy_from_slice(&stored);
            session.call().unwrap();
            assert_eq!(session.result_bytes(0).unwrap(), wanted, "{from} to {to}");
            // As a literal, whose indices are logical, it is the same matrix in either.
            assert_eq!(session.result(0).unwrap().bytes(), b"abcdef", "{from} to {to}");
        }
    }
}

/// The matrix padded to widths of 3 and 5: column-major it lies as `a d 0 b e 0 c f 0 0 0 0 0 0 0`, which is how the wider matrix
/// lies whose last rows and columns are zeros.
#[test]
fn padding_of_a_matrix() {
    let programs = [
        ("u8[2,3]{0,1:W(3,5)V(zero)}", "x = u8[2,3] parameter(0)\n  ROOT y = u8[2,3] copy(x)"),
        (
            "u8[3,5]{0,1}",
            "x = u8[2,3] parameter(0)\n  z = u8[] constant(0)\n  ROOT y = u8[3,5] pad(x, z), padding=0_1x0_2",
        ),
    ];
    for (result, body) in programs {
        let source = format!(
            "HloModule m, entry_computation_layout={{(u8[2,3]{{1,0}})->{result}}}\n\nENTRY main {{\n  {body}\n}}\n"
        );
        let artifact = compile(&text::parse(&source).unwrap(), &CompileOptions::default()).unwrap();
        let mut session = Program::from_object(&artifact.object).unwrap().session(&RunOptions::default()).unwrap();
        session.parameter_bytes_mut(0).unwrap().copy_from_slice(b"abcdef");
        session.call().unwrap();
        assert_eq!(session.result_bytes(0).unwrap(), b"ad\0be\0cf\0\0\0\0\0\0\0", "{result}");
    }
    // A program that takes it so finds the matrix in it, whatever the padding holds.
    let source = "HloModule m, entry_computation_layout={(u8[2,3]{0,1:W(3,5)V(zero)})->u8[2,3]{1,0}}\n\n\
                  ENTRY main {\n  x = u8[2,3] parameter(0)\n  ROOT y = u8[2,3] copy(x)\n}\n";
    let artifact = compile(&text::parse(source).unwrap(), &CompileOptions::default()).unwrap();
    let mut session = Program::from_object(&artifact.object).unwrap().session(&RunOptions::default()).unwrap();
    session.parameter_bytes_mut(0).unwrap().copy_from_slice(b"ad?be?cf???????");
    session.call().unwrap();
    assert_eq!(session.result_bytes(0).unwrap(), b"abcdef");
}

/// New shapes have the default layout, in which a program without layouts reads and writes.
#[test]
fn the_default_layout_is_major_to_minor() {
    assert_eq!(Layout::row_major(4).minor_to_major, [3, 2, 1, 0]);
    assert!(Layout::row_major(3).is_row_major());
    let x = Example::new();
    let t = x.array(&[2, 3], b"abcdef");
    assert_eq!(x.b.shape(t).unwrap().as_array().unwrap().minor_to_major(), [1, 0]);
    let flat = x.b.reshape(t, &[6]);
    x.gives_array(flat, &[6], b"abcdef");
}

/// Memory holds 0, 1, 2, ...; the element at (i, j, k) is the number of steps to it, which the strides say: 6, 2, 1 where
/// rows are major, 1, 5, 15 where columns are. They are products of the allocated sizes, which padding makes larger.
#[test]
fn strides_of_a_tensor_of_five_by_three_by_two() {
    for (layout, strides) in [
        ("{2,1,0}", [6, 2, 1]),
        ("{0,1,2}", [1, 5, 15]),
        ("{2,1,0:W(6,4,3)}", [12, 3, 1]),
        ("{0,1,2:W(6,4,3)}", [1, 6, 24]),
    ] {
        let source = format!(
            "HloModule m, entry_computation_layout={{(s32[5,3,2]{layout}, s32[], s32[], s32[])->s32[1,1,1]{{2,1,0}}}}\n\n\
             ENTRY main {{\n  x = s32[5,3,2]{layout} parameter(0)\n  i = s32[] parameter(1)\n  j = s32[] parameter(2)\n  \
             k = s32[] parameter(3)\n  ROOT y = s32[1,1,1]{{2,1,0}} dynamic-slice(x, i, j, k), \
             dynamic_slice_sizes={{1,1,1}}\n}}\n"
        );
        let artifact = compile(&text::parse(&source).unwrap(), &CompileOptions::default()).unwrap();
        let program = Program::from_object(&artifact.object).unwrap();
        let mut session = program.session(&RunOptions::default()).unwrap();
        let memory = session.parameter_bytes_mut(0).unwrap();
        memory.as_chunks_mut::<4>().0.iter_mut().zip(0i32..).for_each(|(e, n)| *e = n.to_le_bytes());
        for (i, j, k) in (0..30i32).map(|n| (n / 6, n / 2 % 3, n % 2)) {
            for (parameter, index) in [(1, i), (2, j), (3, k)] {
                session.set_parameter(parameter, &ArrayLiteral::scalar(index)).unwrap();
            }
            session.call().unwrap();
            let found = session.result_bytes(0).unwrap();
            assert_eq!(found, (i * strides[0] + j * strides[1] + k * strides[2]).to_le_bytes(), "{layout} {i} {j} {k}");
        }
    }
    assert_eq!(ArrayShape::new(ElementType::F32, [5, 3, 2]).strides(), [6, 2, 1]);
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
