//! What the native tier needs of the machine, found out by trying it.
//!
//! The trial is a whole launch, by the very code that launches workers, short only of executing a program. What it
//! could not do is matched with the switches that commonly forbid it, so that the answer is a cause and a command
//! rather than a number.

use super::error::{Failure, Stage};
use super::fault::{Fault, Step as _};
use super::filter::Filters;
use super::spec::{Stdio, WorkerSpec};
use super::wire::{self, Order, Report};
use super::{launcher, memory};
use crate::sys;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::waitpid;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use stockade_protocol::contract::WorkerLimits;
use stockade_protocol::digest::Digest;
use stockade_protocol::event::Enforcement;

/// How long the trial may stand still, milliseconds.
const TRIAL_MS: u16 = 10_000;

/// One thing the native tier needs or would like, and whether this machine has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its name, e.g. `user namespaces`.
    pub name: String,
    /// Whether it is there.
    pub ok: bool,
    /// Whether the tier refuses without it; otherwise it only says what will not be enforced.
    pub required: bool,
    /// What was tried, and the kernel's answer.
    pub what: String,
    /// Why it is not there; empty when it is.
    pub cause: String,
    /// The one command that changes it; empty when there is none or nothing to change.
    pub cure: String,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.what)?;
        if !self.cause.is_empty() {
            write!(f, "; {}", self.cause)?;
        }
        if !self.cure.is_empty() {
            write!(f, "; to change it: {}", self.cure)?;
        }
        Ok(())
    }
}

/// Tries everything a worker needs, short of running a program, and reports each thing. The running program's `main`
/// must begin with [`super::entry`].
#[must_use]
pub fn probe() -> Vec<Check> {
    probe_with(Path::new("/proc/self/exe"))
}

/// As [`probe`], with another program that begins with [`super::entry`].
#[must_use]
pub fn probe_with(executable: &Path) -> Vec<Check> {
    checks(&rehearse(executable), &Machine::look())
}

/// The first required thing that is missing, tried with the program that will be the launcher.
pub(super) fn missing(executable: &Path) -> Option<Check> {
    probe_with(executable).into_iter().find(|check| check.required && !check.ok)
}

/// Switches of the machine that explain a refusal.
#[derive(Debug, Clone, Default)]
struct Machine {
    /// `kernel.unprivileged_userns_clone`, where the kernel has it.
    userns_clone: Option<u64>,
    /// `user.max_user_namespaces`.
    max_user_namespaces: Option<u64>,
    /// `kernel.apparmor_restrict_unprivileged_userns`, where the kernel has it.
    apparmor_restricts: Option<u64>,
    /// Whether this looks like the inside of a container.
    container: bool,
    /// Landlock's ABI, 0 without.
    landlock_abi: u32,
    /// The running program.
    executable: PathBuf,
    /// A cgroup this user may make groups in, with the memory controller.
    cgroup: Option<PathBuf>,
}

impl Machine {
    fn look() -> Self {
        let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse().ok();
        Self {
            userns_clone: number("/proc/sys/kernel/unprivileged_userns_clone"),
            max_user_namespaces: number("/proc/sys/user/max_user_namespaces"),
            apparmor_restricts: number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
            container: ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| Path::new(mark).exists()),
            landlock_abi: sys::landlock_abi(),
            executable: fs::read_link("/proc/self/exe").unwrap_or_default(),
            cgroup: delegated_cgroup(),
        }
    }
}

/// The version 2 cgroup of this process, when it may make groups in it and they could limit memory.
fn delegated_cgroup() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let path = Path::new("/sys/fs/cgroup").join(own);
    let controllers = fs::read_to_string(path.join("cgroup.controllers")).ok()?;
    let writable = nix::unistd::access(&path, nix::unistd::AccessFlags::W_OK).is_ok();
    (writable && controllers.split_whitespace().any(|controller| controller == "memory")).then_some(path)
}

/// A launch of nothing: what a worker would have measured, or where it stopped.
fn rehearse(executable: &Path) -> Result<Enforcement, Failure> {
    let here = |fault: Fault| fault.at(Stage::Supervisor);
    if !super::may_help(executable) {
        let detail = "this program's main does not begin with sandbox::entry: call it first, or name another program";
        return Err(here(Fault::new("start a launcher", detail)));
    }
    let stdio = Stdio::Pty { columns: 80, rows: 24 };
    let spec = WorkerSpec::new("trial", vec!["true".to_owned()], stdio, WorkerLimits::default());
    let bytes = spec.to_bytes().map_err(|error| here(error.into()))?;
    let filters = Filters::compile().map_err(|error| here(Fault::new("compile seccomp filters", error)))?;
    let filters = memory::sealed("filters", &filters.to_bytes()).step("make a memory file").map_err(here)?;
    let memory = memory::sealed("specification", &bytes).step("make a memory file").map_err(here)?;
    let namespaces = wire::namespaces().step("read /proc/self/ns").map_err(here)?;
    let order = Order { digest: Digest::of(&bytes), namespaces, rehearse: true };
    let (launcher, reports) = launcher::spawn(executable, "doctor", "trial").step("start a launcher").map_err(here)?;
    let sent = wire::send(&reports, &order, &[memory.as_fd(), filters.as_fd()]);
    let mut answer = sent.step("order a launch").map_err(here).and_then(|()| {
        Err(here(Fault::new("start a launcher", format!("{} is not this version of stockade", executable.display()))))
    });
    loop {
        let mut ends = [PollFd::new(reports.as_fd(), PollFlags::POLLIN)];
        if poll(&mut ends, PollTimeout::from(TRIAL_MS)) == Ok(0) {
            answer = Err(here(Fault::new("wait for the trial", format!("it stood still for {TRIAL_MS} ms"))));
            break;
        }
        match wire::receive(&reports) {
            Ok(Some((Report::Started { enforcement }, _))) => answer = Ok(enforcement),
            Ok(Some((Report::Failed { failure }, _))) => {
                answer = Err(failure);
                break;
            }
            Ok(Some((Report::Init {} | Report::Exited { .. }, _))) => {}
            Ok(None) | Err(_) => break,
        }
    }
    drop(reports);
    // It has ended, or ends now; a launcher that ended is only waited for.
    let _ = killpg(launcher, Signal::SIGKILL);
    while waitpid(launcher, None) == Err(nix::Error::EINTR) {}
    answer
}

