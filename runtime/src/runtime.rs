//! The runtime of one project: what every way in talks to.

use crate::approval::Approvals;
use crate::call::{self, Asked, Cancelled, World};
use crate::control::{Caller, Serve};
use crate::grant::{GrantError, ProjectRoot};
use crate::journal::{Entry, Journal, JournalError, JournalEvents};
use crate::manifest::ToolSet;
use crate::policy::Policies;
use crate::ports::Ports;
use crate::project::{
    Environment, LockError, PlaceError, Places, Privacy, PrivateDirectory, Project, ProjectError, ProjectLock, Trust,
    TrustError,
};
use crate::recovery;
use crate::redact::Redactor;
use crate::run::{self, Claim, Invocations, Runs, Worked};
use crate::sandbox::{Boundary, BoundaryOptions, SandboxError};
use crate::session::{Control, Sessions};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;
use stockade_protocol::command::{Command, Reply};
use stockade_protocol::digest::Digest;
use stockade_protocol::event::{
    CallEvent, Event, EventEnvelope, EventSource as _, JournalEvent, RunOutcome, RuntimeEvent,
};
use stockade_protocol::ids::{CallId, Principal, PrincipalKind, RunId, SessionId};
use stockade_protocol::limits;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::request::{Origin, ToolCallRequest};
use stockade_protocol::result::{CallResult, Removal};
use tokio::sync::watch;

/// The longest a run opened by a person or a client may take.
const RUN: Duration = Duration::from_secs(12 * 3_600);

/// What the binary decides.
#[derive(Debug)]
pub struct Options {
    /// Deployment, from `STOCKADE_ENV`.
    pub environment: Environment,
    /// The program that starts workers: `/proc/self/exe`.
    pub executable: PathBuf,
    /// Name and public key (64 hex digits) of those who may sign receipts.
    pub approvers: Vec<(String, String)>,
    /// The person who trusts the project and whose places these are.
    pub person: Principal,
    /// Clock and random source.
    pub ports: Ports,
}

/// A runtime could not start. Nothing has run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The project is not as it should be.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// Another process has the project, or its state directory is not usable.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A directory of stockade's own is not private.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// What is known of trusted projects cannot be read: then none is trusted.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The person does not trust the project in this state.
    #[error(
        "the project in {root} is not trusted in the state {digest}: nothing in it runs. Look at it, then trust it"
    )]
    Untrusted {
        /// The project.
        root: String,
        /// Its state.
        digest: Digest,
    },
    /// Another process has the project open.
    #[error("another stockade has this project open. Join it, or end it first")]
    Busy,
    /// A tool's manifest has faults.
    #[error("{0}")]
    Tools(crate::manifest::Faults),
    /// A policy has faults.
    #[error("{0}")]
    Policies(crate::manifest::Faults),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The boundary is not there.
    #[error(transparent)]
    Boundary(#[from] SandboxError),
    /// The project's folder cannot be held.
    #[error(transparent)]
    Grant(#[from] GrantError),
}

/// A running runtime. Clones are handles to the same one.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Runtime({})", self.inner.world.project.root_text())
    }
}

struct Inner {
    world: Arc<World>,
    runs: Arc<Runs>,
    invocations: Invocations,
    journal_path: PathBuf,
    /// Held for as long as the runtime lives, and its control socket.
    lock: Arc<ProjectLock>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The last handle is gone without a stop: what lives is told to end. The supervisor removes what does not.
        for run in self.runs.close() {
            run.cancel(Refusal::new(RefusalCode::Cancelled, Authority::Person, "stockade was dropped"));
        }
        self.world.sessions.close_all();
    }
}

