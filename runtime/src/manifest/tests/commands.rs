//! Session commands: lines, patterns and startup words.

use super::support::*;
use crate::manifest::{Pattern, PatternError, Sanitize, ValidEffect, WordError, line_hygiene, words};
use proptest::prelude::*;
use stockade_protocol::contract::RiskTier;
use stockade_protocol::limits::{COMMAND_BYTES, PATTERN_BYTES};
use stockade_protocol::refusal::{Authority, RefusalCode};

/// What a command of the fixture sessions says to a line.
fn say(tool: &str, line: &str) -> Result<String, String> {
    let extra: &[(&str, &str)] = if tool.starts_with("describe") { &[("table", "a.csv")] } else { &[] };
    let arguments: Vec<_> = extra.iter().copied().chain([("command", line)]).collect();
    match fixtures_cached().validate(&request(tool, &arguments)) {
        Ok((_, call)) => match call.effect {
            ValidEffect::Line { command, .. } => Ok(command),
            ValidEffect::Oneshot { argv } => panic!("{argv:?}"),
        },
        Err(refusal) => {
            assert_eq!((refusal.code, refusal.authority), (RefusalCode::Invalid, Authority::Manifest));
            assert_eq!(refusal.rule.as_deref(), Some("command"));
            Err(refusal.reason)
        }
    }
}

#[test]
fn a_line_must_match_as_a_whole() {
    assert_eq!(say("report.save", "save"), Ok("save".into()));
    for line in ["save\n", "save\nrm", "x save", "save ", " save", "savesave", "", "save\r"] {
        assert!(say("report.save", line).is_err(), "{line:?}");
    }
}

#[test]
fn every_alternative_of_a_pattern_must_match_as_a_whole() {
    for line in ["save", "ls"] {
        assert_eq!(say("describe.ask", line), Ok(line.into()));
    }
    for line in ["save; rm x", "save ls", "rm; ls", "xls", "savels"] {
        assert!(say("describe.ask", line).is_err(), "{line:?}");
    }
}

#[test]
fn characters_that_end_a_line_or_drive_a_terminal_are_refused_before_matching() {
    let any = Pattern::new("(?s).*").unwrap();
    let none = Sanitize::default();
    assert_eq!(line_hygiene("caf\u{e9} \u{1f642} $(x) \\", none), Ok(()));
    let bad = (0..0x20_u32).chain(0x7f..0xa0).chain([0x2028, 0x2029]);
    for c in bad.filter_map(char::from_u32) {
        let line = format!("a{c}b");
        assert!(any.matches(&line), "the pattern itself takes {c:?}");
        let why = line_hygiene(&line, none).unwrap_err().why;
        assert!(why.contains(&format!("U+{:04X}", u32::from(c))), "{why}");
    }
    assert!(say("report.query", "sum \u{1b}[2J").unwrap_err().contains("control character U+001B"));
    assert!(say("report.query", "sum a\u{2028}").unwrap_err().contains("line end U+2028"));
}

#[test]
fn a_line_is_bounded_and_extra_rules_apply_where_they_are_asked_for() {
    let none = Sanitize::default();
    let long = "a".repeat(COMMAND_BYTES);
    assert_eq!(line_hygiene(&long, none), Ok(()));
    assert!(line_hygiene(&format!("{long}a"), none).unwrap_err().why.contains("longer than 65536 bytes"));
    assert!(line_hygiene("", none).unwrap_err().why.contains("empty"));
    let shell = Sanitize { injection: true, ..none };
    let psql = Sanitize { psql_meta: true, ..none };
    for (line, rules) in [("a;b", shell), ("a$b", shell), ("\\! ls", psql), ("select 1 \\gexec", psql)] {
        assert!(line_hygiene(line, rules).is_err(), "{line}");
        assert_eq!(line_hygiene(line, none), Ok(()));
    }
    assert!(say("report.query", "sum price; top").unwrap_err().contains("a shell would read"));
}

#[test]
fn the_line_is_required_and_only_declared_arguments_go_with_it() {
    let tools = fixtures_cached();
    let refusal = tools.validate(&request("report.query", &[])).unwrap_err();
    assert_eq!(refusal.rule.as_deref(), Some("command"));
    let refusal = tools.validate(&request("report.query", &[("command", "sum a"), ("title", "x")])).unwrap_err();
    assert_eq!((refusal.rule.as_deref(), refusal.next.as_str()), (Some("title"), "send only command"));
    let call =
        tools.validate(&request("describe.ask", &[("command", "ls"), ("table", "a"), ("depth", "5")])).unwrap().1;
    let arguments: Vec<(&str, &str)> =
        call.arguments.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(arguments, [("command", "ls"), ("depth", "5"), ("table", "a")]);
}

