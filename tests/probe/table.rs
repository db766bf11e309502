//! What must come out of every attempt, and who makes it so.

use std::fmt::Write as _;
use stockade_runtime::sandbox::Rule;

/// One attempt of the probe's.
pub(crate) struct Attempt {
    /// Its name in the probe.
    pub(crate) name: &'static str,
    /// The heading it stands under in the document.
    pub(crate) group: &'static str,
    /// What is tried, for people.
    pub(crate) what: &'static str,
    /// Whether it is made on a terminal.
    pub(crate) terminal: bool,
    /// What must come out with the standard profile.
    pub(crate) expected: &'static [&'static str],
    /// What else may come out when one enforcer stands alone.
    pub(crate) layered: &'static [&'static str],
    /// The rules that each refuse it alone, the first named first in the document.
    pub(crate) enforcers: &'static [Rule],
    /// The Landlock ABI from which Landlock is one of them.
    pub(crate) landlock: u32,
    /// How it is shown to go through.
    pub(crate) control: Control,
}

/// How an attempt is shown to go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    /// With its enforcers taken away it comes to this: `allowed`, or what the kernel itself says to such a request.
    Lifted(&'static [&'static str]),
    /// On a terminal of its own the worker may.
    OnTerminal,
    /// The variable is found once it is granted.
    WithVariable,
    /// It is no attack: a worker must be able to.
    Allowed,
}

const ALLOWED: Control = Control::Lifted(&["allowed"]);

const fn attempt(
    group: &'static str,
    name: &'static str,
    what: &'static str,
    expected: &'static [&'static str],
    enforcers: &'static [Rule],
) -> Attempt {
    Attempt { name, group, what, terminal: false, expected, layered: &[], enforcers, landlock: 1, control: ALLOWED }
}

impl Attempt {
    const fn on_terminal(self) -> Self {
        Self { terminal: true, ..self }
    }
    const fn layered(self, layered: &'static [&'static str]) -> Self {
        Self { layered, ..self }
    }
    const fn since_abi(self, landlock: u32) -> Self {
        Self { landlock, ..self }
    }
    const fn control(self, control: Control) -> Self {
        Self { control, ..self }
    }
}

const PROCESSES: &str = "Processes";
const KERNEL: &str = "The kernel";
const TERMINALS: &str = "Terminals and devices";
const NETWORK: &str = "Network and sockets";
const FILES: &str = "Files";
const LIMITS: &str = "Limits";
const NEEDED: &str = "What a worker can do";

const NONE: &[Rule] = &[];
const PID: &[Rule] = &[Rule::PidNamespace];
const PID_OR_LANDLOCK: &[Rule] = &[Rule::PidNamespace, Rule::Landlock];
const INIT: &[Rule] = &[Rule::HiddenInit, Rule::Landlock];
const CALLS: &[Rule] = &[Rule::Syscalls];
const CALLS_OR_CAPABILITIES: &[Rule] = &[Rule::Syscalls, Rule::NoCapabilities];
const MOUNTS: &[Rule] = &[Rule::Syscalls, Rule::NoCapabilities, Rule::Landlock];
const TERMINAL: &[Rule] = &[Rule::TerminalIoctls];
const FAMILIES: &[Rule] = &[Rule::SocketFamilies];
const NET_OR_LANDLOCK: &[Rule] = &[Rule::NetworkNamespace, Rule::Landlock];
const ROOT: &[Rule] = &[Rule::PrivateRoot];
const ROOT_OR_LANDLOCK: &[Rule] = &[Rule::PrivateRoot, Rule::Landlock];
const READ_ONLY: &[Rule] = &[Rule::ReadOnly];
const READ_ONLY_OR_LANDLOCK: &[Rule] = &[Rule::ReadOnly, Rule::Landlock];
const ALL_FILTERS: &[Rule] =
    &[Rule::ForeignAbi, Rule::Clone3, Rule::SocketFamilies, Rule::TerminalIoctls, Rule::Syscalls];

