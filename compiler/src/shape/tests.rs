//! Rules on hand-built operands; the negative cases of whole modules stand in the text tests.

use super::*;
use crate::hlo::{AttrKey, ConvolutionDims, PaddingDimension, SliceRange, WindowDimension};
use brolga_runtime::ElementType::{self, *};

fn shape(ty: ElementType, dims: &[i64]) -> Shape {
    Shape::array(ty, dims)
}

fn ints(key: AttrKey, list: &[i64]) -> (AttrKey, AttrValue) {
    (key, AttrValue::Ints(list.to_vec()))
}

fn attrs(list: impl IntoIterator<Item = (AttrKey, AttrValue)>) -> Attrs {
    list.into_iter().fold(Attrs::new(), |a, (k, v)| a.with(k, v))
}

fn run(op: Opcode, operands: &[Shape], attrs: &Attrs, declared: Option<&Shape>) -> Result<String, &'static str> {
    let operands: Vec<&Shape> = operands.iter().collect();
    infer(&InferContext::empty(), op, &operands, attrs, declared).map(|s| s.to_string()).map_err(|e| e.constraint)
}

fn plain(op: Opcode, operands: &[Shape]) -> Result<String, &'static str> {
    run(op, operands, &Attrs::new(), None)
}

#[test]
fn elementwise_types() {
    let f = shape(F32, &[2, 3]);
    let i = shape(S32, &[2, 3]);
    let p = shape(Pred, &[2, 3]);
    let c = shape(C64, &[2, 3]);
    assert_eq!(plain(Opcode::Add, &[f.clone(), f.clone()]).as_deref(), Ok("f32[2,3]"));
    assert_eq!(plain(Opcode::Add, &[f.clone(), shape(BF16, &[2, 3])]).as_deref(), Ok("f32[2,3]"));
    assert_eq!(plain(Opcode::Add, &[f.clone(), i.clone()]), Err("operand.same-type"));
    assert_eq!(plain(Opcode::Add, &[f.clone(), shape(F32, &[3, 2])]), Err("elementwise.same-dimensions"));
    assert_eq!(plain(Opcode::Add, std::slice::from_ref(&f)), Err("arity"));
    assert_eq!(plain(Opcode::Subtract, &[p.clone(), p.clone()]), Err("elementwise.type"));
    assert_eq!(plain(Opcode::And, &[f.clone(), f.clone()]), Err("elementwise.type"));
    assert_eq!(plain(Opcode::ShiftLeft, &[p.clone(), p.clone()]), Err("elementwise.type"));
    assert_eq!(plain(Opcode::Sqrt, std::slice::from_ref(&i)), Err("elementwise.type"));
    assert_eq!(plain(Opcode::Abs, std::slice::from_ref(&c)).as_deref(), Ok("f32[2,3]"));
    assert_eq!(plain(Opcode::IsFinite, std::slice::from_ref(&f)).as_deref(), Ok("pred[2,3]"));
    assert_eq!(plain(Opcode::Complex, &[f.clone(), f.clone()]).as_deref(), Ok("c64[2,3]"));
    assert_eq!(plain(Opcode::Complex, &[i.clone(), i.clone()]), Err("complex.type"));
    assert_eq!(plain(Opcode::Select, &[shape(Pred, &[]), f.clone(), f.clone()]).as_deref(), Ok("f32[2,3]"));
    assert_eq!(plain(Opcode::Select, &[i.clone(), f.clone(), f.clone()]), Err("select.predicate"));
    assert_eq!(plain(Opcode::Abs, &[Shape::Token]), Err("operand.array"));
    let declared = shape(S8, &[2, 3]);
    assert_eq!(run(Opcode::Convert, &[c], &Attrs::new(), Some(&declared)), Err("convert.complex"));
    let declared = shape(S8, &[2, 4]);
    assert_eq!(run(Opcode::Convert, &[f], &Attrs::new(), Some(&declared)), Err("result.shape"));
    assert_eq!(run(Opcode::Abs, &[i], &Attrs::new(), Some(&shape(C64, &[2, 3]))), Err("result.shape"));
}

