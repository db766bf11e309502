//! A callable tool, and the step from an untrusted request to a valid call.

use super::args::{ArgSpec, Unfit};
use super::argv::ArgvTemplate;
use super::files::{FileRequest, FilesystemSpec};
use super::output::OutputSpec;
use super::session::{CommandSpec, SessionSpec, line_hygiene};
use std::collections::BTreeMap;
use stockade_protocol::contract::{Demand, RiskTier, WorkerLimits};
use stockade_protocol::digest::Digest;
use stockade_protocol::limits::{ARGUMENTS, INVOCATION_ID_BYTES, REASON_BYTES};
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::request::ToolCallRequest;

/// What can be called by one name: a one-shot tool, or one command of a session tool.
#[derive(Debug, Clone)]
pub struct Callable {
    /// The name callers use: `wordcount`, or `report.query`.
    pub name: String,
    /// The manifest's name, the part before the dot.
    pub tool: String,
    /// The manifest's version.
    pub version: String,
    /// What it is for.
    pub description: String,
    /// Path of the manifest, relative to the project.
    pub file: String,
    /// Digest of the manifest's bytes and of the project's types.
    pub manifest: Digest,
    /// Effective risk tier: the higher one of tool and command.
    pub risk_tier: RiskTier,
    /// Whether the manifest demands a person, at the tool or at the command.
    pub human_approval: bool,
    /// How it runs.
    pub mode: Mode,
    /// Declared arguments by name, without a session command's line.
    pub args: BTreeMap<String, ArgSpec>,
    /// Declared files.
    pub filesystem: FilesystemSpec,
    /// Declared output.
    pub output: OutputSpec,
    /// Resource bounds, tightened by the manifest.
    pub limits: WorkerLimits,
    /// Longest the call may take once dispatched, milliseconds; for a session command that is one interaction.
    pub timeout_ms: u64,
    /// How policies name it.
    pub cedar: CedarNames,
}

/// How a callable runs.
#[derive(Debug, Clone)]
pub enum Mode {
    /// One worker a call.
    Oneshot(Oneshot),
    /// One line of a live session.
    Session(Box<SessionSpec>, Box<CommandSpec>),
}

/// A one-shot tool's command.
#[derive(Debug, Clone)]
pub struct Oneshot {
    /// The compiled `exec`.
    pub template: ArgvTemplate,
    /// `[command.defaults]`: values for placeholders that the call gives none for.
    pub defaults: BTreeMap<String, String>,
}

/// The names a policy uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CedarNames {
    /// Entity type of the resource, e.g. `Tool` or `Tool::Wordcount`; the resource's id is the callable's name.
    pub resource_type: String,
    /// Id of the action, e.g. `call`.
    pub action: String,
}

/// A call that its manifest accepts. It says what would happen; nobody has judged it yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidCall {
    /// The callable's name.
    pub tool: String,
    /// Normalized arguments, defaults filled in; a session command's line is among them as `command`.
    pub arguments: BTreeMap<String, String>,
    /// What will be run or typed.
    pub effect: ValidEffect,
    /// The files it needs.
    pub files: FileRequest,
}

/// What a valid call does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValidEffect {
    /// Starts a worker with this argv.
    Oneshot {
        /// Literal argv, never empty.
        argv: Vec<String>,
    },
    /// Types one line.
    Line {
        /// The line, without its end.
        command: String,
        /// Whether it ends the session.
        finalizes: bool,
    },
}

/// Name of the argument that holds a session command's line.
pub const COMMAND_ARGUMENT: &str = "command";

fn invalid(rule: &str, reason: String, next: impl Into<String>) -> Refusal {
    Refusal::new(RefusalCode::Invalid, Authority::Manifest, reason).by_rule(rule).next(next)
}

impl Callable {
    /// Why a person must confirm every call of it, whatever policy says.
    #[must_use]
    pub fn demands(&self) -> Vec<Demand> {
        let manifest = self.human_approval.then_some(Demand::Manifest);
        let tier = (self.risk_tier >= RiskTier::High).then_some(Demand::RiskTier);
        manifest.into_iter().chain(tier).collect()
    }

    /// The session and command, for a session tool.
    #[must_use]
    pub fn session(&self) -> Option<(&SessionSpec, &CommandSpec)> {
        match &self.mode {
            Mode::Session(session, command) => Some((session, command)),
            Mode::Oneshot(_) => None,
        }
    }

