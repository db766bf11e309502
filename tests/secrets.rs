//! A secret on every way in: it is in no byte of the journal, in no request to a model, in nothing that a caller, a
//! screen or a list is told, and every result that a caller got is the one in the journal.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::fs;
use stockade_protocol::command::{Command, Reply};
use stockade_protocol::event::{CallEvent, Event, EventSource as _, RunEvent};
use stockade_protocol::receipt::Decision;
use stockade_protocol::refusal::RefusalCode;
use stockade_protocol::result::CallResult;
use stockade_runtime::control::Serve as _;
use stockade_runtime::run::project;
use support::{Yard, agent, call, code, event, line, open_run, pending, person, records, request, verified};

/// What follows the lead of a token; the token is found by its form, and this must never be seen.
const BODY: &str = "Zq3vX9kLm2Rt7Wp5Yb8Nc4Hd6Jf1Gs0TaUeKi";

fn secret() -> String {
    format!("ghp_{BODY}")
}

/// A one-shot tool around a script that takes one argument.
fn tool(yard: &Yard, name: &str, script: &str, output: &str, approval: bool) {
    let manifest = format!(
        r#"
[tool]
name = "{name}"
version = "1.0.0"
description = "Says something"
binary = "sh"
allow_interpreter = true
timeout_seconds = 20
human_approval = {approval}

[args.word]
position = 1
type = "string"
description = "A word"
required = false
default = "none"

[args.file]
position = 2
type = "path"
description = "A file"
required = false
default = "data/in.txt"

[command]
exec = ["/bin/sh", "bin/{name}.sh", "{{word}}"]
{output}

[filesystem]
read = ["bin/{name}.sh", "{{file}}"]
"#
    );
    yard.write(&format!("tools/{name}.clad.toml"), &manifest);
    yard.write(&format!("bin/{name}.sh"), script);
}

