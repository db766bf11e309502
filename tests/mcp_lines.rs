//! `stockade mcp` under clients that send lines of their own, and under the official one without a handshake.
//!
//! Goal: two starts at once give one runtime; clients cannot reach each other; a call that is cancelled, abandoned, or
//! whose runtime was killed never runs. What a person sees of a client's calls is shown by `tests/mcp.rs`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use support::Yard;

/// The official client and what it stands on, as `./tests/run --setup` installs them.
fn python() -> PathBuf {
    let installed = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/tools/python/bin/python");
    let python = std::env::var_os("STOCKADE_TEST_PYTHON").map_or(installed, PathBuf::from);
    assert!(python.exists(), "{} is not there: run ./tests/run --setup", python.display());
    python
}

/// What the official client prints: the list of tools, then each call's result.
fn official(yard: &Yard, calls: &[Value]) -> Vec<Value> {
    let mut command = Command::new(python());
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/mcp_stateless.py"));
    command.arg(env!("CARGO_BIN_EXE_stockade")).arg(yard.root()).args(calls.iter().map(ToString::to_string));
    let output = command.env_clear().envs(yard.environment()).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The result's structure, after its text was found to say the same.
fn structure(result: &Value) -> &Value {
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"));
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), result["structuredContent"]);
    &result["structuredContent"]
}

fn command(yard: &Yard, arguments: &[&str]) -> String {
    let output = yard.program().args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn events(yard: &Yard, kind: &str) -> Vec<Value> {
    let shown = command(yard, &["journal", "show", "--json"]);
    let events = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["type"] == kind).collect()
}

/// The usual project; agents may do all but count.
fn yard() -> Yard {
    let yard = Yard::new();
    yard.write("policies/agents.cedar", "forbid (principal is Agent, action, resource == Tool::\"count\");\n");
    yard.configure(600, 60);
    yard.trust();
    yard
}

fn say(line: &str) -> Value {
    json!(["talk.say", { "command": line }])
}

#[test]
fn the_official_client_without_a_handshake_gets_the_tools_and_refusals_it_can_read() {
    let yard = yard();
    let said = official(&yard, &[say("echo hello"), json!(["count", {}]), say("no such line")]);
    let names: Vec<_> = said[0].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["count", "talk.ask", "talk.hang", "talk.save", "talk.say"]);
    assert_eq!(said[0][4]["inputSchema"]["properties"]["command"]["type"], "string", "{}", said[0]);
    assert_eq!(said[1]["isError"], false, "{}", said[1]);
    assert!(structure(&said[1])["output"].as_str().unwrap().contains("hello"));
    assert_eq!(said[2]["isError"], true);
    let refusal = &structure(&said[2])["refusal"];
    assert_eq!((&refusal["code"], &refusal["authority"]), (&json!("denied"), &json!("policy")));
    assert_eq!(structure(&said[3])["refusal"]["code"], "invalid");
    let requested = events(&yard, "call.requested");
    assert_eq!(requested[0]["body"]["principal"], json!({ "kind": "agent", "name": "mcp:mcp" }));
    let runs: Value = serde_json::from_str(&command(&yard, &["runs", "list", "--json"])).unwrap();
    assert_eq!(runs.as_array().unwrap().len(), 1, "one connection is one run: {runs}");
    command(&yard, &["journal", "verify"]);
}

/// A client of our own, line by line.
struct Hand {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Hand {
    fn start(yard: &Yard) -> Self {
        let mut child = yard.program().arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, output }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    fn receive(&mut self) -> Value {
        let line = self.output.next().expect("the server goes on").unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("not the protocol: {line}: {error}"))
    }

    fn greet(&mut self) {
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "hand", "version": "1" } });
        self.send(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello }));
        assert_eq!(self.receive()["result"]["serverInfo"]["name"], "stockade");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    fn ask(&mut self, id: u32, tool: &str, line: &str) {
        let params = json!({ "name": tool, "arguments": { "command": line } });
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
    }

    /// Closes its input and waits for the program's end.
    fn leave(self) -> i32 {
        let Self { mut child, input, output } = self;
        drop((input, output));
        child.wait().unwrap().code().unwrap_or(-1)
    }
}

