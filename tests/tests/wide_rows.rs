//! Rows in registers of 256 and 512 bits give the bits that 128-bit ones give: operation by operation, type by type, and where
//! rows are read, reduced and written by parts.
//!
//! Each program is compiled twice for each width that the machine has, every row in wide code that can be, and none. Where an
//! operation has no wide form the two objects are the same, so the tests also say which do, and which have that of 512 bits.
#![allow(clippy::unwrap_used)]

use brolga_compiler::codegen::target::TargetOptions;
use brolga_compiler::{CompileOptions, compile, shape, text};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Program};
use brolga_tests::compare::first_other_bits;
use brolga_tests::widths;

/// A reproducible sequence (xorshift).
struct Bits(u64);

impl Bits {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Values of every kind: small ones, and any bits at all, which hold NaN, infinities, denormals and limits.
fn input(shape: &ArrayShape, bits: &mut Bits) -> ArrayLiteral {
    let mut a = ArrayLiteral::zeros(shape);
    let ty = a.ty().real_part();
    let size = ty.byte_size();
    for (k, chunk) in a.bytes_mut().chunks_exact_mut(size).enumerate() {
        let random = bits.next();
        let value = match ty {
            ElementType::Pred => random & 1,
            ElementType::F32 if k % 3 != 0 => u64::from(((random >> 40) as f32 / 1e6 - 8.0).to_bits()),
            ElementType::F64 if k % 3 != 0 => ((random >> 40) as f64 / 1e6 - 8.0).to_bits(),
            _ if k % 3 == 0 && size < 8 => random >> 13,
            _ => random >> (bits.next() % 60),
        };
        chunk.copy_from_slice(&value.to_le_bytes()[..size]);
    }
    a
}

/// What a program is in wide registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wide {
    /// For each width of the machine there is code of that width or of a narrower one.
    some: bool,
    /// For each width there is code of just that width.
    all: bool,
    /// For some width there is any wide code.
    any: bool,
}

/// Compiles a program with and without wide code; its results must not depend on that.
#[track_caller]
fn wide(source: &str, features: &[&str]) -> Wide {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let entry = module.entry();
    let mut bits = Bits(0x9e37_79b9_7f4a_7c15);
    let inputs: Vec<ArrayLiteral> =
        entry.parameters().iter().map(|&p| input(entry.instructions[p].shape.as_array().unwrap(), &mut bits)).collect();
    let mut found = Wide { some: true, all: true, any: false };
    for (target, register) in widths::targets().into_iter().zip(["ymm", "zmm"]) {
        let features = features.iter().map(|f| f.to_string()).collect();
        let target = TargetOptions { features, ..target };
        let run = |wide_work: u64| {
            let (wide_work, target) = (Some(wide_work), target.clone());
            let options = CompileOptions { wide_work, target, keep_texts: true, ..CompileOptions::default() };
            let artifact = compile(&module, &options).unwrap_or_else(|e| panic!("{e}\n{source}"));
            let program = Program::from_object(&artifact.object).unwrap_or_else(|e| panic!("{e}\n{source}"));
            let results = program.run(&inputs.iter().collect::<Vec<_>>()).unwrap_or_else(|e| panic!("{e}\n{source}"));
            (artifact, results)
        };
        let ((wide, got), (narrow, want)) = (run(0), run(u64::MAX));
        for (got, want) in got.iter().zip(&want) {
            if let Some(element) = first_other_bits(got, want) {
                let size = (got.bytes().len() / got.elements()).max(1);
                let at = element * size;
                let (g, w) = (&got.bytes()[at..at + size], &want.bytes()[at..at + size]);
                let from: Vec<&[u8]> = inputs.iter().filter_map(|a| a.bytes().get(at..at + size)).collect();
                panic!(
                    "element {element} by way of {register}: {g:02x?}, and {w:02x?} in 128 bits, of {from:02x?}\n{source}"
                );
            }
        }
        found.some &= wide.object != narrow.object;
        found.any |= wide.object != narrow.object;
        found.all &= wide.asm.contains(register);
    }
    found
}

/// Whether a program has wide code.
#[track_caller]
fn is_wide(source: &str, features: &[&str]) -> bool {
    wide(source, features).some
}

