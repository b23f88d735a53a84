//! Compiles the model that JAX exported.

fn main() {
    // Every x86-64 machine since 2013 or so has these instructions; without them the polynomials take twice as long.
    let mut builder = brolga_compiler::aot::Builder::new();
    builder.module("model/mlp.hlo").name("mlp");
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64") {
        builder.target_cpu("x86-64-v3");
    }
    builder.compile();
}
