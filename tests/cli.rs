//! The real program on its command line, in a project of its own, with the real boundary.
//!
//! Goal: exit statuses and JSON are what scripts may rely on, nothing runs before it is trusted, an approver in another
//! terminal reaches what waits, and nothing a tool prints reaches a terminal raw.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::Yard;
use support::tui::Tui;

/// What a program printed and how it ended.
struct Ran {
    status: i32,
    out: String,
    err: String,
}

impl Ran {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {self}"))
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "status {}\n--- out\n{}\n--- err\n{}", self.status, self.out, self.err)
    }
}

fn ran(output: Output) -> Ran {
    Ran {
        status: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("output is text"),
        err: String::from_utf8(output.stderr).expect("diagnostics are text"),
    }
}

/// Runs `stockade` with these arguments to its end.
fn stockade(yard: &Yard, arguments: &[&str]) -> Ran {
    ran(yard.program().args(arguments).output().unwrap())
}

/// Runs it and expects a status.
fn expect(yard: &Yard, status: i32, arguments: &[&str]) -> Ran {
    let ran = stockade(yard, arguments);
    assert_eq!(ran.status, status, "{arguments:?}: {ran}");
    ran
}

fn start(yard: &Yard, arguments: &[&str]) -> Child {
    yard.program().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(child: Child) -> Ran {
    ran(child.wait_with_output().unwrap())
}

/// The calls that wait, once there are `count`.
fn waiting(yard: &Yard, count: usize) -> Vec<Value> {
    let until = Instant::now() + support::PATIENCE;
    loop {
        let listed = expect(yard, 0, &["approvals", "list", "--json"]).json();
        let listed = listed.as_array().unwrap().clone();
        if listed.len() >= count {
            return listed;
        }
        assert!(Instant::now() < until, "nothing came to wait");
    }
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_else(|| panic!("no {key} in {value}"))
}

fn records(yard: &Yard, kind: &str) -> usize {
    let shown = expect(yard, 0, &["journal", "show", "--json"]);
    let events = shown.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["type"] == kind).count()
}

fn trusted() -> Yard {
    let yard = Yard::new();
    yard.trust();
    yard
}

#[test]
fn nothing_runs_before_the_project_is_trusted_in_its_present_state() {
    let yard = Yard::new();
    let refused = expect(&yard, 3, &["call", "count"]);
    assert!(refused.err.contains("you have not trusted this project yet"), "{refused}");
    let command = refused.err.lines().find_map(|line| line.split("stockade trust ").nth(1)).unwrap().to_owned();
    assert!(!yard.places().journal(&yard.root()).exists(), "a runtime was started");
    let digest = command.split_whitespace().nth(1).unwrap();
    expect(&yard, 3, &["trust", "--digest", &"0".repeat(64)]);
    expect(&yard, 3, &["trust"]);
    expect(&yard, 3, &["call", "count"]);
    expect(&yard, 0, &["trust", "--digest", digest]);
    expect(&yard, 0, &["call", "count"]);
    yard.write("policies/more.cedar", "// another file\n");
    let refused = expect(&yard, 3, &["call", "count"]);
    assert!(refused.err.contains("changed since you trusted it"), "{refused}");
    let shown = expect(&yard, 3, &["trust"]);
    assert!(shown.out.contains("policies/more.cedar is new"), "{shown}");
    let other = expect(&yard, 3, &["trust", "--digest", digest]);
    assert!(other.err.contains("not in the state you named"), "{other}");
}

