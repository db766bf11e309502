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

fn permitted(policies: &str, question: &Question) -> bool {
    self::policies(policies).judge(question).permitted
}

#[test]
fn without_policies_nothing_is_permitted_and_the_project_still_opens() {
    for files in
        [&[][..], &[("empty.cedar", "// nothing yet\n")], &[("readme.md", "permit(principal, action, resource);")]]
    {
        let policies = load(&project(files)).unwrap();
        assert!(policies.is_empty());
        let refusal = policies.judge(&question()).refusal.unwrap();
        assert!(refusal.reason.ends_with("the project has no policy"), "{refusal}");
    }
}

#[test]
fn what_the_refusal_says_to_write_would_permit_it() {
    for question in [
        question(),
        Question { principal: Principal::agent("x\" , action, resource); permit(principal"), ..question() },
        Question { principal: Principal::person("a\\\" b ' é"), ..question() },
        Question { subject: Subject::Call { tool: "count".into() }, ..question() },
        take_over(),
    ] {
        let next = policies("").judge(&question).refusal.unwrap().next;
        let statement = &next[next.find("permit(").unwrap()..];
        let policies = policies(statement);
        assert_eq!(policies.len(), 1);
        assert!(policies.judge(&question).permitted, "{statement}");
        let other = Question { principal: Principal::agent("x"), ..question };
        assert!(!policies.judge(&other).permitted);
    }
}

fn take_over() -> Question {
    Question {
        principal: Principal::person("ada"),
        origin: Origin::Workbench,
        subject: Subject::TakeOver { session: SessionId::from_bits([7; 16]), tool: "report.query".into() },
        arguments: Default::default(),
        command: None,
        ..question()
    }
}

#[test]
fn taking_over_is_asked_apart_from_calling_and_only_a_person_can() {
    let rule = r#"permit(principal is Person, action == Action::"take_over", resource in Tool::"report");"#;
    assert!(permitted(rule, &take_over()));
    assert!(!permitted(rule, &question()));
    assert!(!permitted(PERMIT, &take_over()));
    let everything = "permit(principal, action, resource);";
    assert!(permitted(everything, &take_over()));
    let agent = policies(everything).judge(&Question { principal: Principal::agent("nightly"), ..take_over() });
    assert!(!agent.permitted && agent.refusal.unwrap().reason.contains("gave no verdict"));
    let other = r#"permit(principal, action == Action::"take_over", resource in Tool::"other");"#;
    assert!(!permitted(other, &take_over()));
}

#[test]
fn a_forbid_outweighs_every_permit_and_names_itself() {
    let forbid = r#"
@id("no-sums")
@reason("sums are for the day shift")
forbid(principal, action in Action::"call", resource) when { context has command && context.command like "sum*" };
"#;
    let policies = policies(&format!("{PERMIT}\n{forbid}"));
    let judgement = policies.judge(&question());
    assert_eq!((judgement.permitted, judgement.policies), (false, vec!["a.cedar:3".to_owned()]));
    let refusal = judgement.refusal.unwrap();
    assert_eq!(refusal.rule.as_deref(), Some("a.cedar:3"));
    assert_eq!(refusal.reason, "the policy a.cedar:3 forbids it: sums are for the day shift");
    assert!(policies.judge(&Question { command: Some("top price".into()), ..question() }).permitted);
}

/// Cedar by itself leaves a policy that fails out of the decision: a failing forbid would not be there.
#[test]
fn a_policy_that_fails_denies_even_beside_a_permit() {
    let overflow = "forbid(principal, action, resource) when { context.interaction_count + 9223372036854775807 < 0 };";
    let policies = policies(&format!("{PERMIT}\n{overflow}"));
    let first = policies.judge(&question());
    assert!(first.permitted, "zero does not overflow: {first:?}");
    let later = policies.judge(&Question { interaction_count: 1, ..question() });
    assert_eq!((later.permitted, later.policies), (false, vec!["a.cedar:2".to_owned()]));
    let refusal = later.refusal.unwrap();
    assert_eq!((refusal.code, refusal.rule.as_deref()), (RefusalCode::Denied, Some("a.cedar:2")));
    assert!(
        refusal.reason.starts_with("the policy engine gave no verdict: the policy a.cedar:2 could not be evaluated")
    );
    // The same for a permit that fails, beside one that does not.
    let policies = self::policies(&format!(
        "{PERMIT}\npermit(principal, action, resource) when {{ context.interaction_count * 9223372036854775807 > 0 }};"
    ));
    assert!(policies.judge(&Question { interaction_count: 1, ..question() }).permitted);
    assert!(!policies.judge(&Question { interaction_count: 2, ..question() }).permitted);
}

