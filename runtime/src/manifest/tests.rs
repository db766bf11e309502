//! Goal: a manifest loads whole or not at all, and a request becomes a call only through what the manifest declares.
//! Method: manifests as files in a directory of their own; every refusal beside the same thing allowed.

mod arguments;
mod commands;
mod outputs;
mod support;

use super::*;
use proptest::prelude::*;
use stockade_protocol::contract::{Demand, RiskTier};
use stockade_protocol::text::SafeText;
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

/// Every faulty manifest says at its end which faults it has: `#= LINE:COLUMN what`.
#[test]
fn every_fault_of_a_manifest_is_named_with_its_place_and_no_other() {
    let mut seen = 0;
    for entry in std::fs::read_dir(fixture_directory("refuse")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let expected: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("#= ")).collect();
        let found: Vec<String> = one(&text)
            .err()
            .unwrap_or_default()
            .iter()
            .map(|fault| format!("{}:{} {}", fault.line, fault.column, SafeText::line(&fault.what)))
            .collect();
        assert_eq!(found, expected, "{}", path.display());
        assert!(!expected.is_empty(), "{} expects nothing", path.display());
        seen += 1;
    }
    assert!(seen > 25, "{seen}");
}

#[test]
fn what_a_later_version_builds_is_told_apart_from_what_nobody_knows() {
    let kinds = |name: &str| -> Vec<FaultKind> {
        let text = std::fs::read_to_string(fixture_directory("refuse").join(name)).unwrap();
        one(&text).unwrap_err().iter().map(|fault| fault.kind).collect()
    };
    for name in [
        "later-backends",
        "later-command",
        "later-fetch",
        "later-output",
        "later-placeholders",
        "later-reading",
        "later-scan",
        "later-source",
        "later-types",
    ] {
        let kinds = kinds(&format!("{name}.clad.toml"));
        assert!(kinds.iter().all(|kind| *kind == FaultKind::Unsupported), "{name}: {kinds:?}");
    }
    assert!(kinds("unknown-keys.clad.toml").iter().all(|kind| *kind == FaultKind::UnknownKey));
    let text = std::fs::read_to_string(fixture_directory("refuse").join("later-source.clad.toml")).unwrap();
    assert_eq!(
        faults(&text),
        ["tools/a.clad.toml:7:2: the table [source] is not supported by this version \
          (hint: built now: [command] and [session])"]
    );
}

/// Types of the project are read in full also where the tool that uses them needs what is not built.
#[test]
fn a_tool_of_project_types_lacks_only_what_is_not_built() {
    let types = std::fs::read_to_string(fixture_directory("accept").join("toolclad.toml")).unwrap();
    let tool = |command: &str| {
        format!(
            "[tool]\nname = \"probe\"\nversion = \"1.0.0\"\nbinary = \"nikto\"\ndescription = \"d\"\nrisk_tier = \
             \"medium\"\nhuman_approval = true\n[args.target]\ntype = \"identifier\"\nrequired = true\n[args.port]\ntype = \
             \"ports\"\ndefault = \"80\"\n[args.level]\ntype = \"severity\"\ndefault = \"low\"\n{command}"
        )
    };
    let load = |command: &str| {
        let project = project(&[("toolclad.toml", &types), ("tools/probe.clad.toml", &tool(command))]);
        ToolSet::load(project.path()).map_err(Faults::into_vec)
    };
    let template = "[command]\ntemplate = \"nikto -h {target}:{port} {_level_flag}\"\n[command.conditionals.level_flag]\n\
                    when = \"level != 'low'\"\ntemplate = \"-x {level}\"\n";
    let faults = load(template).unwrap_err();
    assert!(faults.iter().all(|fault| fault.kind == FaultKind::Unsupported), "{faults:?}");
    assert_eq!(faults.len(), 2, "{faults:?}");
    let tools = load("[command]\nexec = [\"nikto\", \"-h\", \"{target}:{port}\", \"{level}\"]\n").unwrap();
    let call = |target, port| tools.validate(&request("probe", &[("target", target), ("port", port)]));
    let effect = call("host_1", "80,8000-8010").unwrap().1.effect;
    assert_eq!(effect, ValidEffect::Oneshot { argv: argv(&["nikto", "-h", "host_1:80,8000-8010", "low"]) });
    assert!(call("host_1", "80-").is_err() && call("host 1", "80").is_err() && call("", "80").is_err());
}

