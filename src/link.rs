//! The runtime behind a command: the one that has the project open, or one of this process's own.
//!
//! The project's lock decides which: whoever has it is the runtime, and whoever has it not connects.

use crate::environment;
use crate::exit::{Exit, Failure};
use crate::project::{Asking, require_trust};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stockade_protocol::command::{Command, Reply};
use stockade_protocol::event::EventEnvelope;
use stockade_protocol::ids::Principal;
use stockade_protocol::request::Origin;
use stockade_runtime::approval::ApproverKey;
use stockade_runtime::control::{Caller, Client, ControlError, Serve, Server, agent_of, own_account};
use stockade_runtime::ports::Ports;
use stockade_runtime::project::{Places, Project};
use stockade_runtime::{Options, Runtime, StartError};

/// How long a runtime that is just being started by someone else may take until it can be asked.
const START: Duration = Duration::from_secs(30);
/// Time between two looks for it.
const LOOK: Duration = Duration::from_millis(50);
/// Events asked for at once.
const EVENTS: u32 = 512;

/// The runtime, wherever it is.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    /// In this process.
    Local(Runtime),
    /// In another one.
    Remote(Client),
}

impl Peer {
    /// Whether it can still be asked.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Local(_) => true,
            Self::Remote(client) => client.is_open(),
        }
    }
}

impl Serve for Peer {
    async fn command(&self, caller: &Caller, command: Command) -> Reply {
        match self {
            Self::Local(runtime) => runtime.command(caller, command).await,
            Self::Remote(client) => client.command(caller, command).await,
        }
    }

    async fn caller_gone(&self, caller: &Caller) {
        match self {
            Self::Local(runtime) => runtime.caller_gone(caller).await,
            Self::Remote(client) => client.caller_gone(caller).await,
        }
    }
}

/// Which runtime, and as whom.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    pub(crate) places: Places,
    pub(crate) root: PathBuf,
    pub(crate) origin: Origin,
    /// What the client calls itself.
    pub(crate) client: String,
    pub(crate) asking: Asking,
    /// Name and public key of approvers beside the person, if this process starts the runtime.
    pub(crate) approvers: Vec<(String, String)>,
}

impl Door {
    /// The door of a command of the command line.
    pub(crate) fn cli(root: &Path) -> Result<Self, Failure> {
        Ok(Self {
            places: environment::places()?,
            root: root.to_owned(),
            origin: Origin::Cli,
            client: "stockade".to_owned(),
            asking: Asking::OnTerminal,
            approvers: Vec::new(),
        })
    }

    fn caller(&self) -> Caller {
        let principal = match self.origin {
            Origin::Mcp => agent_of(&self.client),
            Origin::Cli | Origin::Workbench | Origin::Loop => Principal::person(own_account().name),
        };
        Caller { principal, origin: self.origin, client: self.client.clone(), connection: 0 }
    }

    fn link(&self, peer: Peer, server: Option<Server>) -> Link {
        Link { peer, caller: self.caller(), root: self.root.clone(), server }
    }

    /// Joins the runtime that has the project open; `None` when none has.
    pub(crate) async fn join(&self) -> Result<Option<Link>, Failure> {
        match Client::connect(&self.places, &self.root, self.origin, &self.client).await {
            Ok(client) => Ok(Some(self.link(Peer::Remote(client), None))),
            Err(ControlError::NoRuntime { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Joins the runtime that has the project open, or becomes it.
    pub(crate) async fn open(&self) -> Result<Link, Failure> {
        let until = Instant::now() + START;
        loop {
            if let Some(link) = self.join().await? {
                return Ok(link);
            }
            if let Some(link) = self.start().await? {
                return Ok(link);
            }
            if Instant::now() > until {
                return Err(Failure::new(Exit::Internal, "another stockade has this project open and does not answer")
                    .why("it has the project's lock, but its socket is not there")
                    .next("end it, or wait until it has started"));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Becomes the runtime; `None` when another process is it already.
    async fn start(&self) -> Result<Option<Link>, Failure> {
        let project = Project::open(&self.root)?;
        require_trust(&project, &self.places, self.asking)?;
        let own = ApproverKey::load_or_create(&self.places.approver_key(), own_account().name)?;
        let mut approvers = vec![(own.name().to_owned(), own.public())];
        approvers.extend(self.approvers.iter().cloned());
        let options = Options {
            environment: environment::deployment(),
            executable: PathBuf::from("/proc/self/exe"),
            approvers,
            person: Principal::person(own_account().name),
            ports: Ports::system(),
        };
        let runtime = match Box::pin(Runtime::start(project, &self.places, options)).await {
            Ok(runtime) => runtime,
            Err(StartError::Busy) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match Server::listen(&self.places, runtime.lock(), runtime.clone()) {
            Ok(server) => Ok(Some(self.link(Peer::Local(runtime), Some(server)))),
            Err(error) => {
                // Nothing may go on that no approver could reach. What stopping says adds nothing to why.
                let _ = runtime.stop().await;
                Err(error.into())
            }
        }
    }
}

/// A runtime that can be asked.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) peer: Peer,
    pub(crate) caller: Caller,
    /// The project's folder.
    pub(crate) root: PathBuf,
    server: Option<Server>,
}

impl Link {
    /// Asks; a refusal is an answer.
    pub(crate) async fn request(&self, command: Command) -> Result<Reply, Failure> {
        match &self.peer {
            Peer::Local(runtime) => Ok(runtime.command(&self.caller, command).await),
            Peer::Remote(client) => Ok(client.request(command).await?),
        }
    }

    /// Asks; a refusal is a failure.
    pub(crate) async fn ask(&self, command: Command) -> Result<Reply, Failure> {
        match self.request(command).await? {
            Reply::Refused { refusal } => Err(refusal.into()),
            reply => Ok(reply),
        }
    }

    /// Who answers, and where its journal is.
    pub(crate) async fn status(&self) -> Result<Status, Failure> {
        match self.ask(Command::Status).await? {
            Reply::Status { journal, records, .. } => Ok(Status { journal, records }),
            _ => Err(Failure::out_of_place()),
        }
    }

    /// Events from a position on; waits up to `wait` for the first.
    pub(crate) async fn events(&self, from: u64, wait: Duration) -> Result<Vec<EventEnvelope>, Failure> {
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        match self.ask(Command::Events { from, max: EVENTS, wait_ms }).await? {
            Reply::Events { events } => Ok(events),
            _ => Err(Failure::out_of_place()),
        }
    }

    /// Ends what this process started: the runtime, if it is here, with everything in it.
    pub(crate) async fn close(self) -> Result<(), Failure> {
        if let Some(server) = self.server {
            server.close().await;
        }
        match self.peer {
            Peer::Local(runtime) => runtime.stop().await.map(drop).map_err(Failure::from),
            Peer::Remote(_) => Ok(()),
        }
    }
}

/// What a runtime says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) journal: String,
    pub(crate) records: u64,
}
