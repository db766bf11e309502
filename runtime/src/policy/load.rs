//! Reading `policies/*.cedar`: every fault of every file, with its line.

use super::schema::Vocabulary;
use super::statements::{Statement, split};
use super::{Note, Policies};
use crate::manifest::{Fault, FaultKind, Faults, Source, ToolSet, list_files, nearest, read_file};
use cedar_policy::{Policy, PolicyId, PolicySet, Schema, ValidationMode, ValidationWarning, Validator};
use miette::Diagnostic;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use stockade_protocol::digest::Digest;

/// Directory of the policies, below the project.
const DIRECTORY: &str = "policies";
/// How a policy file's name ends.
const SUFFIX: &str = ".cedar";

/// Annotations that mean something. A misspelt one would silently mean nothing, so others are refused.
const ANNOTATIONS: &[&str] = &["approval", "description", "id", "reason"];

/// Where a parsed policy stands.
struct Placed<'s> {
    source: &'s Source,
    statement: Statement,
}

pub(super) fn load(root: &Path, tools: &ToolSet) -> Result<Policies, Faults> {
    let mut faults = Vec::new();
    let vocabulary = Vocabulary::of(tools);
    let mut sources = Vec::new();
    for file in list_files(root, DIRECTORY, SUFFIX, &mut faults) {
        match read_file(root, &file) {
            Ok(Some(source)) => sources.push(source),
            Ok(None) => {
                faults.push(Fault::whole(file, FaultKind::Unreadable, "the file vanished while it was read", ""));
            }
            Err(fault) => faults.push(fault),
        }
    }
    refuse_strays(root, &mut faults);
    let schema = match vocabulary.schema() {
        Ok(schema) => Some(schema),
        Err(error) => {
            let hint = "change the names under [tool.cedar] in the manifests";
            let what = format!("the tools' Cedar names give no valid schema: {error}");
            faults.push(Fault::whole("tools", FaultKind::Value, what, hint));
            None
        }
    };
    let digest = digest(&sources);
    let mut set = PolicySet::new();
    let mut notes = BTreeMap::new();
    let mut places = BTreeMap::new();
    let mut ids: BTreeMap<String, PolicyId> = BTreeMap::new();
    for source in &sources {
        for (statement, oversize) in split(source) {
            if let Some(oversize) = oversize {
                faults.push(source.fault(&statement, FaultKind::Value, oversize.what(), "split it"));
                continue;
            }
            let id = policy_id(source, &statement, &places);
            let placed = Placed { source, statement };
            match parse(&placed, &id) {
                Ok(policy) => {
                    notes.insert(id.clone(), annotations(&placed, &policy, &mut ids, &mut faults));
                    if let Err(error) = set.add(policy) {
                        faults.push(placed.fault(FaultKind::Value, error.to_string(), ""));
                    }
                    places.insert(id, placed);
                }
                Err(more) => faults.extend(more),
            }
        }
    }
    if let Some(schema) = &schema {
        faults.extend(validate(&set, schema, &places));
    }
    Faults::none_or(faults)?;
    match schema {
        Some(schema) => Ok(Policies { set, notes, schema, vocabulary, digest }),
        // Not reached: without a schema there was a fault. Kept total so that it can never load without one.
        None => Err(Faults::one(Fault::whole(DIRECTORY, FaultKind::Value, "there is no schema", ""))),
    }
}

/// A directory or a JSON file among the policies would hold rules that are not read; leaving out a `forbid` widens.
fn refuse_strays(root: &Path, faults: &mut Vec<Fault>) {
    for entry in fs::read_dir(root.join(DIRECTORY)).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let directory = fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_dir());
        if name.ends_with(SUFFIX) || !(directory || name.ends_with(".json")) {
            continue;
        }
        let what = if directory { "policies in directories are" } else { "policies as JSON are" };
        let hint = "move what it says into a .cedar file in policies/, or remove it";
        let file = format!("{DIRECTORY}/{name}");
        faults.push(Fault::whole(file, FaultKind::Unsupported, format!("{what} not supported by this version"), hint));
    }
}

/// Digest over names and bytes, in the order of names.
fn digest(sources: &[Source]) -> Digest {
    let lines: Vec<String> =
        sources.iter().map(|source| format!("{}\n{}\n", Digest::of(&source.file), Digest::of(&source.text))).collect();
    Digest::of(format!("policies\n{}", lines.concat()))
}

