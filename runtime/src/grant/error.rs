//! What the broker says no with.

use rustix::io::Errno;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::text::SafeText;

/// Why the broker refused. Each message says what happened and why; [`GrantError::refusal`] adds what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The project's directory cannot serve as a root.
    #[error("the project at {} cannot be opened: {why}", shown(path))]
    Root {
        /// Its path.
        path: String,
        /// Why.
        why: String,
    },
    /// A directory that must stay closed to every grant cannot be identified.
    #[error("the protected place {} cannot be held: {why}", shown(path))]
    Ceiling {
        /// Its path.
        path: String,
        /// Why.
        why: String,
    },
    /// The kernel, or a filter around this program, lacks something the broker will not do without.
    #[error("the kernel does not offer {what} to this program: {errno}")]
    Kernel {
        /// What is missing.
        what: &'static str,
        /// What the kernel answered.
        errno: Errno,
    },
    /// A path is not written as a grant's path must be.
    #[error("{} is not a path inside the project: {fault}", shown(path))]
    Path {
        /// As given.
        path: String,
        /// What is wrong with it.
        fault: PathFault,
    },
    /// More inputs than a grant may have.
    #[error("{count} inputs are more than the {limit} a grant may have")]
    TooManyInputs {
        /// How many were asked for.
        count: usize,
        /// How many are allowed.
        limit: usize,
    },
    /// More outputs than a grant may have.
    #[error("{count} outputs are more than the one a grant may have")]
    TooManyOutputs {
        /// How many were asked for.
        count: usize,
    },
    /// The size bound itself is out of range.
    #[error("a file bound of {bytes} bytes is not between 1 and {limit}")]
    Bound {
        /// As given.
        bytes: u64,
        /// The largest allowed.
        limit: u64,
    },
    /// Two entries of one grant name the same file, or would on a file system that ignores case.
    #[error("{} and {} name the same file, or would where case is ignored", shown(path), shown(other))]
    Twin {
        /// The later one.
        path: String,
        /// The earlier one.
        other: String,
    },
    /// The path reaches a control file of the project, or a place of stockade's own.
    #[error("{} reaches {}, which no grant opens", shown(path), shown(what))]
    Protected {
        /// The path.
        path: String,
        /// What it reaches.
        what: String,
    },
    /// The path would have led out of the project: an attempt to escape, by whoever put it there.
    #[error("{} would lead out of the project: {how}", shown(path))]
    Escape {
        /// The path.
        path: String,
        /// How.
        how: Escape,
    },
    /// Nothing is there.
    #[error("{} is not there", shown(path))]
    Missing {
        /// The path.
        path: String,
    },
    /// A component that must be a directory is not one.
    #[error("{} passes through something that is not a directory", shown(path))]
    NotDirectory {
        /// The path.
        path: String,
    },
    /// Not a regular file.
    #[error("{} is a {kind}, not a regular file", shown(path))]
    Kind {
        /// The path.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// The file has other names, which may lie where no grant reaches.
    #[error("{} does not have exactly one name on its file system", shown(path))]
    HardLinked {
        /// The path.
        path: String,
    },
    /// The file is larger than the grant allows; it was read no further than that.
    #[error("{} is larger than {limit} bytes", shown(path))]
    TooLarge {
        /// The path.
        path: String,
        /// The bound.
        limit: u64,
    },
    /// The inputs together are larger than a grant may hold.
    #[error("the inputs up to {} are together larger than {limit} bytes", shown(path))]
    TotalTooLarge {
        /// The input that went over.
        path: String,
        /// The bound.
        limit: u64,
    },
    /// The file was written to while it was read.
    #[error("{} was changing while it was read", shown(path))]
    Restless {
        /// The path.
        path: String,
    },
    /// Something is at the output's place already, be it a link that points nowhere.
    #[error("{} exists already", shown(path))]
    Exists {
        /// The path.
        path: String,
    },
    /// The directory of the output is not one to publish into.
    #[error("the directory of {} is not fit to publish into: {why}", shown(path))]
    Directory {
        /// The path of the output.
        path: String,
        /// Why.
        why: &'static str,
    },
    /// The file system cannot create an entry without overwriting in one step.
    #[error(
        "the file system of {} can neither link a nameless file nor rename without replacing: {errno}",
        shown(path)
    )]
    FileSystem {
        /// The path of the output.
        path: String,
        /// What it answered.
        errno: Errno,
    },
    /// The tool ended without writing anything into its declared output.
    #[error("the tool wrote nothing into {}", shown(path))]
    Empty {
        /// The path of the output.
        path: String,
    },
    /// An output was staged for a grant that declares none.
    #[error("this grant declares no output")]
    NoOutput,
    /// Not what it was when it was prepared or staged.
    #[error("{}: {what}", shown(path))]
    Changed {
        /// The path.
        path: String,
        /// What is different.
        what: &'static str,
    },
    /// The kernel refused an operation.
    #[error("{doing} {} failed: {errno}", shown(path))]
    Io {
        /// The path.
        path: String,
        /// What was tried.
        doing: &'static str,
        /// What the kernel answered.
        errno: Errno,
    },
    /// Something changed between preparation and dispatch.
    #[error("the files are not as they were when the call was prepared: {0}")]
    Stale(#[source] Box<GrantError>),
    /// The declared output was not published; nothing of it is left in the project.
    #[error("the output was not published: {0}")]
    Unpublished(#[source] Box<GrantError>),
    /// The output may be in the project or not; a person must look.
    #[error("whether the output was published is not certain: {0}")]
    InDoubt(#[source] Box<GrantError>),
}

/// What is wrong with a path as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// Nothing was given.
    #[error("it is empty")]
    Empty,
    /// It begins with a slash.
    #[error("it is absolute")]
    Absolute,
    /// It has a part `..`.
    #[error("it has a part \"..\"")]
    Parent,
    /// It has a part `.`.
    #[error("it has a part \".\"")]
    Current,
    /// Two slashes in a row, or one at the end.
    #[error("it has an empty part")]
    EmptyPart,
    /// A control character, NUL and line ends of every kind included.
    #[error("it holds a control character")]
    Control,
    /// Longer than 4,096 bytes, or a part longer than 255.
    #[error("it is too long")]
    TooLong,
}

/// How a path would have led out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Escape {
    /// A symbolic or magic link, in whichever component.
    #[error("a part of it is a symbolic link, and links are never followed")]
    Link,
    /// Another mount, or a component that resolved to a place above.
    #[error("a part of it lies on another mount")]
    Mount,
}

