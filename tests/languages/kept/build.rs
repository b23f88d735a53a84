fn main() {
    println!("cargo::rustc-link-search=native={}/model", env!("CARGO_MANIFEST_DIR"));
    println!("cargo::rustc-link-lib=static=brolga_small");
}
