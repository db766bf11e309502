//! The supervisor: a process of its own that owns the removal of workers. It starts a launcher for each worker the
//! program asks for, kills its process group when the program lets go of the worker's leash, and says that a worker
//! is gone only when the kernel has reported the end of its namespace's first process. When the program ends, however
//! it ends, everything is killed and the supervisor ends too.
//!
//! One thread, one poll loop, no allocation of trust: whatever it cannot understand ends it, and with it every worker.

use super::error::{Failure, Stage};
use super::fault::{Fault, Step as _};
use super::filter::Filters;
use super::helper;
use super::launcher;
use super::memory;
use super::wire::{self, Ask, Order, Report, Tell};
use super::worker::{Exit, REMOVAL};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, setsid};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;
use stockade_protocol::digest::Digest;
use stockade_protocol::event::Enforcement;

/// The running program, also when its file was replaced meanwhile.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// One worker, from the order to start it to its confirmed end.
#[derive(Debug)]
struct Kept {
    /// Process group of launcher and init.
    group: Pid,
    /// What launcher and init report on; `None` when both have closed it.
    reports: Option<OwnedFd>,
    /// Closed by the program when the worker is to be killed; `None` when it was.
    leash: Option<OwnedFd>,
    /// The namespace's first process.
    init: Option<OwnedFd>,
    launched: bool,
    failure: Option<Failure>,
    exit: Option<Exit>,
    /// Since when its end is due.
    ending: Option<Instant>,
    /// The program was told that the end could not be confirmed in time.
    given_up: bool,
}

struct Supervisor {
    label: String,
    program: OwnedFd,
    signals: SignalFd,
    filters: OwnedFd,
    namespaces: BTreeMap<String, String>,
    workers: BTreeMap<u64, Kept>,
    /// The program is gone or asked to stop: no new workers, and the end when the last is gone.
    stopping: Option<Stopping>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopping {
    Asked,
    Orphaned,
}

/// What is ready.
#[derive(Debug, Clone, Copy)]
enum Ready {
    Program,
    Children,
    Reports(u64),
    Leash(u64),
}

/// The supervisor's program.
pub(super) fn main(label: &str) -> i32 {
    match start(label).and_then(|mut supervisor| supervisor.run()) {
        Ok(()) => 0,
        // Ending is what keeps the promise: every lifeline is cut.
        Err(_fault) => 1,
    }
}

fn start(label: &str) -> Result<Supervisor, Fault> {
    let program = helper::take_socket("stockade-super").step("take the socket")?;
    prctl::set_dumpable(false).step("become undumpable")?;
    prctl::set_child_subreaper(true).step("become a subreaper")?;
    // Out of the terminal's reach: neither ^C nor its closing may end the supervisor before the workers. As the
    // leader of a session already, e.g. started by hand, it stays in it.
    let _ = setsid();
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    children.thread_block().step("block the end of children")?;
    let signals = SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .step("watch the end of children")?;
    let filters = Filters::compile().map_err(|error| Fault::new("compile filters", error))?;
    let filters = memory::sealed("filters", &filters.to_bytes()).step("keep filters")?;
    let namespaces = wire::namespaces().step("read namespaces")?;
    wire::send(&program, &Tell::Ready {}, &[]).step("report ready")?;
    let label = label.to_owned();
    Ok(Supervisor { label, program, signals, filters, namespaces, workers: BTreeMap::new(), stopping: None })
}

impl Supervisor {
    fn run(&mut self) -> Result<(), Fault> {
        loop {
            for ready in self.wait()? {
                match ready {
                    Ready::Program => self.hear_program()?,
                    Ready::Children => while let Ok(Some(_)) = self.signals.read_signal() {},
                    Ready::Reports(id) => self.hear_worker(id),
                    Ready::Leash(id) => self.kill(id),
                }
            }
            self.reap();
            self.give_up_on_overdue();
            if let Some(stopping) = self.stopping
                && self.workers.is_empty()
            {
                if stopping == Stopping::Asked {
                    self.tell(&Tell::Stopped {}, &[]);
                }
                return Ok(());
            }
        }
    }

