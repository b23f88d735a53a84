//! Compiles the models whose bindings `tests/bindings.rs` and `tests/slim_compiler.rs` use and the graph of tensors that
//! `tests/tensor_layouts.rs` links, and asks for what a compiler without library services refuses: build scripts have such a one.

#[path = "models/layer.rs"]
mod layer;

use brolga_compiler::{CompileOptions, compile, interp, text};
use std::path::PathBuf;

const ROUTINE: &str = r#"HloModule routine

ENTRY main {
  a = f32[2,2] constant({{4, 2}, {2, 5}})
  ROOT lu = (f32[2,2], s32[2], s32[]) custom-call(a), custom_call_target="lapack_sgetrf_ffi",
    api_version=API_VERSION_TYPED_FFI, backend_config={}
}
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=models/layer.rs");
    brolga_compiler::aot::Builder::new().module("models/dict.hlo").compile();
    brolga_compiler::aot::Builder::new().module("models/services.hlo").compile();
    let graph = layer::layer(&layer::columns_and_padding())?;
    brolga_compiler::aot::Builder::new().modules(graph.modules()?).name("layer").compile();

    let routine = text::parse(ROUTINE)?;
    let answer = interp::run(&routine, &[], &interp::Options::default()).map(|_| ());
    let object = compile(&text::parse(include_str!("models/services.hlo"))?, &CompileOptions::default())?.object;
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
    std::fs::write(folder.join("answer.txt"), format!("{answer:?}"))?;
    std::fs::write(folder.join("compiled.o"), object)?;
    Ok(())
}
