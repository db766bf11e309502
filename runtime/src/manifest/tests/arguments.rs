//! Values of arguments: what each type takes, and the argv that the values cannot change the shape of.

use super::support::*;
use crate::manifest::{ArgvTemplate, ValidEffect, hygiene};
use proptest::prelude::*;
use std::collections::BTreeMap;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};

/// The refusal of a triage call with one argument set to a value.
fn triage(name: &str, value: &str) -> Result<Vec<String>, Refusal> {
    let tools = fixtures("accept");
    let mut request = request("triage", &[("category", "infra")]);
    request.arguments.insert(name.to_owned(), value.to_owned());
    match tools.validate(&request)?.1.effect {
        ValidEffect::Oneshot { argv } => Ok(argv),
        ValidEffect::Line { command, .. } => panic!("{command}"),
    }
}

#[test]
fn defaults_fill_what_a_call_leaves_out_and_empty_slots_stay() {
    let argv = triage("note", "two words").unwrap();
    assert_eq!(
        argv,
        [
            "/usr/bin/triage",
            "--category=infra",
            "low",
            "--copies",
            "1",
            "--max",
            "1000",
            "--{raw}",
            "two words",
            "false"
        ]
    );
    let argv = triage("copies", "3").unwrap();
    assert_eq!(argv[8], "", "an optional text that is not given keeps its place");
    assert_eq!(argv.len(), 10);
}

#[test]
fn each_type_refuses_what_is_not_of_it_and_names_the_argument() {
    for (name, value, why) in [
        ("copies", "", "not a whole number"),
        ("copies", "1.0", "not a whole number"),
        ("copies", "1e3", "not a whole number"),
        ("copies", "NaN", "not a whole number"),
        ("copies", "inf", "not a whole number"),
        ("copies", "0x1f", "not a whole number"),
        ("copies", " 1", "not a whole number"),
        ("copies", "1\n", "not a whole number"),
        ("copies", "\u{0663}", "not a whole number"),
        ("copies", "--1", "not a whole number"),
        ("copies", "9223372036854775808", "beyond 64 bits"),
        ("copies", "-9223372036854775809", "beyond 64 bits"),
        ("copies", "10", "out of bounds"),
        ("copies", "0", "out of bounds"),
        ("budget", "-5x", "not a whole number"),
        ("urgent", "True", "neither `true` nor `false`"),
        ("urgent", "1", "neither `true` nor `false`"),
        ("urgent", "", "neither `true` nor `false`"),
        ("category", "Infra", "not one of the allowed values"),
        ("category", "infra ", "not one of the allowed values"),
        ("category", "infra\0", "NUL"),
        ("severity", "medium", "not one of the allowed values"),
        ("attachment", "/etc/passwd", "absolute"),
        ("attachment", "a/../b", "goes up"),
        ("attachment", "..", "goes up"),
        ("attachment", "C:x", "drive letter"),
        ("attachment", "", "empty"),
        ("attachment", "a b", "white space"),
        ("attachment", "-rf", "begins with `-`"),
        ("note", "a\tb", "control character U+0009"),
        ("note", "a\u{85}b", "control character U+0085"),
        ("note", "a\u{2003}b", "white space U+2003"),
        ("note", "a\u{2028}b", "white space U+2028"),
        ("note", "$(id)", "shell would read"),
        ("note", "a'b", "it holds '"),
        ("note", "a\\b", "it holds \\"),
        ("note", "+x", "begins with `-` or `+`"),
        ("nobody", "1", "takes no argument named nobody"),
        ("command", "1", "takes no argument named command"),
    ] {
        let refusal = triage(name, value).unwrap_err();
        assert_eq!((refusal.code, refusal.authority), (RefusalCode::Invalid, Authority::Manifest), "{name} {value:?}");
        assert_eq!(refusal.rule.as_deref(), Some(name), "{value:?}");
        assert!(refusal.reason.contains(why), "{name} {value:?}: {}", refusal.reason);
        assert!(!refusal.next.is_empty(), "{name} {value:?} says nothing to do");
    }
    for (name, value) in [
        ("copies", "9"),
        ("copies", "+9"),
        ("copies", "007"),
        ("urgent", "true"),
        ("category", "billing"),
        ("severity", "high"),
        ("attachment", "a/b.txt"),
        ("attachment", "..a/b.."),
        ("note", "plain words, with a dash - inside"),
        ("offset", "-9223372036854775808"),
    ] {
        assert!(triage(name, value).is_ok(), "{name} {value:?}");
    }
}

#[test]
fn numbers_are_normalized_and_clamped_where_the_manifest_says_so() {
    let tools = fixtures("accept");
    let value = |name: &str, value: &str| {
        let mut request = request("triage", &[("category", "infra")]);
        request.arguments.insert(name.to_owned(), value.to_owned());
        tools.validate(&request).unwrap().1.arguments[name].clone()
    };
    assert_eq!(value("copies", "+007"), "7");
    assert_eq!(value("budget", "500"), "100");
    assert_eq!(value("budget", "-500"), "0");
    assert_eq!(value("offset", "-0"), "0");
}