#[test]
fn compare_rules() {
    let direction = |d| (AttrKey::Direction, AttrValue::Word(d));
    let c = shape(C64, &[2]);
    assert_eq!(run(Opcode::Compare, &[c.clone(), c.clone()], &attrs([direction("LT")]), None), Err("compare.complex"));
    assert_eq!(
        run(Opcode::Compare, &[c.clone(), c.clone()], &attrs([direction("EQ")]), None).as_deref(),
        Ok("pred[2]")
    );
    assert_eq!(run(Opcode::Compare, &[c.clone(), c], &Attrs::new(), None), Err("attribute.required"));
    let s = shape(S32, &[2]);
    let float = attrs([direction("LT"), (AttrKey::ComparisonType, AttrValue::Word("FLOAT"))]);
    assert_eq!(run(Opcode::Compare, &[s.clone(), s], &float, None), Err("compare.type"));
}

#[test]
fn movement_rules() {
    let a = shape(F32, &[4, 6]);
    let one = |key, list: &[i64]| attrs([ints(key, list)]);
    let transpose = |p: &[i64]| run(Opcode::Transpose, std::slice::from_ref(&a), &one(AttrKey::Dimensions, p), None);
    assert_eq!(transpose(&[1, 0]).as_deref(), Ok("f32[6,4]"));
    for wrong in [&[0][..], &[0, 0], &[0, 2], &[0, -1], &[0, i64::MAX]] {
        assert_eq!(transpose(wrong), Err("transpose.permutation"));
    }
    let slice = |start, limit, stride| {
        let range = SliceRange { start, limit, stride };
        let whole = SliceRange { start: 0, limit: 4, stride: 1 };
        let attrs = attrs([(AttrKey::Slice, AttrValue::SliceRanges(vec![whole, range]))]);
        run(Opcode::Slice, std::slice::from_ref(&a), &attrs, None)
    };
    assert_eq!(slice(1, 6, 2).as_deref(), Ok("f32[4,3]"));
    assert_eq!(slice(3, 2, 1), Err("slice.bounds"));
    assert_eq!(slice(-1, 2, 1), Err("slice.bounds"));
    assert_eq!(slice(0, 7, 1), Err("slice.bounds"));
    assert_eq!(slice(0, 6, 0), Err("slice.stride"));
    assert_eq!(slice(0, 6, i64::MAX).as_deref(), Ok("f32[4,1]"));
    let pad = |low, high, interior| {
        let entries = vec![PaddingDimension::default(), PaddingDimension { low, high, interior }];
        let attrs = attrs([(AttrKey::Padding, AttrValue::Padding(entries))]);
        run(Opcode::Pad, &[a.clone(), shape(F32, &[])], &attrs, None)
    };
    assert_eq!(pad(1, -2, 1).as_deref(), Ok("f32[4,10]"));
    assert_eq!(pad(-7, 0, 0), Err("pad.negative"));
    assert_eq!(pad(0, 0, -1), Err("pad.interior"));
    assert_eq!(pad(i64::MAX, 0, 0), Err("pad.overflow"));
    assert_eq!(pad(0, 0, i64::MAX), Err("pad.overflow"));
    assert_eq!(pad(i64::MAX - 6, 0, 0), Err("shape.size"));
    let broadcast = |dims: &[i64], to: &[i64]| {
        run(Opcode::Broadcast, std::slice::from_ref(&a), &one(AttrKey::Dimensions, dims), Some(&shape(F32, to)))
    };
    assert_eq!(broadcast(&[0, 2], &[4, 9, 6]).as_deref(), Ok("f32[4,9,6]"));
    assert_eq!(broadcast(&[0], &[4, 6]), Err("broadcast.rank"));
    assert_eq!(broadcast(&[0, 0], &[4, 6]), Err("broadcast.dimensions"));
    assert_eq!(broadcast(&[0, 1], &[4, 7]), Err("broadcast.sizes"));
    let reshape = |to: Shape| run(Opcode::Reshape, std::slice::from_ref(&a), &Attrs::new(), Some(&to));
    assert_eq!(reshape(shape(F32, &[24])).as_deref(), Ok("f32[24]"));
    assert_eq!(reshape(shape(F32, &[25])), Err("reshape.elements"));
    assert_eq!(reshape(shape(C64, &[24])), Err("reshape.type"));
    assert_eq!(run(Opcode::Reshape, std::slice::from_ref(&a), &Attrs::new(), None), Err("result.declared"));
    let concat = |b: Shape, d: &[i64]| run(Opcode::Concatenate, &[a.clone(), b], &one(AttrKey::Dimensions, d), None);
    assert_eq!(concat(shape(F32, &[4, 1]), &[1]).as_deref(), Ok("f32[4,7]"));
    assert_eq!(concat(shape(F32, &[3, 1]), &[1]), Err("concatenate.sizes"));
    assert_eq!(concat(shape(F32, &[4]), &[1]), Err("concatenate.rank"));
    assert_eq!(concat(shape(S8, &[4, 1]), &[1]), Err("operand.same-type"));
    assert_eq!(concat(shape(F32, &[4, i64::MAX]), &[1]), Err("concatenate.overflow"));
    assert_eq!(concat(a.clone(), &[2]), Err("concatenate.dimension"));
    let bitcast = |from: &[i64], to: Shape| run(Opcode::BitcastConvert, &[shape(S32, from)], &Attrs::new(), Some(&to));
    assert_eq!(bitcast(&[3], shape(U8, &[3, 4])).as_deref(), Ok("u8[3,4]"));
    assert_eq!(bitcast(&[3, 2], shape(F64, &[3])).as_deref(), Ok("f64[3]"));
    assert_eq!(bitcast(&[3, 3], shape(F64, &[3])), Err("bitcast-convert.width"));
    assert_eq!(bitcast(&[], shape(F64, &[])), Err("bitcast-convert.width"));
}

