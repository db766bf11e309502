//! The actor that owns one live worker and its terminal.

mod controls;

use super::prompt::{PromptWatch, split_answer};
use super::{Live, Slot};
use crate::grant;
use crate::journal::{Entry, Journal, OutputStream};
use crate::manifest::SessionSpec;
use crate::ports::Ports;
use crate::sandbox::{Boundary, PtyMaster, Worker, WorkerIo, WorkerSpec};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use stockade_protocol::event::{Event, GrantEvent, SessionEvent};
use stockade_protocol::ids::{CallId, Principal};
use stockade_protocol::limits::TRANSCRIPT_BYTES;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::result::{CreatedFile, Removal};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

/// How long output must be silent after a prompt before it counts: a prompt's text in the middle of output that arrives
/// in pieces is followed by more.
const SETTLE: Duration = Duration::from_millis(30);
/// Longest wait for a worker's confirmed removal.
const REMOVAL: Duration = Duration::from_secs(15);
/// Bytes read from a terminal at once.
const READ: usize = 64 * 1024;
/// Why a session ends that printed more than it may.
const OUTPUT: &str = "output";
/// Pieces of late output that are read before a line is typed.
const LATE: usize = 16;

/// What is needed to open a session.
pub(crate) struct Opening {
    pub(crate) slot: Arc<Slot>,
    pub(crate) spec: WorkerSpec,
    pub(crate) session: SessionSpec,
    pub(crate) files: Arc<grant::Prepared>,
    pub(crate) run_deadline: Instant,
    /// Given back when the session has ended.
    pub(crate) room: OwnedSemaphorePermit,
}

/// A line that a recorded call types.
pub(crate) struct Typed {
    pub(crate) call: CallId,
    pub(crate) by: Principal,
    pub(crate) line: String,
    pub(crate) finalizes: bool,
    pub(crate) deadline: Duration,
    pub(crate) turn: Turn,
    pub(crate) reply: oneshot::Sender<Result<Answered, Broken>>,
}

/// Whether a waiting line is typed or taken back: whoever comes first decides, once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turn(Arc<AtomicU8>);

impl Turn {
    const WAITING: u8 = 0;
    const TYPED: u8 = 1;
    const TAKEN_BACK: u8 = 2;

    fn decide(&self, so: u8) -> bool {
        self.0.compare_exchange(Self::WAITING, so, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// The actor is about to type the line. `false` when it was taken back.
    fn begin(&self) -> bool {
        self.decide(Self::TYPED)
    }

    /// Takes the line back. `false` when it is being typed already.
    pub(crate) fn take_back(&self) -> bool {
        self.decide(Self::TAKEN_BACK)
    }
}

/// The session answered.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) output: String,
    pub(crate) count: u32,
    /// Set when the line ended the session.
    pub(crate) finalized: Option<(Removal, Option<CreatedFile>)>,
}

/// The session did not answer and is closed now.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) refusal: Refusal,
    /// Whether anything of the line was typed.
    pub(crate) typed: bool,
    pub(crate) output: String,
    /// Whether it was cut because it is longer than it may be.
    pub(crate) cut: bool,
    pub(crate) count: u32,
    pub(crate) removal: Removal,
    pub(crate) unpublished: bool,
}

impl Broken {
    /// For a line that waited when the session ended.
    pub(crate) fn untyped(end: &SessionEnd, count: u32) -> Self {
        Self {
            refusal: end.refusal.clone().next("Nothing of the line was typed. Start a new run to try again"),
            typed: false,
            output: String::new(),
            cut: false,
            count,
            removal: end.removal,
            unpublished: end.unpublished,
        }
    }
}

/// How a session ended.
#[derive(Debug, Clone)]
pub(crate) struct SessionEnd {
    pub(crate) why: String,
    /// The same for those whose line was not answered.
    pub(crate) refusal: Refusal,
    pub(crate) removal: Removal,
    /// Whether declared output was discarded.
    pub(crate) unpublished: bool,
}

