//! Finding the project a command is about, and asking once whether it is trusted.

use crate::exit::{Exit, Failure};
use crate::terminal;
use std::path::{Path, PathBuf};
use stockade_runtime::project::{CONFIGURATION_FILE, Places, Project, Trust};

/// Which project a command is about.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ProjectArg {
    /// The project's folder; without it the folder you are in, or the nearest one above it that is a project
    #[arg(short = 'C', long = "project", value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// What a command takes that reads what a project has.
#[derive(Debug, clap::Args)]
pub(crate) struct Reading {
    #[command(flatten)]
    pub(crate) project: ProjectArg,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl ProjectArg {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    /// The root of the project, absolute, without symbolic links. What is in its files is not looked at.
    pub(crate) fn root(&self) -> Result<PathBuf, Failure> {
        let unusable = |path: &Path, why: &dyn std::fmt::Display| {
            Failure::new(Exit::Usage, format!("{} is not a project", path.display()))
                .why(why)
                .next("name a project with -C DIR, or make one with `stockade init`")
        };
        if let Some(folder) = &self.folder {
            let root = folder.canonicalize().map_err(|error| unusable(folder, &error))?;
            return match is_project(&root) {
                Ok(true) => Ok(root),
                Ok(false) => Err(unusable(folder, &format!("it has no {CONFIGURATION_FILE}"))),
                Err(error) => Err(unusable(folder, &error)),
            };
        }
        let here = std::env::current_dir().and_then(|here| here.canonicalize());
        let here = here.map_err(|error| unusable(Path::new("."), &error))?;
        let nearest = here.ancestors().find(|folder| is_project(folder).unwrap_or(false)).map(Path::to_owned);
        nearest.ok_or_else(|| unusable(&here, &format!("neither it nor a folder above it has a {CONFIGURATION_FILE}")))
    }
}

fn is_project(folder: &Path) -> std::io::Result<bool> {
    match folder.join(CONFIGURATION_FILE).symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a question about trust may be put to the person now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    /// When there is a terminal.
    OnTerminal,
    /// Never: standard input belongs to a protocol.
    Never,
}

/// Goes on only when the person trusts the project in its present state.
pub(crate) fn require_trust(project: &Project, places: &Places, asking: Asking) -> Result<(), Failure> {
    let state = project.trust(places)?;
    if state == Trust::Trusted {
        return Ok(());
    }
    let what = match &state {
        Trust::Changed { .. } => "this project has changed since you trusted it",
        _ => "you have not trusted this project yet",
    };
    let refused = || {
        let root = project.root_text();
        Failure::new(Exit::Denied, what)
            .why("its files decide what may run here, so nothing runs before you trusted them")
            .next(format!("look at them, then: stockade trust --digest {} {root}", project.digest()))
    };
    if asking == Asking::Never || !terminal::can_ask() {
        return Err(refused());
    }
    describe(project, &state, terminal::note);
    if terminal::ask("Trust it in this state? Type yes:") != "yes" {
        return Err(refused());
    }
    project.record_trust(places)?;
    Ok(())
}

/// What is to be trusted, in words.
pub(crate) fn describe(project: &Project, state: &Trust, mut say: impl FnMut(String)) {
    say(format!("Project {}", project.root_text()));
    say(format!("digest  {}", project.digest()));
    match state {
        Trust::Trusted => say("You trust it in this state.".to_owned()),
        Trust::New => {
            say("You have not trusted it yet. These files decide what may run here:".to_owned());
            for (path, digest) in project.files() {
                say(format!("  {}  {path}", digest.short()));
            }
        }
        Trust::Changed { changes } => {
            say("You trusted it in another state. Since then:".to_owned());
            for change in changes {
                say(format!("  {change}"));
            }
        }
    }
}
