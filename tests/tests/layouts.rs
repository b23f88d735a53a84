//! Layouts that are real: callers' buffers in any order of dimensions and with padding, read and written in place.
#![allow(clippy::unwrap_used)]

use brolga_compiler::builder::Builder;
use brolga_compiler::{Artifact, CompileOptions, Error, compile, text};
use brolga_runtime::{
    ArrayLiteral, ArrayShape, ElementType, Layout, PaddingValue, Program, RunError, RunOptions, Scalar, Session, Shape,
    TupleBuffer,
};

fn compiled(source: &str) -> Artifact {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    compile(&module, &CompileOptions::default()).unwrap_or_else(|e| panic!("{e}\n{source}"))
}

fn session(artifact: &Artifact) -> Session {
    Program::from_object(&artifact.object).unwrap().session(&RunOptions::default()).unwrap()
}

/// A program of one instruction.
fn unary(from: &str, to: &str, opcode: &str) -> Artifact {
    compiled(&format!(
        "HloModule m, entry_computation_layout={{({from})->{to}}}\n\n\
         ENTRY main {{\n  x = {from} parameter(0)\n  ROOT y = {to} {opcode}(x)\n}}\n"
    ))
}

/// The padding of results holds the padding value, whatever the element type; that of parameters is never read.
#[test]
fn padding_holds_its_value_in_every_type() {
    for &ty in ElementType::ALL {
        for &value in PaddingValue::ALL {
            let Some(element) = value.element(ty) else { continue };
            let stated = if value == PaddingValue::Invalid { String::new() } else { format!("V({})", value.name()) };
            let artifact =
                unary(&format!("{ty}[2,3]{{0,1:W(4,3)}}"), &format!("{ty}[2,3]{{1,0:W(3,5){stated}}}"), "copy");
            let mut session = session(&artifact);
            let mut input = ArrayLiteral::zeros(&ArrayShape::new(ty, [2, 3]));
            // Bytes that no type under a byte has could not be its elements.
            let all_bits = u8::MAX >> (8 - ty.bits().min(8));
            input.bytes_mut().iter_mut().enumerate().for_each(|(k, b)| *b = (k as u8 % 2) & all_bits);
            session.parameter_bytes_mut(0).unwrap().fill(0xff);
            session.set_parameter(0, &input).unwrap();
            session.call().unwrap();
            let size = ty.byte_size();
            let rows = input.bytes().chunks(3 * size).map(|row| [row, &element.bytes().repeat(2)].concat());
            let want = [rows.collect::<Vec<_>>().concat(), element.bytes().repeat(5)].concat();
            assert_eq!(session.result_bytes(0).unwrap(), want, "{ty} {value:?}");
            assert_eq!(session.result(0).unwrap(), input, "{ty} {value:?}");
        }
    }
}

/// Arrays without elements have padding all the same, and scalars have none.
#[test]
fn arrays_without_elements_are_padding_alone() {
    let mut session = session(&unary("s32[0,3]{1,0:W(2,3)}", "s32[0,3]{0,1:W(2,4)V(one)}", "negate"));
    session.call().unwrap();
    assert_eq!(session.result_bytes(0).unwrap(), [1, 0, 0, 0].repeat(8));
    assert_eq!(session.result(0).unwrap().elements(), 0);
}

/// One kernel reads the caller's memory and writes it: no copy before, none behind.
#[test]
fn fused_kernels_read_and_write_layouts_in_place() {
    let plain = "f32[64,48]{1,0}";
    for (from, to) in [
        (plain, plain),
        ("f32[64,48]{0,1}", "f32[64,48]{0,1}"),
        ("f32[64,48]{0,1}", plain),
        ("f32[64,48]{1,0:W(64,50)}", plain),
        ("f32[64,48]{0,1:W(65,50)}", plain),
        (plain, "f32[64,48]{1,0:W(66,50)V(one)}"),
        ("f32[64,48]{0,1:W(65,50)}", "f32[64,48]{0,1:W(66,50)V(lowest)}"),
    ] {
        let artifact = compiled(&format!(
            "HloModule m, entry_computation_layout={{({from})->{to}}}\n\nENTRY main {{\n  x = {from} parameter(0)\n  \
             e = f32[64,48] exponential(x)\n  ROOT y = {to} multiply(e, x)\n}}\n"
        ));
        assert_eq!(artifact.schedule.kernels.len(), 1, "{from} to {to}\n{}", artifact.kernel_text());
        assert_eq!(artifact.descriptor.workspace_fixed, 0, "{from} to {to}");
    }
}

