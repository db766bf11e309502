//! The opened project: its configuration, its agents, the digest a person trusts, and the lock that keeps it to one
//! runtime.
//!
//! Invariant: opening a project reads its control files and starts nothing; nothing in a project has an effect before
//! a person trusted its digest.

mod agents;
mod configuration;
mod files;
mod lock;
mod places;
mod reader;
mod trust;

#[cfg(test)]
mod tests;

pub use agents::{Agent, Provider, Turn};
pub use configuration::{CONFIGURATION_FILE, Configuration, Environment, Network, Tier};
pub use lock::{LockError, ProjectLock};
pub use places::{PlaceError, Places, Privacy, PrivateDirectory};
pub use trust::{Trust, TrustError};

use crate::manifest::{Fault, FaultKind, Faults, Source};
use files::ControlFiles;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use stockade_protocol::digest::Digest;

/// A project could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// The folder is not there or not a project.
    #[error("{} is not a stockade project: {why}. Run `stockade init` in it to make one", path.display())]
    NotAProject {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
    /// The path of the folder is not text.
    #[error("the path {} is not UTF-8 text, so it cannot be recorded. Move the project", path.display())]
    NotText {
        /// The folder.
        path: PathBuf,
    },
    /// A control file cannot be what it is.
    #[error("{path} {why}: what decides about a project must be plain files inside it")]
    Unfit {
        /// The file or directory, relative to the project.
        path: String,
        /// What is wrong, after the path.
        why: String,
    },
    /// A control file could not be read.
    #[error("{path} could not be read: {source}")]
    Unreadable {
        /// The file or directory, relative to the project.
        path: String,
        /// Why.
        source: nix::errno::Errno,
    },
    /// The files hold faults.
    #[error(transparent)]
    Faults(#[from] Faults),
    /// The files changed while the project was being opened.
    #[error("the project's files changed while it was being opened. Open it again")]
    Changed,
}

/// A project as it was when it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    root: PathBuf,
    root_text: String,
    configuration: Configuration,
    agents: BTreeMap<String, Agent>,
    files: BTreeMap<String, Digest>,
    digest: Digest,
}

impl Project {
    /// Opens the project in `folder`: reads and checks `stockade.toml` and the agents, and digests every control
    /// file. Nothing is started and nothing is written.
    ///
    /// # Errors
    /// With every fault at once, or when something that decides about the project is not a plain file inside it.
    pub fn open(folder: &Path) -> Result<Self, ProjectError> {
        let missing = |why: String| ProjectError::NotAProject { path: folder.to_owned(), why };
        let root = folder.canonicalize().map_err(|error| missing(error.to_string()))?;
        let Some(root_text) = root.to_str().map(str::to_owned) else {
            return Err(ProjectError::NotText { path: root });
        };
        let files = ControlFiles::read(&root)?;
        let Some(text) = files.text(CONFIGURATION_FILE)? else {
            return Err(missing(format!("it has no {CONFIGURATION_FILE}")));
        };
        let folder_name = root.file_name().map_or_else(|| "/".to_owned(), |name| name.to_string_lossy().into_owned());
        let mut faults = Vec::new();
        let source = Source { file: CONFIGURATION_FILE.to_owned(), text: text.to_owned() };
        let configuration = Configuration::parse(&source, &folder_name).map_err(|found| faults.extend(found)).ok();
        let agents = read_agents(&files, &mut faults)?;
        if let Some(agent) = configuration.as_ref().and_then(|configuration| configuration.default_agent.as_ref())
            && !agents.contains_key(agent)
            && !files.below("agents").any(|path| path == format!("agents/{agent}.toml"))
        {
            let what = format!("the default agent `{agent}` has no file");
            let hint = format!("write agents/{agent}.toml");
            faults.push(Fault::whole(CONFIGURATION_FILE, FaultKind::Value, what, hint));
        }
        Faults::none_or(faults)?;
        let Some(configuration) = configuration else { return Err(missing("it could not be read".to_owned())) };
        let digests = files.digests();
        let digest = files::digest(&digests)?;
        Ok(Self { root, root_text, configuration, agents, files: digests, digest })
    }

    /// The project's folder, absolute, without symbolic links.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The same as text.
    #[must_use]
    pub fn root_text(&self) -> &str {
        &self.root_text
    }

    /// What `stockade.toml` decides.
    #[must_use]
    pub const fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// The agents by name.
    #[must_use]
    pub const fn agents(&self) -> &BTreeMap<String, Agent> {
        &self.agents
    }

    /// Digest of configuration, tools, policies, scope and agents: what a person trusts.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The files the digest is over, each with its own.
    #[must_use]
    pub const fn files(&self) -> &BTreeMap<String, Digest> {
        &self.files
    }

    /// Checks that the files are still those that were opened. To be asked after tools and policies were loaded, so
    /// that what is in force is what was trusted.
    ///
    /// # Errors
    /// When anything changed or can no longer be read.
    pub fn confirm(&self) -> Result<(), ProjectError> {
        let now = ControlFiles::read(&self.root)?.digests();
        if now == self.files { Ok(()) } else { Err(ProjectError::Changed) }
    }

    /// How the project stands with the person whose places these are.
    ///
    /// # Errors
    /// When the record of trusted projects is not private or not readable: then nothing is trusted.
    pub fn trust(&self, places: &Places) -> Result<Trust, TrustError> {
        trust::state(places, &self.root_text, self.digest, &self.files)
    }

    /// Records that the person trusts the project in this state.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub fn record_trust(&self, places: &Places) -> Result<(), TrustError> {
        trust::record(places, &self.root_text, self.digest, &self.files)
    }

    /// Takes the project for this process; `None` when another process has it.
    ///
    /// # Errors
    /// When the state directory is not private or the kernel refuses.
    pub fn lock(&self, places: &Places) -> Result<Option<ProjectLock>, LockError> {
        ProjectLock::take(places, &self.root)
    }
}

fn read_agents(files: &ControlFiles, faults: &mut Vec<Fault>) -> Result<BTreeMap<String, Agent>, ProjectError> {
    let mut agents = BTreeMap::new();
    for path in files.below("agents") {
        let Some(name) = path.strip_prefix("agents/").and_then(|name| name.strip_suffix(".toml")) else { continue };
        if !agents::is_name(name) {
            let what = "the file's name cannot be an agent's name";
            faults.push(Fault::whole(path, FaultKind::Value, what, agents::NAME_RULE));
            continue;
        }
        let source = Source { file: path.to_owned(), text: files.text(path)?.unwrap_or_default().to_owned() };
        match Agent::parse(&source, name) {
            Ok(agent) => {
                agents.insert(name.to_owned(), agent);
            }
            Err(found) => faults.extend(found),
        }
    }
    Ok(agents)
}
