//! Projects in temporary directories.

use crate::manifest::{Fault, ToolSet};
use std::fs;
use std::path::PathBuf;
use stockade_protocol::request::ToolCallRequest;
use tempfile::TempDir;

/// A project with these files.
pub(crate) fn project(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

/// The tools of a project with one manifest.
pub(crate) fn one(manifest: &str) -> Result<ToolSet, Vec<Fault>> {
    let project = project(&[("tools/a.clad.toml", manifest)]);
    ToolSet::load(project.path()).map_err(super::Faults::into_vec)
}

/// Its faults, one a line.
pub(crate) fn faults(manifest: &str) -> Vec<String> {
    one(manifest).err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

/// Where the manifests of `fixtures/manifests` lie.
pub(crate) fn fixture_directory(kind: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures/manifests").join(kind)
}

/// The tools of a directory of `fixtures/manifests`, as one project.
pub(crate) fn fixtures(kind: &str) -> ToolSet {
    let directory = TempDir::new().unwrap();
    fs::create_dir(directory.path().join("tools")).unwrap();
    for entry in fs::read_dir(fixture_directory(kind)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let place = if name == "toolclad.toml" { name } else { format!("tools/{name}") };
        fs::copy(entry.path(), directory.path().join(place)).unwrap();
    }
    ToolSet::load(directory.path()).unwrap_or_else(|faults| panic!("{faults}"))
}

/// A request.
pub(crate) fn request(tool: &str, arguments: &[(&str, &str)]) -> ToolCallRequest {
    ToolCallRequest {
        tool: tool.to_owned(),
        arguments: arguments.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        invocation_id: None,
        reason: None,
    }
}

/// Owned words.
pub(crate) fn argv(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The accepted fixtures, read once.
pub(crate) fn fixtures_cached() -> &'static ToolSet {
    static TOOLS: std::sync::LazyLock<ToolSet> = std::sync::LazyLock::new(|| fixtures("accept"));
    &TOOLS
}
