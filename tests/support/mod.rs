//! A project in a temporary directory and a runtime on it, with the real boundary: workers start from the real program.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test binary uses its part")]

pub mod order;
pub mod pty;
pub mod tui;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use stockade_protocol::command::{Command, Pending, Reply};
use stockade_protocol::event::{Event, EventEnvelope, EventSource as _};
use stockade_protocol::ids::{CallId, Principal, RunId};
use stockade_protocol::receipt::{Decision, Receipt, ReceiptBody};
use stockade_protocol::refusal::{Refusal, RefusalCode};
use stockade_protocol::request::{Origin, ToolCallRequest};
use stockade_protocol::result::CallResult;
use stockade_runtime::approval::ApproverKey;
use stockade_runtime::control::{Caller, Serve as _};
use stockade_runtime::ports::Ports;
use stockade_runtime::project::{Environment, Places, Project};
use stockade_runtime::{Options, Runtime, StartError};
use tempfile::TempDir;

/// Long enough for anything on a slow machine; never waited out when things go well.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A project folder and the places beside it.
pub struct Yard {
    folder: TempDir,
    pub approver: ApproverKey,
}

/// A session tool that answers lines: `echo TEXT` repeats, `size` tells the terminal's size, `length TEXT` its length,
/// `prompt` prints the prompt's text as output, `hang` never answers, `save` writes the output, `raw TEXT` prints
/// escapes.
pub const TALK: &str = r#"
[tool]
name = "talk"
version = "1.0.0"
description = "A program that answers lines"
binary = "sh"
mode = "session"
allow_interpreter = true
timeout_seconds = 20

[session]
startup_command = "/bin/sh bin/talk.sh"
ready_pattern = "talk> "
startup_timeout_seconds = 20
idle_timeout_seconds = 300
session_timeout_seconds = 600
max_interactions = 20

[session.interaction]
output_max_bytes = 1048576

[session.commands.say]
pattern = "(echo|length|count|raw|split) .*|size|prompt|where"
description = "Answers"

[session.commands.hang]
pattern = "hang"
description = "Never answers"

[session.commands.ask]
pattern = "risky [a-z]+"
description = "Needs a person"
human_approval = true

[session.commands.save]
pattern = "save"
description = "Writes the output and ends the session"
human_approval = true
finalize = true

[filesystem]
read = ["bin/talk.sh", "data/in.txt"]
create = ["out/result.txt"]
"#;

pub const TALK_SH: &str = r#"
prompt() { printf 'talk> '; }
prompt
while IFS= read -r line; do
  case "$line" in
    "echo "*) printf '%s\n' "${line#echo }" ;;
    "length "*) printf '%s\n' "${#line}" ;;
    "count "*) awk -v n="${line#count }" 'BEGIN { for (i = 0; i < n; i++) print i }' ;;
    "raw "*) printf '\033[31m%s\033[0m\n' "${line#raw }" ;;
    "split "*) printf 'talk\033[0m> '; printf '%s\n' "${line#split }" ;;
    "risky "*) printf 'did %s\n' "${line#risky }" ;;
    prompt) printf 'talk> \n' ;;
    size) stty size ;;
    where) pwd; cat data/in.txt ;;
    hang) sleep 600 ;;
    save) printf 'saved\n' > out/result.txt; printf 'ok\n' ;;
  esac
  prompt
done
"#;

pub const COUNT: &str = r#"
[tool]
name = "count"
version = "1.0.0"
description = "Counts the bytes of the input"
binary = "wc"
timeout_seconds = 20

[command]
exec = ["wc", "-c", "data/in.txt"]

[filesystem]
read = ["data/in.txt"]
"#;

pub const POLICY: &str = "permit (principal, action, resource);\n";

/// A scripted agent: what it says in each turn, and the lines it has typed by which callables.
pub fn script(turns: &[(&str, &[(&str, &str)])]) -> String {
    let mut script = "provider = \"scripted\"\n".to_owned();
    for (say, calls) in turns {
        script += &format!("\n[[turn]]\nsay = {say:?}\n");
        for (tool, command) in *calls {
            script += &format!("[[turn.call]]\ntool = {tool:?}\narguments = {{ command = {command:?} }}\n");
        }
    }
    script
}

