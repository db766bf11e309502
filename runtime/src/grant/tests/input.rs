//! What may be read, and what becomes of it.

use super::*;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

fn path_error(path: &str, fault: PathFault) -> GrantError {
    GrantError::Path { path: path.into(), fault }
}

fn escape(path: &str, how: Escape) -> GrantError {
    GrantError::Escape { path: path.into(), how }
}

/// What waits for another's writing, or reads a file of terabytes, takes longer on any machine.
const AT_ONCE: Duration = Duration::from_secs(10);

#[test]
fn another_spelling_of_a_path_is_refused_for_inputs_and_outputs() {
    let ground = Ground::new();
    let long = "x".repeat(256);
    let longer = vec!["d"; 2049].join("/");
    let cases = [
        ("", PathFault::Empty),
        ("/etc/passwd", PathFault::Absolute),
        ("//etc/passwd", PathFault::Absolute),
        ("../outside/secret.txt", PathFault::Parent),
        ("data/../../outside/secret.txt", PathFault::Parent),
        ("data/../data/input.csv", PathFault::Parent),
        ("data/./input.csv", PathFault::Current),
        ("./data/input.csv", PathFault::Current),
        ("data//input.csv", PathFault::EmptyPart),
        ("data/input.csv/", PathFault::EmptyPart),
        ("data/in\0put.csv", PathFault::Control),
        ("data/input.csv\n", PathFault::Control),
        ("data/\u{1b}[2Kinput.csv", PathFault::Control),
        ("data/\u{9b}input.csv", PathFault::Control),
        ("data/\u{7f}input.csv", PathFault::Control),
        ("data/\u{2028}input.csv", PathFault::Control),
        (&long, PathFault::TooLong),
        (&longer, PathFault::TooLong),
    ];
    for (path, fault) in cases {
        assert_eq!(ground.read(&[path]).unwrap_err(), path_error(path, fault), "{path:?}");
        assert_eq!(ground.create(path).unwrap_err(), path_error(path, fault), "{path:?}");
    }
    ground.read(&["data/input.csv"]).unwrap();
    ground.create("data/new.csv").unwrap();
}

#[test]
fn links_are_never_followed_wherever_they_stand() {
    let ground = Ground::new();
    symlink(ground.outside("secret.txt"), ground.at("data/absolute")).unwrap();
    symlink("../../outside/secret.txt", ground.at("data/relative")).unwrap();
    symlink("input.csv", ground.at("data/inner")).unwrap();
    symlink(ground.outside(""), ground.at("away")).unwrap();
    symlink("data", ground.at("near")).unwrap();
    symlink("/proc/self/cwd", ground.at("magic")).unwrap();
    symlink("/dev/fd/0", ground.at("data/stdin")).unwrap();
    for path in ["data/absolute", "data/relative", "data/inner", "away/secret.txt", "near/input.csv", "data/stdin"] {
        let error = ground.read(&[path]).unwrap_err();
        assert_eq!(error, escape(path, Escape::Link));
        assert!(error.is_escape_attempt());
    }
    for path in ["away/new.txt", "near/new.csv", "magic/new.csv"] {
        assert_eq!(ground.create(path).unwrap_err(), escape(path, Escape::Link));
    }
    assert!(!ground.outside("new.txt").exists());
    ground.ask(&["data/input.csv"], &["data/new.csv"]).unwrap();
}

#[test]
fn a_project_is_no_prefix_of_its_siblings() {
    let ground = Ground::new();
    let sibling = ground.base.path().join("project-evil");
    fs::create_dir(&sibling).unwrap();
    fs::write(sibling.join("input.csv"), "evil").unwrap();
    for path in ["../project-evil/input.csv", "-evil/input.csv", "data/../../project-evil/input.csv"] {
        assert!(ground.read(&[path]).is_err(), "{path}");
    }
    let other = Arc::new(ProjectRoot::open(&sibling, &[]).unwrap());
    let request = GrantRequest { read: vec!["input.csv".into()], create: vec![], max_file_bytes: 9 };
    let mut handles = Grants::prepare(&other, &request).unwrap().input_fds().unwrap();
    assert_eq!(contents(handles.remove(0)), "evil", "its own project reads it");
}

