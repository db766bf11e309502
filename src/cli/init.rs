//! `stockade init`: a commented starter project.

use crate::environment;
use crate::exit::{Exit, Failure};
use crate::starter::{self, STARTER};
use crate::terminal;
use std::path::PathBuf;
use stockade_runtime::project::Project;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder to make a project of; made where it is not there
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let places = environment::places()?;
    starter::write(&args.folder, STARTER)?;
    let project = Project::open(&args.folder)?;
    // Files that were there before are for the person to look at, at the first question about trust.
    let own = project.files().keys().all(|path| STARTER.iter().any(|(written, _)| written == path));
    if own {
        project.record_trust(&places)?;
    }
    terminal::say(format!("Made a project in {}:", project.root_text()));
    for (path, text) in STARTER {
        let about = text.lines().next().unwrap_or_default().trim_start_matches(['#', '/', ' ']);
        terminal::say(format!("  {path:24} {about}"));
    }
    terminal::say("Next: stockade call words --arg file=notes.txt");
    terminal::say("Then change the files; each change asks for your trust before anything runs.");
    Ok(Exit::Done)
}