impl Runtime {
    /// Opens a project that the person trusts: takes its lock, opens its journal, starts its boundary, settles what an
    /// earlier runtime left, and only then accepts commands.
    ///
    /// # Errors
    /// When anything that would be enforced is not there or not as it was trusted. Nothing has run then.
    pub async fn start(project: Project, places: &Places, options: Options) -> Result<Self, StartError> {
        if project.trust(places)? != Trust::Trusted {
            return Err(StartError::Untrusted { root: project.root_text().to_owned(), digest: project.digest() });
        }
        let lock = project.lock(places)?.ok_or(StartError::Busy)?;
        let root = project.root().to_owned();
        let tools = ToolSet::load(&root).map_err(StartError::Tools)?;
        let policies = Policies::load(&root, &tools).map_err(StartError::Policies)?;
        project.confirm()?;
        // They are protected by what they are, so they must be there to be held.
        PrivateDirectory::open(&places.config, Privacy::Guarded)?;
        PrivateDirectory::open(&places.runtime, Privacy::Closed)?;
        let held = ProjectRoot::open(&root, &[&places.state, &places.config, &places.runtime])?;
        let redactor = Redactor::standard();
        let journal_path = places.journal(&root);
        let ports = options.ports.clone();
        let (journal, _) = Journal::open(&journal_path, &places.journal_key(&root), redactor.clone(), ports.clone())?;
        let boundary = Boundary::start(BoundaryOptions {
            executable: options.executable.clone(),
            state: places.project_state(&root),
            label: label(&places.project_state(&root)),
        })
        .await?;
        let configuration = project.configuration();
        let approvals = Approvals::new(
            journal.clone(),
            ports.clone(),
            Duration::from_millis(configuration.approval_wait_ms),
            Duration::from_millis(configuration.receipt_life_ms),
        );
        let world = Arc::new(World {
            tools,
            policies,
            boundary,
            root: Arc::new(held),
            journal,
            approvals,
            redactor,
            sessions: Sessions::default(),
            ports,
            environment: Arc::from(options.environment.word()),
            project,
        });
        let invocations = recovery::settle(&world).await?;
        let inner = Inner {
            world,
            runs: Arc::new(Runs::default()),
            invocations: Invocations::new(invocations),
            journal_path,
            lock: Arc::new(lock),
        };
        let runtime = Self { inner: Arc::new(inner) };
        tokio::spawn(end_with_journal(Arc::downgrade(&runtime.inner), runtime.inner.world.journal.failed()));
        runtime.announce(&options).await?;
        Ok(runtime)
    }

    async fn announce(&self, options: &Options) -> Result<(), StartError> {
        let world = &self.inner.world;
        let note = |event| Entry { run: None, session: None, call: None, event };
        world
            .journal
            .append(note(Event::Runtime(RuntimeEvent::Started {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                project: world.project.configuration().name.clone(),
                root: world.project.root_text().to_owned(),
                configuration: world.project.digest(),
                tier: world.boundary.tier().to_owned(),
                network: world.project.configuration().network.word().to_owned(),
                unenforced: world.boundary.unenforced(),
                tools: world.tools.names().map(ToOwned::to_owned).collect(),
            })))
            .await?;
        let trusted = RuntimeEvent::Trusted { configuration: world.project.digest(), by: options.person.clone() };
        let last = world.journal.events().pull(0, usize::MAX).into_iter().rev().find_map(|seen| match &seen.event {
            Event::Runtime(event @ RuntimeEvent::Trusted { .. }) => Some(event.clone()),
            _ => None,
        });
        // Once for each state: the journal shows since when this state is trusted.
        if last.as_ref() != Some(&trusted) {
            world.journal.append(note(Event::Runtime(trusted))).await?;
        }
        for (name, key) in &options.approvers {
            let known = JournalEvent::ApproverKey { name: name.clone(), key: key.clone() };
            world.journal.append(note(Event::Journal(known))).await?;
            world.approvals.register(name, key);
        }
        Ok(())
    }

    /// The journal's events, for screens.
    #[must_use]
    pub fn events(&self) -> JournalEvents {
        self.inner.world.journal.events()
    }

    /// Resolves when the journal stopped accepting records because it could not be written, and never otherwise. Every
    /// run has been told to end then, and nothing more is begun: only [`Self::stop`] is left to do.
    pub fn failed(&self) -> impl Future<Output = JournalError> + Send + use<> {
        self.inner.world.journal.failed()
    }

    /// Where the journal is.
    #[must_use]
    pub fn journal_path(&self) -> &std::path::Path {
        &self.inner.journal_path
    }