#[test]
fn dynamic_marks_travel() {
    let mut a = ArrayShape::new(F32, [4, 6]);
    a.dynamic[1] = true;
    let b = Shape::array(F32, [4, 6]);
    assert_eq!(plain(Opcode::Add, &[b, a.clone().into()]).as_deref(), Ok("f32[4,<=6]"));
    let permute = attrs([ints(AttrKey::Dimensions, &[1, 0])]);
    assert_eq!(run(Opcode::Transpose, &[a.clone().into()], &permute, None).as_deref(), Ok("f32[<=6,4]"));
    let set = attrs([ints(AttrKey::Dimensions, &[0])]);
    let operands = [a.into(), Shape::scalar(S32)];
    assert_eq!(run(Opcode::SetDimensionSize, &operands, &set, None).as_deref(), Ok("f32[<=4,<=6]"));
}

#[test]
fn dot_rules() {
    let dot = |a: Shape, b: Shape, lists: [&[i64]; 4], declared: Option<&Shape>| {
        let keys =
            [AttrKey::LhsBatchDims, AttrKey::LhsContractingDims, AttrKey::RhsBatchDims, AttrKey::RhsContractingDims];
        run(Opcode::Dot, &[a, b], &attrs(keys.into_iter().zip(lists).map(|(k, l)| ints(k, l))), declared)
    };
    let (a, b) = (shape(F16, &[3, 4, 5]), shape(F16, &[3, 5, 2]));
    let right: [&[i64]; 4] = [&[0], &[2], &[0], &[1]];
    assert_eq!(dot(a.clone(), b.clone(), right, None).as_deref(), Ok("f16[3,4,2]"));
    let wide = shape(F32, &[3, 4, 2]);
    assert_eq!(dot(a.clone(), b.clone(), right, Some(&wide)).as_deref(), Ok("f32[3,4,2]"));
    let complex = shape(C64, &[3, 4, 2]);
    assert_eq!(dot(a.clone(), b.clone(), right, Some(&complex)), Err("dot.result-type"));
    let other = shape(F32, &[3, 4, 3]);
    assert_eq!(dot(a.clone(), b.clone(), right, Some(&other)), Err("result.shape"));
    assert_eq!(dot(a.clone(), b.clone(), [&[77], &[2], &[0], &[1]], None), Err("dot.batch-dimensions"));
    assert_eq!(dot(a.clone(), b.clone(), [&[0], &[2, 1], &[0], &[1]], None), Err("dot.contracting-dimensions"));
    assert_eq!(dot(a.clone(), b.clone(), [&[0], &[0], &[0], &[1]], None), Err("dot.distinct-dimensions"));
    assert_eq!(dot(a.clone(), b.clone(), [&[0], &[1], &[0], &[1]], None), Err("dot.contracting-sizes"));
    assert_eq!(dot(a.clone(), b.clone(), [&[1], &[2], &[0], &[1]], None), Err("dot.batch-sizes"));
    assert_eq!(dot(a, shape(C64, &[3, 5, 2]), right, None), Err("dot.operand-types"));
    let narrow = shape(S4, &[3, 4, 2]);
    assert_eq!(dot(shape(S8, &[3, 4, 5]), shape(S8, &[3, 5, 2]), right, Some(&narrow)).as_deref(), Ok("s4[3,4,2]"));
    assert_eq!(dot(shape(F16, &[3, 4, 5]), shape(F16, &[3, 5, 2]), right, Some(&narrow)).as_deref(), Ok("s4[3,4,2]"));
}

