//! What a worker cannot do, tried from inside it, as root and as an ordinary user.
//!
//! Goal: every attempt of the probe fails with the errno this table names, and the named enforcer is what makes it
//! fail. Method: the probe runs in a worker with the standard profile; then, by the same binary, once for each enforcer
//! with all others of that attempt taken away, where it must still fail; and once with all of them taken away, where it
//! must go through to what the kernel itself says. `docs/tiers.md` is written from the outcomes: run with
//! `STOCKADE_BLESS=1` to write it anew.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "probe/table.rs"]
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use stockade_runtime::sandbox::Rule;
use table::{Attempt, Control, TABLE};

/// A user that no system gives to anybody.
const NOBODY_IN_PARTICULAR: u32 = 61_234;
/// A word that must never be found.
const CANARY: &str = "canary-7f3a91";

/// One worker that the host is to run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    without: BTreeSet<Rule>,
    terminal: bool,
    variable: bool,
    /// The one attempt that needs a worker of its own.
    alone: Option<&'static str>,
}

/// An outcome as the table writes it: `allowed`, an errno, or a signal.
type Outcomes = BTreeMap<(Run, &'static str), String>;

struct Measured {
    outcomes: Outcomes,
    landlock_abi: u64,
}

/// The run in which an attempt is made with these rules taken away.
fn run_of(attempt: &Attempt, without: impl IntoIterator<Item = Rule>) -> Run {
    Run {
        without: without.into_iter().collect(),
        terminal: attempt.terminal,
        variable: false,
        alone: (attempt.name == "outlive").then_some(attempt.name),
    }
}

/// The run that shows an attempt going through.
fn control_of(attempt: &Attempt) -> Option<Run> {
    match attempt.control {
        Control::Lifted(_) => Some(run_of(attempt, attempt.enforcers.iter().copied())),
        Control::OnTerminal => Some(Run { terminal: true, ..run_of(attempt, []) }),
        Control::WithVariable => Some(Run { variable: true, ..run_of(attempt, []) }),
        Control::Allowed => None,
    }
}

/// The run in which one enforcer stands alone.
fn alone(attempt: &Attempt, enforcer: Rule) -> Run {
    run_of(attempt, attempt.enforcers.iter().copied().filter(|other| *other != enforcer))
}

/// Every run that the table needs, with its attempts.
fn plan() -> BTreeMap<Run, BTreeSet<&'static str>> {
    let mut runs: BTreeMap<Run, BTreeSet<&'static str>> = BTreeMap::new();
    for attempt in TABLE {
        let layers = attempt.enforcers.iter().map(|enforcer| alone(attempt, *enforcer));
        let without_landlock = run_of(attempt, [Rule::Landlock]);
        for run in [run_of(attempt, []), without_landlock].into_iter().chain(layers).chain(control_of(attempt)) {
            runs.entry(run).or_default().insert(attempt.name);
        }
    }
    runs
}

/// A built example, next to this test.
fn example(name: &str) -> PathBuf {
    let path = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is not built: run `cargo build --examples` or plain `cargo test`", path.display());
    path
}

/// Runs the whole plan as one user and returns what came of every attempt.
fn measure(user: User) -> Measured {
    let base = tempfile::Builder::new().prefix("stockade-probe").tempdir_in("/var/tmp").unwrap();
    let open = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    open(base.path());
    let (host, probe, home) = (base.path().join("host"), base.path().join("probe"), base.path().join("home"));
    for (program, copy) in [("host", &host), ("probe", &probe)] {
        fs::copy(example(program), copy).unwrap();
        open(copy);
    }
    fs::create_dir(&home).unwrap();
    open(&home);
    if user == User::Ordinary && nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(&home, Some(NOBODY_IN_PARTICULAR), Some(NOBODY_IN_PARTICULAR)).unwrap();
    }
    let plan = plan();
    let runs: Vec<serde_json::Value> = plan
        .iter()
        .map(|(run, attempts)| {
            let Run { without, terminal, variable, .. } = run;
            serde_json::json!({
                "without": without, "terminal": terminal, "variable": variable, "attempts": attempts,
            })
        })
        .collect();
    let plan_text = serde_json::json!({ "home": home, "probe": probe, "canary": CANARY, "runs": runs }).to_string();
    let output = as_user(user, &host, &plan_text);
    let mut measured = Measured { outcomes: BTreeMap::new(), landlock_abi: 0 };
    for line in output.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{output}"));
        if let Some(enforcement) = line.get("enforcement") {
            measured.landlock_abi = enforcement["landlock_abi"].as_u64().unwrap();
            continue;
        }
        let (run, attempts) = plan.iter().nth(usize::try_from(line["run"].as_u64().unwrap()).unwrap()).unwrap();
        let name = attempts.get(line["attempt"].as_str().unwrap()).unwrap();
        let outcome = match line["outcome"].as_str().unwrap() {
            "allowed" => "allowed".to_owned(),
            "refused" | "killed" => line["errno"].as_str().unwrap().to_owned(),
            other => panic!("{name}: {other}: {line}"),
        };
        measured.outcomes.insert((run.clone(), name), outcome);
    }
    measured
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum User {
    Root,
    Ordinary,
}

/// Runs the host as a user, with secrets in its environment, and gives it the plan.
fn as_user(user: User, host: &Path, plan: &str) -> String {
    let root = nix::unistd::geteuid().is_root();
    let mut command = match user {
        User::Root if !root => {
            let mut command = Command::new("sudo");
            command.args(["-n", "env"]).arg(format!("AWS_SECRET_ACCESS_KEY={CANARY}")).arg(host);
            command
        }
        _ => Command::new(host),
    };
    if user == User::Ordinary && root {
        command.uid(NOBODY_IN_PARTICULAR).gid(NOBODY_IN_PARTICULAR);
    }
    command
        .arg("probe")
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        .env("AWS_SECRET_ACCESS_KEY", CANARY)
        .env("SSH_AUTH_SOCK", format!("/run/{CANARY}"))
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(plan.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "the host failed as {user:?}: {text}");
    text
}

