//! `stockade journal`: the signed record.

use super::history;
use crate::environment;
use crate::exit::{Exit, Failure, in_words};
use crate::link::Door;
use crate::project::Reading;
use crate::signals::asked_to_end;
use crate::terminal;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use stockade_protocol::event::EventEnvelope;
use stockade_runtime::journal::verify::{self, Report, Status};
use stockade_runtime::journal::{self, Rotated};
use stockade_runtime::ports::Ports;
use stockade_runtime::project::ProjectLock;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, clap::Subcommand)]
enum Commands {
    /// Show records, oldest first
    Show {
        #[command(flatten)]
        which: Which,
        /// Only records of this run, or of runs whose ids begin so
        #[arg(long)]
        run: Option<String>,
        /// First position to show
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Most records to show
        #[arg(long)]
        limit: Option<usize>,
    },
    /// Show the last records
    Tail {
        #[command(flatten)]
        which: Which,
        /// How many
        #[arg(short = 'n', long, default_value_t = 20)]
        lines: usize,
        /// Go on showing what is added
        #[arg(short, long)]
        follow: bool,
    },
    /// Verify every record: exit status 0 when intact, 6 when not
    Verify {
        #[command(flatten)]
        which: Which,
    },
    /// Give the project's journal another key: the old one signs the new one and is given up
    RotateKey(Reading),
}

#[derive(Debug, clap::Args)]
struct Which {
    /// A journal's directory; without it the project's own
    path: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
}

impl Which {
    fn directory(&self) -> Result<PathBuf, Failure> {
        match &self.path {
            Some(path) => Ok(path.clone()),
            None => Ok(environment::places()?.journal(&self.reading.project.root()?)),
        }
    }

    /// Its records; none where the project has no journal yet.
    fn events(&self) -> Result<Vec<Arc<EventEnvelope>>, Failure> {
        match &self.path {
            Some(path) => Ok(journal::read(path)?),
            None => history::of_project(&self.reading.project),
        }
    }

    /// Says that there is no journal yet. In JSON no lines say the same.
    fn tell_none(&self) {
        if !self.reading.json {
            terminal::say("No journal yet. `stockade run` starts an agent, `stockade call` makes one call.");
        }
    }

    fn tell(&self, envelope: &EventEnvelope) {
        if self.reading.json {
            terminal::json_line(envelope);
        } else {
            terminal::say(history::line(envelope));
        }
    }
}

pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    match args.command {
        Commands::Show { which, run, from, limit } => {
            let events = which.events()?;
            if events.is_empty() {
                which.tell_none();
            }
            let of_run = |event: &EventEnvelope| match &run {
                Some(run) => event.run.is_some_and(|id| id.to_string().starts_with(run.as_str())),
                None => true,
            };
            let shown = events.iter().filter(|event| event.seq >= from && of_run(event));
            shown.take(limit.unwrap_or(usize::MAX)).for_each(|event| which.tell(event));
            Ok(Exit::Done)
        }
        Commands::Tail { which, lines, follow } => {
            let events = which.events()?;
            if events.is_empty() && !follow {
                which.tell_none();
            }
            let skipped = events.len().saturating_sub(lines);
            events.iter().skip(skipped).for_each(|event| which.tell(event));
            if follow {
                return tail(&which, events.last().map_or(0, |last| last.seq + 1)).await;
            }
            Ok(Exit::Done)
        }
        Commands::Verify { which } => {
            let report = verify::verify(&which.directory()?);
            Ok(tell(&report, which.reading.json))
        }
        Commands::RotateKey(Reading { project, json }) => rotate_key(&project.root()?, json),
    }
}

fn rotate_key(root: &Path, as_json: bool) -> Result<Exit, Failure> {
    let failed = |why: &str| Failure::new(Exit::Denied, "the journal's key was not changed").why(why);
    let places = environment::places()?;
    let directory = places.journal(root);
    if !journal::exists(&directory) {
        return Err(failed(history::NONE).next("its first record makes one, with a key of its own"));
    }
    // Held to the end, so that no runtime starts on a journal that is in use.
    let Some(_lock) = ProjectLock::take(&places, root)? else {
        return Err(failed("another stockade has this project open").next("end it, then try again"));
    };
    let Rotated { record, old, new } = journal::rotate_key(&directory, &places.journal_key(root), &Ports::system())?;
    if as_json {
        terminal::json(&json!({ "record": record, "old": old, "new": new }));
    } else {
        terminal::say(format!("Record {record} gives the journal another key, signed by both."));
        terminal::say(format!("  old key {old}, whose file is gone"));
        terminal::say(format!("  new key {new}"));
        terminal::say("Keep the new one where this account cannot write: it shows a fork by whoever has the old one.");
    }
    Ok(Exit::Done)
}

async fn tail(which: &Which, mut from: u64) -> Result<Exit, Failure> {
    let link = Door::cli(&which.reading.project.root()?)?.join().await?.ok_or_else(|| {
        Failure::new(Exit::Denied, "there is nothing to follow")
            .why("no stockade has this project open, so nothing is added")
            .next("leave --follow out")
    })?;
    let follow = async {
        loop {
            for event in link.events(from, Duration::from_secs(20)).await? {
                from = event.seq + 1;
                which.tell(&event);
            }
        }
    };
    tokio::select! {
        ended = follow => ended,
        () = asked_to_end() => Ok(Exit::Interrupted),
    }
}

fn tell(report: &Report, json: bool) -> Exit {
    let exit = if report.is_intact() { Exit::Done } else { Exit::Unverified };
    if json {
        terminal::json(report);
        return exit;
    }
    match report.status {
        Status::Unanchored => {
            terminal::say(format!(
                "intact: {} records, {} of them sealed by a checkpoint",
                report.records, report.sealed
            ));
            if report.unsealed > 0 {
                terminal::say(format!("  {} records after the last checkpoint are unsealed", report.unsealed));
            }
            if report.torn_bytes > 0 {
                terminal::say(format!("  {} bytes at the end are not whole records", report.torn_bytes));
            }
            terminal::say("  unanchored: nothing outside it says that no later records were cut off");
            if let Some(key) = &report.key {
                terminal::say(format!("  key {key}"));
            }
            for later in &report.later_keys {
                terminal::say(format!("  from record {} on key {}", later.record, later.key));
            }
        }
        Status::Tampered => terminal::say(format!("TAMPERED: {} faults", report.faults.len())),
        Status::Unreadable => terminal::say("not a journal that can be read"),
    }
    for fault in &report.faults {
        let record = fault.record.map_or_else(String::new, |record| format!(" record {record}"));
        terminal::say(format!("  {}{record}: {}", fault.file, in_words(&fault.what)));
    }
    exit
}
