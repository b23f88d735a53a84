//! Compiles the network's computations into one object.

mod network;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=network.rs");
    let modules = network::network()?.modules()?;
    brolga_compiler::aot::Builder::new().modules(modules).name("network").compile();
    Ok(())
}
