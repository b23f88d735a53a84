//! What descriptions say of a compiled program, and that views allocate nothing: assertions are about buffers and workspace bytes.
//!
//! Source: Nervana graph's «Tensors», from «Basic tensor descriptions» on.
#![allow(clippy::unwrap_used)]

use brolga_compiler::builder::scalar_computation;
use brolga_compiler::builder::{
    ArrayLiteral, Builder, DotDimensions, ElementType, Op, Opcode, PaddingDimension, Shape,
};
use brolga_compiler::kernel::ir::{Phase, Role};
use brolga_compiler::tensor::{Storage, Strided, TensorDescription, TensorGraph, describe};
use brolga_compiler::text::parse;
use brolga_compiler::{Artifact, CompileOptions, compile};
use brolga_runtime::{ArrayShape, Program, row_major_strides};

fn f32s(dims: &[i64]) -> Shape {
    Shape::array(ElementType::F32, dims)
}

fn compiled(make: impl FnOnce(&Builder) -> Op) -> Artifact {
    let b = Builder::new("views");
    let root = make(&b);
    compile(&b.build_with_root(root).unwrap(), &CompileOptions::native()).unwrap()
}

fn described(artifact: &Artifact, name: &str) -> TensorDescription {
    let all = describe(artifact);
    let found = all.iter().find(|t| t.name == name);
    found.unwrap_or_else(|| panic!("there is no '{name}' among {all:#?}")).clone()
}

fn sum(b: &Builder, operand: Op) -> Op {
    b.reduce_all(operand, b.zero(ElementType::F32), &scalar_computation(Opcode::Add, ElementType::F32).unwrap())
}

/// The sum of `view(x)` times itself, so that the view is used and nothing needs it in memory.
fn energy(dims: &[i64], view: impl FnOnce(&Builder, Op) -> Op) -> Artifact {
    compiled(|b| {
        let x = b.parameter(0, f32s(dims), "x");
        let y = view(b, x);
        sum(b, b.mul(y, b.exp(y)))
    })
}

/// The name of the only instruction of that opcode.
fn only(artifact: &Artifact, opcode: Opcode) -> String {
    let entry = artifact.module.entry();
    let mut found = entry.order.iter().map(|&i| &entry.instructions[i]).filter(|i| i.opcode == opcode);
    let name = found.next().unwrap_or_else(|| panic!("no {opcode}")).name.clone();
    assert!(found.next().is_none());
    name
}

/// Kernels that only move elements would show as a second kernel or as scratch memory.
fn assert_allocates_nothing(artifact: &Artifact) {
    assert_eq!(artifact.assignment.workspace, 0, "{}", artifact.kernel_text());
    assert_eq!(artifact.schedule.kernels.len(), 1, "{}", artifact.kernel_text());
    let buffers = artifact.schedule.kernels.values().flat_map(|k| &k.buffers);
    assert!(buffers.into_iter().all(|b| !matches!(b.role, Role::Scratch)), "{}", artifact.kernel_text());
}

/// "If the sizes are (5, 3, 2), the row-major strides are (6, 2, 1) and (1, 5, 15) in column-major order": a column-major
/// array is the transposed view of a row-major one of the reversed sizes.
#[test]
fn strides_of_five_three_two() {
    assert_eq!(row_major_strides(&[5, 3, 2]), [6, 2, 1]);
    let artifact = energy(&[2, 3, 5], |b, x| b.transpose(x, &[2, 1, 0]));
    let view = described(&artifact, &only(&artifact, Opcode::Transpose));
    assert_eq!(view.shape, [5, 3, 2]);
    assert_eq!(view.layout, Some(Strided { strides: vec![1, 5, 15], offset: 0 }));
    assert_eq!(view.view_of.as_deref(), Some("x"));
    assert_allocates_nothing(&artifact);
}