/// A layout that equals row-major costs nothing: the same object as without one.
#[test]
fn row_major_layouts_cost_nothing() {
    let object = |layout: &str| unary(&format!("f32[5,7]{layout}"), &format!("f32[5,7]{layout}"), "tanh").object;
    let plain = object("");
    for layout in ["{1,0}", "{1,0:W(5,7)}", "{1,0:W(5,7)V(zero)}"] {
        assert!(object(layout) == plain, "{layout}");
    }
}

/// The gradient of a dense layer written column-major is a choice of loops in the contraction: nothing is transposed.
#[test]
fn dots_take_and_give_columns() {
    let operands: Vec<f32> = (0..24 * 40).map(|i| ((i * 37 % 101) as f32 - 50.0) / 8.0).collect();
    let x = ArrayLiteral::from_elements(&[40, 24], &operands);
    let g = ArrayLiteral::from_elements(&[40, 24], &operands.iter().rev().copied().collect::<Vec<_>>());
    let mut want: Option<ArrayLiteral> = None;
    for (left, right, out) in [
        ("{1,0}", "{1,0}", "{1,0}"),
        ("{0,1}", "{1,0}", "{1,0}"),
        ("{1,0}", "{0,1}", "{1,0}"),
        ("{1,0}", "{1,0}", "{0,1}"),
        ("{0,1}", "{0,1}", "{0,1}"),
        ("{1,0:W(41,32)}", "{0,1:W(40,25)}", "{1,0}"),
    ] {
        let artifact = compiled(&format!(
            "HloModule m, entry_computation_layout={{(f32[40,24]{left}, f32[40,24]{right})->f32[24,24]{out}}}\n\n\
             ENTRY main {{\n  x = f32[40,24] parameter(0)\n  g = f32[40,24] parameter(1)\n  \
             ROOT w = f32[24,24] dot(x, g), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}\n}}\n"
        ));
        let layouts = format!("{left} {right} {out}\n{}", artifact.kernel_text());
        assert_eq!(artifact.schedule.kernels.len(), 1, "{layouts}");
        assert_eq!(artifact.schedule.kernels.values().map(|k| k.phases.len()).sum::<usize>(), 1, "{layouts}");
        assert_eq!(artifact.descriptor.workspace_fixed, 0, "{layouts}");
        let got = Program::from_object(&artifact.object).unwrap().run(&[&x, &g]).unwrap().remove(0);
        assert_eq!(want.get_or_insert_with(|| got.clone()), &got, "{layouts}");
    }
}

/// A matrix that is multiplied by few rows is read along its memory, however the program says that: one row is one sum for each of
/// the matrix's rows, few rows are the columns of a product that has the matrix on the left.
#[test]
fn matrices_are_read_along_memory_by_few_rows() {
    let values = |n: usize| -> Vec<f32> { (0..n).map(|i| ((i * 37 % 1009) as f32 - 500.0) / 7.0).collect() };
    for (rows, along) in [(1, "load in0[i0 + 200*i2"), (4, "lhs in1[i0 + 200*i2]")] {
        let (x, w) = (values(rows * 200), values(300 * 200));
        let x = ArrayLiteral::from_elements(&[rows as i64, 200], &x);
        let by_rows = ArrayLiteral::from_elements(&[300, 200], &w);
        let by_columns = ArrayLiteral::from_elements(
            &[200, 300],
            &(0..200 * 300).map(|i| w[i % 300 * 200 + i / 300]).collect::<Vec<_>>(),
        );
        let contracted = "lhs_contracting_dims={1}, rhs_contracting_dims={1}";
        let columns = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
        let transpose = "w = f32[200,300] transpose(m), dimensions={1,0}";
        let mut want: Option<ArrayLiteral> = None;
        for (between, numbers, dims, layout, matrix) in [
            ("w = f32[300,200] copy(m)", contracted, "300,200", "{1,0}", &by_rows),
            (transpose, columns, "300,200", "{1,0}", &by_rows),
            ("w = f32[200,300] copy(m)", columns, "200,300", "{0,1}", &by_columns),
        ] {
            let artifact = compiled(&format!(
                "HloModule m, entry_computation_layout={{(f32[{rows},200]{{1,0}}, f32[{dims}]{layout})->f32[{rows},300]{{1,0}}}}\n\n\
                 ENTRY main {{\n  x = f32[{rows},200] parameter(0)\n  m = f32[{dims}] parameter(1)\n  {between}\n  \
                 ROOT y = f32[{rows},300] dot(x, w), {numbers}\n}}\n"
            ));
            let text = artifact.kernel_text();
            assert!(text.contains(along), "{text}");
            let got = Program::from_object(&artifact.object).unwrap().run(&[&x, matrix]).unwrap().remove(0);
            assert_eq!(want.get_or_insert_with(|| got.clone()), &got, "{text}");
        }
    }
}

