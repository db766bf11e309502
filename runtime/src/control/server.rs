//! The runtime's side of the control socket.

use super::frame::{self, FrameError, FromClient, FromServer};
use super::{Caller, ControlError, Serve};
use crate::project::{Places, Privacy, PrivateDirectory, ProjectLock};
use std::collections::HashMap;
use std::fs::Permissions;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use stockade_protocol::command::{Command, Hello, PROTOCOL, Reply};
use stockade_protocol::ids::Principal;
use stockade_protocol::limits;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::request::Origin;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};

/// How long a client may take to say who it is.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// How long connections may take to end when the server closes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take to read the last frame.
const BYE_TIMEOUT: Duration = Duration::from_secs(1);
/// Frames waiting to be written on one connection.
const OUTGOING: usize = 64;

/// A listening control socket. Dropping it stops listening and removes the socket; [`Server::close`] also awaits the
/// end of every connection.
#[derive(Debug)]
pub struct Server {
    socket: OwnSocket,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<()>,
    /// One clone lives in every connection: when all are gone, so are the connections.
    ended: mpsc::Receiver<()>,
    _lock: Arc<ProjectLock>,
}

/// The socket file, removed on drop while it is still the one that was made.
#[derive(Debug)]
struct OwnSocket {
    path: PathBuf,
    inode: (u64, u64),
}

impl Drop for OwnSocket {
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|now| (now.dev(), now.ino()) == self.inode) {
            // A socket that stays is stale and replaced by the next holder of the lock.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Server {
    /// Listens for the project that `lock` holds. Whatever socket an earlier runtime left is replaced: only the holder
    /// of the lock can get here.
    ///
    /// # Errors
    /// When the socket's directory is not private, something else than a socket of ours is in its place, or the kernel
    /// refuses.
    pub fn listen(places: &Places, lock: Arc<ProjectLock>, serve: impl Serve) -> Result<Self, ControlError> {
        let directory = PrivateDirectory::open(&places.runtime, Privacy::Closed)?;
        let path = places.control_socket(lock.root());
        let (listener, socket) = bind(&directory, path)?;
        super::record(places, lock.root(), &socket.path)?;
        let (stop, stopped) = watch::channel(false);
        let (alive, ended) = mpsc::channel(1);
        let accepting = tokio::spawn(accept(listener, serve, stopped, alive));
        Ok(Self { socket, stop, accepting, ended, _lock: lock })
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.socket.path
    }

    /// Stops listening, ends every connection, and awaits that what they opened is ended too.
    pub async fn close(mut self) {
        let _ = self.stop.send(true);
        let _ = (&mut self.accepting).await;
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.ended.recv()).await;
    }
}

/// Makes the socket under a name of its own, closes it to others, and only then moves it to its place.
fn bind(directory: &PrivateDirectory, path: PathBuf) -> Result<(UnixListener, OwnSocket), ControlError> {
    let failed = |source: std::io::Error| ControlError::Socket { path: path.clone(), source };
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let place = directory.through(&name);
    match std::fs::symlink_metadata(&place) {
        Ok(found) if !found.file_type().is_socket() || found.uid() != nix::unistd::geteuid().as_raw() => {
            return Err(ControlError::InTheWay { path });
        }
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let fresh = directory.through(&format!("{name}.new"));
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&fresh).map_err(failed)?;
    std::fs::set_permissions(&fresh, Permissions::from_mode(0o600)).map_err(failed)?;
    let made = std::fs::symlink_metadata(&fresh).map_err(failed)?;
    std::fs::rename(&fresh, &place).map_err(failed)?;
    Ok((listener, OwnSocket { path, inode: (made.dev(), made.ino()) }))
}

