//! XLA's protocol buffers, see [`brolga_fuzz::message`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| brolga_fuzz::message(data));
