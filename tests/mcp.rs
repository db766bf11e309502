//! The official MCP client works through `stockade mcp`, and a person answers it in the workbench.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use stockade_protocol::event::{CallEvent, Event};
use support::Yard;
use support::tui::Tui;

const POLICY: &str = "permit (principal, action, resource);\n\
                      @reason(\"nobody may hang\")\nforbid (principal, action, resource == Tool::\"talk.hang\");\n";

struct Client {
    process: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Client {
    fn start(yard: &Yard, calls: &Value) -> Self {
        let python = std::env::var("STOCKADE_TEST_PYTHON").unwrap_or_else(|_| {
            let own = concat!(env!("CARGO_MANIFEST_DIR"), "/target/tools/python/bin/python");
            assert!(std::path::Path::new(own).exists(), "the MCP client is not installed: ./tests/run --setup");
            own.to_owned()
        });
        let environment: std::collections::BTreeMap<_, _> = yard.environment().into_iter().collect();
        let mut process = Command::new(python)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp_client.py"))
            .arg(env!("CARGO_BIN_EXE_stockade"))
            .arg(yard.root())
            .arg(serde_json::to_string(&environment).unwrap())
            .arg(calls.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    fn next(&mut self) -> Value {
        let line = self.lines.next().expect("the client goes on").unwrap();
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        if told["structured"].is_object() {
            let text: Value = serde_json::from_str(told["text"].as_str().unwrap()).unwrap();
            assert_eq!(text, told["structured"], "text and structured result say the same");
        }
        told
    }

    fn end(mut self) {
        assert!(self.lines.next().is_none());
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Already gone when all went well.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_client_lists_calls_is_approved_denied_and_refused_and_the_journal_shows_all_four() {
    let yard = Yard::new();
    yard.write("policies/all.cedar", POLICY);
    yard.trust();
    let environment = yard.environment();
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut workbench = Tui::start(&[yard.root().to_str().unwrap()], &environment, 120, 34);
    workbench.sees("0 waiting");
    let mut client = Client::start(
        &yard,
        &json!([
            ["count", {}],
            ["talk.ask", { "command": "risky one" }],
            ["talk.ask", { "command": "risky two" }],
            ["talk.hang", { "command": "hang" }],
        ]),
    );
    let tools = client.next();
    assert_eq!(tools["tools"]["talk.ask"]["required"], json!(["command"]));
    assert_eq!(tools["tools"]["count"]["additionalProperties"], json!(false));

    let plain = client.next();
    assert_eq!((&plain["isError"], &plain["structured"]["output"]), (&json!(false), &json!("6 data/in.txt\n")));

    workbench.sees("1 waiting");
    workbench.answer("A", |screen| screen.contains("0 waiting"));
    let approved = client.next();
    assert_eq!((&approved["isError"], &approved["structured"]["output"]), (&json!(false), &json!("did one\r\n")));

    workbench.sees("1 waiting");
    workbench.answer("r", |screen| screen.contains("risky two") && screen.contains("why refused"));
    workbench.keys("use the staging bucket\r");
    let denied = client.next();
    assert_eq!(denied["isError"], json!(true));
    assert!(denied["text"].as_str().unwrap().contains("use the staging bucket"), "{denied}");
    assert_eq!(denied["structured"]["refusal"]["code"], json!("rejected"));

    let refused = client.next();
    assert_eq!(refused["isError"], json!(true));
    assert!(refused["text"].as_str().unwrap().contains("nobody may hang"), "{refused}");
    assert_eq!(refused["structured"]["refusal"]["code"], json!("denied"));
    client.end();

    workbench.until("the client's run to end", |screen| screen.contains("0 runs · 0 sessions"));
    workbench.keys("q");
    let ended = workbench.end();
    assert!(ended.status.success(), "{}", ended.text);
    let journal = yard.places().journal(&yard.root());
    support::verified(&journal);
    let outcomes: Vec<(String, &'static str)> = stockade_runtime::journal::read(&journal)
        .unwrap()
        .iter()
        .filter_map(|envelope| match &envelope.event {
            Event::Call(CallEvent::Finished { result }) => Some((result.tool.clone(), result.outcome())),
            _ => None,
        })
        .collect();
    let expected = [("count", "done"), ("talk.ask", "done"), ("talk.ask", "rejected"), ("talk.hang", "denied")];
    assert_eq!(outcomes, expected.map(|(tool, outcome)| (tool.to_owned(), outcome)));
}

#[test]
fn a_workbench_killed_while_a_call_waits_gives_the_client_an_error_and_nothing_runs() {
    let yard = Yard::new();
    yard.trust();
    let environment = yard.environment();
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut workbench = Tui::start(&[yard.root().to_str().unwrap()], &environment, 120, 34);
    workbench.sees("0 waiting");
    let mut client = Client::start(&yard, &json!([["talk.ask", { "command": "risky one" }]]));
    client.next();
    workbench.sees("1 waiting");
    workbench.signal(nix::sys::signal::Signal::SIGKILL);
    workbench.end();
    let told = client.next();
    assert_eq!(told["isError"], json!(true), "{told}");
    client.end();

    let mut list = yard.program();
    let list = list.args(["runs", "list", "--json"]).output().unwrap();
    assert!(list.status.success(), "{}", String::from_utf8_lossy(&list.stderr));
    let mut settle = yard.program();
    assert!(settle.args(["call", "count"]).output().unwrap().status.success(), "the next start settles what was left");
    let journal = yard.places().journal(&yard.root());
    support::verified(&journal);
    let events: Vec<Event> =
        stockade_runtime::journal::read(&journal).unwrap().iter().map(|envelope| envelope.event.clone()).collect();
    let count = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
    assert_eq!(count(|event| matches!(event, Event::Call(CallEvent::Lost {}))), 1);
    let recorded = count(|event| matches!(event, Event::Call(CallEvent::Recorded { .. })));
    assert_eq!(recorded, 1, "only the later call was ever recorded");
}
