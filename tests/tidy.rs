//! Keeps the shape of the repository: who may import whom, who may start a process, who may hold `unsafe`, and that
//! what the documents say is there. Each check also shows that it finds what it looks for, so that none of them can
//! pass because it looks at nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/layers.rs"]
mod layers;
#[path = "tidy/source.rs"]
mod source;

use regex::Regex;
use source::{Source, sources};

/// Where the program's own code lies.
const PRODUCT: &[&str] = &["src/", "ui/src/", "runtime/src/", "runtime/protocol/src/"];

/// A pattern that is known to be one.
fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

/// Fails with one line a finding.
fn none(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}\n  {}\n", findings.join("\n  "));
}

fn is_product(source: &Source) -> bool {
    !source.test && PRODUCT.iter().any(|place| source.path.starts_with(place))
}

/// Places in the product's code, not in its tests, where a pattern matches, in files that `within` accepts.
fn matches(sources: &[Source], pattern: &Regex, within: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| is_product(source) && within(&source.path)) {
        let code = source.product();
        found.extend(pattern.find_iter(&code).map(|hit| format!("{}: {}", source.at(hit.start()), hit.as_str())));
    }
    found
}

/// Whatever starts a process or turns this one into another.
fn starts_a_process() -> Regex {
    pattern(concat!(
        r"\bCommand\s*::\s*new\b|\bprocess\s*::\s*(?:Command|\{[^}]*\bCommand)\b|\bCommandExt\b",
        r"|\b(?:v?fork|f?exec(?:v|ve|vp|vpe|veat|l|le|lp)|posix_spawnp?|popen|clone3)\s*\(",
        r"|\b(?:libc|sched)\s*::\s*(?:clone|system)\b|\bSYS_(?:clone3?|v?fork|execve(?:at)?)\b",
        // crossterm's question for the size starts `tput` where no terminal answers; `window_size` does not.
        r"|\bterminal\s*::\s*(?:size|\{[^}]*\bsize)\b",
    ))
}

fn may_start_processes(path: &str) -> bool {
    path.starts_with("runtime/src/sandbox/") || path == "runtime/src/sys.rs" || path.starts_with("runtime/src/sys/")
}

#[test]
fn only_the_sandbox_starts_processes() {
    let starts = starts_a_process();
    for planted in [
        "std::process::Command::new(x)",
        "use std::process::{Command, Stdio};",
        "tokio::process::Command",
        "unsafe { libc::fork() }",
        "nix::unistd::execve(a, b, c)",
        "execvp (a, b)",
        "libc::posix_spawn(a)",
        "libc::syscall(libc::SYS_clone3, a)",
        "sched::clone(a)",
        "crossterm::terminal::size()",
        "use crossterm::terminal::{disable_raw_mode, size};",
    ] {
        assert!(starts.is_match(planted), "the pattern misses {planted}");
    }
    for harmless in [
        "Arc::clone(&a)",
        "a.clone()",
        "Command::Call { request }",
        "fn execute()",
        "Ports::system()",
        "terminal::window_size()",
    ] {
        assert!(!starts.is_match(harmless), "the pattern takes {harmless} for a process");
    }
    let sources = sources();
    let outside = matches(&sources, &starts, |path| !may_start_processes(path));
    none("Only runtime/src/sandbox starts processes. Go through Boundary::launch, as a call:", &outside);
    let inside = matches(&sources, &starts, |path| path.starts_with("runtime/src/sandbox/"));
    assert!(inside.len() >= 3, "the boundary must start processes somewhere: {inside:?}");
}

#[test]
fn only_a_dispatched_call_launches_a_worker() {
    const LAUNCHERS: &[&str] = &["runtime/src/call/dispatch.rs", "runtime/src/session/actor.rs"];
    let launches = pattern(r"\.\s*launch\s*\(|\bBoundary\s*::\s*launch\b");
    assert!(launches.is_match("boundary.launch(spec)") && launches.is_match("x\n    .launch (y)"));
    let sources = sources();
    let found = matches(&sources, &launches, |path| !path.starts_with("runtime/src/sandbox/"));
    let outside: Vec<String> =
        found.iter().filter(|hit| !LAUNCHERS.iter().any(|file| hit.starts_with(file))).cloned().collect();
    none("Only the dispatch of a recorded call, and the session it opens, launch workers:", &outside);
    for file in LAUNCHERS {
        assert!(found.iter().any(|hit| hit.starts_with(file)), "{file} no longer launches anything: shorten the list");
    }
}

#[test]
fn no_product_code_leaves_out_a_rule_of_the_sandbox() {
    let leaves_out = pattern(r"(?:\.|::)\s*without\s*\(");
    assert!(leaves_out.is_match("Profile::standard().without(Rule::Seccomp)"));
    let sources = sources();
    let found = matches(&sources, &leaves_out, |_| true);
    none("A rule of the sandbox may be left out only by a test, as the control of that rule:", &found);
    let profile = sources.iter().find(|source| source.path == "runtime/src/sandbox/profile.rs").unwrap();
    assert!(
        profile.code.contains("fn without("),
        "the method that leaves a rule out has another name: update the check"
    );
}