/// "Reshaping and slicing are two examples of tensor operations that create views": simple views have no memory.
#[test]
fn simple_views_allocate_nothing() {
    type MakeView = fn(&Builder, Op) -> Op;
    let cases: [(Opcode, MakeView, &[i64], i64); 4] = [
        (Opcode::Slice, |b, x| b.slice(x, &[1, 2], &[7, 8], &[2, 3]), &[16, 3], 10),
        (Opcode::Transpose, |b, x| b.transpose(x, &[1, 0]), &[1, 8], 0),
        (Opcode::Reverse, |b, x| b.rev(x, &[1]), &[8, -1], 7),
        (Opcode::Broadcast, |b, x| b.broadcast(x, &[3]), &[0, 8, 1], 0),
    ];
    for (opcode, make, strides, offset) in cases {
        let artifact = energy(&[8, 8], make);
        assert_allocates_nothing(&artifact);
        let view = described(&artifact, &only(&artifact, opcode));
        assert_eq!(view.storage, Storage::None, "{opcode}");
        assert_eq!(view.view_of.as_deref(), Some("x"), "{opcode}");
        assert_eq!(view.layout, Some(Strided { strides: strides.to_vec(), offset }), "{opcode}");
        assert!(view.read_only, "{opcode}: the parameter is");
    }
    // Of a reshape the transposed array keeps the strides of its parts.
    let artifact = energy(&[6, 4], |b, x| b.reshape(b.transpose(x, &[1, 0]), &[4, 2, 3]));
    assert_allocates_nothing(&artifact);
    let view = described(&artifact, &only(&artifact, Opcode::Reshape));
    assert_eq!((view.storage, view.layout), (Storage::None, Some(Strided { strides: vec![1, 12, 4], offset: 0 })));
}

/// "The offset is added to the dot product of the strides and the n-tuple index to get the linear offset": elements of the
/// memory of `x`, picked so, are those of the view; and "permuting stride, shape and size permutes the index".
#[test]
fn strides_and_offset_find_the_elements_of_a_view() {
    type MakeView = fn(&Builder, Op) -> Op;
    let views: [MakeView; 6] = [
        |b, x| b.slice(x, &[1, 2], &[5, 6], &[2, 3]),
        |b, x| b.transpose(x, &[1, 0]),
        |b, x| b.rev(x, &[0, 1]),
        |b, x| b.broadcast(x, &[3]),
        |b, x| b.reshape(b.transpose(x, &[1, 0]), &[4, 2, 3, 2]),
        |b, x| b.transpose(b.rev(b.slice(x, &[1, 0], &[6, 8], &[1, 2]), &[1]), &[1, 0]),
    ];
    let memory: Vec<f32> = (0..48).map(|i| i as f32).collect();
    for make in views {
        // The description is of the view that nothing needs in memory, the values are of the same view as a result.
        let artifact = energy(&[6, 8], make);
        let all = describe(&artifact);
        let view = all.iter().rfind(|t| t.view_of.as_deref() == Some("x")).unwrap();
        let layout = view.layout.as_ref().unwrap();
        let count: i64 = view.shape.iter().product();
        let found = (0..count).map(|number| {
            let mut rest = number;
            let mut linear = layout.offset;
            for (size, stride) in view.shape.iter().zip(&layout.strides).rev() {
                linear += rest % size * stride;
                rest /= size;
            }
            memory[linear as usize]
        });
        let stored = compiled(|b| make(b, b.parameter(0, f32s(&[6, 8]), "x")));
        let program = Program::from_object(&stored.object).unwrap();
        let result = program.run(&[&ArrayLiteral::from_elements(&[6, 8], &memory)]).unwrap();
        assert_eq!(result[0].as_slice::<f32>(), found.collect::<Vec<_>>(), "{view:?}");
    }
}

fn join(b: &Builder, make: impl Fn(Op) -> Op) -> Op {
    let (x, y) = (b.parameter(0, f32s(&[8, 16]), "x"), b.parameter(1, f32s(&[8, 8]), "y"));
    b.concat_in_dim(&[make(x), make(y)], 1)
}

/// "Padding is an example of a complex view": each region is computed from its own tensor, where the result lies.
#[test]
fn complex_views_are_written_where_the_result_lies() {
    let edge = PaddingDimension { low: 2, high: 3, interior: 1 };
    let pad = compiled(|b| b.pad(b.exp(b.parameter(0, f32s(&[8]), "x")), b.constant_r0(0.5f32), &[edge]));
    let both = compiled(|b| join(b, |x| b.exp(x)));
    for (artifact, opcode, strides) in [(pad, Opcode::Pad, vec![1]), (both, Opcode::Concatenate, vec![24, 1])] {
        assert_allocates_nothing(&artifact);
        let view = described(&artifact, &only(&artifact, opcode));
        assert_eq!((view.storage, view.read_only, view.view_of), (Storage::Result(0), false, None), "{opcode}");
        assert_eq!(view.layout, Some(Strided { strides, offset: 0 }), "{opcode}");
        // What is padded or concatenated has no memory either.
        let computed = describe(&artifact).into_iter().filter(|t| t.name.starts_with("exp")).collect::<Vec<_>>();
        assert!(!computed.is_empty() && computed.iter().all(|t| t.storage == Storage::None), "{computed:?}");
    }
}

