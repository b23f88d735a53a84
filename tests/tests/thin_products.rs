//! Products of few steps, which are bound by writing their results: row by row where rows lie whole pages apart, else blocked; what the
//! interpreter gives, the same bits at every width and on any number of threads.

use brolga_tests::ways::check;

/// A product of `m` rows, `k` steps and `n` columns, the left operand turned or not, with something done to each element. Whether it
/// is blocked.
#[track_caller]
fn is_blocked(ty: &str, [m, k, n]: [i64; 3], turned: bool) -> bool {
    let (left, contracted) = if turned { (format!("{k},{m}"), 0) } else { (format!("{m},{k}"), 1) };
    let source = format!(
        "HloModule m\nENTRY e {{\n  x = {ty}[{left}] parameter(0)\n  y = {ty}[{k},{n}] parameter(1)\n  b = {ty}[{n}] parameter(2)\n  \
         d = {ty}[{m},{n}] dot(x, y), lhs_contracting_dims={{{contracted}}}, rhs_contracting_dims={{0}}\n  \
         bs = {ty}[{m},{n}] broadcast(b), dimensions={{1}}\n  ROOT r = {ty}[{m},{n}] add(d, bs)\n}}\n"
    );
    check(&source, 1e-5).kernel_text().contains("contraction")
}

#[test]
fn rows_of_whole_pages_are_written_one_after_another() {
    for turned in [false, true] {
        assert!(!is_blocked("f32", [300, 2, 1024], turned));
        assert!(!is_blocked("f32", [131, 8, 2048], turned));
        assert!(!is_blocked("f64", [200, 5, 1024], turned));
    }
}

#[test]
fn other_products_are_blocked() {
    assert!(is_blocked("f32", [300, 9, 1024], false));
    assert!(is_blocked("f32", [300, 2, 1000], false));
    assert!(is_blocked("f32", [100, 2, 1024], true));
}

/// Few columns are folded from rows, several in an iteration, whatever order the right operand has and whatever follows.
#[test]
fn few_columns_fold_rows() {
    for (ty, n) in [("f32", 2), ("f32", 3), ("f32", 8), ("f64", 4)] {
        for (m, k) in [(64, 256), (300, 300), (65, 1000)] {
            assert!(!is_blocked(ty, [m, k, n], false), "{ty} {m} {k} {n}");
        }
    }
    // More columns, fewer steps or rows, steps that are not side by side, and rows that are converted.
    assert!(is_blocked("f32", [300, 300, 9], false));
    assert!(is_blocked("f64", [300, 300, 5], false));
    assert!(is_blocked("f32", [300, 255, 4], false));
    assert!(is_blocked("f32", [63, 300, 4], false));
    assert!(is_blocked("f32", [300, 300, 4], true));
    assert!(is_blocked("bf16", [300, 300, 4], false));
    // Columns of which no cache near by holds all.
    assert!(is_blocked("f32", [70, 4200, 4], false));
    for (right, contracted) in [("3,7,260", "1,2"), ("7,260,3", "0,1"), ("7,3,260", "0,2")] {
        let text = check(
            &format!(
                "HloModule m\nENTRY e {{\n  x = f32[130,7,260] parameter(0)\n  y = f32[{right}] parameter(1)\n  \
                 ROOT d = f32[130,3] dot(x, y), lhs_contracting_dims={{1,2}}, rhs_contracting_dims={{{contracted}}}\n}}\n"
            ),
            1e-5,
        )
        .kernel_text();
        assert!(!text.contains("contraction"), "{text}");
    }
    check(
        "HloModule m\nENTRY e {\n  x = f32[3,70,280] parameter(0)\n  y = f32[3,280,4] parameter(1)\n  \
         ROOT d = f32[3,70,4] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}\n}\n",
        1e-5,
    );
}

/// Rows that are widened by an instruction are widened for each of fewer columns.
#[test]
fn narrow_rows_are_widened_for_few_columns() {
    let blocked = |[left, right, out]: [&str; 3], (m, k, n): (i64, i64, i64), [lhs, rhs]: [i64; 2]| {
        let side = |across: i64, contracted: i64| {
            if contracted == 0 { format!("{k},{across}") } else { format!("{across},{k}") }
        };
        let source = format!(
            "HloModule m\nENTRY e {{\n  x = {left}[{}] parameter(0)\n  y = {right}[{}] parameter(1)\n  \
             ROOT d = {out}[{m},{n}] dot(x, y), lhs_contracting_dims={{{lhs}}}, rhs_contracting_dims={{{rhs}}}\n}}\n",
            side(m, lhs),
            side(n, rhs)
        );
        check(&source, 1e-5).kernel_text().contains("contraction")
    };
    let floats = ["bf16", "bf16", "f32"];
    for types in [
        floats,
        ["bf16", "f32", "f32"],
        ["s8", "s8", "s32"],
        ["u8", "s8", "s32"],
        ["s16", "u8", "u32"],
        ["u16", "s32", "s32"],
    ] {
        let most = if types[0] == "bf16" { 2 } else { 3 };
        for order in [[1, 0], [1, 1]] {
            assert!(!blocked(types, (70, 301, most), order), "{types:?}");
        }
        assert!(!blocked([types[1], types[0], types[2]], (most, 300, 65), [0, 1]), "{types:?}");
    }
    assert!(blocked(floats, (70, 301, 3), [1, 0]));
    assert!(blocked(["s8", "s8", "s32"], (70, 301, 4), [1, 0]));
    // Each step of a sum that wraps earlier costs more.
    assert!(blocked(["s8", "s8", "s16"], (70, 301, 2), [1, 0]));
}

/// Few rows are the columns of the transposed product, where the steps of the right operand lie side by side.
#[test]
fn few_rows_fold_the_other_side() {
    let blocked = |left: &str, right: &str, [lhs, rhs]: [i64; 2], out: &str| {
        let source = format!(
            "HloModule m\nENTRY e {{\n  x = f32[{left}] parameter(0)\n  y = f32[{right}] parameter(1)\n  \
             d = f32[{out}] dot(x, y), lhs_contracting_dims={{{lhs}}}, rhs_contracting_dims={{{rhs}}}\n  \
             ROOT r = f32[{out}] negate(d)\n}}\n"
        );
        check(&source, 1e-5).kernel_text().contains("contraction")
    };
    assert!(!blocked("4,300", "200,300", [1, 1], "4,200"));
    assert!(!blocked("300,3", "65,300", [0, 1], "3,65"));
    assert!(!blocked("2,4,300", "200,300", [2, 1], "2,4,200"));
    assert!(blocked("4,300", "300,200", [1, 0], "4,200"));
    assert!(blocked("9,300", "200,300", [1, 1], "9,200"));
}
