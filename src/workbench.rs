//! Wires the workbench to a runtime: events and answers in, effects out. It decides nothing.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use stockade_protocol::command::{Command, Reply};
use stockade_protocol::event::{EventEnvelope, EventSource};
use stockade_protocol::ids::{CallId, RunId};
use stockade_protocol::receipt::ReceiptBody;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_runtime::Runtime;
use stockade_runtime::approval::ApproverKey;
use stockade_runtime::control::{Caller, Serve as _};
use stockade_runtime::ports::Ports;
use stockade_ui::app::{Exit, UiError};
use stockade_ui::io::{Effect, Ended, Input, Options, Port, Screen};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

/// Opens the workbench on a running runtime and returns when a person quits or a signal comes. The terminal is given
/// back by then; the runtime still runs.
///
/// # Errors
/// When the terminal cannot be used.
pub(crate) fn live(
    screen: &mut impl Screen,
    runtime: &Runtime,
    caller: Caller,
    approver: ApproverKey,
    handle: &Handle,
    options: &Options,
) -> Result<Exit, UiError> {
    let (sender, inputs) = channel();
    let events = runtime.events();
    handle.spawn(follow(events.clone(), sender.clone()));
    handle.spawn(signals(sender.clone()));
    let receipt_life_ms = runtime.project().configuration().receipt_life_ms;
    let mut port = Bridge {
        runtime: runtime.clone(),
        caller,
        approver: Arc::new(approver),
        receipt_life_ms,
        ports: Ports::system(),
        handle: handle.clone(),
        sender: sender.clone(),
    };
    stockade_ui::app::run(screen, &events, &mut port, inputs, sender, options)
}

/// Opens the workbench on recorded events.
///
/// # Errors
/// When the terminal cannot be used.
pub(crate) fn replay(
    screen: &mut impl Screen,
    events: Vec<Arc<EventEnvelope>>,
    handle: &Handle,
    options: &Options,
) -> Result<Exit, UiError> {
    let (sender, inputs) = channel();
    handle.spawn(signals(sender.clone()));
    let mut port = Past { sender: sender.clone() };
    stockade_ui::app::run(screen, &Recorded(events), &mut port, inputs, sender, options)
}

/// Tells the loop that there is something to pull, once for any number of events.
async fn follow(events: stockade_runtime::journal::JournalEvents, sender: Sender<Input>) {
    let mut seen = 0;
    while let Some(count) = events.changed(seen).await {
        seen = count;
        if sender.send(Input::Journal).is_err() {
            return;
        }
    }
}

async fn signals(sender: Sender<Input>) {
    let kinds = [
        (SignalKind::terminate(), Ended::Terminate),
        (SignalKind::hangup(), Ended::HangUp),
        (SignalKind::interrupt(), Ended::Interrupt),
        (SignalKind::quit(), Ended::Quit),
    ];
    for (kind, ended) in kinds {
        let Ok(mut stream) = signal(kind) else { continue };
        let sender = sender.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                if sender.send(Input::Signal(ended)).is_err() {
                    return;
                }
            }
        });
    }
}

/// Does what the screens want, in the runtime's tasks.
struct Bridge {
    runtime: Runtime,
    caller: Caller,
    approver: Arc<ApproverKey>,
    receipt_life_ms: u64,
    ports: Ports,
    handle: Handle,
    sender: Sender<Input>,
}

impl Port for Bridge {
    fn perform(&mut self, effect: Effect) {
        let (id, command) = match effect {
            Effect::Send { id, command } => (id, Ok(command)),
            Effect::Decide { id, call, contract, shown, decision, reason } => {
                let time = self.ports.now();
                let body = ReceiptBody {
                    call,
                    contract,
                    shown,
                    decision,
                    reason,
                    approver: String::new(),
                    key: String::new(),
                    time,
                    expires: time.plus_ms(self.receipt_life_ms),
                    nonce: CallId::from_bits(self.ports.random()).to_string(),
                };
                let signed = self.approver.sign(body).map(|receipt| Command::Decide { receipt });
                (id, signed.map_err(|error| Refusal::new(RefusalCode::Invalid, Authority::Person, error.to_string())))
            }
            Effect::Copy(_) | Effect::Quit => return,
        };
        let (runtime, caller, sender) = (self.runtime.clone(), self.caller.clone(), self.sender.clone());
        self.handle.spawn(async move {
            let reply = match command {
                Ok(command) => runtime.command(&caller, command).await,
                Err(refusal) => Reply::Refused { refusal },
            };
            // A loop that has ended needs no answer.
            drop(sender.send(Input::Answer { id, reply }));
        });
    }
}

/// The past answers nothing.
struct Past {
    sender: Sender<Input>,
}

impl Port for Past {
    fn perform(&mut self, effect: Effect) {
        let (Effect::Send { id, .. } | Effect::Decide { id, .. }) = effect else { return };
        let refusal = Refusal::new(RefusalCode::Unavailable, Authority::Journal, "this is a recording")
            .next("Open the project to act on it");
        drop(self.sender.send(Input::Answer { id, reply: Reply::Refused { refusal } }));
    }
}

/// The events of a journal that was read.
struct Recorded(Vec<Arc<EventEnvelope>>);

impl EventSource for Recorded {
    fn pull(&self, from: u64, max: usize) -> Vec<Arc<EventEnvelope>> {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        self.0.iter().skip(from).take(max).cloned().collect()
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

/// Only what belongs to one run, and what belongs to none, keeping positions dense for the reader.
#[must_use]
pub(crate) fn of_run(events: &[Arc<EventEnvelope>], run: RunId) -> bool {
    events.iter().any(|event| event.run == Some(run))
}
