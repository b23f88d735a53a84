//! A sample of every family of operations, with fixed inputs.

use crate::operations::program;
use crate::random_graph::{Families, Layouts, Rng, generate};
use brolga_compiler::hlo::{Category, Module, Opcode};
use brolga_compiler::{shape, text};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Scalar, Shape};
use std::fmt::Write;

/// A program and its inputs.
pub struct Sample {
    /// What it is called in reports.
    pub name: String,
    /// The program.
    pub module: Module,
    /// What it is to compute, where that is not the program itself.
    pub reference: Option<Module>,
    /// An array for each leaf of a parameter.
    pub inputs: Vec<ArrayLiteral>,
    /// Whether narrow floats are to be rounded after each operation.
    pub strict_rounding: bool,
}

/// Elements of an elementwise sample: every pair of edges, then others. No multiple of a block.
const ELEMENTS: usize = 16 * 16 + 37;

/// Values at which operations turn: limits, what no narrower type holds, what is no number.
fn edge(ty: ElementType, number: usize) -> Scalar {
    const FLOATS: [f64; 16] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e-40,
        -5e-324,
        0.499_999_99,
        255.5,
        -65_520.0,
        2_147_483_648.0,
        -9.3e18,
        1.9e19,
        3e38,
    ];
    let bits = ty.bits().min(64);
    let integers = {
        let (low, high) = (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits));
        let bits = i64::from(bits);
        [0, 1, -1, 2, 3, -3, 7, low, low + 1, high, high - 1, bits - 1, bits, bits + 1, 100, -77]
    };
    if ty == ElementType::Pred {
        Scalar::Pred(number % 2 == 1)
    } else if ty.is_float() {
        Scalar::Float(FLOATS[number % 16]).round_to(ty)
    } else if ty.is_signed_integer() {
        Scalar::Int(integers[number % 16])
    } else {
        Scalar::UInt(integers[number % 16] as u64)
    }
}

/// The elements of an input: all pairs of edges of the first two inputs meet; behind them, and everywhere where there are no
/// `edges`, small numbers.
fn input(shape: &ArrayShape, number: usize, edges: bool, rng: &mut Rng) -> ArrayLiteral {
    let ty = shape.ty.real_part();
    let parts = if shape.ty.is_complex() { 2 } else { 1 };
    let count = (shape.elements() * parts) as i64;
    let mut out = ArrayLiteral::zeros(&ArrayShape::new(ty, [count]));
    for k in 0..count as usize {
        let value = match ty {
            _ if edges && k < 256 => edge(ty, if number == 0 { k } else { k / 16 }),
            ElementType::Pred => Scalar::Pred(rng.chance(1, 2)),
            _ if ty.is_float() => Scalar::Float(rng.unit() * 8.0 - 4.0).round_to(ty),
            _ if ty.is_signed_integer() => Scalar::Int(rng.between(-9, 9)).round_to(ty),
            _ => Scalar::UInt(rng.below(10)).round_to(ty),
        };
        out.set(k, value);
    }
    let shape = ArrayShape::new(shape.ty, shape.dims.clone());
    ArrayLiteral::from_bytes(&shape, out.bytes()).unwrap_or(out)
}

/// A sample of a text; `None` where that is no valid program.
fn sample(name: String, source: &str, edges: bool) -> Option<Sample> {
    let module = text::parse(source).ok()?;
    shape::verify(&module).ok()?;
    let entry = module.entry();
    let mut rng = Rng::new(name.len() as u64);
    let leaves = entry.parameters().into_iter().flat_map(|p| entry.instructions[p].shape.leaves());
    let arrays: Vec<&ArrayShape> = leaves.filter_map(Shape::as_array).collect();
    let inputs = (0..).zip(arrays).map(|(number, a)| input(a, number, edges, &mut rng)).collect();
    Some(Sample { name, module, reference: None, inputs, strict_rounding: false })
}

/// As [`sample`], of a text that must be a program.
///
/// # Panics
/// Where it is none.
fn written(name: String, source: &str, edges: bool) -> Sample {
    let valid =
        text::parse(source).map_err(|e| e.to_string()).and_then(|m| shape::verify(&m).map_err(|e| e.to_string()));
    match sample(name, source, edges) {
        Some(sample) => sample,
        None => panic!("{valid:?}\n{source}"),
    }
}