#[test]
fn only_sys_holds_unsafe_and_says_why_each_time() {
    let unsafe_word = pattern(r"\bunsafe\b");
    // The probe attacks the boundary by raw calls, from inside a worker; nothing of it is in the product.
    let may = |path: &str| {
        path == "runtime/src/sys.rs"
            || path.starts_with("runtime/src/sys/")
            || path.starts_with("tests/programs/probe/")
    };
    let mut allowed = 0;
    let mut findings = Vec::new();
    for source in sources() {
        for hit in unsafe_word.find_iter(&source.code) {
            if !may(&source.path) {
                findings.push(format!("{}: unsafe outside runtime/src/sys.rs", source.at(hit.start())));
                continue;
            }
            allowed += 1;
            let line = source::line_of(&source.code, hit.start());
            let above = source.comments.lines().take(line).collect::<Vec<_>>();
            if !above.iter().rev().take(6).any(|comment| comment.contains("SAFETY:")) {
                findings.push(format!("{}: unsafe without `// SAFETY:`", source.at(hit.start())));
            }
        }
        if source.code.contains("allow(unsafe_code") && !may(&source.path) {
            findings.push(format!("{}: lifts the lint against unsafe code", source.path));
        }
    }
    none("unsafe is for the kernel interfaces in runtime/src/sys.rs, each with its reason:", &findings);
    assert!(allowed > 0, "no unsafe was found at all: the check looks in the wrong place");
    for file in ["ui/src/lib.rs", "runtime/protocol/src/lib.rs"] {
        let source = source::text(file).unwrap();
        assert!(source.contains("#![forbid(unsafe_code)]"), "{file} must forbid unsafe code");
    }
}

/// The names under `[dependencies]` of a manifest.
fn dependencies(manifest: &str) -> Vec<String> {
    let table: toml::Table = source::text(manifest).unwrap().parse().unwrap();
    let dependencies = table["dependencies"].as_table().unwrap();
    assert!(!dependencies.is_empty());
    dependencies.keys().cloned().collect()
}

#[test]
fn the_screens_can_reach_neither_the_runtime_nor_the_machine() {
    let reaches = pattern(concat!(
        r"\bstockade_runtime\b|\bstd\s*::\s*(?:fs|process|net)\b",
        r"|\bstd\s*::\s*\{[^;]*\b(?:fs|process|net)\b|\btokio\s*::",
    ));
    assert!(reaches.is_match("use std::{fmt, fs};") && reaches.is_match("std::process::exit(1)"));
    // The outer terminal is a descriptor that is already open; writing to it takes the type of a file and no path.
    let held = "std::fs";
    let opens = pattern(r"\bFile\s*::\s*(?:open|create|create_new|options)\b|\bOpenOptions\b|\bfs\s*::\s*[a-z]");
    let sources = sources();
    let mut found = matches(&sources, &reaches, |path| path.starts_with("ui/src/"));
    found.retain(|hit| !(hit.starts_with("ui/src/outer/") && hit.ends_with(held)));
    found.extend(matches(&sources, &opens, |path| path.starts_with("ui/src/")));
    none("The workbench draws events and sends commands. It opens no file, socket or process:", &found);
    let forbidden = ["stockade-runtime", "tokio", "cedar-policy", "nix", "rustix"];
    let named: Vec<String> =
        dependencies("ui/Cargo.toml").into_iter().filter(|name| forbidden.contains(&name.as_str())).collect();
    none("ui/Cargo.toml depends on what screens must not reach:", &named);
}

#[test]
fn the_runtime_knows_no_screen_and_reads_no_environment() {
    let screens = pattern(r"\b(?:ratatui|crossterm|clap|stockade_ui)\b");
    let environment = pattern(r"\benv\s*::\s*(?:var|vars|var_os|vars_os|set_var|remove_var|home_dir)\b");
    assert!(environment.is_match("std::env::var_os(name)") && !environment.is_match("env!(\"CARGO_PKG_VERSION\")"));
    let sources = sources();
    let mut found = matches(&sources, &screens, |path| path.starts_with("runtime/"));
    found.extend(matches(&sources, &environment, |path| path.starts_with("runtime/")));
    none("The runtime takes what it needs from its caller:", &found);
    let forbidden = ["ratatui", "crossterm", "clap", "stockade-ui", "alacritty_terminal"];
    for manifest in ["runtime/Cargo.toml", "runtime/protocol/Cargo.toml"] {
        let named: Vec<String> =
            dependencies(manifest).into_iter().filter(|name| forbidden.contains(&name.as_str())).collect();
        none(&format!("{manifest} depends on what only screens need:"), &named);
    }
    let protocol = dependencies("runtime/protocol/Cargo.toml");
    assert!(!protocol.iter().any(|name| name.starts_with("stockade")), "the vocabulary depends on nothing of ours");
}

#[test]
fn no_file_is_too_long_to_be_read() {
    const MOST: usize = 800;
    let sources = sources();
    let product: Vec<&Source> = sources.iter().filter(|source| is_product(source)).collect();
    assert!(product.len() > 40, "the product's files were not found");
    let long: Vec<String> = product
        .iter()
        .map(|source| (source.text.lines().count(), &source.path))
        .filter(|(lines, _)| *lines > MOST)
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect();
    none(&format!("A file longer than {MOST} lines has more than one subject: split it"), &long);
}

#[test]
fn comments_are_told_from_code_and_tests_from_the_product() {
    let text = concat!(
        "fn a<'x>(b: &'x str) -> char { '\\'' } // one: fork()\n",
        "/* two /* inner */ execve() */ let s = \"// not a comment\"; let c = '{';\n",
        "let r = r#\"raw \" fork() \"#; let word = bar;\n",
        "#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod inner { fn fork() { \"}\" } }\nfn after() {}\n",
    );
    let (code, comments) = source::split(text);
    assert_eq!((code.len(), comments.len()), (text.len(), text.len()));
    assert!(comments.contains("one: fork()") && comments.contains("inner */ execve() */"), "{comments}");
    assert!(!code.contains("execve") && !code.contains("not a comment") && code.contains("word = bar"), "{code}");
    let (product, modules) = source::without_tests(&code);
    assert_eq!(modules, ["tests"]);
    assert!(!product.contains("fork") && product.contains("fn after()"), "{product}");
    assert_eq!(source::line_of(text, text.find("after").unwrap()), 8);
}
