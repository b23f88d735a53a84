//! Portable artifacts and files of `jax.export`, see [`brolga_fuzz::bytecode`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| brolga_fuzz::bytecode(data));
