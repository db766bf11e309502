//! The worker's own process, from its fork to its program: it gives everything up, measures what is left, and
//! executes.

use super::super::error::Stage;
use super::super::fault::{Fault, Step as _};
use super::super::filter::{FILTER_RULES, Filters};
use super::super::profile::Rule;
use super::super::spec::{Stdio, WorkerSpec};
use super::super::wire::{self, Order};
use super::{Word, landlock};
use crate::sys;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::SigSet;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{AccessFlags, access, chdir, dup2_stderr, dup2_stdin, dup2_stdout, execve, setsid};
use std::ffi::CString;
use std::os::fd::{AsFd as _, OwnedFd};

/// Where a program's name without a slash is looked up when the environment has no PATH.
const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
/// Processes of stockade's own in the worker's user namespace: launcher and init.
const OWN_PROCESSES: u64 = 2;

/// Becomes the worker; never returns.
pub(super) fn run(spec: &WorkerSpec, order: &Order, filters: &Filters, streams: Vec<OwnedFd>, speak: &OwnedFd) -> ! {
    let Err(fault) = confine(spec, order, filters, streams, speak);
    // When init is gone there is nobody to tell, and this process is about to be killed.
    let _ = say(speak, &Word::Failed(fault.at(Stage::Worker)));
    sys::exit_now(127)
}

fn confine(
    spec: &WorkerSpec,
    order: &Order,
    filters: &Filters,
    streams: Vec<OwnedFd>,
    speak: &OwnedFd,
) -> Result<std::convert::Infallible, Fault> {
    let has = |rule| spec.profile.has(rule);
    attach(spec, &streams)?;
    drop(streams);
    sys::default_signals().step("reset signals")?;
    SigSet::empty().thread_set_mask().step("unblock signals")?;
    umask(Mode::from_bits_truncate(0o022));
    chdir(spec.cwd.as_str()).step(format!("enter {}", spec.cwd))?;
    if has(Rule::NoCapabilities) {
        sys::drop_capabilities(true).step("drop capabilities")?;
    } else {
        sys::keep_capabilities().step("keep capabilities")?;
    }
    let landlock_abi = if has(Rule::Landlock) { landlock::enter(spec)? } else { 0 };
    if has(Rule::ThreeDescriptors) {
        sys::close_rest_on_execution().step("close descriptors")?;
    } else {
        sys::keep_descriptors();
    }
    let (program, argv, environment) = strings(spec)?;
    // Not zero: a core handler of the host's, which runs as root there, is called in spite of zero but not of one. The
    // filters keep it so.
    lower(Resource::RLIMIT_CORE, 1)?;
    for rule in FILTER_RULES.into_iter().filter(|rule| has(*rule)) {
        let program = filters.get(rule).map(Vec::as_slice).unwrap_or_default();
        seccompiler::apply_filter(program).map_err(|error| Fault::new(rule.enforcer(), error.to_string()))?;
    }
    let measured = measure(order, landlock_abi)?;
    demand(spec, &measured)?;
    say(speak, &measured).step("report measurements")?;
    if order.rehearse {
        sys::exit_now(0);
    }
    // Last, because they bind this process too: its own memory and descriptors are more than a worker's may be.
    limit(spec)?;
    let Err(error) = execve(&program, &argv, &environment);
    Err(error).step(format!("execute {}", program.to_string_lossy()))
}

/// Makes the streams descriptors 0, 1 and 2, and a terminal the controlling one of a new session.
fn attach(spec: &WorkerSpec, streams: &[OwnedFd]) -> Result<(), Fault> {
    setsid().step("begin a session")?;
    let missing = || Fault::new("attach the standard streams", "one is missing");
    let stdin = streams.first().ok_or_else(missing)?;
    let (stdout, stderr) = match spec.stdio {
        Stdio::Pty { .. } => {
            sys::control_terminal(stdin.as_fd()).step("take the terminal")?;
            (stdin, stdin)
        }
        Stdio::Pipes => (streams.get(1).ok_or_else(missing)?, streams.get(2).ok_or_else(missing)?),
    };
    dup2_stdin(stdin).step("attach standard input")?;
    dup2_stdout(stdout).step("attach standard output")?;
    dup2_stderr(stderr).step("attach standard error")
}

