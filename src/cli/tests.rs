//! What the command line takes and what it refuses before anything is looked at.

use super::*;
use clap::CommandFactory as _;
use stockade_protocol::ids::RunId;

fn parses(line: &str) -> bool {
    Cli::try_parse_from(line.split(' ')).is_ok()
}

#[test]
fn the_command_line_is_well_formed() {
    Cli::command().debug_assert();
}

#[test]
fn every_documented_command_is_taken() {
    let digest = "0".repeat(64);
    for line in [
        "stockade",
        "stockade some/folder",
        "stockade demo",
        "stockade demo dir --headless --json --approve-all --wait 5",
        "stockade init",
        "stockade init dir",
        "stockade run prompt",
        "stockade run prompt --agent a --headless --json -C dir",
        "stockade call tool",
        "stockade call tool --arg k=v --arg l=m=n --check --invocation-id i --reason r --json",
        "stockade call tool --raw",
        "stockade tools list --json",
        "stockade tools check",
        "stockade tools schema tool",
        "stockade doctor --json",
        "stockade approvals list --json",
        "stockade approvals show c1",
        &format!("stockade approvals approve c1 --digest {digest}"),
        "stockade approvals deny c1 --reason r",
        "stockade sessions list",
        "stockade sessions close s1",
        "stockade runs list --json",
        "stockade runs show r1",
        "stockade journal show",
        "stockade journal tail -n 5 --follow",
        "stockade journal verify",
        "stockade journal verify path --json",
        "stockade replay",
        "stockade replay r1 --journal path",
        "stockade mcp -C dir",
        &format!("stockade trust dir --digest {digest}"),
        "stockade completions bash",
    ] {
        assert!(parses(line), "{line}");
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for line in [
        "stockade call",
        "stockade call tool --arg novalue",
        "stockade call tool --arg =v",
        "stockade call tool --raw --json",
        "stockade call tool --approved",
        "stockade run prompt --approve-all",
        "stockade call tool --approve-all",
        "stockade demo --approve-all",
        "stockade demo --json",
        "stockade demo --headless --wait 0",
        "stockade approvals approve",
        "stockade approvals approve c1 --digest abc",
        "stockade trust --digest ABC",
        "stockade completions nosuchshell",
        "stockade doctor extra",
    ] {
        assert!(!parses(line), "{line}");
    }
}

#[test]
fn an_id_may_be_cut_as_long_as_it_names_one() {
    let ids = [RunId::from_bits([0xaa; 16]), RunId::from_bits([0xab; 16])];
    assert_eq!(one_of(&ids, "rab", "run", "").ok(), Some(ids[1]));
    assert_eq!(one_of(&ids, "ra", "run", "").map_err(|failure| failure.exit), Err(Exit::Usage));
    assert_eq!(one_of(&ids, "rb", "run", "").map_err(|failure| failure.exit), Err(Exit::Denied));
    assert_eq!(one_of(&ids, &ids[0].to_string(), "run", "").ok(), Some(ids[0]));
}
