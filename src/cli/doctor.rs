//! `stockade doctor`: whether the sandbox works here, found out by trying, and the command that mends it.

use crate::environment;
use crate::exit::{Exit, in_words};
use crate::terminal;
use serde_json::json;
use stockade_runtime::project::{Privacy, PrivateDirectory};
use stockade_runtime::sandbox::{Check, probe};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Exit {
    let sandbox = probe();
    let usable = sandbox.iter().all(|check| check.ok || !check.required);
    let own = own_places();
    let private = own.iter().all(|check| check.ok);
    if args.json {
        terminal::json(&json!({
            "tiers": [{ "tier": "native", "usable": usable, "checks": sandbox }],
            "places": own,
        }));
    } else {
        let word = if usable { "usable" } else { "not usable" };
        terminal::say(format!("native: {word}"));
        sandbox.iter().for_each(tell);
        terminal::say_lines("\nstockade's own files");
        own.iter().for_each(tell);
    }
    match (usable, private) {
        (true, true) => Exit::Done,
        (false, _) => Exit::Unavailable,
        (true, false) => Exit::Internal,
    }
}

fn tell(check: &Check) {
    let mark = match (check.ok, check.required) {
        (true, _) => "ok     ",
        (false, true) => "missing",
        (false, false) => "without",
    };
    terminal::say(format!("  {mark}  {}: {}", check.name, check.what));
    for (label, text) in [("why:", &check.cause), ("run:", &check.cure)] {
        if !text.is_empty() {
            terminal::say_lines(format!("           {label} {text}"));
        }
    }
}

/// Whether the places of stockade's own are private.
fn own_places() -> Vec<Check> {
    let failed = |name: &str, cause: String| Check {
        name: name.to_owned(),
        ok: false,
        required: true,
        what: "cannot be used".to_owned(),
        cause,
        cure: String::new(),
    };
    let places = match environment::places() {
        Ok(places) => places,
        Err(failure) => return vec![failed("places", failure.to_string().trim_end().to_owned())],
    };
    let wanted = [
        ("settings", &places.config, Privacy::Guarded),
        ("state and journals", &places.state, Privacy::Closed),
        ("sockets", &places.runtime, Privacy::Closed),
    ];
    wanted
        .into_iter()
        .map(|(name, path, privacy)| match PrivateDirectory::open(path, privacy) {
            Ok(_) => Check {
                name: name.to_owned(),
                ok: true,
                required: true,
                what: format!("{} is yours alone", path.display()),
                cause: String::new(),
                cure: String::new(),
            },
            Err(error) => failed(name, in_words(&error.to_string())),
        })
        .collect()
}
