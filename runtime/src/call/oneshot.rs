//! Carrying out a one-shot call: one worker, its output under caps, its end awaited.

use super::World;
use crate::manifest::OutputSpec;
use crate::sandbox::{Exit, Worker, WorkerIo};
use std::os::fd::OwnedFd;
use std::time::Duration;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::result::Removal;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// How a one-shot worker ended.
pub(super) struct OneshotEnd {
    pub(super) exit_code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) truncated: bool,
    pub(super) removal: Removal,
    pub(super) staged: Option<OwnedFd>,
    pub(super) refusal: Option<Refusal>,
}

/// Waits for the worker's end, its deadline or a cancel, and for its confirmed removal.
pub(super) async fn attend(
    mut worker: Worker,
    output: &OutputSpec,
    deadline: Duration,
    cancelled: impl Future<Output = Refusal>,
    world: &World,
) -> OneshotEnd {
    let staged = worker.take_output();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let ended = match worker.take_io() {
        Some(WorkerIo::Pipes { stdin, stdout: mut out, stderr: mut err }) => {
            drop(stdin);
            let cap = output.max_bytes;
            let whole = async {
                // The first stream that is too long ends it: the other one may never.
                tokio::try_join!(read(&mut out, &mut stdout, cap), read(&mut err, &mut stderr, cap))?;
                // A worker that closed its output may go on working, within the same deadline.
                Ok(worker.wait().await)
            };
            tokio::select! {
                biased;
                refusal = cancelled => Err(refusal),
                ended = whole => ended,
                () = tokio::time::sleep(deadline) => Err(late(deadline)),
            }
        }
        _ => Err(Refusal::new(RefusalCode::Unavailable, Authority::Tier, "the boundary gave no pipes")),
    };
    let (end, stopped) = match ended {
        Ok(end) => (end, None),
        Err(refusal) => (worker.kill().await, Some(refusal)),
    };
    let truncated = stopped.as_ref().is_some_and(|refusal| refusal.code == RefusalCode::Limit);
    let refusal = stopped.or_else(|| judge(end.exit));
    let text = |bytes: &[u8]| world.redactor.text(&String::from_utf8_lossy(bytes)).0;
    OneshotEnd {
        exit_code: match end.exit {
            Exit::Code(code) => Some(code),
            Exit::Signal(_) | Exit::Unknown => None,
        },
        stdout: text(&stdout),
        stderr: text(&stderr),
        truncated,
        removal: end.removal,
        staged,
        refusal,
    }
}

async fn read(from: &mut (impl AsyncRead + Unpin), into: &mut Vec<u8>, cap: usize) -> Result<(), Refusal> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let room = cap.saturating_sub(into.len());
        match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return Ok(()),
            Ok(count) => {
                into.extend_from_slice(buffer.get(..count.min(room)).unwrap_or_default());
                if count > room {
                    let reason = format!("the output is longer than {cap} bytes");
                    return Err(Refusal::new(RefusalCode::Limit, Authority::Manifest, reason)
                        .next("Ask for less, or raise max_bytes in the manifest"));
                }
            }
        }
    }
}

fn late(deadline: Duration) -> Refusal {
    let reason = format!("it did not end within {} s and was stopped", deadline.as_secs_f32());
    Refusal::new(RefusalCode::Timeout, Authority::Clock, reason)
}

fn judge(exit: Exit) -> Option<Refusal> {
    match exit {
        Exit::Code(0) => None,
        Exit::Code(code) => {
            Some(Refusal::new(RefusalCode::Failed, Authority::Tier, format!("it ended with exit status {code}")))
        }
        Exit::Signal(signal) if signal == libc::SIGXCPU || signal == libc::SIGXFSZ => {
            let what = if signal == libc::SIGXCPU { "CPU time" } else { "file size" };
            Some(Refusal::new(RefusalCode::Limit, Authority::Tier, format!("it reached its bound of {what}")))
        }
        Exit::Signal(signal) => {
            Some(Refusal::new(RefusalCode::Failed, Authority::Tier, format!("it was ended by signal {signal}")))
        }
        Exit::Unknown => Some(
            Refusal::new(RefusalCode::InDoubt, Authority::Tier, "how it ended is not known")
                .next("A person must look whether it took effect"),
        ),
    }
}
