//! Sorts in every engine: keys of each width, comparators that are no order, rows of all lengths, top-k.

use brolga_compiler::{CompileOptions, compile, interp, shape, text};
use brolga_runtime::{ArrayLiteral, ElementType, Literal, Program, RunOptions, Shape};
use brolga_tests::random_graph::Rng;

/// Elements with many ties; floats with both zeros and, where `nan` says so, NaN.
fn elements(of: &Shape, rng: &mut Rng, nan: bool) -> ArrayLiteral {
    let mut array = ArrayLiteral::zeros(of.as_array().expect("a parameter is an array"));
    let ty = array.ty();
    for i in 0..array.elements() {
        let v = (rng.below(41) as f64 - 20.0) * if ty.is_float() { 0.25 } else { 1.0 };
        let v = match rng.below(12) {
            0 => -0.0,
            1 if nan => f64::NAN,
            _ => v,
        };
        let scalar = brolga_runtime::Scalar::Float(v);
        let scalar = match ty {
            ElementType::Pred => brolga_runtime::Scalar::Pred(v > 0.0),
            _ if ty.is_signed_integer() => brolga_runtime::Scalar::Int(v as i64),
            _ if ty.is_integer() => brolga_runtime::Scalar::UInt(v as i64 as u64),
            _ => scalar.round_to(ty),
        };
        array.set(i, scalar);
    }
    array
}

/// Runs a module in the interpreter and in compiled code, on one thread and on three: the bytes are the same.
#[track_caller]
fn check(source: &str, nan: bool) {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let entry = module.entry();
    let mut rng = Rng::new(source.len() as u64);
    let shapes = entry.parameters().into_iter().map(|p| entry.instructions[p].shape.clone());
    let inputs: Vec<ArrayLiteral> = shapes.map(|s| elements(&s, &mut rng, nan)).collect();
    let literals: Vec<Literal> = inputs.iter().cloned().map(Literal::Array).collect();
    let want = interp::run(&module, &literals, &interp::Options::default()).unwrap_or_else(|e| panic!("{e}"));
    let artifact = compile(&module, &CompileOptions::default()).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let program = Program::from_object(&artifact.object).unwrap_or_else(|e| panic!("{e}"));
    let inputs: Vec<&ArrayLiteral> = inputs.iter().collect();
    for threads in [1, 3] {
        let options = RunOptions { threads, ..RunOptions::default() };
        let got = program.run_with(&inputs, &options).unwrap_or_else(|e| panic!("{e}"));
        for (k, (got, want)) in got.iter().zip(want.arrays()).enumerate() {
            assert!(got.bytes() == want.bytes(), "result {k} on {threads} threads\n{got:?}\n{want:?}\n{source}");
        }
    }
}

/// A sort of an array of `ty` and, behind it, arrays of other types, all of dimensions `dims`.
fn sort(types: &[&str], dims: &str, along: usize, order: &str) -> String {
    let (mut comparator, mut entry, mut shapes, mut names) = (String::new(), String::new(), Vec::new(), Vec::new());
    for (k, ty) in types.iter().enumerate() {
        comparator += &format!("  a{k} = {ty}[] parameter({})\n  b{k} = {ty}[] parameter({})\n", 2 * k, 2 * k + 1);
        entry += &format!("  x{k} = {ty}[{dims}] parameter({k})\n");
        shapes.push(format!("{ty}[{dims}]"));
        names.push(format!("x{k}"));
    }
    let shape = if types.len() == 1 { shapes[0].clone() } else { format!("({})", shapes.join(", ")) };
    format!(
        "HloModule m\norder {{\n{comparator}  {order}\n}}\nENTRY e {{\n{entry}  ROOT r = {shape} sort({}), \
         dimensions={{{along}}}, to_apply=order\n}}\n",
        names.join(", ")
    )
}

const LESS: &str = "ROOT r = pred[] compare(a0, b0), direction=LT";

