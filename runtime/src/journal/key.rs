//! The journal's private key: an Ed25519 seed in a file of its own, beside the journal and never in it.

use super::error::JournalError;
use super::files::Dir;
use crate::ports::Ports;
use ed25519_dalek::SigningKey;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use stockade_protocol::digest::{parse_hex, to_hex};

/// Loads the key at `path`; makes one when there is none and `create` allows it.
///
/// The file is 64 lower-case hex digits and a line end. It must be a regular file of this user with mode 0600 and one
/// name; anything else is refused, never repaired.
pub(super) fn load(path: &Path, create: bool, ports: &Ports) -> Result<SigningKey, JournalError> {
    let refuse = |why: &str| JournalError::Key { path: path.to_owned(), why: why.to_owned() };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(rustix::io::Errno::NOENT) if create => return make(path, ports),
        Err(rustix::io::Errno::NOENT) => {
            return Err(refuse("it is not there, but the journal was made with one; restore it"));
        }
        Err(rustix::io::Errno::LOOP) => return Err(refuse("it is a symbolic link; put the file itself there")),
        Err(error) => return Err(JournalError::io(format!("open the key {}", path.display()))(error.into())),
    };
    let stat = rustix::fs::fstat(&file)
        .map_err(|error| JournalError::io(format!("look at the key {}", path.display()))(error.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(refuse("it is not a regular file"));
    }
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(refuse("it belongs to another user"));
    }
    if stat.st_mode & 0o7777 != 0o600 {
        return Err(refuse("its mode is not 0600; another user may have read it"));
    }
    if stat.st_nlink != 1 {
        return Err(refuse("it has more than one name; remove the others"));
    }
    let mut text = String::new();
    file.take(256).read_to_string(&mut text).map_err(|_ignored| refuse("it is not 64 hex digits and a line end"))?;
    let seed = text.strip_suffix('\n').and_then(parse_hex::<32>);
    seed.map(|seed| SigningKey::from_bytes(&seed)).ok_or_else(|| refuse("it is not 64 hex digits and a line end"))
}

/// Where the key that is to come waits: in the same directory, so that it can take the place of the one in force.
fn next_path(path: &Path) -> PathBuf {
    let mut next = path.to_owned().into_os_string();
    next.push(".next");
    next.into()
}

/// Makes the key that is to replace the one at `path`, durable beside it.
pub(super) fn make_next(path: &Path, ports: &Ports) -> Result<SigningKey, JournalError> {
    make(&next_path(path), ports)
}

/// Loads the key that was to replace the one at `path`, if one waits.
pub(super) fn load_next(path: &Path, ports: &Ports) -> Result<Option<SigningKey>, JournalError> {
    let next = next_path(path);
    if next.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Ok(None);
    }
    load(&next, false, ports).map(Some)
}

/// Puts the key that waits in the place of the one at `path`, which is gone then, durably.
pub(super) fn promote_next(path: &Path) -> Result<(), JournalError> {
    let (dir, name) = place(path)?;
    dir.rename(&place(&next_path(path))?.1, &name)
}

/// Removes the key that waits, if there is one.
pub(super) fn remove_next(path: &Path) -> Result<(), JournalError> {
    let next = next_path(path);
    if next.symlink_metadata().is_ok() {
        let (dir, name) = place(&next)?;
        dir.remove(&name)?;
    }
    Ok(())
}

/// The directory of a key file, which must be its owner's alone, and its name.
fn place(path: &Path) -> Result<(Dir, String), JournalError> {
    let refuse = |why: &str| JournalError::Key { path: path.to_owned(), why: why.to_owned() };
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| refuse("its path has no name"))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((Dir::open_own(parent)?, name.to_owned()))
}

fn make(path: &Path, ports: &Ports) -> Result<SigningKey, JournalError> {
    let (dir, name) = place(path)?;
    let mut seed = [0; 32];
    let (low, high) = seed.split_at_mut(16);
    low.copy_from_slice(&ports.random());
    high.copy_from_slice(&ports.random());
    dir.put(&name, format!("{}\n", to_hex(&seed)).as_bytes(), false)?;
    Ok(SigningKey::from_bytes(&seed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn why(path: &Path) -> String {
        match load(path, true, &Ports::system()) {
            Err(JournalError::Key { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_key_is_made_once_and_then_read() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let path = dir.path().join("journal.key");
        assert!(load(&path, false, &Ports::system()).is_err(), "made although not allowed");
        let made = load(&path, true, &Ports::system()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(load(&path, false, &Ports::system()).unwrap().to_bytes(), made.to_bytes());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_key_that_others_may_have_read_or_placed_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let path = dir.path().join("journal.key");
        load(&path, true, &Ports::system()).unwrap();
        for mode in [0o644, 0o640, 0o604, 0o700, 0o400] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert!(why(&path).contains("mode"), "{mode:o}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(load(&path, true, &Ports::system()).is_ok());

        let second = dir.path().join("second");
        std::fs::hard_link(&path, &second).unwrap();
        assert!(why(&path).contains("more than one name"));
        std::fs::remove_file(&second).unwrap();

        std::os::unix::fs::symlink(&path, &second).unwrap();
        assert!(why(&second).contains("symbolic link"));
        assert!(why(dir.path()).contains("not a regular file"));
        for damaged in [&b""[..], b"00\n", &[b'0'; 64], &[b'g'; 65]] {
            std::fs::write(&path, damaged).unwrap();
            assert!(why(&path).contains("64 hex digits"));
        }
    }

    #[test]
    fn a_dangling_link_is_not_a_missing_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.key");
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &path).unwrap();
        assert!(why(&path).contains("symbolic link"));
        assert!(!dir.path().join("elsewhere").exists());
    }
}
