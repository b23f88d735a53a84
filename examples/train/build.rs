//! Compiles the network's computations into one object for each of two number types.

mod network;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=network.rs");
    for (name, graph) in [("network", network::network::<f32>()?), ("network_f64", network::network::<f64>()?)] {
        brolga_compiler::aot::Builder::new().modules(graph.modules()?).name(name).compile();
    }
    Ok(())
}
