//! `stockade runs`: live and past runs, from the journal.

use super::history;
use crate::exit::{Exit, Failure};
use crate::project::Reading;
use crate::terminal;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use stockade_protocol::event::{CallEvent, Event, EventEnvelope, RunEvent, RunOutcome};
use stockade_protocol::ids::{Principal, RunId};
use stockade_protocol::request::Origin;
use stockade_protocol::time::Timestamp;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, clap::Subcommand)]
enum Commands {
    /// List runs, newest last
    List(Reading),
    /// Show one run, event by event
    Show {
        /// The run, or the beginning of its id
        run: String,
        #[command(flatten)]
        reading: Reading,
    },
}

/// One run as a list shows it.
#[derive(Debug, Serialize)]
struct Run {
    run: RunId,
    title: String,
    principal: Principal,
    origin: Origin,
    started: Timestamp,
    /// `None` while it is live.
    outcome: Option<RunOutcome>,
    ended: Option<Timestamp>,
    answer: Option<String>,
    reason: Option<String>,
    calls: u32,
    refused: u32,
}

pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    let (Reading { project, json }, one) = match args.command {
        Commands::List(reading) => (reading, None),
        Commands::Show { run, reading } => (reading, Some(run)),
    };
    let events = history::of_project(&project)?;
    let runs = fold(&events);
    let Some(one) = one else {
        list(&runs, json);
        return Ok(Exit::Done);
    };
    let ids: Vec<RunId> = runs.iter().map(|run| run.run).collect();
    let id = super::one_of(&ids, &one, "run", "stockade runs list")?;
    let its: Vec<&Arc<EventEnvelope>> = events.iter().filter(|event| event.run == Some(id)).collect();
    if json {
        let run = runs.iter().find(|run| run.run == id);
        terminal::json(&serde_json::json!({ "run": run, "events": its }));
    } else {
        its.iter().for_each(|event| terminal::say(history::line(event)));
    }
    Ok(Exit::Done)
}

fn list(runs: &[Run], json: bool) {
    if json {
        terminal::json(&runs);
        return;
    }
    if runs.is_empty() {
        terminal::say("No runs yet. `stockade run` starts an agent, `stockade call` makes one call.");
    }
    for run in runs {
        let outcome = run.outcome.map_or_else(|| "live".to_owned(), |outcome| format!("{outcome:?}").to_lowercase());
        terminal::say(format!(
            "{}  {}  {outcome:11} {:3} calls {:3} refused  {} ({})",
            run.run,
            history::clock(run.started),
            run.calls,
            run.refused,
            run.title,
            run.principal
        ));
    }
}

fn fold(events: &[Arc<EventEnvelope>]) -> Vec<Run> {
    let mut runs: BTreeMap<RunId, Run> = BTreeMap::new();
    let mut order = Vec::new();
    for envelope in events {
        let Some(id) = envelope.run else { continue };
        match &envelope.event {
            Event::Run(RunEvent::Started { title, principal, origin }) => {
                order.push(id);
                let run = Run {
                    run: id,
                    title: title.raw().to_owned(),
                    principal: principal.clone(),
                    origin: *origin,
                    started: envelope.time,
                    outcome: None,
                    ended: None,
                    answer: None,
                    reason: None,
                    calls: 0,
                    refused: 0,
                };
                runs.insert(id, run);
            }
            Event::Run(RunEvent::Ended { outcome, answer, reason }) => {
                if let Some(run) = runs.get_mut(&id) {
                    run.outcome = Some(*outcome);
                    run.ended = Some(envelope.time);
                    run.answer = answer.as_ref().map(|text| text.raw().to_owned());
                    run.reason = reason.as_ref().map(|text| text.raw().to_owned());
                }
            }
            Event::Call(CallEvent::Finished { result }) => {
                if let Some(run) = runs.get_mut(&id) {
                    run.calls += 1;
                    run.refused += u32::from(result.refusal.is_some());
                }
            }
            _ => {}
        }
    }
    order.into_iter().filter_map(|id| runs.remove(&id)).collect()
}
