//! From the order to the first byte of a prompt: this boundary and bubblewrap, turn by turn, with the same program.

use std::fs::File;
use std::io::Read as _;
use std::process::{Command, Stdio as Pipe};
use std::time::{Duration, Instant};
use stockade_protocol::contract::WorkerLimits;
use stockade_runtime::sandbox::{Boundary, BoundaryOptions, Stdio, WorkerIo, WorkerSpec};
use tokio::io::AsyncReadExt as _;

const PROGRAM: [&str; 2] = ["/bin/sh", "-i"];
const PROMPT: [(&str, &str); 2] = [("PATH", "/usr/bin:/bin"), ("PS1", "ready> ")];

/// Measures and prints one line of JSON.
pub(crate) async fn main(rounds: &str) {
    let rounds: usize = rounds.parse().unwrap();
    let state = tempfile::tempdir().unwrap();
    let label = format!("bench-{}", std::process::id());
    let boundary = Boundary::start(BoundaryOptions::new(state.path(), label)).await.unwrap();
    let (mut native, mut removal, mut bubblewrap) = (Vec::new(), Vec::new(), Vec::new());
    // The first of each fills caches and is not counted.
    for round in 0..=rounds {
        let (start, end) = by_boundary(&boundary).await;
        let other = by_bubblewrap();
        if round > 0 {
            native.push(start);
            removal.push(end);
            bubblewrap.push(other);
        }
    }
    boundary.stop().await;
    let [native, removal, bubblewrap] = [native, removal, bubblewrap].map(sorted);
    let ratio = quantile(&native, 0.5) / quantile(&bubblewrap, 0.5);
    let told = serde_json::json!({
        "rounds": rounds, "native_ms": told(&native), "bubblewrap_ms": told(&bubblewrap),
        "native_removal_ms": told(&removal), "ratio_of_medians": (ratio * 100.0).round() / 100.0,
    });
    println!("{told}");
}

async fn by_boundary(boundary: &Boundary) -> (f64, f64) {
    let argv = PROGRAM.map(str::to_owned).to_vec();
    let mut spec = WorkerSpec::new("bench", argv, Stdio::Pty { columns: 80, rows: 24 }, WorkerLimits::default());
    spec.environment = PROMPT.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let since = Instant::now();
    let mut worker = boundary.launch(spec, Vec::new()).await.unwrap();
    let Some(WorkerIo::Pty(mut master)) = worker.take_io() else { panic!("no terminal") };
    assert!(master.read(&mut [0; 64]).await.unwrap() > 0);
    let start = since.elapsed();
    let since = Instant::now();
    worker.kill().await;
    (milliseconds(start), milliseconds(since.elapsed()))
}

fn by_bubblewrap() -> f64 {
    let terminal = nix::pty::openpty(None, None).unwrap();
    let since = Instant::now();
    let stream = || Pipe::from(terminal.slave.try_clone().unwrap());
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]);
    command.args(["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"]);
    command.args(["--symlink", "usr/lib64", "/lib64", "--ro-bind", "/etc/ld.so.cache", "/etc/ld.so.cache"]);
    command.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/work", "--chdir", "/work"]);
    for (name, value) in PROMPT {
        command.args(["--setenv", name, value]);
    }
    command.args(PROGRAM);
    let mut child = command.stdin(stream()).stdout(stream()).stderr(stream()).spawn().unwrap();
    let mut master = File::from(terminal.master);
    assert!(master.read(&mut [0; 64]).unwrap() > 0);
    let start = since.elapsed();
    child.kill().unwrap();
    child.wait().unwrap();
    milliseconds(start)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn sorted(mut times: Vec<f64>) -> Vec<f64> {
    times.sort_by(f64::total_cmp);
    times
}

fn quantile(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

fn told(sorted: &[f64]) -> serde_json::Value {
    let at = |part| (quantile(sorted, part) * 100.0).round() / 100.0;
    serde_json::json!({ "p50": at(0.5), "p90": at(0.9), "p99": at(0.99) })
}
