//! The control socket against hostile neighbours and hostile bytes. Each refusal stands beside the same thing allowed.

use super::frame::{self, FromClient, FromServer};
use super::*;
use crate::project::{Places, Project, ProjectLock};
use proptest::prelude::*;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::sync::{Arc, Mutex};
use stockade_protocol::command::{Hello, PROTOCOL};
use stockade_protocol::ids::RunId;
use stockade_protocol::limits;
use stockade_protocol::request::ToolCallRequest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::{Notify, watch};

/// A stand-in runtime: answers `Status`-like commands at once, and holds calls until they are released.
#[derive(Clone, Default)]
struct Fake {
    seen: Arc<Mutex<Vec<(Caller, Command)>>>,
    gone: Arc<Mutex<Vec<Caller>>>,
    cancelled: Arc<Mutex<Vec<String>>>,
    changed: Arc<Notify>,
    release: Arc<Notify>,
}

struct Dropped(Fake, String, bool);

impl Drop for Dropped {
    fn drop(&mut self) {
        if !self.2 {
            self.0.cancelled.lock().unwrap().push(self.1.clone());
            self.0.changed.notify_waiters();
        }
    }
}

impl Serve for Fake {
    async fn command(&self, caller: &Caller, command: Command) -> Reply {
        self.seen.lock().unwrap().push((caller.clone(), command.clone()));
        self.changed.notify_waiters();
        match command {
            Command::Call { request, .. } => {
                let mut dropped = Dropped(self.clone(), request.tool, false);
                self.release.notified().await;
                dropped.2 = true;
                Reply::Started { run: RunId::from_bits([9; 16]) }
            }
            Command::Events { max, .. } => {
                let what = "x".repeat(usize::try_from(max).unwrap());
                Reply::Status {
                    pid: 1,
                    version: what,
                    root: String::new(),
                    journal: String::new(),
                    pending: 0,
                    sessions: 0,
                    records: 0,
                }
            }
            _ => Reply::Done {},
        }
    }

    async fn caller_gone(&self, caller: &Caller) {
        self.gone.lock().unwrap().push(caller.clone());
        self.changed.notify_waiters();
    }
}

impl Fake {
    /// Waits until something has become true.
    async fn until(&self, what: impl Fn(&Self) -> bool) {
        let waiting = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if what(self) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await.expect("it never became true");
    }
}

struct Fixture {
    directory: tempfile::TempDir,
    project: Project,
    places: Places,
    fake: Fake,
}

fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("p");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("stockade.toml"), "").unwrap();
    let places = Places {
        config: directory.path().join("config"),
        state: directory.path().join("state"),
        runtime: directory.path().join("state/run"),
    };
    Fixture { project: Project::open(&root).unwrap(), places, directory, fake: Fake::default() }
}

impl Fixture {
    fn lock(&self) -> Arc<ProjectLock> {
        Arc::new(self.project.lock(&self.places).unwrap().expect("the project is free"))
    }

    fn listen(&self) -> Result<Server, ControlError> {
        Server::listen(&self.places, self.lock(), self.fake.clone())
    }

    async fn connect(&self, origin: Origin, client: &str) -> Result<Client, ControlError> {
        Client::connect(&self.places, self.project.root(), origin, client).await
    }

    async fn raw(&self) -> UnixStream {
        UnixStream::connect(self.places.control_socket(self.project.root())).await.unwrap()
    }
}

fn call(tool: &str) -> Command {
    let request =
        ToolCallRequest { tool: tool.to_owned(), arguments: Default::default(), invocation_id: None, reason: None };
    Command::Call { request, run: None }
}

fn me() -> Principal {
    Principal::person(login_name(nix::unistd::geteuid().as_raw()))
}