    /// The lock of the project, for its control socket.
    #[must_use]
    pub fn lock(&self) -> Arc<ProjectLock> {
        Arc::clone(&self.inner.lock)
    }

    /// The project.
    #[must_use]
    pub fn project(&self) -> &Project {
        &self.inner.world.project
    }

    /// Ends every run, awaits the removal of every worker, closes the journal.
    ///
    /// # Errors
    /// When the journal cannot be closed.
    pub async fn stop(&self) -> Result<Removal, JournalError> {
        let world = &self.inner.world;
        let runs = &self.inner.runs;
        runs.end_all(runs.close(), world, "stockade was ended").await;
        let removal = world.boundary.stop().await;
        let stopped = Event::Runtime(RuntimeEvent::Stopped {});
        let stopped = world.journal.append(Entry { run: None, session: None, call: None, event: stopped }).await;
        // One that has failed is let go too, for the start that repairs it.
        let closed = world.journal.close().await;
        stopped?;
        closed?;
        Ok(removal)
    }

    async fn call(&self, caller: &Caller, request: ToolCallRequest, run: Option<RunId>) -> Result<CallResult, Refusal> {
        // A task of its own: dropping this future drops the sender, which tells the call to give up, and what was begun
        // is brought to its end and journaled all the same.
        let (gone, signal) = watch::channel(None);
        let (at_work, caller) = (self.clone(), caller.clone());
        let task = tokio::spawn(async move { at_work.carry(&caller, request, run, signal).await });
        let result = task.await.unwrap_or_else(|_stopped| Err(stopped()));
        drop(gone);
        result
    }

    async fn carry(
        &self,
        caller: &Caller,
        request: ToolCallRequest,
        run: Option<RunId>,
        signal: watch::Receiver<Option<Refusal>>,
    ) -> Result<CallResult, Refusal> {
        let world = &self.inner.world;
        let id = CallId::from_bits(world.ports.random());
        // Its run comes with the run: nothing is journaled before.
        let none = RunId::from_bits([0; 16]);
        let mut asked = Asked::new(id, none, caller.principal.clone(), caller.origin, request, &world.redactor);
        let key = asked.request.invocation_id.clone().map(|id| (caller.principal.clone(), id));
        if let Some(key) = &key
            && let Some(known) = self.claim(key, &asked.request)?
        {
            return Ok(known);
        }
        let entered = match run {
            Some(id) => self.inner.runs.owned(id, &caller.principal, caller.connection).ok_or_else(|| no_run(id)),
            None => self.open_run(caller, &asked.request.tool).await,
        };
        let entered = entered.and_then(|run| run.busy().map(|busy| (run.clone(), busy)).ok_or_else(|| no_run(run.id)));
        let (owner, busy) = match entered {
            Ok(entered) => entered,
            Err(refusal) => {
                if let Some(key) = &key {
                    self.inner.invocations.release(key);
                }
                return Err(refusal);
            }
        };
        asked.run = owner.id;
        let mut cancelled: Cancelled = owner.cancelled();
        cancelled.signals.push(signal);
        let task = {
            let world = Arc::clone(world);
            tokio::spawn(async move { call::run(asked, &world, &cancelled).await })
        };
        let result = match task.await {
            Ok((result, end)) => {
                if let Some(key) = &key {
                    self.inner.invocations.ended(key, end);
                }
                Ok(result)
            }
            Err(_) => {
                let event = Event::Call(CallEvent::InDoubt {});
                // When it cannot be written either, the next start finds the call open and says the same.
                drop(world.journal.append(Entry { run: Some(owner.id), session: None, call: Some(id), event }).await);
                Err(stopped())
            }
        };
        drop(busy);
        if run.is_none() {
            let worked = match &result {
                Ok(result) => Worked::of_call(result),
                Err(refusal) => Worked { outcome: RunOutcome::Failed, answer: None, reason: Some(refusal.to_string()) },
            };
            self.inner.runs.end(&owner, world, worked).await;
        }
        result
    }

