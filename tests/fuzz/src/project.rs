//! What people write: manifests, policies, the configuration.

use std::fs;
use std::path::Path;
use stockade_protocol::contract::{FileContract, RiskTier};
use stockade_protocol::digest::Digest;
use stockade_protocol::ids::Principal;
use stockade_protocol::request::{Origin, ToolCallRequest};
use stockade_protocol::text::is_hidden;
use stockade_runtime::manifest::{Faults, ToolSet};
use stockade_runtime::policy::{Policies, Question, Subject};
use stockade_runtime::project::Project;
use tempfile::TempDir;

const TOOL: &str = include_str!("../../../fixtures/demo/tools/orders.clad.toml");

fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    for (name, bytes) in files {
        let path = folder.path().join(name);
        let parent = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(parent).and_then(|()| fs::write(&path, bytes)).expect("a temporary file can be written");
    }
    folder
}

/// Whatever a message quotes, it can be drawn.
fn drawable(faults: &impl std::fmt::Display) {
    let shown = faults.to_string();
    assert!(!shown.trim().is_empty(), "a fault says nothing");
    assert!(shown.chars().all(|c| c == '\n' || !is_hidden(c)), "a fault draws what it quotes: {shown:?}");
}

/// A file of `tools/`. It loads or has faults; what loads lists itself, and answers any call with a value.
pub(crate) fn manifest(bytes: &[u8]) {
    let folder = folder(&[("tools/x.clad.toml", bytes)]);
    let tools = match ToolSet::load(folder.path()) {
        Ok(tools) => tools,
        Err(faults) => return drawable(&faults),
    };
    let again = ToolSet::load(folder.path()).expect("what loads once loads twice");
    assert_eq!(tools.digest(), again.digest(), "one file has one digest");
    for info in tools.infos() {
        assert!(tools.get(&info.name).is_some(), "a listed tool cannot be called");
        let schema: serde_json::Value = serde_json::from_str(&info.input_schema).expect("a schema is JSON");
        let value = |text: &str| {
            let names = schema.get("properties").and_then(|names| names.as_object());
            names.into_iter().flatten().map(|(name, _)| (name.clone(), text.to_owned())).collect()
        };
        for arguments in [Default::default(), value("1"), value("true"), value("a/b"), value("\u{1b}[2J\n")] {
            let request = ToolCallRequest { tool: info.name.clone(), arguments, invocation_id: None, reason: None };
            if let Ok((_, call)) = tools.validate(&request) {
                assert!(call.arguments.values().all(|value| !value.contains('\u{1b}')), "a control got through");
            }
        }
    }
}

/// A file of `policies/`. It loads or has faults, and never permits what it has no `permit` for.
pub(crate) fn policy(bytes: &[u8]) {
    let folder = folder(&[("tools/orders.clad.toml", TOOL.as_bytes()), ("policies/x.cedar", bytes)]);
    let tools = ToolSet::load(folder.path()).unwrap_or_else(|faults: Faults| panic!("{faults}"));
    let policies = match Policies::load(folder.path(), &tools) {
        Ok(policies) => policies,
        Err(faults) => return drawable(&faults),
    };
    let judgement = policies.judge(&question());
    let text = String::from_utf8_lossy(bytes);
    assert!(!judgement.permitted || text.contains("permit"), "permitted by a file that permits nothing");
    assert!(judgement.permitted || judgement.refusal.is_some(), "a denial says nothing");
}

/// An agent asks for the one tool there is.
fn question() -> Question {
    Question {
        principal: Principal::agent("fuzz"),
        origin: Origin::Loop,
        subject: Subject::Call { tool: "orders".to_owned() },
        arguments: [("region".to_owned(), "north".to_owned())].into(),
        command: None,
        risk_tier: RiskTier::Info,
        human_approval: false,
        transport: "native_pipes".to_owned(),
        tier: "native".to_owned(),
        profile: Digest::of(b"profile"),
        network: "none".to_owned(),
        files: FileContract::default(),
        session_finalizes: false,
        session_state: "none".to_owned(),
        interaction_count: 0,
        environment: "development".to_owned(),
    }
}

/// The file `stockade.toml`. It opens or says what is wrong.
pub(crate) fn configuration(bytes: &[u8]) {
    let folder = folder(&[("stockade.toml", bytes)]);
    match Project::open(folder.path()) {
        Ok(project) => project.confirm().expect("an untouched project is what it was"),
        Err(error) => assert!(!error.to_string().is_empty(), "an error says nothing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_beside_the_policies_loads_and_can_be_permitted() {
        let policy = b"permit (principal, action, resource);";
        let folder = folder(&[("tools/orders.clad.toml", TOOL.as_bytes()), ("policies/x.cedar", policy)]);
        let tools = ToolSet::load(folder.path()).unwrap();
        assert_eq!(tools.names().collect::<Vec<_>>(), ["orders"]);
        assert!(Policies::load(folder.path(), &tools).unwrap().judge(&question()).permitted);
    }
}
