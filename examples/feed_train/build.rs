//! Compiles the training loop.

fn main() {
    let mut builder = brolga_compiler::aot::Builder::new();
    builder.module("model/train.hlo").name("train");
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64") {
        builder.target_cpu("x86-64-v3");
    }
    builder.compile();
}
