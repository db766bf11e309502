//! `stockade replay`: the workbench over a journal.

use super::history;
use super::workbench::{NoPort, draw, require_terminal, watch_signals};
use crate::exit::{Exit, Failure};
use crate::project::ProjectArg;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use stockade_protocol::event::{Event, EventEnvelope, EventSource, RunEvent};
use stockade_protocol::ids::RunId;
use stockade_runtime::journal;
use stockade_ui::io::{Input, Mode};
use tokio::task::JoinSet;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run to begin at, or the beginning of its id; without it the whole journal
    run: Option<String>,
    /// A journal's directory; without it the project's own
    #[arg(long, value_name = "PATH")]
    journal: Option<PathBuf>,
    #[command(flatten)]
    project: ProjectArg,
}

/// The events of a journal that is read and not followed.
#[derive(Debug)]
struct Recording(Vec<Arc<EventEnvelope>>);

impl EventSource for Recording {
    fn pull(&self, from: u64, max: usize) -> Vec<Arc<EventEnvelope>> {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        self.0.get(from..).unwrap_or_default().iter().take(max).cloned().collect()
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    let events = match &args.journal {
        Some(path) => journal::read(path)?,
        None => history::of_project(&args.project)?,
    };
    if events.is_empty() {
        return Err(Failure::new(Exit::Denied, "there is nothing to replay")
            .why(history::NONE)
            .next("`stockade run` starts an agent, `stockade call` makes one call; both are recorded"));
    }
    let run = args.run.map(|typed| one_run(&events, &typed)).transpose()?;
    require_terminal()?;
    let (sender, inputs) = channel();
    let mut tasks = JoinSet::new();
    tasks.spawn(watch_signals(sender.clone()));
    // There is something to read; nothing else will say so.
    let _ = sender.send(Input::Journal);
    let port = NoPort(sender.clone());
    let ended = draw(Mode::Replay { run }, Box::new(Recording(events)), port, inputs, sender).await;
    tasks.shutdown().await;
    ended
}

fn one_run(events: &[Arc<EventEnvelope>], typed: &str) -> Result<RunId, Failure> {
    let started = |event: &Arc<EventEnvelope>| match &event.event {
        Event::Run(RunEvent::Started { .. }) => event.run,
        _ => None,
    };
    let ids: Vec<RunId> = events.iter().filter_map(started).collect();
    super::one_of(&ids, typed, "run", "stockade runs list")
}