/// What people and the run's end do to a session.
pub(crate) enum Control {
    Close { why: &'static str },
    Resize { columns: u16, rows: u16 },
    TakeOver { by: Principal, connection: u64, reply: oneshot::Sender<Result<(), Refusal>> },
    Release { connection: u64 },
    HandBack { by: Principal, reply: oneshot::Sender<Result<(), Refusal>> },
    Type { by: Principal, bytes: Vec<u8>, reply: oneshot::Sender<Result<(), Refusal>> },
}

/// Starts the worker and its actor.
pub(crate) async fn open(
    opening: Opening,
    boundary: &Boundary,
    journal: &Journal,
    ports: &Ports,
) -> Result<Live, Refusal> {
    let inputs = opening.files.input_fds().map_err(|error| error.refusal())?;
    let (columns, rows) = (80, 24);
    let mut worker = boundary.launch(opening.spec.clone(), inputs).await.map_err(|error| error.refusal())?;
    let Some(WorkerIo::Pty(pty)) = worker.take_io() else {
        worker.kill().await;
        return Err(Refusal::new(RefusalCode::Unavailable, Authority::Tier, "the boundary gave no terminal"));
    };
    let lifetime = Duration::from_millis(opening.session.session_timeout_ms)
        .min(opening.run_deadline.saturating_duration_since(Instant::now()));
    let deadline = ports.now().plus_ms(u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX));
    let slot = opening.slot;
    let record =
        |event| Entry { run: Some(slot.binding.run), session: Some(slot.id), call: None, event: Event::Session(event) };
    let opened = SessionEvent::Opened {
        tool: slot.binding.tool.clone(),
        principal: slot.binding.principal.clone(),
        enforcement: worker.enforcement.clone(),
        network: "none".to_owned(),
        columns,
        rows,
        deadline,
    };
    if let Err(error) = journal.append(record(opened)).await {
        worker.kill().await;
        return Err(error.refusal());
    }
    let (commands, command_receiver) = mpsc::channel(1);
    let (controls, control_receiver) = mpsc::channel(16);
    let (end_sender, ended) = watch::channel(None);
    let staged = worker.take_output();
    let enforcement = worker.enforcement.clone();
    let actor = Actor {
        out: journal.output(slot.binding.run, slot.id),
        watch: PromptWatch::new(opening.session.ready.clone()),
        interactions: 0,
        transcript: 0,
        keyboard: None,
        size: (columns, rows),
        typing: false,
        room: Some(opening.room),
        born: Instant::now(),
        lifetime: Instant::now() + lifetime,
        transcript_max: TRANSCRIPT_BYTES.min(usize::try_from(opening.spec.limits.output_bytes).unwrap_or(usize::MAX)),
        journal: journal.clone(),
        session: opening.session,
        files: Some(opening.files),
        staged,
        worker,
        pty,
        controls: control_receiver,
        slot: Arc::clone(&slot),
    };
    let live = Live { commands, controls, ended, deadline, enforcement };
    // Before the actor begins: one that ends at once must not be overtaken by its own beginning.
    let open = slot.set_live(live.clone());
    tokio::spawn(actor.run(command_receiver, end_sender));
    if !open {
        let refusal = Refusal::new(RefusalCode::Cancelled, Authority::Manifest, "the run of the session has ended");
        return Err(give_up(live, refusal).await);
    }
    Ok(live)
}

/// Ends a session that nobody is to reach, and awaits its end.
async fn give_up(mut live: Live, refusal: Refusal) -> Refusal {
    drop(live.controls.send(Control::Close { why: "run_ended" }).await);
    drop(live.ended.wait_for(Option::is_some).await);
    refusal
}

/// Why the actor stops.
struct Stop {
    why: &'static str,
    refusal: Refusal,
}

fn stop(why: &'static str, code: RefusalCode, authority: Authority, reason: impl Into<String>) -> Stop {
    Stop { why, refusal: Refusal::new(code, authority, reason) }
}

struct Actor {
    slot: Arc<Slot>,
    session: SessionSpec,
    worker: Worker,
    pty: PtyMaster,
    out: OutputStream,
    watch: PromptWatch,
    files: Option<Arc<grant::Prepared>>,
    staged: Option<OwnedFd>,
    journal: Journal,
    controls: mpsc::Receiver<Control>,
    /// The person who has the keyboard, and on which connection.
    keyboard: Option<(Principal, u64)>,
    /// The terminal's, columns and rows.
    size: (u16, u16),
    /// Whether a line has begun to be typed and its end has not.
    typing: bool,
    room: Option<OwnedSemaphorePermit>,
    interactions: u32,
    /// Output so far, idle output included, bytes.
    transcript: usize,
    transcript_max: usize,
    born: Instant,
    lifetime: Instant,
}