/// `op` of `arity` operands of `from`, giving `to`; some lengths, one of them without any wide iteration. Whether each width has
/// code of its own.
#[track_caller]
fn elementwise(op: &str, arity: usize, from: &str, to: &str, attributes: &str) -> bool {
    let mut all = false;
    for n in [5, 64, 101] {
        let parameters: String = (0..arity).map(|k| format!("  p{k} = {from}[{n}] parameter({k})\n")).collect();
        let operands: Vec<String> = (0..arity).map(|k| format!("p{k}")).collect();
        let operands = operands.join(", ");
        let source =
            format!("HloModule m\n\nENTRY e {{\n{parameters}  ROOT r = {to}[{n}] {op}({operands}){attributes}\n}}\n");
        all |= wide(&source, &[]).all;
    }
    all
}

/// Reductions in order of what costs something: `body` gives `y` of the type `folded` (`F`) from `x`; `combine`
/// gives `r` from `a`, `b` and the constant `k`.
fn in_order([from, folded]: [&str; 2], (rows, n): (usize, usize), combine: &str, body: &str) -> String {
    let combine = combine.replace("T[]", &format!("{folded}[]"));
    let body = body.replace("F[]", &format!("{folded}[{rows},{n}]")).replace("T[]", &format!("{from}[{rows},{n}]"));
    let (k, start) = if folded == "pred" { ("true", "false") } else { ("3", "7") };
    format!(
        "HloModule m\n\nc {{\n  a = {folded}[] parameter(0)\n  b = {folded}[] parameter(1)\n  k = {folded}[] constant({k})\n{combine}}}\n\n\
         ENTRY e {{\n  x = {from}[{rows},{n}] parameter(0)\n{body}  z = {folded}[] constant({start})\n  \
         ROOT r = {folded}[{rows}] reduce(y, z), dimensions={{1}}, to_apply=c\n}}\n"
    )
}

#[test]
fn reductions_in_order() {
    let floats = "  s = T[] sine(x)\n  y = T[] multiply(s, x)\n";
    let integers = "  s = T[] multiply(x, x)\n  t = T[] popcnt(s)\n  y = T[] xor(t, x)\n";
    let scaled = "  m = T[] multiply(a, k)\n  ROOT r = T[] subtract(m, b)\n";
    for n in [9, 16, 31, 64, 101] {
        for ty in ["f32", "f64", "bf16"] {
            assert!(wide(&in_order([ty; 2], (3, n), scaled, floats), &[]).any, "{ty} {n}");
        }
        for ty in ["s32", "u64", "s8"] {
            assert!(wide(&in_order([ty; 2], (3, n), scaled, integers), &[]).any, "{ty} {n}");
        }
        // From one truth value follows the next.
        let follows = "  m = T[] not(a)\n  ROOT r = T[] or(m, b)\n";
        let less = "  s = T[] sine(x)\n  m = T[] multiply(s, x)\n  y = F[] compare(m, x), direction=LT\n";
        assert!(wide(&in_order(["f32", "pred"], (3, n), follows, less), &[]).any, "{n}");
    }
    let complex = "  s = T[] exponential(x)\n  y = T[] multiply(s, x)\n";
    assert!(wide(&in_order(["c64"; 2], (3, 45), scaled, complex), &[]).any);
    // One division in the order of the elements is none for every lane.
    let divided = "  m = T[] divide(a, b)\n  ROOT r = T[] add(m, k)\n";
    assert!(!wide(&in_order(["s64"; 2], (3, 45), divided, integers), &[]).any);
    assert!(!wide(&in_order(["u32"; 2], (3, 45), divided, integers), &[]).any);
}

const FLOATS: [&str; 4] = ["f32", "f64", "bf16", "f16"];
/// Functions of one number, real or complex.
const FUNCTIONS: [&str; 14] = [
    "negate",
    "sqrt",
    "rsqrt",
    "exponential",
    "exponential-minus-one",
    "log",
    "log-plus-one",
    "logistic",
    "tanh",
    "sine",
    "cosine",
    "tan",
    "cbrt",
    "sign",
];
const INTEGERS: [&str; 8] = ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"];