#[test]
fn keys_of_every_width() {
    for ty in ["pred", "s4", "s8", "u8", "s16", "bf16", "f8e5m2", "f16", "u32", "f32", "s64", "f64"] {
        for order in [LESS, "ROOT r = pred[] compare(b0, a0), direction=LT"] {
            check(&sort(&[ty], "3,500", 1, order), false);
            check(&sort(&[ty, "s32"], "70,3", 0, order), false);
        }
    }
    check(&sort(&["f32"], "20000", 0, LESS), false);
    check(&sort(&["s64", "u16", "f64"], "20000", 0, LESS), false);
}

#[test]
fn comparators_that_are_no_order_still_permute() {
    let orders =
        ["compare(a0, b0), direction=LE", "compare(a0, b0), direction=NE", "constant(true)", "constant(false)"];
    for order in orders {
        for n in [1, 2, 3, 33] {
            check(&sort(&["f32", "s32"], &format!("{n},2"), 0, &format!("ROOT r = pred[] {order}")), true);
        }
    }
    check(&sort(&["f32", "s8", "c64"], "40", 0, LESS), true);
    check(&sort(&["bf16"], "5,200", 1, LESS), true);
}

#[test]
fn comparators_may_read_every_operand() {
    let second = "less = pred[] compare(a0, b0), direction=LT
        tie = pred[] compare(a0, b0), direction=EQ
        more = pred[] compare(a1, b1), direction=GT
        both = pred[] and(tie, more)
        ROOT r = pred[] or(less, both)";
    check(&sort(&["s32", "f32", "u8", "f64"], "4,90", 1, second), false);
    let reals = "x = f32[] real(a0)\n  y = f32[] real(b0)\n  ROOT r = pred[] compare(x, y), direction=GT";
    check(&sort(&["c64"], "65", 0, reals), false);
}

#[test]
fn rows_of_nothing_and_of_one() {
    check(&sort(&["f32"], "", 0, LESS), false);
    check(&sort(&["f32", "s32"], "0", 0, LESS), false);
    check(&sort(&["f32", "s32"], "1,4,1", 2, LESS), false);
}

#[test]
fn the_first_few_and_all() {
    for (ty, n, k) in [
        ("f32", 1000, 5),
        ("s8", 300, 64),
        ("s8", 300, 65),
        ("bf16", 40, 40),
        ("u64", 90, 3),
        ("f32", 4, 0),
        // In batches, the last of which is filled up to here or less.
        ("f32", 17_920, 70),
        ("f32", 18_003, 70),
        ("s8", 17_921, 70),
        ("bf16", 40_000, 100),
    ] {
        for largest in [true, false] {
            let shapes = format!("({ty}[2,{k}], s32[2,{k}])");
            check(
                &format!(
                    "HloModule m\nENTRY e {{\n x = {ty}[2,{n}] parameter(0)\n \
                     ROOT r = {shapes} topk(x), k={k}, largest={largest}\n}}\n"
                ),
                true,
            );
        }
    }
}

/// Rows that go up, but for some elements: of those looked at in order, each would be kept for a while.
#[test]
fn the_first_of_many_in_order() {
    for largest in [true, false] {
        check(
            &format!(
                "HloModule m\nENTRY e {{\n x = f32[20000] parameter(0)\n i = f32[20000] iota(), iota_dimension=0\n \
                 y = f32[20000] maximum(x, i)\n ROOT r = (f32[70], s32[70]) topk(y), k=70, largest={largest}\n}}\n"
            ),
            true,
        );
    }
}

