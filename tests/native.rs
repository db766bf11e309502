//! Workers of the native tier, through the real launcher, as whoever runs the tests.
//!
//! Goal: streams, files, limits and ends of a worker are what the boundary's documentation says, and every refusal is
//! one whose cause is named. What confines a worker is shown by `tests/probe.rs`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::time::Duration;
use stockade_protocol::contract::WorkerLimits;
use stockade_protocol::digest::Digest;
use stockade_protocol::refusal::RefusalCode;
use stockade_protocol::result::Removal;
use stockade_runtime::sandbox::{
    Boundary, BoundaryOptions, Exit, InputSpec, OutputSpec, PtyMaster, SandboxError, Stage, Stdio, Worker, WorkerEnd,
    WorkerIo, WorkerSpec, probe, probe_with,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const TERMINAL: Stdio = Stdio::Pty { columns: 80, rows: 24 };

async fn boundary() -> (TempDir, Boundary) {
    let state = tempfile::tempdir().unwrap();
    let boundary = start(state.path()).await.unwrap();
    (state, boundary)
}

async fn start(state: &Path) -> Result<Boundary, SandboxError> {
    let name = state.file_name().unwrap().to_str().unwrap().trim_start_matches('.').to_owned();
    let mut options = BoundaryOptions::new(state, name);
    options.executable = env!("CARGO_BIN_EXE_stockade").into();
    Boundary::start(options).await
}

fn spec(stdio: Stdio, script: &str) -> WorkerSpec {
    let argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    WorkerSpec::new("test", argv, stdio, WorkerLimits::default())
}

fn file(content: &[u8]) -> OwnedFd {
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, content).unwrap();
    file.into()
}

fn input(path: &str, content: &[u8]) -> InputSpec {
    InputSpec { path: path.into(), bytes: content.len() as u64, sha256: Digest::of(content) }
}

fn terminal(worker: &mut Worker) -> PtyMaster {
    match worker.take_io() {
        Some(WorkerIo::Pty(master)) => master,
        other => panic!("no terminal but {other:?}"),
    }
}

