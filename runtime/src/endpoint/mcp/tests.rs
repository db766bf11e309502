//! The MCP server spoken to in its own lines, over pipes in memory, with a stand-in for the runtime.

use super::*;
use std::collections::BTreeMap;
use std::sync::Mutex as SyncMutex;
use stockade_protocol::ids::{CallId, Principal};
use stockade_protocol::request::Origin;
use stockade_protocol::result::{CallResult, Execution};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

#[derive(Clone, Default)]
struct Fake(Arc<State>);

#[derive(Default)]
struct State {
    calls: SyncMutex<Vec<(Caller, ToolCallRequest, Option<RunId>)>>,
    runs: SyncMutex<Vec<String>>,
    cancelled: SyncMutex<Vec<String>>,
    gone: SyncMutex<u32>,
    connected: SyncMutex<Vec<String>>,
    /// The runtime cannot be had.
    shut: SyncMutex<Option<Refusal>>,
    /// The runtime went away.
    lost: SyncMutex<bool>,
    changed: Notify,
    release: Notify,
}

struct Dropped(Fake, String, bool);

impl Drop for Dropped {
    fn drop(&mut self) {
        if !self.2 {
            self.0.0.cancelled.lock().unwrap().push(self.1.clone());
            self.0.0.changed.notify_one();
        }
    }
}

impl Serve for Fake {
    async fn command(&self, caller: &Caller, command: Command) -> Reply {
        match command {
            Command::OpenRun { title } => {
                let mut runs = self.0.runs.lock().unwrap();
                runs.push(title);
                Reply::Started { run: RunId::from_bits([u8::try_from(runs.len()).unwrap(); 16]) }
            }
            Command::ListTools => Reply::Tools { tools: vec![tool("report.query", false), tool("report.save", true)] },
            Command::Call { request, run } => {
                self.0.calls.lock().unwrap().push((caller.clone(), request.clone(), run));
                self.0.changed.notify_one();
                let call = CallId::from_bits([7; 16]);
                let run = run.unwrap();
                let mut result = CallResult::refused(call, run, &request.tool, by_policy());
                if request.tool == "wait" {
                    let mut dropped = Dropped(self.clone(), request.tool, false);
                    self.0.release.notified().await;
                    dropped.2 = true;
                    result.refusal = None;
                } else if request.tool != "deny" {
                    result.refusal = None;
                    result.execution = Execution::PromptObserved;
                    result.output = "region total\n".to_owned();
                }
                Reply::Result { result: Box::new(result) }
            }
            _ => Reply::Done {},
        }
    }

    async fn caller_gone(&self, _caller: &Caller) {
        *self.0.gone.lock().unwrap() += 1;
    }
}

impl Connect for Fake {
    type Runtime = Self;

    async fn connect(&self, client: &str) -> Result<(Self, Caller), Refusal> {
        self.0.connected.lock().unwrap().push(client.to_owned());
        if let Some(refusal) = self.0.shut.lock().unwrap().clone() {
            return Err(refusal);
        }
        *self.0.lost.lock().unwrap() = false;
        let principal = crate::control::agent_of(client);
        Ok((self.clone(), Caller { principal, origin: Origin::Mcp, client: client.to_owned(), connection: 0 }))
    }

    fn is_open(&self, _runtime: &Self) -> bool {
        !*self.0.lost.lock().unwrap()
    }
}

fn tool(name: &str, human_approval: bool) -> ToolInfo {
    ToolInfo {
        name: name.to_owned(),
        description: format!("Does {name}."),
        input_schema: r#"{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}"#
            .to_owned(),
        risk_tier: "low".to_owned(),
        human_approval,
        mode: "session".to_owned(),
    }
}

fn by_policy() -> Refusal {
    Refusal::new(RefusalCode::Denied, Authority::Policy, "no policy permits it")
        .by_rule("demo.cedar:3")
        .next("Ask less.")
}

struct Client {
    input: Option<WriteHalf<DuplexStream>>,
    output: Lines<BufReader<ReadHalf<DuplexStream>>>,
    served: JoinHandle<Result<(), McpError>>,
    fake: Fake,
}

impl Client {
    fn start(fake: Fake) -> Self {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (input, output) = split(far);
        let served = tokio::spawn(serve(fake.clone(), input, output));
        let (output, input) = split(near);
        Self { input: Some(input), output: BufReader::new(output).lines(), served, fake }
    }