impl Yard {
    /// The usual project: the tools above and a policy that permits everything.
    pub fn new() -> Self {
        let yard = Self::bare();
        yard.write("tools/talk.clad.toml", TALK);
        yard.write("tools/count.clad.toml", COUNT);
        yard.write("policies/all.cedar", POLICY);
        yard.write("bin/talk.sh", TALK_SH);
        yard.write("data/in.txt", "hello\n");
        fs::create_dir_all(yard.root().join("out")).unwrap();
        yard
    }

    /// A project without tools and policies.
    pub fn bare() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("project")).unwrap();
        let yard = Self { folder, approver: ApproverKey::ephemeral("tester") };
        yard.configure(20, 60);
        yard
    }

    pub fn configure(&self, wait_seconds: u64, receipt_seconds: u64) {
        let text = format!(
            "[project]\nname = \"yard\"\n[sandbox]\ntier = \"native\"\nnetwork_mode = \"none\"\n[approvals]\nwait_seconds = {wait_seconds}\nreceipt_seconds = {receipt_seconds}\n"
        );
        self.write("stockade.toml", &text);
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().join("project").canonicalize().unwrap()
    }

    pub fn places(&self) -> Places {
        let at = |name| self.folder.path().join(name);
        Places { config: at("config/stockade"), state: at("state/stockade"), runtime: at("state/stockade/run") }
    }

    /// The environment under which the real program has these places.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let at = |name| self.folder.path().join(name).display().to_string();
        vec![
            ("PATH", "/usr/bin:/bin".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("HOME", at("home")),
            ("XDG_CONFIG_HOME", at("config")),
            ("XDG_STATE_HOME", at("state")),
        ]
    }

    /// The real program in the project's folder.
    pub fn program(&self) -> std::process::Command {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_stockade"));
        command.current_dir(self.root()).env_clear().envs(self.environment());
        command.stdin(std::process::Stdio::null());
        command
    }

    /// Trusts the project as it is now.
    pub fn trust(&self) {
        Project::open(&self.root()).unwrap().record_trust(&self.places()).unwrap();
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join("project").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub async fn try_start(&self) -> Result<Runtime, StartError> {
        self.try_start_as(Environment::Development, Ports::system()).await
    }

    pub async fn try_start_as(&self, environment: Environment, ports: Ports) -> Result<Runtime, StartError> {
        let options = Options {
            environment,
            executable: env!("CARGO_BIN_EXE_stockade").into(),
            approvers: vec![("tester".to_owned(), self.approver.public())],
            person: Principal::person("tester"),
            ports,
        };
        self.trust();
        Runtime::start(Project::open(&self.root()).unwrap(), &self.places(), options).await
    }

    pub async fn start(&self) -> Runtime {
        self.try_start().await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// A signed answer to what waits.
    pub fn receipt(&self, pending: &Pending, decision: Decision, reason: Option<&str>) -> Receipt {
        self.receipt_by(&self.approver, pending, decision, reason)
    }

    pub fn receipt_by(
        &self,
        key: &ApproverKey,
        pending: &Pending,
        decision: Decision,
        reason: Option<&str>,
    ) -> Receipt {
        let ports = Ports::system();
        let time = ports.now();
        let body = ReceiptBody {
            call: pending.call,
            contract: pending.contract,
            shown: pending.card.digest(),
            decision,
            reason: reason.map(ToOwned::to_owned),
            approver: String::new(),
            key: String::new(),
            time,
            expires: time.plus_ms(30_000),
            nonce: CallId::from_bits(ports.random()).to_string(),
        };
        key.sign(body).unwrap()
    }
}

/// The person at the keyboard.
pub fn person() -> Caller {
    Caller { principal: Principal::person("tester"), origin: Origin::Cli, client: "test".to_owned(), connection: 1 }
}

/// An agent over MCP.
pub fn agent(name: &str, connection: u64) -> Caller {
    Caller { principal: Principal::agent(name), origin: Origin::Mcp, client: name.to_owned(), connection }
}

pub fn request(tool: &str, arguments: &[(&str, &str)]) -> ToolCallRequest {
    ToolCallRequest {
        tool: tool.to_owned(),
        arguments: arguments.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        invocation_id: None,
        reason: None,
    }
}

pub fn line(tool: &str, command: &str) -> ToolCallRequest {
    request(tool, &[("command", command)])
}

pub async fn open_run(runtime: &Runtime, caller: &Caller) -> RunId {
    match runtime.command(caller, Command::OpenRun { title: "test".to_owned() }).await {
        Reply::Started { run } => run,
        other => panic!("{other:?}"),
    }
}

pub async fn end_run(runtime: &Runtime, caller: &Caller, run: RunId) {
    assert_eq!(runtime.command(caller, Command::EndRun { run }).await, Reply::Done {});
}

/// A call's result. A refusal before a run was found is a refused result too.
pub async fn call(runtime: &Runtime, caller: &Caller, run: Option<RunId>, request: ToolCallRequest) -> CallResult {
    let command = Command::Call { request, run };
    match tokio::time::timeout(PATIENCE, runtime.command(caller, command)).await.expect("the call ends") {
        Reply::Result { result } => *result,
        Reply::Refused { refusal } => {
            let none = [0; 16];
            CallResult::refused(CallId::from_bits(none), RunId::from_bits(none), "", refusal)
        }
        other => panic!("{other:?}"),
    }
}

pub fn refusal(result: &CallResult) -> &Refusal {
    result.refusal.as_ref().unwrap_or_else(|| panic!("{result:?} was not refused"))
}

pub fn code(result: &CallResult) -> Option<RefusalCode> {
    result.refusal.as_ref().map(|refusal| refusal.code)
}

/// Waits until `count` calls wait for a person.
pub async fn pending(runtime: &Runtime, count: usize) -> Vec<Pending> {
    let events = runtime.events();
    let waiting = async {
        loop {
            let seen = events.len();
            if let Reply::Approvals { pending } = runtime.command(&person(), Command::ListApprovals).await
                && pending.len() >= count
            {
                return pending;
            }
            events.changed(seen).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("the calls come to wait")
}

/// Waits for an event.
pub async fn event(runtime: &Runtime, mut wanted: impl FnMut(&EventEnvelope) -> bool) {
    let events = runtime.events();
    let waiting = async {
        let mut at = 0;
        loop {
            for envelope in events.pull(at, usize::MAX) {
                at = envelope.seq + 1;
                if wanted(&envelope) {
                    return;
                }
            }
            events.changed(at).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("the event comes");
}

/// All events so far.
pub fn events(runtime: &Runtime) -> Vec<Event> {
    runtime.events().pull(0, usize::MAX).iter().map(|envelope| envelope.event.clone()).collect()
}

/// All records so far.
pub fn records(runtime: &Runtime) -> Vec<Arc<EventEnvelope>> {
    runtime.events().pull(0, usize::MAX)
}

/// Yes or no to what waits.
pub async fn decide(runtime: &Runtime, receipt: Receipt) -> Reply {
    runtime.command(&person(), Command::Decide { receipt }).await
}

/// The supervisor, the launchers and the workers' first processes of the project in `folder`, each with its arguments,
/// which hold the project's label.
pub fn helpers(yard: &Yard, folder: &Path) -> Vec<(i32, String)> {
    let state = yard.places().project_state(folder);
    let label = state.file_name().unwrap().to_str().unwrap();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let read = all.filter_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        Some((entry.file_name().to_str()?.parse().ok()?, line))
    });
    read.filter(|(_, line)| line.contains(label)).collect()
}

/// A journal verifies, and nothing in it is unsealed.
pub fn verified(journal: &Path) {
    let report = stockade_runtime::journal::verify::verify(journal);
    assert!(report.is_intact(), "{report:?}");
}
