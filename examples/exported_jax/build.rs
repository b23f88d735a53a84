//! Compiles what `jax.export` serialized for two sizes of its batch.

use brolga_runtime::{ElementType, Shape};

fn main() {
    let mut builder = brolga_compiler::aot::Builder::new();
    builder.module("model/attention.jax").name("attention");
    for batch in [2, 5] {
        // The artifact has no name for its argument but this.
        builder.size([("arg0", Shape::array(ElementType::F32, [batch, 4, 8]))]);
    }
    builder.compile();
}
