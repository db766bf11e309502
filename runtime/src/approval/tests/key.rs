//! The key file: its owner's alone, whole, and one, however many make it at once.

use super::*;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use tempfile::TempDir;

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys/approver");
    (folder, path)
}

fn load(path: &std::path::Path) -> Result<String, KeyError> {
    ApproverKey::load_or_create(path, "tester").map(|key| key.public())
}

#[test]
fn a_key_is_made_once_closed_to_others_and_found_again() {
    let (_folder, path) = place();
    let first = load(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(load(&path).unwrap(), first);
    // Nothing but the key stays behind.
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    assert!(
        !format!("{:?}", ApproverKey::load_or_create(&path, "x").unwrap())
            .contains(&fs::read_to_string(&path).unwrap())
    );
}

#[test]
fn many_who_make_it_at_once_have_one_key() {
    for _ in 0..10 {
        let (_folder, path) = place();
        let keys: Vec<String> = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..16).map(|_| scope.spawn(|| load(&path).unwrap())).collect();
            makers.into_iter().map(|maker| maker.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}

#[test]
fn a_key_that_others_can_reach_is_refused() {
    for mode in [0o640, 0o604, 0o660, 0o622, 0o601, 0o610] {
        let (_folder, path) = place();
        load(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        assert!(matches!(load(&path), Err(KeyError::Exposed { .. })), "{mode:o}");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        load(&path).unwrap();
    }
}

#[test]
fn a_key_of_somebody_else_is_refused() {
    let (_folder, path) = place();
    load(&path).unwrap();
    // Only root can give a file away; for others the same check is met by a file that root owns.
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        assert!(matches!(load(&path), Err(KeyError::Exposed { .. })));
    } else {
        let foreign = ApproverKey::load_or_create(std::path::Path::new("/etc/passwd"), "tester");
        assert!(matches!(foreign, Err(KeyError::Exposed { .. })), "{foreign:?}");
    }
}

#[test]
fn a_link_is_not_followed_and_a_second_name_is_refused() {
    let (folder, path) = place();
    let key = load(&path).unwrap();
    let link = folder.path().join("link");
    symlink(&path, &link).unwrap();
    assert!(matches!(load(&link), Err(KeyError::Io { .. })));
    let dangling = folder.path().join("dangling");
    symlink(folder.path().join("nowhere"), &dangling).unwrap();
    assert!(load(&dangling).is_err());
    assert!(!folder.path().join("nowhere").exists(), "a key was made through a link");

    let second = folder.path().join("second");
    fs::hard_link(&path, &second).unwrap();
    assert!(matches!(load(&path), Err(KeyError::Exposed { .. })));
    fs::remove_file(&second).unwrap();
    assert_eq!(load(&path).unwrap(), key);
}

#[test]
fn what_is_no_key_is_refused_and_left_as_it_is() {
    let digits = "0123456789abcdef".repeat(4);
    let upper = digits.to_uppercase();
    let long = format!("{digits}0");
    let bad: [&[u8]; 8] =
        [b"", b"\n", b"0123", upper.as_bytes(), long.as_bytes(), b"\xff\xfe", &[0; 4096], &digits.as_bytes()[1..]];
    for content in bad {
        let (_folder, path) = place();
        load(&path).unwrap();
        fs::write(&path, content).unwrap();
        assert!(matches!(load(&path), Err(KeyError::Malformed { .. })), "{content:?}");
        assert_eq!(fs::read(&path).unwrap(), content);
    }
    let (_folder, path) = place();
    load(&path).unwrap();
    fs::write(&path, format!("{digits}\n")).unwrap();
    load(&path).unwrap();
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let (_folder, path) = place();
    fs::create_dir_all(&path).unwrap();
    assert!(load(&path).is_err());
    let (_folder, path) = place();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // Opening it for reading would wait for a writer.
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    assert!(matches!(load(&path), Err(KeyError::Exposed { .. })));
}