#[test]
fn a_call_goes_the_whole_way_and_its_status_says_how_it_ended() {
    let yard = Yard::new();
    yard.write(
        "tools/fail.clad.toml",
        "[tool]\nname = \"fail\"\nversion = \"1.0.0\"\ndescription = \"Fails\"\nbinary = \"ls\"\n[command]\nexec = \
         [\"ls\", \"/nowhere\"]\n",
    );
    yard.write("policies/no.cedar", "forbid (principal, action, resource == Tool::\"talk.say\");\n");
    yard.trust();
    let done = expect(&yard, 0, &["call", "count"]);
    assert_eq!(done.out, "6 data/in.txt\n");
    let result = expect(&yard, 0, &["call", "count", "--json"]).json();
    assert_eq!(result["output"], "6 data/in.txt\n");
    assert!(result.get("refusal").is_none());
    for (status, code, arguments) in [
        (1, "failed", &["call", "fail"][..]),
        (3, "invalid", &["call", "nosuch"]),
        (3, "invalid", &["call", "count", "--arg", "extra=1"]),
        (3, "invalid", &["call", "talk.say", "--arg", "command=not a command"]),
        (3, "denied", &["call", "talk.say", "--arg", "command=size"]),
    ] {
        let refused = expect(&yard, status, arguments);
        assert!(refused.err.contains(&format!("stockade: {code} by ")), "{refused}");
        let json = expect(&yard, status, &[arguments, &["--json"]].concat()).json();
        assert_eq!(json["refusal"]["code"], code, "{json}");
    }
    expect(&yard, 2, &["call"]);
    expect(&yard, 2, &["call", "count", "--arg", "a=1", "--arg", "a=2"]);
    let nowhere = tempfile::tempdir().unwrap();
    expect(&yard, 2, &["call", "count", "-C", nowhere.path().to_str().unwrap()]);
}

/// The types of all records so far.
fn kinds(yard: &Yard) -> Vec<String> {
    let shown = expect(yard, 0, &["journal", "show", "--json"]);
    let events = shown.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.map(|event| text(&event, "type").to_owned()).collect()
}

#[test]
fn a_check_runs_nothing_and_leaves_no_record() {
    let yard = trusted();
    yard.write("policies/no.cedar", "forbid (principal, action, resource == Tool::\"talk.hang\");\n");
    yard.trust();
    let save = ["call", "talk.save", "--arg", "command=save"];
    // Checked by the runtime that the command itself starts: its beginning and its end are on record, as of any other.
    expect(&yard, 0, &[&save[..], &["--check"]].concat());
    let own = kinds(&yard);
    let of_runtime = ["journal.", "runtime."];
    assert!(own.iter().all(|kind| of_runtime.iter().any(|whose| kind.starts_with(whose))), "{own:?}");
    // Checked by one that is there already, while a call waits in it: not one more record.
    let asking = start(&yard, &["call", "talk.ask", "--arg", "command=risky thing", "--json"]);
    let call = text(&waiting(&yard, 1)[0], "call").to_owned();
    let before = kinds(&yard);
    expect(&yard, 0, &[&save[..], &["--check", "--invocation-id", "once", "--reason", "to see"]].concat());
    expect(&yard, 3, &["call", "talk.hang", "--arg", "command=hang", "--check"]);
    expect(&yard, 3, &["call", "talk.save", "--arg", "command=drop", "--check"]);
    expect(&yard, 3, &["call", "nosuch", "--check"]);
    assert_eq!(kinds(&yard), before);
    assert_eq!(waiting(&yard, 1).len(), 1, "nobody is asked either");
    assert_eq!(expect(&yard, 0, &["sessions", "list", "--json"]).out.trim(), "[]");
    assert!(!yard.root().join("out/result.txt").exists());
    expect(&yard, 0, &["approvals", "deny", &call]);
    assert_eq!(ended(asking).status, 4);
    // Nor is the id used up.
    expect(&yard, 0, &["call", "count", "--invocation-id", "once"]);
    assert_eq!(records(&yard, "call.dispatched"), 1);
}