async fn accept(
    listener: UnixListener,
    serve: impl Serve,
    mut stopped: watch::Receiver<bool>,
    alive: mpsc::Sender<()>,
) {
    let open = Arc::new(tokio::sync::Semaphore::new(limits::CONNECTIONS));
    let numbers = AtomicU64::new(1);
    loop {
        let permit = tokio::select! {
            _ = stopped.changed() => return,
            permit = Arc::clone(&open).acquire_owned() => permit,
        };
        let accepted = tokio::select! {
            _ = stopped.changed() => return,
            accepted = listener.accept() => accepted,
        };
        let (Ok(permit), Ok((stream, _))) = (permit, accepted) else {
            // Out of descriptors, or a peer that was gone at once: neither ends the listening.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        let (serve, stopped, alive) = (serve.clone(), stopped.clone(), alive.clone());
        tokio::spawn(async move {
            attend(stream, serve, number, stopped).await;
            drop((permit, alive));
        });
    }
}

/// Whether a peer with this uid may ask anything of a runtime of `own`.
pub(crate) const fn admitted(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

async fn attend(stream: UnixStream, serve: impl Serve, number: u64, mut stopped: watch::Receiver<bool>) {
    let own = nix::unistd::geteuid().as_raw();
    let peer = match stream.peer_cred() {
        Ok(peer) if admitted(peer.uid(), own) => peer.uid(),
        Ok(peer) => {
            tracing::warn!(uid = peer.uid(), "a connection of another user was refused");
            return;
        }
        Err(_) => return,
    };
    let (mut reader, mut writer) = stream.into_split();
    let Ok(Ok(Some(hello))) = tokio::time::timeout(HELLO_TIMEOUT, frame::read_hello(&mut reader)).await else { return };
    let caller = match introduce(hello, peer, number) {
        Ok(caller) => caller,
        Err(reason) => {
            let _ = frame::write(&mut writer, &FromServer::Bye { reason }, limits::REPLY_BYTES).await;
            return;
        }
    };
    if frame::write(&mut writer, &FromServer::Welcome { protocol: PROTOCOL }, limits::REPLY_BYTES).await.is_err() {
        return;
    }
    let (replies, outgoing) = mpsc::channel(OUTGOING);
    let writing = tokio::spawn(write_replies(writer, outgoing));
    let mut requests = Requests { serve: serve.clone(), caller: caller.clone(), replies, droppable: HashMap::new() };
    let reason = tokio::select! {
        _ = stopped.changed() => Some("the runtime is stopping".to_owned()),
        ended = requests.take_from(&mut reader) => ended.err().map(|error| error.to_string()),
    };
    let replies = requests.abandon();
    let told = reason.is_some_and(|reason| replies.try_send(FromServer::Bye { reason }).is_ok());
    drop(replies);
    serve.caller_gone(&caller).await;
    let mut writing = writing;
    if !told || tokio::time::timeout(BYE_TIMEOUT, &mut writing).await.is_err() {
        writing.abort();
    }
}

/// Who a connection speaks for: the way in is the client's word, the name is the kernel's.
fn introduce(hello: Hello, uid: u32, number: u64) -> Result<Caller, String> {
    if hello.protocol != PROTOCOL {
        return Err(format!(
            "the runtime that has the project open speaks version {PROTOCOL} of the control vocabulary, the client \
             version {}. Use the same stockade for both",
            hello.protocol
        ));
    }
    let principal = match hello.origin {
        Origin::Cli | Origin::Workbench => Principal::person(login_name(uid)),
        Origin::Mcp => super::agent_of(&hello.client),
        Origin::Loop => return Err("the built-in loop lives in the runtime and does not connect".to_owned()),
    };
    Ok(Caller { principal, origin: hello.origin, client: hello.client, connection: number })
}

/// The account a process runs under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its uid.
    pub uid: u32,
    /// Its login name.
    pub name: String,
    /// Its home directory, where the machine knows one.
    pub home: Option<PathBuf>,
}

/// The account this process runs under.
#[must_use]
pub fn own_account() -> Account {
    let uid = nix::unistd::geteuid();
    let user = nix::unistd::User::from_uid(uid).ok().flatten();
    let home = user.map(|user| user.dir).filter(|home| home.is_absolute());
    Account { uid: uid.as_raw(), name: login_name(uid.as_raw()), home }
}

/// The login name of a uid, or the number itself where the machine knows no name.
#[must_use]
pub fn login_name(uid: u32) -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)).ok().flatten();
    user.map_or_else(|| format!("uid-{uid}"), |user| user.name)
}

/// The requests of one connection.
struct Requests<S> {
    serve: S,
    caller: Caller,
    replies: mpsc::Sender<FromServer>,
    /// Those that are cancelled by dropping them, by the client's number.
    droppable: HashMap<u64, AbortHandle>,
}

impl<S: Serve> Requests<S> {
    async fn take_from(&mut self, reader: &mut OwnedReadHalf) -> Result<(), FrameError> {
        let most = Arc::new(tokio::sync::Semaphore::new(limits::REQUESTS_IN_PROGRESS));
        loop {
            self.droppable.retain(|_, task| !task.is_finished());
            // At the bound nothing more is read until an answer is out: the client is held up, not the runtime.
            let Ok(permit) = Arc::clone(&most).acquire_owned().await else { return Ok(()) };
            match frame::read(reader, limits::FRAME_BYTES).await? {
                None => return Ok(()),
                Some(FromClient::Cancel { id }) => {
                    if let Some(task) = self.droppable.remove(&id) {
                        task.abort();
                    }
                }
                Some(FromClient::Request { id, command }) => {
                    if self.droppable.contains_key(&id) {
                        return Err(FrameError::Malformed(format!("the request number {id} is in use")));
                    }
                    let droppable = matches!(command, Command::Call { .. } | Command::Events { .. });
                    let (serve, caller, replies) = (self.serve.clone(), self.caller.clone(), self.replies.clone());
                    let task = tokio::spawn(async move {
                        let reply = serve.command(&caller, command).await;
                        let _ = replies.send(FromServer::Reply { id, reply }).await;
                        drop(permit);
                    });
                    if droppable {
                        self.droppable.insert(id, task.abort_handle());
                    }
                }
            }
        }
    }

    /// Cancels what can be cancelled; everything else goes on to its end, unheard.
    fn abandon(self) -> mpsc::Sender<FromServer> {
        for task in self.droppable.into_values() {
            task.abort();
        }
        self.replies
    }
}

async fn write_replies(mut writer: OwnedWriteHalf, mut outgoing: mpsc::Receiver<FromServer>) {
    while let Some(frame) = outgoing.recv().await {
        let result = match frame::write(&mut writer, &frame, limits::REPLY_BYTES).await {
            Err(FrameError::TooLarge { bytes, most }) => {
                let FromServer::Reply { id, .. } = frame else { return };
                let reason = format!("the answer has {bytes} bytes, more than the {most} that can be sent");
                let refusal =
                    Refusal::new(RefusalCode::Limit, Authority::Journal, reason).next("Ask for less at a time.");
                let reply = Reply::Refused { refusal };
                frame::write(&mut writer, &FromServer::Reply { id, reply }, limits::REPLY_BYTES).await
            }
            other => other,
        };
        if result.is_err() || matches!(frame, FromServer::Bye { .. }) {
            return;
        }
    }
}
