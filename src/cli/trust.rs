//! `stockade trust`: a person's yes to a project in one exact state.

use crate::environment;
use crate::exit::{Exit, Failure};
use crate::project::{ProjectArg, describe};
use crate::terminal;
use std::path::PathBuf;
use stockade_protocol::digest::Digest;
use stockade_runtime::project::{Project, Trust};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The project's folder
    folder: Option<PathBuf>,
    /// The digest to trust, as it was shown: no question is asked, and any other state is refused
    #[arg(long, value_name = "DIGEST")]
    digest: Option<Digest>,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let places = environment::places()?;
    let project = Project::open(&ProjectArg::new(args.folder.clone()).root()?)?;
    let state = project.trust(&places)?;
    if let Some(digest) = args.digest {
        if digest != project.digest() {
            return Err(Failure::new(Exit::Denied, "the project is not in the state you named")
                .why(format!("its digest is {}", project.digest()))
                .next("look at its files again, then name that digest"));
        }
        project.record_trust(&places)?;
        terminal::say(format!("Trusted: {} at {digest}", project.root_text()));
        return Ok(Exit::Done);
    }
    describe(&project, &state, terminal::say);
    if state == Trust::Trusted {
        return Ok(Exit::Done);
    }
    if !terminal::can_ask() {
        return Err(Failure::new(Exit::Denied, "nothing was trusted")
            .why("there is no terminal to ask on")
            .next(format!("stockade trust --digest {} {}", project.digest(), project.root_text())));
    }
    if terminal::ask("Trust it in this state? Type yes:") != "yes" {
        return Err(Failure::new(Exit::Denied, "nothing was trusted")
            .why("the answer was not yes")
            .next("nothing runs here until you trust it; look at its files, then ask again"));
    }
    project.record_trust(&places)?;
    Ok(Exit::Done)
}