async fn until(master: &mut PtyMaster, mark: &str) -> String {
    let read = async {
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(&seen).contains(mark) {
            let count = master.read(&mut buffer).await.unwrap();
            assert!(count > 0, "the terminal closed after {:?}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&buffer[..count]);
        }
        String::from_utf8_lossy(&seen).into_owned()
    };
    tokio::time::timeout(Duration::from_secs(20), read).await.expect("the mark appears in time")
}

/// Runs a script over pipes to its end.
async fn run(boundary: &Boundary, spec: WorkerSpec, inputs: Vec<OwnedFd>) -> (WorkerEnd, String, String) {
    let mut worker = boundary.launch(spec, inputs).await.unwrap();
    let Some(WorkerIo::Pipes { stdin, mut stdout, mut stderr }) = worker.take_io() else { panic!("no pipes") };
    drop(stdin);
    let (mut out, mut err) = (String::new(), String::new());
    let (a, b) = tokio::join!(stdout.read_to_string(&mut out), stderr.read_to_string(&mut err));
    a.unwrap();
    b.unwrap();
    (worker.wait().await, out, err)
}

#[tokio::test]
async fn a_worker_over_pipes_keeps_its_streams_apart_and_tells_its_exit() {
    let (_state, boundary) = boundary().await;
    let mut spec = spec(Stdio::Pipes, "echo out; echo err >&2; cat; env; exit 7");
    spec.environment = [("A".to_owned(), "b c".to_owned())].into();
    let (end, out, err) = run(&boundary, spec, Vec::new()).await;
    assert_eq!(end, WorkerEnd { exit: Exit::Code(7), removal: Removal::Confirmed });
    assert_eq!(err, "err\n");
    // The shell itself adds PWD and the like for its children; what it was given is exactly one variable.
    assert!(out.starts_with("out\n") && out.contains("A=b c\n"), "{out}");
    assert!(!out.contains("HOME=") && !out.contains("PATH="), "{out}");
    assert_eq!(boundary.stop().await, Removal::Confirmed);
}

#[tokio::test]
async fn what_is_in_force_was_measured_inside() {
    let (_state, boundary) = boundary().await;
    let spec = spec(Stdio::Pipes, "exit 0");
    let digest = Digest::of(spec.to_bytes().unwrap());
    let mut worker = boundary.launch(spec, Vec::new()).await.unwrap();
    let found = &worker.enforcement;
    assert_eq!(found.tier, "native");
    assert_eq!(found.specification, digest);
    assert_eq!(found.namespaces, ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"]);
    assert!(found.no_new_privileges);
    assert!(found.seccomp_filters >= 5, "{found:?}");
    worker.wait().await;
}

#[tokio::test]
async fn a_line_of_64_kib_reaches_a_terminal_worker_whole() {
    let (_state, boundary) = boundary().await;
    let mut worker = boundary.launch(spec(TERMINAL, "printf 'ready> '; exec cat"), Vec::new()).await.unwrap();
    let mut master = terminal(&mut worker);
    assert_eq!(until(&mut master, "ready> ").await, "ready> ");
    let line: String = (0..64 * 1024).map(|at| char::from(b'a' + (at % 26) as u8)).collect();
    let mut writer = master.clone();
    let (sent, seen) = tokio::join!(
        async {
            writer.write_all(line.as_bytes()).await?;
            writer.write_all(b"\n").await
        },
        until(&mut master, "\n"),
    );
    sent.unwrap();
    // No echo: what comes back is what `cat` read, once.
    assert_eq!(seen.len(), line.len() + 2);
    assert_eq!(seen.trim_end(), line);
    assert_eq!(worker.kill().await, WorkerEnd { exit: Exit::Signal(9), removal: Removal::Confirmed });
}

#[tokio::test]
async fn a_resize_reaches_the_worker() {
    let (_state, boundary) = boundary().await;
    let script = "tty; stty size; trap 'stty size; echo resized' WINCH; echo ready; while :; do read -r line; done";
    let mut worker = boundary.launch(spec(TERMINAL, script), Vec::new()).await.unwrap();
    let mut master = terminal(&mut worker);
    let first = until(&mut master, "ready\r\n").await;
    assert_eq!(first, "/dev/pts/0\r\n24 80\r\nready\r\n");
    master.resize(132, 43).unwrap();
    assert_eq!(until(&mut master, "resized\r\n").await, "43 132\r\nresized\r\n");
    assert!(master.resize(0, 10).is_err());
    worker.kill().await;
}

#[tokio::test]
async fn inputs_are_read_only_copies_and_the_output_outlives_the_worker() {
    let (_state, boundary) = boundary().await;
    let content = b"name,value\na,1\n".as_slice();
    let mut spec = spec(
        Stdio::Pipes,
        "pwd; cat data/in.csv; ls -l data/in.csv | cut -c1-10
         for f in data/in.csv data/new new; do (echo x > $f) 2>/dev/null && echo wrote $f; done
         rm -f data/out.csv 2>/dev/null && echo removed; mv data/out.csv data/x 2>/dev/null && echo moved
         echo result > data/out.csv; echo more >> data/out.csv; chmod 777 /work 2>/dev/null && echo chmod; exit 0",
    );
    spec.inputs = vec![input("data/in.csv", content)];
    spec.output = Some(OutputSpec { path: "data/out.csv".into(), max_bytes: 4096 });
    let mut worker = boundary.launch(spec, vec![file(content)]).await.unwrap();
    let output = worker.take_output().unwrap();
    assert!(worker.take_output().is_none());
    let Some(WorkerIo::Pipes { mut stdout, .. }) = worker.take_io() else { panic!("no pipes") };
    let mut out = String::new();
    stdout.read_to_string(&mut out).await.unwrap();
    assert_eq!(out, "/work\nname,value\na,1\n-r-xr-xr-x\n");
    assert_eq!(worker.wait().await, WorkerEnd { exit: Exit::Code(0), removal: Removal::Confirmed });
    let mut staged = String::new();
    std::fs::File::from(output).read_to_string(&mut staged).unwrap();
    assert_eq!(staged, "result\nmore\n");
}

#[tokio::test]
async fn an_output_has_room_for_its_bound_and_no_more() {
    let (_state, boundary) = boundary().await;
    let script = "head -c 4096 /dev/zero > out && echo fits; head -c 65536 /dev/zero >> out || echo full";
    let mut spec = spec(Stdio::Pipes, script);
    spec.output = Some(OutputSpec { path: "out".into(), max_bytes: 4096 });
    let (_, out, err) = run(&boundary, spec, Vec::new()).await;
    assert_eq!(out, "fits\nfull\n");
    assert!(err.contains("No space left on device"), "{err}");
}

#[tokio::test]
async fn an_input_that_is_not_the_granted_one_starts_nothing() {
    let (_state, boundary) = boundary().await;
    for sent in [b"abd".as_slice(), b"abcd", b"ab", b""] {
        let mut spec = spec(Stdio::Pipes, "echo ran");
        spec.inputs = vec![input("in", b"abc")];
        let error = boundary.launch(spec, vec![file(sent)]).await.unwrap_err();
        let SandboxError::Launch(failure) = &error else { panic!("{error}") };
        assert_eq!((failure.stage, failure.step.as_str()), (Stage::Init, "copy the input in"));
        assert!(error.nothing_ran());
        assert_eq!(error.refusal().code, RefusalCode::Unavailable);
    }
    let mut spec = spec(Stdio::Pipes, "cat in");
    spec.inputs = vec![input("in", b"abc")];
    let (_, out, _) = run(&boundary, spec, vec![file(b"abc")]).await;
    assert_eq!(out, "abc");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named_with_the_kernels_answer() {
    let (_state, boundary) = boundary().await;
    for (name, errno) in
        [("/usr/bin/no-such-program", libc::ENOENT), ("no-such-program", libc::ENOENT), ("/usr", libc::EACCES)]
    {
        let mut spec = spec(Stdio::Pipes, "");
        spec.argv = vec![name.to_owned()];
        let error = boundary.launch(spec, Vec::new()).await.unwrap_err();
        let SandboxError::Launch(failure) = &error else { panic!("{error}") };
        assert!(failure.is_exec(), "{failure}");
        assert_eq!(failure.errno, errno);
        assert_eq!(error.refusal().code, RefusalCode::Failed);
    }
    let mut spec = spec(Stdio::Pipes, "");
    spec.argv = vec!["true".to_owned()];
    assert_eq!(run(&boundary, spec, Vec::new()).await.0.exit, Exit::Code(0));
}

#[tokio::test]
async fn an_ending_worker_takes_every_process_with_it() {
    let (_state, boundary) = boundary().await;
    // The stubborn one holds standard output: were it alive, reading would not end.
    let script = "(trap '' HUP TERM INT; setsid sh -c 'trap \"\" HUP TERM INT; sleep 1000' &) ; echo done; exit 3";
    let (end, out, _) = run(&boundary, spec(Stdio::Pipes, script), Vec::new()).await;
    assert_eq!(out, "done\n");
    assert_eq!(end, WorkerEnd { exit: Exit::Code(3), removal: Removal::Confirmed });
}

#[tokio::test]
async fn dropping_a_worker_kills_it() {
    let (_state, boundary) = boundary().await;
    let mut worker = boundary.launch(spec(Stdio::Pipes, "trap '' HUP TERM; sleep 1000"), Vec::new()).await.unwrap();
    let Some(WorkerIo::Pipes { mut stdout, .. }) = worker.take_io() else { panic!("no pipes") };
    drop(worker);
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(5), stdout.read_to_end(&mut rest)).await;
    assert_eq!(ended.expect("its output closes in time").unwrap(), 0);
}

#[tokio::test]
async fn a_signal_is_told_apart_from_an_exit() {
    let (_state, boundary) = boundary().await;
    let (end, _, _) = run(&boundary, spec(Stdio::Pipes, "kill -SEGV $$"), Vec::new()).await;
    assert_eq!(end.exit, Exit::Signal(11));
}

#[tokio::test]
async fn without_its_supervisor_a_boundary_starts_nothing_and_its_workers_still_end() {
    let (state, boundary) = boundary().await;
    let mut worker = boundary.launch(spec(TERMINAL, "echo up; sleep 1000"), Vec::new()).await.unwrap();
    let mut master = terminal(&mut worker);
    until(&mut master, "up").await;
    let lease = std::fs::read_to_string(state.path().join("sandbox.lease")).unwrap();
    let lease: serde_json::Value = serde_json::from_str(&lease).unwrap();
    let supervisor = i32::try_from(lease["process"].as_i64().unwrap()).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(supervisor), nix::sys::signal::Signal::SIGKILL).unwrap();
    let end = tokio::time::timeout(Duration::from_secs(5), worker.wait()).await.expect("it ends in time");
    assert_eq!(end, WorkerEnd { exit: Exit::Unknown, removal: Removal::Confirmed });
    let error = boundary.launch(spec(Stdio::Pipes, "true"), Vec::new()).await.unwrap_err();
    assert!(matches!(error, SandboxError::SupervisorGone), "{error}");
    assert_eq!(error.refusal().code, RefusalCode::Unavailable);
    assert_eq!(boundary.stop().await, Removal::Unconfirmed);
}

#[tokio::test]
async fn a_stopped_boundary_has_no_workers_and_takes_none() {
    let (_state, boundary) = boundary().await;
    let mut worker = boundary.launch(spec(Stdio::Pipes, "sleep 1000"), Vec::new()).await.unwrap();
    assert_eq!(boundary.stop().await, Removal::Confirmed);
    assert_eq!(worker.wait().await.removal, Removal::Confirmed);
    let error = boundary.launch(spec(Stdio::Pipes, "true"), Vec::new()).await.unwrap_err();
    assert!(matches!(error, SandboxError::Stopped), "{error}");
}

#[tokio::test]
async fn a_project_has_one_boundary_at_a_time() {
    let (state, first) = boundary().await;
    assert!(matches!(start(state.path()).await, Err(SandboxError::Busy { .. })));
    drop(first);
    let second = start(state.path()).await.unwrap();
    assert_eq!(second.removed_leftovers(), 0);
    assert_eq!(run(&second, spec(Stdio::Pipes, "exit 5"), Vec::new()).await.0.exit, Exit::Code(5));
}

#[tokio::test]
async fn a_program_that_is_no_helper_is_refused_at_start() {
    let state = tempfile::tempdir().unwrap();
    let mut options = BoundaryOptions::new(state.path(), "other");
    options.executable = "/bin/true".into();
    let error = Boundary::start(options).await.unwrap_err();
    assert!(matches!(error, SandboxError::Unavailable(_)), "{error}");
}

#[tokio::test]
async fn sixteen_workers_at_once_do_not_mix() {
    let (_state, boundary) = boundary().await;
    let runs = (0..16).map(|number| {
        let boundary = boundary.clone();
        tokio::spawn(async move {
            let script = format!("echo {number}; exit {number}");
            let (end, out, _) = run(&boundary, spec(Stdio::Pipes, &script), Vec::new()).await;
            assert_eq!((end.exit, out), (Exit::Code(number), format!("{number}\n")));
        })
    });
    for run in runs.collect::<Vec<_>>() {
        run.await.unwrap();
    }
}

#[test]
fn the_doctor_finds_here_what_the_tests_need() {
    let checks = probe_with(Path::new(env!("CARGO_BIN_EXE_stockade")));
    let missing: Vec<String> =
        checks.iter().filter(|check| check.required && !check.ok).map(ToString::to_string).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
    let expected = ["user namespaces", "mounts", "own /proc", "own terminals", "seccomp", "Landlock", "total memory"];
    assert_eq!(names, expected);
    // This test program does not begin with the entry: it must not become its own helper, and its helper's, and so on.
    for own in [probe(), probe_with(&std::env::current_exe().unwrap())] {
        assert!(own.iter().any(|check| !check.ok && check.what.contains("sandbox::entry")), "{own:?}");
    }
    // The same trial with a program that is no helper finds the first need unmet.
    let other = probe_with(Path::new("/bin/true"));
    assert!(other.iter().any(|check| check.name == "user namespaces" && !check.ok));
}

/// What the program was started with, e.g. the master of its own terminal, must not live on in its helpers.
#[tokio::test]
async fn helpers_hold_nothing_that_the_program_was_started_with() {
    // Unlike everything that this program opens otherwise, these are inherited by what it executes.
    let (read, write) = nix::unistd::pipe().unwrap();
    let (_state, boundary) = boundary().await;
    let mut worker = boundary.launch(spec(TERMINAL, "echo up; sleep 1000"), Vec::new()).await.unwrap();
    let mut master = terminal(&mut worker);
    until(&mut master, "up").await;
    let is_closed = || {
        let mut ends = [nix::poll::PollFd::new(read.as_fd(), nix::poll::PollFlags::POLLIN)];
        nix::poll::poll(&mut ends, 2000u16).unwrap() > 0
    };
    assert!(!is_closed(), "the pipe is open while this program holds it");
    drop(write);
    assert!(is_closed(), "a helper holds a pipe that this program has closed");
    worker.kill().await;
}

#[tokio::test]
async fn ordinary_programs_work_inside() {
    let (_state, boundary) = boundary().await;
    let mut script = "set -e; export PATH=/usr/bin:/bin
        ls / | grep -v lib64 | tr '\\n' ' '; echo
        printf 'b 2\\na 1\\n' | sort | awk '{ sum += $2; print $1 } END { print sum }' | sed 's/^/> /'
        d=$(mktemp -d); cd $d; seq 1000 > n; gzip n; zcat n.gz | tail -1; find . -name 'n*' | grep -c n
        id -un; pwd | cut -c1-5; test -t 1 || echo no terminal; echo to stdout > /dev/stdout; hostname
        (sleep 0.01; exit 4) & wait $! || echo waited $?
        "
    .to_owned();
    let mut expected = "bin dev etc lib proc sbin tmp usr work \n> a\n> b\n> 3\n1000\n1\nworker\n/tmp/\n\
        no terminal\nto stdout\nstockade\nwaited 4\n"
        .to_owned();
    if Path::new("/usr/bin/python3").exists() {
        script.push_str(
            "/usr/bin/python3 -c '
import threading, subprocess, multiprocessing, socket, tempfile, os
t = threading.Thread(target=print, args=(\"thread\",), kwargs=dict(flush=True)); t.start(); t.join()
print(subprocess.run([\"echo\", \"child\"], capture_output=True, text=True).stdout, end=\"\", flush=True)
with multiprocessing.Pool(2) as pool: print(sum(pool.map(abs, [-1, -2])))
a, b = socket.socketpair(); a.send(b\"x\"); print(b.recv(1))
'
",
        );
        expected.push_str("thread\nchild\n3\nb'x'\n");
    }
    if Path::new("/usr/bin/ps").exists() {
        script.push_str("ps -e -o comm= > /tmp/ps; sort -u /tmp/ps");
        expected.push_str("ps\nsh\n");
    }
    let (end, out, err) = run(&boundary, spec(Stdio::Pipes, &script), Vec::new()).await;
    assert_eq!((out.as_str(), err.as_str(), end.exit), (expected.as_str(), "", Exit::Code(0)));
}

/// Anybody may give a process the arguments of a helper. One of this user's own is taken for a leftover and removed;
/// another user's is nobody to be afraid of, and does not keep the boundary from starting.
#[tokio::test]
async fn only_this_users_own_processes_count_as_left_over() {
    let place = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(place.path().join("__launch"), "while :; do sleep 0.05; done").unwrap();
    let state = tempfile::tempdir().unwrap();
    let label = state.path().file_name().unwrap().to_str().unwrap().trim_start_matches('.').to_owned();
    let pretend = |user: Option<u32>| {
        let mut command = std::process::Command::new("sh");
        command.args(["__launch", &label]).current_dir(place.path()).process_group(0);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        command.spawn().unwrap()
    };
    let mut own = pretend(None);
    let root = nix::unistd::geteuid().is_root();
    let mut other = root.then(|| pretend(Some(61_234)));
    let boundary = start(state.path()).await.unwrap();
    assert_eq!(boundary.removed_leftovers(), 1);
    assert!(!own.wait().unwrap().success());
    if let Some(other) = &mut other {
        assert!(other.try_wait().unwrap().is_none(), "another user's process was killed");
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