#[test]
fn what_laxer_rules_let_pass_is_refused_by_a_rule_and_not_only_for_what_is_not_built() {
    for (name, rule) in [
        ("lax-fetch", "curl reaches the network"),
        ("lax-registry", "whois reaches the network"),
        ("lax-scan", "nmap reaches the network"),
        ("lax-scan", "{_output_file} would be a path of the host"),
    ] {
        let text = std::fs::read_to_string(fixture_directory("refuse").join(format!("{name}.clad.toml"))).unwrap();
        let faults = one(&text).unwrap_err();
        let named = faults.iter().any(|fault| fault.kind == FaultKind::Value && fault.to_string().contains(rule));
        assert!(named, "{name}: {faults:?}");
    }
}

#[test]
fn the_faults_of_all_files_are_reported_together_and_none_loads() {
    let good = std::fs::read_to_string(fixture_directory("accept").join("count.clad.toml")).unwrap();
    let project = project(&[
        ("toolclad.toml", "[types.a]\nbase = \"b\"\n[types.b]\nbase = \"a\"\n[types.string]\nbase = \"enum\"\n"),
        ("tools/good.clad.toml", &good),
        ("tools/one.clad.toml", "[tool]\nname = 1\n"),
        ("tools/two.clad.toml", "not toml"),
        ("tools/three.clad.toml", &good),
        ("tools/notes.md", "ignored"),
    ]);
    let bytes = [b"# caf".as_slice(), &[0xe9], b"\n"].concat();
    std::fs::write(project.path().join("tools/latin.clad.toml"), bytes).unwrap();
    std::os::unix::fs::symlink("nowhere", project.path().join("tools/dangling.clad.toml")).unwrap();
    std::fs::create_dir(project.path().join("tools/directory.clad.toml")).unwrap();
    std::fs::write(project.path().join("tools/large.clad.toml"), vec![b'#'; 300 * 1024]).unwrap();
    let faults = ToolSet::load(project.path()).unwrap_err();
    let places: Vec<String> = faults
        .as_slice()
        .iter()
        .map(|fault| format!("{}:{}:{} {:?}", fault.file, fault.line, fault.column, fault.kind))
        .collect();
    assert_eq!(
        places,
        [
            "toolclad.toml:2:8 Value",
            "toolclad.toml:4:8 Value",
            "toolclad.toml:5:8 Value",
            "tools/dangling.clad.toml:0:0 Unreadable",
            "tools/directory.clad.toml:0:0 Unreadable",
            "tools/large.clad.toml:0:0 Unreadable",
            "tools/latin.clad.toml:1:6 Syntax",
            "tools/one.clad.toml:1:1 Missing",
            "tools/one.clad.toml:1:2 Missing",
            "tools/one.clad.toml:1:2 Missing",
            "tools/one.clad.toml:2:8 WrongType",
            "tools/three.clad.toml:3:8 Value",
            "tools/two.clad.toml:1:5 Syntax",
        ]
    );
    assert_eq!(faults.to_string().lines().count(), places.len());
}

#[test]
fn a_project_without_tools_has_none() {
    let empty = project(&[]);
    assert_eq!(ToolSet::load(empty.path()).unwrap().names().count(), 0);
    std::os::unix::fs::symlink("nowhere", empty.path().join("tools")).unwrap();
    assert!(ToolSet::load(empty.path()).is_err(), "a dangling directory is not a missing one");
}

#[test]
fn a_fault_cannot_draw_what_the_file_smuggles_in() {
    let shown = faults("[tool]\nname = \"a\"\nversion = \"1\"\ndescription = \"d\"\n\"a\\u001b[2Jb\" = 1\n[http]\n");
    assert!(shown.iter().any(|fault| fault.contains("`a\\u{001B}[2Jb`")), "{shown:?}");
    assert!(shown.iter().all(|fault| !fault.contains('\u{1b}')));
}