#[test]
fn the_effective_tier_is_the_higher_one_of_tool_and_command() {
    let tools = fixtures_cached();
    let tier = |name: &str| tools.get(name).unwrap().risk_tier;
    assert_eq!(tier("describe.ask"), RiskTier::Medium, "a command cannot lower its tool");
    assert_eq!((tier("report.query"), tier("report.drop")), (RiskTier::Low, RiskTier::High));
}

#[test]
fn a_session_is_read_with_its_deadlines_and_bounds() {
    let tools = fixtures_cached();
    let (session, _) = tools.get("report.query").unwrap().session().unwrap();
    assert_eq!(
        (
            session.startup_timeout_ms,
            session.idle_timeout_ms,
            session.session_timeout_ms,
            session.interaction_timeout_ms
        ),
        (5_000, 120_000, 600_000, 20_000)
    );
    assert_eq!((session.max_interactions, session.output_max_bytes), (20, 262_144));
    let callable = tools.get("report.query").unwrap();
    assert_eq!((callable.limits.processes, callable.limits.cpu_seconds), (8, 60));
    assert_eq!((callable.limits.file_bytes, callable.limits.lifetime_ms), (65_537, 605_000));
    assert!(session.ready.matches("report> ") && !session.ready.matches("report> x") && !session.ready.matches(""));
    let (session, _) = tools.get("describe.ask").unwrap().session().unwrap();
    assert_eq!(session.startup_argv, ["/usr/bin/python3", "describe.py", "a \"b", "c d", ""].map(str::to_owned));
    assert_eq!(session.interaction_timeout_ms, 7_000);
    assert_eq!((session.idle_timeout_ms, session.max_interactions), (300_000, 100));
}

#[test]
fn the_formats_own_wait_is_five_times_its_number() {
    let manifest = "[tool]\nname = \"s\"\nversion = \"1\"\ndescription = \"d\"\nmode = \"session\"\n\
        [session]\nstartup_command = \"psql\"\nready_pattern = \"> \"\nsession_timeout_seconds = 60\n\
        [session.interaction]\noutput_wait_ms = 2000\n[session.commands.q]\npattern = \"x\"\n";
    let tools = one(manifest).unwrap();
    let (session, _) = tools.get("s.q").unwrap().session().unwrap();
    assert_eq!((session.interaction_timeout_ms, session.idle_timeout_ms), (10_000, 60_000));
    let both = manifest.replace("ready_pattern", "interaction_timeout_seconds = 3\nready_pattern");
    assert!(faults(&both)[0].contains("both `session.interaction.output_wait_ms`"));
}

#[test]
fn patterns_that_would_cost_too_much_are_refused_at_once() {
    let nested = format!("{}a{}", "(".repeat(200), ")".repeat(200));
    let classes = "[".repeat(500);
    let long = "a".repeat(1_000_000);
    for hostile in [
        "(a{1000}){1000}",
        "((a{100}){100}){100}",
        r"\pL{1000}",
        r"(\pL{50}){50}",
        "(?i)(é|ß){5000}",
        &nested,
        &classes,
        &long,
    ] {
        // No clock: the bound on compiled size is what keeps the answer quick.
        assert!(Pattern::new(hostile).is_err(), "{hostile:.40}");
    }
    assert!(matches!(Pattern::new(&"a".repeat(PATTERN_BYTES + 1)), Err(PatternError::Long(_))));
    assert!(Pattern::new(&"a".repeat(1000)).is_ok());
    assert!(Pattern::new("(a{10}){10}").is_ok());
}

#[test]
fn flags_that_move_anchors_are_refused_and_others_are_not() {
    for (pattern, flag) in
        [("(?m)^save$", 'm'), ("a(?-m:b)", 'm'), ("(?x) a # b", 'x'), ("(?iR)a$", 'R'), ("((?sm:a))", 'm')]
    {
        assert_eq!(Pattern::new(pattern).unwrap_err(), PatternError::Flag(flag), "{pattern}");
    }
    let pattern = Pattern::new("(?i)save").unwrap();
    assert!(pattern.matches("SAVE") && !pattern.matches("SAVE\n"));
    assert!(!Pattern::new("(?s)a.?").unwrap().matches("a\n\n"));
}

