//! What may appear in the project, and how.

use super::*;
use std::os::unix::fs::MetadataExt as _;

#[test]
fn a_grant_goes_its_whole_way() {
    let ground = Ground::new();
    let prepared = ground.ask(&["data/input.csv"], &["out/report.csv"]).unwrap();
    let contract = prepared.contract();
    assert_eq!(contract.inputs[0].path, "data/input.csv");
    assert_eq!(contract.inputs[0].bytes, 8);
    assert_eq!(contract.inputs[0].sha256, Digest::of("a,b\n1,2\n"));
    let output = contract.output.unwrap();
    let parent = fs::metadata(ground.at("out")).unwrap();
    assert_eq!((output.parent_device, output.parent_inode), (parent.dev(), parent.ino()));
    for _ in 0..2 {
        let handles = prepared.input_fds().unwrap();
        assert_eq!(handles.into_iter().map(contents).collect::<Vec<_>>(), ["a,b\n1,2\n"]);
    }
    prepared.recheck().unwrap();

    let candidate = prepared.stage(staged(b"total\n3\n")).unwrap();
    let intent = candidate.intent();
    assert_eq!(ground.strays(), [""; 0], "nothing is visible before publication");
    assert_eq!(reconcile(&ground.root, &intent), Reconciliation::Discarded);
    let file = candidate.publish().unwrap();
    assert_eq!(file.path, "out/report.csv");
    assert_eq!(Path::new(&file.host_path), ground.at("out/report.csv").canonicalize().unwrap());
    assert_eq!(file.sha256, Digest::of("total\n3\n"));
    assert_eq!(fs::read(ground.at("out/report.csv")).unwrap(), b"total\n3\n");
    let there = fs::metadata(&file.host_path).unwrap();
    assert_eq!((there.dev(), there.ino(), there.nlink()), (intent.device, intent.inode, 1));
    assert_eq!(there.mode() & 0o7777, 0o644);
    assert_eq!(ground.strays(), ["report.csv"]);
    assert_eq!(reconcile(&ground.root, &intent), Reconciliation::Published(file));
}