impl Actor {
    async fn run(mut self, mut commands: mpsc::Receiver<Typed>, ended: watch::Sender<Option<SessionEnd>>) {
        let stopped = self.live(&mut commands).await;
        commands.close();
        let end = match stopped {
            Ended::Finalized(end) => end,
            Ended::Stopped(stop, asker) => {
                let (end, output) = self.close(stop).await;
                if let Some(Asker { reply, mut answer, typed }) = asker {
                    answer.push_str(&output);
                    let broken = Broken {
                        refusal: unpublished_if(end.refusal.clone(), end.unpublished),
                        typed,
                        output: answer,
                        cut: end.why == OUTPUT,
                        count: self.interactions,
                        removal: end.removal,
                        unpublished: end.unpublished,
                    };
                    // The asker may have gone; its call is journaled by its own pipeline.
                    drop(reply.send(Err(broken)));
                }
                end
            }
        };
        // Also one that had its place in the queue and is being put there right now.
        while let Some(typed) = commands.recv().await {
            let broken = Broken::untyped(&end, self.interactions);
            drop(typed.reply.send(Err(broken)));
        }
        drop(self.room.take());
        self.slot.set_ended(end.clone());
        ended.send_replace(Some(end));
    }

    async fn live(&mut self, commands: &mut mpsc::Receiver<Typed>) -> Ended {
        let startup = self.born + Duration::from_millis(self.session.startup_timeout_ms);
        if let Err(stop) = self.until_prompt(&mut Vec::new(), &[], startup, "startup").await {
            return Ended::Stopped(stop, None);
        }
        if let Err(stop) = self.record(SessionEvent::Ready {}).await {
            return Ended::Stopped(stop, None);
        }
        let rest = Duration::from_millis(self.session.idle_timeout_ms);
        let mut idle = Instant::now() + rest;
        let mut buffer = vec![0; READ];
        loop {
            let paused = self.keyboard.is_some();
            tokio::select! {
                typed = commands.recv(), if !paused => {
                    let Some(typed) = typed else {
                        return Ended::Stopped(stop("closed", RefusalCode::Cancelled, Authority::Person, "the session was closed"), None);
                    };
                    match self.interact(typed).await {
                        Ok(None) => idle = Instant::now() + rest,
                        Ok(Some(end)) => return Ended::Finalized(end),
                        Err(ended) => return *ended,
                    }
                }
                control = self.controls.recv() => {
                    if let Err(stop) = self.control(control).await {
                        return Ended::Stopped(stop, None);
                    }
                }
                read = self.pty.read(&mut buffer) => {
                    if let Err(stop) = self.took(read, &mut buffer, None).await {
                        return Ended::Stopped(stop, None);
                    }
                }
                () = sleep_until(idle) => {
                    // A call that is being judged or waits for a person is not idleness.
                    if self.slot.is_held() || paused {
                        idle = Instant::now() + Duration::from_secs(1).min(rest);
                    } else {
                        let reason = format!("nothing was typed for {} s", rest.as_secs());
                        return Ended::Stopped(stop("idle", RefusalCode::Timeout, Authority::Clock, reason), None);
                    }
                }
                () = sleep_until(self.lifetime) => return Ended::Stopped(self.too_old(), None),
            }
        }
    }

    fn too_old(&self) -> Stop {
        let reason = format!("the session reached its end of life after {} s", self.born.elapsed().as_secs());
        stop("lifetime", RefusalCode::Timeout, Authority::Clock, reason)
    }

    /// One line and its answer. `Ok(Some)` when it ended the session as declared.
    async fn interact(&mut self, typed: Typed) -> Result<Option<SessionEnd>, Box<Ended>> {
        let Typed { call, by, line, finalizes, deadline, turn, reply } = typed;
        if !turn.begin() {
            return Ok(None);
        }
        let mut answer = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if self.interactions >= self.session.max_interactions {
            let reason = format!("the session's {} interactions are used up", self.session.max_interactions);
            let stop = stop("interaction", RefusalCode::Limit, Authority::Manifest, reason);
            return Err(Ended::asked(stop, reply, String::new(), false));
        }
        self.interactions += 1;
        self.slot.interactions.store(self.interactions, Ordering::SeqCst);
        let mut typed = false;
        let asked = async {
            self.record(SessionEvent::Input { by, text: line.clone().into() }).await?;
            self.late_output().await?;
            typed = true;
            self.watch.reset();
            let until = (Instant::now() + deadline).min(self.lifetime);
            let mut bytes = line.into_bytes();
            bytes.push(b'\n');
            self.until_prompt(&mut answer, &bytes, until, "interaction").await
        };
        if let Err(stop) = asked.await {
            return Err(Ended::asked(stop, reply, text(&answer), typed));
        }
        match self.out.flush().await {
            Ok(released) => answer.extend(released),
            Err(error) => {
                let stop = Stop { why: "failed", refusal: error.refusal() };
                return Err(Ended::asked(stop, reply, text(&answer), true));
            }
        }
        let (said, _prompt) = split_answer(&answer);
        let output = text(said);
        if !finalizes {
            drop(reply.send(Ok(Answered { output, count: self.interactions, finalized: None })));
            return Ok(None);
        }
        let (end, published) = self.finalize(call).await;
        let answered = match published {
            Ok(file) => Ok(Answered { output, count: self.interactions, finalized: Some((end.removal, file)) }),
            Err(refusal) => Err(Broken {
                refusal,
                typed: true,
                output,
                cut: false,
                count: self.interactions,
                removal: end.removal,
                unpublished: end.unpublished,
            }),
        };
        drop(reply.send(answered));
        Ok(Some(end))
    }