    /// The recorded result for an invocation id that was seen before; claims one that was not.
    fn claim(&self, key: &run::Key, request: &ToolCallRequest) -> Result<Option<CallResult>, Refusal> {
        let world = &self.inner.world;
        let asked = run::asked(request, &world.redactor)
            .map_err(|error| Refusal::new(RefusalCode::Invalid, Authority::Manifest, error.to_string()))?;
        match self.inner.invocations.claim(key, asked) {
            Claim::Fresh => Ok(None),
            Claim::Refused(refusal) => Err(refusal),
            Claim::Ended(end) => match self.events().pull(end, 1).first().map(|record| &record.event) {
                Some(Event::Call(CallEvent::Finished { result })) => Ok(Some((**result).clone())),
                _ => {
                    let reason = format!("record {end} should hold the result of this invocation id and does not");
                    Err(Refusal::new(RefusalCode::InDoubt, Authority::Journal, reason)
                        .next("`stockade journal verify` checks the journal"))
                }
            },
        }
    }

    async fn open_run(&self, caller: &Caller, title: &str) -> Result<Arc<run::Run>, Refusal> {
        let (runs, world) = (Arc::clone(&self.inner.runs), Arc::clone(&self.inner.world));
        let (principal, origin, connection) = (caller.principal.clone(), caller.origin, Some(caller.connection));
        let title = title.to_owned();
        let opening = tokio::spawn(async move { runs.open(&world, principal, origin, connection, &title, RUN).await });
        opening.await.unwrap_or_else(|_stopped| Err(stopped()))
    }