#[test]
fn float_operations() {
    let of_reals = ["abs", "floor", "ceil", "round-nearest-even", "round-nearest-afz", "erf"];
    let mut narrow = Vec::new();
    for ty in FLOATS {
        for op in FUNCTIONS.into_iter().chain(of_reals) {
            if !elementwise(op, 1, ty, ty, "") {
                narrow.push(format!("{op} {ty}"));
            }
        }
        for op in ["add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "atan2", "remainder"] {
            if !elementwise(op, 2, ty, ty, "") {
                narrow.push(format!("{op} {ty}"));
            }
        }
        for direction in ["EQ", "NE", "LT", "LE", "GT", "GE"] {
            assert!(elementwise("compare", 2, ty, "pred", &format!(", direction={direction}")), "{direction} {ty}");
            elementwise("compare", 2, ty, "pred", &format!(", direction={direction}, type=TOTALORDER"));
        }
        assert!(elementwise("is-finite", 1, ty, "pred", ""), "{ty}");
        assert!(elementwise("clamp", 3, ty, ty, ""), "{ty}");
    }
    assert_eq!(narrow, [""; 0], "operations without code of each width");
}

#[test]
fn complex_operations() {
    let mut narrow = Vec::new();
    for (ty, part) in [("c64", "f32"), ("c128", "f64")] {
        let own = FUNCTIONS.map(|op| (op, 1, ty, ty, "")).into_iter();
        let binary = ["add", "subtract", "multiply", "divide", "power", "atan2"].map(|op| (op, 2, ty, ty, ""));
        let parts = [("abs", 1, ty, part, ""), ("real", 1, ty, part, ""), ("imag", 1, ty, part, "")];
        let compared = [", direction=EQ", ", direction=NE"].map(|direction| ("compare", 2, ty, "pred", direction));
        let made = [("complex", 2, part, ty, "")];
        for (op, arity, from, to, attributes) in own.chain(binary).chain(parts).chain(compared).chain(made) {
            if !elementwise(op, arity, from, to, attributes) {
                narrow.push(format!("{op} {ty}"));
            }
        }
    }
    assert_eq!(narrow, [""; 0], "operations without code of each width");
}

#[test]
fn integer_operations() {
    for ty in INTEGERS {
        for op in ["add", "subtract", "multiply", "maximum", "minimum", "and", "or", "xor"] {
            assert!(elementwise(op, 2, ty, ty, ""), "{op} {ty}");
        }
        for op in ["shift-left", "shift-right-logical", "shift-right-arithmetic", "divide", "remainder", "power"] {
            // Powers of words are longer in 256 bits than an iteration may be.
            let long = op == "power" && ty.ends_with("64");
            assert!(elementwise(op, 2, ty, ty, "") || long, "{op} {ty}");
        }
        for op in ["not", "negate", "abs", "sign", "count-leading-zeros", "popcnt"] {
            if !(ty.starts_with('u') && matches!(op, "abs" | "sign")) {
                assert!(elementwise(op, 1, ty, ty, ""), "{op} {ty}");
            }
        }
        for direction in ["EQ", "NE", "LT", "LE", "GT", "GE"] {
            assert!(elementwise("compare", 2, ty, "pred", &format!(", direction={direction}")), "{direction} {ty}");
        }
    }
    for op in ["and", "or", "xor"] {
        assert!(elementwise(op, 2, "pred", "pred", ""), "{op}");
    }
}

#[test]
fn conversions() {
    let all: Vec<&str> = FLOATS.into_iter().chain(INTEGERS).chain(["pred"]).collect();
    for from in &all {
        for to in &all {
            assert!(from == to || elementwise("convert", 1, from, to, ""), "{from} to {to}");
        }
    }
    for (from, to) in [("f32", "s32"), ("f64", "u64"), ("s16", "bf16")] {
        elementwise("bitcast-convert", 1, from, to, "");
    }
}

#[test]
fn rows_that_are_reduced() {
    for (op, ty, init) in [
        ("add", "f32", "0"),
        ("maximum", "f32", "-inf"),
        ("minimum", "f64", "inf"),
        ("add", "f64", "0"),
        ("multiply", "s32", "1"),
        ("add", "s64", "0"),
        ("and", "pred", "true"),
        ("xor", "u8", "0"),
        ("add", "bf16", "0"),
    ] {
        for (shape, dims, result) in [
            ("3,199", "1", "3"),
            ("264,300", "1", "264"),
            ("70,5", "0", "5"),
            ("97,64", "0", "64"),
            ("4,40,33", "0,2", "40"),
        ] {
            let source = format!(
                "HloModule m\n\nc {{\n  a = {ty}[] parameter(0)\n  b = {ty}[] parameter(1)\n  ROOT r = {ty}[] {op}(a, b)\n}}\n
ENTRY e {{\n  x = {ty}[{shape}] parameter(0)\n  i = {ty}[] constant({init})
  ROOT r = {ty}[{result}] reduce(x, i), dimensions={{{dims}}}, to_apply=c\n}}\n"
            );
            let wide = is_wide(&source, &[]);
            assert!(wide || !dims.ends_with('1'), "{op} {ty} over {dims}");
        }
    }
}