    /// What the program printed before a line is typed answers nothing.
    async fn late_output(&mut self) -> Result<(), Stop> {
        let mut buffer = vec![0; READ];
        for _ in 0..LATE {
            let Some(read) = ready(&mut self.pty, &mut buffer).await else { break };
            self.took(read, &mut buffer, None).await?;
        }
        Ok(())
    }

    /// Takes what is there to be read now, if anything is.
    async fn more(&mut self, from: &mut PtyMaster, buffer: &mut [u8], answer: &mut Vec<u8>) -> Result<bool, Stop> {
        let Some(read) = ready(from, buffer).await else { return Ok(false) };
        self.took(read, buffer, Some(answer)).await.map(|()| true)
    }

    /// Types `input` and reads until the prompt is there and output is silent, or `until`. While a person has the
    /// keyboard, nothing is typed and that time does not count.
    async fn until_prompt(
        &mut self,
        answer: &mut Vec<u8>,
        input: &[u8],
        until: Instant,
        phase: &'static str,
    ) -> Result<(), Stop> {
        let (mut rest, mut until, mut last) = (input, until, Instant::now());
        let mut quiet = last + SETTLE;
        let mut buffer = vec![0; READ];
        let mut received = 0;
        let (mut reader, mut writer) = (self.pty.clone(), self.pty.clone());
        loop {
            // A line that is recorded as typed is typed to its end before anybody else gets the keyboard.
            let free = self.keyboard.is_none();
            self.typing = !rest.is_empty() && free;
            let answered = rest.is_empty() && free && self.watch.observed().is_some();
            let wake = if answered { quiet.min(until) } else { until };
            // Not in a fixed order: none of these may keep the others from their turn.
            tokio::select! {
                control = self.controls.recv() => self.control(control).await?,
                written = writer.write(rest), if !rest.is_empty() && free => match written {
                    Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                    Err(_) => return Err(gone()),
                },
                read = reader.read(&mut buffer) => {
                    received += *read.as_ref().unwrap_or(&0);
                    self.took(read, &mut buffer, Some(answer)).await?;
                    quiet = Instant::now() + SETTLE;
                    if received > self.session.output_max_bytes {
                        let reason = format!("the answer is longer than {} bytes", self.session.output_max_bytes);
                        return Err(stop(OUTPUT, RefusalCode::Limit, Authority::Manifest, reason));
                    }
                }
                () = sleep_until(wake) => {
                    // Silent only if nothing has come in this very moment.
                    if answered && !self.more(&mut reader, &mut buffer, answer).await? {
                        self.typing = false;
                        return Ok(());
                    }
                }
            }
            // Not by the timer alone: a program that never falls silent would keep it from ever being looked at.
            let now = Instant::now();
            if !free {
                until += now - last;
            }
            last = now;
            if now >= self.lifetime {
                return Err(self.too_old());
            }
            if now >= until {
                let reason = format!("no ready prompt within the {phase}'s time");
                return Err(stop(phase, RefusalCode::Timeout, Authority::Clock, reason));
            }
        }
    }

    /// Journals what was read and counts it.
    async fn took(
        &mut self,
        read: std::io::Result<usize>,
        buffer: &mut [u8],
        answer: Option<&mut Vec<u8>>,
    ) -> Result<(), Stop> {
        let Ok(count @ 1..) = read else {
            return Err(gone());
        };
        let bytes = buffer.get(..count).unwrap_or_default();
        self.watch.push(bytes);
        self.transcript = self.transcript.saturating_add(count);
        let released = self.out.write(bytes).await.map_err(|error| Stop { why: "failed", refusal: error.refusal() })?;
        if let Some(answer) = answer {
            answer.extend(released);
        }
        if self.transcript > self.transcript_max {
            let reason = format!("the session printed more than {} bytes", self.transcript_max);
            return Err(stop(OUTPUT, RefusalCode::Limit, Authority::Manifest, reason));
        }
        Ok(())
    }