/// `file.cedar:line`; a second policy on the same line has its column behind it.
fn policy_id(source: &Source, statement: &Statement, taken: &BTreeMap<PolicyId, Placed<'_>>) -> PolicyId {
    let (line, column) = source.place(statement.start);
    let file = source.file.strip_prefix("policies/").unwrap_or(&source.file);
    let id = PolicyId::new(format!("{file}:{line}"));
    if taken.contains_key(&id) { PolicyId::new(format!("{file}:{line}:{column}")) } else { id }
}

impl Placed<'_> {
    fn text(&self) -> &str {
        self.source.text.get(self.statement.clone()).unwrap_or_default()
    }

    fn fault(&self, kind: FaultKind, what: impl Into<String>, hint: impl Into<String>) -> Fault {
        self.source.fault(&self.statement, kind, what, hint)
    }

    /// A fault where Cedar points to, inside the statement.
    fn diagnosed(&self, error: &dyn Diagnostic, kind: FaultKind) -> Fault {
        let inside = error.labels().and_then(|mut labels| labels.next()).map_or(0, |label| label.offset());
        let at = self.statement.start + inside.min(self.statement.len());
        let hint = error.help().map(|help| help.to_string()).unwrap_or_default();
        self.source.fault(&(at..at), kind, error.to_string(), hint)
    }
}

fn parse(placed: &Placed<'_>, id: &PolicyId) -> Result<Policy, Vec<Fault>> {
    Policy::parse(Some(id.clone()), placed.text())
        .map_err(|errors| errors.iter().map(|error| placed.diagnosed(error, FaultKind::Syntax)).collect())
}

fn annotations(
    placed: &Placed<'_>,
    policy: &Policy,
    ids: &mut BTreeMap<String, PolicyId>,
    faults: &mut Vec<Fault>,
) -> Note {
    let mut note = Note::default();
    let mut list: Vec<(&str, &str)> = policy.annotations().collect();
    list.sort_unstable();
    for (key, value) in list {
        match key {
            "approval" if value == "required" && policy.effect() == cedar_policy::Effect::Permit => {
                note.approval = true;
            }
            "approval" => {
                let what = "the annotation @approval must read @approval(\"required\") and stand before a permit";
                faults.push(placed.fault(FaultKind::Value, what, "a forbid needs none: nobody can approve against it"));
            }
            "reason" => note.reason = Some(value.to_owned()),
            "id" => match ids.get(value) {
                Some(first) => {
                    let what = format!("the id \"{value}\" is taken already, by {first}");
                    faults.push(placed.fault(FaultKind::Value, what, "give each policy its own @id, or none"));
                }
                None => {
                    ids.insert(value.to_owned(), policy.id().clone());
                }
            },
            "description" => {}
            other => {
                let hint = nearest(other, ANNOTATIONS.iter().copied()).map_or_else(
                    || format!("known: @{}", ANNOTATIONS.join(", @")),
                    |near| format!("did you mean @{near}?"),
                );
                faults.push(placed.fault(FaultKind::UnknownKey, format!("unknown annotation @{other}"), hint));
            }
        }
    }
    note
}

fn validate(set: &PolicySet, schema: &Schema, places: &BTreeMap<PolicyId, Placed<'_>>) -> Vec<Fault> {
    let result = Validator::new(schema.clone()).validate(set, ValidationMode::Strict);
    let errors = result.validation_errors().map(|error| (error.policy_id(), error as &dyn Diagnostic));
    // A policy that can never match is a rule that its writer believes in and that is not there.
    let warnings = result
        .validation_warnings()
        .filter(|warning| {
            !matches!(warning, ValidationWarning::MixedScriptString(_) | ValidationWarning::MixedScriptIdentifier(_))
        })
        .map(|warning| (warning.policy_id(), warning as &dyn Diagnostic));
    let mut faults: Vec<Fault> = errors
        .chain(warnings)
        .map(|(id, error)| match places.get(id) {
            Some(placed) => placed.diagnosed(error, FaultKind::Value),
            None => Fault::whole(DIRECTORY, FaultKind::Value, error.to_string(), ""),
        })
        .collect();
    // Cedar checks a policy once for each action it could apply to, and says the same each time.
    faults.sort_by(|a, b| (&a.file, a.line, a.column, &a.what).cmp(&(&b.file, b.line, b.column, &b.what)));
    faults.dedup_by(|a, b| (&a.file, a.line, a.column) == (&b.file, b.line, b.column));
    faults
}
