//! `stockade run`: one agent, one prompt.

use super::follow::{self, Following};
use super::workbench;
use crate::exit::{Exit, Failure};
use crate::link::Door;
use crate::project::ProjectArg;
use crate::terminal;
use serde_json::json;
use stockade_protocol::command::Command;
use stockade_runtime::project::Project;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What the agent is to do
    prompt: String,
    /// The agent; without it the project's default
    #[arg(long)]
    agent: Option<String>,
    /// Do not open the workbench: say what happens, line by line
    #[arg(long)]
    headless: bool,
    /// Print one JSON object when the run has ended; nothing is drawn
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    project: ProjectArg,
}

pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    let root = args.project.root()?;
    let agent = agent_of(args.agent, &Project::open(&root)?)?;
    if !args.headless && !args.json {
        workbench::require_terminal()?;
        let link = workbench::door(&root)?.open().await?;
        link.ask(Command::StartRun { agent, prompt: args.prompt }).await?;
        return workbench::show(link).await;
    }
    let link = Door::cli(&root)?.open().await?;
    let following = Following { aloud: !args.json, approver: None, life_ms: 0 };
    let ended = follow::agent(&link, &agent, &args.prompt, &following).await;
    let journal = link.status().await.map(|status| status.journal);
    let closed = link.close().await;
    let Some(ended) = ended? else { return Ok(Exit::Interrupted) };
    closed?;
    if args.json {
        terminal::json(&json!({
            "run_id": ended.run, "agent": agent, "outcome": ended.outcome, "answer": ended.answer,
            "reason": ended.reason, "calls": ended.calls(), "created_files": ended.created_files(),
            "journal": journal?,
        }));
    }
    Ok(ended.exit())
}

fn agent_of(named: Option<String>, project: &Project) -> Result<String, Failure> {
    let known: Vec<&str> = project.agents().keys().map(String::as_str).collect();
    let agent = named.or_else(|| project.configuration().default_agent.clone()).ok_or_else(|| {
        Failure::new(Exit::Usage, "no agent was named, and the project has no default")
            .why("only an agent can be given a prompt")
            .next(format!("name one with --agent; the project has: {}", known.join(", ")))
    })?;
    if project.agents().contains_key(&agent) {
        return Ok(agent);
    }
    Err(Failure::new(Exit::Usage, format!("there is no agent called {agent}"))
        .why("no file in agents/ describes it")
        .next(format!("the project has: {}", known.join(", "))))
}
