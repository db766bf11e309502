//! The seccomp filters, compiled once by the supervisor and handed to every launcher as bytes.
//!
//! They are stacked: the kernel runs all of them and the strictest answer counts. Each has one action, so that a tool
//! meets the error it knows how to handle.

use super::profile::Rule;
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpOp as Op, SeccompCondition, SeccompFilter, SeccompRule, sock_filter,
};
use std::collections::BTreeMap;
use stockade_protocol::digest::Digest;

/// The rules that are filters, in the order they are installed.
pub(super) const FILTER_RULES: [Rule; 5] =
    [Rule::ForeignAbi, Rule::Clone3, Rule::SocketFamilies, Rule::TerminalIoctls, Rule::Syscalls];

/// Calls that reach for kernel surface no tool needs: other namespaces and mounts, other processes' memory, loadable
/// code, raw handles, keys, clocks, the machine itself.
const DENIED: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mbind,
    libc::SYS_memfd_secret,
    libc::SYS_migrate_pages,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_name_to_handle_at,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_set_mempolicy,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// Calls of the same kind that only this architecture has.
#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[i64] = &[
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_kexec_file_load,
    libc::SYS_modify_ldt,
    libc::SYS_sysfs,
    libc::SYS_uselib,
    libc::SYS_ustat,
];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_HERE: &[i64] = &[];

/// Flags of `clone` that make a namespace.
const NAMESPACE_FLAGS: [libc::c_int; 8] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    0x80, // CLONE_NEWTIME; `clone` takes it for an exit signal, other kernels may not.
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// Terminal requests that type into a terminal, redirect the console or load a line discipline. The kernel looks at
/// the low 32 bits of a request, so the filter does too.
const TERMINAL_REQUESTS: [u64; 4] =
    [0x5412 /* TIOCSTI */, 0x541c /* TIOCLINUX */, 0x541d /* TIOCCONS */, 0x5423 /* TIOCSETD */];

/// Socket families a worker may use.
const FAMILIES: [libc::c_int; 3] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];

/// The compiled filters, by rule.
#[derive(Debug, Clone)]
pub(super) struct Filters(Vec<(Rule, BpfProgram)>);

impl Filters {
    /// Compiles every filter.
    pub(super) fn compile() -> Result<Self, String> {
        FILTER_RULES
            .into_iter()
            .map(|rule| compile(rule).map(|program| (rule, program)))
            .collect::<Result<_, _>>()
            .map(Self)
            .map_err(|error| error.to_string())
    }

    /// The program of a rule.
    pub(super) fn get(&self, rule: Rule) -> Option<&BpfProgram> {
        self.0.iter().find(|(named, _)| *named == rule).map(|(_, program)| program)
    }

    /// The bytes that travel to launchers: for each filter in order, the number of instructions and each of them.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (_, program) in &self.0 {
            bytes.extend_from_slice(&u32::try_from(program.len()).unwrap_or(u32::MAX).to_le_bytes());
            for instruction in program {
                bytes.extend_from_slice(&instruction.code.to_le_bytes());
                bytes.extend_from_slice(&[instruction.jt, instruction.jf]);
                bytes.extend_from_slice(&instruction.k.to_le_bytes());
            }
        }
        bytes
    }

    /// Reads what [`Self::to_bytes`] wrote; `None` when it is anything else.
    pub(super) fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let mut filters = Vec::new();
        for rule in FILTER_RULES {
            let (count, rest) = bytes.split_first_chunk::<4>()?;
            let length = usize::try_from(u32::from_le_bytes(*count)).ok()?.checked_mul(8)?;
            let (instructions, rest) = rest.split_at_checked(length)?;
            bytes = rest;
            let program = instructions
                .chunks_exact(8)
                .map(|chunk| {
                    let [c0, c1, jt, jf, k @ ..] = <[u8; 8]>::try_from(chunk).ok()?;
                    Some(sock_filter { code: u16::from_le_bytes([c0, c1]), jt, jf, k: u32::from_le_bytes(k) })
                })
                .collect::<Option<BpfProgram>>()?;
            filters.push((rule, program));
        }
        bytes.is_empty().then_some(Self(filters))
    }
}

