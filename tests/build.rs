//! Compiles the model whose bindings `tests/bindings.rs` uses.

fn main() {
    brolga_compiler::aot::Builder::new().module("models/dict.hlo").compile();
}
