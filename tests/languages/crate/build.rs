use brolga_compiler::aot::Builder;

fn main() {
    Builder::new().module("block.jax").compile();
    Builder::new().module("small.hlo").compile();
}
