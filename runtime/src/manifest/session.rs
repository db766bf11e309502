//! Session tools: one program on a terminal, and the lines that may be typed into it.

use super::args::{ArgSpec, SHELL, Unfit};
use super::argv::{base_name, is_interpreter, is_name, words};
use super::pattern::Pattern;
use super::read::{Spot, Table};
use super::types::{self, Args, Types};
use std::collections::BTreeMap;
use stockade_protocol::contract::RiskTier;
use stockade_protocol::limits::{COMMAND_BYTES, INTERACTION_BYTES};

/// Longest deadline a manifest may set, seconds.
pub(crate) const DAY: u64 = 86_400;

/// The `[session]` table.
#[derive(Debug, Clone)]
pub struct SessionSpec {
    /// Literal argv of the program; nothing a caller sends is part of it.
    pub startup_argv: Vec<String>,
    /// What the whole last line must match, after ANSI removal, for the program to be ready. Never matches nothing.
    pub ready: Pattern,
    /// Longest time from start to the first prompt, milliseconds.
    pub startup_timeout_ms: u64,
    /// Longest time without a command, milliseconds; output does not extend it.
    pub idle_timeout_ms: u64,
    /// Longest life, milliseconds.
    pub session_timeout_ms: u64,
    /// Longest time from a command to the next prompt, milliseconds.
    pub interaction_timeout_ms: u64,
    /// Most commands over its life.
    pub max_interactions: u32,
    /// Bytes of output one interaction may give.
    pub output_max_bytes: usize,
    /// More to refuse in a line, for programs that read some characters as commands of their own.
    pub sanitize: Sanitize,
}

/// What `input_sanitize` asks to be refused in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sanitize {
    /// Characters that a shell would read.
    pub injection: bool,
    /// Backslashes, which begin commands of `psql`.
    pub psql_meta: bool,
}

/// One command of a session: a form of line that may be typed.
#[derive(Debug, Clone)]
pub struct CommandSpec {
    /// Its name within the tool.
    pub name: String,
    /// What a whole line must match.
    pub pattern: Pattern,
    /// What it is for.
    pub description: String,
    /// Its own risk tier, when it has one.
    pub risk_tier: Option<RiskTier>,
    /// Whether a person must approve each line.
    pub human_approval: bool,
    /// Whether it ends the session and publishes its output.
    pub finalizes: bool,
    /// Arguments it takes beside the line.
    pub args: BTreeMap<String, ArgSpec>,
}

/// Checks a line before it is matched: one line, not empty, bounded, and without a character that a terminal or the
/// program could read as more than itself.
///
/// # Errors
/// The first rule that the line breaks.
pub fn line_hygiene(line: &str, sanitize: Sanitize) -> Result<(), Unfit> {
    let unfit = |why: String, next: &str| Err(Unfit { why, next: next.to_owned() });
    if line.is_empty() {
        return unfit("the line is empty".to_owned(), "send the command's text");
    }
    if line.len() > COMMAND_BYTES {
        return unfit(format!("the line is longer than {COMMAND_BYTES} bytes"), "shorten it");
    }
    if let Some(c) = line.chars().find(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
        let why = match c {
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => "the line end",
            _ => "the control character",
        };
        let why = format!("the line holds {why} U+{:04X}", u32::from(c));
        return unfit(why, "send one line without its end: it is ended for you");
    }
    if sanitize.injection && line.contains(SHELL) {
        return unfit("the line holds a character that a shell would read".to_owned(), "remove it");
    }
    if sanitize.psql_meta && line.contains('\\') {
        return unfit("the line holds a backslash".to_owned(), "remove it: backslash commands are not taken");
    }
    Ok(())
}

/// What a session tool declares. Its commands are there even when the session itself had faults.
pub(crate) struct Declared {
    pub(crate) spec: Option<SessionSpec>,
    pub(crate) commands: Vec<(CommandSpec, Args)>,
}

/// The parts of `[tool]` that a session is checked against.
pub(crate) struct Tool<'t> {
    pub(crate) binary: &'t str,
    pub(crate) allow_interpreter: bool,
    pub(crate) timeout_seconds: u64,
}

