//! Scatters of single elements, some of whose indices are outside: a branch around each update. What the interpreter gives, the same
//! bits at every width and on any number of threads. Indices run from -3 to 3.

use brolga_compiler::{CompileOptions, compile};
use brolga_compiler::{shape, text};
use brolga_tests::ways::check;

/// A program of updates of an array of these sizes at as many indices, combined as is written.
fn program(ty: &str, index: &str, dims: &[i64], combine: &str) -> String {
    let (all, n) = (dims.iter().map(|d| d.to_string()).collect::<Vec<_>>().join(","), dims.len());
    let inserted = (0..n).map(|d| d.to_string()).collect::<Vec<_>>().join(",");
    format!(
        "HloModule m\nf {{\n  x = {ty}[] parameter(0)\n  y = {ty}[] parameter(1)\n  ROOT z = {ty}[] {combine}\n}}\n\
         ENTRY e {{\n  o = {ty}[{all}] parameter(0)\n  i = {index}[300,{n}] parameter(1)\n  u = {ty}[300] parameter(2)\n  \
         ROOT s = {ty}[{all}] scatter(o, i, u), update_window_dims={{}}, inserted_window_dims={{{inserted}}}, \
         scatter_dims_to_operand_dims={{{inserted}}}, index_vector_dim=1, to_apply=f\n}}\n"
    )
}

#[track_caller]
fn updates(ty: &str, index: &str, dims: &[i64], combine: &str) {
    check(&program(ty, index, dims, combine), 0.0);
}

/// What is outside is branched around: no index is clamped, and what is there already is not stored again.
#[test]
fn a_branch_around_each_update() {
    for dims in [&[3][..], &[3, 2], &[2, 1, 3]] {
        let module = text::parse(&program("f32", "s32", dims, "add(x, y)")).expect("a program");
        shape::verify(&module).expect("a program");
        let clif = compile(&module, &CompileOptions { keep_texts: true, ..CompileOptions::default() })
            .expect("a program")
            .clif;
        let count = |word: &str| clif.lines().filter(|line| line.contains(word)).count();
        let clamps = count("smax") + count("smin");
        assert_eq!((clamps, count("select")), (0, 0), "{dims:?}:\n{clif}");
        assert!(count("icmp ule") >= dims.len(), "{dims:?}:\n{clif}");
    }
}

#[test]
fn one_index() {
    for combine in ["add(x, y)", "copy(y)", "maximum(x, y)", "subtract(y, x)"] {
        for ty in ["f32", "f64", "s32", "s8", "bf16"] {
            updates(ty, "s32", &[3], combine);
        }
        updates("f32", "s64", &[2], combine);
        updates("f32", "s8", &[1], combine);
    }
}

#[test]
fn several_indices() {
    updates("f32", "s32", &[3, 2], "add(x, y)");
    updates("s32", "s16", &[2, 1, 3], "copy(y)");
    updates("f64", "s32", &[1, 3], "multiply(x, y)");
}

/// An index without a sign is never below; one that counts from the end is put right before.
#[test]
fn other_guards() {
    updates("f32", "u32", &[3], "add(x, y)");
    check(
        "HloModule m\nadd {\n  x = s32[] parameter(0)\n  y = s32[] parameter(1)\n  ROOT z = s32[] add(x, y)\n}\n\
         ENTRY e {\n  o = s32[3] parameter(0)\n  i = s32[500] parameter(1)\n  c = s32[] constant(0)\n  \
         z = s32[500] broadcast(c), dimensions={}\n  n = s32[] constant(2)\n  nb = s32[500] broadcast(n), dimensions={}\n  \
         below = pred[500] compare(i, z), direction=LT\n  up = s32[500] add(i, nb)\n  w = s32[500] select(below, up, i)\n  \
         r = s32[500,1] reshape(w)\n  u = s32[500] parameter(2)\n  \
         ROOT s = s32[3] scatter(o, r, u), update_window_dims={}, inserted_window_dims={0}, \
         scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add\n}\n",
        0.0,
    );
}

/// Several arrays updated at the same indices, each from the other's update too.
#[test]
fn several_arrays() {
    check(
        "HloModule m\nf {\n  a = f32[] parameter(0)\n  b = s32[] parameter(1)\n  c = f32[] parameter(2)\n  d = s32[] parameter(3)\n  \
         x = f32[] add(a, c)\n  y = s32[] subtract(d, b)\n  ROOT t = (f32[], s32[]) tuple(x, y)\n}\n\
         ENTRY e {\n  o = f32[3,2] parameter(0)\n  p = s32[3,2] parameter(1)\n  i = s32[200,2] parameter(2)\n  \
         u = f32[200] parameter(3)\n  v = s32[200] parameter(4)\n  ROOT s = (f32[3,2], s32[3,2]) scatter(o, p, i, u, v), \
         update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, \
         to_apply=f\n}\n",
        0.0,
    );
}