/// Compares what was measured with the table; every difference is reported, not only the first.
fn judge(user: User, measured: &Measured) -> Vec<String> {
    let mut wrong = Vec::new();
    let has_landlock = |least: u32| measured.landlock_abi >= u64::from(least);
    for attempt in TABLE {
        let mut expect = |run: Run, what: &str, expected: &[&str]| {
            let found = measured.outcomes.get(&(run, attempt.name)).map_or("nothing", String::as_str);
            if !expected.contains(&found) {
                wrong.push(format!("as {user:?}, {}, {what}: {found}, expected {expected:?}", attempt.name));
            }
        };
        expect(run_of(attempt, []), "standard profile", attempt.expected);
        if attempt.control == Control::Allowed {
            continue;
        }
        // Nothing rests on Landlock alone.
        let refused: Vec<&str> = attempt.expected.iter().chain(attempt.layered).copied().collect();
        expect(run_of(attempt, [Rule::Landlock]), "without Landlock", &refused);
        for enforcer in attempt.enforcers {
            if *enforcer != Rule::Landlock || has_landlock(attempt.landlock) {
                expect(alone(attempt, *enforcer), &format!("with only {enforcer:?}"), &refused);
            }
        }
        let lifted: &[&str] = match attempt.control {
            Control::Lifted(lifted) => lifted,
            _ => &["allowed"],
        };
        expect(control_of(attempt).unwrap(), "positive control", lifted);
    }
    wrong
}

/// Whether root can be had here: as root, or by sudo without a question.
fn can_be_root() -> bool {
    let sudo = || Command::new("sudo").args(["-n", "true"]).stderr(Stdio::null()).status();
    nix::unistd::geteuid().is_root() || sudo().is_ok_and(|status| status.success())
}

#[test]
fn every_attempt_fails_and_goes_through_only_without_its_enforcers() {
    let root = can_be_root();
    let (ordinary, root) = std::thread::scope(|scope| {
        let root = root.then(|| scope.spawn(|| measure(User::Root)));
        (measure(User::Ordinary), root.map(|root| root.join().unwrap()))
    });
    let mut wrong = judge(User::Ordinary, &ordinary);
    if let Some(root) = &root {
        wrong.extend(judge(User::Root, root));
    } else {
        let required = std::env::var("STOCKADE_REQUIRE").is_ok_and(|all| all.split(',').any(|one| one == "root"));
        assert!(!required, "STOCKADE_REQUIRE asks for root, which is not to be had here");
        eprintln!("not tried as root: neither root nor sudo without a password");
    }
    assert!(wrong.is_empty(), "{} outcomes are not as listed:\n{}", wrong.len(), wrong.join("\n"));
    if let Some(root) = root {
        check_document(&ordinary, &root);
    }
}

/// Every attempt the probe knows is in the table, and the table names only rules that some attempt shows at work.
#[test]
fn the_table_is_complete() {
    let mut names: Vec<&str> = TABLE.iter().map(|attempt| attempt.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "an attempt is listed twice");
    let sources = ["processes", "kernel", "network", "files", "limits"].map(|module| {
        fs::read_to_string(format!("{}/tests/programs/probe/{module}.rs", env!("CARGO_MANIFEST_DIR"))).unwrap()
    });
    let known = regex::Regex::new(r#"(?m)^    \("([a-z0-9_]+)","#).unwrap();
    for source in &sources {
        for name in known.captures_iter(source).map(|found| found.get(1).unwrap().as_str()) {
            assert!(names.contains(&name), "the probe's attempt {name} is not in the table");
        }
    }
    let shown: BTreeSet<Rule> = TABLE.iter().flat_map(|attempt| attempt.enforcers).copied().collect();
    // What a cgroup namespace hides is a path that is `/` already on machines without delegation; that the worker is
    // in another one is measured at every start instead.
    let missing: Vec<Rule> =
        Rule::ALL.into_iter().filter(|rule| !shown.contains(rule) && *rule != Rule::CgroupNamespace).collect();
    assert!(missing.is_empty(), "no attempt shows these rules at work: {missing:?}");
}

fn check_document(ordinary: &Measured, root: &Measured) {
    let kernel = nix::sys::utsname::uname().unwrap().release().to_string_lossy().into_owned();
    let kernel: String = kernel.split('.').take(2).collect::<Vec<_>>().join(".");
    let text = table::document(&kernel, root.landlock_abi, |attempt| {
        let found = |measured: &Measured| measured.outcomes.get(&(run_of(attempt, []), attempt.name)).cloned();
        let control = control_of(attempt).and_then(|run| root.outcomes.get(&(run, attempt.name)).cloned());
        [found(ordinary), found(root), control].map(Option::unwrap_or_default)
    });
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tiers.md");
    if std::env::var_os("STOCKADE_BLESS").is_some() {
        fs::write(&path, &text).unwrap();
        return;
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    // Another kernel may answer with another errno; what is refused and by whom stays the same.
    let same_kernel = written.lines().any(|line| text.lines().find(|new| new.starts_with("Measured on")) == Some(line));
    let compare = |text: &str| if same_kernel { text.to_owned() } else { table::without_answers(text) };
    assert!(
        compare(&written) == compare(&text),
        "docs/tiers.md is not what was measured: write it with STOCKADE_BLESS=1"
    );
}