/// Rows that fold four at a time, whose lanes share registers at the end: each result is of its own row. 1101 rows are four stretches
/// and one more; of 68 elements four are left behind the registers of 256 bits.
#[test]
fn rows_that_fold_several_at_a_time() {
    for n in [64, 68, 72, 136, 200, 260] {
        for (ty, op, init) in [
            ("f32", "add", "0"),
            ("f32", "maximum", "-inf"),
            ("f64", "add", "0"),
            ("s32", "add", "7"),
            ("s64", "multiply", "1"),
            ("bf16", "maximum", "-inf"),
            ("c64", "add", "(0, 0)"),
            ("pred", "or", "false"),
        ] {
            let source = format!(
                "HloModule m
f {{ a = {ty}[] parameter(0)
  b = {ty}[] parameter(1)
  ROOT c = {ty}[] {op}(a, b)
}}
ENTRY e {{
  x = {ty}[1101,{n}] parameter(0)
  y = {ty}[{n}] parameter(1)
  z = {ty}[] constant({init})
  w = {ty}[1101,{n}] broadcast(y), dimensions={{1}}
  p = {ty}[1101,{n}] {op}(x, w)
  ROOT r = {ty}[1101] reduce(p, z), dimensions={{1}}, to_apply=f
}}
"
            );
            let found = wide(&source, &[]);
            assert!(found.some || ty == "pred", "{source}");
        }
    }
}

#[test]
fn rows_of_a_normalization_and_of_an_arg_max() {
    let softmax = "HloModule m\n
max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT m = f32[] maximum(a, b) }
sum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[7,150] parameter(0)
  low = f32[] constant(-inf)
  m = f32[7] reduce(x, low), dimensions={1}, to_apply=max
  mb = f32[7,150] broadcast(m), dimensions={0}
  d = f32[7,150] subtract(x, mb)
  e = f32[7,150] exponential(d)
  zero = f32[] constant(0)
  s = f32[7] reduce(e, zero), dimensions={1}, to_apply=sum
  sb = f32[7,150] broadcast(s), dimensions={0}
  ROOT out = f32[7,150] divide(e, sb)
}";
    assert!(is_wide(softmax, &[]));
    assert!(is_wide(softmax, &["-fma"]));
    let arg_max = "HloModule m\n
best {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  gt = pred[] compare(a, b), direction=GT
  nan = pred[] compare(a, a), direction=NE
  wins = pred[] or(gt, nan)
  eq = pred[] compare(a, b), direction=EQ
  lt = pred[] compare(i, j), direction=LT
  tie = pred[] and(eq, lt)
  first = pred[] or(wins, tie)
  v = f32[] select(wins, a, b)
  k = s32[] select(first, i, j)
  ROOT t = (f32[], s32[]) tuple(v, k)
}
ENTRY main {
  x = f32[6,130] parameter(0)
  at = s32[6,130] iota(), iota_dimension=1
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  ROOT r = (f32[6], s32[6]) reduce(x, at, low, zero), dimensions={1}, to_apply=best
}";
    assert!(is_wide(arg_max, &[]));
}

/// A truth value that is the same for all elements stands beside lanes of both widths, in either order.
#[test]
fn constant_truth_values_beside_lanes_of_both_widths() {
    for [first, second] in [["a", "b"], ["b", "a"]] {
        let source = format!(
            "HloModule m\n\nENTRY e {{\n  x = s64[64] parameter(0)\n  y = s32[64] parameter(1)\n  z = f64[64] parameter(2)\n  \
             w = f32[64] parameter(3)\n  n = s64[] constant(70)\n  ns = s64[64] broadcast(n), dimensions={{}}\n  \
             m = s32[] constant(40)\n  ms = s32[64] broadcast(m), dimensions={{}}\n  a1 = s64[64] shift-left(x, ns)\n  \
             b1 = s32[64] shift-right-logical(y, ms)\n  b2 = s64[64] convert(b1)\n  three = f64[] constant(3)\n  \
             t = f64[64] broadcast(three), dimensions={{}}\n  a = f64[64] power(z, t)\n  f = f32[] constant(3)\n  \
             fs = f32[64] broadcast(f), dimensions={{}}\n  b3 = f32[64] power(w, fs)\n  b = f64[64] convert(b3)\n  \
             s = s64[64] add(a1, b2)\n  p = f64[64] subtract({first}, {second})\n  ROOT r = (s64[64], f64[64]) tuple(s, p)\n}}\n"
        );
        assert!(wide(&source, &[]).some);
    }
}

