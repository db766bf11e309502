//! Journals made up for tests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeMap;
use std::sync::Arc;
use stockade_protocol::card::{Card, Field};
use stockade_protocol::contract::{
    Contract, Demand, Effect, FileContract, InputFile, OutputFile, RiskTier, SandboxContract, WorkerLimits,
};
use stockade_protocol::digest::Digest;
use stockade_protocol::event::{
    ApprovalEvent, CallEvent, Enforcement, Event, EventEnvelope, GrantEvent, JournalEvent, ProposedCall,
    PublicationIntent, RunEvent, RunOutcome, RuntimeEvent, SessionEvent, TurnEvent,
};
use stockade_protocol::ids::{CallId, Principal, RunId, SessionId};
use stockade_protocol::receipt::{Decision, Receipt, ReceiptBody};
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::request::{Origin, ToolCallRequest};
use stockade_protocol::result::{CallResult, CreatedFile, Execution, Removal};
use stockade_protocol::time::Timestamp;

/// 2026-11-30 12:40:00 UTC.
pub(crate) const START: u64 = 1_796_042_400_000;

pub(crate) fn run(n: u8) -> RunId {
    RunId::from_bits([n; 16])
}

pub(crate) fn session(n: u8) -> SessionId {
    SessionId::from_bits([n; 16])
}

pub(crate) fn call(n: u8) -> CallId {
    CallId::from_bits([n; 16])
}

pub(crate) fn me() -> Principal {
    Principal::person("ada")
}

/// A journal being written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    pub events: Vec<Arc<EventEnvelope>>,
    pub time: u64,
    run: Option<RunId>,
    session: Option<SessionId>,
    call: Option<CallId>,
}

impl Script {
    pub(crate) fn new() -> Self {
        Self { time: START, ..Self::default() }
    }

    /// What the next events belong to.
    pub(crate) fn at(&mut self, run: Option<RunId>, session: Option<SessionId>, call: Option<CallId>) -> &mut Self {
        (self.run, self.session, self.call) = (run, session, call);
        self
    }

    pub(crate) fn after(&mut self, ms: u64) -> &mut Self {
        self.time += ms;
        self
    }

    pub(crate) fn push(&mut self, event: Event) -> &mut Self {
        let seq = self.events.len() as u64;
        let time = Timestamp(self.time);
        self.time += 250;
        let (run, session, call) = (self.run, self.session, self.call);
        self.events.push(Arc::new(EventEnvelope { seq, time, run, session, call, event }));
        self
    }

    pub(crate) fn started(&mut self) -> &mut Self {
        self.at(None, None, None)
            .push(Event::Journal(JournalEvent::Created { format: 1, key: "ab".repeat(32) }))
            .push(Event::Runtime(RuntimeEvent::Started {
                version: "0.1.0".into(),
                project: "payments-api".into(),
                root: "/home/ada/payments-api".into(),
                configuration: Digest::of("configuration"),
                tier: "native".into(),
                network: "none".into(),
                unenforced: vec!["total memory".into()],
                tools: vec!["report.query".into(), "wordcount".into()],
            }))
            .push(Event::Journal(JournalEvent::ApproverKey { name: "ada".into(), key: "cd".repeat(32) }))
    }

    pub(crate) fn run_started(&mut self, n: u8, title: &str, agent: &str, origin: Origin) -> &mut Self {
        self.at(Some(run(n)), None, None).push(Event::Run(RunEvent::Started {
            title: title.into(),
            principal: Principal::agent(agent),
            origin,
        }))
    }

    pub(crate) fn opened(&mut self, run_n: u8, n: u8, tool: &str) -> &mut Self {
        let deadline = Timestamp(self.time + 30 * 60_000);
        self.at(Some(run(run_n)), Some(session(n)), None).push(Event::Session(SessionEvent::Opened {
            tool: tool.into(),
            principal: Principal::agent("nightly"),
            enforcement: enforcement(),
            network: "none".into(),
            columns: 80,
            rows: 24,
            deadline,
        }))
    }