/// The samples; so many random graphs from `seed` on are the last.
pub fn all(graphs: u64, seed: u64) -> Vec<Sample> {
    let mut all = Vec::new();
    operations(&mut all);
    conversions(&mut all);
    families(&mut all);
    all.push(custom_call());
    all.extend((seed..seed + graphs).map(random));
    all
}

/// Every operation on every type; where each element is its own matter, at the edges of the types.
fn operations(all: &mut Vec<Sample>) {
    for &opcode in Opcode::ALL {
        // It would call a function that the host has not.
        if opcode == Opcode::CustomCall {
            continue;
        }
        let elementwise = opcode.category() == Category::Elementwise;
        for &ty in ElementType::ALL {
            let Some(mut source) = program(opcode, ty) else { continue };
            if elementwise {
                source = source.replace("[4]", &format!("[{ELEMENTS}]"));
            }
            all.extend(sample(format!("operation {opcode} of {ty}"), &source, elementwise));
        }
    }
}

/// Each type to all others, by value and, where the widths allow, by bits.
fn conversions(all: &mut Vec<Sample>) {
    let plain = |ty: ElementType| ty.bits() >= 8 && ty != ElementType::Pred;
    for &from in ElementType::ALL {
        let (mut body, mut names, mut shapes) = (String::new(), Vec::new(), Vec::new());
        let mut add = |shape: String, line: String| {
            let _ = writeln!(body, "  r{} = {shape} {line}", names.len());
            names.push(format!("r{}", names.len()));
            shapes.push(shape);
        };
        for &to in ElementType::ALL {
            if to.is_complex() || !from.is_complex() {
                add(format!("{to}[{ELEMENTS}]"), "convert(x)".to_owned());
            }
            let complex = from.is_complex() || to.is_complex();
            if !plain(from) || !plain(to) || complex {
                continue;
            }
            let (wide, narrow) = (from.bits().max(to.bits()), from.bits().min(to.bits()));
            let parts = wide / narrow;
            if from.bits() < to.bits() {
                add(format!("{to}[5]"), format!("bitcast-convert(y{parts})"));
            } else if parts > 1 {
                add(format!("{to}[{ELEMENTS},{parts}]"), "bitcast-convert(x)".to_owned());
            } else {
                add(format!("{to}[{ELEMENTS}]"), "bitcast-convert(x)".to_owned());
            }
        }
        let mut source = format!("HloModule m\n\nENTRY e {{\n  x = {from}[{ELEMENTS}] parameter(0)\n");
        for (number, parts) in [(1, 2), (2, 4), (3, 8), (4, 16)] {
            let _ = writeln!(source, "  y{parts} = {from}[5,{parts}] parameter({number})");
        }
        let (shapes, names) = (shapes.join(", "), names.join(", "));
        let _ = writeln!(source, "{body}  ROOT t = ({shapes}) tuple({names})\n}}");
        all.extend(sample(format!("conversions of {from}"), &source, true));
    }
}

const FLOATS: &[&str] = &["f32", "f64", "bf16", "f16"];
const NUMBERS: &[&str] = &["f32", "f64", "bf16", "f16", "s8", "u16", "s32", "u64", "c64", "c128"];
const ANY: &[&str] = &["pred", "s8", "u16", "f16", "f32", "s64", "c64", "c128", "f8e5m2", "u4"];
const REAL: &[&str] = &["f32", "f64", "bf16", "f16", "s8", "u16", "s32", "u64"];

/// Computations that the families call.
const CALLED: &str = "
add { x = {T}[] parameter(0)  y = {T}[] parameter(1)  ROOT r = {T}[] add(x, y) }
multiply { x = {T}[] parameter(0)  y = {T}[] parameter(1)  ROOT r = {T}[] multiply(x, y) }
larger { x = {T}[] parameter(0)  y = {T}[] parameter(1)  ROOT r = {T}[] maximum(x, y) }
smaller { x = {T}[] parameter(0)  y = {T}[] parameter(1)  ROOT r = {T}[] minimum(x, y) }
below { x = {T}[] parameter(0)  y = {T}[] parameter(1)  ROOT r = pred[] compare(x, y), direction=LT }
below_of_two {
  x = {T}[] parameter(0)  y = {T}[] parameter(1)  i = s32[] parameter(2)  j = s32[] parameter(3)
  ROOT r = pred[] compare(x, y), direction=LT
}
where_larger {
  x = {T}[] parameter(0)  i = s32[] parameter(1)  y = {T}[] parameter(2)  j = s32[] parameter(3)
  m = pred[] compare(x, y), direction=GE
  v = {T}[] select(m, x, y)  k = s32[] select(m, i, j)
  ROOT r = ({T}[], s32[]) tuple(v, k)
}
";

