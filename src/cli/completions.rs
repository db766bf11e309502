//! `stockade completions`.

use super::Cli;
use crate::exit::Exit;
use clap::CommandFactory as _;
use clap_complete::Shell;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which shell
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Exit {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "stockade", &mut text);
    crate::terminal::raw(&text);
    Exit::Done
}