    pub(crate) fn output(&mut self, run_n: u8, n: u8, bytes: &[u8]) -> &mut Self {
        self.at(Some(run(run_n)), Some(session(n)), None)
            .push(Event::Session(SessionEvent::Output { bytes: STANDARD.encode(bytes), redacted: false }))
    }

    pub(crate) fn requested(&mut self, run_n: u8, session_n: Option<u8>, n: u8, tool: &str) -> &mut Self {
        self.at(Some(run(run_n)), session_n.map(session), Some(call(n))).push(Event::Call(CallEvent::Requested {
            request: request(tool),
            principal: Principal::agent("nightly"),
            origin: Origin::Loop,
        }))
    }

    /// Prepared and authorized.
    pub(crate) fn judged(&mut self, tool: &str, effect: Effect, files: FileContract, person: bool) -> &mut Self {
        let contract = Box::new(contract(tool, effect, files, person));
        let digest = Digest::of(tool);
        self.push(Event::Call(CallEvent::Prepared { contract, digest })).push(Event::Call(CallEvent::Authorized {
            permitted: true,
            policies: vec!["reports.cedar:12".into()],
            needs_person: person,
        }))
    }

    pub(crate) fn asked(&mut self, run_n: u8, session_n: Option<u8>, n: u8, tool: &str, card: Card) -> &mut Self {
        let expires = Timestamp(self.time + 600_000);
        self.asked_until(run_n, session_n, n, tool, card, expires)
    }

    pub(crate) fn asked_until(
        &mut self,
        run_n: u8,
        session_n: Option<u8>,
        n: u8,
        tool: &str,
        card: Card,
        expires: Timestamp,
    ) -> &mut Self {
        let shown = card.digest();
        self.at(Some(run(run_n)), session_n.map(session), Some(call(n)));
        self.push(Event::Approval(ApprovalEvent::Asked { contract: Digest::of(tool), card, shown, expires }))
    }

    pub(crate) fn dispatched(&mut self, tool: &str) -> &mut Self {
        self.push(Event::Call(CallEvent::Recorded { digest: Digest::of(tool), receipt: None }))
            .push(Event::Call(CallEvent::Dispatched { enforcement: enforcement() }))
    }

    pub(crate) fn finished(&mut self, tool: &str, output: &str, refusal: Option<Refusal>) -> &mut Self {
        let (run_id, call_id) = (self.run.unwrap_or(run(0)), self.call.unwrap_or(call(0)));
        let mut result =
            CallResult::refused(call_id, run_id, tool, Refusal::new(RefusalCode::Failed, Authority::Tier, ""));
        result.refusal = refusal;
        result.output = output.into();
        result.execution = Execution::PromptObserved;
        result.session = self.session;
        result.interaction_count = 1;
        result.contract_digest = Some(Digest::of(tool));
        result.duration_ms = 420;
        self.push(Event::Call(CallEvent::Finished { result: Box::new(result) }))
    }

    pub(crate) fn decided(
        &mut self,
        n: u8,
        tool: &str,
        card: &Card,
        decision: Decision,
        reason: Option<&str>,
    ) -> &mut Self {
        self.call = Some(call(n));
        self.push(Event::Approval(ApprovalEvent::Decided {
            receipt: Receipt {
                body: ReceiptBody {
                    call: call(n),
                    contract: Digest::of(tool),
                    shown: card.digest(),
                    decision,
                    reason: reason.map(str::to_owned),
                    approver: "ada".into(),
                    key: "cd".repeat(32),
                    time: Timestamp(self.time),
                    expires: Timestamp(self.time + 120_000),
                    nonce: "00".repeat(16),
                },
                signature: "ef".repeat(64),
            },
        }))
    }
}

pub(crate) fn request(tool: &str) -> ToolCallRequest {
    ToolCallRequest { tool: tool.into(), arguments: BTreeMap::new(), invocation_id: None, reason: None }
}