/// A family: its name, the types it is for, the computations that it calls, the entry's body.
type Family = (&'static str, &'static [&'static str], &'static [&'static str], &'static str);

const FAMILIES: &[Family] = &[
    ("sums", NUMBERS, &["add"], "
  x = {T}[7,101] parameter(0)  z = {T}[] parameter(1)
  a = {T}[7] reduce(x, z), dimensions={1}, to_apply=add
  b = {T}[101] reduce(x, z), dimensions={0}, to_apply=add
  c = {T}[] reduce(x, z), dimensions={0,1}, to_apply=add
  ROOT t = ({T}[7], {T}[101], {T}[]) tuple(a, b, c)"),
    ("products", REAL, &["multiply"], "
  x = {T}[5,37] parameter(0)  z = {T}[] parameter(1)
  ROOT a = {T}[5] reduce(x, z), dimensions={1}, to_apply=multiply"),
    ("extremes", REAL, &["larger", "smaller"], "
  x = {T}[7,101] parameter(0)  z = {T}[] parameter(1)
  a = {T}[7] reduce(x, z), dimensions={1}, to_apply=larger
  b = {T}[101] reduce(x, z), dimensions={0}, to_apply=smaller
  ROOT t = ({T}[7], {T}[101]) tuple(a, b)"),
    ("argmax", REAL, &["where_larger"], "
  x = {T}[7,61] parameter(0)  i = s32[7,61] iota(), iota_dimension=1
  z = {T}[] parameter(1)  k = s32[] constant(-1)
  ROOT a = ({T}[7], s32[7]) reduce(x, i, z, k), dimensions={1}, to_apply=where_larger"),
    ("windows", REAL, &["add", "larger"], "
  x = {T}[3,40] parameter(0)  z = {T}[] parameter(1)
  a = {T}[3,19] reduce-window(x, z), window={size=1x5 stride=1x2 pad=0_0x1_1}, to_apply=add
  b = {T}[3,40] reduce-window(x, z), window={size=1x3 pad=0_0x1_1}, to_apply=larger
  c = {T}[3,40] reduce-window(x, z), window={size=1x40 pad=0_0x39_0}, to_apply=add
  ROOT t = ({T}[3,19], {T}[3,40], {T}[3,40]) tuple(a, b, c)"),
    ("small dot", NUMBERS, &[], "
  a = {T}[5,7] parameter(0)  b = {T}[7,3] parameter(1)
  ROOT d = {T}[5,3] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    ("dot", NUMBERS, &[], "
  a = {T}[33,70] parameter(0)  b = {T}[70,41] parameter(1)
  d = {T}[33,41] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = {T}[41] parameter(2)  e = {T}[33,41] broadcast(c), dimensions={1}
  ROOT r = {T}[33,41] add(d, e)"),
    ("transposed dot in batches", REAL, &[], "
  a = {T}[3,70,18] parameter(0)  b = {T}[3,19,70] parameter(1)
  ROOT d = {T}[3,18,19] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={2}"),
    ("large dot", &["f32", "f64"], &[], "
  a = {T}[130,300] parameter(0)  b = {T}[300,129] parameter(1)
  ROOT d = {T}[130,129] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    ("row times matrix", REAL, &[], "
  a = {T}[101] parameter(0)  b = {T}[101,37] parameter(1)
  ROOT d = {T}[37] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
    ("matrix times column", REAL, &[], "
  a = {T}[37,101] parameter(0)  b = {T}[101] parameter(1)
  ROOT d = {T}[37] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    ("mixed dot", &["s8", "u8", "bf16", "f16"], &[], "
  a = {T}[17,40] parameter(0)  b = {T}[40,23] parameter(1)
  ROOT d = f32[17,23] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    ("convolution", &["f32", "f64", "bf16", "s32"], &[], "
  x = {T}[2,13,11,3] parameter(0)  w = {T}[3,3,3,5] parameter(1)
  a = {T}[2,13,11,5] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  b = {T}[2,6,5,5] convolution(x, w), window={size=3x3 stride=2x2}, dim_labels=b01f_01io->b01f
  c = {T}[2,27,11,5] convolution(x, w), window={size=3x3 pad=2_2x2_2 lhs_dilate=2x1 rhs_dilate=1x2}, dim_labels=b01f_01io->b01f
  ROOT t = ({T}[2,13,11,5], {T}[2,6,5,5], {T}[2,27,11,5]) tuple(a, b, c)"),
    ("grouped convolution", &["f32", "bf16"], &[], "
  x = {T}[2,13,6] parameter(0)  w = {T}[3,1,6] parameter(1)
  ROOT a = {T}[2,13,6] convolution(x, w), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, feature_group_count=6"),
    ("gather", ANY, &[], "
  x = {T}[11,13] parameter(0)  i = s32[9,2] parameter(1)
  ROOT g = {T}[9,2,3] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={2,3}"),
    ("take rows", ANY, &[], "
  x = {T}[11,13] parameter(0)  i = s64[9] parameter(1)
  ROOT g = {T}[9,13] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,13}"),
    ("scatter", NUMBERS, &["add"], "
  x = {T}[11,13] parameter(0)  i = s32[9,1] parameter(1)  u = {T}[9,13] parameter(2)
  ROOT s = {T}[11,13] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"),
    ("dynamic slices", ANY, &[], "
  x = {T}[11,37] parameter(0)  i = s32[] parameter(1)  j = s32[] parameter(2)  u = {T}[3,9] parameter(3)
  a = {T}[5,20] dynamic-slice(x, i, j), dynamic_slice_sizes={5,20}
  b = {T}[11,37] dynamic-update-slice(x, u, j, i)
  ROOT t = ({T}[5,20], {T}[11,37]) tuple(a, b)"),
    ("movement", ANY, &[], "
  x = {T}[7,5,9] parameter(0)  z = {T}[] parameter(1)
  a = {T}[9,7,5] transpose(x), dimensions={2,0,1}
  b = {T}[7,5,9] reverse(x), dimensions={0,2}
  c = {T}[10,5,17] pad(x, z), padding=1_2x0_0x0_0_1
  d = {T}[7,5,18] concatenate(x, b), dimensions={2}
  e = {T}[4,5,3] slice(x), slice={[0:7:2], [0:5], [1:9:3]}
  f = {T}[45,7] reshape(a)
  g = {T}[7,4,5] broadcast(z), dimensions={}
  ROOT t = ({T}[9,7,5], {T}[7,5,9], {T}[10,5,17], {T}[7,5,18], {T}[4,5,3], {T}[45,7], {T}[7,4,5]) tuple(a, b, c, d, e, f, g)"),
    ("large transpose", &["f32", "s8", "f64", "u16"], &[], "
  x = {T}[70,133] parameter(0)
  ROOT a = {T}[133,70] transpose(x), dimensions={1,0}"),
    ("iota", &["s8", "u16", "s32", "u64", "f16", "f32", "f64", "c64"], &[], "
  a = {T}[5,37] iota(), iota_dimension=1
  ROOT r = {T}[5,37] add(a, a)"),
    ("sort", REAL, &["below"], "
  x = {T}[5,37] parameter(0)
  a = {T}[5,37] sort(x), dimensions={1}, to_apply=below
  b = {T}[5,37] sort(x), dimensions={0}, is_stable=true, to_apply=below
  ROOT t = ({T}[5,37], {T}[5,37]) tuple(a, b)"),
    ("sort with values", REAL, &["below_of_two"], "
  x = {T}[3,101] parameter(0)  i = s32[3,101] iota(), iota_dimension=1
  ROOT a = ({T}[3,101], s32[3,101]) sort(x, i), dimensions={1}, is_stable=true, to_apply=below_of_two"),
    ("comparisons", ANY, &[], "
  x = {T}[293] parameter(0)  y = {T}[293] parameter(1)
  a = pred[293] compare(x, y), direction=EQ
  b = pred[293] compare(x, y), direction=NE
  c = {T}[293] select(a, x, y)
  d = {T}[293] select(b, x, y)
  ROOT t = (pred[293], pred[293], {T}[293], {T}[293]) tuple(a, b, c, d)"),
    ("orders", REAL, &[], "
  x = {T}[293] parameter(0)  y = {T}[293] parameter(1)
  a = pred[293] compare(x, y), direction=LT
  b = pred[293] compare(x, y), direction=LE
  c = pred[293] compare(x, y), direction=GT
  d = pred[293] compare(x, y), direction=GE
  e = {T}[293] clamp(x, y, x)
  ROOT t = (pred[293], pred[293], pred[293], pred[293], {T}[293]) tuple(a, b, c, d, e)"),
    ("total order", FLOATS, &[], "
  x = {T}[293] parameter(0)  y = {T}[293] parameter(1)
  ROOT a = pred[293] compare(x, y), direction=LT, type=TOTALORDER"),
    ("softmax", FLOATS, &["add", "larger"], "
  x = {T}[7,101] parameter(0)  low = {T}[] constant(-inf)  zero = {T}[] constant(0)
  m = {T}[7] reduce(x, low), dimensions={1}, to_apply=larger
  mb = {T}[7,101] broadcast(m), dimensions={0}
  d = {T}[7,101] subtract(x, mb)
  e = {T}[7,101] exponential(d)
  s = {T}[7] reduce(e, zero), dimensions={1}, to_apply=add
  sb = {T}[7,101] broadcast(s), dimensions={0}
  ROOT r = {T}[7,101] divide(e, sb)"),
    ("layer norm", FLOATS, &["add"], "
  x = {T}[7,101] parameter(0)  g = {T}[101] parameter(1)  zero = {T}[] constant(0)
  n = {T}[] constant(101)  nb = {T}[7] broadcast(n), dimensions={}
  s = {T}[7] reduce(x, zero), dimensions={1}, to_apply=add
  m = {T}[7] divide(s, nb)
  mb = {T}[7,101] broadcast(m), dimensions={0}
  d = {T}[7,101] subtract(x, mb)
  q = {T}[7,101] multiply(d, d)
  v = {T}[7] reduce(q, zero), dimensions={1}, to_apply=add
  w = {T}[7] divide(v, nb)
  small = {T}[] constant(0.001)  sb = {T}[7] broadcast(small), dimensions={}
  y = {T}[7] add(w, sb)
  i = {T}[7] rsqrt(y)
  ib = {T}[7,101] broadcast(i), dimensions={0}
  gb = {T}[7,101] broadcast(g), dimensions={1}
  p = {T}[7,101] multiply(d, ib)
  ROOT r = {T}[7,101] multiply(p, gb)"),
    ("random bits", &["u8", "u16", "u32", "u64"], &[], "
  k = u64[3] parameter(0)  l = u64[2] parameter(1)
  a = (u64[3], {T}[37]) rng-bit-generator(k), algorithm=rng_philox
  b = (u64[2], {T}[37]) rng-bit-generator(l), algorithm=rng_three_fry
  ROOT t = ((u64[3], {T}[37]), (u64[2], {T}[37])) tuple(a, b)"),
];

/// A loop over arrays, one over scalars, branches: their computations are theirs alone.
const CONTROL: &[(&str, &str)] = &[
    (
        "loop",
        "
body {
  s = (s32[], f32[37], f32[37]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[37] get-tuple-element(s), index=1
  y = f32[37] get-tuple-element(s), index=2
  one = s32[] constant(1)
  n = s32[] add(i, one)
  z = f32[37] sine(y)
  w = f32[37] add(x, z)
  ROOT r = (s32[], f32[37], f32[37]) tuple(n, w, x)
}
condition {
  s = (s32[], f32[37], f32[37]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(9)
  ROOT r = pred[] compare(i, n), direction=LT
}
ENTRY e {
  z = s32[] constant(0)  x = f32[37] parameter(0)  y = f32[37] parameter(1)
  t = (s32[], f32[37], f32[37]) tuple(z, x, y)
  ROOT w = (s32[], f32[37], f32[37]) while(t), condition=condition, body=body
}",
    ),
    (
        "scalar loop",
        "
body {
  s = (s64[], f64[]) parameter(0)
  i = s64[] get-tuple-element(s), index=0
  x = f64[] get-tuple-element(s), index=1
  one = s64[] constant(1)
  n = s64[] add(i, one)
  c = f64[] constant(1.0625)
  w = f64[] multiply(x, c)
  ROOT r = (s64[], f64[]) tuple(n, w)
}
condition {
  s = (s64[], f64[]) parameter(0)
  i = s64[] get-tuple-element(s), index=0
  n = s64[] constant(77)
  ROOT r = pred[] compare(i, n), direction=LT
}
ENTRY e {
  z = s64[] constant(0)  x = f64[] parameter(0)
  t = (s64[], f64[]) tuple(z, x)
  ROOT w = (s64[], f64[]) while(t), condition=condition, body=body
}",
    ),
    (
        "branches",
        "
first { x = f32[37] parameter(0)  ROOT r = f32[37] exponential(x) }
second { x = f32[37] parameter(0)  ROOT r = f32[37] negate(x) }
third { x = f32[37] parameter(0)  ROOT r = f32[37] tanh(x) }
ENTRY e {
  i = s32[] parameter(0)  x = f32[37] parameter(1)  p = pred[] parameter(2)
  a = f32[37] conditional(i, x, x, x), branch_computations={first, second, third}
  b = f32[37] conditional(p, x, x), true_computation=first, false_computation=second
  ROOT t = (f32[37], f32[37]) tuple(a, b)
}",
    ),
    (
        "random state",
        "
ENTRY e {
  l = f32[] constant(0)  h = f32[] constant(1)
  a = f32[101] rng(l, h), distribution=rng_uniform
  b = f32[101] rng(l, h), distribution=rng_normal
  ROOT t = (f32[101], f32[101]) tuple(a, b)
}",
    ),
    (
        "large constant",
        "
ENTRY e {
  i = s32[20000] iota(), iota_dimension=0
  c = s32[4] constant({1, -2, 3, 2000000000})
  d = s32[5000,4] broadcast(c), dimensions={1}
  e = s32[20000] reshape(d)
  x = s32[20000] parameter(0)
  y = s32[20000] multiply(x, e)
  ROOT r = s32[20000] xor(y, i)
}",
    ),
];

fn families(all: &mut Vec<Sample>) {
    for &(name, types, called, body) in FAMILIES {
        let edges = matches!(
            name,
            "comparisons" | "orders" | "total order" | "extremes" | "argmax" | "sort" | "sort with values"
        );
        for ty in types {
            let mut source = "HloModule m\n".to_owned();
            for computation in called {
                source.push_str(&computation_of(computation));
            }
            let _ = write!(source, "\nENTRY e {{{body}\n}}\n");
            all.push(written(format!("{name} of {ty}"), &source.replace("{T}", ty), edges));
        }
    }
    for (name, source) in CONTROL {
        all.push(written((*name).to_owned(), &format!("HloModule m\n{source}\n"), false));
    }
}

/// The text of one of the computations that are called.
fn computation_of(name: &str) -> String {
    let start = CALLED.find(&format!("\n{name} {{")).unwrap_or(0);
    let end = CALLED[start..].find("}\n").map_or(CALLED.len(), |end| start + end + 2);
    CALLED[start..end].to_owned()
}

/// A function of the host, which doubles.
fn custom_call() -> Sample {
    let source = |line: &str| {
        format!(
            "HloModule m\nENTRY e {{\n  x = f32[101] parameter(0)\n  y = f32[101] {line}\n  ROOT r = f32[101] tanh(y)\n}}\n"
        )
    };
    let call = source("custom-call(x), custom_call_target=\"twice\"");
    let mut sample = written("custom call".to_owned(), &call, false);
    sample.reference = Some(written(String::new(), &source("add(x, x)"), false).module);
    sample
}

/// A random graph.
fn random(seed: u64) -> Sample {
    let graph = generate(seed, Families::All, Layouts::Sometimes);
    let inputs = graph.inputs.iter().filter_map(Literal::as_array).cloned().collect();
    let (module, strict_rounding) = (graph.module, graph.strict_rounding);
    Sample { name: format!("random graph {seed}"), module, reference: None, inputs, strict_rounding }
}
