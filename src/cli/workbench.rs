//! The workbench on a project: wires the screens to the runtime. Nothing here decides anything.

use crate::environment;
use crate::exit::{Exit, Failure};
use crate::link::{Door, Link, Peer};
use crate::project::ProjectArg;
use crate::receipt::{self, Decided};
use crate::terminal;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use stockade_protocol::command::{Command, Reply};
use stockade_protocol::event::{EventEnvelope, EventSource};
use stockade_protocol::ids::Principal;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::request::Origin;
use stockade_runtime::approval::ApproverKey;
use stockade_runtime::control::{Caller, Serve as _, own_account};
use stockade_ui::app::{self, Exit as Ended};
use stockade_ui::io::{Effect, Ended as Signal, Input, Mode, Options, Port};
use stockade_ui::model::Workbench;
use stockade_ui::theme::{Environment, Theme};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Opens the workbench on the project in `folder`.
pub(crate) async fn run(folder: Option<PathBuf>) -> Result<Exit, Failure> {
    // A mistyped command arrives here as the name of a folder.
    if let Some(folder) = folder.as_deref().filter(|folder| !folder.is_dir()) {
        return Err(Failure::new(Exit::Usage, format!("{} is neither a command nor a folder", folder.display()))
            .why("there is no folder of this name, and no command")
            .next("`stockade --help` lists the commands; `stockade DIR` opens the project in a folder"));
    }
    require_terminal()?;
    let root = ProjectArg::new(folder).root()?;
    let link = door(&root)?.open().await?;
    show(link).await
}

/// The door of a person at the workbench.
pub(crate) fn door(root: &std::path::Path) -> Result<Door, Failure> {
    Ok(Door { origin: Origin::Workbench, ..Door::cli(root)? })
}

/// The workbench is a screen; without a terminal there is none.
pub(crate) fn require_terminal() -> Result<(), Failure> {
    if terminal::output_is_terminal() && terminal::can_ask() {
        return Ok(());
    }
    Err(Failure::new(Exit::Usage, "the workbench needs a terminal")
        .why("input or output is not one")
        .next("use the commands instead: `stockade --help`; `run` and `demo` take --headless"))
}

/// Shows the workbench until the person leaves; what this process started ends with it.
pub(crate) async fn show(link: Link) -> Result<Exit, Failure> {
    let (sender, inputs) = channel();
    let mut tasks = JoinSet::new();
    let source: Box<dyn EventSource + Send> = match &link.peer {
        Peer::Local(runtime) => {
            let events = runtime.events();
            let (told, watched) = (sender.clone(), events.clone());
            let (failed, say) = (runtime.failed(), sender.clone());
            tasks.spawn(async move {
                let failure = failed.await;
                let _ = say.send(Input::Failed(failure.to_string()));
            });
            tasks.spawn(async move {
                let mut seen = 0;
                while let Some(count) = watched.changed(seen).await {
                    seen = count;
                    if told.send(Input::Journal).is_err() {
                        return;
                    }
                }
            });
            Box::new(events)
        }
        Peer::Remote(_) => {
            let mirror = Mirror::default();
            tasks.spawn(mirror.clone().follow(link.peer.clone(), link.caller.clone(), sender.clone()));
            Box::new(mirror)
        }
    };
    tasks.spawn(watch_signals(sender.clone()));
    let port = Bridge::new(&link, sender.clone(), &mut tasks)?;
    let ended = draw(Mode::Live, source, port, inputs, sender).await;
    tasks.shutdown().await;
    let closed = link.close().await;
    ended.and_then(|exit| closed.map(|()| exit))
}

/// Runs the screens on a thread of their own.
pub(crate) async fn draw(
    mode: Mode,
    source: Box<dyn EventSource + Send>,
    mut port: impl Port + Send + 'static,
    inputs: Receiver<Input>,
    sender: Sender<Input>,
) -> Result<Exit, Failure> {
    let terminal = Environment::read(|name| std::env::var(name).ok());
    let options = Options { color: terminal.color(), ascii: terminal.ascii(), theme: Theme::dark(), mode };
    let me = Principal::person(own_account().name);
    let drawing = tokio::task::spawn_blocking(move || {
        let mut screen = Workbench::new(options.clone(), me, jiff::tz::TimeZone::system());
        app::run(&mut screen, source.as_ref(), &mut port, inputs, sender, &options)
    });
    let failed = |why: String| {
        Failure::new(Exit::Internal, "the workbench could not go on")
            .why(why)
            .next("everything up to here is in the journal: `stockade replay`")
    };
    match drawing.await.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))? {
        Ended::Quit => Ok(Exit::Done),
        Ended::Ended(_) => Ok(Exit::Interrupted),
    }
}