pub(crate) fn enforcement() -> Enforcement {
    Enforcement {
        tier: "native".into(),
        specification: Digest::of("specification"),
        namespaces: vec!["user".into(), "mount".into(), "pid".into(), "net".into()],
        landlock_abi: 6,
        seccomp_filters: 1,
        no_new_privileges: true,
    }
}

pub(crate) fn contract(tool: &str, effect: Effect, files: FileContract, person: bool) -> Contract {
    Contract {
        version: 1,
        principal: Principal::agent("nightly"),
        run: run(1),
        tool: tool.into(),
        arguments: BTreeMap::new(),
        effect,
        risk_tier: if person { RiskTier::High } else { RiskTier::Low },
        demands: if person { vec![Demand::Manifest] } else { Vec::new() },
        manifest: Digest::of("manifest"),
        policy: Digest::of("policy"),
        configuration: Digest::of("configuration"),
        sandbox: SandboxContract {
            tier: "native".into(),
            network: "none".into(),
            profile: Digest::of("profile"),
            cwd: "/work".into(),
            limits: WorkerLimits::default(),
            unenforced: vec!["total memory".into()],
        },
        files,
        deadline_ms: 60_000,
    }
}

pub(crate) fn typed(n: u8, command: &str) -> Effect {
    Effect::Session {
        session: session(n),
        startup_argv: vec!["/usr/bin/report".into()],
        environment: BTreeMap::new(),
        command: command.into(),
        finalizes: false,
    }
}

pub(crate) fn spawned(argv: &[&str]) -> Effect {
    Effect::Oneshot { argv: argv.iter().map(|a| (*a).to_owned()).collect(), environment: BTreeMap::new() }
}

/// A card as the runtime would make it, for a command.
pub(crate) fn card(command: &str, reason: &str) -> Card {
    card_in(command, reason, "/work")
}

pub(crate) fn card_in(command: &str, reason: &str, cwd: &str) -> Card {
    Card {
        title: "agent refactor-auth asks to run psql.drop_old in session 2".into(),
        facts: vec![
            Field::one("command", command),
            Field::one("runs in", "native, network none, user 65534"),
            Field::one("cwd", cwd),
            Field::one("files", "reads nothing, creates nothing"),
            Field::one("asked by", "psql.clad.toml: human_approval; db.cedar:31 permits with a person"),
            Field::one("contract", Digest::of("psql.drop_old").to_string()),
        ],
        claims: vec![Field::one("reason", reason)],
        warnings: Vec::new(),
    }
}

/// A card with everything the runtime says about a call in a session.
pub(crate) fn full_card() -> Card {
    Card {
        title: "agent nightly asks to run report.save".into(),
        facts: vec![
            Field::one("command", "save data/report.csv"),
            Field::one("then", "ends the session and publishes its output"),
            Field::many("typed into", vec!["/usr/bin/report".into(), "--plain".into()]),
            Field::one("session", session(1).short()),
            Field::many("environment", vec!["PATH=/usr/bin:/bin".into(), "TERM=dumb".into()]),
            Field::one("runs in", "native, network none, cwd /work, for at most 60 s"),
            Field::one("not limited", "total memory"),
            Field::one("reads", format!("data/orders.csv, 41000 bytes, sha256 {}", Digest::of("orders"))),
            Field::one("creates", "data/report.csv, at most 1048576 bytes, never over a file"),
            Field::one("risk", "high"),
            Field::one("why asked", "the manifest demands a person, permitted by reports.cedar:12"),
            Field::one("asked by", format!("agent nightly in run {}", run(1).short())),
            Field::one("contract", Digest::of("report.save").to_string()),
        ],
        claims: vec![Field::one("the caller says", "the totals are complete")],
        warnings: Vec::new(),
    }
}

pub(crate) fn argv_card(argv: &[&str]) -> Card {
    let mut card = card("", "counts the words");
    card.title = "agent refactor-auth asks to run wordcount".into();
    if let Some(first) = card.facts.first_mut() {
        *first = Field::many("argv", argv.iter().map(|a| (*a).to_owned()).collect());
    }
    card
}

