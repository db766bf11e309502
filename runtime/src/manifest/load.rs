//! Reading one manifest file into its callables.

use super::args::ArgSpec;
use super::argv::{self, ArgvTemplate};
use super::call::{Callable, CedarNames, Mode, Oneshot};
use super::command;
use super::fault::{Fault, Source};
use super::files::{self, FilesystemSpec};
use super::output;
use super::read::{Reader, Spot, Table};
use super::session::{self, CommandSpec, DAY, SessionSpec};
use super::types::{Args, Types, read_args, read_types, sound};
use std::collections::BTreeMap;
use std::ops::Range;
use stockade_protocol::contract::{RiskTier, WorkerLimits};
use stockade_protocol::digest::Digest;

/// Programs that reach the network when run.
const EGRESS: &[&str] = &[
    "curl", "wget", "nmap", "nc", "ncat", "netcat", "masscan", "telnet", "ssh", "ping", "fping", "httpie", "http",
    "wfuzz", "ffuf", "hydra", "nikto", "dig", "whois",
];

/// Argument types that name something on the network.
const TARGETS: &[&str] = &["scope_target", "url", "ip_address", "cidr"];

/// Backends that later versions build, with what to use now.
const LATER_TABLES: &[(&str, &str)] = &[
    ("http", "built now: [command] and [session]"),
    ("mcp", "built now: [command] and [session]"),
    ("source", "built now: [command] and [session]"),
    ("browser", "no browser backend is available; built now: [command] and [session]"),
];