#[test]
fn windows() {
    let w = WindowDimension { size: 3, stride: 2, padding_low: 1, ..WindowDimension::default() };
    assert_eq!(window_output_size(7, &w), Some(3));
    assert_eq!(window_output_size(0, &w), Some(0));
    let cut = WindowDimension { padding_low: -8, ..w };
    assert_eq!(window_output_size(7, &cut), None);
    let dilated = WindowDimension { base_dilation: i64::MAX, ..w };
    assert_eq!(window_output_size(7, &dilated), None);
    let wide = WindowDimension { window_dilation: 3, ..w };
    assert_eq!(window_output_size(7, &wide), Some(1));
    let refused = |w: WindowDimension| super::window::window_dims(&[7], &[w]).map_err(|e| e.constraint);
    assert_eq!(refused(cut), Err("window.padding"));
    assert_eq!(refused(dilated), Err("window.overflow"));
    assert_eq!(refused(WindowDimension { padding_high: i64::MAX, ..w }), Err("window.overflow"));
    assert_eq!(refused(WindowDimension { padding_low: i64::MIN, padding_high: i64::MIN, ..w }), Err("window.padding"));
    assert_eq!(refused(WindowDimension { size: i64::MAX, window_dilation: 3, ..w }), Err("window.overflow"));
}

#[test]
fn convolution_rules() {
    let dims = ConvolutionDims {
        input_batch: 0,
        input_spatial: vec![1],
        input_feature: 2,
        kernel_spatial: vec![0],
        kernel_input_feature: 1,
        kernel_output_feature: 2,
        output_batch: 0,
        output_spatial: vec![1],
        output_feature: 2,
    };
    let conv = |dims: &ConvolutionDims, kernel: Shape, size: i64, groups: (i64, i64)| {
        let window = vec![WindowDimension { size, ..WindowDimension::default() }];
        let attrs = attrs([
            (AttrKey::DimLabels, AttrValue::DimLabels(Box::new(dims.clone()))),
            (AttrKey::Window, AttrValue::Window(window)),
            (AttrKey::FeatureGroupCount, AttrValue::Int(groups.0)),
            (AttrKey::BatchGroupCount, AttrValue::Int(groups.1)),
        ]);
        run(Opcode::Convolution, &[shape(F32, &[2, 9, 4]), kernel], &attrs, None)
    };
    assert_eq!(conv(&dims, shape(F32, &[4, 4, 6]), 4, (1, 1)).as_deref(), Ok("f32[2,6,6]"));
    assert_eq!(conv(&dims, shape(F32, &[4, 2, 6]), 4, (2, 1)).as_deref(), Ok("f32[2,6,6]"));
    assert_eq!(conv(&dims, shape(F32, &[4, 4, 6]), 4, (1, 2)).as_deref(), Ok("f32[1,6,6]"));
    assert_eq!(conv(&dims, shape(F32, &[4, 3, 6]), 4, (1, 1)), Err("convolution.features"));
    assert_eq!(conv(&dims, shape(F32, &[4, 4, 6]), 3, (1, 1)), Err("convolution.window"));
    assert_eq!(conv(&dims, shape(F32, &[4, 4, 6]), 4, (2, 2)), Err("convolution.groups"));
    assert_eq!(conv(&dims, shape(F32, &[4, 4, 6]), 4, (0, 1)), Err("convolution.groups"));
    assert_eq!(conv(&dims, shape(F32, &[4, 4, 5]), 4, (1, 2)), Err("convolution.output-features"));
    assert_eq!(conv(&dims, shape(F32, &[4, 4]), 4, (1, 1)), Err("convolution.rank"));
    let wrong = ConvolutionDims { input_batch: 2, ..dims };
    assert_eq!(conv(&wrong, shape(F32, &[4, 4, 6]), 4, (1, 1)), Err("convolution.dim-labels"));
}

