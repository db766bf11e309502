//! Calls into the kernel that no tool needs.

use super::{Attempt, Context, Outcome, call, errno, found};
use nix::errno::Errno;
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::AsRawFd as _;

pub(crate) const ATTEMPTS: &[(&str, Attempt)] = &[
    ("type_into_terminal", |_| ioctl(0x5412)),
    ("type_with_high_bits", |_| ioctl(0x1_0000_5412)),
    ("console_requests", |_| ioctl(0x541c)),
    ("line_discipline", |_| ioctl(0x5423)),
    ("own_terminal", |_| File::open("/dev/tty").map(drop).map_err(errno)),
    ("unshare_user_namespace", |_| done(call(libc::SYS_unshare, &[libc::CLONE_NEWUSER as usize]))),
    ("clone_user_namespace", |_| spawned(call(libc::SYS_clone, &[(libc::CLONE_NEWUSER | libc::SIGCHLD) as usize]))),
    ("clone3_user_namespace", |_| clone3(libc::CLONE_NEWUSER as u64)),
    ("enter_namespace", |_| {
        let namespace = File::open("/proc/self/ns/uts").map_err(errno)?;
        done(call(libc::SYS_setns, &[namespace.as_raw_fd() as usize, 0]))
    }),
    ("mount", |_| done(call(libc::SYS_mount, &[at(c"none"), at(c"/tmp"), at(c"tmpfs"), 0, 0]))),
    ("unmount", |_| done(call(libc::SYS_umount2, &[at(c"/dev/shm"), libc::MNT_DETACH as usize]))),
    ("change_root", |_| done(call(libc::SYS_chroot, &[at(c"/tmp")]))),
    ("set_host_name", |_| done(call(libc::SYS_sethostname, &[at(c"other"), 5]))),
    ("trace", |_| done(call(libc::SYS_ptrace, &[libc::PTRACE_TRACEME as usize]))),
    ("read_memory", |_| memory(libc::SYS_process_vm_readv)),
    ("write_memory", |_| memory(libc::SYS_process_vm_writev)),
    ("take_descriptor", |_| {
        let own = call(libc::SYS_pidfd_open, &[std::process::id() as usize, 0])?;
        done(call(libc::SYS_pidfd_getfd, &[own as usize, 0, 0]))
    }),
    ("name_handle", |_| {
        let mut handle = [128u32; 40];
        let mut mount = 0i32;
        let [handle, mount] = [&raw mut handle as usize, &raw mut mount as usize];
        done(call(libc::SYS_name_to_handle_at, &[libc::AT_FDCWD as usize, at(c"/tmp"), handle, mount, 0]))
    }),
    ("open_handle", |_| {
        let handle = [0u32; 4];
        done(call(libc::SYS_open_by_handle_at, &[libc::AT_FDCWD as usize, &raw const handle as usize, 0]))
    }),
    ("keyring", |_| done(call(libc::SYS_keyctl, &[0, -3isize as usize, 1]))),
    ("add_key", |_| {
        let keyring = -2isize as usize;
        done(call(libc::SYS_add_key, &[at(c"user"), at(c"probe"), at(c"x"), 1, keyring]))
    }),
    ("io_uring", |_| {
        let mut parameters = [0u32; 64];
        done(call(libc::SYS_io_uring_setup, &[1, &raw mut parameters as usize]))
    }),
    ("userfaultfd", |_| done(call(libc::SYS_userfaultfd, &[1]))),
    ("secret_memory", |_| done(call(libc::SYS_memfd_secret, &[0]))),
    ("bpf", |_| {
        let attributes = [at(c"/sys/fs/bpf/none"), 0, 0, 0];
        done(call(libc::SYS_bpf, &[7, &raw const attributes as usize, 16]))
    }),
    ("performance_events", |_| done(call(libc::SYS_perf_event_open, &[0, 0, 0, -1isize as usize, 0]))),
    ("personality", |_| done(call(libc::SYS_personality, &[0xffff_ffff]))),
    ("load_kernel", |_| done(call(libc::SYS_kexec_load, &[0, 0, 0, 0]))),
    ("load_module", |_| done(call(libc::SYS_finit_module, &[0, at(c""), 0]))),
    ("x32_call", |_| done(call(libc::SYS_getpid | 0x4000_0000, &[]))),
    ("i386_call", |_| i386_call()),
    ("host_name", |context| found(nix::unistd::gethostname()?.to_str() == Some(context.host_name.as_str()))),
    ("shared_memory", shared_memory),
];

fn at(text: &'static CStr) -> usize {
    text.as_ptr() as usize
}

fn done(result: Result<i64, Errno>) -> Outcome {
    result.map(drop)
}

/// A raw request on standard input, with all its 64 bits, and a byte to read from.
fn ioctl(request: usize) -> Outcome {
    let zero = 0u64;
    done(call(libc::SYS_ioctl, &[0, request, &raw const zero as usize]))
}

/// The child of a raw fork ends at once.
fn spawned(result: Result<i64, Errno>) -> Outcome {
    match result? {
        0 => std::process::exit(0),
        _ => Ok(()),
    }
}

fn clone3(flags: u64) -> Outcome {
    let arguments = [flags, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0];
    spawned(call(libc::SYS_clone3, &[&raw const arguments as usize, 64]))
}

/// Moves one byte from this process's memory to its own memory, by way of the kernel.
fn memory(number: i64) -> Outcome {
    let (mut here, mut there) = (0u8, 1u8);
    let here = [&raw mut here as usize, 1];
    let there = [&raw mut there as usize, 1];
    let own = std::process::id() as usize;
    done(call(number, &[own, &raw const here as usize, 1, &raw const there as usize, 1, 0]))
}

/// `getpid` by the table of another architecture.
#[cfg(target_arch = "x86_64")]
fn i386_call() -> Outcome {
    let mut number: u64 = 20;
    // SAFETY: the call takes no argument and changes nothing but its result.
    unsafe {
        std::arch::asm!("int 0x80", inout("rax") number, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    found(number == u64::from(std::process::id()))
}
#[cfg(not(target_arch = "x86_64"))]
fn i386_call() -> Outcome {
    Err(Errno::ENOSYS)
}

fn shared_memory(context: &Context) -> Outcome {
    done(call(libc::SYS_shmget, &[context.shm_key as usize, 0, 0]))
}
