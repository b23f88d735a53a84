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
