//! One wrong instruction for each constraint: the error cites the constraint, the line and the instruction.

use super::{verify, verify_open};
use crate::error::Error;
use crate::text;
use brolga_runtime::{ArrayShape, ElementType, Layout, PaddingValue};

/// Computations to call and parameters to use, the same for every case.
const PRELUDE: &str = "HloModule m

add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y)
}
adds {
  x = s32[] parameter(0)
  y = s32[] parameter(1)
  ROOT r = s32[] add(x, y)
}
lt {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = pred[] compare(x, y), direction=LT
}
one {
  x = f32[] parameter(0)
  ROOT r = f32[] negate(x)
}
vectors {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  ROOT r = f32[4] add(x, y)
}
step {
  x = f32[4] parameter(0)
  ROOT r = f32[4] negate(x)
}
shrink {
  x = f32[4] parameter(0)
  ROOT r = f32[2] slice(x), slice={[0:2]}
}
always {
  x = f32[4] parameter(0)
  ROOT r = pred[] constant(true)
}
third {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  w = f32[] parameter(2)
  ROOT r = f32[] add(x, w)
}
alone {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  s = f32[] add(x, y)
  ROOT r = (f32[]) tuple(s)
}
less {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  s = pred[] compare(x, y), direction=LT
  ROOT r = (pred[]) tuple(s)
}
sums {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  s = f32[] add(x, y)
  ROOT r = (f32[], f32[]) tuple(s, s)
}

