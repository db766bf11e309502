//! How fast the journal appends and verifies, and what redaction costs.
//!
//! `cargo bench -p stockade-runtime --bench journal` measures with criterion. `tests/bench/journal.py` runs this program
//! with `--round DIR WAITING RECORDS` instead, in turns with SQLite on the same bytes.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a benchmark")]

use criterion::{Criterion, Throughput};
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;
use stockade_protocol::event::{Event, TurnEvent};
use stockade_protocol::ids::RunId;
use stockade_runtime::journal::{Entry, Journal, verify};
use stockade_runtime::ports::Ports;
use stockade_runtime::redact::Redactor;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// An entry whose record has about 512 bytes.
fn entry(n: u64) -> Entry {
    let text = format!("{n:08} {}", "The quick brown fox jumps over the lazy dog. ".repeat(5));
    Entry { run: Some(RunId::from_bits([1; 16])), ..Event::Turn(TurnEvent::Prompted { text: text.into() }).into() }
}

fn open(place: &Path) -> Journal {
    std::fs::create_dir_all(place).unwrap();
    std::fs::set_permissions(place, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let (dir, key) = (place.join("journal"), place.join("journal.key"));
    Journal::open(&dir, &key, Redactor::standard(), Ports::system()).unwrap().0
}

/// Appends records, each answered when durable, with so many callers waiting at any time.
async fn append(journal: &Journal, waiting: u64, records: u64) {
    let mut callers = JoinSet::new();
    for caller in 0..waiting {
        let journal = journal.clone();
        callers.spawn(async move {
            for n in (caller..records).step_by(usize::try_from(waiting).unwrap()) {
                journal.append(entry(n)).await.unwrap();
            }
        });
    }
    callers.join_all().await;
}

/// One round for the script: seconds on standard output, the records left for others to write again.
fn round(place: &Path, waiting: u64, records: u64) {
    let runtime = Runtime::new().unwrap();
    let journal = open(place);
    let started = Instant::now();
    runtime.block_on(append(&journal, waiting, records));
    println!("{}", started.elapsed().as_secs_f64());
    runtime.block_on(journal.close()).unwrap();
    assert!(verify::verify(&place.join("journal")).is_intact());
}

fn measure(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let place = tempfile::tempdir().unwrap();
    let journal = open(&place.path().join("append"));
    let mut group = criterion.benchmark_group("append, durable");
    for waiting in [1, 64] {
        group.throughput(Throughput::Elements(waiting));
        group.bench_function(format!("{waiting} waiting"), |bencher| {
            bencher.iter(|| runtime.block_on(append(&journal, waiting, waiting)));
        });
    }
    group.finish();
    drop(journal);

    let large = place.path().join("verify");
    let journal = open(&large);
    runtime.block_on(append(&journal, 512, 50_000));
    runtime.block_on(journal.close()).unwrap();
    let dir = large.join("journal");
    let mut group = criterion.benchmark_group("verify");
    group.throughput(Throughput::Bytes(std::fs::metadata(dir.join("records.jsonl")).unwrap().len()));
    group.sample_size(20);
    group.bench_function("50,000 records", |bencher| {
        bencher.iter(|| assert!(verify::verify(black_box(&dir)).is_intact()));
    });
    group.finish();

    let redactor = Redactor::standard();
    let text = "drwxr-xr-x  2 user user 4096 Nov 30 21:27 report; secretary, password policy, 12% done\n".repeat(200);
    let mut group = criterion.benchmark_group("redact");
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("terminal text", |bencher| bencher.iter(|| redactor.bytes(black_box(text.as_bytes()))));
    group.finish();
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_, "--round", place, waiting, records] => {
            round(Path::new(place), waiting.parse().unwrap(), records.parse().unwrap());
        }
        // For a machine that others use too: divide by the processor time that the shell's `time` shows.
        [_, "--verify", place, times] => {
            for _ in 0..times.parse().unwrap() {
                assert!(verify::verify(&Path::new(place).join("journal")).is_intact());
            }
        }
        _ => {
            let mut criterion = Criterion::default().configure_from_args();
            measure(&mut criterion);
            criterion.final_summary();
        }
    }
}