#[test]
fn a_missing_argument_an_unknown_tool_and_too_much_are_refused_by_name() {
    let tools = fixtures("accept");
    let refusal = tools.validate(&request("count", &[("mode", "words")])).unwrap_err();
    assert_eq!((refusal.rule.as_deref(), refusal.next.as_str()), (Some("path"), "send path, a string"));
    let refusal = tools.validate(&request("cuont", &[])).unwrap_err();
    assert_eq!((refusal.code, refusal.rule.as_deref()), (RefusalCode::Invalid, Some("tool")));
    assert_eq!(refusal.next, "did you mean count?");
    let mut many = request("count", &[("mode", "words"), ("path", "a")]);
    assert!(tools.validate(&many).is_ok());
    many.invocation_id = Some("x".repeat(129));
    assert_eq!(tools.validate(&many).unwrap_err().rule.as_deref(), Some("invocation_id"));
    many.invocation_id = None;
    many.reason = Some("x".repeat(4097));
    assert_eq!(tools.validate(&many).unwrap_err().rule.as_deref(), Some("reason"));
    many.reason = None;
    many.arguments.extend((0..70).map(|at| (format!("x{at}"), String::new())));
    assert_eq!(tools.validate(&many).unwrap_err().rule.as_deref(), Some("arguments"));
    let long = "a".repeat(64 * 1024 + 1);
    assert!(triage("note", &long).unwrap_err().reason.contains("longer than"));
    assert!(triage("note", &long[1..]).is_ok());
}

/// The order of the rules decides which of several faults is named.
#[test]
fn the_hygiene_rules_apply_in_their_order() {
    let why = |value: &str| hygiene(value, false, false).unwrap_err().why;
    assert!(why("-;\u{1}' ").contains("control"));
    assert!(why("-;' ").contains("it holds '"));
    assert!(why("-; ").contains("white space"));
    assert!(why("-;").contains("begins with"));
    assert!(why("a;").contains("shell"));
    assert!(why("").contains("empty"));
    assert_eq!(hygiene("a.b-c", false, false), Ok("a.b-c"));
    assert_eq!(hygiene("-a b", true, true), Ok("-a b"));
}

#[test]
fn a_grant_takes_an_argument_as_one_whole_path_or_refuses_it() {
    let tools = fixtures("accept");
    let ask = |table: &str| tools.validate(&request("describe.ask", &[("command", "ls"), ("table", table)]));
    assert_eq!(ask("data/a.csv").unwrap().1.files.read, ["data/a.csv", "describe.py"]);
    for (table, why) in [
        ("./a.csv", "the part `.`"),
        ("a//b", "the part ``"),
        ("a/", "the part ``"),
        ("a,b", "holds ','"),
        ("a:b", "drive letter"),
        ("describe.py", "granted twice"),
    ] {
        let refusal = ask(table).unwrap_err();
        assert_eq!((refusal.code, refusal.rule.as_deref()), (RefusalCode::Invalid, Some("table")), "{table}");
        assert!(refusal.reason.contains(why), "{table}: {}", refusal.reason);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn values_never_change_how_many_elements_an_argv_has(
        mode in any::<String>(), path in any::<String>(), template in proptest::collection::vec("[a-z{}]{0,6}", 1..6),
    ) {
        let arguments: BTreeMap<String, String> = [("mode".into(), mode), ("path".into(), path)].into();
        let slots: Vec<_> = template.iter().filter_map(|element| crate::manifest::argv::pieces(element).ok()).collect();
        let template = ArgvTemplate::new(slots, true, |name| arguments.contains_key(name));
        let empty = BTreeMap::new();
        let built = template.build(&arguments, &empty).unwrap();
        prop_assert_eq!(built.len(), template.build(&empty, &empty).unwrap().len());
        prop_assert_eq!(built.len(), template.len());
    }

    #[test]
    fn an_accepted_value_is_one_element_and_nothing_but_itself(path in "\\PC{0,12}|[-a-z.;$ ]{0,8}") {
        let tools = fixtures_cached();
        if let Ok((_, call)) = tools.validate(&request("count", &[("mode", "words"), ("path", &path)])) {
            prop_assert_eq!(call.effect, ValidEffect::Oneshot { argv: argv(&["wc", "--words", "--", &path]) });
            prop_assert!(!path.starts_with('-') && !path.contains(|c: char| c.is_whitespace() || c.is_control()));
        }
    }

    #[test]
    fn validating_arbitrary_arguments_ends_in_a_call_or_a_refusal(
        arguments in proptest::collection::btree_map("category|severity|copies|budget|note|attachment|\\PC{0,4}", any::<String>(), 0..6),
    ) {
        let tools = fixtures_cached();
        let mut request = request("triage", &[]);
        request.arguments = arguments;
        match tools.validate(&request) {
            Ok((callable, call)) => {
                let declared = call.arguments.keys().all(|name| callable.args.contains_key(name));
                prop_assert!(declared);
                let ValidEffect::Oneshot { argv } = call.effect else { panic!("not a one-shot") };
                prop_assert_eq!(argv.len(), 10);
                prop_assert!(argv.iter().all(|element| !element.contains('\0')));
            }
            Err(refusal) => prop_assert_eq!(refusal.code, RefusalCode::Invalid),
        }
    }
}