/// What is computed row by row, folded or multiplied is stored where it lies in a padded result: nothing is computed elsewhere and
/// copied, and the same bits are there as without padding.
#[test]
fn padded_results_are_stored_where_they_lie() {
    let softmax = "lowest = f32[] constant(-inf)
  zero = f32[] constant(0)
  most = f32[40] reduce(x, lowest), dimensions={1}, to_apply=most
  spread = f32[40,24] broadcast(most), dimensions={0}
  less = f32[40,24] subtract(x, spread)
  e = f32[40,24] exponential(less)
  total = f32[40] reduce(e, zero), dimensions={1}, to_apply=sum
  by = f32[40,24] broadcast(total), dimensions={0}
  ROOT r = f32[40,24] divide(e, by)";
    let rows = "zero = f32[] constant(0)\n  ROOT r = f32[40] reduce(x, zero), dimensions={1}, to_apply=sum";
    let columns = "zero = f32[] constant(0)\n  ROOT r = f32[24] reduce(x, zero), dimensions={0}, to_apply=sum";
    let dot = "d = f32[24,24] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT r = f32[24,24] negate(d)";
    let small = "s = f32[2,40,12] reshape(x)
  ROOT r = f32[2,40] dot(s, s), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}";
    let window = "i = f32[1,40,24,1] reshape(x)
  ROOT r = f32[1,40,24,1] convolution(i, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f";
    let x: Vec<f32> = (0..40 * 24).map(|i| ((i * 37 % 101) as f32 - 50.0) / 8.0).collect();
    let x = ArrayLiteral::from_elements(&[40, 24], &x);
    let k = ArrayLiteral::from_elements(&[3, 3, 1, 1], &x.as_slice::<f32>()[..9]);
    for (body, result, layout) in [
        (softmax, "f32[40,24]", "{1,0:W(41,32)V(one)}"),
        (rows, "f32[40]", "{0:W(48)V(highest)}"),
        (columns, "f32[24]", "{0:W(32)V(zero)}"),
        (dot, "f32[24,24]", "{1,0:W(25,32)V(lowest)}"),
        (dot, "f32[24,24]", "{0,1:W(32,24)V(one)}"),
        (small, "f32[2,40]", "{1,0:W(2,48)V(one)}"),
        (window, "f32[1,40,24,1]", "{3,2,1,0:W(1,40,32,1)V(zero)}"),
    ] {
        let program = |result: &str| {
            compiled(&format!(
                "HloModule m, entry_computation_layout={{(f32[40,24]{{1,0}}, f32[3,3,1,1]{{3,2,1,0}})->{result}}}

sum {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }}
most {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] maximum(a, b) }}
ENTRY main {{
  x = f32[40,24] parameter(0)
  k = f32[3,3,1,1] parameter(1)
  {body}
}}"
            ))
        };
        let artifacts = [program(result), program(&format!("{result}{layout}"))];
        let [plain, padded] = artifacts.each_ref().map(|artifact| {
            let mut session = session(artifact);
            session.set_parameter(0, &x).unwrap();
            session.set_parameter(1, &k).unwrap();
            session.call().unwrap();
            (session.result(0).unwrap(), session.result_bytes(0).unwrap().to_vec())
        });
        let text = artifacts[1].kernel_text();
        assert_eq!(artifacts[1].schedule.kernels.len(), artifacts[0].schedule.kernels.len(), "{layout}\n{text}");
        let workspace = artifacts.each_ref().map(|artifact| artifact.assignment.workspace);
        assert_eq!(workspace[1], workspace[0], "{layout}\n{text}");
        assert_eq!(plain.0, padded.0, "{layout}\n{text}");
        let shape = text::parse_shape(&format!("{result}{layout}")).unwrap();
        let layout = shape.as_array().unwrap().layout.as_ref().unwrap();
        assert!(padded.1 == plain.0.to_memory(layout).unwrap(), "{shape}: {:?}\n{text}", padded.1);
    }
}