#[test]
fn magic_links_of_proc_open_nothing() {
    use std::os::fd::AsRawFd as _;
    let ground = Ground::new();
    let held = fs::File::open(ground.outside("secret.txt")).unwrap();
    let number = held.as_raw_fd();
    // /proc as a project stands for any place where such links can be had without planting one.
    for (path, how) in [
        (format!("self/fd/{number}"), Escape::Link),
        (format!("{}/fd/{number}", std::process::id()), Escape::Link),
        (format!("{}/cwd/Cargo.toml", std::process::id()), Escape::Link),
        (format!("{}/root/etc/passwd", std::process::id()), Escape::Link),
    ] {
        let root = Arc::new(ProjectRoot::open(Path::new("/proc"), &[]).unwrap());
        let request = GrantRequest { read: vec![path.clone()], create: vec![], max_file_bytes: 4096 };
        assert_eq!(Grants::prepare(&root, &request).unwrap_err(), escape(&path, how));
    }
    for path in ["/proc/self/fd/3", "/dev/fd/3", "/proc/self/cwd"] {
        assert_eq!(ground.read(&[path]).unwrap_err(), path_error(path, PathFault::Absolute));
    }
}

#[test]
fn another_mount_is_not_entered() {
    // / as a project has /proc, another mount, inside.
    let root = Arc::new(ProjectRoot::open(Path::new("/"), &[]).unwrap());
    let ask = |path: &str| {
        let request = GrantRequest { read: vec![path.into()], create: vec![], max_file_bytes: 1 << 20 };
        Grants::prepare(&root, &request)
    };
    let path = "proc/version";
    let error = ask(path).unwrap_err();
    assert_eq!(error, escape(path, Escape::Mount));
    assert!(error.is_escape_attempt());
    let proc = Arc::new(ProjectRoot::open(Path::new("/proc"), &[]).unwrap());
    let request = GrantRequest { read: vec!["version".into()], create: vec![], max_file_bytes: 4096 };
    // The control: the same file inside its own mount is reached; what then stops it is its false size of zero.
    assert_eq!(Grants::prepare(&proc, &request).unwrap_err(), GrantError::Restless { path: "version".into() });
}

#[test]
fn a_file_with_a_second_name_is_refused() {
    let ground = Ground::new();
    fs::hard_link(ground.outside("secret.txt"), ground.at("data/hard.txt")).unwrap();
    let error = ground.read(&["data/hard.txt"]).unwrap_err();
    assert_eq!(error, GrantError::HardLinked { path: "data/hard.txt".into() });
    assert!(error.is_escape_attempt());
    fs::remove_file(ground.outside("secret.txt")).unwrap();
    ground.read(&["data/hard.txt"]).unwrap();
}

