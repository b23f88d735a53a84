//! Products whose right operand lies along the steps, as weights of a layer do: it is turned in registers where it is packed. What the
//! interpreter gives, the same bits at every width and on any number of threads.

use brolga_tests::ways::check;

/// A product of `m` rows, `k` steps and `n` columns, the right operand turned, with something done to each element.
#[track_caller]
fn product(ty: &str, [m, k, n]: [i64; 3]) {
    let source = format!(
        "HloModule m\nENTRY e {{\n  x = {ty}[{m},{k}] parameter(0)\n  y = {ty}[{n},{k}] parameter(1)\n  b = {ty}[{n}] parameter(2)\n  \
         d = {ty}[{m},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}\n  \
         bs = {ty}[{m},{n}] broadcast(b), dimensions={{1}}\n  ROOT r = {ty}[{m},{n}] add(d, bs)\n}}\n"
    );
    let text = check(&source, 1e-5).kernel_text();
    assert!(text.contains("contraction"), "{text}");
}

#[test]
fn whole_squares_and_what_is_left_of_them() {
    // Steps: less than a square, whole ones, some left, several blocks with some left of the last.
    for k in [15, 16, 37, 270, 523] {
        // Columns: of one panel or of several, of whole squares or not.
        for n in [16, 33, 80, 150] {
            product("f32", [19, k, n]);
        }
    }
    product("f64", [21, 275, 56]);
    product("f64", [9, 64, 31]);
    product("bf16", [17, 272, 80]);
}

#[test]
fn strips_and_groups() {
    product("f32", [5, 33, 600]);
    product("f32", [1100, 24, 70]);
}

/// Rows of both operands then fall into few sets of the caches: those of the left one are packed too, while it is multiplied.
#[test]
fn rows_pages_apart() {
    product("f32", [40, 1024, 144]);
    product("f32", [130, 2048, 68]);
    product("f64", [40, 512, 80]);
}

#[test]
fn batches() {
    check(
        "HloModule m\nENTRY e {\n  x = f32[3,20,40] parameter(0)\n  y = f32[3,80,40] parameter(1)\n  \
         ROOT d = f32[3,20,80] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, \
         rhs_contracting_dims={2}\n}\n",
        1e-5,
    );
}

/// What is computed of a transpose and scalars, for a product alone, does not stand in the way: rows of the operand lie side by side.
#[test]
fn computed_of_a_transpose() {
    let of = |computed: &str, also: &str| {
        check(
            &format!(
                "HloModule m\nENTRY e {{\n  x = f32[100,40] parameter(0)\n  y = f32[100] parameter(1)\n  s = f32[] parameter(2)\n  \
                 t = f32[40,100] transpose(x), dimensions={{1,0}}\n  c = f32[40,100] broadcast(s), dimensions={{}}\n  \
                 i = f32[40,100] iota(), iota_dimension=1\n  k = f32[40,100] {computed}\n  d = f32[40] dot(k, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n  {also}\n}}\n"
            ),
            1e-5,
        )
        .kernel_text()
    };
    let alone = "ROOT n = f32[40] negate(d)";
    for computed in ["multiply(t, c)", "subtract(c, t)", "clamp(c, t, t)", "negate(t)"] {
        let text = of(computed, alone);
        assert!(text.contains("fold row0["), "{computed}\n{text}");
    }
    // Others need it too, or not all of it is turned.
    let text = of("multiply(t, c)", "ROOT r = (f32[40], f32[40,100]) tuple(d, k)");
    assert!(!text.contains("fold row0["), "{text}");
    let text = of("multiply(t, i)", alone).contains("fold row0[");
    assert!(!text);
}
