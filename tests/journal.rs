//! The journal's own commands, with the real program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use serde_json::Value;
use std::fs;
use support::Yard;

/// Status, output and diagnostics of `stockade` with these arguments.
fn ran(yard: &Yard, arguments: &[&str]) -> (i32, String, String) {
    let output = yard.program().args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn json(yard: &Yard, arguments: &[&str]) -> Value {
    let (status, out, err) = ran(yard, arguments);
    assert_eq!(status, 0, "{arguments:?}: {out}{err}");
    serde_json::from_str(&out).unwrap()
}

/// A trusted project in which something was recorded.
fn used() -> Yard {
    let yard = Yard::new();
    yard.trust();
    assert_eq!(ran(&yard, &["call", "talk.say", "--arg", "command=where"]).0, 0);
    yard
}

#[test]
fn another_key_is_made_recorded_and_verified_and_work_goes_on() {
    let yard = used();
    let key = yard.places().journal_key(&yard.root());
    let journal = yard.places().journal(&yard.root());
    let before = (json(&yard, &["journal", "verify", "--json"]), fs::read(&key).unwrap());
    let (trusted, records) = (fs::read(journal.join("journal.pub")).unwrap(), before.0["records"].as_u64().unwrap());

    let first = json(&yard, &["journal", "rotate-key", "--json"]);
    assert_eq!((first["record"].as_u64(), &first["old"]), (Some(records), &before.0["key"]));
    assert_ne!(first["new"], first["old"]);
    assert_ne!(fs::read(&key).unwrap(), before.1);

    let (status, said, _) = ran(&yard, &["journal", "rotate-key"]);
    assert_eq!(status, 0);
    let second = said.split("new key ").nth(1).unwrap().lines().next().unwrap().to_owned();
    assert!(said.contains(&format!("old key {}", first["new"].as_str().unwrap())), "{said}");

    assert_eq!(ran(&yard, &["call", "talk.say", "--arg", "command=where"]).0, 0);
    let report = json(&yard, &["journal", "verify", "--json"]);
    assert_eq!((&report["status"], &report["key"]), (&"unanchored".into(), &before.0["key"]));
    assert_eq!(report["later_keys"][0]["key"], first["new"]);
    assert_eq!(report["later_keys"][1]["key"], second.as_str());
    assert!(report["records"].as_u64().unwrap() > records + 4);
    assert_eq!(fs::read(journal.join("journal.pub")).unwrap(), trusted);

    let (_, said, _) = ran(&yard, &["journal", "verify"]);
    assert!(said.contains(&format!("from record {records} on key {}", first["new"].as_str().unwrap())), "{said}");
    let (_, shown, _) = ran(&yard, &["journal", "show"]);
    let line = shown.lines().find(|line| line.contains(&second)).unwrap();
    assert!(line.contains("journal.key_rotated") && line.contains("signed by it and by the old key"), "{line}");
}

#[tokio::test]
async fn another_key_is_made_only_while_nobody_has_the_project_open() {
    let yard = used();
    let key = fs::read(yard.places().journal_key(&yard.root())).unwrap();
    let runtime = yard.start().await;
    let (status, out, err) = ran(&yard, &["journal", "rotate-key"]);
    assert_eq!((status, out.as_str()), (3, ""), "{err}");
    assert!(err.contains("not changed") && err.contains("open") && err.contains("next:"), "{err}");
    assert_eq!(fs::read(yard.places().journal_key(&yard.root())).unwrap(), key);
    runtime.stop().await.unwrap();
    drop(runtime);
    assert_eq!(ran(&yard, &["journal", "rotate-key"]).0, 0);
    // The runtime goes on with it.
    let runtime = yard.start().await;
    runtime.stop().await.unwrap();
    support::verified(&yard.places().journal(&yard.root()));
}

#[test]
fn where_there_is_no_journal_yet_that_is_said_and_json_stays_json() {
    let yard = Yard::new();
    for arguments in [&["journal", "show"][..], &["journal", "tail"], &["runs", "list"]] {
        let (status, out, err) = ran(&yard, arguments);
        assert_eq!((status, err.as_str()), (0, ""), "{arguments:?}");
        assert!(out.starts_with("No ") && out.contains(" yet. `stockade run`"), "{arguments:?}: {out}");
    }
    // Records are one line of JSON each: none. A list is an array: an empty one.
    for (arguments, expected) in
        [(["journal", "show", "--json"], ""), (["journal", "tail", "--json"], ""), (["runs", "list", "--json"], "[]\n")]
    {
        assert_eq!(ran(&yard, &arguments), (0, expected.to_owned(), String::new()), "{arguments:?}");
    }
    let (status, out, _) = ran(&yard, &["journal", "verify", "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &report["status"]), (6, &"unreadable".into()));
    assert_eq!(report["faults"][0]["what"], "there is no journal here");
}