    async fn record(&self, event: SessionEvent) -> Result<(), Stop> {
        let entry = Entry {
            run: Some(self.slot.binding.run),
            session: Some(self.slot.id),
            call: None,
            event: Event::Session(event),
        };
        self.journal.append(entry).await.map(drop).map_err(|error| Stop { why: "failed", refusal: error.refusal() })
    }

    async fn remove(&mut self) -> Removal {
        match tokio::time::timeout(REMOVAL, self.worker.kill()).await {
            Ok(end) => end.removal,
            Err(_) => Removal::Unconfirmed,
        }
    }

    /// The declared end: worker gone, output verified, published.
    async fn finalize(&mut self, call: CallId) -> (SessionEnd, Result<Option<CreatedFile>, Refusal>) {
        let removal = self.remove().await;
        let staged = self.staged.take();
        let files = self.files.take();
        let declared = staged.is_some();
        let published = match (files, staged) {
            (Some(files), Some(staged)) => {
                let published = crate::call::publish(
                    files,
                    staged,
                    removal,
                    &self.journal,
                    self.slot.binding.run,
                    Some(self.slot.id),
                    call,
                );
                published.await.map(Some)
            }
            _ if removal == Removal::Unconfirmed => {
                Err(Refusal::new(RefusalCode::Failed, Authority::Tier, "the worker's removal was not confirmed"))
            }
            _ => Ok(None),
        };
        let refusal =
            Refusal::new(RefusalCode::Cancelled, Authority::Manifest, "the session was ended by another line");
        let unpublished = declared && published.is_err();
        let end = SessionEnd { why: "finalized".to_owned(), refusal, removal, unpublished };
        // A journal that refuses here has refused the publication too; the end is told to the caller all the same.
        drop(self.record(SessionEvent::Closed { why: end.why.clone(), removal }).await);
        (end, published)
    }

    /// Any other end. Returns what redaction had held back.
    async fn close(&mut self, stop: Stop) -> (SessionEnd, String) {
        let Stop { why, refusal } = stop;
        let removal = self.remove().await;
        let held = self.out.flush().await.unwrap_or_default();
        let unpublished = self.staged.take().is_some();
        if let (true, Some(files)) = (unpublished, self.files.take()) {
            let path = files.contract().output.map(|output| output.path).unwrap_or_default();
            let event = Event::Grant(GrantEvent::Unpublished {
                path: path.into(),
                reason: format!("the session ended ({why}) without its finalizing command"),
            });
            let entry = Entry { run: Some(self.slot.binding.run), session: Some(self.slot.id), call: None, event };
            drop(self.journal.append(entry).await);
        }
        drop(self.record(SessionEvent::Closed { why: why.to_owned(), removal }).await);
        let end = SessionEnd { why: why.to_owned(), refusal, removal, unpublished };
        (end, String::from_utf8_lossy(&held).into_owned())
    }
}

/// What can be read without waiting.
async fn ready(from: &mut PtyMaster, buffer: &mut [u8]) -> Option<std::io::Result<usize>> {
    tokio::select! {
        biased;
        read = from.read(buffer) => Some(read),
        () = std::future::ready(()) => None,
    }
}

/// How the live part ended, and who waits to be told.
enum Ended {
    Finalized(SessionEnd),
    Stopped(Stop, Option<Asker>),
}

impl Ended {
    fn asked(stop: Stop, reply: oneshot::Sender<Result<Answered, Broken>>, answer: String, typed: bool) -> Box<Self> {
        Box::new(Self::Stopped(stop, Some(Asker { reply, answer, typed })))
    }
}

/// Who waits for an answer, what came of it so far, and whether anything of the line may have been typed.
struct Asker {
    reply: oneshot::Sender<Result<Answered, Broken>>,
    answer: String,
    typed: bool,
}

fn gone() -> Stop {
    stop("ended", RefusalCode::Failed, Authority::Tier, "the session's program ended")
}

fn unpublished_if(refusal: Refusal, unpublished: bool) -> Refusal {
    if unpublished {
        let next = "The staged output was discarded unpublished. Start a new run to try again";
        return refusal.next(next);
    }
    refusal
}