#[tokio::test]
async fn the_socket_is_closed_to_others_and_who_asks_is_known_from_it() {
    let fixture = fixture();
    let server = fixture.listen().unwrap();
    let metadata = std::fs::symlink_metadata(server.path()).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(&fixture.places.runtime).unwrap().permissions().mode() & 0o777, 0o700);

    let cli = fixture.connect(Origin::Cli, "stockade approvals").await.unwrap();
    assert_eq!(cli.request(Command::ListTools).await.unwrap(), Reply::Done {});
    let mcp = fixture.connect(Origin::Mcp, "claude code/2.1 \u{202e}x").await.unwrap();
    assert_eq!(mcp.request(Command::ListTools).await.unwrap(), Reply::Done {});
    let seen = fixture.fake.seen.lock().unwrap().clone();
    assert_eq!(seen[0].0.principal, me());
    assert_eq!(seen[0].0.client, "stockade approvals");
    assert_eq!(seen[1].0.principal, Principal::agent("mcp:claude-code-2.1--x"));
    assert_ne!(seen[0].0.connection, seen[1].0.connection);
    server.close().await;
    assert!(matches!(fixture.connect(Origin::Cli, "").await, Err(ControlError::NoRuntime { .. })));
}

#[test]
fn a_client_cannot_take_an_agents_name() {
    for (client, agent) in
        [("demo", "mcp:demo"), ("mcp:demo", "mcp:mcp-demo"), ("", "mcp:unknown"), ("///", "mcp:unknown")]
    {
        assert_eq!(agent_of(client), Principal::agent(agent));
    }
}