pub(crate) fn drop_card() -> Card {
    card("DROP TABLE invoices_2019", "cleanup of an unused table")
}

/// Two agents at work, everything that can happen in it once.
pub(crate) fn story() -> Script {
    let mut s = Script::new();
    s.started();
    first_run(&mut s);
    second_run(&mut s);
    waiting(&mut s);
    s
}

fn first_run(s: &mut Script) {
    let files = FileContract {
        inputs: vec![InputFile { path: "data/orders.csv".into(), bytes: 41_000, sha256: Digest::of("orders") }],
        output: Some(OutputFile { path: "data/report.csv".into(), parent_device: 1, parent_inode: 2 }),
        max_file_bytes: 1 << 20,
    };
    s.after(3_000).run_started(1, "nightly-report", "nightly", Origin::Loop);
    s.push(Event::Turn(TurnEvent::Prompted { text: "Total the orders by region and save the report.".into() }));
    s.push(Event::Turn(TurnEvent::ModelRequested {
        model: "scripted/demo".into(),
        messages: 2,
        request: Digest::of("request"),
    }));
    s.push(Event::Turn(TurnEvent::ModelReplied {
        text: "I will open the report program and ask it for the totals.".into(),
        calls: vec![ProposedCall { call: call(1), request: request("report.query") }],
    }));
    s.requested(1, Some(1), 1, "report.query").judged(
        "report.query",
        typed(1, "totals by region"),
        files.clone(),
        false,
    );
    s.opened(1, 1, "report").output(1, 1, b"report 1.0, 1 204 orders\r\nreport> ");
    s.push(Event::Session(SessionEvent::Ready {}))
        .push(Event::Grant(GrantEvent::Staged { path: "data/report.csv".into() }));
    s.at(Some(run(1)), Some(session(1)), Some(call(1))).dispatched("report.query");
    s.push(Event::Session(SessionEvent::Input { by: Principal::agent("nightly"), text: "totals by region".into() }));
    let table = b"totals by region\r\n\x1b[1mregion      orders      total\x1b[0m\r\nnorth          412   \x1b[32m18 204.00\x1b[0m\r\nsouth          377   15 930.50\r\nreport> ";
    s.output(1, 1, table);
    s.at(Some(run(1)), Some(session(1)), Some(call(1)));
    s.finished("report.query", "north 412\nsouth 377\n", None);
    s.requested(1, None, 2, "report.wipe").push(Event::Call(CallEvent::Authorized {
        permitted: false,
        policies: vec!["reports.cedar:40".into()],
        needs_person: false,
    }));
    let denied =
        Refusal::new(RefusalCode::Denied, Authority::Policy, "a forbid policy matches").by_rule("reports.cedar:40");
    s.finished("report.wipe", "", Some(denied));
}

fn second_run(s: &mut Script) {
    s.after(20_000).run_started(2, "refactor-auth", "claude-like client", Origin::Mcp);
    let card = argv_card(&["/usr/bin/wc", "-w", "README.md"]);
    s.requested(2, None, 3, "wordcount");
    s.judged("wordcount", spawned(&["/usr/bin/wc", "-w", "README.md"]), FileContract::default(), true);
    s.asked(2, None, 3, "wordcount", card.clone()).after(4_000);
    s.decided(3, "wordcount", &card, Decision::Approve, None).dispatched("wordcount");
    s.finished("wordcount", "1204 README.md\n", None);
    s.requested(2, None, 4, "wordcount").asked(2, None, 4, "wordcount", card.clone()).after(2_000);
    s.decided(4, "wordcount", &card, Decision::Reject, Some("use the staging copy"));
    let rejected = Refusal::new(RefusalCode::Rejected, Authority::Person, "use the staging copy");
    s.finished("wordcount", "", Some(rejected));
    s.opened(2, 2, "psql").output(2, 2, b"psql (16.4)\r\napp=> ").push(Event::Session(SessionEvent::Ready {}));
    s.output(2, 2, "app=> \\d invoices\r\n … 24 rows …\r\n漢字 wide 🙂\r\napp=> ".as_bytes());
    s.push(Event::Session(SessionEvent::TakenOver { by: me() })).output(2, 2, b"select 1;\r\n");
    s.push(Event::Session(SessionEvent::HandedBack { by: me() }));
    s.opened(2, 3, "bash").output(2, 3, b"$ cargo test -p auth\r\n   \x1b[32mCompiling\x1b[0m auth v0.3.1\r\n");
    s.after(61_000).run_started(3, "docs-review", "docs", Origin::Cli);
    s.push(Event::Run(RunEvent::Ended { outcome: RunOutcome::Done, answer: Some("three typos".into()), reason: None }));
}

