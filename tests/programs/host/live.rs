//! Holds one live session until somebody kills something.

use std::time::Duration;
use stockade_protocol::contract::WorkerLimits;
use stockade_runtime::sandbox::{Boundary, BoundaryOptions, PtyMaster, Stdio, Worker, WorkerEnd, WorkerIo, WorkerSpec};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Starts a boundary, says what it found, and talks to a worker with stubborn descendants until the worker ends. Says
/// how it ended, stops, and ends too.
pub(crate) async fn main(state: &str, label: &str) {
    let boundary = Boundary::start(BoundaryOptions::new(state, label)).await.unwrap();
    println!("found {}", boundary.removed_leftovers());
    let end = match launch(&boundary, label).await {
        Ok(mut worker) => talk(&mut worker).await,
        Err(error) => {
            println!("refused {error}");
            None
        }
    };
    println!("ended {end:?}");
    println!("stopped {:?}", boundary.stop().await);
}

async fn launch(boundary: &Boundary, label: &str) -> Result<Worker, stockade_runtime::sandbox::SandboxError> {
    // The label among the arguments is how the test finds each of them.
    let script = "trap '' HUP TERM INT
        setsid sh -c 'trap \"\" HUP TERM INT; while :; do sleep 0.01; done' $0 &
        (setsid sh -c 'trap \"\" HUP TERM INT; while :; do sleep 1; done' $0 &)
        echo up
        while read -r line; do echo \"$line\"; done";
    let argv = ["/bin/sh", "-c", script, label].map(str::to_owned).to_vec();
    let terminal = Stdio::Pty { columns: 80, rows: 24 };
    boundary.launch(WorkerSpec::new("live", argv, terminal, WorkerLimits::default()), Vec::new()).await
}

async fn talk(worker: &mut Worker) -> Option<WorkerEnd> {
    let Some(WorkerIo::Pty(mut master)) = worker.take_io() else { panic!("no terminal") };
    println!("live");
    let mut end = None;
    tokio::select! {
        () = chat(&mut master) => {}
        found = worker.wait() => end = Some(found),
    }
    Some(match end {
        Some(end) => end,
        None => worker.wait().await,
    })
}

/// Ends when the terminal does.
async fn chat(master: &mut PtyMaster) {
    let mut buffer = [0; 256];
    loop {
        if master.write_all(b"hello\n").await.is_err() || master.read(&mut buffer).await.unwrap_or(0) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