/// Reads the table.
pub(crate) fn read(table: Table<'_>, tool: &Tool<'_>, types: &Types) -> Declared {
    table.refuse(&[
        ("sentinel_command", "set ready_pattern alone: the whole last line is matched"),
        ("child_detection", "remove it: a session ends when its whole process tree is gone"),
    ]);
    let startup = table.required_string("startup_command", "name the program: startup_command = \"/usr/bin/psql -X\"");
    let startup_argv = startup.and_then(|line| startup_argv(&table, &line, tool));
    let ready = ready(&table);
    let startup_timeout = table.bounded("startup_timeout_seconds", tool.timeout_seconds, 1..=DAY);
    let session_timeout = table.bounded("session_timeout_seconds", 1800, 1..=DAY);
    let idle_timeout = idle_timeout(&table, session_timeout);
    let own_timeout = table.has("interaction_timeout_seconds");
    let interaction_timeout = table.bounded("interaction_timeout_seconds", tool.timeout_seconds, 1..=DAY);
    let max_interactions = table.bounded("max_interactions", 100, 1..=10_000);
    let interaction = table.table("interaction").map(|table| read_interaction(table, own_timeout)).unwrap_or_default();
    let commands = match table.table("commands") {
        Some(commands) => read_commands(&commands, types),
        None => {
            if !table.has("commands") {
                table.missing("commands", "declare at least one: [session.commands.query]");
            }
            Vec::new()
        }
    };
    table.finish();
    let spec = startup_argv.zip(ready).map(|(startup_argv, ready)| SessionSpec {
        startup_argv,
        ready,
        startup_timeout_ms: startup_timeout * 1000,
        idle_timeout_ms: idle_timeout * 1000,
        session_timeout_ms: session_timeout * 1000,
        interaction_timeout_ms: interaction.wait_ms.unwrap_or(interaction_timeout * 1000),
        max_interactions: u32::try_from(max_interactions).unwrap_or(100),
        output_max_bytes: interaction.output_max_bytes,
        sanitize: interaction.sanitize,
    });
    Declared { spec, commands }
}

/// The idle deadline. The default gives way to a short session; a declared one that could never pass is a fault.
fn idle_timeout(table: &Table<'_>, session_timeout: u64) -> u64 {
    if !table.has("idle_timeout_seconds") {
        return session_timeout.min(300);
    }
    let idle = table.bounded("idle_timeout_seconds", 300, 1..=DAY);
    if idle > session_timeout {
        let what = format!("`{}` is longer than the whole session may live", table.name_of("idle_timeout_seconds"));
        let hint = "shorten it, or lengthen session_timeout_seconds";
        table.reader.value(&table.key_span("idle_timeout_seconds"), what, hint);
    }
    idle
}

fn startup_argv(table: &Table<'_>, line: &Spot<String>, tool: &Tool<'_>) -> Option<Vec<String>> {
    let name = table.name_of("startup_command");
    let fault = |what: String, hint: &str| {
        table.reader.value(&line.span, format!("`{name}`: {what}"), hint);
        None
    };
    if line.value.len() > COMMAND_BYTES {
        return fault(format!("it is longer than {COMMAND_BYTES} bytes"), "shorten it");
    }
    let argv = match words(&line.value) {
        Ok(argv) => argv,
        Err(error) => {
            return fault(
                error.to_string(),
                "write the program and its arguments, quoted where they hold more than words",
            );
        }
    };
    let Some(program) = argv.first().filter(|program| !program.is_empty()) else {
        return fault("it names no program".to_owned(), "begin with the program's path");
    };
    if let Some(word) = argv.iter().find(|word| word.contains("{_") || is_reference(word)) {
        let what = format!("{word} looks like a placeholder, and no argument ever reaches the startup line");
        return fault(what, "write the text itself");
    }
    check_program(program, tool).map_or(Some(argv), |(what, hint)| fault(what, hint))
}

/// Whether a word is `{name}` as a whole.
fn is_reference(word: &str) -> bool {
    word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).is_some_and(is_name)
}

/// What is wrong with a program as the first element of an argv.
pub(crate) fn check_program(program: &str, tool: &Tool<'_>) -> Option<(String, &'static str)> {
    let base = base_name(program);
    if !tool.binary.is_empty() && base != base_name(tool.binary) {
        let what = format!("it runs {base}, but `tool.binary` names {}", tool.binary);
        return Some((what, "make the two the same"));
    }
    if is_interpreter(base) && !tool.allow_interpreter {
        let what = format!("{base} runs text that it is given");
        return Some((what, "name the program itself, or set tool.allow_interpreter = true"));
    }
    None
}

