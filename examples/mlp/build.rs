//! Compiles the model that JAX exported.

fn main() {
    brolga_compiler::aot::Builder::new().module("model/mlp.hlo").name("mlp").compile();
}