/// Signals become inputs, so that the terminal is given back before the program ends.
pub(crate) async fn watch_signals(sender: Sender<Input>) {
    let kinds = [
        (SignalKind::terminate(), Signal::Terminate),
        (SignalKind::hangup(), Signal::HangUp),
        (SignalKind::interrupt(), Signal::Interrupt),
        (SignalKind::quit(), Signal::Quit),
    ];
    let mut watching = JoinSet::new();
    for (kind, input) in kinds {
        let Ok(mut stream) = signal(kind) else { continue };
        let sender = sender.clone();
        watching.spawn(async move {
            while stream.recv().await.is_some() {
                if sender.send(Input::Signal(input)).is_err() {
                    return;
                }
            }
        });
    }
    while watching.join_next().await.is_some() {}
}

/// Does what the screens want.
struct Bridge {
    asking: Arc<Asking>,
    handle: tokio::runtime::Handle,
    /// Keys and sizes, asked one after another: their order is their meaning.
    ordered: mpsc::UnboundedSender<(u64, Command)>,
}

struct Asking {
    peer: Peer,
    caller: Caller,
    key: ApproverKey,
    life_ms: u64,
    answers: Sender<Input>,
}

impl Asking {
    async fn ask(&self, id: u64, command: Command) {
        let reply = self.peer.command(&self.caller, command).await;
        // Once the screens are gone nobody wants the answer.
        let _ = self.answers.send(Input::Answer { id, reply });
    }
}

impl Bridge {
    fn new(link: &Link, answers: Sender<Input>, tasks: &mut JoinSet<()>) -> Result<Self, Failure> {
        let key = ApproverKey::load_or_create(&environment::places()?.approver_key(), own_account().name)?;
        let life_ms = receipt::life_ms(&link.root);
        let asking = Arc::new(Asking { peer: link.peer.clone(), caller: link.caller.clone(), key, life_ms, answers });
        // As much as a person types and pastes; the runtime refuses what is too much.
        let (ordered, mut commands) = mpsc::unbounded_channel();
        let in_order = Arc::clone(&asking);
        tasks.spawn(async move {
            while let Some((id, command)) = commands.recv().await {
                in_order.ask(id, command).await;
            }
        });
        Ok(Self { asking, handle: tokio::runtime::Handle::current(), ordered })
    }
}

impl Port for Bridge {
    fn perform(&mut self, effect: Effect) {
        let (id, command) = match effect {
            Effect::Send { id, command } => (id, command),
            Effect::Decide { id, call, contract, shown, decision, reason } => {
                let decided = Decided { call, contract, shown, decision, reason };
                match receipt::sign(&self.asking.key, decided, self.asking.life_ms) {
                    Ok(receipt) => (id, Command::Decide { receipt }),
                    Err(failure) => {
                        let refusal = failure.into_refusal();
                        let _ = self.asking.answers.send(Input::Answer { id, reply: Reply::Refused { refusal } });
                        return;
                    }
                }
            }
            Effect::Copy(_) | Effect::Quit => return,
        };
        if matches!(command, Command::Type { .. } | Command::Resize { .. } | Command::HandBack { .. }) {
            let _ = self.ordered.send((id, command));
        } else {
            let asking = Arc::clone(&self.asking);
            self.handle.spawn(async move { asking.ask(id, command).await });
        }
    }
}

/// The events of a runtime in another process, as far as they have come over.
#[derive(Debug, Clone, Default)]
struct Mirror(Arc<RwLock<Vec<Arc<EventEnvelope>>>>);

impl EventSource for Mirror {
    fn pull(&self, from: u64, max: usize) -> Vec<Arc<EventEnvelope>> {
        let events = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        events.get(from..).unwrap_or_default().iter().take(max).cloned().collect()
    }

    fn len(&self) -> u64 {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len() as u64
    }
}

impl Mirror {
    async fn follow(self, peer: Peer, caller: Caller, told: Sender<Input>) {
        const WAIT: Duration = Duration::from_secs(20);
        let wait_ms = u64::try_from(WAIT.as_millis()).unwrap_or(u64::MAX);
        loop {
            let command = Command::Events { from: self.len(), max: 512, wait_ms };
            let events = match peer.command(&caller, command).await {
                Reply::Events { events } => events,
                // The runtime is there, and says why there will be no more.
                Reply::Refused { refusal }
                    if (refusal.code, refusal.authority) == (RefusalCode::Unavailable, Authority::Journal)
                        && peer.is_open() =>
                {
                    let _ = told.send(Input::Failed(refusal.reason));
                    return;
                }
                _ => {
                    // The runtime has ended, and with it the project's terminals.
                    let _ = told.send(Input::Signal(Signal::HangUp));
                    return;
                }
            };
            if events.is_empty() {
                continue;
            }
            self.0.write().unwrap_or_else(PoisonError::into_inner).extend(events.into_iter().map(Arc::new));
            if told.send(Input::Journal).is_err() {
                return;
            }
        }
    }
}

/// A recording asks for nothing.
#[derive(Debug)]
pub(crate) struct NoPort(pub(crate) Sender<Input>);

impl Port for NoPort {
    fn perform(&mut self, effect: Effect) {
        if let Effect::Send { id, .. } | Effect::Decide { id, .. } = effect {
            let refusal = Refusal::new(RefusalCode::Unavailable, Authority::Journal, "this is a recording");
            let _ = self.0.send(Input::Answer { id, reply: Reply::Refused { refusal } });
        }
    }
}