/// The strings of the execution: program, argv, environment.
fn strings(spec: &WorkerSpec) -> Result<(CString, Vec<CString>, Vec<CString>), Fault> {
    let all = |texts: &[String]| texts.iter().map(sys::c_string).collect::<Result<Vec<_>, _>>();
    let argv = all(&spec.argv).step("read argv")?;
    let environment: Vec<String> = spec.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let environment = all(&environment).step("read the environment")?;
    let name = spec.argv.first().map(String::as_str).unwrap_or_default();
    if name.contains('/') {
        return Ok((sys::c_string(name).step("read argv")?, argv, environment));
    }
    let path = spec.environment.get("PATH").map_or(SYSTEM_PATH, String::as_str);
    let mut found = path
        .split(':')
        .filter(|directory| directory.starts_with('/'))
        .map(|directory| format!("{directory}/{name}"))
        .filter(|candidate| access(candidate.as_str(), AccessFlags::X_OK).is_ok());
    let program = found.next().unwrap_or_else(|| name.to_owned());
    // A name that was not found is not executed relative to the working directory, where an input may lie.
    let program = if program.contains('/') { program } else { format!("/usr/bin/{name}") };
    Ok((sys::c_string(program).step("read argv")?, argv, environment))
}

/// Reads back from the kernel what is in force.
fn measure(order: &Order, landlock_abi: u32) -> Result<Word, Fault> {
    let status = std::fs::read_to_string("/proc/self/status").step("read /proc/self/status")?;
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim).unwrap_or_default()
    };
    let namespaces = wire::namespaces()
        .step("read /proc/self/ns")?
        .into_iter()
        .filter(|(name, here)| order.namespaces.get(name).is_some_and(|outside| outside != here))
        .map(|(name, _)| name)
        .collect();
    Ok(Word::Measured {
        namespaces,
        landlock_abi,
        seccomp_filters: field("Seccomp_filters").parse().unwrap_or_default(),
        no_new_privileges: field("NoNewPrivs") == "1",
    })
}

/// Refuses when what was measured is less than what the profile says.
fn demand(spec: &WorkerSpec, measured: &Word) -> Result<(), Fault> {
    let Word::Measured { namespaces, seccomp_filters, no_new_privileges, .. } = measured else { return Ok(()) };
    let short = |what: &str| Err(Fault::new("compare measurements with the profile", format!("{what} is missing")));
    if !no_new_privileges {
        return short("no-new-privileges");
    }
    let filters = FILTER_RULES.into_iter().filter(|rule| spec.profile.has(*rule)).count();
    if u32::try_from(filters).is_ok_and(|filters| *seccomp_filters < filters) {
        return short("a seccomp filter");
    }
    for (name, rule) in [
        ("cgroup", Some(Rule::CgroupNamespace)),
        ("ipc", Some(Rule::IpcNamespace)),
        ("mnt", None),
        ("net", Some(Rule::NetworkNamespace)),
        ("pid", Some(Rule::PidNamespace)),
        ("user", None),
        ("uts", Some(Rule::UtsNamespace)),
    ] {
        if rule.is_none_or(|rule| spec.profile.has(rule)) && !namespaces.iter().any(|namespace| namespace == name) {
            return short(&format!("the {name} namespace"));
        }
    }
    Ok(())
}

fn limit(spec: &WorkerSpec) -> Result<(), Fault> {
    let limits = &spec.limits;
    for (rule, resource, value) in [
        (Some(Rule::ProcessLimit), Resource::RLIMIT_NPROC, limits.processes + OWN_PROCESSES),
        (Some(Rule::OpenFileLimit), Resource::RLIMIT_NOFILE, limits.open_files),
        (Some(Rule::FileSizeLimit), Resource::RLIMIT_FSIZE, limits.file_bytes),
        (Some(Rule::AddressSpaceLimit), Resource::RLIMIT_AS, limits.address_space_bytes),
        (Some(Rule::CpuLimit), Resource::RLIMIT_CPU, limits.cpu_seconds),
        (None, Resource::RLIMIT_MEMLOCK, 0),
        (None, Resource::RLIMIT_MSGQUEUE, 0),
    ] {
        if rule.is_none_or(|rule| spec.profile.has(rule)) {
            lower(resource, value)?;
        }
    }
    Ok(())
}

/// Sets a limit, never above what this process was given: only root could, and need not.
fn lower(resource: Resource, value: u64) -> Result<(), Fault> {
    let (_, most) = getrlimit(resource).step(format!("read {resource:?}"))?;
    let value = value.min(most);
    setrlimit(resource, value, value).step(format!("limit {resource:?} to {value}"))
}

fn say(speak: &OwnedFd, word: &Word) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(word)?;
    line.push(b'\n');
    nix::unistd::write(speak, &line)?;
    Ok(())
}