/// Elements that are found one by one, and that lie apart: loads and stores of every width of element, as many as registers have and
/// some more.
#[test]
fn elements_that_are_found_one_by_one() {
    let mut narrow = Vec::new();
    for ty in ["f32", "f64", "bf16", "s8", "u16", "s32", "s64", "c64", "pred"] {
        let op = if ty == "pred" { "not" } else { "negate" };
        let op = if ty == "u16" { "popcnt" } else { op };
        let programs = [
            // By loaded offsets, which are clamped.
            format!(
                "  x = {ty}[500] parameter(0)\n  i = s32[101] parameter(1)\n  g = {ty}[101] gather(x, i), offset_dims={{}}, \
                 collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}}\n  \
                 ROOT r = {ty}[101] {op}(g)\n"
            ),
            // By quotients and remainders of the element's number.
            format!(
                "  x = {ty}[3,5,7,2] parameter(0)\n  t = {ty}[7,3,2,5] transpose(x), dimensions={{2,0,3,1}}\n  \
                 f = {ty}[210] reshape(t)\n  ROOT r = {ty}[210] {op}(f)\n"
            ),
            // Every third one, backwards every fourth.
            format!(
                "  x = {ty}[400] parameter(0)\n  a = {ty}[100] slice(x), slice={{[1:301:3]}}\n  v = {ty}[400] reverse(x), \
                 dimensions={{0}}\n  b = {ty}[100] slice(v), slice={{[0:400:4]}}\n  na = {ty}[100] {op}(a)\n  \
                 nb = {ty}[100] {op}(b)\n  ROOT r = ({ty}[100], {ty}[100]) tuple(na, nb)\n"
            ),
        ];
        for (k, program) in programs.iter().enumerate() {
            if !wide(&format!("HloModule m\n\nENTRY e {{\n{program}}}\n"), &[]).some {
                narrow.push(format!("{ty}, program {k}"));
            }
        }
    }
    assert_eq!(narrow, [""; 0], "programs without code of each width");
}

/// What has no form in wide registers goes element by element, and nothing around it does.
#[test]
fn a_division_of_words_among_floats() {
    for (ty, op) in [("s64", "divide"), ("u64", "divide"), ("s64", "remainder"), ("u64", "remainder")] {
        let source = format!(
            "HloModule m\n\nENTRY e {{\n  x = f64[101] parameter(0)\n  a = {ty}[101] parameter(1)\n  b = {ty}[101] parameter(2)\n  \
             e = f64[101] exponential(x)\n  q = {ty}[101] {op}(a, b)\n  f = f64[101] convert(q)\n  \
             ROOT r = f64[101] add(e, f)\n}}\n"
        );
        assert!(wide(&source, &[]).all, "{op} {ty}");
    }
}

#[test]
fn long_bodies_spill_and_stay_right() {
    // Sixty values that live until the end, and more pointers than caller-saved registers.
    let mut body: String = (0..9).map(|k| format!("  p{k} = f32[80] parameter({k})\n")).collect();
    for k in 0..60 {
        body += &format!("  a{k} = f32[80] multiply(p{}, p{})\n", k % 9, (k * 7 + k / 9 + 1) % 9);
    }
    body += "  s0 = f32[80] add(a0, a59)\n";
    for k in 1..60 {
        body += &format!("  s{k} = f32[80] subtract(s{}, a{})\n", k - 1, (k * 37) % 60);
    }
    body += "  ROOT r = f32[80] divide(s59, a17)\n";
    assert!(is_wide(&format!("HloModule m\n\nENTRY e {{\n{body}}}\n"), &[]));
}

