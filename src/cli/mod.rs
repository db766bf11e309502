//! The command line: one file a subcommand.

mod approvals;
mod call;
mod completions;
mod demo;
mod doctor;
mod follow;
mod history;
mod init;
mod journal;
mod mcp;
mod replay;
mod run;
mod runs;
mod sessions;
mod tools;
mod trust;
mod workbench;

use crate::exit::{Exit, Failure};
use crate::terminal;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

/// A terminal workbench for people who supervise AI agents.
#[derive(Debug, Parser)]
#[command(name = "stockade", version, about, args_conflicts_with_subcommands = true, subcommand_required = false)]
#[command(after_help = "Exit status: 0 done, 1 the tool or agent failed, 2 usage, 3 invalid or denied, 4 approval \
                        rejected or expired, 5 boundary unavailable, 6 journal does not verify, 7 internal, \
                        130 interrupted.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Subcommands>,
    /// Opens the workbench on the project in this folder
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    /// Make a small project and watch an agent work in it; one approval is asked for
    Demo(demo::Args),
    /// Write a commented starter project
    Init(init::Args),
    /// Run an agent
    Run(run::Args),
    /// Call one tool, the whole way
    Call(call::Args),
    /// The project's tools
    Tools(tools::Args),
    /// Whether the sandbox works here, and what to do where it does not
    Doctor(doctor::Args),
    /// What waits for a person, and the answer to it
    Approvals(approvals::Args),
    /// Live terminals
    Sessions(sessions::Args),
    /// Live and past runs
    Runs(runs::Args),
    /// The signed record of everything
    Journal(journal::Args),
    /// Move through a journal in time
    Replay(replay::Args),
    /// Serve the project's tools to an MCP client over standard input and output
    Mcp(mcp::Args),
    /// Trust a project in its present state
    Trust(trust::Args),
    /// Print completions for a shell
    Completions(completions::Args),
}

/// Parses and runs; the exit status is one of [`Exit`].
pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, not errors. A closed pipe takes nothing away from either.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    log();
    let ended = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::new(Exit::Internal, "stockade could not start its threads")
                .why(error)
                .next("end other programs, or raise the limit of processes (ulimit -u)")
        })
        .and_then(|runtime| runtime.block_on(dispatch(cli)));
    match ended {
        Ok(exit) => exit.into(),
        Err(failure) => {
            terminal::fail(&failure);
            failure.exit.into()
        }
    }
}

/// Diagnostics on standard error, when `STOCKADE_LOG` asks for them.
fn log() {
    let Ok(filter) = tracing_subscriber::EnvFilter::try_from_env("STOCKADE_LOG") else { return };
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).try_init();
}

async fn dispatch(cli: Cli) -> Result<Exit, Failure> {
    match cli.command {
        None => Box::pin(workbench::run(cli.folder)).await,
        Some(Subcommands::Demo(args)) => Box::pin(demo::run(args)).await,
        Some(Subcommands::Init(args)) => init::run(&args),
        Some(Subcommands::Run(args)) => Box::pin(run::run(args)).await,
        Some(Subcommands::Call(args)) => Box::pin(call::run(args)).await,
        Some(Subcommands::Tools(args)) => tools::run(args),
        Some(Subcommands::Doctor(args)) => Ok(doctor::run(&args)),
        Some(Subcommands::Approvals(args)) => Box::pin(approvals::run(args)).await,
        Some(Subcommands::Sessions(args)) => sessions::run(args).await,
        Some(Subcommands::Runs(args)) => runs::run(args).await,
        Some(Subcommands::Journal(args)) => journal::run(args).await,
        Some(Subcommands::Replay(args)) => replay::run(args).await,
        Some(Subcommands::Mcp(args)) => Box::pin(mcp::run(args)).await,
        Some(Subcommands::Trust(args)) => trust::run(&args),
        Some(Subcommands::Completions(args)) => Ok(completions::run(&args)),
    }
}

/// The one id that begins with what was typed.
fn one_of<I: Copy + Display>(ids: &[I], typed: &str, what: &str, list: &str) -> Result<I, Failure> {
    let mut found = ids.iter().filter(|id| id.to_string().starts_with(typed));
    match (found.next(), found.next()) {
        (Some(id), None) => Ok(*id),
        (None, _) => Err(Failure::new(Exit::Denied, format!("there is no {what} {typed}"))
            .why("no id begins so")
            .next(format!("`{list}` shows them"))),
        (Some(_), Some(_)) => Err(Failure::new(Exit::Usage, format!("more than one {what} begins with {typed}"))
            .why("only what is meant without doubt is done")
            .next(format!("type more of it; `{list}` shows them"))),
    }
}

#[cfg(test)]
mod tests;