/// What is computed of a complex view is computed of each of its parts: the view itself is in no memory.
#[test]
fn complex_views_that_are_computed_with_allocate_nothing() {
    let edges = [PaddingDimension { low: 2, high: 0, interior: 0 }, PaddingDimension { low: 3, high: 5, interior: 0 }];
    let pad = compiled(|b| {
        let padded = b.pad(b.parameter(0, f32s(&[6, 16]), "x"), b.constant_r0(0.5f32), &edges);
        b.exp(b.mul(padded, b.parameter(1, f32s(&[8, 24]), "y")))
    });
    let both = compiled(|b| b.exp(join(b, |x| x)));
    for (artifact, opcode) in [(&pad, Opcode::Pad), (&both, Opcode::Concatenate)] {
        assert_allocates_nothing(artifact);
        assert_eq!(artifact.schedule.kernels.len(), 1, "{}", artifact.kernel_text());
        assert_eq!(described(artifact, &only(artifact, opcode)).storage, Storage::None, "{opcode}");
    }
    let literal = |dims: &[i64], of: fn(i64, i64) -> f32| {
        let elements: Vec<f32> = (0..dims[0] * dims[1]).map(|i| of(i / dims[1], i % dims[1])).collect();
        ArrayLiteral::from_elements(dims, &elements)
    };
    let x: fn(i64, i64) -> f32 = |i, j| (i * 3 - j) as f32 / 16.0;
    let y: fn(i64, i64) -> f32 = |i, j| (j - i) as f32 / 8.0;
    let padded: fn(i64, i64) -> f32 = |i, j| match (i, j) {
        (2.., 3..19) => ((i - 2) * 3 - (j - 3)) as f32 / 16.0,
        _ => 0.5,
    };
    let run = |artifact: &Artifact, inputs: [&ArrayLiteral; 2]| {
        Program::from_object(&artifact.object).unwrap().run(&inputs).unwrap().remove(0)
    };
    let close = |got: &ArrayLiteral, of: &dyn Fn(i64, i64) -> f32| {
        for (k, &value) in got.as_slice::<f32>().iter().enumerate() {
            let expected = of(k as i64 / 24, k as i64 % 24);
            assert!((value - expected).abs() <= 1e-6 * expected, "element {k}: {value}, and {expected}");
        }
    };
    close(&run(&pad, [&literal(&[6, 16], x), &literal(&[8, 24], y)]), &|i, j| (padded(i, j) * y(i, j)).exp());
    close(&run(&both, [&literal(&[8, 16], x), &literal(&[8, 8], y)]), &|i, j| {
        (if j < 16 { x(i, j) } else { y(i, j - 16) }).exp()
    });
}

/// Where the selection function is constant, a complex view is a simple one: of that tensor alone.
#[test]
fn a_part_of_one_tensor_in_a_complex_view_allocates_nothing() {
    let artifact = compiled(|b| {
        let part = b.slice(join(b, |x| x), &[0, 18], &[8, 22], &[1, 1]);
        b.exp(part)
    });
    assert_allocates_nothing(&artifact);
    let view = described(&artifact, &only(&artifact, Opcode::Slice));
    assert_eq!(view.view_of.as_deref(), Some("y"));
    assert_eq!(view.layout, Some(Strided { strides: vec![8, 1], offset: 2 }));
}

