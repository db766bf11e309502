//! The `stockade` program: parses, wires, maps outcomes to exit codes. It holds no logic of its own.

mod cli;
mod environment;
mod exit;
mod link;
mod project;
mod receipt;
mod signals;
mod starter;
mod terminal;

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all: a helper process of the sandbox must be this and nothing else, with a single thread.
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = stockade_runtime::sandbox::entry(&args) {
        return ExitCode::from(u8::try_from(code).unwrap_or(70));
    }
    cli::main(args)
}