#[test]
fn gather_rules() {
    let gather = |lists: [&[i64]; 4], vector: i64, indices: Shape| {
        let keys = [AttrKey::OffsetDims, AttrKey::CollapsedSliceDims, AttrKey::StartIndexMap, AttrKey::SliceSizes];
        let attrs = attrs(keys.into_iter().zip(lists).map(|(k, l)| ints(k, l)))
            .with(AttrKey::IndexVectorDim, AttrValue::Int(vector));
        run(Opcode::Gather, &[shape(F32, &[5, 6]), indices], &attrs, None)
    };
    let (right, indices): ([&[i64]; 4], _) = ([&[1], &[0], &[0], &[1, 3]], shape(S32, &[4]));
    assert_eq!(gather(right, 1, indices.clone()).as_deref(), Ok("f32[4,3]"));
    assert_eq!(gather(right, 2, indices.clone()), Err("gather.indices"));
    assert_eq!(gather(right, 0, indices.clone()), Err("gather.indices"));
    assert_eq!(gather(right, 1, shape(F32, &[4])), Err("gather.indices"));
    assert_eq!(gather([&[2], &[0], &[0], &[1, 3]], 1, indices.clone()), Err("gather.offset-dims"));
    assert_eq!(gather([&[0, 1], &[0], &[0], &[1, 3]], 1, indices.clone()), Err("gather.offset-dims"));
    assert_eq!(gather([&[1], &[5], &[0], &[1, 3]], 1, indices.clone()), Err("gather.collapsed-slice-dims"));
    assert_eq!(gather([&[1], &[0], &[7], &[1, 3]], 1, indices.clone()), Err("gather.indices"));
    assert_eq!(gather([&[1], &[0], &[0], &[2, 3]], 1, indices.clone()), Err("gather.slice-sizes"));
    assert_eq!(gather([&[1], &[0], &[0], &[1, 7]], 1, indices.clone()), Err("gather.slice-sizes"));
    assert_eq!(gather([&[1], &[0], &[0], &[1]], 1, indices), Err("gather.slice-sizes"));
}

#[test]
fn linear_algebra_rules() {
    assert_eq!(plain(Opcode::Cholesky, &[shape(F64, &[2, 3, 3])]).as_deref(), Ok("f64[2,3,3]"));
    assert_eq!(plain(Opcode::Cholesky, &[shape(F64, &[2, 3])]), Err("linear-algebra.square"));
    assert_eq!(plain(Opcode::Cholesky, &[shape(F64, &[])]), Err("linear-algebra.square"));
    assert_eq!(plain(Opcode::Cholesky, &[shape(S32, &[3, 3])]), Err("linear-algebra.type"));
    let solve = |b: Shape, left| {
        let attrs = attrs([(AttrKey::LeftSide, AttrValue::Bool(left))]);
        run(Opcode::TriangularSolve, &[shape(F32, &[2, 3, 3]), b], &attrs, None)
    };
    assert_eq!(solve(shape(F32, &[2, 3, 4]), true).as_deref(), Ok("f32[2,3,4]"));
    assert_eq!(solve(shape(F32, &[2, 3, 4]), false), Err("triangular-solve.sizes"));
    assert_eq!(solve(shape(F32, &[1, 3, 4]), true), Err("triangular-solve.batch"));
    assert_eq!(solve(shape(F64, &[2, 3, 4]), true), Err("triangular-solve.type"));
    let fft = |a: Shape, kind, lengths: &[i64]| {
        let attrs = attrs([(AttrKey::FftType, AttrValue::Word(kind)), ints(AttrKey::FftLength, lengths)]);
        run(Opcode::Fft, &[a], &attrs, None)
    };
    assert_eq!(fft(shape(C64, &[3, 7]), "FFT", &[7]).as_deref(), Ok("c64[3,7]"));
    assert_eq!(fft(shape(F32, &[3, 7]), "RFFT", &[7]).as_deref(), Ok("c64[3,4]"));
    assert_eq!(fft(shape(C64, &[3, 4]), "IRFFT", &[7]).as_deref(), Ok("f32[3,7]"));
    assert_eq!(fft(shape(F32, &[3, 7]), "FFT", &[7]), Err("fft.type"));
    assert_eq!(fft(shape(C64, &[3, 7]), "FFT", &[8]), Err("fft.length"));
    assert_eq!(fft(shape(C64, &[7]), "FFT", &[7, 7]), Err("fft.rank"));
    assert_eq!(fft(shape(C64, &[7]), "FFT", &[]), Err("fft.rank"));
}

