//! The profile: which rules confine a worker, as data.
//!
//! The digest of the standard profile is part of every contract, so a changed rule, directory or filter makes earlier
//! approvals stale. [`Profile::without`] exists for the tests alone: they take one rule away and show that the same
//! attempt, by the same program, then succeeds.

use super::filter;
use super::spec::SpecError;
use crate::canon;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use stockade_protocol::digest::Digest;

/// The version of the rules' meaning.
const PROFILE_VERSION: u32 = 1;

/// One rule, with its enforcer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rule {
    /// Mount namespace and a new root: of the host's files only the system directories are there.
    PrivateRoot,
    /// A /tmp of its own.
    PrivateTmp,
    /// Everything outside /tmp and the declared output is mounted read-only.
    ReadOnly,
    /// A /dev with six harmless devices.
    PrivateDevices,
    /// A devpts instance of its own.
    PrivateTerminals,
    /// PID namespace with its own /proc: nothing outside is seen, signalled or survives.
    PidNamespace,
    /// Network namespace without any interface that is up.
    NetworkNamespace,
    /// IPC namespace.
    IpcNamespace,
    /// UTS namespace with a host name of its own.
    UtsNamespace,
    /// Cgroup namespace.
    CgroupNamespace,
    /// The worker's first process cannot be looked into: not dumpable.
    HiddenInit,
    /// No descriptors but 0, 1 and 2.
    ThreeDescriptors,
    /// No capabilities, none to be gained.
    NoCapabilities,
    /// seccomp: system calls that reach for kernel surface no tool needs.
    Syscalls,
    /// seccomp: `clone3` does not exist, so that flags cannot hide in memory.
    Clone3,
    /// seccomp: calls by another ABI (i386, x32) kill.
    ForeignAbi,
    /// seccomp: no typing into terminals, no line disciplines.
    TerminalIoctls,
    /// seccomp: sockets of the Unix and IP families only.
    SocketFamilies,
    /// Landlock at the kernel's own ABI, over all of the above.
    Landlock,
    /// `RLIMIT_NPROC`.
    ProcessLimit,
    /// `RLIMIT_NOFILE`.
    OpenFileLimit,
    /// `RLIMIT_FSIZE`.
    FileSizeLimit,
    /// `RLIMIT_AS`.
    AddressSpaceLimit,
    /// `RLIMIT_CPU`.
    CpuLimit,
    /// Size and inode bounds of /tmp and /dev/shm.
    TmpSize,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 25] = [
        Self::PrivateRoot,
        Self::PrivateTmp,
        Self::ReadOnly,
        Self::PrivateDevices,
        Self::PrivateTerminals,
        Self::PidNamespace,
        Self::NetworkNamespace,
        Self::IpcNamespace,
        Self::UtsNamespace,
        Self::CgroupNamespace,
        Self::HiddenInit,
        Self::ThreeDescriptors,
        Self::NoCapabilities,
        Self::Syscalls,
        Self::Clone3,
        Self::ForeignAbi,
        Self::TerminalIoctls,
        Self::SocketFamilies,
        Self::Landlock,
        Self::ProcessLimit,
        Self::OpenFileLimit,
        Self::FileSizeLimit,
        Self::AddressSpaceLimit,
        Self::CpuLimit,
        Self::TmpSize,
    ];

    /// Who enforces it, in words for people.
    #[must_use]
    pub const fn enforcer(self) -> &'static str {
        match self {
            Self::PrivateRoot => "mount namespace, new root",
            Self::PrivateTmp => "mount namespace, own /tmp",
            Self::ReadOnly => "read-only mounts",
            Self::PrivateDevices => "mount namespace, own /dev",
            Self::PrivateTerminals => "own devpts instance",
            Self::PidNamespace => "PID namespace, own /proc",
            Self::NetworkNamespace => "empty network namespace",
            Self::IpcNamespace => "IPC namespace",
            Self::UtsNamespace => "UTS namespace",
            Self::CgroupNamespace => "cgroup namespace",
            Self::HiddenInit => "non-dumpable first process",
            Self::ThreeDescriptors => "closed descriptors",
            Self::NoCapabilities => "no capabilities",
            Self::Syscalls => "seccomp: denied calls",
            Self::Clone3 => "seccomp: no clone3",
            Self::ForeignAbi => "seccomp: native ABI only",
            Self::TerminalIoctls => "seccomp: terminal ioctls",
            Self::SocketFamilies => "seccomp: socket families",
            Self::Landlock => "Landlock",
            Self::ProcessLimit => "RLIMIT_NPROC",
            Self::OpenFileLimit => "RLIMIT_NOFILE",
            Self::FileSizeLimit => "RLIMIT_FSIZE",
            Self::AddressSpaceLimit => "RLIMIT_AS",
            Self::CpuLimit => "RLIMIT_CPU",
            Self::TmpSize => "tmpfs size and inodes",
        }
    }

    /// The word used in profiles.
    #[must_use]
    pub fn word(self) -> String {
        serde_json::to_value(self).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// System directories that a worker sees, read-only. Those that are symbolic links on the host are links inside.
pub(super) const SYSTEM_DIRECTORIES: [&str; 5] = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];
/// What a worker sees of the host's /etc, read-only, where it exists.
pub(super) const SYSTEM_CONFIGURATION: [&str; 6] = [
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/localtime",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
];
/// The devices a worker has.
pub(super) const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Files of /proc that tell of the machine rather than of the worker: an empty device stands in their place.
pub(super) const MASKED_PROC: [&str; 8] =
    ["cmdline", "kcore", "keys", "key-users", "kmsg", "sched_debug", "sysrq-trigger", "timer_list"];

/// Which rules confine a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    version: u32,
    rules: BTreeSet<Rule>,
}

impl Profile {
    /// Every rule. The only profile the runtime builds.
    #[must_use]
    pub fn standard() -> Self {
        Self { version: PROFILE_VERSION, rules: Rule::ALL.into_iter().collect() }
    }

    /// This profile less one rule: for the positive controls of tests, never for a worker of a call.
    #[doc(hidden)]
    #[must_use]
    pub fn without(mut self, rule: Rule) -> Self {
        self.rules.remove(&rule);
        self
    }

    /// Whether a rule is in force.
    #[must_use]
    pub fn has(&self, rule: Rule) -> bool {
        self.rules.contains(&rule)
    }

    pub(super) fn validate(&self) -> Result<(), SpecError> {
        if self.version == PROFILE_VERSION { Ok(()) } else { Err(SpecError::Profile(self.version)) }
    }

    /// The digest over the rules and over everything they stand for: directories, devices, filters.
    #[must_use]
    pub fn digest(&self) -> Digest {
        #[derive(Serialize)]
        struct Described<'a> {
            profile: &'a Profile,
            system_directories: [&'static str; 5],
            system_configuration: [&'static str; 6],
            devices: [&'static str; 6],
            masked_proc: [&'static str; 8],
            filters: Digest,
        }
        let described = Described {
            profile: self,
            system_directories: SYSTEM_DIRECTORIES,
            system_configuration: SYSTEM_CONFIGURATION,
            devices: DEVICES,
            masked_proc: MASKED_PROC,
            filters: filter::description(),
        };
        // All of it is strings and small integers, which always have canonical bytes.
        canon::digest(&described).unwrap_or_default()
    }
}
