//! What the documents say is there, and nothing in the tree speaks of where it was written.

use crate::source::{files, root, sources, text};
use crate::{none, pattern};
use std::collections::BTreeSet;

/// Every document: its path and its text.
fn documents() -> Vec<(String, String)> {
    let found: Vec<(String, String)> = files()
        .into_iter()
        .filter(|path| path.ends_with(".md"))
        .map(|path| {
            let text = text(&path).unwrap();
            (path, text)
        })
        .collect();
    assert!(found.iter().any(|(path, _)| path == "README.md"), "README.md is missing");
    found
}

/// A document without its blocks of code.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let keep = |line: &str| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if fenced || fence { String::new() } else { line.to_owned() }
    };
    text.lines().map(keep).collect::<Vec<_>>().join("\n")
}

/// The anchor of a heading, as forges make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn anchors(text: &str) -> BTreeSet<String> {
    prose(text).lines().filter_map(|line| line.strip_prefix('#')).map(|l| anchor(l.trim_start_matches('#'))).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let link = pattern(r"\]\(([^)\s]+)\)");
    let (mut findings, mut followed) = (Vec::new(), 0);
    for (path, text) in documents() {
        for hit in link.captures_iter(&prose(&text)) {
            let target = &hit[1];
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            followed += 1;
            let (file, part) = target.split_once('#').unwrap_or((target, ""));
            let here = root().join(&path);
            let there = if file.is_empty() { here.clone() } else { here.parent().unwrap().join(file) };
            if !there.exists() {
                findings.push(format!("{path}: {target} is not there"));
            } else if !part.is_empty() && !anchors(&std::fs::read_to_string(&there).unwrap()).contains(part) {
                findings.push(format!("{path}: {target} has no such heading"));
            }
        }
    }
    none("Links between documents:", &findings);
    assert!(followed >= 5, "only {followed} links were found");
    assert_eq!(anchor(" The life of a call: step 1, `x`"), "the-life-of-a-call-step-1-x");
}

#[test]
fn every_path_that_a_document_names_is_there() {
    let named = pattern(r"`((?:src|ui|runtime|tests|docs|fixtures|themes)/[\w./-]*)`");
    let (mut findings, mut found) = (Vec::new(), 0);
    for (path, text) in documents() {
        for hit in named.captures_iter(&prose(&text)) {
            found += 1;
            if !root().join(&hit[1]).exists() {
                findings.push(format!("{path}: {} is not there", &hit[1]));
            }
        }
    }
    none("Paths in documents:", &findings);
    assert!(found >= 2, "only {found} paths were found");
}

#[test]
fn every_test_that_a_claim_names_exists() {
    let text = text("docs/threat-model.md").unwrap();
    let named = pattern(r"`([a-z0-9]+(?:_[a-z0-9]+){2,})`");
    let declared = pattern(r"\bfn (\w+)\s*\(");
    let tests: BTreeSet<String> = sources()
        .iter()
        .flat_map(|source| declared.captures_iter(&source.code).map(|hit| hit[1].to_owned()).collect::<Vec<_>>())
        .collect();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    let mut claims = 0;
    let mut missing = Vec::new();
    for row in rows {
        for hit in named.captures_iter(row) {
            claims += 1;
            if !tests.contains(&hit[1]) {
                missing.push(hit[1].to_owned());
            }
        }
    }
    none("Tests that docs/threat-model.md names and that do not exist:", &missing);
    assert!(claims >= 120, "only {claims} tests are named");
}

#[test]
fn themes_have_the_same_keys() {
    let themes: Vec<String> =
        files().into_iter().filter(|path| path.starts_with("themes/") && path.ends_with(".toml")).collect();
    assert!(!themes.is_empty());
    let keys = |path: &String| -> BTreeSet<String> {
        let table: toml::Table = text(path).unwrap().parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        table.keys().cloned().collect()
    };
    let first = keys(&themes[0]);
    assert!(first.contains("danger"), "{first:?}");
    for theme in &themes[1..] {
        assert_eq!(keys(theme), first, "{theme} has other keys than {}", themes[0]);
    }
}

/// Every comment and document, and every name of a function: what is said in prose, with where.
fn said() -> Vec<(String, String)> {
    let mut said = documents();
    said.extend(sources().into_iter().map(|source| (source.path, source.comments)));
    let configuration = |path: &String| {
        ["toml", "cedar", "yml", "sh", "py"].iter().any(|ending| path.ends_with(&format!(".{ending}")))
            || matches!(path.as_str(), ".ci/run" | "tests/run" | "tests/kernel/run" | "tests/kernel/guest")
    };
    said.extend(files().into_iter().filter(configuration).filter_map(|path| text(&path).map(|text| (path, text))));
    assert!(said.len() > 80);
    said
}

