//! More than a worker's share.

use super::{Attempt, Context, Outcome, call, errno};
use nix::sys::resource::{Resource, UsageWho, getrusage, setrlimit};
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::sys::time::TimeValLike as _;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, pause};
use std::fs::File;
use std::net::UdpSocket;
use std::os::unix::fs::FileExt as _;

pub(crate) const ATTEMPTS: &[(&str, Attempt)] = &[
    ("fork_bomb", fork_bomb),
    ("descriptor_bomb", |context| many(context, || File::open("/dev/null"))),
    ("socket_bomb", |context| many(context, || UdpSocket::bind("0.0.0.0:0"))),
    ("watch_bomb", watch_bomb),
    ("fill_tmp", |context| fill("/tmp", context)),
    ("fill_shared_memory", |context| fill("/dev/shm", context)),
    ("inode_bomb", inode_bomb),
    ("big_file", big_file),
    ("address_space", address_space),
    ("spin", spin),
    // The limit itself is one byte; of zero the handler takes no notice.
    ("core_handler", |_| setrlimit(Resource::RLIMIT_CORE, 0, 0)),
];

fn fork_bomb(context: &Context) -> Outcome {
    let mut children: Vec<Pid> = Vec::new();
    let mut outcome = Ok(());
    while children.len() < context.too_many {
        // SAFETY: this program has a single thread.
        match unsafe { fork() } {
            Ok(ForkResult::Parent { child }) => children.push(child),
            Ok(ForkResult::Child) => {
                nix::unistd::alarm::set(20);
                loop {
                    pause();
                }
            }
            Err(errno) => {
                outcome = Err(errno);
                break;
            }
        }
    }
    for child in children {
        kill(child, Signal::SIGKILL)?;
        waitpid(child, None)?;
    }
    outcome
}

fn many<T>(context: &Context, open: impl Fn() -> std::io::Result<T>) -> Outcome {
    let mut opened = Vec::new();
    for _ in 0..context.too_many {
        opened.push(open().map_err(errno)?);
    }
    Ok(())
}

fn watch_bomb(context: &Context) -> Outcome {
    for _ in 0..context.too_many {
        call(libc::SYS_inotify_init1, &[0])?;
    }
    Ok(())
}

/// Files of one MiB each, so that no bound on a single file is met, removed again.
fn fill(directory: &str, context: &Context) -> Outcome {
    let block = vec![1; 1 << 20];
    let files = context.too_much.div_ceil(block.len());
    let path = |number: usize| format!("{directory}/fill-{number}");
    let written = (0..files).try_for_each(|number| std::fs::write(path(number), &block).map_err(errno));
    // Those that were not written are not there.
    (0..files).for_each(|number| drop(std::fs::remove_file(path(number))));
    written
}

fn inode_bomb(_: &Context) -> Outcome {
    std::fs::create_dir("/tmp/inodes").map_err(errno)?;
    let made = (0..20_000).try_for_each(|number| File::create(format!("/tmp/inodes/{number}")).map(drop));
    std::fs::remove_dir_all("/tmp/inodes").map_err(errno)?;
    made.map_err(errno)
}

fn big_file(context: &Context) -> Outcome {
    // SAFETY: ignoring a signal runs no code.
    unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) }?;
    let file = File::create("/tmp/big").map_err(errno)?;
    let written = file.write_at(b"x", context.file_bytes).map(drop).map_err(errno);
    std::fs::remove_file("/tmp/big").map_err(errno)?;
    written
}

fn address_space(context: &Context) -> Outcome {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    call(libc::SYS_mmap, &[0, context.too_large, libc::PROT_NONE as usize, flags, usize::MAX, 0]).map(drop)
}

/// One and a half seconds of this process's own time.
fn spin(_: &Context) -> Outcome {
    while getrusage(UsageWho::RUSAGE_SELF)?.user_time().num_milliseconds() < 1500 {
        std::hint::black_box((0..100_000u64).sum::<u64>());
    }
    Ok(())
}
