//! `stockade call`: one tool call by the person at the keyboard, the whole way.

use crate::exit::{Exit, Failure};
use crate::link::{Door, Link};
use crate::project::ProjectArg;
use crate::signals::asked_to_end;
use crate::terminal;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stockade_protocol::command::{Command, Reply};
use stockade_protocol::request::ToolCallRequest;
use stockade_protocol::result::CallResult;
use tokio::time::MissedTickBehavior;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tool, as `stockade tools list` shows it
    tool: String,
    /// An argument of the tool
    #[arg(long = "arg", value_name = "NAME=VALUE", value_parser = pair)]
    args: Vec<(String, String)>,
    /// Stop after the judgement: print contract, digest and decision; nothing runs
    #[arg(long)]
    check: bool,
    /// Your own id for this call: the same id never runs twice, a repeat gives the recorded result
    #[arg(long, value_name = "ID")]
    invocation_id: Option<String>,
    /// What it is for; shown to the approver
    #[arg(long)]
    reason: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write the tool's output as it is; refused on a terminal
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    #[command(flatten)]
    project: ProjectArg,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    if name.is_empty() {
        return Err("the name is empty: write it as NAME=VALUE".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    if args.raw && terminal::output_is_terminal() {
        return Err(Failure::new(Exit::Usage, "--raw is refused on a terminal")
            .why("what a tool prints could control it")
            .next("send it to a file or a pipe, or leave --raw out"));
    }
    let mut arguments = BTreeMap::new();
    for (name, value) in args.args {
        if arguments.insert(name.clone(), value).is_some() {
            return Err(Failure::new(Exit::Usage, format!("the argument {name} is given twice"))
                .why("only one of them could be meant")
                .next("leave one out"));
        }
    }
    let request =
        ToolCallRequest { tool: args.tool, arguments, invocation_id: args.invocation_id, reason: args.reason };
    let link = Door::cli(&args.project.root()?)?.open().await?;
    let form = if args.json {
        Form::Json
    } else if args.raw {
        Form::Raw
    } else {
        Form::Text
    };
    let told = if args.check { check(&link, request, form).await } else { call(&link, request, form).await };
    let closed = link.close().await;
    told.and_then(|exit| closed.map(|()| exit))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Json,
    Raw,
}

async fn check(link: &Link, request: ToolCallRequest, form: Form) -> Result<Exit, Failure> {
    let reply = link.request(Command::Check { request }).await?;
    if let (Reply::Refused { refusal }, Form::Json) = (&reply, form) {
        terminal::json(&json!({ "refusal": refusal }));
        return Ok(refusal.code.into());
    }
    let (contract, digest, permitted, policies, needs_person, refusal) = match reply {
        Reply::Checked { contract, digest, permitted, policies, needs_person, refusal } => {
            (contract, digest, permitted, policies, needs_person, refusal)
        }
        Reply::Refused { refusal } => return Err(refusal.into()),
        _ => return Err(Failure::out_of_place()),
    };
    let contract: serde_json::Value = serde_json::from_str(&contract).map_err(|error| {
        Failure::new(Exit::Internal, "the contract is not JSON").why(error).next("use the same stockade on both sides")
    })?;
    if form == Form::Json {
        terminal::json(&json!({
            "contract": contract, "digest": digest, "permitted": permitted, "policies": policies,
            "needs_person": needs_person, "refusal": refusal,
        }));
    } else {
        terminal::json(&contract);
        let decision = match (permitted, needs_person) {
            (true, true) => "permitted, and a person must approve it",
            (true, false) => "permitted",
            (false, _) => "denied",
        };
        terminal::say_lines(format!("digest   {digest}\ndecision {decision}"));
        terminal::say(format!("policies {}", policies.join(", ")));
    }
    match refusal {
        Some(refusal) if form == Form::Json => Ok(refusal.code.into()),
        Some(refusal) => Err(refusal.into()),
        None => Ok(Exit::Done),
    }
}

async fn call(link: &Link, request: ToolCallRequest, form: Form) -> Result<Exit, Failure> {
    let tool = request.tool.clone();
    let mut answer = std::pin::pin!(link.request(Command::Call { request, run: None }));
    let mut waiting = Waiting::new(tool);
    let mut look = tokio::time::interval(Duration::from_millis(250));
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut end = std::pin::pin!(asked_to_end());
    let reply = loop {
        tokio::select! {
            reply = &mut answer => break reply?,
            // Dropping the question cancels the call.
            () = &mut end => return Ok(Exit::Interrupted),
            _ = look.tick() => waiting.look(link).await,
        }
    };
    match reply {
        Reply::Result { result } => Ok(tell(&result, form)),
        Reply::Refused { refusal } if form == Form::Json => {
            terminal::json(&json!({ "refusal": refusal }));
            Ok(refusal.code.into())
        }
        Reply::Refused { refusal } => Err(refusal.into()),
        _ => Err(Failure::out_of_place()),
    }
}

fn tell(result: &CallResult, form: Form) -> Exit {
    let exit = result.refusal.as_ref().map_or(Exit::Done, |refusal| refusal.code.into());
    match form {
        Form::Json => terminal::json(result),
        Form::Raw => terminal::raw(result.output.as_bytes()),
        Form::Text if !result.output.is_empty() => terminal::say_lines(result.output.trim_end_matches('\n')),
        Form::Text => {}
    }
    if form == Form::Json {
        return exit;
    }
    if !result.stderr.is_empty() {
        terminal::note_lines(result.stderr.trim_end_matches('\n'));
    }
    if result.output_truncated {
        terminal::note("The output was cut at its limit.");
    }
    for file in &result.created_files {
        terminal::note(format!("Published {} ({} bytes, sha256 {}).", file.host_path, file.bytes, file.sha256));
    }
    if let Some(refusal) = &result.refusal {
        eprint!("{}", Failure::from(refusal.clone()));
    }
    exit
}

/// Tells the person, once, that the call waits for an answer and how to give it.
#[derive(Debug)]
struct Waiting {
    tool: String,
    before: Option<BTreeSet<stockade_protocol::ids::CallId>>,
    told: bool,
}

impl Waiting {
    fn new(tool: String) -> Self {
        Self { tool, before: None, told: false }
    }

    async fn look(&mut self, link: &Link) {
        if self.told {
            return;
        }
        let Ok(Reply::Approvals { pending }) = link.request(Command::ListApprovals).await else { return };
        // What waited before this call was made is not this call.
        let before = self.before.get_or_insert_with(|| {
            let others = pending.iter().filter(|waiting| waiting.tool != self.tool);
            others.map(|waiting| waiting.call).collect()
        });
        let found = pending.iter().find(|waiting| waiting.tool == self.tool && !before.contains(&waiting.call));
        if let Some(waiting) = found {
            self.told = true;
            terminal::note(format!("Waiting for a person: stockade approvals approve {}", waiting.call));
        }
    }
}