fn waiting(s: &mut Script) {
    s.requested(2, Some(2), 5, "psql.drop_old");
    s.judged("psql.drop_old", typed(2, "DROP TABLE invoices_2019"), FileContract::default(), true);
    s.asked(2, Some(2), 5, "psql.drop_old", drop_card());
    s.requested(1, Some(1), 6, "report.save").judged("report.save", typed(1, "save"), FileContract::default(), true);
    s.asked(1, Some(1), 6, "report.save", card("save data/report.csv", "the totals are complete"));
}

/// How the story ends: one call expires, one file is published, sessions close.
pub(crate) fn ending(s: &mut Script) {
    s.after(5_000).at(Some(run(2)), Some(session(2)), Some(call(5)));
    s.push(Event::Approval(ApprovalEvent::Expired { why: "no-answer".into() }));
    let expired = Refusal::new(RefusalCode::Expired, Authority::Clock, "nobody answered in time");
    s.finished("psql.drop_old", "", Some(expired));
    let save = card("save data/report.csv", "the totals are complete");
    s.at(Some(run(1)), Some(session(1)), Some(call(6))).decided(6, "report.save", &save, Decision::Approve, None);
    s.dispatched("report.save").output(1, 1, b"saved 3 140 bytes\r\n");
    s.at(Some(run(1)), Some(session(1)), Some(call(6)));
    s.push(Event::Session(SessionEvent::Resized { columns: 100, rows: 30 }));
    s.push(Event::Session(SessionEvent::Closed { why: "finalized".into(), removal: Removal::Confirmed }));
    s.push(Event::Grant(GrantEvent::Publishing { intent: intent() }));
    let file = CreatedFile {
        path: "data/report.csv".into(),
        host_path: "/home/ada/payments-api/data/report.csv".into(),
        bytes: 3_140,
        sha256: Digest::of("report"),
    };
    s.push(Event::Grant(GrantEvent::Published { file })).finished("report.save", "saved\n", None);
    s.at(Some(run(1)), None, None);
    s.push(Event::Run(RunEvent::Ended { outcome: RunOutcome::Done, answer: Some("Saved.".into()), reason: None }));
    s.at(Some(run(2)), Some(session(2)), None);
    s.push(Event::Session(SessionEvent::Closed { why: "run_ended".into(), removal: Removal::Confirmed }));
    s.at(Some(run(2)), Some(session(3)), None);
    s.push(Event::Session(SessionEvent::Closed { why: "run_ended".into(), removal: Removal::Unconfirmed }));
    s.at(Some(run(2)), None, None).push(Event::Run(RunEvent::Ended {
        outcome: RunOutcome::Cancelled,
        answer: None,
        reason: Some("a person stopped it".into()),
    }));
    s.at(None, None, None).push(Event::Runtime(RuntimeEvent::Stopped {})).push(Event::Journal(JournalEvent::Closed {}));
}

fn intent() -> PublicationIntent {
    serde_json::from_value(serde_json::json!({
        "path": "data/report.csv",
        "host_path": "/home/ada/payments-api/data/report.csv",
        "bytes": 3140,
        "sha256": Digest::of("report").to_string(),
        "device": "1", "inode": "7", "parent_device": "1", "parent_inode": "2",
    }))
    .expect("an intent")
}