    async fn initialized(fake: Fake) -> Self {
        let mut client = Self::start(fake);
        client
            .send(&json!({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",
                "capabilities":{},"clientInfo":{"name":"claude-code","version":"1"}}}))
            .await;
        let answer = client.receive().await;
        assert_eq!(answer["result"]["serverInfo"]["name"], "stockade");
        assert!(answer["result"]["capabilities"]["tools"].is_object(), "{answer}");
        client.send(&json!({"jsonrpc":"2.0","method":"notifications/initialized"})).await;
        client
    }

    async fn send(&mut self, message: &Value) {
        self.send_raw(format!("{message}\n").as_bytes()).await;
    }

    async fn send_raw(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let line = tokio::time::timeout(Duration::from_secs(600), self.output.next_line()).await;
        serde_json::from_str(&line.expect("nothing came").unwrap().expect("the server closed")).unwrap()
    }

    async fn call(&mut self, id: u32, params: Value) -> Value {
        self.send(&json!({"jsonrpc":"2.0","id":id,"method":"tools/call","params":params})).await;
        let answer = self.receive().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer["result"].clone()
    }

    async fn end(mut self) -> Fake {
        self.input.take().unwrap().shutdown().await.unwrap();
        while let Ok(Some(_)) = self.output.next_line().await {}
        self.served.await.unwrap().unwrap();
        self.fake
    }
}

/// Text and structure hold the same value.
fn same(result: &Value) -> Value {
    let content = result["content"].as_array().unwrap();
    assert_eq!(content.len(), 1);
    let text: Value = serde_json::from_str(content[0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, result["structuredContent"]);
    text
}

#[tokio::test]
async fn initialize_needs_no_runtime_and_the_list_shows_every_tool_with_its_schema() {
    let mut client = Client::initialized(Fake::default()).await;
    assert!(client.fake.0.connected.lock().unwrap().is_empty());
    client.send(&json!({"jsonrpc":"2.0","id":1,"method":"tools/list"})).await;
    let listed = client.receive().await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 2);
    assert_eq!(tools[0]["name"], "report.query");
    assert_eq!(tools[0]["inputSchema"]["required"][0], "command");
    assert!(tools[1]["description"].as_str().unwrap().contains("A person approves every use"));
    assert_eq!(*client.fake.0.connected.lock().unwrap(), ["claude-code"]);
    let fake = client.end().await;
    assert!(fake.0.runs.lock().unwrap().is_empty(), "listing opened a run");
    assert_eq!(*fake.0.gone.lock().unwrap(), 1);
}