/// Rows whose elements are computed, lie apart, or are mostly equal to the last one that is kept: strips that are passed over, or not.
#[test]
fn the_first_of_rows_in_strips() {
    for (n, k) in [(2000, 10), (2007, 60), (20_000, 70)] {
        for (ty, made) in [
            ("f32", "y = f32[3,N] negate(x)"),
            ("f32", "z = f32[3,N] multiply(x, x)  y = f32[3,N] negate(z)"),
            ("f32", "z = f32[] constant(0)  b = f32[3,N] broadcast(z), dimensions={}  y = f32[3,N] minimum(x, b)"),
            ("f32", "z = f32[] constant(nan)  y = f32[3,N] broadcast(z), dimensions={}"),
            ("s8", "y = s8[3,N] negate(x)"),
            ("u16", "z = u16[] constant(1)  b = u16[3,N] broadcast(z), dimensions={}  y = u16[3,N] minimum(x, b)"),
            ("bf16", "y = bf16[3,N] abs(x)"),
        ] {
            for largest in [true, false] {
                let made = made.replace('N', &n.to_string());
                check(
                    &format!(
                        "HloModule m\nENTRY e {{\n x = {ty}[3,{n}] parameter(0)\n {made}\n \
                         ROOT r = ({ty}[3,{k}], s32[3,{k}]) topk(y), k={k}, largest={largest}\n}}\n"
                    ),
                    true,
                );
            }
        }
        check(
            &format!(
                "HloModule m\nENTRY e {{\n x = f32[{n},3] parameter(0)\n y = f32[3,{n}] transpose(x), dimensions={{1,0}}\n \
                 ROOT r = (f32[3,{k}], s32[3,{k}]) topk(y), k={k}, largest=true\n}}\n"
            ),
            true,
        );
    }
}

/// The `TopK` of XLA's optimised text, whose comparator compares the integers that order as the floats do.
#[test]
fn a_top_k_by_the_integers_of_the_total_order() {
    for (direction, largest) in [("GT", true), ("LT", false)] {
        let source = format!(
            "HloModule m\nby_bits {{\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n i = s32[] parameter(2)
 j = s32[] parameter(3)\n zero = s32[] constant(0)\n most = s32[] constant(2147483647)
 p = s32[] bitcast(a)\n q = s32[] bitcast(b)\n x = s32[] xor(most, p)\n n = pred[] compare(p, zero), direction=LT
 y = s32[] xor(most, q)\n o = pred[] compare(q, zero), direction=LT\n k = s32[] select(n, x, p)
 l = s32[] select(o, y, q)\n ROOT r = pred[] compare(k, l), direction={direction}\n}}
ENTRY e {{\n x = f32[4,90] parameter(0)
 t = (f32[4,7], s32[4,7]) custom-call(x), custom_call_target=\"TopK\", called_computations={{by_bits}}
 v = f32[4,7] get-tuple-element(t), index=0\n w = s32[4,7] get-tuple-element(t), index=1
 u = (f32[4,7], s32[4,7]) topk(x), k=7, largest={largest}
 vu = f32[4,7] get-tuple-element(u), index=0\n wu = s32[4,7] get-tuple-element(u), index=1
 vb = s32[4,7] bitcast-convert(v)\n vub = s32[4,7] bitcast-convert(vu)
 same = pred[4,7] compare(vb, vub), direction=EQ\n there = pred[4,7] compare(w, wu), direction=EQ
 ROOT r = (f32[4,7], s32[4,7], pred[4,7], pred[4,7]) tuple(v, w, same, there)\n}}\n"
        );
        check(&source, true);
        let module = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
        let artifact = compile(&module, &CompileOptions::default()).unwrap_or_else(|e| panic!("{e}\n{source}"));
        assert!(artifact.descriptor.custom_calls.is_empty(), "no function is asked for");
        let entry = module.entry();
        let x = elements(&entry.instructions[entry.parameters()[0]].shape, &mut Rng::new(3), true);
        let program = Program::from_object(&artifact.object).unwrap_or_else(|e| panic!("{e}"));
        let got = program.run(&[&x]).unwrap_or_else(|e| panic!("{e}"));
        assert!(got[2].bytes().iter().chain(got[3].bytes()).all(|&b| b == 1), "{got:?}");
    }
}