/// Products in another type than that of their sums: columns cost what rows cost.
#[test]
fn dots_of_narrow_types_give_columns() {
    for (ty, out) in [("bf16", "bf16"), ("f16", "f32"), ("s8", "s32")] {
        let mut operand = ArrayLiteral::zeros(&ArrayShape::new(ty.parse().unwrap(), [40, 24]));
        for i in 0..operand.elements() {
            let number = (i * 37 % 101) as i64 - 50;
            operand.set(i, if ty == "s8" { Scalar::Int(number) } else { Scalar::Float(number as f64 / 8.0) });
        }
        // Another operand: what is exchanged or turned shows.
        let mut other = operand.clone();
        (0..other.elements()).for_each(|i| other.set(i, operand.get(operand.elements() - 1 - i)));
        let [rows, columns] = ["{1,0}", "{0,1}"].map(|layout| {
            let artifact = compiled(&format!(
                "HloModule m, entry_computation_layout={{({ty}[40,24]{{1,0}}, {ty}[40,24]{{1,0}})->{out}[24,24]{layout}}}\n\n\
                 ENTRY main {{\n  x = {ty}[40,24] parameter(0)\n  g = {ty}[40,24] parameter(1)\n  \
                 ROOT w = {out}[24,24] dot(x, g), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}\n}}\n"
            ));
            let phases = artifact.schedule.kernels.values().map(|k| k.phases.len()).sum::<usize>();
            let got = Program::from_object(&artifact.object).unwrap().run(&[&operand, &other]).unwrap().remove(0);
            (phases, artifact.descriptor.workspace_fixed, got)
        });
        assert_eq!(rows, columns, "{ty}");
    }
}

/// A step of gradient descent on weights that lie column by column: one contraction, which reads and writes them as they lie.
#[test]
fn dense_layers_learn_column_by_column() {
    let numbers = |n: usize| (0..n).map(|i| ((i * 37 % 101) as f32 - 50.0) / 8.0).collect::<Vec<_>>();
    let array = |dims: &[i64]| ArrayLiteral::from_elements(dims, &numbers(dims.iter().product::<i64>() as usize));
    let (x, g, w) = (array(&[40, 24]), array(&[40, 32]), array(&[24, 32]));
    let [rows, columns] = ["{1,0}", "{0,1}"].map(|layout| {
        let artifact = compiled(&format!(
            "HloModule m, entry_computation_layout={{(f32[40,24]{{1,0}}, f32[40,32]{{1,0}}, f32[24,32]{layout})->f32[24,32]{layout}}}\n\n\
             ENTRY main {{\n  x = f32[40,24] parameter(0)\n  g = f32[40,32] parameter(1)\n  w = f32[24,32] parameter(2)\n  \
             d = f32[24,32] dot(x, g), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}\n  rate = f32[] constant(0.125)\n  \
             r = f32[24,32] broadcast(rate), dimensions={{}}\n  s = f32[24,32] multiply(d, r)\n  \
             ROOT v = f32[24,32] subtract(w, s)\n}}\n"
        ));
        let phases = artifact.schedule.kernels.values().map(|k| k.phases.len()).sum::<usize>();
        assert_eq!((phases, artifact.descriptor.workspace_fixed), (1, 0), "{layout}\n{}", artifact.kernel_text());
        Program::from_object(&artifact.object).unwrap().run(&[&x, &g, &w]).unwrap().remove(0)
    });
    assert_eq!(rows, columns);
}