    async fn start_agent(&self, name: &str, prompt: String) -> Result<RunId, Refusal> {
        let world = Arc::clone(&self.inner.world);
        let agents = world.project.agents();
        let agent = agents.get(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = agents.keys().map(String::as_str).collect();
            Refusal::new(RefusalCode::Invalid, Authority::Manifest, format!("there is no agent called {name}"))
                .next(format!("Known agents: {}", known.join(", ")))
        })?;
        let principal = stockade_protocol::ids::Principal::agent(name);
        let deadline = Duration::from_millis(agent.deadline_ms);
        let title = if prompt.trim().is_empty() { name.to_owned() } else { format!("{name}: {prompt}") };
        let run = self.inner.runs.open(&world, principal, Origin::Loop, None, &title, deadline).await?;
        let id = run.id;
        let busy = run.busy().ok_or_else(|| no_run(id))?;
        let runs = Arc::clone(&self.inner.runs);
        tokio::spawn(async move {
            let inference = run::client(&agent.provider);
            let cancelled = run.cancelled();
            let worked = run::work(&agent, inference.as_ref(), prompt, &run, &world, cancelled).await;
            drop(busy);
            runs.end(&run, &world, worked).await;
        });
        Ok(id)
    }

    /// A session's controls, if the asker may reach them: a person any, an agent its own. Unknown and foreign ids give
    /// the same answer.
    fn controls(&self, caller: &Caller, id: SessionId) -> Result<tokio::sync::mpsc::Sender<Control>, Refusal> {
        let person = caller.principal.kind == PrincipalKind::Person;
        let slot = self.inner.world.sessions.find(id).filter(|slot| {
            let run = self.inner.runs.find(slot.binding.run);
            person
                || run.is_some_and(|run| run.principal == caller.principal && run.connection == Some(caller.connection))
        });
        slot.and_then(|slot| slot.live()).map(|live| live.controls).ok_or_else(|| no_session(id))
    }

    async fn take_over(&self, caller: &Caller, id: SessionId) -> Result<CallResult, Refusal> {
        person(caller)?;
        let world = &self.inner.world;
        let slot = world.sessions.find(id).ok_or_else(|| no_session(id))?;
        let run = self.inner.runs.find(slot.binding.run).ok_or_else(|| no_session(id))?;
        let _busy = run.busy().ok_or_else(|| no_session(id))?;
        let request = ToolCallRequest {
            tool: "take_over".to_owned(),
            arguments: [("session".to_owned(), id.to_string())].into(),
            invocation_id: None,
            reason: None,
        };
        let call = CallId::from_bits(world.ports.random());
        let asked = Asked::new(call, run.id, caller.principal.clone(), caller.origin, request, &world.redactor);
        Ok(call::take_over(asked, slot, caller.connection, world, &run.cancelled()).await)
    }

    async fn answer(&self, caller: &Caller, command: Command) -> Result<Reply, Refusal> {
        let world = &self.inner.world;
        let done = |()| Reply::Done {};
        match command {
            Command::Call { request, run } => {
                let result = self.call(caller, request, run).await?;
                Ok(Reply::Result { result: Box::new(result) })
            }
            Command::Check { request } => {
                let call = CallId::from_bits(world.ports.random());
                let run = RunId::from_bits(world.ports.random());
                let (principal, origin) = (caller.principal.clone(), caller.origin);
                let asked = Asked::new(call, run, principal, origin, request, &world.redactor);
                call::check(asked, world).await
            }
            Command::StartRun { agent, prompt } => {
                person(caller)?;
                self.start_agent(&agent, prompt).await.map(|run| Reply::Started { run })
            }
            Command::OpenRun { title } => self.open_run(caller, &title).await.map(|run| Reply::Started { run: run.id }),
            Command::EndRun { run } => self.end_run(caller, run).await.map(done),
            Command::ListTools => Ok(Reply::Tools { tools: world.tools.infos() }),
            // An empty list would say that nothing was asked.
            Command::ListApprovals => match world.journal.failure() {
                Some(failure) => Err(failure.refusal()),
                None => Ok(Reply::Approvals { pending: world.approvals.pending().await }),
            },
            Command::Decide { receipt } => {
                person(caller)?;
                world.approvals.decide(receipt).await.map(done)
            }
            Command::ListSessions => Ok(Reply::Sessions { sessions: world.sessions.infos() }),
            Command::CloseSession { session } => {
                self.send(caller, session, |_| Control::Close { why: "closed" }).await.map(done)
            }
            Command::Resize { session, columns, rows } => {
                person(caller)?;
                self.send(caller, session, |_| Control::Resize { columns, rows }).await.map(done)
            }
            Command::TakeOver { session } => {
                let result = self.take_over(caller, session).await?;
                Ok(Reply::Result { result: Box::new(result) })
            }
            Command::HandBack { session } => {
                self.ask(caller, session, |by, reply| Control::HandBack { by, reply }).await.map(done)
            }
            Command::Type { session, bytes } => {
                use base64::Engine as _;
                let bytes = base64::engine::general_purpose::STANDARD.decode(bytes).map_err(|error| {
                    Refusal::new(RefusalCode::Invalid, Authority::Person, format!("the bytes are not base64: {error}"))
                })?;
                if bytes.len() > limits::COMMAND_BYTES {
                    let reason = format!("more than {} bytes cannot be typed at once", limits::COMMAND_BYTES);
                    return Err(Refusal::new(RefusalCode::Invalid, Authority::Person, reason).next("Type less"));
                }
                self.ask(caller, session, |by, reply| Control::Type { by, bytes, reply }).await.map(done)
            }
            Command::Events { from, max, wait_ms } => {
                let events = self.events();
                if wait_ms > 0 && events.len() <= from {
                    tokio::select! {
                        _more = events.changed(from) => {}
                        _failure = world.journal.failed() => {}
                        () = tokio::time::sleep(Duration::from_millis(wait_ms.min(60_000))) => {}
                    }
                }
                // Whoever follows must not wait for what will never come.
                let failure = world.journal.failure();
                let mut pulled = events.pull(from, usize::try_from(max.min(4_096)).unwrap_or(4_096));
                pulled.truncate(fitting(&pulled));
                if let (true, Some(failure)) = (pulled.is_empty(), failure) {
                    return Err(failure.refusal());
                }
                Ok(Reply::Events { events: pulled.iter().map(|event| (**event).clone()).collect() })
            }
            Command::Status => Ok(self.status().await),
        }
    }

    async fn status(&self) -> Reply {
        let world = &self.inner.world;
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        Reply::Status {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            root: world.project.root_text().to_owned(),
            journal: self.inner.journal_path.to_string_lossy().into_owned(),
            pending: count(world.approvals.pending().await.len()),
            sessions: count(world.sessions.infos().len()),
            records: self.events().len(),
        }
    }

    async fn end_run(&self, caller: &Caller, id: RunId) -> Result<(), Refusal> {
        let run = match caller.principal.kind {
            PrincipalKind::Person => self.inner.runs.find(id),
            PrincipalKind::Agent => self.inner.runs.owned(id, &caller.principal, caller.connection),
        };
        let run = run.ok_or_else(|| no_run(id))?;
        let own = run.connection == Some(caller.connection) && run.principal == caller.principal;
        let worked = if own {
            Worked { outcome: RunOutcome::Done, answer: None, reason: None }
        } else {
            cancelled("a person stopped the run")
        };
        self.inner.runs.end(&run, &self.inner.world, worked).await;
        Ok(())
    }

    async fn send(
        &self,
        caller: &Caller,
        id: SessionId,
        control: impl FnOnce(SessionId) -> Control,
    ) -> Result<(), Refusal> {
        self.controls(caller, id)?.send(control(id)).await.map_err(|_closed| no_session(id))
    }

    async fn ask(
        &self,
        caller: &Caller,
        id: SessionId,
        control: impl FnOnce(
            stockade_protocol::ids::Principal,
            tokio::sync::oneshot::Sender<Result<(), Refusal>>,
        ) -> Control,
    ) -> Result<(), Refusal> {
        person(caller)?;
        let (reply, answered) = tokio::sync::oneshot::channel();
        let control = control(caller.principal.clone(), reply);
        self.controls(caller, id)?.send(control).await.map_err(|_closed| no_session(id))?;
        answered.await.map_err(|_closed| no_session(id))?
    }
}

