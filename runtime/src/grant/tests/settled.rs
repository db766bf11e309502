//! What a later start makes of a publication that was cut off.

use super::*;
use std::os::unix::fs::MetadataExt as _;

/// Stages one output; the intent is what a journal would have kept.
fn staging(ground: &Ground) -> (Candidate, stockade_protocol::event::PublicationIntent) {
    let candidate = ground.create("out/report.csv").unwrap().stage(staged(b"total\n")).unwrap();
    let intent = candidate.intent();
    (candidate, intent)
}

/// The project as a later start opens it.
fn reopened(ground: &Ground) -> ProjectRoot {
    ProjectRoot::open(&ground.at(""), &[&ground.base.path().join("state")]).unwrap()
}

fn is_in_doubt(found: &Reconciliation) -> bool {
    matches!(found, Reconciliation::InDoubt { why } if !why.is_empty())
}

#[test]
fn a_crash_before_publication_is_discarded_and_one_after_is_published() {
    let ground = Ground::new();
    let (candidate, intent) = staging(&ground);
    assert_eq!(reconcile(&reopened(&ground), &intent), Reconciliation::Discarded);
    let file = candidate.publish().unwrap();
    for _ in 0..2 {
        let found = reconcile(&reopened(&ground), &intent);
        assert_eq!(found.word(), "published");
        assert_eq!(found, Reconciliation::Published(file.clone()));
    }
    assert_eq!(fs::read(ground.at("out/report.csv")).unwrap(), b"total\n");
}

#[test]
fn an_intent_survives_the_journal() {
    let ground = Ground::new();
    let (candidate, intent) = staging(&ground);
    let bytes = crate::canon::to_bytes(&intent).unwrap();
    let back = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(intent, back);
    candidate.publish().unwrap();
    assert_eq!(reconcile(&reopened(&ground), &back).word(), "published");
}

#[test]
fn anything_else_is_in_doubt_and_left_as_it_is() {
    let ground = Ground::new();
    let target = ground.at("out/report.csv");
    type Change<'a> = &'a dyn Fn();
    let changes: [(&str, Change<'_>); 6] = [
        ("same size, other bytes", &|| fs::write(&target, "TOTAL\n").unwrap()),
        ("more bytes", &|| fs::write(&target, "total\nmore\n").unwrap()),
        ("fewer bytes", &|| fs::write(&target, "tot").unwrap()),
        ("another file with the same bytes", &|| {
            fs::write(ground.at("out/copy"), "total\n").unwrap();
            fs::rename(ground.at("out/copy"), &target).unwrap();
        }),
        ("a link to the published file", &|| {
            fs::rename(&target, ground.at("moved")).unwrap();
            std::os::unix::fs::symlink("../moved", &target).unwrap();
        }),
        ("a directory", &|| {
            fs::remove_file(&target).unwrap();
            fs::create_dir(&target).unwrap();
        }),
    ];
    for (what, change) in changes {
        let (candidate, intent) = staging(&ground);
        candidate.publish().unwrap();
        change();
        let before = fs::symlink_metadata(&target).unwrap();
        let found = reconcile(&reopened(&ground), &intent);
        assert!(is_in_doubt(&found), "{what}: {found:?}");
        assert_eq!(found.word(), "in_doubt");
        assert_eq!(fs::symlink_metadata(&target).unwrap().ino(), before.ino(), "{what}");
        if before.is_dir() { fs::remove_dir(&target) } else { fs::remove_file(&target) }.unwrap();
    }
}

#[test]
fn a_moved_directory_or_project_is_in_doubt() {
    let ground = Ground::new();
    let (candidate, intent) = staging(&ground);
    candidate.publish().unwrap();
    fs::rename(ground.at("out"), ground.at("moved")).unwrap();
    assert!(is_in_doubt(&reconcile(&reopened(&ground), &intent)), "its directory is gone");
    fs::create_dir(ground.at("out")).unwrap();
    assert!(is_in_doubt(&reconcile(&reopened(&ground), &intent)), "another directory is there, and it is empty");
    fs::remove_dir(ground.at("out")).unwrap();
    fs::rename(ground.at("moved"), ground.at("out")).unwrap();
    assert_eq!(reconcile(&reopened(&ground), &intent).word(), "published");

    let elsewhere = ground.base.path().join("elsewhere");
    fs::rename(ground.at(""), &elsewhere).unwrap();
    assert!(is_in_doubt(&reconcile(&ground.root, &intent)), "the held root was moved");
    let moved = ProjectRoot::open(&elsewhere, &[]).unwrap();
    assert!(is_in_doubt(&reconcile(&moved, &intent)), "the receipt would name another path");
    assert!(elsewhere.join("out/report.csv").exists());
}

#[test]
fn a_forged_intent_reaches_nothing() {
    let ground = Ground::new();
    let (candidate, good) = staging(&ground);
    candidate.publish().unwrap();
    let secret = fs::metadata(ground.outside("secret.txt")).unwrap();
    for path in ["../outside/secret.txt", "/etc/passwd", "tools/report.clad.toml", ".git/config", "stockade.toml"] {
        let mut forged = good.clone();
        forged.path = path.to_owned();
        forged.host_path = ground.at(path).to_string_lossy().into_owned();
        assert!(is_in_doubt(&reconcile(&ground.root, &forged)), "{path}");
    }
    // With this directory there, a name that only begins as the broker's would lead up and out.
    fs::create_dir(ground.at("out/.stockade-publish-")).unwrap();
    for temporary in ["../../outside/secret.txt", ".stockade-publish-/../../../outside/secret.txt", "report.csv"] {
        let mut forged = good.clone();
        fs::rename(ground.at("out/report.csv"), ground.at("out/aside")).unwrap();
        forged.temporary = Some(temporary.to_owned());
        (forged.device, forged.inode) = (secret.dev(), secret.ino());
        assert_eq!(reconcile(&ground.root, &forged), Reconciliation::Discarded);
        fs::rename(ground.at("out/aside"), ground.at("out/report.csv")).unwrap();
    }
    assert!(ground.outside("secret.txt").exists());
    assert_eq!(reconcile(&ground.root, &good).word(), "published");
}
