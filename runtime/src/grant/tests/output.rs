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
