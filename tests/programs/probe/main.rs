//! The probe: a program that runs inside a worker and tries everything a worker must not be able to do.
//!
//! `probe CONTEXT NAME…` makes each named attempt in a process of its own and prints one line of JSON for each:
//! `{"attempt", "outcome", "errno"}`, where the outcome is `allowed`, `refused` with the kernel's answer (an attempt
//! that looks for something and does not find it is refused with `ENOENT`), or `killed` with a signal. CONTEXT is what
//! the host has prepared to be found, see [`Context`]. `tests/probe.rs` says what must come out.
#![allow(unsafe_code, clippy::print_stdout, reason = "a probe makes raw calls and prints what came of them")]

mod files;
mod kernel;
mod limits;
mod network;
mod processes;

use nix::errno::Errno;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use serde::Deserialize;

/// What lies on the host, waiting to be found.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Context {
    /// A process of the same user on the host.
    victim: i32,
    /// A word in its arguments and environment, and the value of a variable of the program's.
    canary: String,
    /// The home directory of the user; the file `canary` in it holds the word.
    home: String,
    /// A file in the host's /tmp that holds the word.
    tmp_canary: String,
    /// An abstract socket that listens.
    abstract_name: String,
    /// A socket in the host's file system that listens.
    path_socket: String,
    /// A TCP port of 127.0.0.1 that listens.
    tcp_port: u16,
    /// A UDP port of 127.0.0.1 that receives.
    udp_port: u16,
    /// A System V shared memory segment that everybody may read.
    shm_key: i32,
    /// The number of a terminal in the host's /dev/pts.
    host_terminal: u32,
    /// A device of the host's that no worker has.
    host_device: String,
    /// The host's name.
    host_name: String,
    /// The worker's bound on a file, bytes.
    file_bytes: u64,
    /// More than the worker may write to /tmp, and to /dev/shm, bytes.
    too_much: usize,
    /// More address space than the worker may have, bytes.
    too_large: usize,
    /// More processes and descriptors than the worker may have.
    too_many: usize,
}

/// What an attempt comes to.
type Outcome = Result<(), Errno>;
/// One attempt.
type Attempt = fn(&Context) -> Outcome;

/// A call by its number. Arguments that are not given are zero.
fn call(number: i64, arguments: &[usize]) -> Result<i64, Errno> {
    let argument = |at: usize| arguments.get(at).copied().unwrap_or(0);
    // SAFETY: attempts pass integers and pointers to values that outlive the call; whatever else the kernel makes of
    // them happens to a process that does nothing afterwards but report and end.
    Errno::result(unsafe {
        libc::syscall(number, argument(0), argument(1), argument(2), argument(3), argument(4), argument(5))
    })
}

/// The kernel's answer in an error of the standard library; a fault of the probe's own stands out as ENOTRECOVERABLE.
#[allow(clippy::needless_pass_by_value, reason = "`map_err` gives it away")]
fn errno(error: std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::ENOTRECOVERABLE, Errno::from_raw)
}

/// Nothing when found, else the answer for things that are not there.
fn found(found: bool) -> Outcome {
    if found { Ok(()) } else { Err(Errno::ENOENT) }
}

/// Makes an attempt in a process of its own, which it may not survive.
fn isolated(attempt: Attempt, context: &Context) -> (&'static str, String) {
    // SAFETY: this program has a single thread.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            nix::unistd::alarm::set(30);
            let code = attempt(context).err().map_or(0, |errno| errno as i32);
            std::process::exit(code)
        }
        Ok(ForkResult::Parent { child }) => match waitpid(child, None) {
            Ok(WaitStatus::Exited(_, 0)) => ("allowed", String::new()),
            Ok(WaitStatus::Exited(_, code)) => ("refused", format!("{:?}", Errno::from_raw(code))),
            Ok(WaitStatus::Signaled(_, signal, _)) => ("killed", signal.to_string()),
            other => ("lost", format!("{other:?}")),
        },
        Err(errno) => ("lost", format!("fork: {errno:?}")),
    }
}

fn attempts() -> Vec<(&'static str, Attempt)> {
    [processes::ATTEMPTS, kernel::ATTEMPTS, network::ATTEMPTS, files::ATTEMPTS, limits::ATTEMPTS].concat()
}

fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args().skip(1);
    let context = arguments.next().unwrap_or_default();
    let context: Context = match serde_json::from_str(&context) {
        Ok(context) => context,
        Err(error) => {
            println!("the context is not readable: {error}");
            return 2.into();
        }
    };
    let attempts = attempts();
    for name in arguments {
        let Some((_, attempt)) = attempts.iter().find(|(known, _)| *known == name) else {
            println!("there is no attempt {name}");
            return 2.into();
        };
        let (outcome, errno) = isolated(*attempt, &context);
        println!("{}", serde_json::json!({ "attempt": name, "outcome": outcome, "errno": errno }));
    }
    0.into()
}