#[tokio::test]
async fn calls_of_one_connection_are_one_run_and_both_forms_of_the_answer_agree() {
    let mut client = Client::initialized(Fake::default()).await;
    let meta = json!({"stockade/invocation-id": "once", "stockade/reason": "why"});
    let done = client
        .call(1, json!({"name":"report.query","arguments":{"command":"totals","top":3,"all":true},"_meta":meta}))
        .await;
    assert_eq!(done["isError"], false);
    assert_eq!(same(&done)["output"], "region total\n");
    let denied = client.call(2, json!({"name":"deny"})).await;
    assert_eq!(denied["isError"], true);
    let refusal = &same(&denied)["refusal"];
    assert_eq!(refusal["code"], "denied");
    assert_eq!(refusal["authority"], "policy");
    assert_eq!(refusal["rule"], "demo.cedar:3");
    assert_eq!(refusal["reason"], "no policy permits it");
    assert_eq!(refusal["next"], "Ask less.");
    let fake = client.end().await;
    assert_eq!(*fake.0.runs.lock().unwrap(), ["MCP: claude-code"]);
    let calls = fake.0.calls.lock().unwrap();
    assert_eq!(calls[0].2, calls[1].2);
    assert_eq!(calls[0].0.principal, Principal::agent("mcp:claude-code"));
    let expected: BTreeMap<String, String> =
        [("all", "true"), ("command", "totals"), ("top", "3")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    assert_eq!(calls[0].1.arguments, expected);
    assert_eq!(calls[0].1.invocation_id.as_deref(), Some("once"));
    assert_eq!(calls[0].1.reason.as_deref(), Some("why"));
}

#[tokio::test]
async fn what_has_no_place_in_a_call_is_refused_before_the_runtime_hears_of_it() {
    let mut client = Client::initialized(Fake::default()).await;
    for (at, params) in [
        json!({"name":"report.query","arguments":{},"approved":true}),
        json!({"name":"report.query","approval_id":"x"}),
        json!({"name":"report.query","inputResponses":{}}),
        json!({"name":"report.query","arguments":{"a":1.5}}),
        json!({"name":"report.query","arguments":{"a":null}}),
        json!({"name":"report.query","arguments":{"a":["b"]}}),
        json!({"name":"report.query","arguments":{"a":{"b":1}}}),
        json!({"name":"report.query","_meta":{"stockade/invocation-id":7}}),
    ]
    .into_iter()
    .enumerate()
    {
        let refused = client.call(u32::try_from(at).unwrap() + 1, params.clone()).await;
        assert_eq!(refused["isError"], true, "{params}");
        assert_eq!(same(&refused)["refusal"]["code"], "invalid", "{params}");
    }
    client
        .send(&json!({"jsonrpc":"2.0","id":90,"approved":true,"method":"tools/call","params":{"name":"report.query"}}))
        .await;
    assert_eq!(client.receive().await["result"]["structuredContent"]["refusal"]["code"], "invalid");
    assert!(client.fake.0.calls.lock().unwrap().is_empty());
    let allowed = client.call(99, json!({"name":"report.query","arguments":{"approved":"true"}})).await;
    assert_eq!(allowed["isError"], false);
    let calls = client.fake.0.calls.lock().unwrap().clone();
    assert_eq!(calls.len(), 1, "an argument that happens to be called so is the manifest's to judge");
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_and_others_go_on() {
    let mut client = Client::initialized(Fake::default()).await;
    client.send(&json!({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}})).await;
    client.fake.0.changed.notified().await;
    client
        .send(&json!({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"user"}}))
        .await;
    client.fake.0.changed.notified().await;
    assert_eq!(*client.fake.0.cancelled.lock().unwrap(), ["wait"]);
    let other = client.call(2, json!({"name":"report.query"})).await;
    assert_eq!(other["isError"], false);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_asked_for_progress_gets_it_while_a_call_waits() {
    let mut client = Client::initialized(Fake::default()).await;
    let params = json!({"name":"wait","_meta":{"progressToken":"t"}});
    client.send(&json!({"jsonrpc":"2.0","id":1,"method":"tools/call","params":params})).await;
    for expected in 1..=3 {
        let note = client.receive().await;
        assert_eq!(note["method"], "notifications/progress", "{note}");
        assert_eq!(note["params"]["progressToken"], "t");
        assert_eq!(note["params"]["progress"].as_f64(), Some(f64::from(expected)));
    }
    client.fake.0.release.notify_one();
    assert_eq!(client.receive().await["result"]["isError"], false);
    // Without a token nothing but the answer comes.
    client.send(&json!({"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait"}})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    client.fake.0.release.notify_one();
    assert_eq!(client.receive().await["id"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_takes_its_calls_with_it() {
    let mut client = Client::initialized(Fake::default()).await;
    client.send(&json!({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}})).await;
    client.fake.0.changed.notified().await;
    let fake = client.end().await;
    fake.0.changed.notified().await;
    assert_eq!(*fake.0.cancelled.lock().unwrap(), ["wait"]);
    assert_eq!(*fake.0.gone.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_runtime_that_cannot_be_had_is_told_as_a_refusal_and_tried_again() {
    let fake = Fake::default();
    let refusal =
        Refusal::new(RefusalCode::Unavailable, Authority::Tier, "user namespaces are off").next("Run doctor.");
    *fake.0.shut.lock().unwrap() = Some(refusal);
    let mut client = Client::initialized(fake).await;
    client.send(&json!({"jsonrpc":"2.0","id":1,"method":"tools/list"})).await;
    let error = client.receive().await;
    assert!(error["error"]["message"].as_str().unwrap().contains("user namespaces are off"), "{error}");
    let refused = client.call(2, json!({"name":"report.query"})).await;
    assert_eq!(same(&refused)["refusal"]["code"], "unavailable");
    *client.fake.0.shut.lock().unwrap() = None;
    assert_eq!(client.call(3, json!({"name":"report.query"})).await["isError"], false);
    *client.fake.0.lost.lock().unwrap() = true;
    assert_eq!(client.call(4, json!({"name":"report.query"})).await["isError"], false);
    assert_eq!(client.fake.0.runs.lock().unwrap().len(), 2, "a new runtime gets a run of its own");
}

#[tokio::test]
async fn lines_that_are_not_mcp_are_answered_and_survived() {
    let mut client = Client::initialized(Fake::default()).await;
    client.send_raw(b"\n  \nnot json\n").await;
    assert_eq!(client.receive().await["error"]["code"], -32700);
    client.send_raw(b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{\"name\":7}}\n").await;
    let answer = client.receive().await;
    assert_eq!(answer["id"], 5, "{answer}");
    assert!(answer["error"]["code"].as_i64().unwrap() < 0, "{answer}");
    let mut long = vec![b'x'; stockade_protocol::limits::FRAME_BYTES + 1000];
    long.push(b'\n');
    client.send_raw(&long).await;
    assert!(client.receive().await["error"]["message"].as_str().unwrap().contains("more than"));
    assert_eq!(client.call(6, json!({"name":"report.query"})).await["isError"], false);
}

#[tokio::test]
async fn a_client_without_a_handshake_is_served_too() {
    let mut client = Client::start(Fake::default());
    let meta = json!({"io.modelcontextprotocol/protocolVersion":"2026-07-28",
        "io.modelcontextprotocol/clientInfo":{"name":"stateless","version":"1"},
        "io.modelcontextprotocol/clientCapabilities":{}});
    client.send(&json!({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":meta}})).await;
    assert_eq!(client.receive().await["result"]["tools"].as_array().unwrap().len(), 2);
    let done = client.call(2, json!({"name":"report.query","_meta":meta})).await;
    assert_eq!(done["isError"], false);
    let fake = client.end().await;
    assert_eq!(fake.0.calls.lock().unwrap()[0].0.principal, Principal::agent("mcp:stateless"));
}

#[tokio::test]
async fn a_client_that_says_nothing_ends_without_an_error() {
    let fake = Client::start(Fake::default()).end().await;
    assert!(fake.0.connected.lock().unwrap().is_empty());
}