/// Every attempt, in the order of the document.
pub(crate) const TABLE: &[Attempt] = &[
    attempt(PROCESSES, "see_host_process", "look at a host process in /proc", &["ENOENT"], PID),
    attempt(PROCESSES, "read_host_arguments", "read a host process's arguments", &["ENOENT"], PID),
    attempt(PROCESSES, "read_host_environment", "read a host process's environment", &["ENOENT"], PID_OR_LANDLOCK)
        .layered(&["EACCES"])
        .control(Control::Lifted(&["EACCES"])),
    attempt(PROCESSES, "signal_host_process", "signal a host process of the same user", &["ESRCH"], PID_OR_LANDLOCK)
        .layered(&["EPERM"])
        .since_abi(6),
    attempt(PROCESSES, "enter_init_root", "list the root of the worker's first process", &["ENOENT"], INIT)
        .layered(&["EACCES"]),
    attempt(
        PROCESSES,
        "list_init_descriptors",
        "list the first process's descriptors",
        &["ENOENT"],
        &[Rule::HiddenInit],
    ),
    attempt(PROCESSES, "read_init_program", "open the first process's program", &["ENOENT"], INIT).layered(&["EACCES"]),
    attempt(PROCESSES, "read_init_environment", "read the first process's environment", &["ENOENT"], INIT)
        .layered(&["EACCES"]),
    attempt(
        PROCESSES,
        "extra_descriptors",
        "find a descriptor besides 0, 1 and 2",
        &["ENOENT"],
        &[Rule::ThreeDescriptors],
    ),
    attempt(PROCESSES, "inherited_variable", "find a secret of the host's environment", &["ENOENT"], NONE)
        .control(Control::WithVariable),
    attempt(PROCESSES, "outlive", "outlive the worker: new session, orphaned, deaf to signals", &["SIGKILL"], PID),
    attempt(KERNEL, "unshare_user_namespace", "unshare a user namespace", &["EPERM"], CALLS),
    attempt(KERNEL, "clone_user_namespace", "clone into a user namespace", &["EPERM"], CALLS),
    attempt(KERNEL, "clone3_user_namespace", "the same by clone3, flags in memory", &["ENOSYS"], &[Rule::Clone3]),
    attempt(KERNEL, "enter_namespace", "setns", &["EPERM"], CALLS_OR_CAPABILITIES),
    attempt(KERNEL, "mount", "mount a file system", &["EPERM"], MOUNTS),
    attempt(KERNEL, "unmount", "unmount one", &["EPERM"], MOUNTS),
    attempt(KERNEL, "change_root", "chroot", &["EPERM"], CALLS_OR_CAPABILITIES),
    attempt(KERNEL, "set_host_name", "sethostname", &["EPERM"], CALLS_OR_CAPABILITIES),
    attempt(KERNEL, "trace", "ptrace", &["EPERM"], CALLS),
    attempt(KERNEL, "read_memory", "process_vm_readv", &["EPERM"], CALLS),
    attempt(KERNEL, "write_memory", "process_vm_writev", &["EPERM"], CALLS),
    attempt(KERNEL, "take_descriptor", "pidfd_getfd", &["EPERM"], CALLS),
    attempt(KERNEL, "name_handle", "name_to_handle_at", &["EPERM"], CALLS),
    attempt(KERNEL, "open_handle", "open_by_handle_at", &["EPERM"], CALLS)
        .control(Control::Lifted(&["EINVAL", "EPERM"])),
    attempt(KERNEL, "keyring", "keyctl", &["EPERM"], CALLS),
    attempt(KERNEL, "add_key", "add_key", &["EPERM"], CALLS),
    attempt(KERNEL, "io_uring", "io_uring_setup", &["EPERM"], CALLS).control(Control::Lifted(&["allowed", "ENOMEM"])),
    attempt(KERNEL, "userfaultfd", "userfaultfd", &["EPERM"], CALLS),
    attempt(KERNEL, "secret_memory", "memfd_secret", &["EPERM"], CALLS)
        .control(Control::Lifted(&["allowed", "ENOSYS"])),
    attempt(KERNEL, "bpf", "bpf", &["EPERM"], CALLS).control(Control::Lifted(&["ENOENT"])),
    // EACCES is what Ubuntu's kernel says, which refuses it to ordinary users before it looks at arguments.
    attempt(KERNEL, "performance_events", "perf_event_open", &["EPERM"], CALLS)
        .control(Control::Lifted(&["EFAULT", "EACCES"])),
    attempt(KERNEL, "personality", "personality", &["EPERM"], CALLS),
    attempt(KERNEL, "load_kernel", "kexec_load", &["EPERM"], CALLS).control(Control::Lifted(&["EPERM", "ENOSYS"])),
    attempt(KERNEL, "load_module", "finit_module", &["EPERM"], CALLS).control(Control::Lifted(&["EPERM", "ENOSYS"])),
    attempt(KERNEL, "x32_call", "a call by the x32 table", &["SIGSYS"], &[Rule::ForeignAbi])
        .control(Control::Lifted(&["allowed", "ENOSYS"])),
    attempt(KERNEL, "i386_call", "a call by the i386 table", &["SIGSYS"], ALL_FILTERS),
    attempt(KERNEL, "host_name", "learn the host's name", &["ENOENT"], &[Rule::UtsNamespace]),
    attempt(KERNEL, "shared_memory", "find a System V segment of the host's", &["ENOENT"], &[Rule::IpcNamespace]),
    attempt(KERNEL, "core_handler", "let a crash start the host's core handler", &["EPERM"], CALLS),
    attempt(TERMINALS, "type_into_terminal", "type into the terminal (TIOCSTI)", &["EPERM"], TERMINAL)
        .on_terminal()
        .control(Control::Lifted(&["allowed", "EIO"])),
    attempt(TERMINALS, "type_with_high_bits", "the same with bits above the 32nd set", &["EPERM"], TERMINAL)
        .on_terminal()
        .control(Control::Lifted(&["allowed", "EIO"])),
    attempt(TERMINALS, "console_requests", "console requests (TIOCLINUX)", &["EPERM"], TERMINAL)
        .on_terminal()
        .control(Control::Lifted(&["ENOTTY"])),
    attempt(TERMINALS, "line_discipline", "change the line discipline", &["EPERM"], TERMINAL).on_terminal(),
    attempt(TERMINALS, "own_terminal", "open a controlling terminal over pipes", &["ENXIO"], NONE)
        .control(Control::OnTerminal),
    attempt(TERMINALS, "host_terminal", "see a terminal of the host's", &["ENOENT"], &[Rule::PrivateTerminals]),
    attempt(TERMINALS, "host_device", "see another device of the host's", &["ENOENT"], &[Rule::PrivateDevices]),
    attempt(NETWORK, "connect_tcp", "connect to a port of the host's", &["EACCES", "ENETUNREACH"], NET_OR_LANDLOCK)
        .layered(&["EACCES", "ENETUNREACH"])
        .since_abi(4),
    attempt(NETWORK, "send_udp", "send a datagram, e.g. to a name server", &["ENETUNREACH"], &[Rule::NetworkNamespace]),
    attempt(NETWORK, "raw_icmp", "open a raw socket", &["EPERM"], &[Rule::NoCapabilities]),
    attempt(NETWORK, "netlink_socket", "open a netlink socket", &["EAFNOSUPPORT"], FAMILIES),
    attempt(
        NETWORK,
        "packet_socket",
        "open a packet socket",
        &["EAFNOSUPPORT"],
        &[Rule::SocketFamilies, Rule::NoCapabilities],
    )
    .layered(&["EPERM"]),
    attempt(NETWORK, "vsock_socket", "open a vsock socket", &["EAFNOSUPPORT"], FAMILIES)
        .control(Control::Lifted(&["allowed", "EAFNOSUPPORT"])),
    attempt(NETWORK, "crypto_socket", "open a kernel crypto socket", &["EAFNOSUPPORT"], FAMILIES)
        .control(Control::Lifted(&["allowed", "EAFNOSUPPORT"])),
    attempt(
        NETWORK,
        "abstract_socket",
        "connect to an abstract socket of the host's",
        &["ECONNREFUSED"],
        NET_OR_LANDLOCK,
    )
    .layered(&["EPERM"])
    .since_abi(6),
    attempt(NETWORK, "path_socket", "connect to a socket in the host's file system", &["ENOENT"], ROOT),
    attempt(NETWORK, "run_directory", "list /run, where daemons have theirs", &["ENOENT"], ROOT),
    attempt(FILES, "home_directory", "list the home directory", &["ENOENT"], ROOT),
    attempt(FILES, "home_canary", "read a file in it", &["ENOENT"], ROOT_OR_LANDLOCK).layered(&["EACCES"]),
    attempt(FILES, "home_by_way_of_proc", "the same by way of /proc/self/root", &["ENOENT"], ROOT_OR_LANDLOCK)
        .layered(&["EACCES"]),
    attempt(FILES, "host_configuration", "see the host's /etc, with its name servers", &["ENOENT"], ROOT),
    attempt(FILES, "host_tmp", "read a file in the host's /tmp", &["ENOENT"], &[Rule::PrivateTmp]),
    attempt(FILES, "write_root", "create a file in /", &["EROFS", "EACCES"], READ_ONLY_OR_LANDLOCK)
        .layered(&["EROFS", "EACCES"]),
    attempt(FILES, "write_system", "create a file in /usr/bin", &["EROFS", "EACCES"], READ_ONLY_OR_LANDLOCK)
        .layered(&["EROFS", "EACCES"])
        .control(Control::Lifted(&["EACCES"])),
    attempt(FILES, "write_configuration", "create a file in /etc", &["EROFS", "EACCES"], READ_ONLY_OR_LANDLOCK)
        .layered(&["EROFS", "EACCES"]),
    attempt(FILES, "write_devices", "create a file in /dev", &["EROFS", "EACCES"], READ_ONLY_OR_LANDLOCK)
        .layered(&["EROFS", "EACCES"]),
    attempt(FILES, "write_work", "create a file in /work", &["EROFS", "EACCES"], READ_ONLY_OR_LANDLOCK)
        .layered(&["EROFS", "EACCES"]),
    attempt(FILES, "change_input_mode", "make an input writable", &["EROFS"], READ_ONLY),
    attempt(FILES, "remove_input", "remove an input", &["EROFS", "EACCES"], READ_ONLY_OR_LANDLOCK)
        .layered(&["EROFS", "EACCES"]),
    attempt(FILES, "remove_output", "remove the declared output", &["EROFS", "EACCES", "EBUSY"], READ_ONLY_OR_LANDLOCK)
        .layered(&["EROFS", "EACCES", "EBUSY"])
        .control(Control::Lifted(&["EBUSY"])),
    attempt(FILES, "rename_output", "rename the declared output", &["EROFS", "EACCES", "EBUSY"], READ_ONLY_OR_LANDLOCK)
        .layered(&["EROFS", "EACCES", "EBUSY"])
        .control(Control::Lifted(&["EBUSY"])),
    attempt(LIMITS, "fork_bomb", "have more processes than allowed", &["EAGAIN"], &[Rule::ProcessLimit]),
    attempt(LIMITS, "descriptor_bomb", "have more descriptors than allowed", &["EMFILE"], &[Rule::OpenFileLimit]),
    attempt(LIMITS, "socket_bomb", "the same with sockets", &["EMFILE"], &[Rule::OpenFileLimit]),
    attempt(LIMITS, "watch_bomb", "the same with inotify", &["EMFILE"], &[Rule::OpenFileLimit]),
    attempt(LIMITS, "fill_tmp", "write more to /tmp than allowed", &["ENOSPC"], &[Rule::TmpSize]),
    attempt(LIMITS, "fill_shared_memory", "write more to /dev/shm than allowed", &["ENOSPC"], &[Rule::TmpSize]),
    attempt(LIMITS, "inode_bomb", "make more files than allowed", &["ENOSPC"], &[Rule::TmpSize]),
    attempt(LIMITS, "big_file", "make a larger file than allowed", &["EFBIG"], &[Rule::FileSizeLimit]),
    attempt(LIMITS, "address_space", "map more memory than allowed", &["ENOMEM"], &[Rule::AddressSpaceLimit]),
    attempt(LIMITS, "spin", "use more CPU time than allowed", &["SIGKILL"], &[Rule::CpuLimit]),
    attempt(NEEDED, "list_root", "list /", &["allowed"], NONE).control(Control::Allowed),
    attempt(NEEDED, "write_tmp", "create a file in /tmp", &["allowed"], NONE).control(Control::Allowed),
    attempt(NEEDED, "write_output", "write the declared output", &["allowed"], NONE).control(Control::Allowed),
    attempt(NEEDED, "ip_socket", "open an IP socket (there is no way out)", &["allowed"], NONE)
        .control(Control::Allowed),
];

