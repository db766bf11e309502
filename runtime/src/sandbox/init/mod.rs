//! The first process of a worker's namespaces. It builds what the worker sees, starts it, and from then on holds
//! nothing but its two lifelines: when one is cut, or the worker's program ends, it ends, and the kernel with it
//! kills every process of the namespace.

mod landlock;
mod root;
mod streams;
mod target;
mod work;

use super::error::{Failure, Stage};
use super::fault::{Fault, Step as _};
use super::filter::Filters;
use super::helper;
use super::profile::Rule;
use super::spec::WorkerSpec;
use super::wire::{self, Order, Report};
use super::worker::Exit;
use crate::sys::{self, Fork};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use stockade_protocol::event::Enforcement;

/// Everything an init is born with.
pub(super) struct Birth<'a> {
    pub(super) order: Order,
    pub(super) spec: WorkerSpec,
    pub(super) filters: Filters,
    pub(super) inputs: Vec<OwnedFd>,
    pub(super) supervisor: &'a OwnedFd,
    pub(super) launcher: OwnedFd,
}

/// What a worker's process found out about itself, the moment before its program begins.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    /// Everything is in force.
    Measured { namespaces: Vec<String>, landlock_abi: u32, seccomp_filters: u32, no_new_privileges: bool },
    /// A step failed.
    Failed(Failure),
}

/// Runs the first process; never returns.
pub(super) fn run(birth: Birth<'_>) -> ! {
    let supervisor = birth.supervisor;
    match live(birth) {
        Ok(()) => sys::exit_now(0),
        Err(failure) => {
            // When nobody listens there is nobody to tell: ending is the right thing in any case.
            let _ = wire::send(supervisor, &Report::Failed { failure }, &[]);
            sys::exit_now(1)
        }
    }
}

fn live(birth: Birth<'_>) -> Result<(), Failure> {
    let Birth { order, spec, filters, inputs, supervisor, launcher } = birth;
    let here = |fault: Fault| fault.at(Stage::Init);
    prepare(&spec, supervisor, &launcher).map_err(here)?;
    root::build(&spec).map_err(here)?;
    let output = work::fill(&spec, inputs).map_err(here)?;
    root::seal(&spec).map_err(here)?;
    let streams = streams::open(&spec).map_err(here)?;
    helper::nothing_on_standard_streams().step("empty the standard streams").map_err(here)?;
    let signals = watch_children().step("watch children").map_err(here)?;
    wait_for_launcher(&launcher).map_err(here)?;

    let (words, speak) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).step("make a pipe").map_err(here)?;
    let child = match sys::fork().step("fork the worker").map_err(here)? {
        Fork::Child => {
            drop(words);
            target::run(&spec, &order, &filters, streams.worker, &speak)
        }
        Fork::Parent(child) => child,
    };
    drop((speak, streams.worker, filters));
    // The child has what it needs of them; this process needs none from here on.
    sys::drop_capabilities(true).step("drop the first process's capabilities").map_err(here)?;
    if !spec.profile.has(Rule::HiddenInit) {
        prctl::set_dumpable(true).step("become dumpable").map_err(here)?;
    }
    let enforcement = listen(words, &order)?;
    let descriptors: Vec<BorrowedFd<'_>> = streams.program.iter().chain(&output).map(|fd| fd.as_fd()).collect();
    wire::send(supervisor, &Report::Started { enforcement }, &descriptors).step("report the start").map_err(here)?;
    drop((streams.program, output));
    attend(supervisor, &launcher, &signals, child).map_err(here)
}

/// Ties this process's life to the launcher's, whatever happened before it could.
fn prepare(spec: &WorkerSpec, supervisor: &OwnedFd, launcher: &OwnedFd) -> Result<(), Fault> {
    prctl::set_pdeathsig(Signal::SIGKILL).step("set the parent-death signal")?;
    prctl::set_name(c"stockade-init").step("name the process")?;
    for lifeline in [supervisor, launcher] {
        if helper::is_closed(lifeline).step("look at the lifelines")? {
            return Err(Fault::new("look at the lifelines", "the process above is gone"));
        }
    }
    if spec.profile.has(Rule::UtsNamespace) {
        nix::unistd::sethostname("stockade").step("set the host name")?;
    }
    Ok(())
}

/// Turns the end of children into something that can be waited for beside the lifelines.
fn watch_children() -> nix::Result<SignalFd> {
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    children.thread_block()?;
    SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

/// Nothing of the worker runs before the supervisor knows how to kill it: the launcher says when.
fn wait_for_launcher(launcher: &OwnedFd) -> Result<(), Fault> {
    let mut word = [0; 2];
    match nix::unistd::read(launcher, &mut word).step("wait for the launcher")? {
        0 => Err(Fault::new("wait for the launcher", "it is gone")),
        _ => Ok(()),
    }
}

/// Hears what the worker's process measured. The pipe closes by itself when its program begins.
fn listen(words: OwnedFd, order: &Order) -> Result<Enforcement, Failure> {
    let here = |fault: Fault| fault.at(Stage::Worker);
    let mut text = String::new();
    File::from(words).read_to_string(&mut text).step("hear from the worker").map_err(here)?;
    let mut measured = None;
    for line in text.lines() {
        match serde_json::from_str(line).map_err(std::io::Error::from).step("hear from the worker").map_err(here)? {
            Word::Failed(failure) => return Err(failure),
            Word::Measured { namespaces, landlock_abi, seccomp_filters, no_new_privileges } => {
                measured = Some(Enforcement {
                    tier: super::TIER.to_owned(),
                    specification: order.digest,
                    namespaces,
                    landlock_abi,
                    seccomp_filters,
                    no_new_privileges,
                });
            }
        }
    }
    measured.ok_or_else(|| here(Fault::new("hear from the worker", "it ended before it measured itself")))
}

/// Waits for the end of the worker's program or of a process above, and reaps whatever ends meanwhile.
fn attend(supervisor: &OwnedFd, launcher: &OwnedFd, signals: &SignalFd, child: Pid) -> Result<(), Fault> {
    loop {
        loop {
            let exit = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == child => Exit::Code(code),
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => Exit::Signal(signal as i32),
                Ok(WaitStatus::StillAlive) | Err(_) => break,
                Ok(_) => continue,
            };
            return wire::send(supervisor, &Report::Exited { exit }, &[]).step("report the end");
        }
        let mut ends = [
            PollFd::new(supervisor.as_fd(), PollFlags::POLLIN),
            PollFd::new(launcher.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut ends, PollTimeout::NONE) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error).step("wait for the worker"),
        }
        let [supervisor_end, launcher_end, _] = ends;
        // Neither sends anything more: whatever comes from there is the end.
        if supervisor_end.any().unwrap_or(true) || launcher_end.any().unwrap_or(true) {
            return Ok(());
        }
        while let Ok(Some(_)) = signals.read_signal() {}
    }
}
