//! The modules of the runtime stand in layers. A module may name its own layer and those below.

use crate::{none, pattern};
use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Source, sources};

/// From the ground up; what stands on one line may name each other.
const LAYERS: &[&[&str]] = &[
    // Canonical bytes and digests; clock and random bits from outside; the one module with `unsafe`.
    &["canon", "ports", "sys"],
    // What may be called, and what must not be written down.
    &["manifest", "redact"],
    // Who may call it.
    &["policy"],
    // The boundaries: evidence, files, processes, the opened folder.
    &["journal", "grant", "sandbox", "project"],
    // The socket through which another process reaches a runtime, and the seam that it and every other way in uses.
    &["control"],
    // The one way from a request to an effect.
    &["approval", "session", "call"],
    // What drives calls: agents, the start after a crash, the runtime itself.
    &["recovery", "run", "runtime"],
    // Protocols that others speak.
    &["endpoint"],
];

/// Edges against the rule: file, module it names, why it is right all the same.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// The names a piece of code takes from the root of its crate, with their offsets. `depth` is how many modules deep
/// the code lies, so that a chain of `super` that reaches the root is seen too.
fn names_from_root(code: &str, depth: usize) -> Vec<(usize, String)> {
    let from_root = pattern(r"\bcrate\s*::\s*|\b(?:super\s*::\s*)+");
    let word = pattern(r"^\w+");
    let mut names = Vec::new();
    for hit in from_root.find_iter(code) {
        let supers = hit.as_str().matches("super").count();
        if supers > 0 && supers != depth {
            continue;
        }
        let rest = &code[hit.end()..];
        if let Some(name) = word.find(rest) {
            names.push((hit.start(), name.as_str().to_owned()));
            continue;
        }
        // A group: the first word of each of its parts, but not those of groups inside.
        let (mut braces, mut first) = (0, false);
        for (offset, character) in rest.char_indices() {
            match character {
                '{' => (braces, first) = (braces + 1, true),
                '}' => braces -= 1,
                ',' => first = true,
                _ if first && braces == 1 && !character.is_whitespace() => {
                    names.extend(word.find(&rest[offset..]).map(|name| (hit.start(), name.as_str().to_owned())));
                    first = false;
                }
                _ => {}
            }
            if braces == 0 {
                break;
            }
        }
    }
    names
}

/// Names that the root of the crate hands on, with the module they come from.
fn handed_on(root: &Source) -> BTreeMap<String, String> {
    let uses = pattern(r"pub use (\w+)::\{?([^;}]*)\}?;");
    let code = root.product();
    let mut names = BTreeMap::new();
    for hit in uses.captures_iter(&code) {
        for name in hit[2].split(',').map(str::trim).filter(|name| !name.is_empty()) {
            names.insert(name.to_owned(), hit[1].to_owned());
        }
    }
    names
}

/// How many modules deep a file under `runtime/src` lies.
fn depth(path: &str) -> usize {
    let parts = path.split('/').count();
    if path.ends_with("/mod.rs") { parts - 1 } else { parts }
}

#[test]
fn modules_of_the_runtime_name_only_what_lies_below() {
    let sources = sources();
    let root = sources.iter().find(|source| source.path == "runtime/src/lib.rs").unwrap();
    let handed_on = handed_on(root);
    let mut findings = Vec::new();
    let mut unused: BTreeSet<(String, String)> =
        EXCEPTIONS.iter().map(|(file, module, _)| ((*file).to_owned(), (*module).to_owned())).collect();
    let mut edges = 0;
    for source in sources.iter().filter(|source| !source.test) {
        let Some(inside) = source.path.strip_prefix("runtime/src/").filter(|path| *path != "lib.rs") else { continue };
        let module = inside.split('/').next().unwrap().trim_end_matches(".rs");
        let Some(own) = layer(module) else {
            findings.push(format!("{}: module {module} stands in no layer", source.path));
            continue;
        };
        for (offset, name) in names_from_root(&source.product(), depth(inside)) {
            let named = handed_on.get(&name).unwrap_or(&name);
            edges += 1;
            match layer(named) {
                Some(other) if other <= own => {}
                Some(_) if unused.remove(&(inside.to_owned(), named.clone())) => {}
                Some(_) if EXCEPTIONS.iter().any(|(file, module, _)| *file == inside && module == named) => {}
                Some(_) => findings.push(format!("{}: {module} names {named}, which lies above it", source.at(offset))),
                None => findings.push(format!("{}: {named} stands in no layer", source.at(offset))),
            }
        }
    }
    none("Modules of the runtime name only their own layer and those below (tests/tidy/layers.rs):", &findings);
    assert!(unused.is_empty(), "exceptions that are no longer needed: {unused:?}");
    assert!(edges > 100, "only {edges} edges were found: the check looks in the wrong place");
}

#[test]
fn the_root_of_the_runtime_lists_its_modules_from_the_ground_up() {
    let sources = sources();
    let root = sources.iter().find(|source| source.path == "runtime/src/lib.rs").unwrap();
    let code = root.product();
    let declared = pattern(r"\bmod (\w+);");
    let modules: Vec<&str> = declared.captures_iter(&code).map(|hit| hit.get(1).unwrap().as_str()).collect();
    assert!(modules.len() > 5);
    let homeless: Vec<String> =
        modules.iter().filter(|module| layer(module).is_none()).map(|module| (*module).to_owned()).collect();
    none("A module of the runtime stands in no layer (tests/tidy/layers.rs):", &homeless);
    let gone: Vec<&str> =
        LAYERS.iter().flat_map(|layer| layer.iter().copied()).filter(|module| !modules.contains(module)).collect();
    assert!(gone.is_empty(), "modules in the table that the runtime does not have: {gone:?}");
    let heights: Vec<Option<usize>> = modules.iter().map(|module| layer(module)).collect();
    assert!(heights.is_sorted(), "runtime/src/lib.rs does not list its modules from the ground up: {modules:?}");
    let twice = LAYERS.iter().flat_map(|layer| layer.iter()).collect::<BTreeSet<_>>().len();
    assert_eq!(twice, LAYERS.iter().map(|layer| layer.len()).sum::<usize>(), "a module stands in two layers");
}

#[test]
fn every_way_to_name_a_module_is_seen() {
    let names = |code: &str, depth| names_from_root(code, depth).into_iter().map(|(_, name)| name).collect::<Vec<_>>();
    assert_eq!(names("use crate::journal::Journal; let a = crate::grant::b();", 1), ["journal", "grant"]);
    assert_eq!(names("use crate::{canon, journal::{Entry, self}, run::{A}};", 2), ["canon", "journal", "run"]);
    assert_eq!(names("super::super::call::x(); super::y()", 2), ["call"]);
    assert_eq!(names("use super::call;", 1), ["call"]);
    assert_eq!((depth("run/mod.rs"), depth("run/registry.rs"), depth("recovery.rs")), (1, 2, 1));
}