#[test]
fn no_numbers_of_lists_that_readers_do_not_have() {
    // Function keys look alike and are no such numbers.
    let number = pattern(r"\b(?:[A-EGR]\d\d|F(?:0\d|1[3-9]|[2-9]\d))\b");
    assert!(number.is_match("see D18") && !number.is_match("press F12, or 0xD18"));
    let mut findings = Vec::new();
    for (path, text) in said() {
        findings.extend(number.find_iter(&text).map(|hit| format!("{path}: {}", hit.as_str())));
    }
    let in_name = pattern(r"\bfn [a-gr]\d\d_");
    for source in sources() {
        findings.extend(in_name.find_iter(&source.code).map(|hit| source.at(hit.start())));
    }
    none("Say what a rule is, not its number in a list elsewhere:", &findings);
}

#[test]
fn nothing_names_the_machine_it_was_written_on() {
    let host = pattern(r"\b[a-z0-9-]+\.(?:internal|corp|intranet|lan)\b");
    assert!(host.is_match("https://registry.corp/x"));
    let here = env!("CARGO_MANIFEST_DIR");
    let home = std::env::var("HOME").unwrap_or_default();
    // The places of this clone and of whoever runs the test, where these are long enough to be told from words.
    let places: Vec<&str> = [here, home.as_str()].into_iter().filter(|place| place.matches('/').count() >= 2).collect();
    let (mut findings, mut read) = (Vec::new(), 0);
    for path in files() {
        let Some(text) = text(&path) else { continue };
        read += 1;
        findings.extend(places.iter().filter(|place| text.contains(**place)).map(|place| format!("{path}: {place}")));
        if path != "tests/tidy/documents.rs" && path != "Cargo.lock" {
            findings.extend(host.find_iter(&text).map(|hit| format!("{path}: {}", hit.as_str())));
        }
    }
    none("Paths and names of one machine mean nothing on another:", &findings);
    assert!(read > 80, "only {read} files were read");
}

#[test]
fn nothing_is_left_to_be_done_in_a_comment() {
    let later = pattern(r"\b(?:TODO|FIXME|XXX|HACK)\b");
    assert!(later.is_match("// TODO: x"));
    let mut findings = Vec::new();
    for source in sources() {
        findings.extend(later.find_iter(&source.comments).map(|hit| source.at(hit.start())));
    }
    none("Do it, or say plainly what is not there:", &findings);
}

/// Every event's type with the names in its body, as the vocabulary declares them.
fn events() -> Vec<(String, Vec<String>)> {
    let source = text("runtime/protocol/src/event.rs").unwrap();
    let renamed = pattern(r#"#\[serde\(rename = "([a-z_.]+)"\)\]\s*\w+ \{([^{}]*)\}"#);
    let field = pattern(r"(?m)^\s*(\w+): ");
    let without_comments = pattern(r"(?m)^\s*//.*$").replace_all(&source, "").into_owned();
    renamed
        .captures_iter(&without_comments)
        .map(|hit| (hit[1].to_owned(), field.captures_iter(&hit[2]).map(|name| name[1].to_owned()).collect()))
        .collect()
}

#[test]
fn every_event_is_documented_with_its_members() {
    let source = text("runtime/protocol/src/event.rs").unwrap();
    let events = events();
    assert_eq!(events.len(), source.matches("#[serde(rename = \"").count(), "some events were not read: {events:?}");
    assert!(events.len() > 35 && events.contains(&("run.ended".to_owned(), words("outcome answer reason"))));
    let document = text("docs/journal-format.md").unwrap();
    let (_, document) = document.split_once("## Events").unwrap();
    let mut findings = Vec::new();
    for (kind, members) in &events {
        let row = document.lines().find(|line| line.starts_with(&format!("| `{kind}` |")));
        let told: Option<Vec<String>> = row.map(|row| {
            let body = row.split('|').nth(2).unwrap_or_default();
            body.split(',').map(|name| name.trim().trim_matches('`').to_owned()).filter(|n| !n.is_empty()).collect()
        });
        match told {
            None => findings.push(format!("{kind} has no row")),
            Some(told) if &told != members => findings.push(format!("{kind} has {members:?}, documented are {told:?}")),
            Some(_) => {}
        }
    }
    let rows = document.lines().filter(|line| pattern(r"^\| `[a-z_]+\.[a-z_]+` \|").is_match(line)).count();
    none("docs/journal-format.md describes each event:", &findings);
    assert_eq!(rows, events.len(), "docs/journal-format.md describes events that do not exist");
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(ToOwned::to_owned).collect()
}

#[test]
fn every_document_that_code_speaks_of_is_there() {
    let named = pattern(r"\bdocs/[\w/-]+\.md\b");
    let (mut findings, mut found) = (Vec::new(), 0);
    for source in sources() {
        for hit in named.find_iter(&source.comments) {
            found += 1;
            if !root().join(hit.as_str()).exists() {
                findings.push(format!("{}: {}", source.at(hit.start()), hit.as_str()));
            }
        }
    }
    none("Documents that comments send their readers to:", &findings);
    assert!(found > 5, "only {found} were found");
}