#[test]
fn an_engine_that_gives_no_verdict_denies_and_is_named_for_it() {
    let policies = policies(PERMIT);
    assert!(policies.judge(&question()).permitted);
    let crashed = policies.judge_by(&question(), |_| panic!("inside the engine"));
    let unasked = policies.judge(&Question { subject: Subject::Call { tool: "report".into() }, ..question() });
    for (judgement, why) in [(crashed, "it panicked"), (unasked, "policy knows no tool named report")] {
        assert_eq!((judgement.permitted, judgement.needs_person, judgement.policies), (false, false, Vec::new()));
        let refusal = judgement.refusal.unwrap();
        assert_eq!((refusal.code, refusal.authority), (RefusalCode::Denied, Authority::Policy));
        assert_eq!(refusal.rule.as_deref(), Some("no-verdict"));
        assert_eq!(refusal.reason, format!("the policy engine gave no verdict: {why}"));
    }
    assert!(policies.judge(&question()).permitted, "the next question is answered");
}

#[test]
fn an_attribute_that_may_be_absent_must_be_asked_for_first() {
    let bare = faults("forbid(principal, action, resource) when { context.arguments.mode == \"words\" };");
    assert!(bare[0].contains("a.cedar:1:") && bare[0].contains("mode"), "{bare:?}");
    let guarded = "permit(principal, action, resource) when { context.arguments has mode && context.arguments.mode == \"words\" };";
    let with = Question { arguments: [("mode".to_owned(), "words".to_owned())].into(), ..question() };
    assert!(permitted(guarded, &with) && !permitted(guarded, &question()));
}