#[test]
fn a_policy_engine_without_a_verdict_refuses_and_is_nobodys_decision() {
    let yard = Yard::new();
    yard.write("tools/risky.clad.toml", &support::COUNT.replace("\"count\"", "\"risky\"\nrisk_tier = \"high\""));
    // Overflows above the lowest risk tiers, which is found out only when it is evaluated.
    let failing = "permit (principal, action, resource) when { context.risk_level + 9223372036854775806 > 0 };\n";
    yard.write("policies/fails.cedar", failing);
    yard.trust();
    expect(&yard, 0, &["call", "count"]);
    // It demands a person, and none is asked: another policy permits it, and still the failure denies.
    let refused = expect(&yard, 3, &["call", "risky"]);
    let words = ["denied by policy", "the policy engine gave no verdict", "fails.cedar:1 could not be evaluated"];
    assert!(words.iter().all(|word| refused.err.contains(word)), "{refused}");
    let refusal = &expect(&yard, 3, &["call", "risky", "--json"]).json()["refusal"];
    assert_eq!((text(refusal, "authority"), text(refusal, "rule")), ("policy", "fails.cedar:1"), "{refusal}");
    assert_eq!((records(&yard, "call.dispatched"), records(&yard, "call.finished")), (1, 3));
    let decisions = ["approval.asked", "approval.decided", "approval.expired"].map(|kind| records(&yard, kind));
    assert_eq!(decisions, [0; 3]);
    let shown = expect(&yard, 0, &["journal", "show", "--json"]).out;
    let finished = shown.lines().filter(|line| line.contains("call.finished") && line.contains("gave no verdict"));
    assert_eq!(finished.count(), 2, "{shown}");
}

