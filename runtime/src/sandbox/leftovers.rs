//! What an earlier run of the same project left: found, removed, counted.
//!
//! Normally there is nothing, because every helper process ends with the one above it. Two marks find what there is:
//! the label in the arguments of supervisors, launchers and inits, and the lease that names the last supervisor.

use super::error::SandboxError;
use super::launcher::NOBODY;
use super::worker::REMOVAL;
use super::{LAUNCH, SUPERVISOR};
use crate::sys;
use nix::fcntl::{Flock, FlockArg};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Held for as long as a program has the project's sandbox; the kernel releases it however the program ends.
pub(super) type Lock = Flock<File>;

/// Which supervisor a project has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lease {
    /// The kernel's id of this boot: after another boot nothing can be left.
    boot: String,
    /// The supervisor's process id.
    process: i32,
    /// When it started, in clock ticks since boot: a process id alone may have been given to another.
    started: u64,
}

/// Takes the project's sandbox, or says who has it.
pub(super) fn lock(state: &Path) -> Result<Lock, SandboxError> {
    let failed = |what: &str, error: io::Error| SandboxError::io(format!("{what} {}", state.display()), error);
    DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(|error| failed("create", error))?;
    let path = state.join("sandbox.lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(|error| failed("open the lock in", error))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| match error {
        nix::Error::EWOULDBLOCK => SandboxError::Busy { lock: path },
        error => failed("lock", error.into()),
    })
}

fn lease_path(state: &Path) -> PathBuf {
    state.join("sandbox.lease")
}

/// Writes down which supervisor the project has now.
pub(super) fn write_lease(state: &Path, process: i32) -> io::Result<()> {
    let lease = Lease { boot: boot()?, process, started: started(process)? };
    let partial = state.join("sandbox.lease.new");
    fs::write(&partial, serde_json::to_vec(&lease)?)?;
    fs::rename(partial, lease_path(state))
}

/// Forgets the supervisor after a clean stop.
pub(super) fn remove_lease(state: &Path) {
    // One that stays is checked against the running processes at the next start.
    let _ = fs::remove_file(lease_path(state));
}

/// Kills every helper process of an earlier run and waits until none is left. Returns how many workers there were.
/// The caller holds the lock, so no run but earlier ones can have any.
pub(super) fn remove(state: &Path, label: &str) -> Result<u32, SandboxError> {
    let failed = |error| SandboxError::io("look for processes of an earlier run", error);
    let mut workers = BTreeSet::new();
    // Killing one makes those below it end by themselves; a second look finds what was just being started.
    for _ in 0..8 {
        let mut found = helpers(label).map_err(failed)?;
        if let Some(process) = leased(state)
            && !found.iter().any(|helper| helper.process == process)
        {
            found.push(Helper { process, group: process, worker: false });
        }
        if found.is_empty() {
            return Ok(u32::try_from(workers.len()).unwrap_or(u32::MAX));
        }
        workers.extend(found.iter().filter(|helper| helper.worker).map(|helper| helper.group));
        let opened: Vec<(i32, OwnedFd)> = found
            .iter()
            .filter_map(|helper| Some((helper.process, sys::open_process(Pid::from_raw(helper.process)).ok()?)))
            // The id may have been given to another process since it was read: look again behind the handle.
            .filter(|(process, _)| {
                helper(*process, label).is_some() || leased(state).is_some_and(|leased| leased == *process)
            })
            .collect();
        for (_, handle) in &opened {
            // One that is gone or not ours to kill shows below.
            let _ = sys::signal_process(handle, Signal::SIGKILL);
        }
        for (process, handle) in &opened {
            let mut ends = [PollFd::new(handle.as_fd(), PollFlags::POLLIN)];
            let patience = PollTimeout::try_from(REMOVAL).unwrap_or(PollTimeout::MAX);
            if poll(&mut ends, patience) == Ok(0) {
                return Err(SandboxError::Leftover { pid: *process });
            }
        }
    }
    match helpers(label).map_err(failed)?.first() {
        Some(helper) => Err(SandboxError::Leftover { pid: helper.process }),
        None => Ok(u32::try_from(workers.len()).unwrap_or(u32::MAX)),
    }
}

/// A supervisor, launcher or init.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Helper {
    process: i32,
    group: i32,
    /// A launcher or an init.
    worker: bool,
}

fn helpers(label: &str) -> io::Result<Vec<Helper>> {
    let processes = fs::read_dir("/proc")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|process| i64::from(*process) != i64::from(std::process::id()));
    Ok(processes.filter_map(|process| helper(process, label)).collect())
}

/// Whether a process is a helper of this label that still runs.
fn helper(process: i32, label: &str) -> Option<Helper> {
    let arguments = fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let mut arguments = arguments.split(|byte| *byte == 0).skip(1);
    let role = arguments.next()?;
    if arguments.next()? != label.as_bytes() || ![SUPERVISOR.as_bytes(), LAUNCH.as_bytes()].contains(&role) {
        return None;
    }
    // Anybody may name a process so; only this user's own can be of an earlier run.
    if !is_own(process) {
        return None;
    }
    let stat = stat(process).ok()?;
    let running = !matches!(stat.first().map(String::as_str), Some("Z" | "X"));
    let group = stat.get(2)?.parse().ok()?;
    running.then_some(Helper { process, group, worker: role == LAUNCH.as_bytes() })
}

/// Whether a process runs as this user, or as the one that root's workers run as.
fn is_own(process: i32) -> bool {
    let own = nix::unistd::geteuid();
    let users = |line: &str| -> Vec<u32> { line.split_whitespace().filter_map(|user| user.parse().ok()).collect() };
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:")).map(users).unwrap_or_default();
    let ours = |user: &u32| *user == own.as_raw() || (own.is_root() && *user == NOBODY);
    !users.is_empty() && users.iter().all(ours)
}

/// The process that the lease names, when it is still that one.
fn leased(state: &Path) -> Option<i32> {
    let lease: Lease = serde_json::from_slice(&fs::read(lease_path(state)).ok()?).ok()?;
    let same = boot().ok()? == lease.boot && started(lease.process).ok()? == lease.started;
    let running = !matches!(stat(lease.process).ok()?.first().map(String::as_str), Some("Z" | "X"));
    (same && running).then_some(lease.process)
}

fn boot() -> io::Result<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|boot| boot.trim().to_owned())
}

/// When a process started, clock ticks since boot.
fn started(process: i32) -> io::Result<u64> {
    let field = stat(process)?.get(19).cloned().unwrap_or_default();
    field.parse().map_err(io::Error::other)
}

/// The fields of `/proc/PID/stat` after the name, which may hold anything: state, parent, group, …
fn stat(process: i32) -> io::Result<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields = text.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    Ok(fields.split_whitespace().map(str::to_owned).collect())
}
