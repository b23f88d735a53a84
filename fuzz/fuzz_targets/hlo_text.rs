//! HLO text, see [`brolga_fuzz::hlo_text`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| brolga_fuzz::hlo_text(data));