#[test]
fn a_manifests_digest_changes_with_its_bytes_and_with_the_projects_types() {
    let manifest = std::fs::read_to_string(fixture_directory("accept").join("count.clad.toml")).unwrap();
    let digests = |manifest: &str, types: Option<&str>| {
        let mut files = vec![("tools/a.clad.toml", manifest)];
        files.extend(types.map(|types| ("toolclad.toml", types)));
        let project = project(&files);
        let tools = ToolSet::load(project.path()).unwrap();
        (tools.get("count").unwrap().manifest, tools.digest())
    };
    let first = digests(&manifest, None);
    assert_eq!(first, digests(&manifest, None));
    let changed = digests(&format!("{manifest}# a remark\n"), None);
    let typed = digests(&manifest, Some("[types.a]\nbase = \"string\"\n"));
    let retyped = digests(&manifest, Some("[types.a]\nbase = \"path\"\n"));
    let all = [first, changed, typed, retyped];
    for (at, one) in all.iter().enumerate() {
        for other in &all[at + 1..] {
            assert!(one.0 != other.0 && one.1 != other.1);
        }
    }
}

#[test]
fn lists_show_names_tiers_and_arguments() {
    let infos = fixtures("accept").infos();
    let names: Vec<&str> = infos.iter().map(|info| info.name.as_str()).collect();
    assert_eq!(names, ["count", "describe.ask", "report.drop", "report.query", "report.save", "triage"]);
    let info = |name: &str| infos.iter().find(|info| info.name == name).unwrap();
    assert_eq!((info("report.drop").risk_tier.as_str(), info("report.drop").mode.as_str()), ("high", "session"));
    assert_eq!((info("report.save").human_approval, info("count").human_approval), (true, false));
    let schema: serde_json::Value = serde_json::from_str(&info("count").input_schema).unwrap();
    assert_eq!(
        schema,
        serde_json::json!({
            "type": "object",
            "properties": {
                "mode": { "type": "string", "enum": ["chars", "lines", "words"], "description": "What to count" },
                "path": {
                    "type": "string", "minLength": 1, "description": "A plain file name",
                    "pattern": "^(?:^[A-Za-z0-9._-]+$)$",
                },
            },
            "required": ["mode", "path"],
            "additionalProperties": false,
        })
    );
    let ask: serde_json::Value = serde_json::from_str(&info("describe.ask").input_schema).unwrap();
    assert_eq!(ask["required"], serde_json::json!(["command", "table"]));
    assert_eq!(ask["properties"]["depth"], serde_json::json!({ "type": "integer", "default": 2 }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn reading_arbitrary_bytes_ends_in_tools_or_in_faults(text in any::<String>()) {
        let source = Source { file: "tools/a.clad.toml".into(), text };
        let (tools, faults) = ToolSet::assemble(Some(&source), std::slice::from_ref(&source));
        prop_assert!(faults.is_empty() || tools.names().count() == 0);
    }

    /// A manifest with bytes put in, taken out and changed: most stay TOML and break a rule.
    #[test]
    fn reading_a_damaged_manifest_ends_in_tools_or_in_faults(
        which in 0_usize..3,
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), 0_u8..4, "[\\[\\]{}=\"'.\\n a-z0-9_-]{1,4}"), 1..6),
    ) {
        let name = ["count", "report", "triage"][which];
        let mut text = std::fs::read_to_string(fixture_directory("accept").join(format!("{name}.clad.toml"))).unwrap();
        for (place, kind, with) in damage {
            let at = place.index(text.len());
            let end = (at + usize::from(kind)).min(text.len());
            text.replace_range(at..end, &with);
        }
        let source = Source { file: "tools/a.clad.toml".into(), text };
        let (tools, faults) = ToolSet::assemble(None, std::slice::from_ref(&source));
        for fault in &faults {
            prop_assert!(fault.line >= 1 && fault.column >= 1);
            prop_assert!(usize::try_from(fault.line).unwrap() <= source.text.lines().count() + 1);
        }
        prop_assert!(!faults.is_empty() || tools.names().count() > 0);
    }
}
