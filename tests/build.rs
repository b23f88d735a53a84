//! Compiles the model whose bindings `tests/bindings.rs` uses, and the graph of tensors that `tests/tensor_layouts.rs` links.

#[path = "models/layer.rs"]
mod layer;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=models/layer.rs");
    brolga_compiler::aot::Builder::new().module("models/dict.hlo").compile();
    let graph = layer::layer(&layer::columns_and_padding())?;
    brolga_compiler::aot::Builder::new().modules(graph.modules()?).name("layer").compile();
    Ok(())
}
