//! `docs/operations.md` says what the compiler does.
//!
//! `BROLGA_WRITE_OPERATIONS=1` writes the page instead of comparing it.
#![allow(clippy::unwrap_used)]

use brolga_tests::operations::markdown;

#[test]
fn the_table_of_operations_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md");
    let page = markdown();
    if std::env::var_os("BROLGA_WRITE_OPERATIONS").is_some() {
        std::fs::write(path, &page).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let differs = page.lines().zip(committed.lines()).find(|(new, old)| new != old);
    assert!(
        page == committed,
        "docs/operations.md is out of date, run with BROLGA_WRITE_OPERATIONS=1; the first line that differs:\n{differs:?}"
    );
}
