//! `stockade sessions`: live terminals of the runtime that has the project open.

use crate::exit::{Exit, Failure};
use crate::link::{Door, Link};
use crate::project::{ProjectArg, Reading};
use crate::terminal;
use stockade_protocol::command::{Command, Reply, SessionInfo};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, clap::Subcommand)]
enum Commands {
    /// List live sessions
    List(Reading),
    /// End a session: its worker is removed, and output that was not published is discarded
    Close {
        /// The session, or the beginning of its id
        session: String,
        #[command(flatten)]
        project: ProjectArg,
    },
}

pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    match args.command {
        Commands::List(Reading { project, json }) => {
            let link = Door::cli(&project.root()?)?.join().await?;
            let sessions = match &link {
                Some(link) => sessions(link).await?,
                None => Vec::new(),
            };
            if json {
                terminal::json(&sessions);
            } else if sessions.is_empty() {
                terminal::say(if link.is_some() {
                    "No live sessions."
                } else {
                    "No live sessions: no stockade has this project open."
                });
            }
            for session in sessions.iter().filter(|_| !json) {
                terminal::say(format!(
                    "{}  {:16} {:10} {:4} interactions  run {}",
                    session.session,
                    session.tool,
                    session.state,
                    session.interactions,
                    session.run.short()
                ));
            }
            Ok(Exit::Done)
        }
        Commands::Close { session, project } => {
            let link = Door::cli(&project.root()?)?.join().await?.ok_or_else(|| {
                Failure::new(Exit::Denied, "there is no live session")
                    .why("no stockade has this project open, so nothing is running")
                    .next("a session lives as long as its run; `stockade runs list` shows past ones")
            })?;
            let ids: Vec<_> = sessions(&link).await?.into_iter().map(|info| info.session).collect();
            let session = super::one_of(&ids, &session, "live session", "stockade sessions list")?;
            link.ask(Command::CloseSession { session }).await?;
            terminal::say(format!("Closing {session}."));
            Ok(Exit::Done)
        }
    }
}

async fn sessions(link: &Link) -> Result<Vec<SessionInfo>, Failure> {
    match link.ask(Command::ListSessions).await? {
        Reply::Sessions { sessions } => Ok(sessions),
        _ => Err(Failure::out_of_place()),
    }
}
