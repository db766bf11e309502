//! Goal: a manifest loads whole or not at all, and a request becomes a call only through what the manifest declares.
//! Method: manifests as files in a directory of their own; every refusal beside the same thing allowed.

mod support;

use super::*;
use stockade_protocol::contract::{Demand, RiskTier};
use support::*;

#[test]
fn a_oneshot_tool_becomes_an_argv_with_one_element_a_value() {
    let tools = fixtures("accept");
    let call = tools.validate(&request("count", &[("mode", "words"), ("path", "notes.txt")])).unwrap().1;
    assert_eq!(call.effect, ValidEffect::Oneshot { argv: argv(&["wc", "--words", "--", "notes.txt"]) });
    assert_eq!(call.files.read, ["notes.txt"]);
    let count = tools.get("count").unwrap();
    assert_eq!((count.timeout_ms, count.limits.lifetime_ms), (10_000, 10_000));
    assert_eq!(count.cedar, CedarNames { resource_type: "Tool::Count".into(), action: "run_count".into() });
}

#[test]
fn a_session_tool_becomes_one_callable_a_command() {
    let tools = fixtures("accept");
    let save = tools.get("report.save").unwrap();
    let (session, command) = save.session().unwrap();
    assert_eq!(session.startup_argv, ["/usr/bin/report", "--table", "sales.csv", "--title", "All sales"]);
    assert!(command.finalizes && save.human_approval);
    assert_eq!(save.demands(), [Demand::Manifest]);
    let drop = tools.get("report.drop").unwrap();
    assert_eq!((drop.risk_tier, drop.demands()), (RiskTier::High, vec![Demand::RiskTier]));
    let call = tools.validate(&request("report.query", &[("command", "sum price 3")])).unwrap().1;
    assert_eq!(call.effect, ValidEffect::Line { command: "sum price 3".into(), finalizes: false });
    assert_eq!((call.files.read, call.files.create), (vec!["sales.csv".into()], vec!["summary.txt".to_owned()]));
}