#[test]
fn what_fails_of_stockades_own_has_a_status_of_its_own_and_runs_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let yard = trusted();
    expect(&yard, 0, &["call", "count"]);
    let dispatched = records(&yard, "call.dispatched");
    let places = yard.places();
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let journal = places.journal(&yard.root());
    for (path, open, words) in [
        (places.approver_key(), 0o644, "your approver's key cannot be used"),
        (journal, 0o755, "the journal cannot be used"),
        (places.journal_key(&yard.root()), 0o644, "the journal cannot be used"),
        (places.runtime.clone(), 0o755, "others can reach it"),
    ] {
        let before = fs::metadata(&path).unwrap().permissions().mode();
        set(&path, open);
        let failed = expect(&yard, 7, &["call", "count"]);
        assert!(failed.err.contains(words), "{}: {failed}", path.display());
        set(&path, before);
        expect(&yard, 0, &["call", "count", "--check"]);
    }
    set(&places.state, 0o755);
    let doctor = expect(&yard, 7, &["doctor"]);
    assert!(doctor.out.contains("others can reach it"), "{doctor}");
    set(&places.state, 0o700);
    // Something that is no runtime answers in its place.
    let socket = std::os::unix::net::UnixListener::bind(places.control_socket(&yard.root())).unwrap();
    let answering = std::thread::spawn(move || {
        let (mut peer, _) = socket.accept().unwrap();
        std::io::Write::write_all(&mut peer, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let failed = expect(&yard, 7, &["call", "count"]);
    assert!(failed.err.contains("cannot be asked"), "{failed}");
    answering.join().unwrap();
    fs::remove_file(places.control_socket(&yard.root())).unwrap();
    expect(&yard, 0, &["doctor"]);
    assert_eq!(records(&yard, "call.dispatched"), dispatched, "nothing ran");
}

#[test]
fn a_check_judges_and_runs_nothing() {
    let yard = trusted();
    let checked = expect(&yard, 0, &["call", "talk.save", "--arg", "command=save", "--check", "--json"]).json();
    assert_eq!((&checked["permitted"], &checked["needs_person"]), (&Value::Bool(true), &Value::Bool(true)));
    assert_eq!(checked["contract"]["tool"], "talk.save");
    assert_eq!(text(&checked, "digest").len(), 64);
    assert_eq!(checked["policies"][0], "all.cedar:1");
    expect(&yard, 3, &["call", "talk.save", "--arg", "command=drop", "--check"]);
    assert_eq!((records(&yard, "call.dispatched"), records(&yard, "approval.asked")), (0, 0));
}

#[test]
fn the_same_invocation_id_never_runs_twice() {
    let yard = trusted();
    let first = expect(&yard, 0, &["call", "count", "--invocation-id", "once", "--json"]).json();
    let again = expect(&yard, 0, &["call", "count", "--invocation-id", "once", "--json"]).json();
    assert_eq!(first, again);
    assert_eq!(records(&yard, "call.dispatched"), 1);
    let other = expect(&yard, 0, &["call", "count", "--invocation-id", "twice", "--json"]).json();
    assert_ne!(first["call"], other["call"]);
    let misused = &["call", "talk.say", "--arg", "command=size", "--invocation-id", "once"];
    expect(&yard, 3, misused);
}

#[test]
fn an_approver_in_another_terminal_approves_exactly_what_was_shown() {
    let yard = trusted();
    let asking = start(&yard, &["call", "talk.ask", "--arg", "command=risky thing", "--reason", "because", "--json"]);
    let listed = waiting(&yard, 1);
    let (call, contract) = (text(&listed[0], "call").to_owned(), text(&listed[0], "contract").to_owned());
    let shown = expect(&yard, 0, &["approvals", "show", &call]);
    assert!(shown.out.contains("risky thing") && shown.out.contains(&contract), "{shown}");
    assert!(shown.out.contains("because"), "{shown}");
    let unasked = expect(&yard, 2, &["approvals", "approve", &call]);
    assert!(unasked.err.contains("--digest"), "{unasked}");
    expect(&yard, 3, &["approvals", "approve", &call, "--digest", &"0".repeat(64)]);
    expect(&yard, 3, &["approvals", "approve", "cffffffff", "--digest", &contract]);
    assert_eq!(waiting(&yard, 1).len(), 1, "something was decided");
    expect(&yard, 0, &["approvals", "approve", &call[..10], "--digest", &contract]);
    let done = ended(asking);
    assert_eq!(done.status, 0, "{done}");
    assert!(text(&done.json(), "output").contains("did thing"));
    expect(&yard, 3, &["approvals", "approve", &call, "--digest", &contract]);
    assert_eq!(records(&yard, "approval.decided"), 1);
}

/// Runs `stockade` on a terminal, where it may ask.
fn on_terminal(yard: &Yard, arguments: &[&str]) -> Tui {
    let root = yard.root();
    let arguments: Vec<&str> = arguments.iter().copied().chain(["-C", root.to_str().unwrap()]).collect();
    let environment = yard.environment();
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Tui::start(&arguments, &environment, 120, 40)
}

#[test]
fn on_a_terminal_the_whole_call_is_shown_and_only_the_word_approves_it() {
    let yard = trusted();
    let asking = start(&yard, &["call", "talk.ask", "--arg", "command=risky thing", "--json"]);
    let waits = waiting(&yard, 1);
    let (call, card) = (text(&waits[0], "call"), text(&waits[0], "text"));
    for (answer, status) in [("\r", 4), ("y\r", 4), ("approve\r", 0)] {
        let mut terminal = on_terminal(&yard, &["approvals", "approve", call]);
        terminal.sees("Type approve:");
        // Rows end where words do on this wide a screen, so every line of the card is one.
        for line in card.lines() {
            let shown: String = line.chars().take(100).collect();
            assert!(terminal.text().contains(shown.trim_end()), "{line} is not on\n{}", terminal.text());
        }
        terminal.keys(answer);
        assert_eq!(terminal.end().status.code(), Some(status), "{answer:?}");
        assert_eq!(records(&yard, "approval.decided"), usize::from(status == 0), "{answer:?}");
    }
    assert_eq!(ended(asking).status, 0);
}

#[test]
fn what_a_caller_says_never_begins_a_row_however_it_is_wrapped() {
    let yard = trusted();
    let forged = "contract[0]: 0000";
    let padded = |columns: usize| format!("{}{forged}", "x".repeat(columns - "┆ the caller says[0]: ".chars().count()));
    let reason = [padded(120), padded(80)].join(" ");
    let asking = start(&yard, &["call", "talk.ask", "--arg", "command=risky thing", "--reason", &reason, "--json"]);
    let call = text(&waiting(&yard, 1)[0], "call").to_owned();
    let mut terminal = on_terminal(&yard, &["approvals", "show", &call]);
    terminal.sees("s left");
    let piped = expect(&yard, 0, &["approvals", "show", &call]).out;
    for shown in [terminal.text(), piped] {
        assert!(shown.contains("0000"), "{shown}");
        assert!(shown.lines().all(|row| !row.trim_start().starts_with(forged)), "{shown}");
    }
    expect(&yard, 0, &["approvals", "deny", &call]);
    assert_eq!(ended(asking).status, 4);
}

#[test]
fn on_a_terminal_trust_is_asked_for_once() {
    let yard = Yard::new();
    let mut terminal = on_terminal(&yard, &["call", "count"]);
    terminal.sees("Type yes:");
    assert!(terminal.text().contains("policies/all.cedar"), "{}", terminal.text());
    terminal.keys("\r");
    assert_eq!(terminal.end().status.code(), Some(3));
    let mut terminal = on_terminal(&yard, &["call", "count"]);
    terminal.sees("Type yes:");
    terminal.keys("yes\r");
    let done = terminal.end();
    assert_eq!(done.status.code(), Some(0), "{}", done.text);
    expect(&yard, 0, &["call", "count"]);
}

#[test]
fn a_refusal_reaches_the_caller_with_its_reason_and_silence_is_nobodys_refusal() {
    let yard = Yard::new();
    yard.configure(600, 60);
    yard.trust();
    let ask = ["call", "talk.ask", "--arg", "command=risky thing"];
    let asking = start(&yard, &ask);
    let call = text(&waiting(&yard, 1)[0], "call").to_owned();
    expect(&yard, 0, &["approvals", "deny", &call, "--reason", "use the other one"]);
    let refused = ended(asking);
    assert_eq!(refused.status, 4, "{refused}");
    assert!(refused.err.contains("rejected by person") && refused.err.contains("use the other one"), "{refused}");
    yard.configure(1, 60);
    yard.trust();
    let expired = expect(&yard, 4, &ask);
    assert!(expired.err.contains("expired by clock"), "{expired}");
    assert_eq!((records(&yard, "approval.decided"), records(&yard, "approval.expired")), (1, 1));
}

#[test]
fn an_interrupted_call_is_cancelled_and_says_so() {
    let yard = trusted();
    let asking = start(&yard, &["call", "talk.ask", "--arg", "command=risky thing"]);
    waiting(&yard, 1);
    kill(Pid::from_raw(i32::try_from(asking.id()).unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(ended(asking).status, 130);
    let runs = expect(&yard, 0, &["runs", "list", "--json"]).json();
    assert_eq!(runs[0]["outcome"], "cancelled", "{runs}");
    assert_eq!((records(&yard, "call.dispatched"), records(&yard, "runtime.stopped")), (0, 1));
    expect(&yard, 0, &["journal", "verify"]);
}

/// Escapes a terminal would act on. Tab and line ends are not among them.
fn has_controls(text: &str) -> bool {
    text.chars().any(|c| c != '\n' && stockade_protocol::text::is_hidden(c))
}

#[test]
fn nothing_a_tool_prints_reaches_a_terminal_raw() {
    let yard = Yard::new();
    yard.write("data/in.txt", "\u{1b}]0;title\u{7}\u{1b}[2J\u{202e}evil\u{9b}31m\n");
    let cat = "[tool]\nname = \"cat\"\nversion = \"1.0.0\"\ndescription = \"\u{202e}Prints\"\nbinary = \
               \"cat\"\n[command]\nexec = [\"cat\", \"data/in.txt\"]\n[filesystem]\nread = [\"data/in.txt\"]\n";
    yard.write("tools/cat.clad.toml", cat);
    yard.trust();
    let shown = expect(&yard, 0, &["call", "cat"]);
    assert!(shown.out.contains("\\u{001B}]0;title\\u{0007}") && shown.out.contains("\\u{202E}evil"), "{shown}");
    for arguments in [
        &["call", "cat"][..],
        &["call", "cat", "--json"],
        &["tools", "list"],
        &["tools", "list", "--json"],
        &["journal", "show"],
        &["journal", "show", "--json"],
        &["journal", "tail"],
        &["runs", "list"],
        &["runs", "list", "--json"],
    ] {
        let ran = expect(&yard, 0, arguments);
        assert!(!has_controls(&ran.out) && !has_controls(&ran.err), "{arguments:?}: {ran}");
    }
    let refused = expect(&yard, 3, &["call", "no\u{1b}[2Jsuch"]);
    assert!(!has_controls(&refused.err), "{refused}");
    let raw = expect(&yard, 0, &["call", "cat", "--raw"]);
    assert!(raw.out.contains('\u{1b}'), "--raw into a pipe is the tool's own bytes");
}

#[test]
fn a_journal_that_was_changed_does_not_verify() {
    let yard = trusted();
    expect(&yard, 0, &["call", "count"]);
    let intact = expect(&yard, 0, &["journal", "verify", "--json"]).json();
    assert_eq!(intact["status"], "unanchored", "{intact}");
    let journal = yard.places().journal(&yard.root());
    let segment = largest_file(&journal);
    let mut bytes = fs::read(&segment).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let tampered = expect(&yard, 6, &["journal", "verify", journal.to_str().unwrap(), "--json"]).json();
    assert_eq!(tampered["status"], "tampered", "{tampered}");
    expect(&yard, 6, &["journal", "verify"]);
    let refused = expect(&yard, 6, &["call", "count"]);
    assert!(refused.err.contains("does not verify"), "{refused}");
    let nowhere = tempfile::tempdir().unwrap();
    expect(&yard, 6, &["journal", "verify", nowhere.path().to_str().unwrap()]);
}

fn largest_file(folder: &Path) -> std::path::PathBuf {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    files.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap()
}

#[test]
fn faults_of_the_project_stop_the_start_and_are_all_told() {
    let yard = trusted();
    yard.write("stockade.toml", "[sandbox]\ntier = \"docker\"\nnetwork_mode = \"host\"\n");
    let refused = expect(&yard, 3, &["call", "count"]);
    assert!(refused.err.contains("stockade.toml:2:8:") && refused.err.contains("stockade.toml:3:16:"), "{refused}");
    yard.configure(20, 60);
    yard.write("tools/bad.clad.toml", "[tool]\nname = 1\nversion = \"1\"\n");
    let checked = expect(&yard, 3, &["tools", "check"]);
    assert!(checked.out.contains("tools/bad.clad.toml:2:8"), "{checked}");
    assert!(!expect(&yard, 3, &["tools", "check", "--json"]).json()["faults"].as_array().unwrap().is_empty());
    fs::remove_file(yard.root().join("tools/bad.clad.toml")).unwrap();
    expect(&yard, 0, &["tools", "check"]);
    let schema = expect(&yard, 0, &["tools", "schema", "talk.say"]).json();
    assert_eq!(schema["properties"]["command"]["type"], "string", "{schema}");
    expect(&yard, 3, &["tools", "schema", "nosuch"]);
}

#[test]
fn a_starter_project_works_and_nothing_is_ever_overwritten() {
    let yard = Yard::bare();
    let folder = yard.root().join("new");
    let folder = folder.to_str().unwrap();
    expect(&yard, 0, &["init", folder]);
    let counted = expect(&yard, 0, &["call", "words", "--arg", "file=notes.txt", "-C", folder]);
    assert!(counted.out.contains("notes.txt"), "{counted}");
    expect(&yard, 2, &["init", folder]);
    let run = expect(&yard, 0, &["run", "count", "--headless", "-C", folder]);
    assert!(run.out.contains("call words: done"), "{run}");
    expect(&yard, 2, &["run", "count", "--headless", "--agent", "nosuch", "-C", folder]);
    // A folder whose tools came from elsewhere is not trusted for having been made a project here.
    let other = yard.root().join("cloned");
    fs::create_dir_all(other.join("tools")).unwrap();
    fs::write(other.join("tools/extra.clad.toml"), "").unwrap();
    let other = other.to_str().unwrap();
    expect(&yard, 0, &["init", other]);
    let refused = expect(&yard, 3, &["call", "words", "--arg", "file=notes.txt", "-C", other]);
    assert!(refused.err.contains("not trusted"), "{refused}");
}

#[test]
fn the_demo_does_the_whole_job_and_prints_one_object() {
    let yard = Yard::bare();
    let folder = yard.root().join("demo");
    let shown = expect(&yard, 0, &["demo", folder.to_str().unwrap(), "--headless", "--json", "--approve-all"]);
    let demo = shown.json();
    let outcomes: Vec<_> = demo["calls"].as_array().unwrap().iter().map(|call| text(call, "outcome")).collect();
    assert_eq!(outcomes, ["done"; 4], "{demo}");
    assert!(demo["calls"].as_array().unwrap().iter().all(|call| text(call, "contract_digest").len() == 64));
    let file = &demo["created_files"][0];
    let bytes = fs::read(text(file, "host_path")).unwrap();
    assert_eq!(file["bytes"].as_u64(), Some(bytes.len() as u64));
    assert_eq!(text(file, "sha256"), stockade_protocol::digest::Digest::of(&bytes).to_string());
    assert_eq!(demo["verified"], true);
    expect(&yard, 0, &["journal", "verify", text(&demo, "journal")]);
    // The approver that signs everything is the demo's own: its key is in no file, and real receipts were signed.
    let folder = folder.to_str().unwrap();
    let journal = expect(&yard, 0, &["journal", "show", "--json", "-C", folder]).out;
    assert!(journal.contains("\"approver\":\"demo-auto\""), "{journal}");
    expect(&yard, 2, &["demo", folder, "--headless"]);
}

#[test]
fn a_demo_in_which_a_call_fails_is_not_done() {
    let yard = Yard::bare();
    let demo = start(&yard, &["demo", "demo", "--headless", "--json"]);
    let folder = yard.root().join("demo");
    let asked = || {
        let listed = ran(yard.program().args(["approvals", "list", "-C"]).arg(&folder).output().unwrap());
        listed.out.contains("report.save")
    };
    let until = Instant::now() + support::PATIENCE;
    while !asked() {
        assert!(Instant::now() < until, "the demo never asked");
    }
    // What the contract was frozen with changes: the approval comes too late.
    fs::write(folder.join("data/orders.csv"), "changed").unwrap();
    let program = &mut yard.program();
    let listed = ran(program.args(["approvals", "list", "--json", "-C"]).arg(&folder).output().unwrap()).json();
    let (call, contract) = (text(&listed[0], "call"), text(&listed[0], "contract"));
    expect(&yard, 0, &["approvals", "approve", call, "--digest", contract, "-C", folder.to_str().unwrap()]);
    let done = ended(demo);
    assert_eq!(done.status, 3, "{done}");
    assert_eq!(done.json()["calls"][3]["outcome"], "stale", "{done}");
    assert!(done.json()["created_files"].as_array().unwrap().is_empty());
}

#[test]
fn the_demo_waits_for_an_answer_and_gives_up_as_expired() {
    let yard = Yard::bare();
    let expired = expect(&yard, 4, &["demo", "first", "--headless", "--json", "--wait", "1"]).json();
    assert_eq!(expired["calls"][3]["outcome"], "expired", "{expired}");
    assert_eq!((&expired["verified"], expired["created_files"].as_array().unwrap().len()), (&Value::Bool(true), 0));
    let demo = start(&yard, &["demo", "second", "--headless", "--json"]);
    let folder = yard.root().join("second");
    let in_demo = || -> Vec<Value> {
        let program: &mut Command = &mut yard.program();
        let listed = ran(program.args(["approvals", "list", "--json", "-C"]).arg(&folder).output().unwrap());
        if listed.status == 0 { listed.json().as_array().unwrap().clone() } else { Vec::new() }
    };
    let until = Instant::now() + support::PATIENCE;
    let listed = loop {
        let listed = in_demo();
        if !listed.is_empty() {
            break listed;
        }
        assert!(Instant::now() < until, "the demo never asked");
        std::thread::sleep(Duration::from_millis(50));
    };
    let folder = folder.to_str().unwrap();
    let (call, contract) = (text(&listed[0], "call"), text(&listed[0], "contract"));
    expect(&yard, 0, &["approvals", "approve", call, "--digest", contract, "-C", folder]);
    let done = ended(demo);
    assert_eq!(done.status, 0, "{done}");
    assert_eq!(done.json()["calls"][3]["outcome"], "done");
}

#[test]
fn sessions_are_listed_and_closed_from_outside() {
    let yard = trusted();
    assert_eq!(expect(&yard, 0, &["sessions", "list", "--json"]).out.trim(), "[]");
    expect(&yard, 3, &["sessions", "close", "s1"]);
    let asking = start(&yard, &["call", "talk.hang", "--arg", "command=hang", "--json"]);
    let until = Instant::now() + support::PATIENCE;
    let session = loop {
        let listed = expect(&yard, 0, &["sessions", "list", "--json"]).json();
        if let Some(session) = listed.as_array().unwrap().first() {
            break text(session, "session").to_owned();
        }
        assert!(Instant::now() < until, "no session came up");
    };
    expect(&yard, 0, &["sessions", "close", &session]);
    let closed = ended(asking);
    assert_eq!(closed.status, 1, "{closed}");
    assert_eq!(closed.json()["removal"], "confirmed", "{closed}");
    expect(&yard, 0, &["doctor"]);
    assert!(expect(&yard, 0, &["completions", "bash"]).out.contains("stockade"));
}

#[test]
fn no_word_from_outside_adds_a_line_of_its_own() {
    let yard = Yard::new();
    let says = "fine\\npublished /etc/passwd (1 bytes)\\r\\ncall talk.say: done";
    yard.write("agents/helper.toml", &format!("provider = \"scripted\"\n\n[[turn]]\nsay = \"{says}\"\n"));
    yard.write("tools/notes\nYou trust it in this state.", "");
    let forged = |said: &str, line: &str| said.lines().any(|shown| shown.starts_with(line));
    let shown = expect(&yard, 3, &["trust"]);
    assert!(shown.out.contains("notes⏎You trust it in this state."), "{shown}");
    assert!(!forged(&shown.out, "You trust"), "{shown}");
    yard.trust();
    let ran = expect(&yard, 0, &["run", "look\nrun_0000 forged", "--agent", "helper", "--headless"]);
    assert!(ran.out.contains("agent: published /etc/passwd"), "{ran}");
    for line in ["published", "call ", "run_0000"] {
        assert!(!forged(&ran.out, line), "{line}: {ran}");
    }
    let listed = expect(&yard, 0, &["runs", "list"]);
    assert!(listed.out.contains("look⏎run_0000 forged") && !forged(&listed.out, "run_0000"), "{listed}");
    let shown = expect(&yard, 0, &["journal", "show"]);
    assert!(!forged(&shown.out, "run_0000") && !forged(&shown.out, "published"), "{shown}");
}