    /// `oneshot` or `session`.
    #[must_use]
    pub fn mode_word(&self) -> &'static str {
        match self.mode {
            Mode::Oneshot(_) => "oneshot",
            Mode::Session(..) => "session",
        }
    }

    /// Checks a request against the manifest: every argument known, present if required, of its type; then builds
    /// what would be run, from the checked values only.
    ///
    /// # Errors
    /// A refusal with code `invalid`; its rule is the argument's name.
    pub fn validate(&self, request: &ToolCallRequest) -> Result<ValidCall, Refusal> {
        self.check_envelope(request)?;
        let mut arguments = BTreeMap::new();
        for spec in self.args.values() {
            match request.arguments.get(&spec.name) {
                Some(value) => {
                    let value = spec.check(value).map_err(|unfit| refused(&self.name, &spec.name, &unfit))?;
                    arguments.insert(spec.name.clone(), value);
                }
                None if spec.default.is_some() => {
                    arguments.extend(spec.default.clone().map(|value| (spec.name.clone(), value)));
                }
                None if spec.required => return Err(self.missing(&spec.name, spec.kind.word())),
                None => {}
            }
        }
        let effect = match &self.mode {
            Mode::Oneshot(oneshot) => {
                let argv = oneshot.template.build(&arguments, &oneshot.defaults).map_err(|at| {
                    let reason = format!("element {at} of the command line would be longer than the kernel takes");
                    invalid("command.exec", reason, "send shorter values")
                })?;
                ValidEffect::Oneshot { argv }
            }
            Mode::Session(session, command) => {
                let line = self.check_line(request, session, command)?;
                arguments.insert(COMMAND_ARGUMENT.to_owned(), line.clone());
                ValidEffect::Line { command: line, finalizes: command.finalizes }
            }
        };
        let files = self.filesystem.resolve(&arguments).map_err(|(rule, unfit)| refused(&self.name, &rule, &unfit))?;
        Ok(ValidCall { tool: self.name.clone(), arguments, effect, files })
    }

    /// Bounds and names, before any value is looked at.
    fn check_envelope(&self, request: &ToolCallRequest) -> Result<(), Refusal> {
        if request.tool != self.name {
            let reason = format!("the request names {}, not {}", request.tool, self.name);
            return Err(invalid("tool", reason, "name the tool as `stockade tools list` does"));
        }
        if request.arguments.len() > ARGUMENTS + 1 {
            let reason = format!("the request has more than {ARGUMENTS} arguments");
            return Err(invalid("arguments", reason, "send only declared arguments"));
        }
        if request.invocation_id.as_ref().is_some_and(|id| id.is_empty() || id.len() > INVOCATION_ID_BYTES) {
            let reason = format!("the invocation id is empty or longer than {INVOCATION_ID_BYTES} bytes");
            return Err(invalid("invocation_id", reason, "send a short unique id, or none"));
        }
        if request.reason.as_ref().is_some_and(|reason| reason.len() > REASON_BYTES) {
            let reason = format!("the reason is longer than {REASON_BYTES} bytes");
            return Err(invalid("reason", reason, "shorten it"));
        }
        let line = self.session().map(|_| COMMAND_ARGUMENT);
        let known = |name: &str| self.args.contains_key(name) || line == Some(name);
        if let Some(name) = request.arguments.keys().find(|name| !known(name)) {
            let names: Vec<&str> = line.into_iter().chain(self.args.keys().map(String::as_str)).collect();
            let next = if names.is_empty() {
                "send no arguments: the tool takes none".to_owned()
            } else {
                format!("send only {}", names.join(", "))
            };
            let shown: String = name.chars().take(64).collect();
            return Err(invalid(&shown, format!("{} takes no argument named {shown}", self.name), next));
        }
        Ok(())
    }

    fn check_line(
        &self,
        request: &ToolCallRequest,
        session: &SessionSpec,
        command: &CommandSpec,
    ) -> Result<String, Refusal> {
        let Some(line) = request.arguments.get(COMMAND_ARGUMENT) else {
            return Err(self.missing(COMMAND_ARGUMENT, "line"));
        };
        // Hygiene comes first: a class such as `.` or `\s` in a pattern must never be what decides about controls.
        line_hygiene(line, session.sanitize).map_err(|unfit| refused(&self.name, COMMAND_ARGUMENT, &unfit))?;
        if !command.pattern.matches(line) {
            let why = format!("the line does not match the pattern {}", command.pattern.as_str());
            let next = "send a line that matches it from its first to its last character".to_owned();
            return Err(refused(&self.name, COMMAND_ARGUMENT, &Unfit { why, next }));
        }
        Ok(line.clone())
    }

    fn missing(&self, name: &str, kind: &str) -> Refusal {
        invalid(name, format!("{} needs the argument {name}", self.name), format!("send {name}, a {kind}"))
    }
}

fn refused(tool: &str, rule: &str, unfit: &Unfit) -> Refusal {
    invalid(rule, format!("{tool} does not take this {rule}: {}", unfit.why), unfit.next.clone())
}
