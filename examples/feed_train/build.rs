//! Compiles the training loop.

fn main() {
    brolga_compiler::aot::Builder::new().module("model/train.hlo").name("train").compile();
}
