//! Attacks on a real file system, each with the same thing done honestly beside it.

mod filtered;
mod input;
mod output;
mod property;
mod race;
mod settled;

use super::*;
use rustix::fd::OwnedFd;
use std::fs;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stockade_protocol::digest::Digest;
use tempfile::TempDir;

/// A project in a directory of its own, with room beside it for what must not be reached.
struct Ground {
    base: TempDir,
    root: Arc<ProjectRoot>,
}

impl Ground {
    /// `project/` with its control files, `data/input.csv` and an empty `out/`; `outside/secret.txt` beside it.
    fn new() -> Self {
        Self::in_directory(&std::env::temp_dir())
    }

    fn in_directory(directory: &Path) -> Self {
        let base = tempfile::Builder::new().prefix("grant").tempdir_in(directory).unwrap();
        for made in ["project/data", "project/out", "project/tools", "project/.git", "outside", "state"] {
            fs::create_dir_all(base.path().join(made)).unwrap();
        }
        fs::write(base.path().join("project/stockade.toml"), "# control\n").unwrap();
        fs::write(base.path().join("project/tools/report.clad.toml"), "# control\n").unwrap();
        fs::write(base.path().join("project/.git/config"), "# control\n").unwrap();
        fs::write(base.path().join("project/data/input.csv"), "a,b\n1,2\n").unwrap();
        fs::write(base.path().join("outside/secret.txt"), "secret\n").unwrap();
        let root = ProjectRoot::open(&base.path().join("project"), &[&base.path().join("state")]).unwrap();
        Self { base, root: Arc::new(root) }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.base.path().join("project").join(path)
    }

    fn outside(&self, path: &str) -> PathBuf {
        self.base.path().join("outside").join(path)
    }

    fn read(&self, paths: &[&str]) -> Result<Prepared, GrantError> {
        self.ask(paths, &[])
    }

    fn create(&self, path: &str) -> Result<Prepared, GrantError> {
        self.ask(&[], &[path])
    }

    fn ask(&self, read: &[&str], create: &[&str]) -> Result<Prepared, GrantError> {
        let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        let request = GrantRequest { read: owned(read), create: owned(create), max_file_bytes: 4096 };
        Grants::prepare(&self.root, &request)
    }

    /// Everything below the project that is not as [`Self::new`] made it.
    fn strays(&self) -> Vec<String> {
        let known = ["data", "out", "tools", ".git", "stockade.toml", "report.clad.toml", "config", "input.csv"];
        let mut found = Vec::new();
        let mut left = vec![self.at("")];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                if entry.file_type().unwrap().is_dir() {
                    left.push(entry.path());
                }
                if !known.contains(&name.as_str()) {
                    found.push(name);
                }
            }
        }
        found.sort();
        found
    }
}

/// A private file with these bytes, as a worker leaves it.
fn staged(bytes: &[u8]) -> OwnedFd {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.into()
}

fn contents(fd: OwnedFd) -> String {
    let mut file = fs::File::from(fd);
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert!(file.stream_position().unwrap() > 0);
    text
}

/// The error inside [`GrantError::Unpublished`] or [`GrantError::Stale`].
fn inner(error: GrantError) -> GrantError {
    match error {
        GrantError::Unpublished(inner) | GrantError::Stale(inner) => *inner,
        other => other,
    }
}
