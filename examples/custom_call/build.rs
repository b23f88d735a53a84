//! Compiles the program whose functions `main.rs` defines.

fn main() {
    brolga_compiler::aot::Builder::new().module("model/smooth.hlo").name("smooth").compile();
}
