//! What a governed one-shot call costs, by stage, on the real boundary and the real journal.
//!
//! Each benchmark goes further along the call path than the one before: `judge` stops after authorize, `record` is one
//! durable journal record (a call writes six), `worker` is the bare start and end of one worker, `call` is all of it.
//! Method and ratios: `docs/performance.md`. Run with `cargo bench --bench call`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a benchmark fails by panicking"
)]

#[path = "../tests/support/mod.rs"]
mod support;

use criterion::{Criterion, criterion_group, criterion_main};
use stockade_protocol::command::{Command, Reply};
use stockade_protocol::contract::WorkerLimits;
use stockade_protocol::event::{Event, TurnEvent};
use stockade_runtime::control::Serve as _;
use stockade_runtime::journal::{Entry, Journal};
use stockade_runtime::ports::Ports;
use stockade_runtime::redact::Redactor;
use stockade_runtime::sandbox::{Boundary, BoundaryOptions, Stdio, WorkerSpec};
use support::{Yard, person, request};

/// A directory that nobody else may reach, as stockade asks of its own.
fn private() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o700)).tempdir().unwrap()
}

fn stages(criterion: &mut Criterion) {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let yard = Yard::new();
    let runtime = tokio.block_on(yard.start());
    let mut group = criterion.benchmark_group("one-shot");
    group.sample_size(50);

    group.bench_function("judge", |bencher| {
        bencher.iter(|| {
            let command = Command::Check { request: request("count", &[]) };
            let reply = tokio.block_on(runtime.command(&person(), command));
            assert!(matches!(reply, Reply::Checked { permitted: true, .. }));
        });
    });

    let folder = private();
    let (journal, _) = {
        let _inside = tokio.enter();
        let at = |name| folder.path().join(name);
        Journal::open(&at("journal"), &at("journal.key"), Redactor::standard(), Ports::system()).unwrap()
    };
    group.bench_function("record", |bencher| {
        bencher.iter(|| {
            let event = Event::Turn(TurnEvent::Prompted { text: "x".repeat(400).into() });
            tokio.block_on(journal.append(Entry { run: None, session: None, call: None, event })).unwrap();
        });
    });

    let state = private();
    let boundary = tokio
        .block_on(Boundary::start(BoundaryOptions {
            executable: env!("CARGO_BIN_EXE_stockade").into(),
            state: state.path().to_owned(),
            label: "bench".to_owned(),
        }))
        .unwrap();
    group.bench_function("worker", |bencher| {
        bencher.iter(|| {
            tokio.block_on(async {
                let argv = vec!["true".to_owned()];
                let spec = WorkerSpec::new("bench", argv, Stdio::Pipes, WorkerLimits::default());
                let mut worker = boundary.launch(spec, Vec::new()).await.unwrap();
                worker.wait().await
            })
        });
    });

    group.bench_function("call", |bencher| {
        bencher.iter(|| {
            let command = Command::Call { request: request("count", &[]), run: None };
            let reply = tokio.block_on(runtime.command(&person(), command));
            assert!(matches!(&reply, Reply::Result { result } if result.refusal.is_none()), "{reply:?}");
        });
    });
    group.finish();
    tokio.block_on(async {
        runtime.stop().await.unwrap();
        boundary.stop().await;
        journal.close().await.unwrap();
    });
}

criterion_group!(benches, stages);
criterion_main!(benches);