fn until(what: &str, wanted: impl Fn() -> bool) {
    let end = Instant::now() + support::PATIENCE;
    while !wanted() {
        assert!(Instant::now() < end, "{what} never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn pending(yard: &Yard) -> Vec<Value> {
    let listed: Value = serde_json::from_str(&command(yard, &["approvals", "list", "--json"])).unwrap();
    listed.as_array().unwrap().clone()
}

#[test]
fn two_starts_at_once_give_one_runtime() {
    let yard = yard();
    let mut hands: Vec<Hand> = (0..4).map(|_| Hand::start(&yard)).collect();
    for hand in &mut hands {
        hand.greet();
        hand.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }));
    }
    for hand in &mut hands {
        assert_eq!(hand.receive()["result"]["tools"].as_array().unwrap().len(), 5);
    }
    assert_eq!(events(&yard, "runtime.started").len(), 1);
    // Joined ones first: the runtime ends with the process it lives in.
    for hand in hands {
        assert_eq!(hand.leave(), 0);
    }
    command(&yard, &["journal", "verify"]);
}

#[test]
fn two_clients_of_one_name_cannot_reach_each_others_terminals() {
    let yard = yard();
    let (mut one, mut two) = (Hand::start(&yard), Hand::start(&yard));
    one.greet();
    two.greet();
    let mut sessions = Vec::new();
    for hand in [&mut one, &mut two] {
        hand.ask(1, "talk.say", "echo hello");
        sessions.push(structure(&hand.receive()["result"])["session"].clone());
    }
    assert_ne!(sessions[0], sessions[1]);
    // Not even by asking for it: no argument of a tool names a session.
    let session = &sessions[1];
    let params = json!({ "name": "talk.say", "arguments": { "command": "size", "session": session } });
    one.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params }));
    assert_eq!(structure(&one.receive()["result"])["refusal"]["code"], "invalid");
    assert_eq!(two.leave(), 0);
    one.ask(3, "talk.say", "echo still here");
    assert_eq!(one.receive()["result"]["isError"], false);
    assert_eq!(one.leave(), 0);
}

#[test]
fn a_runtime_killed_under_a_waiting_call_leaves_an_error_a_record_and_nothing_running() {
    let yard = yard();
    let mut holder = Hand::start(&yard);
    holder.greet();
    holder.ask(1, "talk.say", "echo hello");
    assert_eq!(holder.receive()["result"]["isError"], false);
    let mut joined = Hand::start(&yard);
    joined.greet();
    joined.ask(1, "talk.ask", "risky thing");
    until("the question", || pending(&yard).len() == 1);
    kill(Pid::from_raw(i32::try_from(holder.child.id()).unwrap()), Signal::SIGKILL).unwrap();
    holder.child.wait().unwrap();
    let answer = joined.receive();
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(structure(&answer["result"])["refusal"]["code"], "in_doubt");
    // The next call finds no runtime and becomes one, which settles what the dead one left.
    joined.ask(2, "talk.say", "echo again");
    assert_eq!(joined.receive()["result"]["isError"], false);
    let found = events(&yard, "runtime.found");
    assert_eq!(found[0]["body"]["lost_calls"].as_array().unwrap().len(), 1, "{found:?}");
    assert_eq!(found[0]["body"]["in_doubt_calls"].as_array().unwrap().len(), 0, "{found:?}");
    assert!(pending(&yard).is_empty(), "a question outlived its runtime");
    assert_eq!(joined.leave(), 0);
    command(&yard, &["journal", "verify"]);
}

#[test]
fn a_cancelled_or_abandoned_call_never_runs() {
    let yard = yard();
    let mut hand = Hand::start(&yard);
    hand.greet();
    hand.ask(1, "talk.ask", "risky thing");
    until("the question", || pending(&yard).len() == 1);
    hand.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }));
    until("the withdrawal", || pending(&yard).is_empty());
    hand.ask(2, "talk.ask", "risky other");
    until("the question", || pending(&yard).len() == 1);
    assert_eq!(hand.leave(), 0);
    let codes: Vec<_> = events(&yard, "call.finished")
        .iter()
        .map(|event| event["body"]["result"]["refusal"]["code"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(codes, ["cancelled", "cancelled"]);
    assert!(events(&yard, "call.dispatched").is_empty());
    command(&yard, &["journal", "verify"]);
}

#[test]
fn a_project_that_is_not_trusted_is_refused_without_a_question() {
    let yard = Yard::new();
    let mut hand = Hand::start(&yard);
    hand.greet();
    hand.ask(1, "count", "");
    let answer = hand.receive();
    let refusal = &structure(&answer["result"])["refusal"];
    assert_eq!(refusal["code"], "denied", "{answer}");
    assert!(refusal["next"].as_str().unwrap().contains("stockade trust --digest"), "{answer}");
    yard.trust();
    hand.ask(2, "talk.say", "echo hello");
    assert_eq!(hand.receive()["result"]["isError"], false);
    assert_eq!(hand.leave(), 0);
}