impl GrantError {
    /// Whether somebody tried to lead a grant out of the project or into a protected place: worth a second look by
    /// a person, where an ordinary typing error is not.
    #[must_use]
    pub fn is_escape_attempt(&self) -> bool {
        match self {
            Self::Escape { .. } | Self::Protected { .. } | Self::HardLinked { .. } => true,
            Self::Path { fault, .. } => matches!(fault, PathFault::Parent | PathFault::Absolute),
            Self::Stale(inner) | Self::Unpublished(inner) | Self::InDoubt(inner) => inner.is_escape_attempt(),
            _ => false,
        }
    }

    /// The refusal a caller gets: code, reason, next step; the authority is the file broker.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        let refusal = Refusal::new(self.code(), Authority::Grant, self.to_string()).next(self.advice());
        match self.path() {
            Some(path) => refusal.by_rule(path),
            None => refusal,
        }
    }

    fn code(&self) -> RefusalCode {
        match self {
            Self::Root { .. }
            | Self::Ceiling { .. }
            | Self::Kernel { .. }
            | Self::Missing { .. }
            | Self::Restless { .. }
            | Self::FileSystem { .. }
            | Self::Io { .. } => RefusalCode::Unavailable,
            Self::Stale(_) | Self::Changed { .. } => RefusalCode::Stale,
            Self::Unpublished(_) | Self::Empty { .. } | Self::NoOutput => RefusalCode::Unpublished,
            Self::InDoubt(_) => RefusalCode::InDoubt,
            Self::Path { .. }
            | Self::TooManyInputs { .. }
            | Self::TooManyOutputs { .. }
            | Self::Bound { .. }
            | Self::Twin { .. }
            | Self::Protected { .. }
            | Self::Escape { .. }
            | Self::NotDirectory { .. }
            | Self::Kind { .. }
            | Self::HardLinked { .. }
            | Self::TooLarge { .. }
            | Self::TotalTooLarge { .. }
            | Self::Exists { .. }
            | Self::Directory { .. } => RefusalCode::Invalid,
        }
    }

    fn path(&self) -> Option<&str> {
        match self {
            Self::Root { path, .. }
            | Self::Ceiling { path, .. }
            | Self::Path { path, .. }
            | Self::Twin { path, .. }
            | Self::Protected { path, .. }
            | Self::Escape { path, .. }
            | Self::Missing { path }
            | Self::NotDirectory { path }
            | Self::Kind { path, .. }
            | Self::HardLinked { path }
            | Self::TooLarge { path, .. }
            | Self::TotalTooLarge { path, .. }
            | Self::Restless { path }
            | Self::Exists { path }
            | Self::Directory { path, .. }
            | Self::FileSystem { path, .. }
            | Self::Empty { path }
            | Self::Changed { path, .. }
            | Self::Io { path, .. } => Some(path),
            Self::Kernel { .. }
            | Self::TooManyInputs { .. }
            | Self::TooManyOutputs { .. }
            | Self::Bound { .. }
            | Self::NoOutput => None,
            Self::Stale(inner) | Self::Unpublished(inner) | Self::InDoubt(inner) => inner.path(),
        }
    }

    fn advice(&self) -> &'static str {
        match self {
            Self::Root { .. } => "Open a directory that you own, by its real path.",
            Self::Ceiling { .. } => "Give it as an absolute path of an existing directory that is not a link.",
            Self::Kernel { .. } => {
                "Use Linux 5.6 or later with /proc mounted, and a container that lets openat2 through."
            }
            Self::Path { .. } => "Write it relative to the project, like data/input.csv.",
            Self::TooManyInputs { .. } | Self::TooManyOutputs { .. } | Self::TotalTooLarge { .. } => {
                "Split the work into calls with fewer files."
            }
            Self::Bound { .. } => "Correct max_file_bytes in the tool's manifest.",
            Self::Twin { .. } => "Name each file once.",
            Self::Protected { .. } => "Move what the tool needs to a path of its own.",
            Self::Escape { .. } | Self::HardLinked { .. } => "Copy the file itself to that place.",
            Self::Missing { .. } | Self::NotDirectory { .. } => "Create it, or correct the path.",
            Self::Kind { .. } => "Give a regular file.",
            Self::TooLarge { .. } => "Give a smaller file, or raise max_file_bytes in the tool's manifest.",
            Self::Restless { .. } => "Call again when nothing writes to it.",
            Self::Exists { .. } => "Move it away or name another output; nothing is ever overwritten.",
            Self::Directory { .. } => "Publish into a directory of your own that others cannot write to.",
            Self::FileSystem { .. } => "Keep the project on a local file system such as ext4, xfs, btrfs or tmpfs.",
            Self::Empty { .. } | Self::NoOutput => "See the tool's output for why.",
            Self::Io { .. } => "Check the permissions and the free space there.",
            Self::Changed { .. } | Self::Stale(_) => {
                "Start a new call, or a new session, with the files as they are now."
            }
            Self::Unpublished(inner) => inner.advice(),
            Self::InDoubt(_) => "Look at the file and its hash before anything is run again.",
        }
    }
}

/// Untrusted names are only ever part of a message in their visible form.
fn shown(text: &str) -> SafeText {
    SafeText::line(text)
}