/// A complex view that other kernels read whole is needed in memory: it is stored, once for all of them.
#[test]
fn complex_views_that_others_read_are_stored_once() {
    let edges = [PaddingDimension { low: 0, high: 0, interior: 0 }, PaddingDimension { low: 3, high: 5, interior: 0 }];
    type MakeView<'a> = &'a dyn Fn(&Builder) -> Op;
    let cases: [(Opcode, MakeView<'_>); 2] = [
        (Opcode::Concatenate, &|b| join(b, |x| x)),
        (Opcode::Pad, &|b| b.pad(b.parameter(0, f32s(&[8, 16]), "x"), b.constant_r0(0.5f32), &edges)),
    ];
    for (opcode, make) in cases {
        for readers in [1, 2] {
            let artifact = compiled(|b| {
                let z = make(b);
                let energy = sum(b, b.mul(z, b.exp(z)));
                let add = scalar_computation(Opcode::Add, ElementType::F32).unwrap();
                let columns = b.reduce(z, b.zero(ElementType::F32), &add, &[0]);
                b.tuple(&[energy, columns][..readers])
            });
            let view = described(&artifact, &only(&artifact, opcode));
            assert!(matches!(view.storage, Storage::Workspace(_)) && !view.read_only, "{view:?}");
            assert_eq!(artifact.assignment.workspace, 8 * 24 * 4, "{opcode}\n{}", artifact.kernel_text());
            assert_eq!(artifact.schedule.kernels.len(), 1 + readers, "{opcode}\n{}", artifact.kernel_text());
        }
    }
}

/// "In addition to a shape we require an additional n-tuple called the size, which is greater than or equal to the shape to add
/// padding for alignment": the column-major strides of an array in a padded buffer are products of its sizes.
#[test]
fn views_have_the_size_of_what_they_show() {
    let padded = |text: &str| {
        let module = parse(text).unwrap();
        compile(&module, &CompileOptions::native()).unwrap()
    };
    let artifact = padded(
        "HloModule m, entry_computation_layout={(f32[2,3]{0,1:W(3,5)V(zero)})->f32[2,3]{1,0}}
ENTRY e {
  x = f32[2,3] parameter(0)
  ROOT y = f32[2,3] exponential(x)
}",
    );
    let entry = artifact.module.entry();
    let read = &entry.instructions[entry.instructions[entry.root].operands[0]];
    let view = described(&artifact, &read.name);
    assert_eq!((view.view_of.as_deref(), view.shape, view.size), (Some("x"), vec![2, 3], vec![3, 5]));
    assert_eq!(view.layout, Some(Strided { strides: vec![1, 3], offset: 0 }));
    assert_allocates_nothing(&artifact);
    // So are those of a part of it, and its offset.
    let artifact = padded(
        "HloModule m, entry_computation_layout={(f32[4,6]{0,1:W(5,8)V(zero)})->f32[2,2]{1,0}}
ENTRY e {
  x = f32[4,6] parameter(0)
  s = f32[2,2] slice(x), slice={[1:3], [2:6:2]}
  ROOT y = f32[2,2] exponential(s)
}",
    );
    let all = describe(&artifact);
    let part = all.iter().find(|t| t.shape == [2, 2] && t.view_of.as_deref() == Some("x")).unwrap();
    assert_eq!(part.layout, Some(Strided { strides: vec![1, 10], offset: 11 }), "{all:#?}");
    assert_allocates_nothing(&artifact);
    // So has a reshape, as far as dimensions of the one are dimensions of the other.
    let artifact = padded(
        "HloModule m, entry_computation_layout={(f32[4,6]{1,0:W(5,8)})->f32[6,2,2]{2,1,0}}
ENTRY e {
  x = f32[4,6] parameter(0)
  y = f32[2,2,6] reshape(x)
  z = f32[6,2,2] transpose(y), dimensions={2,0,1}
  ROOT r = f32[6,2,2] exponential(z)
}",
    );
    let all = describe(&artifact);
    let part = all.iter().find(|t| t.shape == [6, 2, 2] && t.view_of.as_deref() == Some("x")).unwrap();
    assert_eq!(part.layout, Some(Strided { strides: vec![1, 16, 8], offset: 0 }), "{all:#?}");
    assert_eq!(part.size, [8, 2, 2], "{all:#?}");
    assert_allocates_nothing(&artifact);
    // A part of an array lies in that array, padded or not.
    let artifact = energy(&[8, 6], |b, x| b.slice(x, &[1, 2], &[4, 6], &[1, 1]));
    let view = described(&artifact, &only(&artifact, Opcode::Slice));
    assert_eq!((view.shape, view.size), (vec![3, 4], vec![8, 6]));
    assert_eq!(view.layout, Some(Strided { strides: vec![6, 1], offset: 8 }));
}

/// Parameters and results are described as callers see them, in whatever order and padding they lie: by the document's n-tuples of
/// shape, size and strides, of which any two that are permuted alike give the same linear index.
#[test]
fn parameters_and_results_in_any_layout_have_their_own_shapes() {
    let cases = [
        ("{1,0}", [2, 3], [3, 1]),
        ("{0,1}", [2, 3], [1, 2]),
        ("{0,1:W(3,5)V(zero)}", [3, 5], [1, 3]),
        ("{1,0:W(3,5)V(one)}", [3, 5], [5, 1]),
        ("{1,0:W(2,5)}", [2, 5], [5, 1]),
    ];
    for (from, size, strides) in cases {
        for (to, result_size, result_strides) in cases {
            let source = format!(
                "HloModule m, entry_computation_layout={{(f32[2,3]{from}, s32[4]{{0:W(6)}})->(f32[2,3]{to}, s32[4]{{0}})}}\n\n\
                 ENTRY e {{\n  x = f32[2,3] parameter(0)\n  i = s32[4] parameter(1)\n  y = f32[2,3] exponential(x)\n  \
                 j = s32[4] negate(i)\n  ROOT r = (f32[2,3], s32[4]) tuple(y, j)\n}}\n"
            );
            let artifact = compile(&parse(&source).unwrap(), &CompileOptions::native()).unwrap();
            let all = describe(&artifact);
            let stored = |storage: Storage| all.iter().find(|t| t.storage == storage).unwrap();
            let layout = |text: &str| (text != "{1,0}").then(|| text.to_owned());
            for (storage, size, strides, text) in
                [(Storage::Parameter(0), size, strides, from), (Storage::Result(0), result_size, result_strides, to)]
            {
                let tensor = stored(storage);
                assert_eq!((&tensor.shape[..], &tensor.size[..]), (&[2, 3][..], &size[..]), "{from} {to} {tensor:?}");
                assert_eq!(tensor.layout, Some(Strided { strides: strides.to_vec(), offset: 0 }), "{from} {to}");
                assert_eq!(tensor.memory_layout.as_ref().map(ToString::to_string), layout(text), "{from} {to}");
                assert_eq!((tensor.rank(), &tensor.view_of), (2, &None), "{from} {to}");
            }
            let i = stored(Storage::Parameter(1));
            assert_eq!((&i.shape[..], &i.size[..]), (&[4][..], &[6][..]));
        }
    }
}

/// Where one value is two results that lie differently, and where a parameter is a result, it is described where it lies.
#[test]
fn values_of_several_results_are_described_where_they_lie() {
    let artifact = |source: &str| compile(&parse(source).unwrap(), &CompileOptions::native()).unwrap();
    let twice = artifact(
        "HloModule m, entry_computation_layout={(f32[2,3]{1,0})->(f32[2,3]{1,0}, f32[3,2]{0,1})}
ENTRY e {
  x = f32[2,3] parameter(0)
  y = f32[2,3] exponential(x)
  t = f32[3,2] transpose(y), dimensions={1,0}
  ROOT r = (f32[2,3], f32[3,2]) tuple(y, t)
}",
    );
    let all = describe(&twice);
    let y = all.iter().find(|t| matches!(t.storage, Storage::Result(_))).unwrap();
    let expected = match y.storage {
        Storage::Result(0) => (vec![2, 3], vec![3, 1]),
        _ => (vec![3, 2], vec![1, 3]),
    };
    assert_eq!((&y.shape, y.layout.as_ref().map(|l| &l.strides)), (&expected.0, Some(&expected.1)), "{y:?}");
    let passed = artifact(
        "HloModule m, entry_computation_layout={(f32[2,3]{0,1})->f32[2,3]{0,1}}
ENTRY e {
  ROOT x = f32[2,3] parameter(0)
}",
    );
    let x = described(&passed, "x");
    assert_eq!((x.storage, x.shape, x.read_only), (Storage::Parameter(0), vec![2, 3], true));
    assert_eq!(x.layout, Some(Strided { strides: vec![1, 2], offset: 0 }));
}

/// "Converting an r-tensor to an l-tensor": a value whose elements are used many times is allocated, in the workspace.
#[test]
fn values_that_are_needed_in_memory_are_l_tensors() {
    let artifact = compiled(|b| {
        let x = b.parameter(0, f32s(&[64, 64]), "x");
        let e = b.exp(x);
        b.dot_general(
            e,
            e,
            &DotDimensions { lhs_contracting: vec![1], rhs_contracting: vec![0], ..DotDimensions::default() },
        )
    });
    let e = described(&artifact, &only(&artifact, Opcode::Exp));
    assert!(matches!(e.storage, Storage::Workspace(_)), "{e:?}");
    assert!(!e.read_only);
    assert_eq!((e.alignment, e.rank(), e.dtype), (64, 2, ElementType::F32));
    assert!(artifact.assignment.workspace >= 64 * 64 * 4);
    let x = described(&artifact, "x");
    assert_eq!((x.storage, x.read_only, x.alignment), (Storage::Parameter(0), true, 4));
    // "The size is greater than or equal to the shape."
    for tensor in describe(&artifact) {
        assert_eq!(tensor.size.len(), tensor.shape.len());
        assert!(tensor.size.iter().zip(&tensor.shape).all(|(size, shape)| size >= shape), "{tensor:?}");
    }
}

/// Tensors that are assigned are l-tensors; those that are only read are not.
#[test]
fn assigned_parameters_are_l_tensors() {
    let mut graph = TensorGraph::new("g");
    let w = graph.variable("w", ArrayLiteral::from_elements(&[4], &[0.0f32; 4]));
    let x = graph.placeholder("x", ArrayShape::new(ElementType::F32, [4]));
    graph
        .computation("step", |c| {
            c.assign(&w, c.add(c.read(&w), c.read(&x)));
            Ok(vec![])
        })
        .unwrap();
    let program = graph.compile(&CompileOptions::native()).unwrap();
    let step = &program.computations[1];
    assert!(!described(step, "w").read_only);
    assert!(described(step, "x").read_only);
    assert_eq!(described(step, &only(step, Opcode::Add)).storage, Storage::Result(0));
}

/// The document's `L2`: the second function, one loop over `x` and `y` without a temporary, also where the first was written.
#[test]
fn l2_is_one_loop_without_a_temporary() {
    // `np.sum(t * t)` and `np.dot(t.T, t)`.
    l2_without_a_temporary(|b, t| sum(b, b.mul(t, t)));
    l2_without_a_temporary(|b, t| {
        let dims = DotDimensions { lhs_contracting: vec![0], rhs_contracting: vec![0], ..DotDimensions::default() };
        b.dot_general(b.transpose(t, &[0]), t, &dims)
    });
}

fn l2_without_a_temporary(square: impl Fn(&Builder, Op) -> Op) {
    const N: i64 = 10_000;
    let artifact = compiled(|b| {
        let (x, y) = (b.parameter(0, f32s(&[N]), "x"), b.parameter(1, f32s(&[N]), "y"));
        square(b, b.sub(x, y))
    });
    assert_allocates_nothing(&artifact);
    let kernel = artifact.schedule.kernels.values().next().unwrap();
    let [Phase::Nest(nest)] = kernel.phases.as_slice() else { panic!("{}", artifact.kernel_text()) };
    assert!(nest.rows.is_empty(), "{}", artifact.kernel_text());
    let turns = nest
        .stages
        .iter()
        .map(|stage| nest.points() * stage.sequential.iter().map(|l| l.extent).product::<i64>() * stage.vector.extent);
    // The loop, and the store of its sum.
    assert_eq!(turns.collect::<Vec<_>>(), [N, 1], "{}", artifact.kernel_text());
    // The sum alone is written.
    assert_eq!(kernel.buffers.iter().map(|b| b.elements as i64).collect::<Vec<_>>(), [N, N, 1]);
    let t = described(&artifact, &only(&artifact, Opcode::Subtract));
    assert_eq!((t.storage, t.read_only, t.layout), (Storage::None, true, None));

    let program = Program::from_object(&artifact.object).unwrap();
    let x: Vec<f32> = (0..N).map(|i| (i % 7) as f32).collect();
    let y: Vec<f32> = (0..N).map(|i| (i % 5) as f32).collect();
    let expected: f32 = x.iter().zip(&y).map(|(a, b)| (a - b) * (a - b)).sum();
    let result =
        program.run(&[&ArrayLiteral::from_elements(&[N], &x), &ArrayLiteral::from_elements(&[N], &y)]).unwrap();
    // Sums of small integers are exact in any order.
    assert_eq!(result[0].as_slice::<f32>(), [expected]);
}

/// "We can consider the flattened views of these two tensors and use a single integer iterator": a difference of arrays of any
/// rank and one layout is one loop over all elements.
#[test]
fn arrays_of_one_layout_are_walked_flat() {
    let artifact = compiled(|b| {
        let (x, y) = (b.parameter(0, f32s(&[5, 3, 2]), "x"), b.parameter(1, f32s(&[5, 3, 2]), "y"));
        b.sub(x, y)
    });
    let kernel = artifact.schedule.kernels.values().next().unwrap();
    let [Phase::Nest(nest)] = kernel.phases.as_slice() else { panic!("{}", artifact.kernel_text()) };
    assert_eq!(nest.stages[0].vector.extent, 30, "{}", artifact.kernel_text());
    assert_allocates_nothing(&artifact);
}

/// "This is only possible if the tensors have the same layout and strides": where one array lies otherwise, the loop goes over
/// dimensions, and each is read by strides of its own. Padding makes other strides too.
#[test]
fn arrays_of_different_layouts_are_not_walked_flat() {
    let numbers: Vec<f32> = (0..30).map(|i| ((i * 7) % 30) as f32).collect();
    let x = ArrayLiteral::from_elements(&[5, 3, 2], &numbers);
    let y = ArrayLiteral::from_elements(&[5, 3, 2], &numbers.iter().rev().copied().collect::<Vec<_>>());
    let want: Vec<f32> = numbers.iter().zip(numbers.iter().rev()).map(|(a, b)| a - b).collect();
    for (layouts, flat) in [
        (["{0,1,2}", "{0,1,2}", "{0,1,2}"], true),
        (["{2,1,0}", "{0,1,2}", "{2,1,0}"], false),
        (["{2,1,0}", "{2,1,0:W(5,4,2)}", "{2,1,0}"], false),
        (["{0,1,2}", "{0,1,2}", "{2,1,0}"], false),
    ] {
        let [a, b, c] = layouts;
        let source = format!(
            "HloModule m, entry_computation_layout={{(f32[5,3,2]{a}, f32[5,3,2]{b})->f32[5,3,2]{c}}}\n\nENTRY e {{\n  \
             x = f32[5,3,2] parameter(0)\n  y = f32[5,3,2] parameter(1)\n  ROOT d = f32[5,3,2] subtract(x, y)\n}}\n"
        );
        let artifact = compile(&parse(&source).unwrap(), &CompileOptions::native()).unwrap();
        let kernels: Vec<_> = artifact.schedule.kernels.values().collect();
        let [Phase::Nest(nest)] = kernels[0].phases.as_slice() else { panic!("{}", artifact.kernel_text()) };
        assert_eq!(nest.stages[0].vector.extent == 30, flat, "{layouts:?}\n{}", artifact.kernel_text());
        let got = Program::from_object(&artifact.object).unwrap().run(&[&x, &y]).unwrap();
        assert_eq!(got[0].as_slice::<f32>(), want, "{layouts:?}");
    }
}

/// "Transformers introduce views as they rewrite more abstract operations as simpler operations": the program has none, what
/// became of it has, and they allocate nothing.
#[test]
fn rewrites_introduce_views() {
    let b = Builder::new("normalised");
    let x = b.parameter(0, f32s(&[2, 4, 3]), "x");
    let of = |n, name| b.parameter(n, f32s(&[3]), name);
    let (scale, offset, mean, variance) = (of(1, "scale"), of(2, "offset"), of(3, "mean"), of(4, "variance"));
    b.batch_norm_inference(x, scale, offset, mean, variance, 0.001, 2);
    let module = b.build().unwrap();
    assert!(module.entry().order.iter().all(|&i| module.entry().instructions[i].opcode != Opcode::Broadcast));
    let artifact = compile(&module, &CompileOptions::native()).unwrap();
    let all = describe(&artifact);
    for name in ["scale", "offset", "mean"] {
        let view = all.iter().find(|t| t.view_of.as_deref() == Some(name));
        let view = view.unwrap_or_else(|| panic!("no view of {name}: {all:#?}"));
        assert_eq!((view.storage, &view.shape[..]), (Storage::None, &[2, 4, 3][..]));
        assert_eq!(view.layout, Some(Strided { strides: vec![0, 0, 1], offset: 0 }), "{name}");
    }
}
