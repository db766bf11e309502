//! The launcher: one short-lived single-threaded process a worker. It checks what it was given, enters the new
//! namespaces, makes their first process, and from then on only lives so that its death is noticed.

use super::error::Stage;
use super::fault::{Fault, Step as _};
use super::filter::{FILTER_RULES, Filters};
use super::init::{self, Birth};
use super::profile::Rule;
use super::spec::{SpecError, WorkerSpec};
use super::wire::{self, Order, Report};
use super::{LAUNCH, helper};
use crate::sys::{self, Fork};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::sys::wait::waitpid;
use nix::unistd::{Gid, Pid, Uid, getegid, geteuid, setgroups, setresgid, setresuid};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The user and group that root's workers run as outside their namespace.
pub(super) const NOBODY: u32 = 65_534;
/// The user and group that every worker runs as inside. Not the overflow id, so that unmapped files do not look its own.
pub(super) const INSIDE: u32 = 1000;
/// Longest specification, bytes.
const SPEC_BYTES: u64 = 8 << 20;
/// Longest filters, bytes.
const FILTER_BYTES: u64 = 1 << 20;

/// Starts a launcher in a process group of its own. Its first descriptor is its lifeline.
pub(super) fn spawn(executable: &Path, boundary: &str, worker: &str) -> io::Result<(Pid, OwnedFd)> {
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).map_err(io::Error::from)?;
    let child = Command::new(executable)
        .arg0("stockade")
        .args([LAUNCH, boundary, worker])
        .env_clear()
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok((Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?), ours))
}

/// The launcher's program.
pub(super) fn main() -> i32 {
    let Ok(supervisor) = helper::take_socket("stockade-launch") else { return 70 };
    match launch(&supervisor) {
        Ok(()) => 0,
        Err(fault) => {
            // When the supervisor is gone there is nobody to tell, and nothing runs yet.
            let _ = wire::send(&supervisor, &Report::Failed { failure: fault.at(Stage::Launcher) }, &[]);
            1
        }
    }
}

fn launch(supervisor: &OwnedFd) -> Result<(), Fault> {
    let (order, descriptors) = wire::receive::<Order>(supervisor)
        .step("receive the order")?
        .ok_or_else(|| Fault::new("receive the order", "the supervisor is gone"))?;
    let mut descriptors = descriptors.into_iter();
    let mut next = || descriptors.next().ok_or_else(|| Fault::new("receive the order", "a descriptor is missing"));
    let bytes = read_all(next()?, SPEC_BYTES).step("read the specification")?;
    let spec = WorkerSpec::from_bytes(&bytes, order.digest)?;
    let filters = read_all(next()?, FILTER_BYTES).step("read the filters")?;
    let filters = Filters::from_bytes(&filters).ok_or_else(|| Fault::new("read the filters", "they are malformed"))?;
    let inputs: Vec<OwnedFd> = descriptors.collect();
    if inputs.len() != spec.inputs.len() {
        return Err(SpecError::Inputs { inputs: spec.inputs.len(), descriptors: inputs.len() }.into());
    }
    for rule in FILTER_RULES {
        if spec.profile.has(rule) && filters.get(rule).is_none_or(Vec::is_empty) {
            return Err(Fault::new("read the filters", format!("{} has none", rule.enforcer())));
        }
    }
    enter_namespaces(&spec)?;
    // Only now: each change of credentials above would have cleared it.
    prctl::set_pdeathsig(Signal::SIGKILL).step("set the parent-death signal")?;
    if helper::is_closed(supervisor).step("look at the lifeline")? {
        return Err(Fault::new("look at the lifeline", "the supervisor is gone"));
    }
    let (lifeline, init_lifeline) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).step("make a lifeline")?;
    match sys::fork().step("fork the first process")? {
        Fork::Child => {
            drop(lifeline);
            init::run(Birth { order, spec, filters, inputs, supervisor, launcher: init_lifeline })
        }
        Fork::Parent(init) => {
            drop((init_lifeline, inputs));
            watch(supervisor, &lifeline, init)
        }
    }
}

/// Reads a memory file whole; more than `most` bytes are an error. At offsets of its own: the descriptor's is shared
/// with every other launcher that reads the same file at this moment.
fn read_all(file: OwnedFd, most: u64) -> io::Result<Vec<u8>> {
    let file = File::from(file);
    let length = file.metadata()?.len();
    if length > most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it is longer than {most} bytes")));
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Gives up root, then leaves every namespace of the program's.
fn enter_namespaces(spec: &WorkerSpec) -> Result<(), Fault> {
    prctl::set_no_new_privs().step("set no-new-privileges")?;
    if geteuid().is_root() {
        let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        setgroups(&[]).step("drop supplementary groups")?;
        setresgid(group, group, group).step("drop the root group")?;
        setresuid(user, user, user).step("drop root")?;
        // The kernel makes a process that changed its user undumpable, and its id maps unwritable with it.
        prctl::set_dumpable(true).step("become dumpable")?;
    }
    // When memory runs out, the worker goes before the program. Not a boundary: a kernel that refuses is no reason to.
    let _ = std::fs::write("/proc/self/oom_score_adj", "500");
    let (user, group) = (geteuid(), getegid());
    let mut flags = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS;
    for (rule, flag) in [
        (Rule::PidNamespace, CloneFlags::CLONE_NEWPID),
        (Rule::NetworkNamespace, CloneFlags::CLONE_NEWNET),
        (Rule::IpcNamespace, CloneFlags::CLONE_NEWIPC),
        (Rule::UtsNamespace, CloneFlags::CLONE_NEWUTS),
        (Rule::CgroupNamespace, CloneFlags::CLONE_NEWCGROUP),
    ] {
        flags.set(flag, spec.profile.has(rule));
    }
    unshare(flags).step("unshare namespaces")?;
    std::fs::write("/proc/self/setgroups", "deny").step("write setgroups")?;
    std::fs::write("/proc/self/uid_map", format!("{INSIDE} {user} 1\n")).step("write uid_map")?;
    std::fs::write("/proc/self/gid_map", format!("{INSIDE} {group} 1\n")).step("write gid_map")?;
    prctl::set_dumpable(false).step("become undumpable")
}

/// Tells the supervisor of the first process, lets it go on, and waits for its end or the supervisor's.
fn watch(supervisor: &OwnedFd, lifeline: &OwnedFd, init: Pid) -> Result<(), Fault> {
    let handle = sys::open_process(init).step("open the first process")?;
    wire::send(supervisor, &Report::Init {}, &[handle.as_fd()]).step("report the first process")?;
    sys::drop_capabilities(true).step("drop the launcher's capabilities")?;
    nix::unistd::write(lifeline, b"go").step("let the first process go on")?;
    loop {
        let mut ends =
            [PollFd::new(supervisor.as_fd(), PollFlags::POLLIN), PollFd::new(handle.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ends, PollTimeout::NONE) {
            Ok(_) => break,
            Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error).step("wait for the first process"),
        }
    }
    // Either it is dead already or the supervisor is, which sends nothing more; then it must be.
    let _ = kill(init, Signal::SIGKILL);
    // The kernel ends this wait only when the whole namespace is empty.
    while waitpid(init, None) == Err(nix::Error::EINTR) {}
    Ok(())
}
