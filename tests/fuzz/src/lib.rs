//! Everything of stockade that reads bytes from outside, as functions of bytes.
//!
//! A target takes any bytes and panics when something that must always hold does not. `tests/corpus.rs` runs each over
//! its seeds and over thousands of damaged copies of them, the same ones every time, on any Rust. The programs in
//! `libfuzzer/` hand the same functions to a fuzzer that is led by coverage.

#![allow(clippy::expect_used, clippy::panic, reason = "a target reports what it finds by panicking")]

mod journal;
mod mcp;
mod project;
mod screen;
mod words;

/// A function of bytes, by name.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name: that of its seeds' directory and of its program.
    pub name: &'static str,
    /// The function.
    pub run: fn(&[u8]),
    /// Damaged copies that a test makes of each seed.
    pub rounds: u32,
    /// Seeds besides those in `corpus/`: files and directories relative to the repository's root.
    pub seeds: &'static [&'static str],
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target {
        name: "manifest",
        run: project::manifest,
        rounds: 60,
        seeds: &["fixtures/manifests", "fixtures/demo/tools"],
    },
    Target {
        name: "policy",
        run: project::policy,
        rounds: 60,
        seeds: &["fixtures/demo/policies", "fixtures/starter/policies"],
    },
    Target { name: "configuration", run: project::configuration, rounds: 60, seeds: &["fixtures/demo/stockade.toml"] },
    Target { name: "journal", run: journal::journal, rounds: 40, seeds: &[] },
    Target { name: "checkpoint", run: journal::checkpoint, rounds: 300, seeds: &[] },
    Target { name: "event", run: words::event, rounds: 300, seeds: &[] },
    Target { name: "redactor", run: words::redactor, rounds: 200, seeds: &[] },
    Target { name: "text", run: words::text, rounds: 300, seeds: &[] },
    Target { name: "line", run: words::line, rounds: 300, seeds: &[] },
    Target { name: "pane", run: screen::pane, rounds: 60, seeds: &[] },
    Target { name: "mcp", run: mcp::mcp, rounds: 60, seeds: &[] },
];

/// Runs a target by name.
///
/// # Panics
/// When there is no such target, and when the target finds something.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("the target is in the list").run)(bytes);
}