    /// Waits until something is ready or overdue.
    fn wait(&self) -> Result<Vec<Ready>, Fault> {
        let mut names = vec![Ready::Children];
        let mut ends = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        if self.stopping.is_none() {
            names.push(Ready::Program);
            ends.push(PollFd::new(self.program.as_fd(), PollFlags::POLLIN));
        }
        for (id, worker) in &self.workers {
            if let Some(reports) = &worker.reports {
                names.push(Ready::Reports(*id));
                ends.push(PollFd::new(reports.as_fd(), PollFlags::POLLIN));
            }
            if let Some(leash) = &worker.leash {
                names.push(Ready::Leash(*id));
                ends.push(PollFd::new(leash.as_fd(), PollFlags::POLLIN));
            }
        }
        let overdue = self.workers.values().filter(|worker| !worker.given_up).filter_map(|worker| worker.ending).min();
        let timeout = overdue.map_or(PollTimeout::NONE, |since| {
            let left = (since + REMOVAL).saturating_duration_since(Instant::now());
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut ends, timeout) {
            Ok(_) => {}
            Err(nix::Error::EINTR) => return Ok(Vec::new()),
            Err(error) => return Err(error).step("wait"),
        }
        let ready = ends.iter().zip(names).filter(|(end, _)| end.any().unwrap_or(true)).map(|(_, name)| name);
        Ok(ready.collect())
    }

    fn tell(&self, tell: &Tell, with: &[BorrowedFd<'_>]) {
        // When the program is gone its socket says so to the loop, which then ends everything.
        let _ = wire::send(&self.program, tell, with);
    }

    fn hear_program(&mut self) -> Result<(), Fault> {
        let stopping = match wire::receive(&self.program) {
            Ok(Some((Ask::Launch { id, label, digest }, descriptors))) => {
                return self.launch(id, &label, digest, descriptors);
            }
            Ok(Some((Ask::Stop {}, _))) => Stopping::Asked,
            Ok(None) => Stopping::Orphaned,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(_gone_or_confused) => Stopping::Orphaned,
        };
        self.stopping = Some(stopping);
        let all: Vec<u64> = self.workers.keys().copied().collect();
        all.into_iter().for_each(|id| self.kill(id));
        Ok(())
    }

    fn launch(&mut self, id: u64, label: &str, digest: Digest, descriptors: Vec<OwnedFd>) -> Result<(), Fault> {
        let mut descriptors = descriptors.into_iter();
        let (Some(leash), Some(spec)) = (descriptors.next(), descriptors.next()) else {
            return Err(Fault::new("hear the program", "a launch came without its descriptors"));
        };
        let inputs: Vec<OwnedFd> = descriptors.collect();
        let with: Vec<BorrowedFd<'_>> =
            [&spec, &self.filters].into_iter().chain(&inputs).map(|descriptor| descriptor.as_fd()).collect();
        let order = Order { digest, namespaces: self.namespaces.clone(), rehearse: false };
        let started = launcher::spawn(Path::new(OWN_PROGRAM), &self.label, label)
            .step("start a launcher")
            .map(|(group, reports)| (wire::send(&reports, &order, &with).step("order a launch"), group, reports));
        match started {
            Ok((sent, group, reports)) => {
                let mut worker = Kept {
                    group,
                    reports: Some(reports),
                    leash: Some(leash),
                    init: None,
                    launched: false,
                    failure: None,
                    exit: None,
                    ending: None,
                    given_up: false,
                };
                if let Err(fault) = sent {
                    worker.failure = Some(fault.at(Stage::Supervisor));
                    worker.ending = Some(Instant::now());
                    let _ = killpg(group, Signal::SIGKILL);
                }
                self.workers.insert(id, worker);
            }
            Err(fault) => self.tell(&Tell::Failed { id, failure: fault.at(Stage::Supervisor) }, &[]),
        }
        Ok(())
    }

    /// Reads one report of a worker.
    fn hear_worker(&mut self, id: u64) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let Some(reports) = &worker.reports else { return };
        match wire::receive(reports) {
            Ok(Some((Report::Init {}, descriptors))) => worker.init = descriptors.into_iter().next(),
            Ok(Some((Report::Started { enforcement }, descriptors))) => self.launched(id, enforcement, &descriptors),
            Ok(Some((Report::Failed { failure }, _))) => {
                // The first is the cause; what follows from it is not.
                worker.failure.get_or_insert(failure);
                worker.ending.get_or_insert_with(Instant::now);
            }
            Ok(Some((Report::Exited { exit }, _))) => {
                worker.exit = Some(exit);
                worker.ending.get_or_insert_with(Instant::now);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Closed, or not to be understood: in both cases it is the end of this worker.
            Ok(None) | Err(_) => {
                worker.reports = None;
                self.kill(id);
            }
        }
    }

    fn launched(&mut self, id: u64, enforcement: Enforcement, descriptors: &[OwnedFd]) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.launched = true;
        let Some(init) = worker.init.take() else { return self.kill(id) };
        let with: Vec<BorrowedFd<'_>> =
            [&init].into_iter().chain(descriptors).map(|descriptor| descriptor.as_fd()).collect();
        self.tell(&Tell::Launched { id, enforcement }, &with);
    }

    /// Kills a worker's launcher and init; the kernel kills the rest.
    fn kill(&mut self, id: u64) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.leash = None;
        worker.ending.get_or_insert_with(Instant::now);
        // There is nobody left to kill when both have ended by themselves.
        let _ = killpg(worker.group, Signal::SIGKILL);
    }

