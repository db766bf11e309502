//! `stockade mcp`: the project's tools for an MCP client. Standard output is the protocol's alone.

use crate::environment;
use crate::exit::{Exit, Failure};
use crate::link::{Door, Link, Peer};
use crate::project::{Asking, ProjectArg};
use crate::signals::asked_to_end;
use std::path::PathBuf;
use std::sync::Arc;
use stockade_protocol::refusal::Refusal;
use stockade_protocol::request::Origin;
use stockade_runtime::control::Caller;
use stockade_runtime::endpoint::mcp::{Connect, serve};
use stockade_runtime::project::Places;
use tokio::sync::Mutex;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    project: ProjectArg,
}

pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    let links = Arc::new(Mutex::new(Vec::new()));
    let way = Way { places: environment::places()?, root: args.project.root()?, links: Arc::clone(&links) };
    let served = tokio::select! {
        served = serve(way, tokio::io::stdin(), tokio::io::stdout()) => {
            let failed = |error| Failure::new(Exit::Failed, "the MCP client could not be served")
                .why(error)
                .next("look at what the client writes; STOCKADE_LOG=debug shows it");
            served.map(|()| Exit::Done).map_err(failed)
        }
        () = asked_to_end() => Ok(Exit::Interrupted),
    };
    let links: Vec<Link> = std::mem::take(&mut *links.lock().await);
    for link in links {
        link.close().await?;
    }
    served
}

/// How the endpoint gets at the runtime.
struct Way {
    places: Places,
    root: PathBuf,
    /// What this process joined or became, to be ended with it.
    links: Arc<Mutex<Vec<Link>>>,
}

impl Connect for Way {
    type Runtime = Peer;

    async fn connect(&self, client: &str) -> Result<(Peer, Caller), Refusal> {
        let door = Door {
            places: self.places.clone(),
            root: self.root.clone(),
            origin: Origin::Mcp,
            client: client.to_owned(),
            asking: Asking::Never,
            approvers: Vec::new(),
        };
        let link = Box::pin(door.open()).await.map_err(Failure::into_refusal)?;
        let joined = (link.peer.clone(), link.caller.clone());
        self.links.lock().await.push(link);
        Ok(joined)
    }

    fn is_open(&self, runtime: &Peer) -> bool {
        runtime.is_open()
    }
}
