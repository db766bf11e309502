//! The native tier: workers behind namespaces, seccomp, Landlock and resource limits, with no daemon and no image.
//!
//! Every process an agent's call runs starts here and nowhere else. Four processes stand in a row, each of them the
//! life of the next: the program, a supervisor that owns removal, a launcher that builds the confinement, and the
//! first process of the worker's own PID namespace. When any of them ends, however it ends, everything below it is
//! killed by the one after it, and the kernel empties the namespace.
//!
//! The programs of these processes are this same executable: [`entry`] must be the first thing its `main` calls.

mod boundary;
mod doctor;
mod error;
mod fault;
mod filter;
mod helper;
mod init;
mod launcher;
mod leftovers;
mod link;
mod memory;
mod profile;
mod spec;
mod supervisor;
mod terminal;
mod wire;
mod worker;

pub use boundary::{Boundary, BoundaryOptions};
pub use doctor::{Check, probe, probe_with};
pub use error::{Failure, SandboxError, Stage};
pub use profile::{Profile, Rule};
pub use spec::{InputSpec, OutputSpec, SPEC_VERSION, SpecError, Stdio, TMP, WORK, WorkerSpec};
pub use terminal::PtyMaster;
pub use worker::{Exit, REMOVAL, Worker, WorkerEnd, WorkerIo};

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The tier's name.
const TIER: &str = "native";
/// The hidden subcommand of the supervisor.
const SUPERVISOR: &str = "__supervisor";
/// The hidden subcommand of the launcher.
const LAUNCH: &str = "__launch";

/// Whether this process came by [`entry`]. A program that does not, started as a helper, would run its own `main`
/// instead, which may well start the next helper, and so on without end.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// Runs a helper process when the arguments (program name first) ask for one, and returns its exit code. Must be
/// called before anything starts a thread.
#[must_use]
pub fn entry(args: &[OsString]) -> Option<i32> {
    ENTERED.store(true, Ordering::Relaxed);
    match args.get(1)?.to_str()? {
        SUPERVISOR => Some(supervisor::main(args.get(2)?.to_str()?)),
        LAUNCH => Some(launcher::main()),
        _ => None,
    }
}

/// Whether an executable may be started as a helper: any other than this one, whose `main` is known.
fn may_help(executable: &Path) -> bool {
    ENTERED.load(Ordering::Relaxed)
        || match (executable.canonicalize(), Path::new("/proc/self/exe").canonicalize()) {
            (Ok(helper), Ok(own)) => helper != own,
            _ => false,
        }
}