/// A project in which everything speaks of the secret.
fn leaking() -> Yard {
    let (secret, yard) = (secret(), Yard::new());
    let (first, second) = secret.split_at(11);
    tool(&yard, "loud", &format!("printf '{first}'; sleep 0.2; printf '{second}\\n'; echo {secret} >&2\n"), "", false);
    let schema = "[output]\nformat = \"json\"\n[output.schema]\ntype = \"object\"\n";
    tool(&yard, "wrong", &format!("echo '{{\"key\": \"{secret}\", {secret}'\n"), schema, false);
    tool(&yard, "right", &format!("echo '{{\"key\": \"{secret}\", \"{secret}\": 1}}'\n"), schema, false);
    tool(&yard, "asks", "echo ok\n", "", true);
    yard.write(&format!("data/{secret}.txt"), "hello\n");
    let turn = |say: &str, tool: &str, argument: &str| {
        format!("\n[[turn]]\nsay = \"{say}\"\n[[turn.call]]\ntool = \"{tool}\"\narguments = {{ {argument} }}\n")
    };
    let script = "provider = \"scripted\"\n".to_owned()
        + &turn(&format!("I found {secret}."), "loud", "")
        + &turn("Using it.", "right", &format!("word = \"{secret}\""))
        + &turn("Typing it.", "talk.say", &format!("command = \"echo {secret}\""))
        + &turn("Printing it.", "talk.say", "command = \"where\"")
        + &format!("\n[[turn]]\nsay = \"The key is {secret}\"\n");
    yard.write("agents/helper.toml", &script);
    yard.write("data/in.txt", &format!("token: {secret}\n"));
    yard
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_on_any_way_in_is_neither_recorded_nor_told() {
    let (secret, yard) = (secret(), leaking());
    let runtime = yard.start().await;
    let mut told: Vec<Reply> = Vec::new();
    let mut results: Vec<CallResult> = Vec::new();
    for caller in [person(), agent("helper", 7)] {
        let with = |tool: &str, name: &str| request(tool, &[(name, secret.as_str())]);
        let mut named = request("loud", &[]);
        named.invocation_id = Some(secret.clone());
        for request in [
            request("loud", &[]),
            request("wrong", &[]),
            request("right", &[]),
            with("loud", "word"),
            with("loud", "unknown"),
            request("loud", &[(secret.as_str(), "x")]),
            request(&secret, &[]),
            request("loud", &[("file", &format!("data/{secret}.txt"))]),
            request("loud", &[("file", &format!("nowhere/{secret}"))]),
            named,
        ] {
            let result = call(&runtime, &caller, None, request).await;
            results.push(result);
        }
    }
    assert_eq!(code(&results[0]), None, "{:?}", results[0]);
    assert!(results[0].output.contains("[redacted:") && results[0].stderr.contains("[redacted:"), "{:?}", results[0]);
    assert_eq!(code(&results[3]), Some(RefusalCode::Invalid), "a contract that cannot be shown is refused");

    // In a reason, in a question about a call, and in an answer.
    let run = open_run(&runtime, &person()).await;
    let mut because = request("asks", &[]);
    because.reason = Some(format!("I have {secret}, so let me"));
    let waiting = {
        let runtime = runtime.clone();
        tokio::spawn(async move { call(&runtime, &person(), Some(run), because).await })
    };
    let asked = pending(&runtime, 1).await.remove(0);
    told.push(Reply::Approvals { pending: vec![asked.clone()] });
    let refused = support::decide(&runtime, yard.receipt(&asked, Decision::Reject, Some(&secret))).await;
    assert!(matches!(&refused, Reply::Refused { .. }), "{refused:?}");
    told.push(refused);
    told.push(support::decide(&runtime, yard.receipt(&asked, Decision::Reject, Some("no"))).await);
    results.push(waiting.await.unwrap());
    told.push(runtime.command(&person(), Command::OpenRun { title: format!("with {secret}") }).await);
    for request in [line("talk.say", &format!("echo {secret}")), line("talk.say", "where")] {
        results.push(call(&runtime, &person(), Some(run), request).await);
    }

    // And an agent's own words and its prompt.
    let command = Command::StartRun { agent: "helper".to_owned(), prompt: format!("use {secret}") };
    let Reply::Started { run: of_agent } = runtime.command(&person(), command).await else { panic!() };
    event(&runtime, |record| {
        record.run == Some(of_agent) && matches!(record.event, Event::Run(RunEvent::Ended { .. }))
    })
    .await;
    told.push(runtime.command(&person(), Command::ListSessions).await);
    told.push(runtime.command(&person(), Command::Events { from: 0, max: 4_096, wait_ms: 0 }).await);

    let all = records(&runtime);
    let hidden = |what: &str, text: &str| {
        assert!(!text.contains(BODY) && !text.contains(&BODY[..20]), "{what}: {text}");
    };
    for result in &results {
        hidden("a result", &serde_json::to_string(result).unwrap());
        let journaled = all.iter().any(|record| {
            matches!(&record.event, Event::Call(CallEvent::Finished { result: journaled }) if **journaled == *result)
        });
        assert!(journaled || result.tool.is_empty(), "told and not journaled: {result:?}");
    }
    for reply in &told {
        hidden("a reply", &serde_json::to_string(reply).unwrap());
    }
    hidden("a model's request", &serde_json::to_string(&project(&all, of_agent, &[]).messages).unwrap());
    let path = runtime.journal_path().to_owned();
    let count = runtime.events().len();
    runtime.stop().await.unwrap();
    for entry in fs::read_dir(&path).unwrap().flatten() {
        hidden("the journal", &String::from_utf8_lossy(&fs::read(entry.path()).unwrap()));
    }
    verified(&path);
    assert!(count > 100);
    // The control: the secret is found where it was put.
    assert!(fs::read_to_string(yard.root().join("agents/helper.toml")).unwrap().contains(BODY));
}
