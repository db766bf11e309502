#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stockade_fuzz::run("mcp", bytes));