/// The `[tool]` table.
struct Tool {
    name: Option<Spot<String>>,
    version: String,
    description: String,
    binary: String,
    mode: ToolMode,
    timeout_seconds: u64,
    risk_tier: RiskTier,
    human_approval: bool,
    allow_interpreter: bool,
    cedar: CedarNames,
    limits: WorkerLimits,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ToolMode {
    Oneshot,
    Session,
    /// Of a later version, or faulty.
    Other,
}

/// What one file gave: its tool's name with its place, and the callables; faults beside.
pub(crate) struct Loaded {
    pub(crate) tool: Option<(String, u32, u32)>,
    pub(crate) callables: Vec<Callable>,
    pub(crate) faults: Vec<Fault>,
}

/// Reads `toolclad.toml`.
pub(crate) fn load_types(source: &Source) -> (Types, Vec<Fault>) {
    let (reader, table) = Reader::parse(source);
    let root = Table::root(&reader, table.get_ref());
    let types = read_types(&root);
    root.finish();
    (types, reader.into_faults())
}

/// Reads one manifest.
pub(crate) fn load_manifest(source: &Source, digest: Digest, types: &Types) -> Loaded {
    let (reader, table) = Reader::parse(source);
    let root = Table::root(&reader, table.get_ref());
    let before = reader.count();
    let mut tool_place = None;
    let mut callables = Vec::new();
    if let Some((tool, body)) = read_root(root, types)
        && let Some(name) = tool.name.clone()
    {
        let (line, column) = source.place(name.span.start);
        tool_place = Some((name.value.clone(), line, column));
        if reader.count() == before {
            callables = build(&source.file, digest, name.value, tool, body);
        }
    }
    Loaded { tool: tool_place, callables, faults: reader.into_faults() }
}

/// The rest of a manifest, read.
struct Body {
    args: BTreeMap<String, ArgSpec>,
    files: FilesystemSpec,
    output: output::OutputSpec,
    oneshot: Option<Oneshot>,
    session: Option<(SessionSpec, Vec<CommandSpec>)>,
}

fn read_root(root: Table<'_>, types: &Types) -> Option<(Tool, Body)> {
    let tool = match root.table("tool") {
        Some(table) => Some(read_tool(table)),
        None => {
            if !root.has("tool") {
                root.missing("tool", "begin with [tool] and its name, version and description");
            }
            None
        }
    };
    let args = read_args(&root, types);
    let (files, files_span) = files::read(&root);
    let output = output::read(&root);
    let later = root.refuse(LATER_TABLES);
    let command = root.table("command");
    let session = root.table("session");
    // Without [tool] the two are still read, so that their own faults are found too.
    let (mode, context) = tool.as_ref().map_or((ToolMode::Other, None), |tool| (tool.mode, Some(tool)));
    let facts = session::Tool {
        binary: context.map_or("", |tool| tool.binary.as_str()),
        allow_interpreter: context.is_none_or(|tool| tool.allow_interpreter),
        timeout_seconds: context.map_or(30, |tool| tool.timeout_seconds),
    };
    match (mode, &command, &session) {
        (ToolMode::Oneshot, None, _) if !later && !root.has("command") => {
            root.missing("command", "say what is run: [command] with exec = [\"wc\", \"{path}\"]");
        }
        (ToolMode::Session, _, None) if !later && !root.has("session") => {
            root.missing("session", "say what is run: [session] with startup_command and ready_pattern");
        }
        _ => {}
    }
    if let (ToolMode::Oneshot, Some(session)) = (mode, &session) {
        root.reader.value(&session.span, "[session] belongs to session tools", "set tool.mode = \"session\"");
    }
    if let (ToolMode::Session, Some(command)) = (mode, &command) {
        root.reader.value(&command.span, "[command] belongs to one-shot tools", "remove it, or remove tool.mode");
    }
    if let Some(tool) = context {
        lint_egress(&root, tool);
    }
    let oneshot = command.and_then(|command| command::read(command, &args, &facts, mode == ToolMode::Oneshot));
    let session = session.map(|session| session::read(session, &facts, types));
    if let Some(span) = files_span {
        let commands = session.as_ref().map(|session| session.commands.as_slice());
        check_files(&root, &span, &files, &args, commands, mode);
    }
    root.finish();
    let session = session
        .and_then(|session| Some((session.spec?, session.commands.into_iter().map(|(command, _)| command).collect())));
    Some((tool?, Body { args: sound(args), files, output, oneshot, session }))
}

fn read_tool(table: Table<'_>) -> Tool {
    let reader = table.reader;
    let name = table.required_string("name", "name the tool as callers will: name = \"wordcount\"");
    if let Some(name) = name.as_ref().filter(|name| !argv::is_name(&name.value)) {
        let what = format!("`{}` cannot name a tool", name.value);
        reader.value(&name.span, what, "begin with a letter, then letters, digits, `_` and `-`, at most 64");
    }
    let version = table.required_string("version", "add version = \"1.0.0\"");
    let description = table.required_string("description", "say in one line what it is for");
    let binary = table.string("binary").map(|spot| spot.value).unwrap_or_default();
    let mode = read_mode(&table);
    let timeout_seconds = table.bounded("timeout_seconds", 30, 1..=DAY);
    let risk_tier = session::risk_tier(&table).unwrap_or(RiskTier::Low);
    let human_approval = table.boolean("human_approval").is_some_and(|spot| spot.value);
    let allow_interpreter = table.boolean("allow_interpreter").is_some_and(|spot| spot.value);
    if let Some(egress) = table.boolean("network_egress").filter(|spot| spot.value) {
        let what = "`tool.network_egress = true`";
        reader.unsupported(&egress.span, what, "workers have no network: remove it if the tool needs none");
    }
    if let Some(dispatch) = table.string("dispatch").filter(|spot| spot.value != "exec") {
        let what = format!("`tool.dispatch = \"{}\"`", dispatch.value);
        reader.unsupported(&dispatch.span, &what, "remove it: the runtime runs the command itself");
    }
    table.refuse(&[("evidence", "remove it: the journal keeps the output and its digest")]);
    let cedar = read_cedar(&table);
    let limits = read_limits(&table);
    table.finish();
    Tool {
        name,
        version: version.map(|spot| spot.value).unwrap_or_default(),
        description: description.map(|spot| spot.value).unwrap_or_default(),
        binary,
        mode,
        timeout_seconds,
        risk_tier,
        human_approval,
        allow_interpreter,
        cedar,
        limits,
    }
}

fn read_mode(table: &Table<'_>) -> ToolMode {
    let Some(mode) = table.string("mode") else {
        return if table.has("mode") { ToolMode::Other } else { ToolMode::Oneshot };
    };
    match mode.value.as_str() {
        "oneshot" => ToolMode::Oneshot,
        "session" => ToolMode::Session,
        "browser" => {
            let hint = "no browser backend is available; use \"oneshot\" or \"session\"";
            table.reader.unsupported(&mode.span, "`tool.mode = \"browser\"`", hint);
            ToolMode::Other
        }
        other => {
            let what = format!("there is no tool mode `{other}`");
            table.reader.value(&mode.span, what, "use \"oneshot\" or \"session\"");
            ToolMode::Other
        }
    }
}

/// Entity types that policies use for something else.
const TAKEN_TYPES: &[&str] = &["Person", "Agent", "Session", "Action"];

/// Words that Cedar does not take in names.
const CEDAR_WORDS: &[&str] = &[
    "true",
    "false",
    "if",
    "then",
    "else",
    "in",
    "is",
    "like",
    "has",
    "Bool",
    "Boolean",
    "Long",
    "String",
    "Set",
    "Record",
    "Entity",
    "Extension",
    "decimal",
    "ipaddr",
    "datetime",
    "duration",
    "__cedar",
];

fn read_cedar(parent: &Table<'_>) -> CedarNames {
    let mut names = CedarNames { resource_type: "Tool".to_owned(), action: "call".to_owned() };
    let Some(table) = parent.table("cedar") else { return names };
    if let Some(resource) = table.string("resource") {
        let parts: Vec<&str> = resource.value.split("::").collect();
        let plain = |part: &&str| {
            part.chars().next().is_some_and(|c| c.is_ascii_alphabetic())
                && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                && !CEDAR_WORDS.contains(part)
        };
        if !parts.iter().all(plain) || parts.len() > 8 || resource.value.len() > 256 {
            let what = format!("`{}` is not the name of a Cedar entity type", resource.value);
            table.reader.value(&resource.span, what, "write it as in \"Tool\" or \"Tool::Wordcount\"");
        } else if parts.iter().any(|part| TAKEN_TYPES.contains(part))
            || parts.len() > 1 && parts.last().is_some_and(|last| *last == "Tool")
        {
            let what = format!("the entity type `{}` would hide one that policies use already", resource.value);
            table.reader.value(&resource.span, what, "rename it");
        } else {
            names.resource_type = resource.value;
        }
    }
    if let Some(action) = table.string("action") {
        let plain = !action.value.is_empty() && action.value.len() <= 128 && !action.value.contains(char::is_control);
        if !plain {
            table.reader.value(&action.span, "the action has no usable name", "use a word such as \"call\"");
        } else if action.value == "take_over" {
            table.reader.value(&action.span, "the action `take_over` is stockade's own", "rename it");
        } else {
            names.action = action.value;
        }
    }
    table.finish();
    names
}

fn read_limits(parent: &Table<'_>) -> WorkerLimits {
    let mut limits = WorkerLimits::default();
    let Some(table) = parent.table("limits") else { return limits };
    // A manifest may only tighten: what it allows beyond the tier's own bound changes nothing.
    let tighten = |key: &str, bound: &mut u64| {
        *bound = table.bounded(key, *bound, 1..=i64::MAX.unsigned_abs()).min(*bound);
    };
    tighten("nproc", &mut limits.processes);
    tighten("nofile", &mut limits.open_files);
    tighten("fsize_bytes", &mut limits.file_bytes);
    tighten("address_space_bytes", &mut limits.address_space_bytes);
    tighten("cpu_seconds", &mut limits.cpu_seconds);
    table.finish();
    limits
}

/// A program that reaches the network must refuse internal targets, whether or not the network is there today.
fn lint_egress(root: &Table<'_>, tool: &Tool) {
    let base = argv::base_name(&tool.binary);
    if !EGRESS.contains(&base) {
        return;
    }
    for (name, arg) in root.table("args").map(|args| args.tables()).unwrap_or_default() {
        let target = arg.string("type").is_some_and(|spot| TARGETS.contains(&spot.value.as_str()));
        let blocks = matches!(arg.raw("block_internal").map(|spot| spot.value), Some(toml::de::DeValue::Boolean(true)));
        if target && !blocks {
            let what = format!("{base} reaches the network, and the argument {name} does not set block_internal");
            root.reader.value(&arg.span, what, "set block_internal = true");
        }
    }
}

fn check_files(
    root: &Table<'_>,
    span: &Range<usize>,
    files: &FilesystemSpec,
    args: &Args,
    commands: Option<&[(CommandSpec, Args)]>,
    mode: ToolMode,
) {
    let mut fault = |what: String, hint: String| root.reader.value(span, what, hint);
    match commands {
        Some(commands) => {
            // The file set of a session is fixed, so every command must be able to name it.
            for (command, own) in commands {
                let all = args.iter().chain(own).map(|(name, spec)| (name.clone(), spec.clone())).collect();
                files::check_references(files, &all, &format!("the command {}", command.name), &mut fault);
            }
            if !files.create.is_empty() && !commands.iter().any(|(command, _)| command.finalizes) {
                let hint = "set finalize = true on the command that ends the session";
                fault("`filesystem.create` is declared, but no command publishes it".to_owned(), hint.to_owned());
            }
        }
        None if mode == ToolMode::Oneshot => {
            files::check_references(files, args, "the tool", &mut fault);
        }
        None => {}
    }
}

/// A session command's arguments: the tool's own and the command's.
fn merged(args: &BTreeMap<String, ArgSpec>, command: &CommandSpec) -> BTreeMap<String, ArgSpec> {
    args.iter().chain(&command.args).map(|(name, spec)| (name.clone(), spec.clone())).collect()
}

fn build(file: &str, manifest: Digest, name: String, tool: Tool, body: Body) -> Vec<Callable> {
    let mut limits = tool.limits;
    if !body.files.create.is_empty() {
        // One byte more than may be published: an output that was cut at its bound would look like a whole one.
        limits.file_bytes = limits.file_bytes.min(body.files.max_file_bytes + 1);
    }
    let timeout_ms = tool.timeout_seconds * 1000;
    let base = Callable {
        name: name.clone(),
        tool: name,
        version: tool.version,
        description: tool.description,
        file: file.to_owned(),
        manifest,
        risk_tier: tool.risk_tier,
        human_approval: tool.human_approval,
        mode: Mode::Oneshot(Oneshot { template: ArgvTemplate::default(), defaults: BTreeMap::new() }),
        args: body.args,
        filesystem: body.files,
        output: body.output,
        limits,
        timeout_ms,
        cedar: tool.cedar,
    };
    match (tool.mode, body.oneshot, body.session) {
        (ToolMode::Oneshot, Some(oneshot), _) => {
            limits.lifetime_ms = limits.lifetime_ms.min(timeout_ms);
            vec![Callable { mode: Mode::Oneshot(oneshot), limits, ..base }]
        }
        (ToolMode::Session, _, Some((session, commands))) => {
            // The worker outlives its session's own deadlines by nothing: they are what ends it.
            limits.lifetime_ms = session.startup_timeout_ms + session.session_timeout_ms;
            commands
                .into_iter()
                .map(|command| Callable {
                    name: format!("{}.{}", base.tool, command.name),
                    description: if command.description.is_empty() {
                        base.description.clone()
                    } else {
                        command.description.clone()
                    },
                    risk_tier: command.risk_tier.map_or(base.risk_tier, |tier| tier.max(base.risk_tier)),
                    human_approval: base.human_approval || command.human_approval,
                    args: merged(&base.args, &command),
                    limits,
                    timeout_ms: session.interaction_timeout_ms,
                    mode: Mode::Session(Box::new(session.clone()), Box::new(command)),
                    ..base.clone()
                })
                .collect()
        }
        _ => Vec::new(),
    }
}
