//! The host of the native tier's tests: a program that begins with the sandbox's entry, as `stockade` does, and runs
//! workers for a test that may run as somebody else.
//!
//! `host probe` reads a plan from standard input, lays out what a worker must not find, and runs the probe in workers.
//! `host live STATE LABEL` holds one live session until something is killed.
//! `host bench ROUNDS` measures starts against bubblewrap's.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test program fails by panicking and prints what it found"
)]

mod bait;
mod bench;
mod live;
mod probe;

use std::ffi::OsString;

fn main() {
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = stockade_runtime::sandbox::entry(&args) {
        std::process::exit(code);
    }
    let args: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match args.as_slice() {
        [_, "probe"] => runtime.block_on(probe::main()),
        [_, "live", state, label] => runtime.block_on(live::main(state, label)),
        [_, "bench", rounds] => runtime.block_on(bench::main(rounds)),
        _ => panic!("usage: host probe | host live STATE LABEL | host bench ROUNDS"),
    }
}
