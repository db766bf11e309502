//! What lies on the host, waiting to be found by a worker.

use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};

/// Held while workers look for it.
pub(crate) struct Bait {
    victim: Child,
    shared_memory: String,
    _terminals: Vec<OwnedFd>,
    _tcp: TcpListener,
    _udp: UdpSocket,
    _path: UnixListener,
    _abstract: UnixListener,
    _tmp: tempfile::TempDir,
    /// What the probe is told, see the probe's own `Context`.
    pub(crate) context: serde_json::Value,
}

impl Drop for Bait {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        let _ = Command::new("ipcrm").args(["-m", &self.shared_memory]).status();
    }
}

/// Lays everything out. `home` is a directory that this user may write to.
pub(crate) fn lay(home: &Path, canary: &str) -> Bait {
    let world = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    std::fs::write(home.join("canary"), canary).unwrap();
    world(&home.join("canary"), 0o644);
    let tmp = tempfile::Builder::new().prefix("stockade-bait").tempdir_in("/tmp").unwrap();
    world(tmp.path(), 0o755);
    let tmp_canary = tmp.path().join("canary");
    std::fs::write(&tmp_canary, canary).unwrap();
    let path_socket = home.join("socket");
    let _ = std::fs::remove_file(&path_socket);
    let path = UnixListener::bind(&path_socket).unwrap();
    world(&path_socket, 0o777);
    let abstract_name = format!("stockade-bait-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (terminals, host_terminal) = terminals();
    let (shared_memory, shm_key) = shared_memory();
    let context = serde_json::json!({
        "home": home, "tmp_canary": tmp_canary, "path_socket": path_socket, "abstract_name": abstract_name,
        "tcp_port": tcp.local_addr().unwrap().port(), "udp_port": udp.local_addr().unwrap().port(),
        "canary": canary, "host_terminal": host_terminal, "host_device": device(), "shm_key": shm_key,
        "host_name": nix::unistd::gethostname().unwrap().to_str().unwrap(),
    });
    let victim = victim(canary);
    let mut bait = Bait {
        shared_memory,
        _terminals: terminals,
        _abstract: UnixListener::bind_addr(&address).unwrap(),
        _tcp: tcp,
        _udp: udp,
        _path: path,
        _tmp: tmp,
        context,
        victim,
    };
    bait.context["victim"] = bait.victim.id().into();
    bait
}

/// A process that a worker of this user would be allowed to signal and to read, if it saw it.
fn victim(canary: &str) -> Child {
    let mut command = Command::new("sleep");
    command.arg0(canary).arg("1000").env("CANARY", canary);
    if nix::unistd::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    command.spawn().unwrap()
}

/// A segment that everybody may read: its id and its key.
fn shared_memory() -> (String, i64) {
    let made = Command::new("ipcmk").args(["-M", "4096", "-p", "0666"]).output().unwrap();
    let made = String::from_utf8(made.stdout).unwrap();
    let id = made.rsplit(':').next().unwrap().trim().to_owned();
    let table = std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
    let row = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find(|row| row[1] == id).unwrap();
    let key = row[0].parse().unwrap();
    (id, key)
}

/// So many terminals that the last has a number no worker's own terminal has.
fn terminals() -> (Vec<OwnedFd>, u32) {
    let mut held = Vec::new();
    loop {
        let master = nix::pty::posix_openpt(nix::fcntl::OFlag::O_RDWR | nix::fcntl::OFlag::O_NOCTTY).unwrap();
        nix::pty::grantpt(&master).unwrap();
        nix::pty::unlockpt(&master).unwrap();
        let name = nix::pty::ptsname_r(&master).unwrap();
        let number: u32 = name.rsplit('/').next().unwrap().parse().unwrap();
        let flags = nix::fcntl::OFlag::O_RDWR | nix::fcntl::OFlag::O_NOCTTY;
        let slave = nix::fcntl::open(name.as_str(), flags, nix::sys::stat::Mode::empty()).unwrap();
        assert!(slave.as_raw_fd() > 2);
        // Held open by a copy, so that both sides live as long as this program.
        held.push(slave);
        held.push(std::os::fd::AsFd::as_fd(&master).try_clone_to_owned().unwrap());
        if number >= 3 {
            return (held, number);
        }
    }
}

/// A device of the host's that no worker has.
fn device() -> String {
    use std::os::unix::fs::FileTypeExt as _;
    let own = ["null", "zero", "full", "random", "urandom", "tty", "ptmx"];
    std::fs::read_dir("/dev")
        .unwrap()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_char_device() || kind.is_block_device()))
        .map(|entry| entry.path().display().to_string())
        .find(|path| !own.iter().any(|name| path == &format!("/dev/{name}")))
        .expect("the host has more devices than a worker")
}
