//! The filters are run here by a small interpreter of the kernel's instruction set, so that every denied number and
//! flag is checked, also those that the kernel would refuse anyway.

use super::*;

const X86_64: u32 = 0xc000_003e;
const I386: u32 = 0x4000_0003;
const KILL: u32 = 0x8000_0000;
const ALLOW: u32 = 0x7fff_0000;

fn errno(errno: libc::c_int) -> u32 {
    0x0005_0000 | errno.unsigned_abs()
}

/// What one program answers to one call.
fn run(program: &BpfProgram, arch: u32, number: u64, args: [u64; 6]) -> u32 {
    let mut data = Vec::new();
    data.extend_from_slice(&(number as u32).to_le_bytes());
    data.extend_from_slice(&arch.to_le_bytes());
    data.extend_from_slice(&[0; 8]);
    args.iter().for_each(|arg| data.extend_from_slice(&arg.to_le_bytes()));
    let (mut accumulator, mut at) = (0u32, 0usize);
    loop {
        let sock_filter { code, jt, jf, k } = program[at].clone();
        at += 1;
        let jump = |holds: bool| usize::from(if holds { jt } else { jf });
        match code {
            0x20 => accumulator = u32::from_le_bytes(data[k as usize..k as usize + 4].try_into().unwrap()),
            0x54 => accumulator &= k,
            0x05 => at += k as usize,
            0x15 => at += jump(accumulator == k),
            0x25 => at += jump(accumulator > k),
            0x35 => at += jump(accumulator >= k),
            0x06 => return k,
            other => panic!("instruction {other:#x} is not known to this test"),
        }
    }
}

/// What all of them answer: the kernel takes the strictest, and of two errors the one of the filter added last.
fn answer(arch: u32, number: i64, args: [u64; 6]) -> u32 {
    let filters = Filters::compile().unwrap();
    let answers: Vec<u32> =
        FILTER_RULES.iter().map(|rule| run(filters.get(*rule).unwrap(), arch, number as u64, args)).collect();
    if answers.contains(&KILL) {
        return KILL;
    }
    answers.into_iter().rev().find(|answer| *answer != ALLOW).unwrap_or(ALLOW)
}

#[test]
fn every_call_on_the_list_is_denied_and_ordinary_ones_are_not() {
    for call in DENIED.iter().chain(DENIED_HERE) {
        assert_eq!(answer(X86_64, *call, [0; 6]), errno(libc::EPERM), "call {call}");
    }
    for call in [libc::SYS_read, libc::SYS_write, libc::SYS_openat, libc::SYS_execve, libc::SYS_clone, libc::SYS_futex]
    {
        assert_eq!(answer(X86_64, call, [0; 6]), ALLOW, "call {call}");
    }
    assert_eq!(answer(X86_64, libc::SYS_clone3, [0; 6]), errno(libc::ENOSYS));
}

#[test]
fn calls_by_another_table_kill() {
    for call in [libc::SYS_read, libc::SYS_mount, 0, 512] {
        assert_eq!(answer(I386, call, [0; 6]), KILL, "i386 {call}");
        assert_eq!(answer(X86_64, call | 0x4000_0000, [0; 6]), KILL, "x32 {call}");
        assert_eq!(answer(X86_64, call | 0x4000_0000 | 0x2000_0000, [0; 6]), KILL, "x32 and more {call}");
    }
}

#[test]
fn terminal_requests_are_denied_whatever_their_high_bits() {
    for request in TERMINAL_REQUESTS {
        for high in [0, 1 << 32, 1 << 63, 0xffff_ffff << 32] {
            assert_eq!(answer(X86_64, libc::SYS_ioctl, [0, request | high, 0, 0, 0, 0]), errno(libc::EPERM));
        }
    }
    for request in [libc::TCGETS, libc::TIOCGWINSZ, libc::TIOCSWINSZ, libc::TIOCSCTTY] {
        assert_eq!(answer(X86_64, libc::SYS_ioctl, [0, request, 0, 0, 0, 0]), ALLOW);
    }
}

#[test]
fn clone_makes_processes_and_threads_but_no_namespaces() {
    let thread =
        (libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_THREAD) as u64;
    for flags in [libc::SIGCHLD as u64, thread] {
        assert_eq!(answer(X86_64, libc::SYS_clone, [flags, 0, 0, 0, 0, 0]), ALLOW);
        for namespace in NAMESPACE_FLAGS {
            let flags = flags | u64::from(namespace.unsigned_abs());
            assert_eq!(answer(X86_64, libc::SYS_clone, [flags, 0, 0, 0, 0, 0]), errno(libc::EPERM));
        }
    }
}

#[test]
fn the_limit_on_core_files_can_be_read_but_not_set() {
    let core = u64::from(libc::RLIMIT_CORE);
    assert_eq!(answer(X86_64, libc::SYS_setrlimit, [core, 1, 0, 0, 0, 0]), errno(libc::EPERM));
    assert_eq!(answer(X86_64, libc::SYS_prlimit64, [0, core, 1, 0, 0, 0]), errno(libc::EPERM));
    assert_eq!(answer(X86_64, libc::SYS_prlimit64, [0, core, 1 << 40, 0, 0, 0]), errno(libc::EPERM));
    assert_eq!(answer(X86_64, libc::SYS_prlimit64, [0, core, 0, 1, 0, 0]), ALLOW);
    let files = u64::from(libc::RLIMIT_NOFILE);
    assert_eq!(answer(X86_64, libc::SYS_prlimit64, [0, files, 1, 0, 0, 0]), ALLOW);
    assert_eq!(answer(X86_64, libc::SYS_setrlimit, [files, 1, 0, 0, 0, 0]), ALLOW);
}

#[test]
fn only_three_socket_families_exist() {
    for family in 0..64u64 {
        let expected = if matches!(family, 1 | 2 | 10) { ALLOW } else { errno(libc::EAFNOSUPPORT) };
        for call in [libc::SYS_socket, libc::SYS_socketpair] {
            assert_eq!(answer(X86_64, call, [family, 0, 0, 0, 0, 0]), expected, "family {family}");
            assert_eq!(answer(X86_64, call, [family | 7 << 32, 0, 0, 0, 0, 0]), expected, "family {family}, high bits");
        }
    }
}

#[test]
fn the_bytes_for_the_launcher_read_back_and_nothing_else_does() {
    let filters = Filters::compile().unwrap();
    let bytes = filters.to_bytes();
    assert_eq!(Filters::from_bytes(&bytes).unwrap().to_bytes(), bytes);
    assert!(Filters::from_bytes(&bytes[..bytes.len() - 1]).is_none());
    assert!(Filters::from_bytes(&[bytes.as_slice(), &[0]].concat()).is_none());
    assert!(Filters::from_bytes(&[]).is_none());
}