#[test]
fn nothing_that_exists_is_overwritten_or_followed() {
    let ground = Ground::new();
    let exists = || GrantError::Exists { path: "out/report.csv".into() };
    let target = ground.at("out/report.csv");
    type Put<'a> = &'a dyn Fn();
    let puts: [(&str, Put<'_>); 4] = [
        ("file", &|| fs::write(&target, "mine").unwrap()),
        ("directory", &|| fs::create_dir(&target).unwrap()),
        ("dangling link", &|| std::os::unix::fs::symlink(ground.outside("new.txt"), &target).unwrap()),
        ("link", &|| std::os::unix::fs::symlink(ground.outside("secret.txt"), &target).unwrap()),
    ];
    for (what, put) in puts {
        // Before preparation, between preparation and dispatch, and at the very last moment.
        let prepared = ground.create("out/report.csv").unwrap();
        let candidate = prepared.stage(staged(b"x")).unwrap();
        let intent = candidate.intent();
        put();
        assert_eq!(ground.create("out/report.csv").unwrap_err(), exists(), "{what}");
        assert_eq!(inner(prepared.recheck().unwrap_err()), exists(), "{what}");
        assert_eq!(candidate.publish().unwrap_err(), GrantError::Unpublished(Box::new(exists())), "{what}");
        assert!(matches!(reconcile(&ground.root, &intent), Reconciliation::InDoubt { .. }), "{what}");
        if what == "file" {
            assert_eq!(fs::read(&target).unwrap(), b"mine");
        }
        if target.is_dir() && !target.is_symlink() { fs::remove_dir(&target) } else { fs::remove_file(&target) }
            .unwrap();
    }
    assert!(!ground.outside("new.txt").exists());
    assert_eq!(fs::read(ground.outside("secret.txt")).unwrap(), b"secret\n");
    assert_eq!(ground.strays(), [""; 0]);
    ground.create("out/report.csv").unwrap().stage(staged(b"x")).unwrap().publish().unwrap();
}

#[test]
fn a_directory_that_was_replaced_gets_nothing() {
    let ground = Ground::new();
    let out = ground.at("out");
    let aside = ground.at("aside");
    type Change<'a> = &'a dyn Fn();
    let changes: [(&str, Change<'_>); 5] = [
        ("another directory", &|| fs::create_dir(&out).unwrap()),
        ("a link to the outside", &|| std::os::unix::fs::symlink(ground.outside(""), &out).unwrap()),
        ("a link to the very directory", &|| std::os::unix::fs::symlink("aside", &out).unwrap()),
        ("a file", &|| fs::write(&out, "").unwrap()),
        ("nothing", &|| {}),
    ];
    for (what, change) in changes {
        let prepared = ground.create("out/report.csv").unwrap();
        let candidate = prepared.stage(staged(b"x")).unwrap();
        let intent = candidate.intent();
        fs::rename(&out, &aside).unwrap();
        change();
        assert!(matches!(prepared.recheck(), Err(GrantError::Stale(_))), "{what}");
        let error = candidate.publish().unwrap_err();
        assert!(
            matches!(&error, GrantError::Unpublished(inner) if matches!(**inner, GrantError::Changed { .. })),
            "{what}: {error}"
        );
        assert_eq!(fs::read_dir(&aside).unwrap().count(), 0, "{what}");
        assert!(!ground.outside("report.csv").exists(), "{what}");
        assert!(matches!(reconcile(&ground.root, &intent), Reconciliation::InDoubt { .. }), "{what}");
        if out.is_dir() && !out.is_symlink() {
            fs::remove_dir(&out).unwrap();
        } else if fs::symlink_metadata(&out).is_ok() {
            fs::remove_file(&out).unwrap();
        }
        fs::rename(&aside, &out).unwrap();
        assert_eq!(reconcile(&ground.root, &intent), Reconciliation::Discarded, "{what}");
    }
    let prepared = ground.create("out/report.csv").unwrap();
    fs::rename(&out, &aside).unwrap();
    fs::rename(&aside, &out).unwrap();
    prepared.recheck().expect("the same directory at the same path is no change");
    prepared.stage(staged(b"x")).unwrap().publish().unwrap();
}

#[test]
fn a_directory_replaced_at_the_very_moment_does_not_keep_the_file() {
    let ground = Ground::new();
    let (out, aside) = (ground.at("out"), ground.at("aside"));
    let candidate = ground.create("out/report.csv").unwrap().stage(staged(b"x")).unwrap();
    let intent = candidate.intent();
    candidate.check().unwrap();
    candidate.appear().unwrap();
    fs::rename(&out, &aside).unwrap();
    fs::create_dir(&out).unwrap();
    assert!(aside.join("report.csv").exists());
    let error = candidate.confirm().unwrap_err();
    assert!(matches!(error, GrantError::Changed { .. }));
    assert!(matches!(candidate.withdraw(error), GrantError::Unpublished(_)));
    assert_eq!(fs::read_dir(&aside).unwrap().count(), 0);
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
    assert!(matches!(reconcile(&ground.root, &intent), Reconciliation::InDoubt { .. }));
}

#[test]
fn a_file_replaced_at_the_very_moment_is_not_taken_for_ours() {
    let ground = Ground::new();
    let target = ground.at("out/report.csv");
    let candidate = ground.create("out/report.csv").unwrap().stage(staged(b"ours")).unwrap();
    candidate.check().unwrap();
    candidate.appear().unwrap();
    candidate.confirm().unwrap();
    fs::write(ground.at("out/theirs"), "theirs").unwrap();
    fs::rename(ground.at("out/theirs"), &target).unwrap();
    let error = candidate.confirm().unwrap_err();
    assert!(matches!(candidate.withdraw(error), GrantError::InDoubt(_)));
    assert_eq!(fs::read(&target).unwrap(), b"theirs", "what is not ours is back where it was");
    assert_eq!(ground.strays(), ["report.csv"]);
}

#[test]
fn a_project_that_was_replaced_gets_nothing() {
    let ground = Ground::new();
    let (project, aside) = (ground.base.path().join("project"), ground.base.path().join("aside"));
    let prepared = ground.ask(&["data/input.csv"], &["out/report.csv"]).unwrap();
    let candidate = prepared.stage(staged(b"x")).unwrap();
    fs::rename(&project, &aside).unwrap();
    fs::create_dir_all(project.join("out")).unwrap();
    assert!(matches!(ground.create("out/b.csv"), Err(GrantError::Changed { .. })));
    assert!(matches!(prepared.recheck(), Err(GrantError::Stale(_))));
    assert!(matches!(candidate.publish(), Err(GrantError::Unpublished(_))));
    assert_eq!(fs::read_dir(project.join("out")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(aside.join("out")).unwrap().count(), 0);
    fs::remove_dir_all(&project).unwrap();
    fs::rename(&aside, &project).unwrap();
    prepared.recheck().unwrap();
    prepared.stage(staged(b"x")).unwrap().publish().unwrap();
}

#[test]
fn a_directory_that_strangers_can_rearrange_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let ground = Ground::new();
    let set = |mode| fs::set_permissions(ground.at("out"), fs::Permissions::from_mode(mode)).unwrap();
    set(0o777);
    assert!(matches!(ground.create("out/a"), Err(GrantError::Directory { .. })));
    for mode in [0o1777, 0o775, 0o700] {
        set(mode);
        ground.create("out/a").unwrap();
    }
    assert!(matches!(ground.create("absent/a"), Err(GrantError::Missing { .. })));
    assert!(matches!(ground.create("data/input.csv/a"), Err(GrantError::NotDirectory { .. })));
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(ground.at("out"), Some(12345), None).unwrap();
        assert!(matches!(ground.create("out/a"), Err(GrantError::Directory { .. })));
    } else {
        set(0o500);
        assert!(matches!(ground.create("out/a"), Err(GrantError::Io { .. })));
        set(0o700);
    }
}

#[test]
fn only_bytes_are_published() {
    use rustix::fs::XattrFlags;
    use std::os::unix::fs::PermissionsExt as _;
    let ground = Ground::new();
    let evil = ground.base.path().join("evil");
    fs::write(&evil, "bytes").unwrap();
    fs::set_permissions(&evil, fs::Permissions::from_mode(0o6777)).unwrap();
    rustix::fs::setxattr(&evil, c"user.evil", b"1", XattrFlags::empty()).unwrap();
    // An access list that new entries of the directory inherit: user 12345 may do everything.
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, id) in [(0x01_u16, u32::MAX), (0x02, 12345), (0x04, u32::MAX), (0x10, u32::MAX), (0x20, u32::MAX)] {
        list.extend(tag.to_le_bytes());
        list.extend(7_u16.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    rustix::fs::setxattr(ground.at("out"), c"system.posix_acl_default", &list, XattrFlags::empty()).unwrap();
    let attributes = |path: &Path| {
        let mut names = [0_u8; 1024];
        let length = rustix::fs::listxattr(path, &mut names).unwrap();
        String::from_utf8_lossy(&names[..length]).into_owned()
    };
    fs::write(ground.at("out/control"), "").unwrap();
    assert!(attributes(&ground.at("out/control")).contains("posix_acl_access"), "the directory hands its list on");
    fs::remove_file(ground.at("out/control")).unwrap();

    let prepared = ground.create("out/report.csv").unwrap();
    let file = prepared.stage(fs::File::open(&evil).unwrap().into()).unwrap().publish().unwrap();
    let there = fs::metadata(&file.host_path).unwrap();
    assert_eq!(there.mode() & 0o7777, 0o644);
    assert_eq!(there.uid(), rustix::process::geteuid().as_raw());
    assert!(!attributes(Path::new(&file.host_path)).contains("evil"));
    assert!(!attributes(Path::new(&file.host_path)).contains("acl"));
    assert_eq!(fs::read(&file.host_path).unwrap(), b"bytes");
}

#[test]
fn what_is_not_a_file_of_the_right_size_is_not_staged() {
    use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
    let ground = Ground::new();
    let prepared = ground.create("out/report.csv").unwrap();
    let path = || "out/report.csv".to_owned();
    let fault = |fd: OwnedFd| inner(prepared.stage(fd).unwrap_err());
    let open = |path: &Path, flags| rustix::fs::open(path, flags, Mode::empty()).unwrap();

    std::os::unix::fs::symlink(ground.outside("secret.txt"), ground.outside("link")).unwrap();
    mknodat(CWD, ground.outside("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let kind = |kind| GrantError::Kind { path: path(), kind };
    assert_eq!(fault(open(&ground.outside("link"), OFlags::PATH | OFlags::NOFOLLOW)), kind("symbolic link"));
    assert_eq!(fault(open(&ground.outside("pipe"), OFlags::RDWR | OFlags::NONBLOCK)), kind("named pipe"));
    assert_eq!(fault(open(Path::new("/dev/zero"), OFlags::RDONLY)), kind("character device"));
    assert_eq!(fault(open(&ground.outside(""), OFlags::RDONLY)), kind("directory"));
    assert_eq!(fault(std::os::unix::net::UnixStream::pair().unwrap().0.into()), kind("socket"));

    assert_eq!(fault(staged(b"")), GrantError::Empty { path: path() });
    let too_large = GrantError::TooLarge { path: path(), limit: 4096 };
    assert_eq!(fault(staged(&[1; 4097])), too_large);
    let sparse = tempfile::tempfile().unwrap();
    sparse.set_len(1 << 40).unwrap();
    assert_eq!(fault(sparse.into()), too_large);
    let unreadable = ground.outside("unreadable");
    fs::write(&unreadable, "x").unwrap();
    assert!(matches!(fault(open(&unreadable, OFlags::WRONLY)), GrantError::Io { .. }));
    let none = ground.read(&["data/input.csv"]).unwrap();
    assert!(!none.has_output());
    assert_eq!(inner(none.stage(staged(b"x")).unwrap_err()), GrantError::NoOutput);
    assert_eq!(ground.strays(), [""; 0]);

    // Holes are bytes too, the offset of the handle means nothing, and the bound itself is allowed.
    let mut holes = tempfile::tempfile().unwrap();
    holes.set_len(4096).unwrap();
    holes.seek(std::io::SeekFrom::End(0)).unwrap();
    assert!(prepared.has_output());
    let file = prepared.stage(holes.into()).unwrap().publish().unwrap();
    assert_eq!(fs::read(&file.host_path).unwrap(), [0; 4096]);
    assert_eq!(file.sha256, Digest::of([0; 4096]));
}

#[test]
fn what_is_published_is_what_was_hashed_even_from_a_file_that_moves() {
    use std::os::unix::fs::FileExt as _;
    use std::sync::atomic::{AtomicBool, Ordering};
    let ground = Ground::new();
    // Large enough that the clock of the file system moves while it is copied.
    const BYTES: usize = 4 << 20;
    let file = Arc::new(tempfile::tempfile().unwrap());
    file.write_all_at(&vec![b'a'; BYTES], 0).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (file, stop) = (Arc::clone(&file), Arc::clone(&stop));
        std::thread::spawn(move || {
            let (mut at, mut byte) = (0, b'a');
            while !stop.load(Ordering::Relaxed) {
                (at, byte) = ((at + 65_536) % BYTES, if byte == b'z' { b'a' } else { byte + 1 });
                file.write_all_at(&[byte; 4096], at as u64).unwrap();
            }
        })
    };
    let (mut published, mut refused) = (0, 0);
    for round in 0..30 {
        let name = format!("out/{round}");
        let request = GrantRequest { read: vec![], create: vec![name.clone()], max_file_bytes: 8 << 20 };
        let prepared = Grants::prepare(&ground.root, &request).unwrap();
        match prepared.stage(file.try_clone().unwrap().into()) {
            Ok(candidate) => {
                let file = candidate.publish().unwrap();
                assert_eq!(Digest::of(fs::read(file.host_path).unwrap()), file.sha256);
                published += 1;
            }
            Err(error) => {
                assert_eq!(inner(error), GrantError::Restless { path: name });
                refused += 1;
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    assert!(refused > 0);
    assert_eq!(fs::read_dir(ground.at("out")).unwrap().count(), published);
}

#[test]
fn a_staged_copy_that_was_changed_is_not_published() {
    use std::os::fd::AsRawFd as _;
    let ground = Ground::new();
    let candidate = ground.create("out/report.csv").unwrap().stage(staged(b"agreed")).unwrap();
    // Another process of the same user can reach the nameless copy through this process's table of files.
    let path = format!("/proc/self/fd/{}", candidate.file_for_test().as_raw_fd());
    fs::write(path, "forged").unwrap();
    let error = candidate.publish().unwrap_err();
    assert!(matches!(inner(error), GrantError::Changed { .. }));
    assert_eq!(ground.strays(), [""; 0]);
}

#[test]
fn a_refusal_says_who_why_and_what_next_and_shows_what_is_hidden() {
    use stockade_protocol::refusal::{Authority, RefusalCode};
    let ground = Ground::new();
    let refusal = ground.read(&["data/\u{202e}vsc.tupni"]).unwrap_err().refusal();
    assert_eq!((refusal.code, refusal.authority), (RefusalCode::Unavailable, Authority::Grant));
    assert_eq!(refusal.rule.as_deref(), Some("data/\u{202e}vsc.tupni"));
    assert!(refusal.reason.contains("\\u{202E}"), "{}", refusal.reason);
    assert!(!refusal.next.is_empty());
    let code = |error: GrantError| error.refusal().code;
    assert_eq!(code(ground.read(&["../x"]).unwrap_err()), RefusalCode::Invalid);
    assert_eq!(code(ground.create("data/input.csv").unwrap_err()), RefusalCode::Invalid);
    let prepared = ground.create("out/a").unwrap();
    assert_eq!(code(prepared.stage(staged(b"")).unwrap_err()), RefusalCode::Unpublished);
    fs::write(ground.at("out/a"), "").unwrap();
    assert_eq!(code(prepared.recheck().unwrap_err()), RefusalCode::Stale);
}
