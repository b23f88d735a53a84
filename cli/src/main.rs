//! The command line of Brolga.
fn main() {}