#[test]
fn every_fact_of_the_question_can_be_decided_on() {
    let all = Question {
        principal: Principal::agent("nightly"),
        origin: Origin::Mcp,
        subject: Subject::Call { tool: "triage".into() },
        arguments: [("copies".to_owned(), "3".to_owned()), ("note".to_owned(), "hello".to_owned())].into(),
        command: None,
        risk_tier: RiskTier::High,
        human_approval: true,
        interaction_count: 4,
        session_finalizes: true,
        environment: environment(Some(OsStr::new(" Production "))),
        ..question()
    };
    let profile = Digest::of("profile");
    let sales = Digest::of("sales");
    for condition in [
        r#"context.tool == "triage""#,
        r#"!(context has command)"#,
        r#"context.arguments has note && context.arguments.note like "hel*""#,
        r#"context.numbers has copies && context.numbers.copies < 5"#,
        r#"context.risk_tier == "high" && context.risk_level >= 3"#,
        r#"context.human_approval"#,
        r#"context.execution_transport == "native_pty""#,
        &format!(r#"context.sandbox == {{ tier: "native", profile: "{profile}", network: "none" }}"#),
        r#"["sales.csv", "more.csv"].containsAll(context.files.read) && context.files.create.isEmpty()"#,
        &format!(r#"context.files.digests.contains("{sales}") && context.files.read_bytes == 100"#),
        r#"context.files.max_file_bytes <= 65536"#,
        r#"context.session_finalizes && context.session_state == "new" && context.interaction_count == 4"#,
        r#"context.environment == "production""#,
        r#"context.caller == { kind: "agent", name: "nightly", origin: "mcp" }"#,
        r#"principal.name == "nightly""#,
        r#"resource.name == "triage" && resource.tool == "triage" && resource.version == "1.0.0""#,
    ] {
        let permit = format!("permit(principal, action, resource is Tool) when {{ {condition} }};");
        assert!(permitted(&permit, &all), "{condition}");
        let opposite = format!("permit(principal, action, resource is Tool) unless {{ {condition} }};");
        assert!(!permitted(&opposite, &all), "{condition} did not decide");
    }
}

#[test]
fn a_manifests_own_cedar_names_are_the_ones_to_write() {
    let count = Question { subject: Subject::Call { tool: "count".into() }, command: None, ..question() };
    assert!(permitted(
        r#"permit(principal, action == Action::"run_count", resource == Tool::Count::"count");"#,
        &count
    ));
    assert!(permitted(r#"permit(principal, action in Action::"call", resource is Tool::Count);"#, &count));
    assert!(!permitted(r#"permit(principal, action == Action::"call", resource);"#, &count));
    for wrong in [r#"Action::"run_cuont""#, r#"Tool::Action::"run_count""#] {
        let faults = faults(&format!("permit(principal, action == {wrong}, resource);"));
        assert!(!faults.is_empty(), "{wrong}");
    }
    let clash = project(&[]);
    let manifest = fs::read_to_string(clash.path().join("tools/count.clad.toml")).unwrap();
    let manifest = manifest.replace("\"count\"", "\"other\"").replace("Tool::Count", "Count");
    fs::write(clash.path().join("tools/other.clad.toml"), manifest).unwrap();
    let faults = load(&clash).unwrap_err();
    assert!(faults[0].what.contains("give no valid schema"), "{faults:?}");
}

#[test]
fn a_permit_can_ask_for_a_person_and_only_that() {
    let asking = PERMIT.replace("permit(", "@approval(\"required\")\npermit(");
    assert!(policies(&asking).judge(&question()).needs_person);
    let both = policies(&format!("{PERMIT}\n{asking}")).judge(&question());
    assert!(both.permitted && both.needs_person, "one of two permits asks: it is asked");
    let elsewhere = format!("{PERMIT}\n{}", asking.replace("nightly", "other"));
    assert!(!policies(&elsewhere).judge(&question()).needs_person, "a permit that did not decide asks nothing");
    for wrong in ["@approval(\"none\")", "@approval", "@aproval(\"required\")"] {
        assert!(!faults(&format!("{wrong}\n{PERMIT}")).is_empty(), "{wrong}");
    }
    let forbid = "@approval(\"required\")\nforbid(principal, action, resource);";
    assert!(faults(forbid)[0].contains("nobody can approve against it"));
}

#[test]
fn all_faults_of_all_files_are_named_with_their_places() {
    let project = project(&[
        (
            "a.cedar",
            "permit(principal, action, resource);\n\npermit(principal, actoin, resource);\npermit(principal action);\n",
        ),
        (
            "b.cedar",
            "@id(\"x\") permit(principal, action, resource);\n@id(\"x\")\nforbid(principal, action, resource);\n\
             permit(principal,\n  action,\n  resource) when { context.tol == \"a\" };\n\
             forbid(principal == ?principal, action, resource);\n\
             permit(principal, action, resource) when { 1 == 2 };\n\
             forbid(principal == User::\"a\", action, resource);\npermit(principal, action, resource)",
        ),
        ("c.json", "[]"),
        ("run/d.cedar", "forbid(principal, action, resource);"),
    ]);
    fs::write(project.path().join("policies/e.cedar"), b"// caf\xe9").unwrap();
    std::os::unix::fs::symlink("nowhere", project.path().join("policies/f.cedar")).unwrap();
    fs::create_dir(project.path().join("policies/g.cedar")).unwrap();
    let faults = load(&project).unwrap_err();
    let places: Vec<String> =
        faults.iter().map(|fault| format!("{}:{} {:?}", fault.file, fault.line, fault.kind)).collect();
    assert_eq!(
        places,
        [
            "policies/a.cedar:3 Syntax",
            "policies/a.cedar:4 Syntax",
            "policies/b.cedar:2 Value",
            "policies/b.cedar:6 Value",
            "policies/b.cedar:7 Syntax",
            "policies/b.cedar:8 Value",
            "policies/b.cedar:9 Value",
            "policies/b.cedar:9 Value",
            "policies/b.cedar:10 Syntax",
            "policies/c.json:0 Unsupported",
            "policies/e.cedar:1 Syntax",
            "policies/f.cedar:0 Unreadable",
            "policies/g.cedar:0 Unreadable",
            "policies/run:0 Unsupported",
        ],
        "{faults:#?}"
    );
    assert_eq!(faults[2].what, "the id \"x\" is taken already, by b.cedar:1");
}

#[test]
fn an_unreadable_directory_is_not_a_missing_one() {
    let project = project(&[]);
    std::os::unix::fs::symlink("nowhere", project.path().join("policies")).unwrap();
    assert_eq!(load(&project).unwrap_err()[0].kind, FaultKind::Unreadable);
    fs::remove_file(project.path().join("policies")).unwrap();
    fs::write(project.path().join("policies"), "permit(principal, action, resource);").unwrap();
    assert_eq!(load(&project).unwrap_err()[0].kind, FaultKind::Unreadable);
    fs::remove_file(project.path().join("policies")).unwrap();
    assert!(load(&project).unwrap().is_empty());
}

#[test]
fn semicolons_and_braces_in_strings_and_comments_split_nothing() {
    let text = "// permit(principal, action, resource);\n".to_owned()
        + concat!(
            r#"permit(principal, action, resource) when { context.tool != "a;b\" }; (" && "}" != ";" }; // one; two"#,
            "\n",
            r#"permit(principal, action, resource is Session); forbid(principal, action, resource is Session);"#,
        );
    let policies = policies(&text);
    assert_eq!(policies.len(), 3);
    let judgement = policies.judge(&question());
    assert_eq!(judgement.policies, ["a.cedar:2"]);
    assert_eq!(policies.judge(&take_over()).policies, ["a.cedar:3:49"], "the second policy of a line has its column");
}

#[test]
fn a_policy_that_would_exhaust_the_stack_is_refused() {
    for deep in [
        format!("permit(principal, action, resource) when {{ {}true{} }};", "(".repeat(5000), ")".repeat(5000)),
        format!("permit(principal, action, resource) when {{ {} true }};", "true && ".repeat(5000)),
        format!("permit(principal, action, resource) when {{ {}", "[".repeat(50_000)),
    ] {
        assert!(!faults(&deep).is_empty());
    }
    // What parses but is too deep for the stack it is judged on denies; it does not end the program.
    let chain = |terms: usize| {
        let terms = "context.human_approval == false && ".repeat(terms);
        policies(&format!("permit(principal, action, resource) when {{ {terms} true }};")).judge(&question())
    };
    assert!(chain(20).permitted);
    let deep = chain(200);
    assert!(deep.permitted || deep.refusal.unwrap().reason.contains("could not be evaluated"));
    let nested = format!("permit(principal, action, resource) when {{ {}true{} }};", "(".repeat(28), ")".repeat(28));
    assert!(permitted(&nested, &question()));
    let choices = format!(
        "permit(principal, action, resource) when {{ {} true }};",
        "if context.human_approval then false else ".repeat(20)
    );
    assert!(permitted(&choices, &question()));
}

#[test]
fn the_digest_changes_with_names_and_bytes_and_with_nothing_else() {
    let digest = |files: &[(&str, &str)]| load(&project(files)).unwrap().digest();
    let one = digest(&[("a.cedar", PERMIT), ("b.cedar", "")]);
    assert_eq!(one, digest(&[("b.cedar", ""), ("a.cedar", PERMIT)]));
    assert_eq!(one, digest(&[("a.cedar", PERMIT), ("b.cedar", ""), ("notes.md", "x")]));
    let others = [
        digest(&[("a.cedar", PERMIT)]),
        digest(&[("a.cedar", &format!("{PERMIT}\n")), ("b.cedar", "")]),
        digest(&[("a.cedar", ""), ("b.cedar", PERMIT)]),
        digest(&[("c.cedar", PERMIT), ("b.cedar", "")]),
        digest(&[]),
    ];
    for (at, other) in others.iter().enumerate() {
        assert!(one != *other && !others[at + 1..].contains(other), "{at}");
    }
}

#[test]
fn a_tool_or_number_that_policy_does_not_know_is_denied() {
    let policies = policies("permit(principal, action, resource);");
    assert!(policies.judge(&question()).permitted);
    let unknown = Question { subject: Subject::Call { tool: "report".into() }, ..question() };
    let undeclared = Question { arguments: [("other".to_owned(), String::new())].into(), ..question() };
    let mut huge = question();
    huge.files.max_file_bytes = u64::MAX;
    for question in [unknown, undeclared, huge] {
        let judgement = policies.judge(&question);
        assert!(!judgement.permitted);
        assert_eq!(judgement.refusal.unwrap().code, RefusalCode::Denied);
    }
}

#[test]
fn every_spelling_of_production_counts() {
    for text in ["production", "PRODUCTION", " Production\t", "pro duction"] {
        assert_eq!(environment(Some(OsStr::new(text))), "production", "{text:?}");
    }
    assert_eq!(environment(Some(OsStr::from_bytes(b"\xff"))), "production");
    assert_eq!(environment(None), "development");
    assert_eq!(environment(Some(OsStr::new(" Staging "))), "staging");
}

#[test]
fn the_context_is_documented_as_it_is() {
    let docs = fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/policy.md")).unwrap();
    assert!(docs.contains(&context_reference()), "docs/policy.md should hold this table:\n{}", context_reference());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Names and values may hold anything: they stay what they are, and never become another principal or rule.
    #[test]
    fn hostile_names_and_values_stay_what_they_are(name in any::<String>(), value in any::<String>(), line in any::<String>()) {
        let policies = policies_cached();
        let asked = Question {
            principal: Principal::agent(name.clone()),
            arguments: [("note".to_owned(), value)].into(),
            command: Some(line),
            ..question()
        };
        prop_assert_eq!(policies.judge(&asked).permitted, name == "nightly");
    }

    #[test]
    fn adding_a_forbid_never_widens(
        permits in proptest::collection::vec(0_usize..RULES.len(), 0..4),
        forbid in 0_usize..RULES.len(),
        count in 0_u32..3,
        agent in any::<bool>(),
        production in any::<bool>(),
    ) {
        let text: String = permits.iter().map(|rule| format!("permit{};\n", RULES[*rule])).collect();
        let asked = Question {
            principal: if agent { Principal::agent("nightly") } else { Principal::person("ada") },
            interaction_count: count,
            environment: if production { "production".into() } else { "development".into() },
            ..question()
        };
        let before = policies(&text).judge(&asked);
        let after = policies(&format!("{text}forbid{};\n", RULES[forbid])).judge(&asked);
        prop_assert!(before.permitted || !after.permitted);
        prop_assert!(!after.permitted || before.needs_person == after.needs_person);
    }

    #[test]
    fn any_text_loads_or_is_refused(text in "\\PC{0,24}|[a-z(){}\\[\\];,\"/@ \\\\]{0,24}") {
        let project = project(&[("a.cedar", &text), ("b.cedar", PERMIT)]);
        if let Ok(policies) = load(&project) {
            prop_assert!(policies.judge(&question()).permitted);
        }
    }
}

/// Scopes and conditions for the property above; the last one fails to evaluate for some questions.
const RULES: &[&str] = &[
    "(principal, action, resource)",
    "(principal is Agent, action, resource)",
    "(principal == Person::\"ada\", action == Action::\"call\", resource)",
    "(principal, action, resource in Tool::\"report\")",
    "(principal, action, resource) when { context.environment == \"production\" }",
    "(principal, action, resource) unless { context.interaction_count > 1 }",
    "(principal, action, resource) when { context.interaction_count * 9223372036854775807 > 5 }",
];

fn policies_cached() -> &'static Policies {
    static POLICIES: std::sync::LazyLock<Policies> = std::sync::LazyLock::new(|| policies(PERMIT));
    &POLICIES
}