#[test]
fn what_is_not_a_file_is_answered_at_once() {
    let ground = Ground::new();
    mknodat(CWD, ground.at("data/pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _socket = UnixListener::bind(ground.at("data/socket")).unwrap();
    let mut cases = vec![("data/pipe", "named pipe"), ("data/socket", "socket"), ("data", "directory")];
    // Device nodes take privilege to make; where they can be made, they are tried.
    for (name, minor) in [("data/null", 3), ("data/zero", 5)] {
        if mknodat(CWD, ground.at(name), FileType::CharacterDevice, Mode::RWXU, makedev(1, minor)).is_ok() {
            cases.push((name, "character device"));
        }
    }
    for (path, kind) in cases {
        let begun = Instant::now();
        assert_eq!(ground.read(&[path]).unwrap_err(), GrantError::Kind { path: path.into(), kind });
        assert!(begun.elapsed() < AT_ONCE, "{path}");
    }
    // Devices of the machine itself, reachable without privilege when /dev is the project.
    let devices = Arc::new(ProjectRoot::open(Path::new("/dev"), &[]).unwrap());
    for path in ["zero", "null", "full", "tty"] {
        let begun = Instant::now();
        let request = GrantRequest { read: vec![path.into()], create: vec![], max_file_bytes: 4096 };
        let expected = GrantError::Kind { path: path.into(), kind: "character device" };
        assert_eq!(Grants::prepare(&devices, &request).unwrap_err(), expected);
        assert!(begun.elapsed() < AT_ONCE, "{path}");
    }
    ground.read(&["data/input.csv"]).unwrap();
}

#[test]
fn a_huge_or_growing_file_is_read_no_further_than_its_bound() {
    let ground = Ground::new();
    let sparse = fs::File::create(ground.at("data/sparse")).unwrap();
    // As large as this file system lets a file be, up to 8 TiB.
    let size = (33..=43).rev().map(|bits| 1_u64 << bits).find(|size| sparse.set_len(*size).is_ok()).unwrap();
    assert!(size >= 1 << 33);
    let begun = Instant::now();
    let error = ground.read(&["data/sparse"]).unwrap_err();
    assert_eq!(error, GrantError::TooLarge { path: "data/sparse".into(), limit: 4096 });
    assert!(begun.elapsed() < AT_ONCE);

    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let grower = {
        let (stop, mut file) = (Arc::clone(&stop), fs::File::create(ground.at("data/growing")).unwrap());
        std::thread::spawn(move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) && file.metadata().unwrap().len() < 1 << 30 {
                file.write_all(&[b'x'; 512]).unwrap();
            }
        })
    };
    let begun = Instant::now();
    let request = GrantRequest { read: vec!["data/growing".into()], create: vec![], max_file_bytes: 1 << 20 };
    let error = loop {
        match Grants::prepare(&ground.root, &request) {
            Err(error @ GrantError::TooLarge { .. }) => break error,
            Err(GrantError::Restless { .. }) | Ok(_) => {}
            Err(other) => panic!("{other}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "it never ended");
    };
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    grower.join().unwrap();
    assert_eq!(error, GrantError::TooLarge { path: "data/growing".into(), limit: 1 << 20 });

    fs::write(ground.at("data/just"), [7; 4096]).unwrap();
    assert_eq!(ground.read(&["data/just"]).unwrap().contract().inputs[0].bytes, 4096);
    fs::write(ground.at("data/over"), [7; 4097]).unwrap();
    assert!(matches!(ground.read(&["data/over"]), Err(GrantError::TooLarge { .. })));
}

#[test]
fn a_size_that_lies_is_found_out() {
    // Files of /proc say they hold nothing and then give bytes.
    let root = Arc::new(ProjectRoot::open(Path::new("/proc"), &[]).unwrap());
    let request = GrantRequest { read: vec!["cpuinfo".into()], create: vec![], max_file_bytes: 16 };
    let error = Grants::prepare(&root, &request).unwrap_err();
    assert_eq!(error, GrantError::TooLarge { path: "cpuinfo".into(), limit: 16 });
}

#[test]
fn counts_sums_and_bounds_are_kept() {
    let ground = Ground::new();
    let names: Vec<String> = (0..33).map(|n| format!("data/{n}.csv")).collect();
    for name in &names {
        fs::write(ground.at(name), name).unwrap();
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(ground.read(&names).unwrap_err(), GrantError::TooManyInputs { count: 33, limit: 32 });
    let whole = ground.ask(&names[..32], &["out/a"]).unwrap();
    let handles = whole.input_fds().unwrap();
    assert_eq!(handles.into_iter().map(contents).collect::<Vec<_>>(), names[..32]);
    assert_eq!(ground.ask(&[], &["out/a", "out/b"]).unwrap_err(), GrantError::TooManyOutputs { count: 2 });

    let bound = |bytes| {
        let request = GrantRequest { read: vec!["data/0.csv".into()], create: vec![], max_file_bytes: bytes };
        Grants::prepare(&ground.root, &request).map(|_| ())
    };
    assert_eq!(bound(0).unwrap_err(), GrantError::Bound { bytes: 0, limit: 32 << 20 });
    assert_eq!(bound((32 << 20) + 1).unwrap_err(), GrantError::Bound { bytes: (32 << 20) + 1, limit: 32 << 20 });
    bound(32 << 20).unwrap();

    for name in ["data/big1", "data/big2"] {
        fs::File::create(ground.at(name)).unwrap().set_len((16 << 20) + 1).unwrap();
    }
    let both = |size: u64| {
        fs::File::options().write(true).open(ground.at("data/big2")).unwrap().set_len(size).unwrap();
        let request = GrantRequest {
            read: vec!["data/big1".into(), "data/big2".into()],
            create: vec![],
            max_file_bytes: 32 << 20,
        };
        Grants::prepare(&ground.root, &request).map(|_| ())
    };
    let over = GrantError::TotalTooLarge { path: "data/big2".into(), limit: 32 << 20 };
    assert_eq!(both(16 << 20).unwrap_err(), over);
    both((16 << 20) - 1).unwrap();
    assert_eq!(ground.ask(&[], &[]).unwrap().contract(), stockade_protocol::contract::FileContract::default());
}

#[test]
fn a_file_is_named_once() {
    let ground = Ground::new();
    let twin = |path: &str, other: &str| GrantError::Twin { path: path.into(), other: other.into() };
    fs::write(ground.at("data/INPUT.csv"), "other").unwrap();
    fs::write(ground.at("data/ſ.csv"), "long s").unwrap();
    fs::write(ground.at("data/s.csv"), "s").unwrap();
    for (path, other) in [
        ("data/input.csv", "data/input.csv"),
        ("data/INPUT.csv", "data/input.csv"),
        ("data/in\u{200d}put.csv", "data/input.csv"),
        ("data/input.csv.", "data/input.csv"),
        ("data/ſ.csv", "data/s.csv"),
        ("data/\u{212a}.csv", "data/k.csv"),
    ] {
        assert_eq!(ground.read(&[other, path]).unwrap_err(), twin(path, other), "{path}");
        assert_eq!(ground.ask(&[other], &[path]).unwrap_err(), twin(path, other), "{path}");
    }
    ground.read(&["data/INPUT.csv"]).unwrap();
    ground.read(&["data/s.csv", "data/input.csv"]).unwrap();
    // Two names of one inode at once are hard links; two names one after the other are a rename between two reads.
    fs::hard_link(ground.at("data/s.csv"), ground.at("data/t.csv")).unwrap();
    assert!(matches!(ground.read(&["data/s.csv", "data/t.csv"]), Err(GrantError::HardLinked { .. })));
    fs::remove_file(ground.at("data/t.csv")).unwrap();
    let take = |path: &str| {
        let path = super::super::path::GrantPath::parse(path).unwrap();
        super::super::snapshot::Snapshot::take(&ground.root, path, 4096, 4096).unwrap()
    };
    let first = take("data/s.csv");
    fs::rename(ground.at("data/s.csv"), ground.at("data/t.csv")).unwrap();
    let refuse = |second: &str| super::super::prepared::refuse_second_name(std::slice::from_ref(&first), &take(second));
    assert_eq!(refuse("data/t.csv").unwrap_err(), twin("data/t.csv", "data/s.csv"));
    refuse("data/input.csv").unwrap();
}

#[test]
fn control_files_and_places_of_stockade_are_closed() {
    let ground = Ground::new();
    fs::create_dir_all(ground.at("sub/tools")).unwrap();
    fs::create_dir_all(ground.at("sub/.git")).unwrap();
    fs::create_dir_all(ground.at("plain/tools")).unwrap();
    for name in ["sub/stockade.toml", "sub/tools/a", "sub/.git/config", "sub/a", "plain/tools/a", "toolclad.toml"] {
        fs::write(ground.at(name), "x").unwrap();
    }
    for path in [
        "stockade.toml",
        "toolclad.toml",
        "tools/report.clad.toml",
        "policies/a.cedar",
        "scope/scope.toml",
        "agents/a.toml",
        ".git/config",
        ".stockade/a",
        "STOCKADE.toml",
        "Tools/report.clad.toml",
        ".GIT/config",
        ".g\u{200c}it/config",
        ".git./config",
        "tool\u{17f}/report.clad.toml",
        "sub/stockade.toml",
        "sub/.git/config",
        "sub/tools/a",
        "data/.stockade-publish-1-1",
    ] {
        for error in [ground.read(&[path]).unwrap_err(), ground.create(path).unwrap_err()] {
            assert!(matches!(error, GrantError::Protected { .. }), "{path}: {error}");
            assert!(error.is_escape_attempt());
        }
    }
    assert!(matches!(ground.create("tools"), Err(GrantError::Protected { .. })));
    assert!(matches!(ground.create("sub/tools/new.clad.toml"), Err(GrantError::Protected { .. })));
    ground.ask(&["sub/a", "plain/tools/a"], &["plain/tools/new"]).unwrap();
}

#[test]
fn a_closed_entry_is_known_by_what_it_is() {
    let ground = Ground::new();
    // A control file under a second name, and stockade's state moved into the project under an innocent one.
    fs::hard_link(ground.at("stockade.toml"), ground.at("notes.txt")).unwrap();
    assert!(matches!(ground.read(&["notes.txt"]), Err(GrantError::Protected { .. })));
    fs::write(ground.base.path().join("state/journal.key"), "key").unwrap();
    fs::rename(ground.base.path().join("state"), ground.at("data/harmless")).unwrap();
    for error in
        [ground.read(&["data/harmless/journal.key"]).unwrap_err(), ground.create("data/harmless/new").unwrap_err()]
    {
        assert!(matches!(error, GrantError::Protected { .. }), "{error}");
    }
    fs::rename(ground.at("data/harmless"), ground.base.path().join("state")).unwrap();
    fs::create_dir(ground.at("data/harmless")).unwrap();
    ground.create("data/harmless/new").unwrap();
}

#[test]
fn a_root_and_its_ceilings_must_be_what_they_seem() {
    let ground = Ground::new();
    let base = ground.base.path();
    let open = |root: &Path, ceiling: &Path| ProjectRoot::open(root, &[ceiling]).map(|_| ());
    let project = ground.at("");
    open(&project, &base.join("state")).unwrap();
    symlink(base.join("state"), base.join("link")).unwrap();
    for bad in [Path::new("state"), &base.join("absent"), &base.join("link"), &base.join("outside/secret.txt")] {
        assert!(matches!(open(&project, bad), Err(GrantError::Ceiling { .. })), "{}", bad.display());
    }
    fs::create_dir(base.join("state/inside")).unwrap();
    for (root, ceiling) in [
        (base.join("state/inside"), base.join("state")),
        (base.join("state"), base.join("state")),
        (base.join("absent"), base.join("state")),
        (base.join("outside/secret.txt"), base.join("state")),
    ] {
        assert!(matches!(open(&root, &ceiling), Err(GrantError::Root { .. })), "{}", root.display());
    }
}

#[test]
fn a_snapshot_stays_what_it_was_and_its_origin_must() {
    let ground = Ground::new();
    let input = ground.at("data/input.csv");
    type Change<'a> = &'a dyn Fn();
    let original = "a,b\n1,2\n";
    let changes: [(&str, Change<'_>); 7] = [
        ("same length", &|| fs::write(&input, "a,b\n9,9\n").unwrap()),
        ("longer", &|| fs::write(&input, "a,b\n1,2\n3,4\n").unwrap()),
        ("shorter", &|| fs::write(&input, "").unwrap()),
        ("replaced by the same bytes", &|| {
            fs::write(ground.at("data/copy"), original).unwrap();
            fs::rename(ground.at("data/copy"), &input).unwrap();
        }),
        ("removed", &|| fs::remove_file(&input).unwrap()),
        ("a link to the same bytes", &|| {
            fs::rename(&input, ground.at("data/moved")).unwrap();
            symlink("moved", &input).unwrap();
        }),
        ("a directory", &|| {
            fs::remove_file(&input).unwrap();
            fs::create_dir(&input).unwrap();
        }),
    ];
    for (what, change) in changes {
        let prepared = ground.read(&["data/input.csv"]).unwrap();
        prepared.recheck().unwrap();
        change();
        let error = prepared.recheck().unwrap_err();
        assert!(matches!(error, GrantError::Stale(_)), "{what}: {error}");
        assert_eq!(error.refusal().code, stockade_protocol::refusal::RefusalCode::Stale, "{what}");
        assert_eq!(contents(prepared.input_fds().unwrap().remove(0)), original, "{what}");
        if input.is_dir() { fs::remove_dir(&input) } else { fs::remove_file(&input).or(Ok(())) }.unwrap();
        fs::write(&input, original).unwrap();
    }
    let prepared = ground.read(&["data/input.csv"]).unwrap();
    fs::set_permissions(&input, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    prepared.recheck().expect("a changed mode changes no byte");
}

#[test]
fn a_snapshot_cannot_be_written_grown_cut_or_unsealed() {
    use rustix::fs::{OFlags, SealFlags};
    use rustix::io::Errno;
    use std::os::fd::AsRawFd as _;
    let ground = Ground::new();
    let prepared = ground.read(&["data/input.csv"]).unwrap();
    let handle = prepared.input_fds().unwrap().remove(0);
    assert_eq!(rustix::io::write(&handle, b"x"), Err(Errno::BADF));
    // Even opened anew for writing, as its owner could.
    let again = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    let writable = fs::set_permissions(&again, mode)
        .and_then(|()| Ok(rustix::fs::open(&again, OFlags::RDWR, Mode::empty())?))
        .unwrap();
    assert_eq!(rustix::io::pwrite(&writable, b"x", 0), Err(Errno::PERM));
    assert_eq!(rustix::io::pwrite(&writable, b"x", 1 << 20), Err(Errno::PERM));
    assert_eq!(rustix::fs::ftruncate(&writable, 1), Err(Errno::PERM));
    assert_eq!(rustix::fs::ftruncate(&writable, 1 << 20), Err(Errno::PERM));
    assert_eq!(rustix::fs::fcntl_add_seals(&writable, SealFlags::FUTURE_WRITE), Err(Errno::PERM));
    assert_eq!(contents(handle), "a,b\n1,2\n");
    assert_eq!(fs::metadata(ground.at("data/input.csv")).unwrap().nlink(), 1);
}

#[test]
fn a_file_that_is_written_to_while_it_is_read_is_refused() {
    use std::os::unix::fs::FileExt as _;
    use std::sync::atomic::{AtomicBool, Ordering};
    let ground = Ground::new();
    // Large enough that the clock of the file system moves while it is copied; its size stays the same.
    const BYTES: usize = 4 << 20;
    fs::write(ground.at("data/busy"), vec![b'a'; BYTES]).unwrap();
    let request = GrantRequest { read: vec!["data/busy".into()], create: vec![], max_file_bytes: 8 << 20 };
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (stop, path) = (Arc::clone(&stop), ground.at("data/busy"));
        let file = fs::File::options().write(true).open(path).unwrap();
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                file.write_all_at(b"bbbb", 4096).unwrap();
            }
        })
    };
    let refused = (0..100).find_map(|_| Grants::prepare(&ground.root, &request).err());
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    assert_eq!(refused, Some(GrantError::Restless { path: "data/busy".into() }));
    Grants::prepare(&ground.root, &request).unwrap();
}
