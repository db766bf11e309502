//! Runs the probe in workers.

use crate::bait;
use serde::Deserialize;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;
use stockade_protocol::contract::WorkerLimits;
use stockade_protocol::digest::Digest;
use stockade_runtime::sandbox::{
    Boundary, BoundaryOptions, InputSpec, OutputSpec, Profile, Rule, Stdio, Worker, WorkerIo, WorkerSpec,
};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// What the test asks for.
#[derive(Debug, Deserialize)]
struct Plan {
    /// A directory of this user's own.
    home: PathBuf,
    /// The probe.
    probe: PathBuf,
    /// The word to look for.
    canary: String,
    runs: Vec<Run>,
}

/// One worker.
#[derive(Debug, Deserialize)]
struct Run {
    /// Rules taken away.
    without: Vec<Rule>,
    /// On a terminal rather than pipes.
    terminal: bool,
    /// Give it the variable that it must not inherit.
    variable: bool,
    attempts: Vec<String>,
}

/// Small enough to be met by a probe in a moment.
const LIMITS: WorkerLimits = WorkerLimits {
    processes: 24,
    open_files: 64,
    file_bytes: 8 << 20,
    address_space_bytes: 512 << 20,
    cpu_seconds: 1,
    tmp_bytes: 4 << 20,
    output_bytes: 1 << 20,
    lifetime_ms: 60_000,
};

pub(crate) async fn main() {
    let plan: Plan = serde_json::from_reader(std::io::stdin()).unwrap();
    let mut bait = bait::lay(&plan.home, &plan.canary);
    bait.context["file_bytes"] = LIMITS.file_bytes.into();
    bait.context["too_much"] = (2 * LIMITS.tmp_bytes).into();
    bait.context["too_large"] = (2 * LIMITS.address_space_bytes).into();
    bait.context["too_many"] = 128.into();
    let label = format!("probe-{}", std::process::id());
    let boundary = Boundary::start(BoundaryOptions::new(plan.home.join("state"), label)).await.unwrap();
    let program = std::fs::read(&plan.probe).unwrap();
    for (number, run) in plan.runs.iter().enumerate() {
        let context = bait.context.to_string();
        let (mut worker, mut output) = launch(&boundary, run, &program, &context, &plan).await;
        if number == 0 {
            println!("{}", serde_json::json!({ "enforcement": worker.enforcement }));
        }
        let seen = if run.attempts.iter().any(|name| name == "outlive") {
            outlive(&mut worker, &mut output).await
        } else {
            let mut text = String::new();
            output.read_to_string(&mut text).await.unwrap();
            worker.wait().await;
            text
        };
        for line in seen.lines().filter(|line| !line.trim().is_empty()) {
            let mut line: serde_json::Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("run {number}: {line:?}: {error}"));
            line["run"] = number.into();
            println!("{line}");
        }
    }
    boundary.stop().await;
}

type Output = Box<dyn AsyncRead + Unpin>;

async fn launch(boundary: &Boundary, run: &Run, program: &[u8], context: &str, plan: &Plan) -> (Worker, Output) {
    let mut argv = vec!["/work/probe".to_owned(), context.to_owned()];
    argv.extend(run.attempts.iter().cloned());
    let stdio = if run.terminal { Stdio::Pty { columns: 80, rows: 24 } } else { Stdio::Pipes };
    let mut spec = WorkerSpec::new("probe", argv, stdio, LIMITS);
    spec.inputs = vec![InputSpec { path: "probe".into(), bytes: program.len() as u64, sha256: Digest::of(program) }];
    spec.output = Some(OutputSpec { path: "out".into(), max_bytes: 4096 });
    spec.profile = run.without.iter().fold(Profile::standard(), |profile, rule| profile.without(*rule));
    if run.variable {
        spec.environment = [("GRANTED".to_owned(), plan.canary.clone())].into();
    }
    let input = OwnedFd::from(File::open(&plan.probe).unwrap());
    let mut worker =
        boundary.launch(spec, vec![input]).await.unwrap_or_else(|error| panic!("without {:?}: {error}", run.without));
    let output: Output = match worker.take_io() {
        Some(WorkerIo::Pty(master)) => Box::new(master),
        Some(WorkerIo::Pipes { stdout, .. }) => Box::new(stdout),
        None => panic!("a worker has streams"),
    };
    (worker, output)
}

/// Whether what the probe left behind still holds the output open once the worker is said to be gone.
async fn outlive(worker: &mut Worker, output: &mut Output) -> String {
    let end = worker.wait().await;
    assert_eq!(end.removal, stockade_protocol::result::Removal::Confirmed);
    let mut text = String::new();
    let alive = tokio::time::timeout(Duration::from_secs(1), output.read_to_string(&mut text)).await.is_err();
    let (outcome, errno) = if alive { ("allowed", "") } else { ("killed", "SIGKILL") };
    serde_json::json!({ "attempt": "outlive", "outcome": outcome, "errno": errno }).to_string()
}
