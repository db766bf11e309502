//! Goal: nothing is permitted but by a policy that says so and that was evaluated without error.
//! Method: projects in directories of their own with the fixture manifests; every denial beside a permit of the same.

use super::*;
use crate::manifest::{Fault, FaultKind};
use proptest::prelude::*;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use stockade_protocol::contract::{FileContract, InputFile, RiskTier};
use stockade_protocol::ids::{Principal, SessionId};
use stockade_protocol::request::Origin;
use tempfile::TempDir;

/// A project with the accepted fixture manifests and these policy files.
fn project(policies: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new().unwrap();
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures/manifests/accept");
    fs::create_dir(directory.path().join("tools")).unwrap();
    for entry in fs::read_dir(fixtures).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let place = if name == "toolclad.toml" { name } else { format!("tools/{name}") };
        fs::copy(entry.path(), directory.path().join(place)).unwrap();
    }
    for (name, text) in policies {
        let path = directory.path().join("policies").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

fn load(project: &TempDir) -> Result<Policies, Vec<Fault>> {
    let tools = ToolSet::load(project.path()).unwrap();
    Policies::load(project.path(), &tools).map_err(Faults::into_vec)
}

fn policies(text: &str) -> Policies {
    load(&project(&[("a.cedar", text)])).unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn faults(text: &str) -> Vec<String> {
    load(&project(&[("a.cedar", text)])).err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

fn question() -> Question {
    Question {
        principal: Principal::agent("nightly"),
        origin: Origin::Loop,
        subject: Subject::Call { tool: "report.query".into() },
        arguments: [("command".to_owned(), "sum price".to_owned())].into(),
        command: Some("sum price".into()),
        risk_tier: RiskTier::Low,
        human_approval: false,
        transport: "native_pty".into(),
        tier: "native".into(),
        profile: Digest::of("profile"),
        network: "none".into(),
        files: FileContract {
            inputs: vec![InputFile { path: "sales.csv".into(), bytes: 100, sha256: Digest::of("sales") }],
            output: None,
            max_file_bytes: 65_536,
        },
        session_finalizes: false,
        session_state: "new".into(),
        interaction_count: 0,
        environment: "development".into(),
    }
}

const PERMIT: &str = r#"permit(principal == Agent::"nightly", action == Action::"call", resource in Tool::"report");"#;

#[test]
fn a_policy_permits_what_it_names_and_nothing_else() {
    let policies = policies(&format!("// who may ask\n\n{PERMIT}\n"));
    let judgement = policies.judge(&question());
    assert!(judgement.permitted, "{judgement:?}");
    assert_eq!(
        (judgement.policies, judgement.needs_person, judgement.refusal),
        (vec!["a.cedar:3".into()], false, None)
    );
    for other in [
        Question { principal: Principal::agent("other"), ..question() },
        Question { principal: Principal::person("nightly"), ..question() },
        Question { subject: Subject::Call { tool: "count".into() }, ..question() },
    ] {
        let judgement = policies.judge(&other);
        assert!(!judgement.permitted && judgement.policies.is_empty());
        let refusal = judgement.refusal.unwrap();
        assert_eq!((refusal.code, refusal.authority), (RefusalCode::Denied, Authority::Policy));
        assert!(refusal.next.contains("permit(principal == "), "{}", refusal.next);
    }
}