/// The document, from what was measured: as an ordinary user, as root, and in the control.
pub(crate) fn document(kernel: &str, abi: u64, measured: impl Fn(&Attempt) -> [String; 3]) -> String {
    let mut text = format!("{HEAD}\nMeasured on Linux {kernel}, Landlock ABI {abi}.\n");
    let mut group = "";
    for attempt in TABLE {
        if attempt.group != group {
            group = attempt.group;
            let _ = write!(text, "\n## {group}\n\n| attempt | ordinary user | root | enforcers | without them |\n");
            text.push_str("| --- | --- | --- | --- | --- |\n");
        }
        let [ordinary, root, control] = measured(attempt);
        let enforcers: Vec<&str> = attempt.enforcers.iter().map(|rule| rule.enforcer()).collect();
        let enforcers = if enforcers.is_empty() { "-".to_owned() } else { enforcers.join("; ") };
        let control = match attempt.control {
            Control::Lifted(_) => control,
            Control::OnTerminal => format!("on a terminal of its own: {control}"),
            Control::WithVariable => format!("when it is granted: {control}"),
            Control::Allowed => "-".to_owned(),
        };
        let _ = writeln!(text, "| {} | {ordinary} | {root} | {enforcers} | {control} |", attempt.what);
    }
    text
}