    /// Collects ended launchers and inits. A worker is gone when no process of its group is left to be waited for: an
    /// init whose launcher was killed has become this process's own child.
    fn reap(&mut self) {
        let mut gone = Vec::new();
        for (id, worker) in &mut self.workers {
            let group = Pid::from_raw(-worker.group.as_raw());
            loop {
                match waitpid(group, Some(WaitPidFlag::WNOHANG)) {
                    Ok(WaitStatus::StillAlive) => break,
                    Ok(ended) => {
                        // A launcher that was killed can no longer tell its init to end.
                        if matches!(ended, WaitStatus::Signaled(..)) {
                            worker.ending.get_or_insert_with(Instant::now);
                            let _ = killpg(worker.group, Signal::SIGKILL);
                        }
                    }
                    Err(nix::Error::EINTR) => {}
                    Err(_no_child_left) => {
                        gone.push(*id);
                        break;
                    }
                }
            }
        }
        gone.into_iter().for_each(|id| self.settle(id));
    }

    /// Tells the program of a worker that is gone.
    fn settle(&mut self, id: u64) {
        // What it said last may still be unread. Both writers are gone, so this ends.
        while self.workers.get(&id).is_some_and(|worker| worker.reports.is_some()) {
            self.hear_worker(id);
        }
        let Some(worker) = self.workers.remove(&id) else { return };
        if worker.given_up {
            return;
        }
        let tell = if worker.launched {
            let killed = if worker.leash.is_none() { Exit::Signal(Signal::SIGKILL as i32) } else { Exit::Unknown };
            Tell::Removed { id, exit: worker.exit.unwrap_or(killed), confirmed: true }
        } else {
            let failure = worker.failure.unwrap_or_else(|| {
                Fault::new("start the worker", "it was killed before its program began").at(Stage::Launcher)
            });
            Tell::Failed { id, failure }
        };
        self.tell(&tell, &[]);
    }

    /// Tells the program of workers whose end is overdue. They are still waited for.
    fn give_up_on_overdue(&mut self) {
        let overdue = |worker: &Kept| !worker.given_up && worker.ending.is_some_and(|since| since.elapsed() >= REMOVAL);
        let ids: Vec<u64> = self.workers.iter().filter(|(_, worker)| overdue(worker)).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(worker) = self.workers.get_mut(&id) else { continue };
            worker.given_up = true;
            let exit = worker.exit.unwrap_or(Exit::Unknown);
            self.tell(&Tell::Removed { id, exit, confirmed: false }, &[]);
        }
    }
}
