//! Opening, trusting and locking projects: each refusal beside the same thing allowed.

use super::*;
use std::os::unix::fs::{PermissionsExt as _, symlink};

const AGENT: &str = "provider = \"scripted\"\n[[turn]]\nsay = \"done\"\n";

struct Fixture {
    _directory: tempfile::TempDir,
    root: PathBuf,
    places: Places,
}

fn fixture(configuration: &str) -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap().join("payments");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("stockade.toml"), configuration).unwrap();
    let own = directory.path().join("own");
    let places =
        Places { config: own.join("config"), state: own.join("state"), runtime: own.join("state").join("run") };
    Fixture { _directory: directory, root, places }
}

fn write(fixture: &Fixture, path: &str, text: &str) {
    let path = fixture.root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn faults(configuration: &str) -> Vec<String> {
    match Project::open(&fixture(configuration).root) {
        Err(ProjectError::Faults(faults)) => faults.as_slice().iter().map(ToString::to_string).collect(),
        other => panic!("expected faults, got {other:?}"),
    }
}

#[test]
fn a_whole_configuration_is_read_and_an_empty_one_has_defaults() {
    let whole = fixture(
        "[project]\nname = \"p\"\n[sandbox]\ntier = \"native\"\nnetwork_mode = \"none\"\n[approvals]\nwait_seconds = 5\n\
         receipt_seconds = 7\n[agents]\ndefault = \"demo\"\n",
    );
    write(&whole, "agents/demo.toml", AGENT);
    let project = Project::open(&whole.root).unwrap();
    assert_eq!(project.configuration().name, "p");
    assert_eq!(project.configuration().approval_wait_ms, 5_000);
    assert_eq!(project.configuration().receipt_life_ms, 7_000);
    assert_eq!(project.configuration().default_agent.as_deref(), Some("demo"));
    let empty = Project::open(&fixture("").root).unwrap();
    assert_eq!(empty.configuration().name, "payments");
    assert_eq!(empty.configuration().approval_wait_ms, stockade_protocol::limits::APPROVAL_WAIT_MS);
}

#[test]
fn every_fault_is_told_at_once_with_its_place() {
    let found =
        faults("[project]\nnam = \"x\"\n[sandbox]\ntier = 3\nnetwork_mode = \"host\"\n[aprovals]\nwait_seconds = 0\n");
    assert_eq!(
        found,
        [
            "stockade.toml:2:1: unknown key `nam` in [project] (hint: did you mean `name`?)",
            "stockade.toml:4:8: `tier` is a whole number, not text (hint: put it in quotes)",
            "stockade.toml:5:16: the network mode `host` is always refused: it would put workers on this machine's own \
             network (hint: use network_mode = \"none\")",
            "stockade.toml:6:2: unknown key `aprovals` (hint: did you mean `approvals`?)",
        ]
    );
    let syntax = faults("[project]\nname = \"a\"\nname = \"b\"\n[sandbox\n");
    assert!(syntax.iter().any(|fault| fault.starts_with("stockade.toml:3:")), "{syntax:?}");
    assert!(syntax.iter().any(|fault| fault.starts_with("stockade.toml:4:")), "{syntax:?}");
}

#[test]
fn a_number_out_of_bounds_is_refused_and_at_its_bounds_is_not() {
    for bad in ["0", "86401", "-1", "1.5", "\"5\"", "99999999999999999999"] {
        let found = faults(&format!("[approvals]\nwait_seconds = {bad}\n"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("stockade.toml:2:16: "), "{found:?}");
    }
    for good in ["1", "86_400", "0x10"] {
        assert!(Project::open(&fixture(&format!("[approvals]\nwait_seconds = {good}\n")).root).is_ok(), "{good}");
    }
}

#[test]
fn tiers_of_later_versions_are_refused_by_name_and_others_as_unknown() {
    for tier in ["landlock", "docker", "gvisor", "firecracker", "qemu", "none", "tier1", "tier2", "tier3"] {
        let found = faults(&format!("[sandbox]\ntier = \"{tier}\"\n"));
        assert!(found[0].contains(&format!("the sandbox tier `{tier}` is unavailable in this version")), "{found:?}");
    }
    assert!(faults("[sandbox]\ntier = \"nativ\"\n")[0].contains("unknown sandbox tier `nativ`"));
    assert!(faults("[sandbox.docker]\nimage = \"x\"\n")[0].contains("[sandbox.docker] is unavailable in this version"));
}

#[test]
fn production_is_recognized_however_it_is_spelt() {
    use std::os::unix::ffi::OsStrExt as _;
    for yes in ["production", "PRODUCTION", " Production\t", "pro duction\n"] {
        assert_eq!(Environment::parse(Some(OsStr::new(yes))), Environment::Production, "{yes:?}");
    }
    assert_eq!(Environment::parse(Some(OsStr::from_bytes(b"dev\xff"))), Environment::Production);
    for no in ["", "development", "staging", "productions"] {
        assert_eq!(Environment::parse(Some(OsStr::new(no))), Environment::Development, "{no:?}");
    }
    assert_eq!(Environment::parse(None), Environment::Development);
}

use std::ffi::OsStr;

#[test]
fn a_script_is_read_and_its_faults_are_told() {
    let good = fixture("");
    write(
        &good,
        "agents/demo.toml",
        "provider = \"scripted\"\nmax_turns = 4\n[[turn]]\nsay = \"look\"\n[[turn.call]]\ntool = \"report.query\"\n\
         arguments = { command = \"totals\", top = 3, all = true }\n[[turn]]\nsay = \"done\"\n",
    );
    let project = Project::open(&good.root).unwrap();
    let agent = &project.agents()["demo"];
    assert_eq!(agent.max_turns, 4);
    let Provider::Scripted { turns } = &agent.provider;
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[0].calls[0].arguments["top"], "3");
    assert_eq!(turns[0].calls[0].arguments["all"], "true");
    assert!(turns[1].calls.is_empty());

    let bad = fixture("[agents]\ndefault = \"other\"\n");
    write(
        &bad,
        "agents/demo.toml",
        "provider = \"oracle\"\n[[turn]]\nsay = 1\n[[turn]]\nsay = \"x\"\n[[turn.call]]\narguments = { a = [1] }\n",
    );
    write(&bad, "agents/Bad Name.toml", AGENT);
    let Err(ProjectError::Faults(faults)) = Project::open(&bad.root) else { panic!("opened") };
    let text = faults.to_string();
    for expected in [
        "agents/Bad Name.toml: the file's name cannot be an agent's name",
        "agents/demo.toml:1:12: the provider `oracle` is unavailable in this version",
        "agents/demo.toml:3:7: `say` is a whole number, not text",
        "the call names no tool",
        "agents/demo.toml:7:19: the argument `a` is a list",
        "stockade.toml: the default agent `other` has no file",
    ] {
        assert!(text.contains(expected), "{expected} not in\n{text}");
    }
    let endless = fixture("");
    write(&endless, "agents/demo.toml", "provider = \"scripted\"\n[[turn]]\nsay = \"x\"\ncall = [{ tool = \"t\" }]\n");
    let Err(ProjectError::Faults(faults)) = Project::open(&endless.root) else { panic!("opened") };
    assert!(faults.to_string().contains("a run of it could not end"), "{faults}");
}

#[test]
fn the_digest_covers_every_control_file_and_nothing_else() {
    let fixture = fixture("");
    let digest = || Project::open(&fixture.root).unwrap().digest();
    let first = digest();
    write(&fixture, "README.md", "not a control file");
    write(&fixture, "data/orders.csv", "1");
    assert_eq!(digest(), first);
    let mut seen = vec![first];
    for path in ["stockade.toml", "toolclad.toml", "tools/a.clad.toml", "policies/deep/b.cedar", "scope/scope.toml"] {
        write(&fixture, path, "# one\n");
        seen.push(digest());
    }
    write(&fixture, "agents/a.toml", AGENT);
    seen.push(digest());
    std::fs::rename(fixture.root.join("tools/a.clad.toml"), fixture.root.join("tools/b.clad.toml")).unwrap();
    seen.push(digest());
    let distinct: std::collections::BTreeSet<_> = seen.iter().collect();
    assert_eq!(distinct.len(), seen.len(), "two states have one digest");
    assert_eq!(digest(), *seen.last().unwrap(), "the digest is not stable");
}

#[test]
fn a_change_after_opening_is_seen() {
    let fixture = fixture("");
    let project = Project::open(&fixture.root).unwrap();
    assert!(project.confirm().is_ok());
    write(&fixture, "tools/late.clad.toml", "");
    assert!(matches!(project.confirm(), Err(ProjectError::Changed)));
}

#[test]
fn only_plain_files_decide() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("x.cedar"), "permit(principal, action, resource);").unwrap();
    let link_file = fixture("");
    write(&link_file, "policies/a.cedar", "");
    assert!(Project::open(&link_file.root).is_ok());
    symlink(outside.path().join("x.cedar"), link_file.root.join("policies/x.cedar")).unwrap();
    let error = Project::open(&link_file.root).unwrap_err().to_string();
    assert!(error.starts_with("policies/x.cedar is a symbolic link"), "{error}");

    let link_directory = fixture("");
    symlink(outside.path(), link_directory.root.join("policies")).unwrap();
    let error = Project::open(&link_directory.root).unwrap_err().to_string();
    assert!(error.starts_with("policies is a symbolic link"), "{error}");

    let dangling = fixture("");
    symlink("/nowhere", dangling.root.join("toolclad.toml")).unwrap();
    assert!(Project::open(&dangling.root).unwrap_err().to_string().contains("symbolic link"));

    let fifo = fixture("");
    std::fs::create_dir(fifo.root.join("tools")).unwrap();
    nix::unistd::mkfifo(&fifo.root.join("tools/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(Project::open(&fifo.root).unwrap_err().to_string().starts_with("tools/pipe is not a plain file"));

    let itself = fixture("");
    std::fs::rename(itself.root.join("stockade.toml"), itself.root.join("real.toml")).unwrap();
    symlink("real.toml", itself.root.join("stockade.toml")).unwrap();
    assert!(Project::open(&itself.root).unwrap_err().to_string().contains("stockade.toml is a symbolic link"));

    let none = tempfile::tempdir().unwrap();
    assert!(Project::open(none.path()).unwrap_err().to_string().contains("it has no stockade.toml"));
}

#[test]
fn trust_is_given_to_a_digest_and_a_change_is_named() {
    let fixture = fixture("");
    write(&fixture, "tools/a.clad.toml", "# a\n");
    let project = Project::open(&fixture.root).unwrap();
    assert_eq!(project.trust(&fixture.places).unwrap(), Trust::New);
    project.record_trust(&fixture.places).unwrap();
    assert_eq!(project.trust(&fixture.places).unwrap(), Trust::Trusted);
    let mode = std::fs::metadata(fixture.places.trusted()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    write(&fixture, "tools/a.clad.toml", "# b\n");
    write(&fixture, "policies/new.cedar", "");
    let changed = Project::open(&fixture.root).unwrap();
    let changes = vec!["policies/new.cedar is new".to_owned(), "tools/a.clad.toml changed".to_owned()];
    assert_eq!(changed.trust(&fixture.places).unwrap(), Trust::Changed { changes });
    changed.record_trust(&fixture.places).unwrap();
    assert_eq!(changed.trust(&fixture.places).unwrap(), Trust::Trusted);
    assert!(matches!(project.trust(&fixture.places).unwrap(), Trust::Changed { .. }));
}

#[test]
fn a_trust_record_that_others_could_have_written_is_not_believed() {
    let fixture = fixture("");
    let project = Project::open(&fixture.root).unwrap();
    project.record_trust(&fixture.places).unwrap();
    let set = |mode| {
        std::fs::set_permissions(fixture.places.trusted(), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(0o666);
    let error = project.trust(&fixture.places).unwrap_err().to_string();
    assert!(error.contains("chmod 600"), "{error}");
    set(0o600);
    assert_eq!(project.trust(&fixture.places).unwrap(), Trust::Trusted);
    std::fs::write(fixture.places.trusted(), "[[project]]\nroot = \"/\"\nextra = 1\n").unwrap();
    assert!(matches!(project.trust(&fixture.places), Err(TrustError::Damaged { .. })));
    let elsewhere = fixture.places.config.join("elsewhere");
    std::fs::rename(fixture.places.trusted(), &elsewhere).unwrap();
    symlink(&elsewhere, fixture.places.trusted()).unwrap();
    assert!(matches!(project.trust(&fixture.places), Err(TrustError::File { .. })));
    std::fs::set_permissions(&fixture.places.config, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(project.trust(&fixture.places), Err(TrustError::Place(PlaceError::Mode { .. }))));
}

#[test]
fn one_process_has_a_project_at_a_time() {
    let fixture = fixture("");
    let project = Project::open(&fixture.root).unwrap();
    let first = project.lock(&fixture.places).unwrap();
    assert!(first.is_some());
    assert!(project.lock(&fixture.places).unwrap().is_none());
    drop(first);
    assert!(project.lock(&fixture.places).unwrap().is_some());
    let state = fixture.places.project_state(&fixture.root);
    assert_eq!(std::fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(project.lock(&fixture.places), Err(LockError::Place(PlaceError::Mode { .. }))));
}

#[test]
fn a_private_directory_is_made_closed_and_never_through_a_link() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b");
    PrivateDirectory::open(&path, Privacy::Closed).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    let link = directory.path().join("link");
    symlink(&path, &link).unwrap();
    assert!(matches!(PrivateDirectory::open(&link, Privacy::Closed), Err(PlaceError::Open { .. })));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
    assert!(matches!(PrivateDirectory::open(&path, Privacy::Closed), Err(PlaceError::Mode { .. })));
    assert!(PrivateDirectory::open(&path, Privacy::Guarded).is_ok());
    if nix::unistd::geteuid().is_root() {
        let other = nix::unistd::Uid::from_raw(65_534);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        nix::unistd::chown(&path, Some(other), None).unwrap();
        assert!(matches!(PrivateDirectory::open(&path, Privacy::Closed), Err(PlaceError::Owner { .. })));
    }
}

/// The projects that `stockade demo` and `stockade init` write are themselves without a fault, and every call that
/// their agents script is one that their tools accept.
#[test]
fn the_shipped_projects_load_and_their_scripts_fit_their_tools() {
    for name in ["demo", "starter"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(name);
        let project = Project::open(&root).unwrap_or_else(|error| panic!("{name}: {error}"));
        let tools = crate::manifest::ToolSet::load(&root).unwrap_or_else(|faults| panic!("{name}: {faults}"));
        crate::policy::Policies::load(&root, &tools).unwrap_or_else(|faults| panic!("{name}: {faults}"));
        let default = project.configuration().default_agent.as_ref().unwrap();
        let Provider::Scripted { turns } = &project.agents()[default].provider;
        let calls: Vec<_> = turns.iter().flat_map(|turn| &turn.calls).collect();
        assert!(!calls.is_empty());
        for call in calls {
            let (callable, valid) = tools.validate(call).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
            for file in &valid.files.read {
                assert!(root.join(file).is_file(), "{name}: {} reads {file}", callable.name);
            }
        }
    }
}