/// What is tried, in the order it is tried in.
const NEEDS: [(&str, &str); 5] = [
    ("user namespaces", "unshare and map one user"),
    ("mounts", "build a root of read-only system directories and pivot into it"),
    ("own /proc", "mount /proc in a new PID namespace"),
    ("own terminals", "mount devpts and open a terminal in it"),
    ("seccomp", "install the filters and drop every capability"),
];

/// Which need a failed step belongs to.
fn need(failure: &Failure) -> usize {
    let step = failure.step.as_str();
    match failure.stage {
        Stage::Supervisor | Stage::Launcher => 0,
        Stage::Init if step.contains("/proc") => 2,
        Stage::Init if step.contains("/dev/pts") || step.contains("terminal") => 3,
        Stage::Init => 1,
        Stage::Worker => 4,
    }
}

fn checks(trial: &Result<Enforcement, Failure>, machine: &Machine) -> Vec<Check> {
    let failed = trial.as_ref().err().map(|failure| (need(failure), failure));
    let mut checks: Vec<Check> = NEEDS
        .iter()
        .enumerate()
        .map(|(at, (name, tried))| {
            let check =
                |ok, what, (cause, cure)| Check { name: (*name).to_owned(), ok, required: true, what, cause, cure };
            let none = || (String::new(), String::new());
            match failed {
                Some((stopped, failure)) if at == stopped => {
                    check(false, format!("{tried}: {failure}"), explain(failure, machine))
                }
                Some((stopped, _)) if at > stopped => {
                    check(false, "not tried, because an earlier step failed".to_owned(), none())
                }
                _ => check(true, (*tried).to_owned(), none()),
            }
        })
        .collect();
    checks.push(landlock(trial, machine));
    checks.push(total_memory(machine));
    checks
}

fn landlock(trial: &Result<Enforcement, Failure>, machine: &Machine) -> Check {
    let abi = trial.as_ref().map_or(machine.landlock_abi, |enforcement| enforcement.landlock_abi);
    let missing = abi == 0;
    Check {
        name: "Landlock".to_owned(),
        ok: !missing,
        required: false,
        what: if missing { "not there".to_owned() } else { format!("second layer at ABI {abi}") },
        cause: if missing {
            "the kernel was built or started without it; every property has another enforcer".to_owned()
        } else {
            String::new()
        },
        cure: String::new(),
    }
}

fn total_memory(machine: &Machine) -> Check {
    let cgroup = match &machine.cgroup {
        Some(path) => format!("{} could limit it", path.display()),
        None => "no cgroup of this user could limit it".to_owned(),
    };
    Check {
        name: "total memory".to_owned(),
        ok: false,
        required: false,
        what: format!("not limited; {cgroup}"),
        cause: "this version limits memory by process, by number of processes and by file system".to_owned(),
        cure: String::new(),
    }
}

/// Why a step failed, and the command that changes it.
fn explain(failure: &Failure, machine: &Machine) -> (String, String) {
    let forbidden = matches!(failure.errno, libc::EPERM | libc::EACCES | libc::ENOSPC);
    let pair = |cause: &str, cure: &str| (cause.to_owned(), cure.to_owned());
    if failure.errno == libc::ENOSYS {
        return pair("the kernel is older than 5.12 or built without this call", "");
    }
    if need(failure) == 4 {
        return pair("the kernel was built without CONFIG_SECCOMP_FILTER, or another sandbox is already around", "");
    }
    if !forbidden {
        return pair("", "");
    }
    if machine.max_user_namespaces == Some(0) {
        return pair("user namespaces are switched off", "sudo sysctl -w user.max_user_namespaces=16384");
    }
    if machine.userns_clone == Some(0) {
        return pair(
            "user namespaces are switched off for ordinary users",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        );
    }
    if machine.container {
        return pair(
            "this looks like a container, whose own sandbox forbids it",
            "run stockade on the host, or start the container with: docker run --security-opt seccomp=unconfined \
             --security-opt systempaths=unconfined",
        );
    }
    if machine.apparmor_restricts == Some(1) {
        return (
            "AppArmor allows user namespaces only to programs it has a profile for".to_owned(),
            apparmor(&machine.executable),
        );
    }
    pair("the kernel or a security module forbids it", "")
}

/// The command that gives one program the profile it needs; the same text as `docs/apparmor/stockade`.
fn apparmor(executable: &Path) -> String {
    let path = executable.display();
    format!(
        "printf 'abi <abi/4.0>,\\nprofile stockade \"%s\" flags=(unconfined) {{\\n  userns,\\n}}\\n' '{path}' | \
         sudo tee /etc/apparmor.d/stockade && sudo apparmor_parser -r /etc/apparmor.d/stockade"
    )
}

#[cfg(test)]
mod tests;
