//! `stockade demo`: the main job on a small project of its own.

use super::follow::{self, Ended, Following};
use super::workbench;
use crate::exit::{Exit, Failure};
use crate::link::Door;
use crate::starter::{self, DEMO, DEMO_OUTPUT};
use crate::{environment, terminal};
use serde_json::json;
use std::path::{Path, PathBuf};
use stockade_protocol::command::Command;
use stockade_runtime::approval::ApproverKey;
use stockade_runtime::journal::verify;
use stockade_runtime::project::{CONFIGURATION_FILE, Places, Project};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder to make the project in; it must not be there yet
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Do not open the workbench: say what happens, line by line
    #[arg(long)]
    headless: bool,
    /// Print one JSON object when the run has ended
    #[arg(long, requires = "headless")]
    json: bool,
    /// An approver named demo-auto signs every answer; only the demo has it
    #[arg(long, requires = "headless")]
    approve_all: bool,
    /// How long a call waits for a person, seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    wait: Option<u32>,
}

/// Name of the approver that only the demo has.
const APPROVER: &str = "demo-auto";
const AGENT: &str = "demo";
const PROMPT: &str = "Look at the orders and save a report.";

pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    if !args.headless {
        workbench::require_terminal()?;
    }
    let places = environment::places()?;
    let root = make(args.folder.as_deref(), args.wait, &places)?;
    if !args.headless {
        terminal::say(format!("The demo's project is {}", root.display()));
        let link = workbench::door(&root)?.open().await?;
        link.ask(Command::StartRun { agent: AGENT.to_owned(), prompt: PROMPT.to_owned() }).await?;
        return workbench::show(link).await;
    }
    let approver = args.approve_all.then(|| ApproverKey::ephemeral(APPROVER));
    let mut door = Door::cli(&root)?;
    door.approvers.extend(approver.iter().map(|key| (key.name().to_owned(), key.public())));
    if !args.json {
        terminal::say(format!("The demo's project is {}", root.display()));
        if approver.is_none() {
            terminal::say(format!("When it waits, answer from another terminal: cd {}", root.display()));
        }
    }
    let link = door.open().await?;
    let following =
        Following { aloud: !args.json, approver: approver.as_ref(), life_ms: crate::receipt::life_ms(&root) };
    let ended = follow::agent(&link, AGENT, PROMPT, &following).await;
    let closed = link.close().await;
    let Some(ended) = ended? else { return Ok(Exit::Interrupted) };
    closed?;
    Ok(tell(&ended, &places.journal(&root), args.json))
}

/// Writes the project and trusts it: everything in it comes from this program.
fn make(folder: Option<&Path>, wait: Option<u32>, places: &Places) -> Result<PathBuf, Failure> {
    let folder = match folder {
        Some(folder) => folder.to_owned(),
        None => free_name(),
    };
    let failed = |error: std::io::Error| {
        let failure = Failure::new(Exit::Usage, format!("the demo cannot be made in {}", folder.display()));
        match error.kind() {
            std::io::ErrorKind::AlreadyExists => failure
                .why("it is there already, and the demo changes nothing that is there")
                .next("name a folder that is not there yet: stockade demo DIR"),
            _ => failure.why(error).next("name a new folder in one that you may write to: stockade demo DIR"),
        }
    };
    starter::make_folder(&folder).map_err(failed)?;
    starter::write(&folder, DEMO)?;
    starter::make_folder(&folder.join(DEMO_OUTPUT)).map_err(failed)?;
    if let Some(seconds) = wait {
        let path = folder.join(CONFIGURATION_FILE);
        let text = std::fs::read_to_string(&path).map_err(failed)?;
        std::fs::write(&path, text.replace("wait_seconds = 600", &format!("wait_seconds = {seconds}")))
            .map_err(failed)?;
    }
    let project = Project::open(&folder)?;
    project.record_trust(places)?;
    Ok(project.root().to_owned())
}

/// `stockade-demo`, or the first of `stockade-demo-2`, `-3`, … that is free.
fn free_name() -> PathBuf {
    let named = |number: u32| match number {
        1 => PathBuf::from("stockade-demo"),
        number => PathBuf::from(format!("stockade-demo-{number}")),
    };
    (1..).map(named).find(|folder| folder.symlink_metadata().is_err()).unwrap_or_else(|| named(1))
}

fn tell(ended: &Ended, journal: &Path, as_json: bool) -> Exit {
    let report = verify::verify(journal);
    let exit = if report.is_intact() { ended.strict_exit() } else { Exit::Unverified };
    if as_json {
        terminal::json(&json!({
            "run_id": ended.run, "calls": ended.calls(), "created_files": ended.created_files(), "journal": journal,
            "verified": report.is_intact(), "outcome": ended.outcome, "answer": ended.answer, "reason": ended.reason,
        }));
        return exit;
    }
    for file in ended.created_files() {
        terminal::say(format!("file    {} ({} bytes, sha256 {})", file.host_path, file.bytes, file.sha256));
    }
    let word = if report.is_intact() { "verifies" } else { "DOES NOT VERIFY" };
    terminal::say(format!("journal {} {word}: {} records", journal.display(), report.records));
    exit
}
