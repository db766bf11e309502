//! The journal's directory, held open, and the places its bytes go to.

use super::error::JournalError;
use crate::ports::Sink;
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The records.
pub(super) const RECORDS: &str = "records.jsonl";
/// The signed checkpoints.
pub(super) const CHECKPOINTS: &str = "checkpoints";
/// The public key.
pub(super) const PUBLIC_KEY: &str = "journal.pub";
/// The file whose lock the writer holds.
pub(super) const LOCK: &str = "lock";
/// What the names of files with cut bytes begin with.
pub(super) const TORN: &str = "torn-";
/// What the names of files that are not finished end with.
const UNFINISHED: &str = ".new";

impl Sink for File {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        loop {
            match std::io::Write::write(self, bytes) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn sync(&mut self) -> std::io::Result<()> {
        self.sync_data()
    }
}

/// A directory held open. Names in it are resolved without following links.
#[derive(Debug)]
pub(super) struct Dir {
    fd: OwnedFd,
    path: PathBuf,
}

impl Dir {
    /// Opens a directory to read what is in it, whoever owns it: evidence may have been copied.
    pub(super) fn open(path: &Path) -> Result<Self, JournalError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, path, flags, Mode::empty())
            .map_err(|error| JournalError::io(format!("open the directory {}", path.display()))(error.into()))?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Opens a directory to write in, making it and its parents with mode 0700 when they are not there. It must be a
    /// real directory of this user that nobody else can enter.
    pub(super) fn open_own(path: &Path) -> Result<Self, JournalError> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(JournalError::io(format!("make the directory {}", path.display())))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = rustix::fs::openat(CWD, path, flags, Mode::empty())
            .map_err(|error| JournalError::io(format!("open the directory {}", path.display()))(error.into()))?;
        let stat = rustix::fs::fstat(&fd)
            .map_err(|error| JournalError::io(format!("look at the directory {}", path.display()))(error.into()))?;
        let dir = Self { fd, path: path.to_owned() };
        dir.check_own(path, &stat)?;
        Ok(dir)
    }

    fn check_own(&self, path: &Path, stat: &rustix::fs::Stat) -> Result<(), JournalError> {
        let unsafe_place = |why: &str| Err(JournalError::Place { path: path.to_owned(), why: why.to_owned() });
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return unsafe_place("it belongs to another user");
        }
        if stat.st_mode & 0o077 != 0 {
            return unsafe_place("its mode lets other users in");
        }
        Ok(())
    }

    /// The full path of a name in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn open_file(&self, name: &str, flags: OFlags) -> Result<File, JournalError> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        rustix::fs::openat(&self.fd, name, flags, Mode::from_raw_mode(0o600))
            .map(File::from)
            .map_err(|error| JournalError::io(format!("open {}", self.path(name).display()))(error.into()))
    }

    /// Opens a regular file to read it; `None` when it is not there.
    pub(super) fn read(&self, name: &str) -> Result<Option<File>, JournalError> {
        let file = match self.open_file(name, OFlags::RDONLY) {
            Ok(file) => file,
            Err(JournalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let stat = rustix::fs::fstat(&file)
            .map_err(|error| JournalError::io(format!("look at {}", self.path(name).display()))(error.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(JournalError::Place { path: self.path(name), why: "it is not a regular file".to_owned() });
        }
        Ok(Some(file))
    }

    /// The whole of a small file; empty when it is not there.
    pub(super) fn read_all(&self, name: &str) -> Result<Vec<u8>, JournalError> {
        let mut bytes = Vec::new();
        if let Some(mut file) = self.read(name)? {
            file.read_to_end(&mut bytes).map_err(JournalError::io(format!("read {}", self.path(name).display())))?;
        }
        Ok(bytes)
    }

    /// Opens a file to append to it, making it when it is not there. It must be this user's alone and have one name.
    pub(super) fn append(&self, name: &str) -> Result<File, JournalError> {
        let file = self.open_file(name, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)?;
        let stat = rustix::fs::fstat(&file)
            .map_err(|error| JournalError::io(format!("look at {}", self.path(name).display()))(error.into()))?;
        self.check_own(&self.path(name), &stat)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink != 1 {
            let why = "it is not a regular file with one name".to_owned();
            return Err(JournalError::Place { path: self.path(name), why });
        }
        Ok(file)
    }

    /// Puts a whole file in place, durable, in one step. An existing one is replaced only when `replace` says so.
    pub(super) fn put(&self, name: &str, bytes: &[u8], replace: bool) -> Result<(), JournalError> {
        let unfinished = format!("{name}{UNFINISHED}");
        let what = || format!("write {}", self.path(name).display());
        match rustix::fs::unlinkat(&self.fd, &unfinished, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(JournalError::io(what())(error.into())),
        }
        let mut file = self.open_file(&unfinished, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(JournalError::io(what()))?;
        let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        rustix::fs::renameat_with(&self.fd, &unfinished, &self.fd, name, flags)
            .map_err(|error| JournalError::io(what())(error.into()))?;
        self.sync()
    }

    /// Gives a file another name, durable, in one step; what had that name is gone.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), JournalError> {
        rustix::fs::renameat(&self.fd, from, &self.fd, to)
            .map_err(|error| JournalError::io(format!("rename {}", self.path(from).display()))(error.into()))?;
        self.sync()
    }

    /// Removes a file, durably.
    pub(super) fn remove(&self, name: &str) -> Result<(), JournalError> {
        rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())
            .map_err(|error| JournalError::io(format!("remove {}", self.path(name).display()))(error.into()))?;
        self.sync()
    }

    /// Makes the names in it durable.
    pub(super) fn sync(&self) -> Result<(), JournalError> {
        rustix::fs::fsync(&self.fd)
            .map_err(|error| JournalError::io(format!("sync the directory {}", self.path.display()))(error.into()))
    }

    /// The names in it, sorted.
    pub(super) fn names(&self) -> Result<Vec<String>, JournalError> {
        let what = || format!("list the directory {}", self.path.display());
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd).map_err(|error| JournalError::io(what())(error.into()))? {
            let entry = entry.map_err(|error| JournalError::io(what())(error.into()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Removes what an interrupted [`Self::put`] left.
    pub(super) fn remove_unfinished(&self) -> Result<(), JournalError> {
        for name in self.names()?.iter().filter(|name| is_unfinished(name)) {
            self.remove(name)?;
        }
        Ok(())
    }

    /// Takes the lock of the one writer and writes this process's id into its file. The lock lasts as long as the
    /// returned file.
    pub(super) fn lock(&self) -> Result<File, JournalError> {
        let mut file = self.open_file(LOCK, OFlags::RDWR | OFlags::CREATE)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let pid = file.read_to_string(&mut text).ok().and_then(|_bytes| text.trim().parse().ok());
                return Err(JournalError::Busy { dir: self.path.clone(), pid });
            }
            Err(error) => {
                return Err(JournalError::io(format!("lock {}", self.path(LOCK).display()))(error.into()));
            }
        }
        file.set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(JournalError::io(format!("write {}", self.path(LOCK).display())))?;
        Ok(file)
    }
}

/// Whether a name is that of a file a crash left before it was finished.
pub(super) fn is_unfinished(name: &str) -> bool {
    name.ends_with(UNFINISHED)
}