fn ready(table: &Table<'_>) -> Option<Pattern> {
    if !table.has("ready_pattern") {
        table.missing("ready_pattern", "say what the prompt looks like: ready_pattern = \"report> \"");
        return None;
    }
    let ready = types::pattern(table, "ready_pattern")?;
    if ready.value.matches("") {
        let what = format!(
            "`{}` matches an empty line, so any pause would look like a prompt",
            table.name_of("ready_pattern")
        );
        table.reader.value(&ready.span, what, "make at least one character of the prompt certain");
    }
    Some(ready.value)
}

/// The `[session.interaction]` table.
struct Interaction {
    sanitize: Sanitize,
    output_max_bytes: usize,
    /// The longest wait for a prompt, where the format's own key sets it.
    wait_ms: Option<u64>,
}

impl Default for Interaction {
    fn default() -> Self {
        Self { sanitize: Sanitize::default(), output_max_bytes: INTERACTION_BYTES, wait_ms: None }
    }
}

fn read_interaction(table: Table<'_>, own_timeout: bool) -> Interaction {
    let reader = table.reader;
    let mut interaction = Interaction::default();
    for item in table.strings("input_sanitize").into_iter().flat_map(|list| list.value) {
        match item.value.as_str() {
            "injection" => interaction.sanitize.injection = true,
            "psql_meta" => interaction.sanitize.psql_meta = true,
            "msf_meta" => {
                let what = "`msf_meta` in [session.interaction]";
                reader.unsupported(&item.span, what, "built now: injection, psql_meta");
            }
            other => reader.value(
                &item.span,
                format!("`{}` knows no `{other}`", table.name_of("input_sanitize")),
                "use \"injection\" or \"psql_meta\"",
            ),
        }
    }
    let most = INTERACTION_BYTES as u64;
    interaction.output_max_bytes =
        usize::try_from(table.bounded("output_max_bytes", most, 1..=most)).unwrap_or(INTERACTION_BYTES);
    if table.has("output_wait_ms") {
        // The format's own meaning: the effective wait is five times the number.
        interaction.wait_ms = Some(table.bounded("output_wait_ms", 2000, 1..=DAY * 200) * 5);
        if own_timeout {
            let what = "both `session.interaction.output_wait_ms` and `session.interaction_timeout_seconds` are set";
            reader.value(&table.key_span("output_wait_ms"), what, "keep interaction_timeout_seconds");
        }
    }
    table.finish();
    interaction
}

fn read_commands(commands: &Table<'_>, types: &Types) -> Vec<(CommandSpec, Args)> {
    let mut list = Vec::new();
    for (name, table) in commands.tables() {
        let reader = table.reader;
        if !is_name(&name) {
            let hint = "begin with a letter, then letters, digits, `_` and `-`, at most 64";
            reader.value(&table.span, format!("`{name}` cannot name a command"), hint);
        }
        table.refuse(&[("extract_target", "remove it: sessions have no network to aim at")]);
        if !table.has("pattern") {
            table.missing("pattern", "say what a whole line must match: pattern = \"(top|sum) [0-9]{1,3}\"");
        }
        let pattern = types::pattern(&table, "pattern");
        let description = table.string("description").map(|spot| spot.value).unwrap_or_default();
        let risk_tier = risk_tier(&table);
        let human_approval = table.boolean("human_approval").is_some_and(|spot| spot.value);
        let finalizes = table.boolean("finalize").is_some_and(|spot| spot.value);
        let args = types::read_args(&table, types);
        if args.contains_key("command") {
            let what =
                format!("`{}` declares the argument command, which every session command has already", table.path());
            reader.value(&table.span, what, "rename it");
        }
        table.finish();
        if let Some(pattern) = pattern {
            let pattern = pattern.value;
            let sound = types::sound(args.clone());
            let spec = CommandSpec { name, pattern, description, risk_tier, human_approval, finalizes, args: sound };
            list.push((spec, args));
        }
    }
    if list.is_empty() && commands.tables().is_empty() {
        commands.missing("*", "declare at least one: [session.commands.query]");
    }
    list
}

/// Reads `risk_tier`.
pub(crate) fn risk_tier(table: &Table<'_>) -> Option<RiskTier> {
    let text = table.string("risk_tier")?;
    let tiers = [RiskTier::Info, RiskTier::Low, RiskTier::Medium, RiskTier::High, RiskTier::Critical];
    let tier = tiers.into_iter().find(|tier| tier.word() == text.value);
    if tier.is_none() {
        let what = format!("`{}`: there is no risk tier `{}`", table.name_of("risk_tier"), text.value);
        table.reader.value(&text.span, what, "use info, low, medium, high or critical");
    }
    tier
}
