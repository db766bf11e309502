//! What the real program says when something is in the way: what happened, why, and what to do next, in words.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use support::Yard;

/// A project that the person trusts and in which nothing was done yet.
fn trusted() -> Yard {
    let yard = Yard::new();
    yard.trust();
    yard
}

/// Runs to the end and checks that it failed with this status and said so in three parts. Returns what it said.
fn told(mut program: Command, status: i32, arguments: &[&str]) -> String {
    let output = program.args(arguments).output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!((output.status.code(), out.as_str()), (Some(status), ""), "{arguments:?}: {err}");
    let lines: Vec<&str> = err.lines().collect();
    assert!(lines[0].starts_with("stockade: "), "{arguments:?}: {err}");
    assert!(lines.iter().any(|line| line.starts_with("  why:  ")), "{arguments:?}: {err}");
    assert!(lines.last().unwrap().starts_with("  next: "), "{arguments:?}: {err}");
    let symbol =
        |word: &str| word.len() > 3 && word.starts_with('E') && word.bytes().all(|byte| byte.is_ascii_uppercase());
    let numbered = err.contains("os error") || err.split(|c: char| !c.is_ascii_alphanumeric()).any(symbol);
    assert!(!numbered, "{arguments:?}: {err}");
    err
}

#[test]
fn what_is_not_there_is_said_with_what_to_do_next() {
    let yard = trusted();
    for arguments in [
        &["replay"][..],
        &["replay", "r0"],
        &["runs", "show", "r0"],
        &["journal", "rotate-key"],
        &["journal", "tail", "--follow"],
        &["approvals", "show", "c0"],
        &["approvals", "approve", "c0"],
        &["approvals", "deny", "c0"],
        &["sessions", "close", "s0"],
        &["tools", "schema", "none"],
    ] {
        told(yard.program(), 3, arguments);
    }
    assert!(!yard.places().journal(&yard.root()).exists(), "reading makes nothing");
    let root = yard.root();
    let root = root.to_str().unwrap();
    for arguments in [
        &["nowhere"][..],
        &["journal", "show", "/nowhere"],
        &["journal", "tail", root],
        &["replay", "--journal", "/nowhere"],
        &["runs", "list", "-C", "/nowhere"],
        &["tools", "list", "-C", "/dev/null"],
        &["trust", "/nowhere"],
        &["run", "x", "--agent", "none", "--headless"],
        &["call", "talk.say", "--arg", "command=a", "--arg", "command=b"],
    ] {
        told(yard.program(), 2, arguments);
    }
}

#[test]
fn a_folder_that_cannot_be_made_or_written_is_said_without_the_systems_numbers() {
    let yard = trusted();
    let there = told(yard.program(), 2, &["demo", yard.root().to_str().unwrap(), "--headless"]);
    assert!(there.contains("it is there already"), "{there}");
    for arguments in
        [&["demo", "/nowhere/at/all", "--headless"][..], &["demo", "/dev/null/x", "--headless"], &["init", "/dev/null"]]
    {
        told(yard.program(), 2, arguments);
    }
}

#[test]
fn places_that_cannot_be_used_are_named_by_every_command_that_needs_them() {
    let yard = trusted();
    let call = ["call", "talk.say", "--arg", "command=where"];
    let with = |name: &str, value: &str| {
        let mut program = yard.program();
        program.env(name, value);
        program
    };
    for arguments in [
        &call[..],
        &["runs", "list"],
        &["journal", "show"],
        &["journal", "tail"],
        &["journal", "rotate-key"],
        &["replay"],
        &["sessions", "list"],
        &["approvals", "list"],
    ] {
        let said = told(with("XDG_STATE_HOME", "/dev/null"), 7, arguments);
        assert!(said.contains("/dev/null"), "{said}");
    }
    for arguments in [&call[..], &["trust", yard.root().to_str().unwrap()]] {
        let said = told(with("XDG_CONFIG_HOME", "/dev/null"), 3, arguments);
        assert!(said.contains("/dev/null") && said.contains("XDG_CONFIG_HOME"), "{said}");
    }
    let open = tempfile::tempdir().unwrap();
    fs::create_dir(open.path().join("stockade")).unwrap();
    fs::set_permissions(open.path().join("stockade"), fs::Permissions::from_mode(0o777)).unwrap();
    let said = told(with("XDG_STATE_HOME", open.path().to_str().unwrap()), 7, &call);
    assert!(said.contains("chmod"), "{said}");
}

#[test]
fn files_that_cannot_be_used_are_named_with_what_to_do_about_them() {
    let call = ["call", "talk.say", "--arg", "command=where"];
    let yard = trusted();
    let key = yard.places().approver_key();
    fs::create_dir_all(key.parent().unwrap()).unwrap();
    write_private(&key, "no key\n");
    let said = told(yard.program(), 7, &call);
    assert!(said.contains("approver.key") && said.contains("remove it"), "{said}");
    fs::remove_file(&key).unwrap();

    let output = yard.program().args(call).output().unwrap();
    assert!(output.status.success());
    let journal_key = yard.places().journal_key(&yard.root());
    let kept = fs::read_to_string(&journal_key).unwrap();
    for (text, said_of_it) in [("no key\n".to_owned(), "64 hex digits"), (format!("{}\n", "07".repeat(32)), "restore")]
    {
        write_private(&journal_key, &text);
        for arguments in [&call[..], &["journal", "rotate-key"]] {
            let said = told(yard.program(), 7, arguments);
            assert!(said.contains(said_of_it), "{said}");
        }
    }
    write_private(&journal_key, &kept);

    let configuration = yard.root().join("stockade.toml");
    fs::remove_file(&configuration).unwrap();
    std::os::unix::fs::symlink("/nowhere", &configuration).unwrap();
    let said = told(yard.program(), 3, &call);
    assert!(said.contains("stockade.toml"), "{said}");
    fs::remove_file(&configuration).unwrap();
    fs::create_dir(&configuration).unwrap();
    told(yard.program(), 3, &call);
}

fn write_private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}