#[test]
fn shapes_by_themselves() {
    let check = |s: Shape| check_shape(&s).map_err(|e| e.constraint);
    assert_eq!(check(shape(F32, &[2, 0])), Ok(()));
    assert_eq!(check(shape(F32, &[-1])), Err("shape.negative"));
    assert_eq!(check(shape(F32, &[i64::MAX])), Err("shape.size"));
    assert_eq!(check(shape(F32, &[1 << 40, 1 << 40])), Err("shape.size"));
    assert_eq!(check(shape(F32, &[1; 200])), Err("shape.rank"));
    let mut a = ArrayShape::new(F32, [2, 3]);
    a.layout = Some(brolga_runtime::Layout { minor_to_major: vec![1, 1], ..Default::default() });
    assert_eq!(check(a.into()), Err("shape.layout"));
    let deep = (0..=MAX_TUPLE_DEPTH).fold(Shape::Token, |s, _| Shape::tuple(vec![s]));
    assert_eq!(check(deep), Err("shape.depth"));
}

#[test]
fn f64_meets_no_narrower_float_in_a_program_that_runs() {
    let runnable = |body: &str| {
        let text = format!(
            "HloModule m\nadd {{ x = f64[] parameter(0)\n y = f64[] parameter(1)\n ROOT s = f64[] add(x, y) }}
             lt {{ x = f64[] parameter(0)\n y = f64[] parameter(1)\n ROOT c = pred[] compare(x, y), direction=LT }}
             ENTRY e {{ a = f64[4] parameter(0)\n b = f32[4] parameter(1)\n w = c128[4] complex(a, a)\n z = f64[] constant(0)\n{body} }}"
        );
        let module = crate::text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        super::verify(&module).unwrap_or_else(|e| panic!("{e}\n{text}"));
        super::verify_runnable(&module)
    };
    for body in [
        "ROOT r = f32[4] add(a, a)",
        "ROOT r = f64[4] add(a, b)",
        "ROOT r = f32[4] abs(a)",
        "ROOT r = f32[4] abs(w)",
        "ROOT r = f32[4] reverse(a), dimensions={0}",
        "ROOT r = f64[8] concatenate(a, b), dimensions={0}",
        "ROOT r = f64[] reduce(b, z), dimensions={0}, to_apply=add",
        "ROOT r = f32[] reduce(a, z), dimensions={0}, to_apply=add",
        "ROOT r = f32[4] sort(a), dimensions={0}, to_apply=lt",
    ] {
        match runnable(body) {
            Err(crate::Error::Unsupported { site, .. }) => assert_eq!(site.instruction.as_deref(), Some("r"), "{body}"),
            other => panic!("{body}: {other:?}"),
        }
    }
    for body in [
        "ROOT r = f32[4] convert(a)",
        "c = f64[4] convert(b)\n ROOT r = f64[4] add(a, c)",
        "ROOT r = f64[] dot(b, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        "ROOT r = (f64[4], f32[4]) tuple(a, b)",
    ] {
        assert_eq!(runnable(body), Ok(()), "{body}");
    }
}