/// A parameter and the result in its buffer have one layout: the program overwrites what it reads, padding too.
#[test]
fn donated_buffers_keep_their_layout() {
    let artifact = compiled(
        "HloModule m, input_output_alias={ {}: (0, {}, must-alias) }\n\nENTRY main {\n  \
         x = s32[2,3]{0,1:W(3,3)V(highest)} parameter(0)\n  ROOT y = s32[2,3]{0,1:W(3,3)V(highest)} negate(x)\n}\n",
    );
    let mut session = session(&artifact);
    session.set_parameter(0, &ArrayLiteral::from_elements(&[2, 3], &[1, 2, 3, 4, 5, 6])).unwrap();
    session.call().unwrap();
    let memory: Vec<i32> =
        session.result_bytes(0).unwrap().as_chunks().0.iter().map(|b| i32::from_le_bytes(*b)).collect();
    assert_eq!(memory, [-1, -4, i32::MAX, -2, -5, i32::MAX, -3, -6, i32::MAX]);
    let bytes = session.result_bytes(0).unwrap().to_vec();
    assert_eq!(session.parameter_bytes_mut(0).unwrap(), bytes);
}

/// Leaves of tuples have their layouts too, and a caller's tuple must have the program's.
#[test]
fn tuples_of_padded_arrays() {
    let (from, to) = ("u8[2,2]{0,1:W(3,2)}", "u8[2,2]{1,0:W(2,3)V(one)}");
    let artifact = compiled(&format!(
        "HloModule m, entry_computation_layout={{(({from}, u8[]))->({to}, u8[])}}\n\nENTRY main {{\n  \
         t = (u8[2,2], u8[]) parameter(0)\n  a = u8[2,2] get-tuple-element(t), index=0\n  \
         s = u8[] get-tuple-element(t), index=1\n  b = u8[2,2] broadcast(s), dimensions={{}}\n  \
         c = u8[2,2] add(a, b)\n  ROOT r = (u8[2,2], u8[]) tuple(c, s)\n}}\n"
    ));
    let program = Program::from_object(&artifact.object).unwrap();
    let mut caller = brolga_runtime::Caller::new(&program, &RunOptions::default()).unwrap();
    let shape = |text: &str| text::parse_shape(&format!("({text}, u8[])")).unwrap();
    let (mut matrix, mut scalar) = (*b"ac?bd?", [1u8]);
    let (mut out, mut same) = ([0u8; 6], [0u8]);
    {
        let input = TupleBuffer::from_leaves(shape(from), vec![&mut matrix, &mut scalar]).unwrap();
        let mut result = TupleBuffer::from_leaves(shape(to), vec![&mut out, &mut same]).unwrap();
        caller.call_tuples(&[&input], &mut result).unwrap();
        let mut other = [0u8; 6];
        let mut wrong = TupleBuffer::from_leaves(shape("u8[2,2]{1,0:W(3,2)}"), vec![&mut other, &mut same]).unwrap();
        let refused = caller.call_tuples(&[&input], &mut wrong);
        assert!(matches!(refused, Err(RunError::Shape { index: 0, .. })), "{refused:?}");
    }
    assert_eq!((&out, same), (b"bc\x01de\x01", [1]));
}

/// What a builder states is what callers see: «ShapeUtil::MakeShape(F32, {A, B, C, D}) makes a shape whose dimensions are A, B, C, D».
#[test]
fn builders_say_layouts_of_parameters_and_results() {
    let shape = Shape::array(ElementType::F32, [2, 3, 4, 5]);
    assert_eq!(shape.as_array().unwrap().dims, [2, 3, 4, 5]);
    let with = |layout: Layout| match shape.clone() {
        Shape::Array(a) => Shape::Array(ArrayShape { layout: Some(layout), ..a }),
        other => other,
    };
    let from = Layout { minor_to_major: vec![0, 1, 2, 3], ..Layout::default() };
    let to = Layout {
        minor_to_major: vec![1, 3, 0, 2],
        padded_dimensions: vec![2, 4, 4, 6],
        padding_value: PaddingValue::Highest,
        ..Layout::default()
    };
    let b = Builder::new("scaled");
    let x = b.parameter(0, with(from.clone()), "x");
    b.set_result_layout(with(to.clone()));
    b.add(x, x);
    let artifact = compile(&b.build().unwrap(), &CompileOptions::default()).unwrap();
    let mut session = session(&artifact);
    let numbers: Vec<f32> = (0..120u16).map(f32::from).collect();
    let x = ArrayLiteral::from_elements(&[2, 3, 4, 5], &numbers);
    session.parameter_bytes_mut(0).unwrap().copy_from_slice(&x.to_memory(&from).unwrap());
    session.call().unwrap();
    let want = ArrayLiteral::from_elements(&[2, 3, 4, 5], &numbers.iter().map(|v| v + v).collect::<Vec<_>>());
    assert_eq!(session.result_bytes(0).unwrap(), want.to_memory(&to).unwrap());
}