ENTRY main {
  a = f32[4] parameter(0)
  b = f32[2,3] parameter(1)
  c = s32[4] parameter(2)
  d = pred[4] parameter(3)
  z = c64[4] parameter(4)
  s = f32[] parameter(5)
  i = s32[] parameter(6)
  t = token[] parameter(7)
  u = (f32[4], s32[]) parameter(8)
  m = f32[2,3,3] parameter(9)
  k = u64[2] parameter(10)
  q = pred[] parameter(11)
  g = s32[5] parameter(12)
  w = f32[5,3] parameter(13)
  v = f32[2,9,3] parameter(14)
  f = f32[4,3,6] parameter(15)
  cx = (f32[4], u32[], token[]) parameter(16)
  rd = f32[2,3,5] parameter(17)
  k1 = u64[1] parameter(18)
  pair = (f32[4], u32[]) parameter(19)
";

fn check(line: &str) -> (Result<(), Error>, String) {
    let source = format!("{PRELUDE}  ROOT {line}\n}}\n");
    let result = text::parse(&source).and_then(|module| verify(&module));
    (result, source)
}

fn refuse(cases: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (id, line) in cases {
        let (result, source) = check(line);
        let number = source.lines().position(|l| l.contains("bad = ")).map_or(0, |n| n as u32 + 1);
        match result {
            Err(Error::Invalid { site, constraint, .. })
                if constraint == *id && site.location.line == number && site.instruction.as_deref() == Some("bad") => {}
            other => wrong.push(format!("{id}: {line}\n    {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn accept(lines: &[&str]) {
    for line in lines {
        let (result, _) = check(line);
        assert!(result.is_ok(), "{line}\n    {result:?}");
    }
}

#[test]
fn elementwise() {
    accept(&[
        "bad = f32[4] add(a, a)",
        "bad = f32[4] clamp(s, a, a)",
        "bad = (f32[4], s32[]) select(q, u, u)",
        "bad = s8[4] convert(a)",
    ]);
    refuse(&[
        ("result.shape", "bad = f32[5] add(a, a)"),
        ("result.shape", "bad = c64[4] add(a, a)"),
        ("result.shape", "bad = f32[2,2] abs(a)"),
        ("result.shape", "bad = f32[4] compare(a, a), direction=LT"),
        ("result.shape", "bad = s8[5] convert(a)"),
        ("operand.same-type", "bad = f32[4] add(a, c)"),
        ("operand.array", "bad = f32[4] negate(t)"),
        ("elementwise.same-dimensions", "bad = f32[4] add(a, b)"),
        ("elementwise.same-dimensions", "bad = f32[4] multiply(a, s)"),
        ("elementwise.same-dimensions", "bad = f32[4] clamp(s, a, b)"),
        ("elementwise.type", "bad = pred[4] subtract(d, d)"),
        ("elementwise.type", "bad = s32[4] exponential(c)"),
        ("elementwise.type", "bad = c64[4] floor(z)"),
        ("elementwise.type", "bad = f32[4] popcnt(a)"),
        ("elementwise.type", "bad = f32[4] xor(a, a)"),
        ("elementwise.type", "bad = c64[4] remainder(z, z)"),
        ("compare.complex", "bad = pred[4] compare(z, z), direction=LT"),
        ("compare.type", "bad = pred[4] compare(a, a), direction=LT, type=SIGNED"),
        ("complex.type", "bad = c64[4] complex(c, c)"),
        ("convert.complex", "bad = f32[4] convert(z)"),
        ("select.predicate", "bad = f32[4] select(c, a, a)"),
        ("select.same-shape", "bad = (f32[4], s32[]) select(q, u, cx)"),
        ("reduce-precision.exponent", "bad = f32[4] reduce-precision(a), exponent_bits=0, mantissa_bits=1"),
        ("reduce-precision.mantissa", "bad = f32[4] reduce-precision(a), exponent_bits=1, mantissa_bits=-1"),
        ("reduce-precision.type", "bad = s32[4] reduce-precision(c), exponent_bits=1, mantissa_bits=1"),
        ("stochastic-convert.random", "bad = s8[4] stochastic-convert(a, c)"),
        ("stochastic-convert.type", "bad = s8[4] stochastic-convert(c, c)"),
    ]);
}

#[test]
fn movement() {
    accept(&[
        "bad = s8[4,4] bitcast-convert(c)",
        "bad = f32[7,4] broadcast(a), dimensions={1}",
        "bad = f32[3,2] transpose(b), dimensions={1,0}",
        "bad = f32[7] pad(a, s), padding=0_0_1",
        "bad = f32[2] slice(a), slice={[0:4:2]}",
    ]);
    refuse(&[
        ("bitcast.size", "bad = f32[5] bitcast(a)"),
        ("bitcast-convert.complex", "bad = f64[4] bitcast-convert(z)"),
        ("bitcast-convert.width", "bad = f64[4] bitcast-convert(a)"),
        ("result.shape", "bad = s8[4] bitcast-convert(a)"),
        ("broadcast.dimensions", "bad = f32[4,4] broadcast(a), dimensions={77}"),
        ("broadcast.dimensions", "bad = f32[2,3] broadcast(b), dimensions={0,0}"),
        ("broadcast.rank", "bad = f32[4,4] broadcast(a), dimensions={}"),
        ("broadcast.sizes", "bad = f32[5,6] broadcast(a), dimensions={1}"),
        ("result.shape", "bad = s32[4,4] broadcast(a), dimensions={1}"),
        ("concatenate.dimension", "bad = f32[8] concatenate(a, a), dimensions={1}"),
        ("concatenate.dimension", "bad = f32[8] concatenate(a, a), dimensions={0,0}"),
        ("concatenate.rank", "bad = f32[8] concatenate(a, b), dimensions={0}"),
        ("concatenate.sizes", "bad = f32[2,6] concatenate(b, w), dimensions={1}"),
        ("dynamic-reshape.sizes", "bad = f32[2,2] dynamic-reshape(a, i)"),
        ("dynamic-reshape.elements", "bad = f32[5] dynamic-reshape(a, i)"),
        ("get-dimension-size.dimension", "bad = s32[] get-dimension-size(a), dimensions={1}"),
        ("set-dimension-size.dimension", "bad = f32[<=4] set-dimension-size(a, i), dimensions={1}"),
        ("set-dimension-size.size", "bad = f32[<=4] set-dimension-size(a, s), dimensions={0}"),
        ("iota.dimension", "bad = f32[4] iota(), iota_dimension=1"),
        ("iota.dimension", "bad = f32[] iota(), iota_dimension=0"),
        ("iota.type", "bad = pred[4] iota(), iota_dimension=0"),
        ("pad.rank", "bad = f32[4] pad(a, s), padding=0_0x0_0"),
        ("pad.negative", "bad = f32[4] pad(a, s), padding=-5_0"),
        ("pad.interior", "bad = f32[4] pad(a, s), padding=0_0_-1"),
        ("operand.scalar", "bad = f32[4] pad(a, a), padding=0_0"),
        ("reshape.elements", "bad = f32[5] reshape(a)"),
        ("reshape.type", "bad = c64[2,2] reshape(a)"),
        ("reverse.dimensions", "bad = f32[4] reverse(a), dimensions={1}"),
        ("reverse.dimensions", "bad = f32[2,3] reverse(b), dimensions={1,1}"),
        ("slice.rank", "bad = f32[2] slice(b), slice={[0:2]}"),
        ("slice.bounds", "bad = f32[5] slice(a), slice={[0:5]}"),
        ("slice.bounds", "bad = f32[0] slice(a), slice={[3:2]}"),
        ("slice.stride", "bad = f32[2] slice(a), slice={[0:2:0]}"),
        ("transpose.permutation", "bad = f32[3,2] transpose(b), dimensions={1}"),
        ("transpose.permutation", "bad = f32[3,2] transpose(b), dimensions={1,1}"),
        ("transpose.permutation", "bad = f32[3,2] transpose(b), dimensions={77,0}"),
        ("result.shape", "bad = f32[2,3] transpose(b), dimensions={1,0}"),
    ]);
}

#[test]
fn indexing() {
    let scatter = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}";
    let cases = [
        (
            "scatter.update-rank",
            format!("bad = f32[5,3] scatter(w, g, a), {scatter}, index_vector_dim=1, to_apply=add"),
        ),
        (
            "scatter.update-sizes",
            format!("bad = f32[5,3] scatter(w, g, b), {scatter}, index_vector_dim=1, to_apply=add"),
        ),
        ("scatter.indices", format!("bad = f32[5,3] scatter(w, g, w), {scatter}, index_vector_dim=0, to_apply=add")),
        ("scatter.indices", format!("bad = f32[5,3] scatter(w, a, w), {scatter}, index_vector_dim=1, to_apply=add")),
        (
            "scatter.operands",
            format!("bad = f32[5,3] scatter(w, w, g, w), {scatter}, index_vector_dim=1, to_apply=add"),
        ),
        ("reducer.parameters", format!("bad = f32[5,3] scatter(w, g, w), {scatter}, index_vector_dim=1, to_apply=one")),
        (
            "reducer.parameter-type",
            format!("bad = f32[5,3] scatter(w, g, w), {scatter}, index_vector_dim=1, to_apply=adds"),
        ),
        ("result.shape", format!("bad = f32[6,3] scatter(w, g, w), {scatter}, index_vector_dim=1, to_apply=add")),
    ];
    accept(&[&format!("bad = f32[5,3] scatter(w, g, w), {scatter}, index_vector_dim=1, to_apply=add")]);
    refuse(&cases.iter().map(|(id, line)| (*id, line.as_str())).collect::<Vec<_>>());
    refuse(&[
        ("dynamic-slice.indices", "bad = f32[1,1] dynamic-slice(b, i), dynamic_slice_sizes={1,1}"),
        ("dynamic-slice.index-type", "bad = f32[1] dynamic-slice(a, s), dynamic_slice_sizes={1}"),
        ("dynamic-slice.sizes", "bad = f32[5] dynamic-slice(a, i), dynamic_slice_sizes={5}"),
        ("dynamic-slice.sizes", "bad = f32[1] dynamic-slice(a, i), dynamic_slice_sizes={1,1}"),
        ("result.shape", "bad = f32[2] dynamic-slice(a, i), dynamic_slice_sizes={1}"),
        ("dynamic-update-slice.sizes", "bad = f32[4] dynamic-update-slice(a, b, i)"),
        ("dynamic-slice.indices", "bad = f32[4] dynamic-update-slice(a, a, i, i)"),
        ("operand.same-type", "bad = f32[4] dynamic-update-slice(a, c, i)"),
    ]);
}

#[test]
fn reductions() {
    let window = "window={size=2}";
    let cases = [
        ("window.rank", "bad = f32[3] reduce-window(b, s), window={size=2}, to_apply=add".to_owned()),
        ("window.stride", "bad = f32[3] reduce-window(a, s), window={size=2 stride=0}, to_apply=add".to_owned()),
        ("window.size", "bad = f32[3] reduce-window(a, s), window={size=0}, to_apply=add".to_owned()),
        ("window.dilation", "bad = f32[3] reduce-window(a, s), window={size=2 rhs_dilate=0}, to_apply=add".to_owned()),
        ("window.padding", "bad = f32[3] reduce-window(a, s), window={size=2 pad=-5_0}, to_apply=add".to_owned()),
        ("result.shape", format!("bad = f32[4] reduce-window(a, s), {window}, to_apply=add")),
        (
            "select-and-scatter.source",
            format!("bad = f32[4] select-and-scatter(a, a, s), {window}, select=lt, scatter=add"),
        ),
        (
            "select-and-scatter.select",
            "bad = f32[4] select-and-scatter(a, a, s), window={size=1}, select=add, scatter=add".to_owned(),
        ),
    ];
    accept(&[&format!("bad = f32[3] reduce-window(a, s), {window}, to_apply=add")]);
    refuse(&cases.iter().map(|(id, line)| (*id, line.as_str())).collect::<Vec<_>>());
    refuse(&[
        ("reduce.dimensions", "bad = f32[] reduce(a, s), dimensions={77}, to_apply=add"),
        ("reduce.dimensions", "bad = f32[] reduce(b, s), dimensions={0,0}, to_apply=add"),
        ("reduce.operands", "bad = f32[] reduce(a, a, s), dimensions={0}, to_apply=add"),
        ("operand.scalar", "bad = f32[] reduce(a, a), dimensions={0}, to_apply=add"),
        ("reduce.init-type", "bad = f32[] reduce(a, i), dimensions={0}, to_apply=add"),
        ("reduce.same-dimensions", "bad = (f32[], f32[]) reduce(a, b, s, s), dimensions={0}, to_apply=add"),
        ("reducer.parameters", "bad = f32[] reduce(a, s), dimensions={0}, to_apply=one"),
        ("reducer.parameter-type", "bad = f32[] reduce(a, s), dimensions={0}, to_apply=adds"),
        ("reducer.result", "bad = f32[] reduce(a, s), dimensions={0}, to_apply=vectors"),
        ("reducer.parameter-type", "bad = pred[] reduce(a, s), dimensions={0}, to_apply=lt"),
        ("result.shape", "bad = f32[5] reduce(b, s), dimensions={1}, to_apply=add"),
        ("map.parameters", "bad = f32[4] map(a), dimensions={0}, to_apply=add"),
        ("map.parameter-type", "bad = f32[4] map(c), dimensions={0}, to_apply=one"),
        ("map.dimensions", "bad = f32[2,3] map(b), dimensions={0}, to_apply=one"),
        ("map.result", "bad = f32[4] map(a, a), dimensions={0}, to_apply=sums"),
        ("scan.dimension", "bad = (f32[4], f32[]) scan(a, s), dimensions={1}, num_carries=1, to_apply=sums"),
        ("scan.carries", "bad = (f32[4], f32[]) scan(a, s), dimensions={0}, num_carries=3, to_apply=sums"),
        ("scan.parameters", "bad = (f32[4], f32[]) scan(a, s), dimensions={0}, num_carries=1, to_apply=one"),
        ("result.shape", "bad = (f32[5], f32[]) scan(a, s), dimensions={0}, num_carries=1, to_apply=sums"),
        ("batch-norm.feature-index", "bad = f32[4] batch-norm-inference(a, a, a, a, a), epsilon=1, feature_index=1"),
        ("batch-norm.operands", "bad = f32[4] batch-norm-inference(a, b, a, a, a), epsilon=1, feature_index=0"),
        ("batch-norm.type", "bad = s32[4] batch-norm-inference(c, c, c, c, c), epsilon=1, feature_index=0"),
    ]);
}

#[test]
fn contractions_and_linear_algebra() {
    let conv = "window={size=4}, dim_labels=b0f_0io->b0f";
    let cases = [
        ("convolution.rank", format!("bad = f32[2,6,6] convolution(v, b), {conv}")),
        ("convolution.groups", format!("bad = f32[2,6,6] convolution(v, f), {conv}, feature_group_count=0")),
        ("convolution.features", format!("bad = f32[2,6,6] convolution(v, f), {conv}, feature_group_count=3")),
        ("convolution.batch", format!("bad = f32[2,6,6] convolution(v, f), {conv}, batch_group_count=3")),
        (
            "convolution.window",
            "bad = f32[2,6,6] convolution(v, f), window={size=3}, dim_labels=b0f_0io->b0f".to_owned(),
        ),
        ("window.rank", "bad = f32[2,6,6] convolution(v, f), window={size=4x4}, dim_labels=b0f_0io->b0f".to_owned()),
        ("result.shape", format!("bad = f32[2,7,6] convolution(v, f), {conv}")),
        ("dot.result-type", format!("bad = c64[2,6,6] convolution(v, f), {conv}")),
    ];
    accept(&[
        &format!("bad = f32[2,6,6] convolution(v, f), {conv}"),
        &format!("bad = s32[2,6,6] convolution(v, f), {conv}"),
        "bad = u8[2,5] dot(b, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        "bad = pred[2,5] dot(b, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        "bad = f32[] dot(a, c), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        "bad = s32[] dot(z, z), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        "bad = f64[] dot(z, z), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    ]);
    refuse(&cases.iter().map(|(id, line)| (*id, line.as_str())).collect::<Vec<_>>());
    refuse(&[
        ("dot.contracting-sizes", "bad = f32[2,3] dot(b, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
        ("dot.contracting-dimensions", "bad = f32[2,3] dot(b, w), lhs_contracting_dims={77}, rhs_contracting_dims={1}"),
        ("dot.contracting-dimensions", "bad = f32[2] dot(b, w), lhs_contracting_dims={1}, rhs_contracting_dims={}"),
        (
            "dot.batch-sizes",
            "bad = f32[2,5] dot(b, w), lhs_batch_dims={0}, rhs_batch_dims={0}, \
          lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        ),
        ("dot.operand-types", "bad = c64[4,4] dot(a, z), lhs_contracting_dims={}, rhs_contracting_dims={}"),
        ("dot.result-type", "bad = c64[2,5] dot(b, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
        (
            "dot.algorithm",
            "bad = f32[2,5] dot(b, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}, algorithm=dot_f32",
        ),
        ("result.shape", "bad = f32[5,5] dot(b, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
        (
            "ragged-dot.group-dimension",
            "bad = f32[2,3] ragged-dot(b, m, g), lhs_contracting_dims={1}, \
          rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
        ),
        (
            "ragged-dot.ragged-dimension",
            "bad = f32[2,3] ragged-dot(b, m, g), lhs_contracting_dims={1}, \
          rhs_contracting_dims={1}, lhs_ragged_dims={7}, rhs_group_dims={0}",
        ),
        (
            "scaled-dot.scale",
            "bad = f32[2,5] scaled-dot(b, w, a, a), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        ),
        ("linear-algebra.square", "bad = f32[2,3] cholesky(b)"),
        ("linear-algebra.type", "bad = s32[4] cholesky(c)"),
        ("triangular-solve.batch", "bad = f32[2,3] triangular-solve(m, b), left_side=true"),
        ("triangular-solve.sizes", "bad = f32[2,3,5] triangular-solve(m, rd), left_side=false"),
        ("fft.type", "bad = f32[4] fft(a), fft_type=FFT, fft_length={4}"),
        ("fft.length", "bad = c64[4] fft(z), fft_type=FFT, fft_length={5}"),
        ("fft.length", "bad = c64[4] fft(z), fft_type=FFT, fft_length={-4}"),
        ("fft.rank", "bad = c64[4] fft(z), fft_type=FFT, fft_length={4,4}"),
        ("result.shape", "bad = c64[4] fft(a), fft_type=RFFT, fft_length={4}"),
    ]);
}

#[test]
fn ordering_and_random() {
    accept(&["bad = (f32[2], s32[2]) topk(a), k=2, largest=true"]);
    refuse(&[
        ("sort.dimension", "bad = f32[4] sort(a), dimensions={1}, to_apply=lt"),
        ("sort.same-dimensions", "bad = (f32[4], f32[2,3]) sort(a, b), dimensions={0}, to_apply=lt"),
        ("sort.comparator-parameters", "bad = f32[4] sort(a), dimensions={0}, to_apply=one"),
        ("sort.comparator-parameters", "bad = s32[4] sort(c), dimensions={0}, to_apply=lt"),
        ("sort.comparator-result", "bad = f32[4] sort(a), dimensions={0}, to_apply=add"),
        ("topk.k", "bad = (f32[5], s32[5]) topk(a), k=5"),
        ("topk.rank", "bad = (f32[], s32[]) topk(s), k=0"),
        ("result.shape", "bad = (f32[2], f32[2]) topk(a), k=2"),
        ("rng.type", "bad = f32[4] rng(i, i), distribution=rng_uniform"),
        ("operand.scalar", "bad = f32[4] rng(a, a), distribution=rng_uniform"),
        ("rng.type", "bad = s32[4] rng(i, i), distribution=rng_normal"),
        ("rng-bit-generator.state", "bad = (f32[4], u32[4]) rng-bit-generator(a), algorithm=rng_default"),
        ("rng-bit-generator.state", "bad = (u64[1], u32[4]) rng-bit-generator(k1), algorithm=rng_philox"),
        ("rng-bit-generator.result", "bad = u32[4] rng-bit-generator(k), algorithm=rng_default"),
        ("rng-bit-generator.algorithm", "bad = (u64[2], u32[4]) rng-bit-generator(k), algorithm=rng_dice"),
        ("rng-get-and-update-state.result", "bad = u32[2] rng-get-and-update-state(), delta=1"),
    ]);
}

#[test]
fn control() {
    accept(&[
        "bad = f32[4] while(a), condition=always, body=step",
        "bad = f32[4] conditional(q, a, a), true_computation=step, false_computation=step",
        "bad = f32[4] fusion(a), kind=kLoop, calls=step",
    ]);
    refuse(&[
        ("call.parameters", "bad = f32[4] call(a, a), to_apply=step"),
        ("call.parameter-shape", "bad = f32[4] call(c), to_apply=step"),
        ("result.shape", "bad = f32[5] call(a), to_apply=step"),
        ("call.parameters", "bad = f32[4] fusion(), kind=kLoop, calls=step"),
        ("while.parameters", "bad = f32[4] while(a), condition=vectors, body=step"),
        ("while.parameter-shape", "bad = s32[4] while(c), condition=always, body=step"),
        ("while.condition-result", "bad = f32[4] while(a), condition=step, body=step"),
        ("while.body-result", "bad = f32[4] while(a), condition=always, body=shrink"),
        ("result.shape", "bad = f32[5] while(a), condition=always, body=step"),
        ("conditional.selector", "bad = f32[4] conditional(s, a, a), true_computation=step, false_computation=step"),
        ("conditional.operands", "bad = f32[4] conditional(q, a), true_computation=step, false_computation=step"),
        ("conditional.branches", "bad = f32[4] conditional(i), branch_computations={}"),
        ("conditional.selector", "bad = f32[4] conditional(q, a, a), branch_computations={step, step}"),
        ("conditional.selector", "bad = f32[4] conditional(q, a), branch_computations={step}"),
        (
            "conditional.parameter-shape",
            "bad = f32[4] conditional(q, a, c), true_computation=step, false_computation=step",
        ),
        (
            "conditional.parameters",
            "bad = f32[4] conditional(q, a, a), true_computation=vectors, false_computation=step",
        ),
        ("conditional.result", "bad = f32[4] conditional(q, a, a), true_computation=step, false_computation=shrink"),
    ]);
}

#[test]
fn collectives() {
    accept(&[
        "bad = f32[8] all-gather(a), replica_groups={{0,1}}, dimensions={0}",
        "bad = f32[8] all-gather(a), replica_groups=mesh['x'=4,'y'=2] {'y'}, dimensions={0}",
        "bad = f32[4] all-reduce(a), replica_groups=mesh['x'=4], device_ids=(0,2,1,3) {'x':(1)2}, to_apply=add",
        "bad = (f32[4], f32[4], u32[]) collective-permute-start(a), source_target_pairs={{0,1}}",
        "bad = (f32[4], f32[2,3], u32[], u32[]) collective-permute-start(a, b, u, u), source_target_pairs={{0,1},{0,2}}, \
         slice_sizes={{1}}",
    ]);
    refuse(&[
        ("collective.every-member", "bad = f32[4] all-reduce(a), replica_groups={{1}}, to_apply=add"),
        ("collective.every-member", "bad = f32[4] all-reduce(a), replica_groups={{0,2}}, to_apply=add"),
        ("collective.every-member", "bad = f32[8] all-gather(a), replica_groups={{0,1},{4,2}}, dimensions={0}"),
        ("collective.every-member", "bad = f32[4] all-to-all(a), replica_groups={{2,1}}, dimensions={0}"),
        ("collective.replica-groups", "bad = f32[4] all-reduce(a), replica_groups={{0,0}}, to_apply=add"),
        ("collective.replica-groups", "bad = f32[4] all-reduce(a), replica_groups=[2,2]<=[5], to_apply=add"),
        ("collective.replica-groups", "bad = f32[4] all-reduce(a), replica_groups=mesh['x'=4] {'y'}, to_apply=add"),
        ("collective.sizes", "bad = f32[8] all-gather(a), replica_groups=mesh['x'=4,'y'=2] {'x'}, dimensions={0}"),
        (
            "collective.global-ids",
            "bad = f32[4] all-reduce(a), replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add",
        ),
        ("collective.group-sizes", "bad = f32[8] all-gather(a), replica_groups={{0,1},{2}}, dimensions={0}"),
        ("collective.sizes", "bad = f32[9] all-gather(a), replica_groups={{0,1}}, dimensions={0}"),
        ("collective.dimension", "bad = f32[8] all-gather(a), replica_groups={{0,1}}, dimensions={1}"),
        ("collective.sizes", "bad = f32[3] reduce-scatter(a), replica_groups={}, dimensions={0}, to_apply=add"),
        ("collective.sizes", "bad = f32[4] all-to-all(a), replica_groups={{0,1,2}}, dimensions={0}"),
        ("all-to-all.same-shape", "bad = (f32[4], f32[2,3]) all-to-all(a, b), replica_groups={}"),
        ("collective-permute.pairs", "bad = f32[4] collective-permute(a), source_target_pairs={{0,1},{0,2}}"),
        ("collective-permute.pairs", "bad = f32[4] collective-permute(a), source_target_pairs={{0}}"),
        ("result.shape", "bad = f32[5] all-reduce(a), replica_groups={}, to_apply=add"),
        ("result.shape", "bad = s32[] replica-id()"),
    ]);
}

#[test]
fn structure_and_side_effects() {
    accept(&[
        "bad = s32[] get-tuple-element(u), index=1",
        "bad = token[] send-done(cx), channel_id=1",
        "bad = token[] send-done(pair), channel_id=1",
        "bad = (f32[4], token[]) recv-done(pair), channel_id=1",
        "bad = (f32[4], u32[], token[]) send(a, t), channel_id=1",
        "bad = (f32[4], u32[]) send(a, t), channel_id=1",
        "bad = ((f32[4], s32[]), u32[]) recv(t), channel_id=1",
        "bad = f32[4] collective-broadcast(a), replica_groups={{1,2}}",
    ]);
    refuse(&[
        ("get-tuple-element.index", "bad = f32[4] get-tuple-element(u), index=2"),
        ("get-tuple-element.tuple", "bad = f32[4] get-tuple-element(a), index=0"),
        ("result.shape", "bad = f32[4] get-tuple-element(u), index=1"),
        ("result.shape", "bad = (f32[4]) tuple(a, a)"),
        ("result.shape", "bad = f64[4] opt-barrier(a)"),
        ("operand.token", "bad = f32[4] add-dependency(a, a)"),
        ("infeed.result", "bad = f32[4] infeed(t)"),
        ("infeed.shape", "bad = (f32[4], token[]) infeed(t), infeed_shape=f32[5]"),
        ("operand.token", "bad = (f32[4], token[]) infeed(a)"),
        ("operand.token", "bad = token[] outfeed(a, a)"),
        ("outfeed.shape", "bad = token[] outfeed(a, t), outfeed_shape=f32[5]"),
        ("outfeed.value", "bad = token[] outfeed(t, t)"),
        ("infeed.value", "bad = (token[], token[]) infeed(t)"),
        ("transfer.data", "bad = (token[], u32[], token[]) send(t, t), channel_id=1"),
        ("transfer.data", "bad = (token[], u32[], token[]) recv(t), channel_id=1"),
        ("transfer.data", "bad = ((f32[4], token[]), u32[]) recv(t), channel_id=1"),
        ("transfer.context", "bad = token[] send-done(u), channel_id=1"),
        ("transfer.context", "bad = token[] send-done(a), channel_id=1"),
        ("result.shape", "bad = (f32[5], u32[], token[]) send(a, t), channel_id=1"),
        ("recv.result", "bad = f32[4] recv(t), channel_id=1"),
        (
            "custom-call.operand-layouts",
            "bad = f32[4] custom-call(a), custom_call_target=\"x\", \
          operand_layout_constraints={f32[5]{0}}",
        ),
        ("async.context", "bad = f32[4] all-gather-done(a)"),
        ("async.result", "bad = f32[4] all-gather-start(a), replica_groups={}, dimensions={0}"),
        ("async.operands", "bad = (f32[5], f32[8]) all-gather-start(a), replica_groups={}, dimensions={0}"),
        ("result.shape", "bad = f32[5] copy-done(cx)"),
        (
            "async.operands",
            "bad = (f32[4], f32[4], u32[], u32[]) collective-permute-start(a, b, u, u), source_target_pairs={{0,1}}, \
          slice_sizes={{1}}",
        ),
        (
            "async.operands",
            "bad = f32[4] collective-permute-start(a, a, u, u), source_target_pairs={{0,1}}, slice_sizes={{1}}",
        ),
        (
            "operand.array",
            "bad = ((f32[4], (f32[4], s32[])), f32[4]) collective-permute-start(a, u), source_target_pairs={{0,1}}",
        ),
    ]);
}

#[test]
fn tuples_of_one_and_windows_reversed() {
    accept(&[
        "bad = (f32[]) reduce(a, s), dimensions={0}, to_apply=add",
        "bad = f32[] reduce(a, s), dimensions={0}, to_apply=alone",
        "bad = (f32[]) reduce(a, s), dimensions={0}, to_apply=alone",
        "bad = (f32[3]) reduce-window(a, s), window={size=2}, to_apply=alone",
        "bad = f32[3] reduce-window(a, s), window={size=2 rhs_reversal=1}, to_apply=add",
        "bad = (f32[4]) sort(a), dimensions={0}, to_apply=lt",
        "bad = f32[4] sort(a), dimensions={0}, to_apply=less",
        "bad = f32[4] scan(a), dimensions={0}, num_carries=0, to_apply=one",
        "bad = (f32[4]) scan(a), dimensions={0}, num_carries=0, to_apply=one",
        "bad = (f32[4]) scatter(a, i, s), update_window_dims={}, inserted_window_dims={0}, \
         scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=alone",
    ]);
    refuse(&[
        ("result.shape", "bad = (f32[], f32[]) reduce(a, s), dimensions={0}, to_apply=alone"),
        ("result.shape", "bad = ((f32[])) reduce(a, s), dimensions={0}, to_apply=alone"),
        ("result.shape", "bad = (f32[5]) sort(a), dimensions={0}, to_apply=lt"),
        ("reducer.result", "bad = f32[] reduce(a, s), dimensions={0}, to_apply=sums"),
        ("sort.comparator-result", "bad = (f32[4]) sort(a), dimensions={0}, to_apply=sums"),
    ]);
}

#[test]
fn what_is_left_of_each_family() {
    let windows = "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add";
    let cases = [
        (
            "scatter.inserted-window-dims",
            format!("bad = f32[5,3] scatter(w, g, w), update_window_dims={{1}}, inserted_window_dims={{7}}, {windows}"),
        ),
        (
            "scatter.update-window-dims",
            format!("bad = f32[5,3] scatter(w, g, w), update_window_dims={{}}, inserted_window_dims={{0}}, {windows}"),
        ),
        (
            "scatter.update-type",
            format!("bad = f32[4] scatter(a, g, g), update_window_dims={{}}, inserted_window_dims={{0}}, {windows}"),
        ),
    ];
    refuse(&cases.iter().map(|(id, line)| (*id, line.as_str())).collect::<Vec<_>>());
    refuse(&[
        ("all-to-all.operands", "bad = f32[4] all-to-all(a, a), replica_groups={}, dimensions={0}"),
        ("collective.results", "bad = (f32[8], f32[8]) all-gather(a), replica_groups={{0,1}}, dimensions={0}"),
        ("dot.operands", "bad = f32[2,5] dot(b, w, a), lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
        ("map.same-dimensions", "bad = f32[4] map(a, b), dimensions={0}, to_apply=add"),
        ("ragged-all-to-all.type", "bad = f32[4] ragged-all-to-all(a, c, c, c, c, c), replica_groups={}"),
        ("ragged-all-to-all.offsets", "bad = f32[4] ragged-all-to-all(a, a, a, a, a, a), replica_groups={}"),
        (
            "ragged-dot.group-sizes",
            "bad = f32[2,3] ragged-dot(b, m, a), lhs_contracting_dims={1}, \
          rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
        ),
        ("reshape.inferred-dimension", "bad = f32[2,2] reshape(a), inferred_dimension=2"),
        ("result.array", "bad = (f32[4]) rng(s, s), distribution=rng_uniform"),
        ("rng-get-and-update-state.delta", "bad = u64[2] rng-get-and-update-state(), delta=-1"),
        ("rng.operands", "bad = f32[4] rng(s), distribution=rng_uniform"),
        ("scan.inputs", "bad = (f32[]) scan(s), dimensions={0}, num_carries=1, to_apply=one"),
        ("scan.lengths", "bad = (f32[4], f32[]) scan(a, w, s), dimensions={0}, num_carries=1, to_apply=sums"),
        ("scan.result", "bad = (f32[], f32[]) scan(a, s, s), dimensions={0}, num_carries=2, to_apply=third"),
        (
            "select-and-scatter.type",
            "bad = f32[4] select-and-scatter(a, c, s), window={size=1}, select=lt, scatter=add",
        ),
        ("topk.type", "bad = (c64[2], s32[2]) topk(z), k=2"),
    ]);
}

#[test]
fn modules() {
    let refuse = |source: &str, id: &str| match text::parse(source).and_then(|m| verify(&m)) {
        Err(Error::Invalid { constraint, .. }) if constraint == id => {}
        other => panic!("{id}: {other:?}\n{source}"),
    };
    let body = "ENTRY main {\n  a = f32[4] parameter(0)\n  ROOT r = f32[4] negate(a)\n}\n";
    refuse(
        &format!("HloModule m, entry_computation_layout={{(f32[4]{{0}})->s32[4]{{0}}}}\n{body}"),
        "module.entry-layout",
    );
    refuse(&format!("HloModule m, input_output_alias={{ {{}}: (1, {{}}, may-alias) }}\n{body}"), "alias.index");
    refuse(&format!("HloModule m, input_output_alias={{ {{0}}: (0, {{}}, may-alias) }}\n{body}"), "alias.index");
    let wider = "ENTRY main {\n  a = f32[4] parameter(0)\n  ROOT r = f64[4] convert(a)\n}\n";
    refuse(&format!("HloModule m, input_output_alias={{ {{}}: (0, {{}}, may-alias) }}\n{wider}"), "alias.size");
    let aliased = |from: &str, to: &str| {
        format!(
            "HloModule m, input_output_alias={{ {{}}: (0, {{}}, must-alias) }}\nENTRY main {{\n  \
             a = f32[2,3]{from} parameter(0)\n  ROOT r = f32[2,3]{to} negate(a)\n}}\n"
        )
    };
    for (from, to) in [("{0,1}", "{1,0}"), ("{1,0:W(2,4)}", ""), ("{1,0:W(2,4)}", "{1,0:W(3,3)}")] {
        refuse(&aliased(from, to), "alias.layout");
    }
    for layout in ["{0,1}", "{0,1:W(2,4)V(one)}", ""] {
        assert_eq!(text::parse(&aliased(layout, layout)).and_then(|m| verify(&m)), Ok(()));
    }
    for padding in ["c64[4]{0:W(5)V(lowest)}", "f8e8m0fnu[4]{0:W(5)V(zero)}", "s1[4]{0:W(5)V(one)}"] {
        refuse(&format!("HloModule m\nENTRY main {{\n  ROOT a = {padding} parameter(0)\n}}\n"), "shape.padding-value");
    }
}

/// What the text refuses as syntax, a builder or a message may still say.
#[test]
fn padding_fits_its_shape() {
    let rule = |widths: &[i64], value| {
        let layout = Layout { padded_dimensions: widths.to_vec(), padding_value: value, ..Layout::row_major(2) };
        let shape = ArrayShape { layout: Some(layout), ..ArrayShape::new(ElementType::F32, [2, 3]) };
        super::check_shape(&shape.into()).err().map(|e| e.constraint)
    };
    assert_eq!(rule(&[2, 5], PaddingValue::Zero), None);
    for widths in [&[3][..], &[1, 5], &[3, 5, 1]] {
        assert_eq!(rule(widths, PaddingValue::Zero), Some("shape.padding"), "{widths:?}");
    }
    assert_eq!(rule(&[], PaddingValue::Zero), Some("shape.padding-value"));
    assert_eq!(rule(&[1 << 31, 1 << 31], PaddingValue::Zero), Some("shape.size"));
}

/// Padding has a meaning where callers see it; what else would see it is refused when the program is to run.
#[test]
fn padding_that_something_inside_would_see_is_read_and_not_run() {
    let refused = |body: &str| {
        let source = format!("HloModule m\nENTRY main {{\n{body}\n}}\n");
        let module = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
        assert_eq!(verify(&module), Ok(()), "{source}");
        match super::verify_runnable(&module) {
            Ok(()) => String::new(),
            Err(Error::Unsupported { feature, .. }) => feature,
            Err(other) => panic!("{other}\n{source}"),
        }
    };
    let p = "p = f32[2]{0:W(4)} parameter(0)\n";
    assert_eq!(refused(&format!("{p}ROOT r = f32[2]{{0:W(3)}} negate(p)")), "");
    assert_eq!(
        refused("ROOT p = f32[<=2]{0:W(4)} parameter(0)"),
        "padding of an array with bounded dynamic dimensions, f32[<=2]{0:W(4)}"
    );
    assert_eq!(
        refused("ROOT p = s4[2]{0:E(4)W(4)} parameter(0)"),
        "padding of an array of packed elements, s4[2]{0:E(4)W(4)}"
    );
    assert_eq!(refused(&format!("{p}ROOT r = s32[2] bitcast(p)")), "bitcast of a padded array, f32[2]{0:W(4)}");
    assert_eq!(
        refused("t = token[] after-all()\nROOT r = (f32[2]{0:W(4)}, token[]) infeed(t)"),
        "infeed of a padded array, f32[2]{0:W(4)}"
    );
    assert_eq!(
        refused(&format!("{p}ROOT r = f32[2] custom-call(p), custom_call_target=\"x\"")),
        "custom-call of a padded array, f32[2]{0:W(4)}"
    );
    let plain = "custom_call_target=\"x\", operand_layout_constraints={f32[2]{0}}";
    assert_eq!(refused(&format!("{p}ROOT r = f32[2] custom-call(p), {plain}")), "");
    // Inside, layouts are dropped: here they say nothing of memory.
    assert_eq!(refused(&format!("{p}n = f32[2]{{0:W(9)V(one)}} negate(p)\nROOT r = f32[2] abs(n)")), "");
}

/// XLA reads such a gather and compiles none.
#[test]
fn gathers_of_unlike_batches_are_read_and_not_run() {
    for (rows, runs) in [(2, true), (3, false), (1, false)] {
        let source = format!(
            "HloModule m\nENTRY main {{\n  a = f32[{rows},3] parameter(0)\n  g = s32[2,2,1] parameter(1)
  ROOT bad = f32[2,2] gather(a, g), offset_dims={{}}, collapsed_slice_dims={{1}}, start_index_map={{1}}, \
            operand_batching_dims={{0}}, start_indices_batching_dims={{0}}, index_vector_dim=2, slice_sizes={{1,1}}\n}}\n"
        );
        let Ok(module) = text::parse(&source) else { panic!("{source}") };
        assert_eq!(verify(&module), Ok(()));
        match super::verify_runnable(&module) {
            Ok(()) => assert!(runs, "{source}"),
            Err(Error::Invalid { constraint, site, .. }) => {
                assert_eq!((constraint, site.instruction.as_deref(), runs), ("gather.batch-sizes", Some("bad"), false));
            }
            Err(other) => panic!("{other}"),
        }
    }
    refuse(&[(
        "scatter.indices",
        "bad = f32[2,3] scatter(b, g, s), update_window_dims={}, inserted_window_dims={1}, \
         scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, \
         index_vector_dim=1, to_apply=add",
    )]);
}

/// What an operation goes on with is another instruction, so that one line cannot break these.
#[test]
fn ends_of_what_others_began() {
    let check = |body: &str| {
        let computations = "one { x = f32[4] parameter(0) ROOT r = f32[4] negate(x) }\n\
                            two { x = f32[4] parameter(0) ROOT r = f32[4] negate(x) }\n";
        let source = format!("HloModule m\n{computations}ENTRY main {{\na = f32[4] parameter(0)\n{body}\n}}\n");
        let Ok(module) = text::parse(&source) else { panic!("{source}") };
        // A module that is only read is checked for these, too.
        assert_eq!(verify(&module).is_ok(), verify_open(&module).is_ok(), "{body}");
        match verify(&module) {
            Ok(()) => "",
            Err(Error::Invalid { constraint, site, .. }) => {
                assert_eq!(site.instruction.as_deref(), Some("bad"));
                constraint
            }
            Err(other) => panic!("{other}"),
        }
    };
    let start = "s = ((f32[4]), f32[4], u32[]) async-start(a), async_execution_thread=\"t\", calls=one\n";
    let done = |rest: &str| check(&format!("{start}{rest}"));
    assert_eq!(done("u = ((f32[4]), f32[4], u32[]) async-update(s)\n bad = f32[4] async-done(u), calls=one"), "");
    let other = "x = ((f32[4]), f32[4], u32[]) custom-call(), custom_call_target=\"x\"\n";
    assert_eq!(check(&format!("{other}bad = f32[4] async-done(x)")), "async.chain");
    assert_eq!(check(&format!("{other}bad = ((f32[4]), f32[4], u32[]) async-update(x)")), "async.chain");
    assert_eq!(done("bad = f32[4] async-done(s), calls=two"), "async.chain");
    assert_eq!(done("bad = f32[4] async-done(s), async_execution_thread=\"u\""), "async.chain");
    assert_eq!(done("bad = ((f32[4]), f32[5], u32[]) async-update(s)"), "result.shape");
    assert_eq!(check("bad = (f32[4], f32[4], u32[]) async-start(a), calls=one"), "async.result");

    let recv = "t = token[] after-all()\n r = (f32[4], u32[], token[]) recv(t), channel_id=1\n";
    let done = |rest: &str| check(&format!("{recv}{rest}"));
    assert_eq!(done("bad = (f32[4], token[]) recv-done(r), channel_id=1"), "");
    assert_eq!(done("bad = (f32[4], token[]) recv-done(r), channel_id=2"), "transfer.channel");
    assert_eq!(done("bad = (f32[4], token[]) recv-done(r)"), "transfer.channel");
    assert_eq!(done("bad = f32[4] get-tuple-element(r), index=0"), "transfer.context");
    let send = "s = (f32[4], u32[]) send(a, t), channel_id=2\n";
    assert_eq!(done(&format!("{send}bad = u32[] get-tuple-element(s), index=1")), "transfer.context");
}