/// The document's rows without the kernel's answers, which another kernel may word differently.
pub(crate) fn without_answers(text: &str) -> String {
    text.lines()
        .filter(|line| !line.starts_with("Measured on"))
        .map(|line| {
            let mut cells: Vec<&str> = line.split('|').collect();
            if cells.len() == 7 {
                (cells[2], cells[3], cells[5]) = ("", "", "");
            }
            cells.join("|") + "\n"
        })
        .collect()
}

const HEAD: &str = "\
# What each tier enforces

This page is written by `tests/probe.rs` from what a probe program found inside workers; it is not edited by hand.
One tier exists so far, `native`.

For every attempt the test runs the probe with the standard profile, where it must fail as listed; then with each
enforcer of the attempt alone, where it must still fail; and with none of them, where it must go through, or come as
far as the kernel's own answer to such a request. Landlock is never the only enforcer: everything fails without it too.

An answer in the last column other than `allowed` is the kernel's own, and means that the request got past stockade's
rules and met another obstacle: the user namespace, the owner of a file, a mount point, or a request made with
arguments that lead nowhere. `ENOSYS` and `EAFNOSUPPORT` there mean that this kernel does not have the thing at all.

What is not in the table: the total memory of a worker is not limited by this tier, only that of each process, their
number, and the size of its file systems. `stockade doctor` says so too.

What was seen on the kernels of Debian 12 and Ubuntu 24.04 is in [kernels](kernels.md).
";
