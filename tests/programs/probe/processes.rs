//! Other processes, and the worker's own first one.

use super::{Attempt, Context, Outcome, errno, found};
use nix::errno::Errno;
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::unistd::{ForkResult, Pid, fork, setsid};
use std::fs;

pub(crate) const ATTEMPTS: &[(&str, Attempt)] = &[
    ("see_host_process", see_host_process),
    ("read_host_arguments", read_host_arguments),
    ("read_host_environment", read_host_environment),
    ("signal_host_process", signal_host_process),
    ("enter_init_root", enter_init_root),
    ("list_init_descriptors", list_init_descriptors),
    ("read_init_program", read_init_program),
    ("read_init_environment", read_init_environment),
    ("extra_descriptors", extra_descriptors),
    ("inherited_variable", inherited_variable),
    ("outlive", outlive),
];

fn see_host_process(context: &Context) -> Outcome {
    fs::metadata(format!("/proc/{}/status", context.victim)).map(drop).map_err(errno)
}

fn holds(path: String, word: &str) -> Outcome {
    let bytes = fs::read(path).map_err(errno)?;
    found(String::from_utf8_lossy(&bytes).contains(word))
}

fn read_host_arguments(context: &Context) -> Outcome {
    holds(format!("/proc/{}/cmdline", context.victim), &context.canary)
}

fn read_host_environment(context: &Context) -> Outcome {
    holds(format!("/proc/{}/environ", context.victim), &context.canary)
}

fn signal_host_process(context: &Context) -> Outcome {
    kill(Pid::from_raw(context.victim), None)
}

fn enter_init_root(_: &Context) -> Outcome {
    fs::read_dir("/proc/1/root").map(drop).map_err(errno)
}

fn list_init_descriptors(_: &Context) -> Outcome {
    fs::read_dir("/proc/1/fd").map(drop).map_err(errno)
}

fn read_init_program(_: &Context) -> Outcome {
    fs::File::open("/proc/1/exe").map(drop).map_err(errno)
}

fn read_init_environment(_: &Context) -> Outcome {
    fs::read("/proc/1/environ").map(drop).map_err(errno)
}

/// Any descriptor but the three and the one that lists them.
fn extra_descriptors(_: &Context) -> Outcome {
    let all = fs::read_dir("/proc/self/fd").map_err(errno)?.count();
    found(all > 4)
}

fn inherited_variable(context: &Context) -> Outcome {
    found(std::env::vars().any(|(_, value)| value.contains(&context.canary)))
}

/// Leaves a process behind that no hang-up or polite signal ends. It holds standard output open for as long as it
/// lives, at most a few seconds. Whether it outlived the worker is for the host to see.
fn outlive(_: &Context) -> Outcome {
    // SAFETY: this program has a single thread.
    if let ForkResult::Child = unsafe { fork() }? {
        setsid()?;
        // SAFETY: as above.
        if let ForkResult::Child = unsafe { fork() }? {
            for ignored in [Signal::SIGHUP, Signal::SIGTERM, Signal::SIGINT, Signal::SIGPIPE] {
                // SAFETY: ignoring a signal runs no code.
                unsafe { signal(ignored, SigHandler::SigIgn) }?;
            }
            std::thread::sleep(std::time::Duration::from_secs(4));
        }
        std::process::exit(0);
    }
    nix::sys::wait::wait().map(drop).or(Err(Errno::ECHILD))
}
