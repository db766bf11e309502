//! A client's side of the control socket.

use super::frame::{self, FromClient, FromServer};
use super::server::admitted;
use super::{Caller, ControlError, Serve};
use crate::project::{Places, Privacy, PrivateDirectory};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use stockade_protocol::command::{Command, Hello, PROTOCOL, Reply};
use stockade_protocol::limits;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::request::Origin;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

/// Frames waiting to be written.
const OUTGOING: usize = 64;
/// How long a runtime may take to answer the first frame.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to the runtime that has a project open. Clones share it; when the last is dropped, it ends.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    outgoing: mpsc::Sender<Vec<u8>>,
    waiting: Arc<Mutex<Waiting>>,
    next: AtomicU64,
    tasks: [AbortHandle; 2],
}

#[derive(Debug, Default)]
struct Waiting {
    answers: HashMap<u64, oneshot::Sender<Reply>>,
    /// Why the connection ended, once it has.
    ended: Option<String>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Client {
    /// Connects to the runtime that has the project at `root` open.
    ///
    /// # Errors
    /// [`ControlError::NoRuntime`] when none has; otherwise when the socket or who answers on it is not to be relied
    /// on.
    pub async fn connect(places: &Places, root: &Path, origin: Origin, client: &str) -> Result<Self, ControlError> {
        let (path, stream) = match open(places.control_socket(root)).await {
            // The runtime may have been started with another runtime directory, or with none.
            Err(ControlError::NoRuntime { path }) => match super::recorded(places, root).filter(|other| *other != path)
            {
                Some(other) => open(other).await?,
                None => return Err(ControlError::NoRuntime { path }),
            },
            other => other?,
        };
        let own = nix::unistd::geteuid().as_raw();
        let peer = stream.peer_cred().map_err(|source| ControlError::Socket { path: path.clone(), source })?.uid();
        if !admitted(peer, own) {
            return Err(ControlError::Stranger { path, uid: peer });
        }
        let (mut reader, mut writer) = stream.into_split();
        let hello = Hello { protocol: PROTOCOL, origin, client: client.chars().take(CLIENT_CHARS).collect() };
        frame::write(&mut writer, &hello, frame::HELLO_BYTES).await?;
        let welcome = tokio::time::timeout(WELCOME_TIMEOUT, frame::read(&mut reader, limits::REPLY_BYTES));
        match welcome.await.map_err(|_elapsed| ControlError::Silent)?? {
            Some(FromServer::Welcome { protocol: PROTOCOL }) => {}
            Some(FromServer::Bye { reason }) => return Err(ControlError::Refused { reason }),
            None => return Err(ControlError::Lost { reason: "it closed the connection".to_owned() }),
            Some(other) => return Err(ControlError::Refused { reason: format!("it answered {other:?}") }),
        }
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let (outgoing, mut frames) = mpsc::channel::<Vec<u8>>(OUTGOING);
        let reading = tokio::spawn(read_replies(reader, Arc::clone(&waiting)));
        let writing = tokio::spawn(async move {
            while let Some(frame) = frames.recv().await {
                if writer.write_all(&frame).await.is_err() {
                    return;
                }
            }
        });
        let tasks = [reading.abort_handle(), writing.abort_handle()];
        Ok(Self { shared: Arc::new(Shared { outgoing, waiting, next: AtomicU64::new(1), tasks }) })
    }

    /// Whether the runtime is still there, as far as is known.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).ended.is_none()
    }

    /// Asks one thing. Any number may be in progress. Dropping the future says that the answer is no longer wanted,
    /// which cancels a call.
    ///
    /// # Errors
    /// [`ControlError::Lost`] when the runtime ends before it answers.
    pub async fn request(&self, command: Command) -> Result<Reply, ControlError> {
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let bytes = frame::encode(&FromClient::Request { id, command }, limits::FRAME_BYTES)?;
        let (answer, answered) = oneshot::channel();
        {
            let mut waiting = self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(reason) = &waiting.ended {
                return Err(ControlError::Lost { reason: reason.clone() });
            }
            waiting.answers.insert(id, answer);
        }
        let mut wanted = Wanted { client: self, id, answered: false };
        let sent = self.shared.outgoing.send(bytes).await;
        let reply = match sent {
            Ok(()) => answered.await.ok(),
            Err(_) => None,
        };
        wanted.answered = true;
        reply.ok_or_else(|| {
            let waiting = self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            ControlError::Lost { reason: waiting.ended.clone().unwrap_or_else(|| "the connection failed".to_owned()) }
        })
    }
}

/// Connects to a socket in a directory that only its owner can reach.
async fn open(path: PathBuf) -> Result<(PathBuf, UnixStream), ControlError> {
    let Some((directory, name)) = path.parent().zip(path.file_name()) else {
        return Err(ControlError::NoRuntime { path });
    };
    let directory = PrivateDirectory::open(directory, Privacy::Closed)?;
    match UnixStream::connect(directory.through(&name.to_string_lossy())).await {
        Ok(stream) => Ok((path, stream)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            Err(ControlError::NoRuntime { path })
        }
        Err(source) => Err(ControlError::Socket { path, source }),
    }
}

/// Longest name a client gives itself, characters.
const CLIENT_CHARS: usize = 256;

/// Takes back a request whose answer nobody waits for any more.
struct Wanted<'a> {
    client: &'a Client,
    id: u64,
    answered: bool,
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        let shared = &self.client.shared;
        shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).answers.remove(&self.id);
        if self.answered {
            return;
        }
        let Ok(frame) = frame::encode(&FromClient::Cancel { id: self.id }, limits::FRAME_BYTES) else { return };
        if let Err(mpsc::error::TrySendError::Full(frame)) = shared.outgoing.try_send(frame)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let outgoing = shared.outgoing.clone();
            runtime.spawn(async move { outgoing.send(frame).await });
        }
    }
}

async fn read_replies(mut reader: OwnedReadHalf, waiting: Arc<Mutex<Waiting>>) {
    let reason = loop {
        match frame::read(&mut reader, limits::REPLY_BYTES).await {
            Ok(Some(FromServer::Reply { id, reply })) => {
                let answer = waiting.lock().unwrap_or_else(PoisonError::into_inner).answers.remove(&id);
                if let Some(answer) = answer {
                    let _ = answer.send(reply);
                }
            }
            Ok(Some(FromServer::Bye { reason })) => break reason,
            Ok(Some(FromServer::Welcome { .. })) => break "it said welcome twice".to_owned(),
            Ok(None) => break "it closed the connection".to_owned(),
            Err(error) => break error.to_string(),
        }
    };
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.ended = Some(reason);
    waiting.answers.clear();
}

/// A client answers as the runtime behind it does; who asks is known there, from the connection.
impl Serve for Client {
    async fn command(&self, _caller: &Caller, command: Command) -> Reply {
        let effect = matches!(command, Command::Call { .. });
        match self.request(command).await {
            Ok(reply) => reply,
            Err(error) => Reply::Refused { refusal: lost(&error, effect) },
        }
    }

    async fn caller_gone(&self, _caller: &Caller) {
        self.shared.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// What a lost connection means to who asked: a call may have taken effect, anything else just was not answered.
fn lost(error: &ControlError, effect: bool) -> Refusal {
    let code = match (effect, error) {
        (true, ControlError::Lost { .. }) => RefusalCode::InDoubt,
        _ => RefusalCode::Unavailable,
    };
    Refusal::new(code, Authority::Journal, error.to_string())
        .next("Look at `stockade runs list` for what became of it; nothing is repeated by itself.")
}