impl Serve for Runtime {
    async fn command(&self, caller: &Caller, command: Command) -> Reply {
        self.answer(caller, command).await.unwrap_or_else(|refusal| Reply::Refused { refusal })
    }

    async fn caller_gone(&self, caller: &Caller) {
        let (runs, world) = (&self.inner.runs, &self.inner.world);
        runs.end_all(runs.abandon(caller.connection), world, "its client went away").await;
        world.sessions.release(caller.connection).await;
    }
}

/// How many of these fit in one answer; always one, so that whoever follows gets on.
fn fitting(events: &[Arc<EventEnvelope>]) -> usize {
    let mut bytes = Length(0);
    let fits = events.iter().take_while(|event| {
        // An event that has no JSON form was not recorded.
        serde_json::to_writer(&mut bytes, event.as_ref()).is_ok() && bytes.0 <= limits::EVENTS_BYTES
    });
    fits.count().max(1)
}

/// Counts what is written to it.
struct Length(usize);

impl std::io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Ends everything once the journal has failed: what cannot be recorded does not go on.
async fn end_with_journal(inner: Weak<Inner>, failed: impl Future<Output = JournalError>) {
    let failure = failed.await;
    let Some((runs, world)) = inner.upgrade().map(|inner| (Arc::clone(&inner.runs), Arc::clone(&inner.world))) else {
        return;
    };
    runs.end_all(runs.open_now(), &world, &failure.to_string()).await;
}

/// What process lists show and leftovers are found by: the name of the project's state directory.
fn label(state: &std::path::Path) -> String {
    state.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn cancelled(reason: &str) -> Worked {
    Worked { outcome: RunOutcome::Cancelled, answer: None, reason: Some(reason.to_owned()) }
}

fn no_run(id: RunId) -> Refusal {
    Refusal::new(RefusalCode::Invalid, Authority::Person, format!("there is no open run {id}"))
        .next("Open a run, or call without one")
}

fn stopped() -> Refusal {
    Refusal::new(RefusalCode::InDoubt, Authority::Journal, "a task stopped unexpectedly")
        .next("`stockade journal tail` shows how far it got")
}

fn no_session(id: SessionId) -> Refusal {
    Refusal::new(RefusalCode::Invalid, Authority::Person, format!("there is no live session {id}"))
        .next("`stockade sessions list` shows them")
}

fn person(caller: &Caller) -> Result<(), Refusal> {
    if caller.principal.kind == PrincipalKind::Person {
        return Ok(());
    }
    Err(Refusal::new(RefusalCode::Denied, Authority::Person, "only a person may do this"))
}