/// More arrays than there are registers for their pointers: contiguous, strided, gathered.
#[test]
fn pointers_that_lie_in_memory() {
    let mut body: String = (0..14).map(|k| format!("  p{k} = f32[240] parameter({k})\n")).collect();
    body += "  i = s32[50] parameter(14)\n  w = u8[240] parameter(15)\n";
    for k in 0..14 {
        let (begin, step) = (k % 3, 1 + k % 3);
        body += &format!("  a{k} = f32[50] slice(p{k}), slice={{[{begin}:{}:{step}]}}\n", begin + 49 * step + 1);
        body += &format!(
            "  g{k} = f32[50] gather(p{k}, i), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, \
             index_vector_dim=1, slice_sizes={{1}}\n  m{k} = f32[50] multiply(a{k}, g{k})\n"
        );
    }
    body += "  b = u8[50] slice(w), slice={[0:150:3]}\n  s0 = f32[50] convert(b)\n";
    for k in 0..14 {
        body += &format!("  s{} = f32[50] add(s{k}, m{k})\n", k + 1);
    }
    body += "  ROOT r = f32[50] negate(s14)\n";
    assert!(wide(&format!("HloModule m\n\nENTRY e {{\n{body}}}\n"), &[]).all);
}

/// Indices of 32 bits stay so from where they are loaded to where they leave their register, two at a time.
#[test]
fn indices_of_32_bits_are_not_widened() {
    let source = "HloModule m\n\nENTRY e {\n  x = f64[5,30] parameter(0)\n  i = s32[5,64] parameter(1)\n  \
         ROOT g = f64[5,64] gather(x, i), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, \
         operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}\n}\n";
    assert!(wide(source, &[]).all);
    for asm in listings(source) {
        let count = |what: &str| asm.matches(what).count();
        assert!(count("vpextrq") > 0 && count("vpminsd") > 0, "no indices of 32 bits in\n{asm}");
        assert_eq!(count("vpmovsxdq") + count("vpmovqd") + count("vpminsq"), 0, "indices of 64 bits in\n{asm}");
    }
}

/// The assembly of a program for each width of the machine, every row that can be in wide code.
fn listings(source: &str) -> Vec<String> {
    let module = text::parse(source).unwrap();
    let of = |target: TargetOptions| {
        let options = CompileOptions { wide_work: Some(0), target, keep_texts: true, ..CompileOptions::default() };
        compile(&module, &options).unwrap().asm
    };
    widths::targets().into_iter().map(of).collect()
}

/// How many pointers the wide code of a program's first row takes from its frame, for each width of the machine.
fn pointers(source: &str) -> Vec<usize> {
    let of = |asm: String| {
        let row = asm.split(".row0:").nth(1).unwrap_or_else(|| panic!("no wide row in\n{asm}"));
        row.lines().skip(1).take_while(|line| !line.is_empty()).filter(|line| line.contains(",[rdi")).count()
    };
    listings(source).into_iter().map(of).collect()
}

/// Parts of one array, some of them before the first one that is read, have one pointer; what is read at another pace or as another
/// array has its own.
#[test]
fn loads_a_constant_apart_share_a_pointer() {
    let parts = |starts: &[i64]| {
        let mut body = "  p = f32[300] parameter(0)\n  q = f32[300] parameter(1)\n".to_owned();
        for (k, start) in starts.iter().enumerate() {
            body += &format!("  a{k} = f32[90] slice(p), slice={{[{start}:{}]}}\n", start + 90);
        }
        body += "  s0 = f32[90] slice(q), slice={[7:97]}\n";
        for k in 0..starts.len() {
            body += &format!("  t{k} = f32[90] multiply(s{k}, s{k})\n  s{} = f32[90] subtract(a{k}, t{k})\n", k + 1);
        }
        format!("HloModule m\n\nENTRY e {{\n{body}  ROOT r = f32[90] negate(s{})\n}}\n", starts.len())
    };
    for starts in [&[40][..], &[40, 0, 210, 41, 39, 100, 56, 8, 72]] {
        let source = parts(starts);
        assert!(wide(&source, &[]).all);
        assert!(pointers(&source).iter().all(|&n| n == 3), "{:?} of {starts:?}", pointers(&source));
    }
}

/// Four pixels of three bytes lie in 16: a shuffle takes a colour out of them.
#[test]
fn colours_are_shuffled() {
    let source = "HloModule m\n\nENTRY e {\n  a = u8[5000,3] parameter(0)\n  b = u8[5000,1] slice(a), slice={[0:5000],[1:2]}\n  \
                  ROOT c = f32[5000,1] convert(b)\n}\n";
    for listing in listings(source) {
        assert!(listing.contains("vpshufb"), "{listing}");
    }
}

#[test]
fn machines_without_avx2_have_no_wide_code() {
    let source = "HloModule m\n\nENTRY e {\n  x = f32[256] parameter(0)\n  ROOT r = f32[256] exponential(x)\n}\n";
    assert!(is_wide(source, &[]));
    assert!(!wide(source, &["-avx2"]).any);
}