/// A digest over what the filters do on this architecture.
pub(super) fn description() -> Digest {
    Filters::compile().map(|filters| Digest::of(filters.to_bytes())).unwrap_or_default()
}

fn compile(rule: Rule) -> Result<BpfProgram, seccompiler::BackendError> {
    let denied = |errno: libc::c_int| SeccompAction::Errno(errno.unsigned_abs());
    match rule {
        Rule::ForeignAbi => Ok(native_abi_only()),
        Rule::Clone3 => build([(libc::SYS_clone3, Vec::new())].into(), denied(libc::ENOSYS)),
        Rule::SocketFamilies => {
            let others = FAMILIES
                .into_iter()
                .map(|family| SeccompCondition::new(0, Dword, Op::Ne, u64::from(family.unsigned_abs())))
                .collect::<Result<Vec<_>, _>>()?;
            let others = vec![SeccompRule::new(others)?];
            let calls = [(libc::SYS_socket, others.clone()), (libc::SYS_socketpair, others)];
            build(calls.into(), denied(libc::EAFNOSUPPORT))
        }
        Rule::TerminalIoctls => {
            let requests = TERMINAL_REQUESTS
                .into_iter()
                .map(|request| SeccompRule::new(vec![SeccompCondition::new(1, Dword, Op::Eq, request)?]))
                .collect::<Result<Vec<_>, _>>()?;
            build([(libc::SYS_ioctl, requests)].into(), denied(libc::EPERM))
        }
        _ => {
            let mut calls: BTreeMap<i64, Vec<SeccompRule>> =
                DENIED.iter().chain(DENIED_HERE).map(|call| (*call, Vec::new())).collect();
            let namespaces = NAMESPACE_FLAGS
                .into_iter()
                .map(|flag| {
                    let flag = u64::from(flag.unsigned_abs());
                    SeccompRule::new(vec![SeccompCondition::new(0, Qword, Op::MaskedEq(flag), flag)?])
                })
                .collect::<Result<Vec<_>, _>>()?;
            calls.insert(libc::SYS_clone, namespaces);
            // A limit of one byte keeps a crash from the host's core handler; a limit of none would not.
            let core = SeccompCondition::new(0, Dword, Op::Eq, u64::from(libc::RLIMIT_CORE))?;
            calls.insert(libc::SYS_setrlimit, vec![SeccompRule::new(vec![core])?]);
            let core = SeccompCondition::new(1, Dword, Op::Eq, u64::from(libc::RLIMIT_CORE))?;
            let sets = SeccompCondition::new(2, Qword, Op::Ne, 0)?;
            calls.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![core, sets])?]);
            build(calls, denied(libc::EPERM))
        }
    }
}

fn build(
    calls: BTreeMap<i64, Vec<SeccompRule>>,
    action: SeccompAction,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(calls, SeccompAction::Allow, action, arch)?.try_into()
}

/// Kills on a call by another architecture's table, and on x86-64 by the x32 one, whose numbers hide behind bit 30
/// where a list of denied numbers does not see them.
fn native_abi_only() -> BpfProgram {
    const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const JUMP_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const JUMP_AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    const NUMBER_OFFSET: u32 = 0;
    const ARCH_OFFSET: u32 = 4;
    const KILL_PROCESS: u32 = 0x8000_0000;
    const ALLOW: u32 = 0x7fff_0000;
    #[cfg(target_arch = "x86_64")]
    const ARCH: u32 = 0xc000_003e;
    #[cfg(target_arch = "aarch64")]
    const ARCH: u32 = 0xc000_00b7;
    #[cfg(target_arch = "x86_64")]
    const FIRST_FOREIGN: u32 = 0x4000_0000;
    #[cfg(target_arch = "aarch64")]
    const FIRST_FOREIGN: u32 = u32::MAX;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        step(LOAD, 0, 0, ARCH_OFFSET),
        step(JUMP_EQUAL, 0, 2, ARCH),
        step(LOAD, 0, 0, NUMBER_OFFSET),
        step(JUMP_AT_LEAST, 0, 1, FIRST_FOREIGN),
        step(RETURN, 0, 0, KILL_PROCESS),
        step(RETURN, 0, 0, ALLOW),
    ]
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests;
