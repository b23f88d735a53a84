//! StableHLO text, see [`brolga_fuzz::stablehlo_text`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| brolga_fuzz::stablehlo_text(data));
