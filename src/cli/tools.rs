//! `stockade tools`: what can be called. Reads files only; nothing is started and no trust is needed.

use crate::exit::{Exit, Failure};
use crate::project::{ProjectArg, Reading};
use crate::terminal;
use serde_json::json;
use stockade_protocol::request::ToolInfo;
use stockade_runtime::manifest::{Faults, ToolSet};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, clap::Subcommand)]
enum Commands {
    /// List every callable tool
    List(Reading),
    /// Check every manifest and show all faults at once
    Check(Reading),
    /// Print the JSON Schema of a tool's arguments
    Schema {
        /// The tool, as listed
        tool: String,
        #[command(flatten)]
        project: ProjectArg,
    },
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    match args.command {
        Commands::List(Reading { project, json }) => {
            list(&load(&project)?, json)?;
            Ok(Exit::Done)
        }
        Commands::Check(Reading { project, json }) => check(&project, json),
        Commands::Schema { tool, project } => {
            let infos = load(&project)?.infos();
            let info = infos.iter().find(|info| info.name == tool).ok_or_else(|| {
                let known: Vec<&str> = infos.iter().map(|info| info.name.as_str()).collect();
                Failure::new(Exit::Denied, format!("there is no tool named {tool}"))
                    .why("no manifest in tools/ names it")
                    .next(format!("known tools: {}", known.join(", ")))
            })?;
            terminal::json(&schema(info)?);
            Ok(Exit::Done)
        }
    }
}

fn load(project: &ProjectArg) -> Result<ToolSet, Failure> {
    ToolSet::load(&project.root()?).map_err(|faults| {
        Failure::new(Exit::Denied, "the tools have faults").why(faults).next("mend the files named above")
    })
}

fn schema(info: &ToolInfo) -> Result<serde_json::Value, Failure> {
    serde_json::from_str(&info.input_schema).map_err(|error| {
        Failure::new(Exit::Internal, format!("the schema of {} is not JSON", info.name))
            .why(error)
            .next("`stockade tools check` reads its manifest")
    })
}

fn list(tools: &ToolSet, as_json: bool) -> Result<(), Failure> {
    let infos = tools.infos();
    if as_json {
        let listed: Result<Vec<_>, Failure> = infos
            .iter()
            .map(|info| {
                Ok(json!({
                    "name": info.name, "description": info.description, "mode": info.mode,
                    "risk_tier": info.risk_tier, "human_approval": info.human_approval, "input_schema": schema(info)?,
                }))
            })
            .collect();
        terminal::json(&listed?);
        return Ok(());
    }
    if infos.is_empty() {
        terminal::say("No tools. A tool is a file tools/NAME.clad.toml; `stockade init` writes an example.");
    }
    let width = infos.iter().map(|info| info.name.chars().count()).max().unwrap_or_default();
    for info in infos {
        let person = if info.human_approval { "person" } else { "" };
        terminal::say(format!(
            "{:width$}  {:8} {:8} {person:6}  {}",
            info.name, info.mode, info.risk_tier, info.description
        ));
    }
    Ok(())
}

fn check(project: &ProjectArg, as_json: bool) -> Result<Exit, Failure> {
    match ToolSet::load(&project.root()?) {
        Ok(tools) => {
            let count = tools.names().count();
            if as_json {
                terminal::json(&json!({ "tools": count, "digest": tools.digest(), "faults": [] }));
            } else {
                terminal::say(format!("{count} callable tools, no faults."));
            }
            Ok(Exit::Done)
        }
        Err(faults) => {
            tell(&faults, as_json);
            Ok(Exit::Denied)
        }
    }
}

fn tell(faults: &Faults, as_json: bool) {
    if as_json {
        let listed: Vec<_> = faults
            .as_slice()
            .iter()
            .map(|fault| {
                json!({
                    "file": fault.file, "line": fault.line, "column": fault.column,
                    "what": fault.what, "hint": fault.hint,
                })
            })
            .collect();
        terminal::json(&json!({ "faults": listed }));
    } else {
        terminal::say_lines(faults.to_string());
    }
}