#[test]
fn short_classes_mean_ascii_unless_they_take_away() {
    let matches = |pattern: &str, text: &str| Pattern::new(pattern).unwrap().matches(text);
    assert!(matches(r"\d{1,5}(-\d{1,5})?", "80-443") && !matches(r"\d", "\u{0663}"));
    assert!(matches(r"[\w.]+", "a_9.b") && !matches(r"\w", "\u{e9}"));
    assert!(matches(r"a\sb", "a b") && !matches(r"a\sb", "a\u{2003}b"));
    for pattern in [r"[^\d]", r"\D", r"[^x[\d]]", r"[\pN--\d]", r"[\S&&[^\d]]"] {
        assert!(!matches(pattern, "\u{0663}"), "{pattern} took what it meant to leave out");
    }
    assert!(matches(r"[^\d]", "x") && matches(r"\D", "x"));
}

/// Ten times the text takes about ten times as long; a backtracking engine would take forever on these.
#[test]
fn patterns_that_make_other_engines_explode_are_answered() {
    // No clock: an engine that backtracks would not come back from any of these.
    for pattern in ["(a*)*b", "(a|aa)+b", "(.*)(.*)(.*)(.*)x", "(?:a?){20}(?:a){20}b"] {
        let pattern = Pattern::new(pattern).unwrap();
        assert!(!pattern.matches(&"a".repeat(1_000_000)), "{}", pattern.as_str());
    }
    assert!(Pattern::new("(a*)*b").unwrap().matches(&format!("{}b", "a".repeat(1_000_000))));
}

#[test]
fn a_startup_line_is_split_as_a_shell_would_and_never_expanded() {
    let split = |line: &str| words(line).map(|words| words.join("|"));
    assert_eq!(split(r#"psql -X "a b" 'c d' e\ f """#), Ok("psql|-X|a b|c d|e f|".into()));
    assert_eq!(split(r#"a"b"'c'd "x\"y\\z\w\$""#), Ok(r#"abcd|x"y\z\w$"#.into()));
    assert_eq!(split("  a\t b  "), Ok("a|b".into()));
    assert_eq!(split("'$HOME;|' a#b x~"), Ok("$HOME;||a#b|x~".into()));
    for (line, error) in [
        ("a 'b", WordError::Quote("single")),
        ("a \"b", WordError::Quote("double")),
        ("a \"b\\", WordError::Quote("double")),
        ("a\\", WordError::Backslash),
        ("a; b", WordError::Shell(';')),
        ("a $HOME", WordError::Shell('$')),
        ("a \"$HOME\"", WordError::Shell('$')),
        ("a `id`", WordError::Shell('`')),
        ("a *", WordError::Shell('*')),
        ("a > b", WordError::Shell('>')),
        ("a # b", WordError::Shell('#')),
        ("~/a", WordError::Shell('~')),
        ("a\nb", WordError::Control(10)),
    ] {
        assert_eq!(words(line), Err(error), "{line:?}");
    }
}

proptest! {
    #[test]
    fn words_come_back_from_their_quoted_form(list in proptest::collection::vec("[^\\p{Cc}]{0,8}", 0..6)) {
        let line: Vec<String> = list.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
        prop_assert_eq!(words(&line.join(" ")), Ok(list));
    }

    #[test]
    fn any_text_splits_or_is_refused(line in any::<String>()) {
        if let Ok(words) = words(&line) {
            prop_assert!(words.iter().all(|word| !word.contains(|c: char| c.is_control() && c != '\t')));
        }
    }

    #[test]
    fn any_pattern_compiles_or_is_refused(pattern in "\\PC{0,16}|[(){}\\[\\]|*+?.^$\\\\a-d0-9:,&~-]{0,16}", text in any::<String>()) {
        if let Ok(pattern) = Pattern::new(&pattern) {
            prop_assert_eq!(pattern.matches(&text), pattern.matches(&text));
        }
    }

    /// These patterns have no way to take a line end, so a text with one more is never matched with the text.
    #[test]
    fn what_matches_does_not_match_with_a_line_end_added(pattern in "[(){}|*+?.^$a-d0-9,-]{0,12}", text in "[a-d]{0,6}") {
        if let Ok(pattern) = Pattern::new(&pattern) {
            for longer in [format!("{text}\n"), format!("\n{text}"), format!("{text}\nrm"), format!("x\n{text}")] {
                prop_assert!(!pattern.matches(&longer), "{:?} took {longer:?}", pattern.as_str());
            }
        }
    }

    #[test]
    fn an_accepted_line_is_typed_as_it_came(line in "\\PC{0,12}|(sum|top) [a-z]{1,5}( [0-9]{1,3})?") {
        if let Ok(typed) = say("report.query", &line) {
            prop_assert_eq!(&typed, &line);
            prop_assert!(!typed.is_empty() && typed.chars().all(|c| !c.is_control()));
        }
    }
}