/// "The only required field is `minor_to_major`": it says all of a layout, and what else a layout may say does not stand without it.
#[test]
fn minor_to_major_alone_is_a_layout() {
    let order = Layout { minor_to_major: vec![0, 1], ..Layout::default() };
    let stated = ArrayShape { layout: Some(order), ..ArrayShape::new(ElementType::U8, [2, 3]) };
    assert_eq!((stated.widths(), stated.strides()), (&[2, 3][..], vec![1, 2]));
    let b = Builder::new("m");
    b.neg(b.parameter(0, Shape::Array(stated), "x"));
    let artifact = compile(&b.build().unwrap(), &CompileOptions::default()).unwrap();
    assert_eq!(artifact.descriptor.parameters[0].shape.to_string(), "u8[2,3]{0,1}");
    let padding = Layout { padded_dimensions: vec![3, 5], padding_value: PaddingValue::Zero, ..Layout::default() };
    let b = Builder::new("m");
    b.parameter(0, Shape::Array(ArrayShape { layout: Some(padding), ..ArrayShape::new(ElementType::U8, [2, 3]) }), "x");
    let refused = b.build().unwrap_err();
    assert!(matches!(refused, Error::Invalid { constraint: "shape.layout", .. }), "{refused}");
    let text = "HloModule m\n\nENTRY e {\n  ROOT x = u8[2,3]{:W(3,5)V(zero)} parameter(0)\n}\n";
    let refused = text::parse(text).and_then(|m| brolga_compiler::shape::verify(&m)).unwrap_err();
    assert!(refused.to_string().contains("layout"), "{refused}");
}

/// What callers outside are told: the length of each buffer, what it is padded to, and its strides.
#[test]
fn headers_and_bindings_say_widths_and_strides() {
    use brolga_compiler::object::{c_header, rust_bindings};
    let artifact = unary("f32[2,3]{0,1}", "f32[2,3]{0,1:W(3,5)V(zero)}", "negate");
    let descriptors = [artifact.descriptor];
    let header = c_header(&descriptors);
    for line in [
        "/* x: f32[2,3]{0,1}, as float */",
        "#define M_PARAMETER_0_ELEMENTS 6",
        "/* f32[2,3]{0,1:W(3,5)V(zero)}, as float, padded to [3, 5]: strides [1, 3] */",
        "#define M_RESULT_0_BYTES 60",
        "#define M_RESULT_0_ELEMENTS 15",
    ] {
        assert!(header.contains(line), "{line}\n{header}");
    }
    let bindings = rust_bindings(&descriptors);
    assert!(bindings.contains("pub fn run(&mut self, x: &[f32; 6], out0: &mut [f32; 15])"), "{bindings}");
}

/// What padding does not go with is named, as something that is missing and not wrong.
#[test]
fn unsupported_padding_is_named() {
    for (shape, what) in [
        ("f32[<=4]{0:W(6)}", "padding of an array with bounded dynamic dimensions"),
        ("s4[4]{0:E(4)W(6)}", "padding of an array of packed elements"),
    ] {
        let source = format!("HloModule m\n\nENTRY main {{\n  ROOT x = {shape} parameter(0)\n}}\n");
        let error = compile(&text::parse(&source).unwrap(), &CompileOptions::default()).unwrap_err();
        assert!(matches!(&error, Error::Unsupported { feature, .. } if feature.starts_with(what)), "{error}");
    }
}
