//! `stockade.toml`: what the operator of a project decides about it.

use super::reader::Reader;
use crate::manifest::{Fault, Source};
use std::ffi::OsStr;
use stockade_protocol::limits;
use toml::de::DeTable;

/// Name of the file that makes a folder a project.
pub const CONFIGURATION_FILE: &str = "stockade.toml";

/// The parts of `stockade.toml`, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// The project's name; the folder's name where none is given.
    pub name: String,
    /// The sandbox tier in force.
    pub tier: Tier,
    /// The network mode in force.
    pub network: Network,
    /// How long an approval waits for an answer, milliseconds.
    pub approval_wait_ms: u64,
    /// How long a given approval may be used, milliseconds.
    pub receipt_life_ms: u64,
    /// The agent that is run when none is named.
    pub default_agent: Option<String>,
}

/// The sandbox tiers that this version has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Linux namespaces, seccomp, Landlock.
    Native,
}

impl Tier {
    /// The word used everywhere.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Native => "native",
        }
    }
}

/// The network modes that this version has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// No route at all.
    None,
}

impl Network {
    /// The word used everywhere.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
        }
    }
}

/// Where stockade is deployed, from `STOCKADE_ENV`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Environment {
    /// Anything else, or nothing.
    Development,
    /// Production: nothing may be opened wider than the default.
    Production,
}

impl Environment {
    /// Reads the variable's value. `production` counts in any case and with any blanks; a value that is not text
    /// counts as production, since what it was meant to say is not known.
    #[must_use]
    pub fn parse(value: Option<&OsStr>) -> Self {
        let Some(value) = value else { return Self::Development };
        let Some(text) = value.to_str() else { return Self::Production };
        let word: String = text.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect();
        if word == "production" { Self::Production } else { Self::Development }
    }

    /// The word policies see as `context.environment`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Development => "development",
            Self::Production => "production",
        }
    }
}

/// Tiers that are known by name and not in this version.
const LATER_TIERS: [&str; 9] =
    ["landlock", "docker", "gvisor", "firecracker", "qemu", "none", "tier1", "tier2", "tier3"];

impl Configuration {
    /// Reads the file's text. `folder` is the name a project has where the file gives none.
    pub(crate) fn parse(source: &Source, folder: &str) -> Result<Self, Vec<Fault>> {
        let (mut reader, root) = Reader::parse(source);
        let root = root.get_ref();
        reader.only(root, "", &["project", "sandbox", "approvals", "agents"]);
        let mut configuration = Self {
            name: folder.to_owned(),
            tier: Tier::Native,
            network: Network::None,
            approval_wait_ms: limits::APPROVAL_WAIT_MS,
            receipt_life_ms: limits::RECEIPT_LIFE_MS,
            default_agent: None,
        };
        if let Some(project) = reader.table(root, "project") {
            reader.only(project, " in [project]", &["name"]);
            if let Some((name, span)) = reader.text(project, "name") {
                if name.is_empty() || name.len() > NAME_BYTES || name.chars().any(char::is_control) {
                    reader.fault(&span, "`name` is empty, too long or holds control characters", NAME_HINT);
                }
                configuration.name = name.to_owned();
            }
        }
        if let Some(sandbox) = reader.table(root, "sandbox") {
            read_sandbox(&mut reader, sandbox);
        }
        if let Some(approvals) = reader.table(root, "approvals") {
            reader.only(approvals, " in [approvals]", &["wait_seconds", "receipt_seconds"]);
            if let Some(seconds) = reader.number(approvals, "wait_seconds", 1..=86_400) {
                configuration.approval_wait_ms = seconds * 1000;
            }
            if let Some(seconds) = reader.number(approvals, "receipt_seconds", 1..=3_600) {
                configuration.receipt_life_ms = seconds * 1000;
            }
        }
        if let Some(agents) = reader.table(root, "agents") {
            reader.only(agents, " in [agents]", &["default"]);
            if let Some((name, span)) = reader.text(agents, "default") {
                if !super::agents::is_name(name) {
                    reader.fault(&span, format!("`{name}` cannot be an agent's name"), super::agents::NAME_RULE);
                }
                configuration.default_agent = Some(name.to_owned());
            }
        }
        reader.finish(configuration)
    }
}

/// Longest project name, bytes.
const NAME_BYTES: usize = 64;
const NAME_HINT: &str = "give 1 to 64 bytes of printable text";

fn read_sandbox(reader: &mut Reader<'_>, sandbox: &DeTable<'_>) {
    for key in sandbox.keys().filter(|key| LATER_TIERS.contains(&key.get_ref().as_ref())) {
        let what = format!("[sandbox.{}] is unavailable in this version", key.get_ref());
        reader.unsupported(&key.span(), what, "remove the table");
    }
    let known: Vec<&str> = ["tier", "network_mode"].into_iter().chain(LATER_TIERS).collect();
    reader.only(sandbox, " in [sandbox]", &known);
    if let Some((tier, span)) = reader.text(sandbox, "tier")
        && tier != "native"
    {
        if LATER_TIERS.contains(&tier) {
            let what = format!("the sandbox tier `{tier}` is unavailable in this version");
            reader.unsupported(
                &span,
                what,
                "use tier = \"native\"; stockade never falls back to another tier by itself",
            );
        } else {
            reader.fault(&span, format!("unknown sandbox tier `{tier}`"), "use tier = \"native\"");
        }
    }
    if let Some((mode, span)) = reader.text(sandbox, "network_mode") {
        match mode {
            "none" => {}
            "bridge" => {
                let what = "the network mode `bridge` is unavailable in this version";
                reader.unsupported(&span, what, "use network_mode = \"none\"");
            }
            "host" => {
                let what =
                    "the network mode `host` is always refused: it would put workers on this machine's own network";
                reader.fault(&span, what, "use network_mode = \"none\"");
            }
            other => reader.fault(&span, format!("unknown network mode `{other}`"), "use network_mode = \"none\""),
        }
    }
}
