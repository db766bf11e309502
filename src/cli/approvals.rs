//! `stockade approvals`: what waits for a person, from another terminal than the workbench.

use crate::exit::{Exit, Failure};
use crate::link::{Door, Link};
use crate::project::{ProjectArg, Reading};
use crate::receipt::{self, Decided};
use crate::{environment, terminal};
use serde_json::json;
use std::path::PathBuf;
use stockade_protocol::command::{Command, Pending, Reply};
use stockade_protocol::digest::Digest;
use stockade_protocol::receipt::Decision;
use stockade_protocol::text::SafeText;
use stockade_runtime::approval::ApproverKey;
use stockade_runtime::control::own_account;
use stockade_runtime::ports::Ports;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, clap::Subcommand)]
enum Commands {
    /// List the calls that wait, oldest first
    List(Reading),
    /// Show one waiting call in full
    Show {
        #[command(flatten)]
        which: Which,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Approve one call, once. Without --digest the whole text is shown and a question asked
    Approve {
        #[command(flatten)]
        which: Which,
        /// The contract digest of the call you have seen, whole; another call is not approved
        #[arg(long, value_name = "DIGEST")]
        digest: Option<Digest>,
        /// A note that is kept with the approval
        #[arg(long)]
        reason: Option<String>,
    },
    /// Refuse one call
    Deny {
        #[command(flatten)]
        which: Which,
        /// Why; the agent is told
        #[arg(long)]
        reason: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
struct Which {
    /// The call, or the beginning of its id
    call: String,
    #[command(flatten)]
    project: ProjectArg,
}

pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    match args.command {
        Commands::List(Reading { project, json }) => list(&project, json).await,
        Commands::Show { which, json } => {
            let (_, pending) = which.find().await?;
            if json {
                terminal::json(&described(&pending));
            } else {
                show(&pending);
            }
            Ok(Exit::Done)
        }
        Commands::Approve { which, digest, reason } => {
            let (link, pending) = which.find().await?;
            confirm(&pending, digest)?;
            decide(&link, &which, &pending, Decision::Approve, reason).await?;
            terminal::say(format!("Approved once: {} ({}).", pending.call, pending.tool));
            Ok(Exit::Done)
        }
        Commands::Deny { which, reason } => {
            let (link, pending) = which.find().await?;
            decide(&link, &which, &pending, Decision::Reject, reason).await?;
            terminal::say(format!("Refused: {} ({}).", pending.call, pending.tool));
            Ok(Exit::Done)
        }
    }
}

impl Which {
    fn root(&self) -> Result<PathBuf, Failure> {
        self.project.root()
    }

    async fn find(&self) -> Result<(Link, Pending), Failure> {
        let link = Door::cli(&self.root()?)?.join().await?.ok_or_else(|| {
            Failure::new(Exit::Denied, "nothing waits for an answer")
                .why("no stockade has this project open, so nothing is running")
                .next("start the work first; it asks when it needs you")
        })?;
        let waiting = pending(&link).await?;
        let ids: Vec<_> = waiting.iter().map(|pending| pending.call).collect();
        let call = super::one_of(&ids, &self.call, "waiting call", "stockade approvals list")?;
        let found = waiting.into_iter().find(|pending| pending.call == call).ok_or_else(Failure::out_of_place)?;
        if found.card.digest() != found.shown {
            return Err(Failure::new(Exit::Internal, "the card of this call does not match its digest")
                .why("what was shown is not what would be signed")
                .next("do not approve it; look at the journal"));
        }
        Ok((link, found))
    }
}

async fn pending(link: &Link) -> Result<Vec<Pending>, Failure> {
    match link.ask(Command::ListApprovals).await? {
        Reply::Approvals { pending } => Ok(pending),
        _ => Err(Failure::out_of_place()),
    }
}

async fn list(project: &ProjectArg, as_json: bool) -> Result<Exit, Failure> {
    let waiting = match Door::cli(&project.root()?)?.join().await? {
        Some(link) => pending(&link).await?,
        None => Vec::new(),
    };
    if as_json {
        terminal::json(&waiting.iter().map(described).collect::<Vec<_>>());
        return Ok(Exit::Done);
    }
    if waiting.is_empty() {
        terminal::say("Nothing waits for an answer.");
    }
    for pending in waiting {
        terminal::say_rows(format!("{}  {}", pending.call, SafeText::line(&pending.card.title)));
        terminal::say(format!("  contract {}", pending.contract));
        terminal::say(format!("  {} s left; whole: stockade approvals show {}", seconds_left(&pending), pending.call));
    }
    Ok(Exit::Done)
}

fn described(pending: &Pending) -> serde_json::Value {
    json!({
        "call": pending.call, "run": pending.run, "tool": pending.tool, "contract": pending.contract,
        "title": pending.card.title, "text": pending.card.text(), "shown": pending.shown, "asked": pending.asked,
        "expires": pending.expires,
    })
}

fn seconds_left(pending: &Pending) -> u64 {
    pending.expires.since(Ports::system().now()) / 1000
}

/// All of the text whose digest is signed; only wrapped.
fn show(pending: &Pending) {
    terminal::say_rows(pending.card.text().trim_end());
    terminal::say_lines(format!("\ncall     {}\ncontract {}", pending.call, pending.contract));
    terminal::say(format!("{} s left", seconds_left(pending)));
}

/// Goes on only when the person named exactly this call by its digest, or has all of it before them and says so.
fn confirm(pending: &Pending, digest: Option<Digest>) -> Result<(), Failure> {
    if let Some(digest) = digest {
        if digest == pending.contract {
            return Ok(());
        }
        return Err(Failure::new(Exit::Denied, "nothing was approved")
            .why(format!("the call's contract digest is {}, not the one you named", pending.contract))
            .next("look at it again: stockade approvals show"));
    }
    if !terminal::can_ask() || !terminal::output_is_terminal() {
        return Err(Failure::new(Exit::Usage, "nothing was approved")
            .why("there is no terminal to show the call on and ask")
            .next("read it with `stockade approvals show`, then name its contract with --digest"));
    }
    show(pending);
    if terminal::ask("Approve exactly this, once? Type approve:") == "approve" {
        return Ok(());
    }
    Err(Failure::new(Exit::Unapproved, "nothing was approved")
        .why("the answer was not approve")
        .next("the call still waits; `stockade approvals deny` refuses it"))
}

async fn decide(
    link: &Link,
    which: &Which,
    pending: &Pending,
    decision: Decision,
    reason: Option<String>,
) -> Result<(), Failure> {
    let places = environment::places()?;
    let key = ApproverKey::load_or_create(&places.approver_key(), own_account().name)?;
    let decided = Decided { call: pending.call, contract: pending.contract, shown: pending.shown, decision, reason };
    let receipt = receipt::sign(&key, decided, receipt::life_ms(&which.root()?))?;
    match link.ask(Command::Decide { receipt }).await? {
        Reply::Done {} => Ok(()),
        _ => Err(Failure::out_of_place()),
    }
}