#[tokio::test]
async fn requests_are_answered_as_they_end_and_not_in_turn() {
    let fixture = fixture();
    let _server = fixture.listen().unwrap();
    let client = fixture.connect(Origin::Cli, "t").await.unwrap();
    let held = {
        let client = client.clone();
        tokio::spawn(async move { client.request(call("slow")).await })
    };
    fixture.fake.until(|fake| !fake.seen.lock().unwrap().is_empty()).await;
    assert_eq!(client.request(Command::ListTools).await.unwrap(), Reply::Done {});
    assert!(!held.is_finished());
    fixture.fake.release.notify_one();
    assert!(matches!(held.await.unwrap().unwrap(), Reply::Started { .. }));
    assert!(fixture.fake.cancelled.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_call_nobody_waits_for_is_cancelled_and_the_connection_goes_on() {
    let fixture = fixture();
    let _server = fixture.listen().unwrap();
    let client = fixture.connect(Origin::Cli, "t").await.unwrap();
    let waiting = {
        let client = client.clone();
        tokio::spawn(async move { client.request(call("slow")).await })
    };
    fixture.fake.until(|fake| !fake.seen.lock().unwrap().is_empty()).await;
    waiting.abort();
    fixture.fake.until(|fake| *fake.cancelled.lock().unwrap() == ["slow"]).await;
    assert_eq!(client.request(Command::ListTools).await.unwrap(), Reply::Done {});
    assert!(fixture.fake.gone.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_connection_that_ends_takes_its_calls_with_it() {
    let fixture = fixture();
    let _server = fixture.listen().unwrap();
    let client = fixture.connect(Origin::Cli, "first").await.unwrap();
    let other = fixture.connect(Origin::Cli, "other").await.unwrap();
    let waiting = {
        let client = client.clone();
        tokio::spawn(async move { client.request(call("slow")).await })
    };
    fixture.fake.until(|fake| !fake.seen.lock().unwrap().is_empty()).await;
    waiting.abort();
    let _ = waiting.await;
    drop(client);
    fixture.fake.until(|fake| fake.gone.lock().unwrap().len() == 1).await;
    assert_eq!(fixture.fake.gone.lock().unwrap()[0].client, "first");
    assert_eq!(*fixture.fake.cancelled.lock().unwrap(), ["slow"]);
    assert_eq!(other.request(Command::ListTools).await.unwrap(), Reply::Done {});
}

#[tokio::test]
async fn a_runtime_that_goes_away_is_an_error_to_whoever_waits() {
    let fixture = fixture();
    let server = fixture.listen().unwrap();
    let client = fixture.connect(Origin::Mcp, "t").await.unwrap();
    let caller = Caller { principal: me(), origin: Origin::Mcp, client: String::new(), connection: 0 };
    let waiting = {
        let (client, caller) = (client.clone(), caller.clone());
        tokio::spawn(async move { client.command(&caller, call("slow")).await })
    };
    fixture.fake.until(|fake| !fake.seen.lock().unwrap().is_empty()).await;
    server.close().await;
    let Reply::Refused { refusal } = waiting.await.unwrap() else { panic!("answered") };
    assert_eq!(refusal.code.word(), "in_doubt");
    assert_eq!(*fixture.fake.cancelled.lock().unwrap(), ["slow"]);
    assert!(matches!(client.request(Command::ListTools).await, Err(ControlError::Lost { .. })));
    let Reply::Refused { refusal } = client.command(&caller, Command::ListTools).await else { panic!("answered") };
    assert_eq!(refusal.code.word(), "unavailable");
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_anything_else_is_left_alone() {
    let fixture = fixture();
    let path = fixture.places.control_socket(fixture.project.root());
    let lock = fixture.lock();
    std::fs::create_dir_all(&fixture.places.runtime).unwrap();
    std::fs::set_permissions(&fixture.places.runtime, std::fs::Permissions::from_mode(0o700)).unwrap();
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(matches!(fixture.connect(Origin::Cli, "").await, Err(ControlError::NoRuntime { .. })));
    let server = Server::listen(&fixture.places, Arc::clone(&lock), fixture.fake.clone()).unwrap();
    assert!(fixture.connect(Origin::Cli, "").await.is_ok());
    server.close().await;

    let target = fixture.directory.path().join("target");
    for (what, place) in [
        ("a file", Box::new(|| std::fs::write(&path, "mine").unwrap()) as Box<dyn Fn()>),
        ("a link", Box::new(|| symlink(&target, &path).unwrap())),
        ("a directory", Box::new(|| std::fs::create_dir(&path).unwrap())),
    ] {
        place();
        let refused = Server::listen(&fixture.places, Arc::clone(&lock), fixture.fake.clone());
        assert!(matches!(refused, Err(ControlError::InTheWay { .. })), "{what}: {refused:?}");
        assert!(std::fs::symlink_metadata(&path).is_ok(), "{what} was removed");
        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path));
    }
    assert!(!target.exists());
}

#[tokio::test]
async fn a_directory_that_others_reach_is_refused_by_both_sides() {
    let fixture = fixture();
    let server = fixture.listen().unwrap();
    assert!(fixture.connect(Origin::Cli, "").await.is_ok());
    let set = |mode| std::fs::set_permissions(&fixture.places.runtime, std::fs::Permissions::from_mode(mode)).unwrap();
    set(0o755);
    assert!(matches!(fixture.connect(Origin::Cli, "").await, Err(ControlError::Place(PlaceError::Mode { .. }))));
    drop(server);
    let refused = async {
        // The lock is let go of when the accepting task has ended.
        loop {
            if let Some(lock) = fixture.project.lock(&fixture.places).unwrap() {
                return Server::listen(&fixture.places, Arc::new(lock), fixture.fake.clone());
            }
            tokio::task::yield_now().await;
        }
    };
    assert!(matches!(refused.await, Err(ControlError::Place(PlaceError::Mode { .. }))));
    set(0o700);
    let moved = fixture.directory.path().join("moved");
    std::fs::rename(&fixture.places.runtime, &moved).unwrap();
    symlink(&moved, &fixture.places.runtime).unwrap();
    assert!(matches!(fixture.connect(Origin::Cli, "").await, Err(ControlError::Place(PlaceError::Open { .. }))));
}

#[tokio::test]
async fn a_place_too_deep_for_a_socket_address_works() {
    let mut fixture = fixture();
    fixture.places.runtime = fixture.directory.path().join("x".repeat(120)).join("y".repeat(120));
    let _server = fixture.listen().unwrap();
    let client = fixture.connect(Origin::Cli, "").await.unwrap();
    assert_eq!(client.request(Command::ListTools).await.unwrap(), Reply::Done {});
}

#[tokio::test]
async fn a_runtime_is_found_by_clients_with_another_runtime_directory() {
    let fixture = fixture();
    let server = fixture.listen().unwrap();
    let elsewhere = Places { runtime: fixture.directory.path().join("elsewhere"), ..fixture.places.clone() };
    let root = fixture.project.root();
    let client = Client::connect(&elsewhere, root, Origin::Cli, "").await.unwrap();
    assert_eq!(client.request(Command::ListTools).await.unwrap(), Reply::Done {});
    server.close().await;
    assert!(matches!(Client::connect(&elsewhere, root, Origin::Cli, "").await, Err(ControlError::NoRuntime { .. })));
}

#[test]
fn another_uid_is_refused_even_when_it_can_reach_the_socket() {
    assert!(server::admitted(1000, 1000) && server::admitted(0, 1000));
    assert!(!server::admitted(1001, 1000) && !server::admitted(1000, 0));
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let fixture = fixture();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let server = fixture.listen().unwrap();
    let path = server.path().to_owned();
    for (path, mode) in [(&path, 0o666), (&fixture.places.runtime, 0o755), (&fixture.places.state, 0o755)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    std::fs::set_permissions(fixture.directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    // Credentials belong to a thread: this one becomes another user, and the kernel tells the server so.
    let answered = |uid: u32| {
        let path = path.clone();
        std::thread::spawn(move || {
            let uid = rustix::thread::Uid::from_raw(uid);
            rustix::thread::set_thread_res_uid(None, Some(uid), None).unwrap();
            let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
            let hello = Hello { protocol: PROTOCOL, origin: Origin::Cli, client: "root".to_owned() };
            // A refused peer may find the pipe closed while it still writes.
            let _ = std::io::Write::write_all(&mut stream, &frame::encode(&hello, limits::FRAME_BYTES).unwrap());
            let mut answer = [0; 4];
            std::io::Read::read_exact(&mut stream, &mut answer).is_ok()
        })
        .join()
        .unwrap()
    };
    assert!(answered(0), "the runtime's own user was not answered");
    assert!(!answered(65_534), "another user was answered");
    assert!(fixture.fake.seen.lock().unwrap().is_empty());
}

async fn says(fixture: &Fixture, bytes: &[u8]) -> Option<FromServer> {
    let mut stream = fixture.raw().await;
    let hello = Hello { protocol: PROTOCOL, origin: Origin::Cli, client: "raw".to_owned() };
    frame::write(&mut stream, &hello, limits::FRAME_BYTES).await.unwrap();
    let welcome = frame::read::<FromServer>(&mut stream, limits::REPLY_BYTES).await.unwrap();
    assert_eq!(welcome, Some(FromServer::Welcome { protocol: PROTOCOL }));
    let _ = stream.write_all(bytes).await;
    frame::read(&mut stream, limits::REPLY_BYTES).await.unwrap_or_default()
}

#[tokio::test]
async fn frames_that_do_not_belong_end_the_connection_with_a_reason() {
    let fixture = fixture();
    let _server = fixture.listen().unwrap();
    let too_large = u32::try_from(limits::FRAME_BYTES + 1).unwrap().to_be_bytes();
    let request = |text: &str| [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat();
    for (bytes, reason) in [
        (too_large.to_vec(), "larger than"),
        (request("{}"), "not what belongs here"),
        (request("\u{0}\u{1}"), "not what belongs here"),
        (request(r#"{"frame":"request","id":1,"command":{"command":"decide","approved":true}}"#), "not what belongs"),
        (
            request(r#"{"frame":"request","id":1,"principal":"root","command":{"command":"status"}}"#),
            "not what belongs",
        ),
        (request(&"[".repeat(100_000)), "not what belongs here"),
    ] {
        match says(&fixture, &bytes).await {
            Some(FromServer::Bye { reason: said }) => assert!(said.contains(reason), "{said}"),
            other => panic!("{reason}: {other:?}"),
        }
    }
    let good = frame::encode(&FromClient::Request { id: 7, command: Command::ListTools }, limits::FRAME_BYTES).unwrap();
    assert_eq!(says(&fixture, &good).await, Some(FromServer::Reply { id: 7, reply: Reply::Done {} }));
    assert_eq!(fixture.fake.seen.lock().unwrap().len(), 1, "a frame that does not belong reached the runtime");
}

#[tokio::test]
async fn only_ways_in_of_this_version_are_welcome() {
    let fixture = fixture();
    let _server = fixture.listen().unwrap();
    for (protocol, origin) in [(PROTOCOL + 1, Origin::Cli), (PROTOCOL, Origin::Loop)] {
        let mut stream = fixture.raw().await;
        let hello = Hello { protocol, origin, client: String::new() };
        frame::write(&mut stream, &hello, limits::FRAME_BYTES).await.unwrap();
        let answer = frame::read::<FromServer>(&mut stream, limits::REPLY_BYTES).await.unwrap();
        assert!(matches!(answer, Some(FromServer::Bye { .. })), "{answer:?}");
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        assert!(rest.is_empty());
    }
    assert!(matches!(fixture.connect(Origin::Loop, "").await, Err(ControlError::Refused { .. })));
}

#[tokio::test]
async fn an_answer_larger_than_a_frame_is_refused_and_the_next_is_given() {
    let fixture = fixture();
    let _server = fixture.listen().unwrap();
    let client = fixture.connect(Origin::Cli, "").await.unwrap();
    let events = |max| Command::Events { from: 0, max, wait_ms: 0 };
    let large = u32::try_from(limits::REPLY_BYTES).unwrap();
    let Reply::Refused { refusal } = client.request(events(large)).await.unwrap() else { panic!("sent") };
    assert_eq!(refusal.code.word(), "limit");
    assert!(matches!(client.request(events(1 << 20)).await.unwrap(), Reply::Status { .. }));
}

#[tokio::test]
async fn two_starts_at_once_give_one_runtime() {
    let fixture = fixture();
    let (winners, mut count) = watch::channel(0);
    let start = || async {
        loop {
            match fixture.project.lock(&fixture.places).unwrap() {
                Some(lock) => {
                    winners.send_modify(|count| *count += 1);
                    return Ok(Server::listen(&fixture.places, Arc::new(lock), fixture.fake.clone()).unwrap());
                }
                None => match fixture.connect(Origin::Cli, "").await {
                    Ok(client) => return Err(client),
                    Err(ControlError::NoRuntime { .. }) => tokio::task::yield_now().await,
                    Err(error) => panic!("{error}"),
                },
            }
        }
    };
    let (one, two) = tokio::join!(start(), start());
    assert_eq!(*count.borrow_and_update(), 1);
    let (_server, client) = match (one, two) {
        (Ok(server), Err(client)) | (Err(client), Ok(server)) => (server, client),
        _ => panic!("not one of each"),
    };
    assert_eq!(client.request(Command::ListTools).await.unwrap(), Reply::Done {});
}

proptest! {
    #[test]
    fn hostile_bytes_are_an_error_and_nothing_worse(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut rest = bytes.as_slice();
            while let Ok(Some(_)) = frame::read::<FromClient>(&mut rest, 128).await {}
        });
    }

    #[test]
    fn a_frame_is_read_back_whatever_it_is_split_into(text in any::<String>(), step in 1_usize..64) {
        let sent = FromServer::Bye { reason: text };
        let bytes = frame::encode(&sent, limits::REPLY_BYTES).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (read, torn) = runtime.block_on(async {
            let (mut near, mut far) = tokio::io::duplex(step);
            let writing = async {
                near.write_all(&bytes).await.unwrap();
                drop(near);
            };
            let (read, ()) = tokio::join!(frame::read::<FromServer>(&mut far, limits::REPLY_BYTES), writing);
            let mut cut = &bytes[..bytes.len() - 1];
            (read.unwrap(), frame::read::<FromServer>(&mut cut, limits::REPLY_BYTES).await)
        });
        prop_assert_eq!(read, Some(sent));
        prop_assert!(matches!(torn, Err(FrameError::Torn)));
    }
}
