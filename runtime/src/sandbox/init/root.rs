//! What a worker sees: a new root, built on a memory file system and then made the only one.

use super::super::fault::{Fault, Step as _};
use super::super::profile::{DEVICES, MASKED_PROC, Rule, SYSTEM_CONFIGURATION, SYSTEM_DIRECTORIES};
use super::super::spec::{OutputSpec, WorkerSpec};
use crate::sys;
use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;
use nix::unistd::{chdir, pivot_root};
use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::Path;

/// A directory that every system has, covered by the new root while it is built.
const STAGE: &str = "/tmp";
/// Size of each of the file systems that hold only directories and links, bytes.
const BONES: &str = "mode=0755,size=256k,nr_inodes=1k";
/// Most bytes in /dev/shm.
const SHM_BYTES: u64 = 16 << 20;
/// Most files in /tmp.
const TMP_INODES: u32 = 16_384;
const PAGE: u64 = 4096;

const NONE: Option<&str> = None;
const PLAIN: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV);

/// Flags of `mount_setattr(2)`.
const READ_ONLY: u64 = 1;
const NO_SUID: u64 = 2;
const NO_DEVICES: u64 = 4;
const NO_EXEC: u64 = 8;

/// Builds the new root and makes it the only one. `/work` is empty and still writable.
pub(super) fn build(spec: &WorkerSpec) -> Result<(), Fault> {
    let has = |rule| spec.profile.has(rule);
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE).step("make mounts private")?;
    let host_tmp = if has(Rule::PrivateTmp) { None } else { Some(open_directory(STAGE)?) };
    mount(Some("stockade"), STAGE, Some("tmpfs"), PLAIN, Some(BONES)).step("mount the new root")?;
    // From here on relative paths are in the new root and absolute ones in the old.
    chdir(STAGE).step("enter the new root")?;
    system_directories(spec)?;
    configuration(spec)?;
    proc(spec)?;
    devices(spec)?;
    directory("tmp")?;
    match host_tmp {
        None => memory("tmp", spec.limits.tmp_bytes, TMP_INODES, "1777", spec)?,
        Some(tmp) => {
            // Not with what is mounted below, or the new root that covers it by now would come along.
            let source = format!("/proc/self/fd/{}", tmp.as_raw_fd());
            mount(Some(source.as_str()), "tmp", NONE, MsFlags::MS_BIND, NONE).step("bind the old /tmp")?;
        }
    }
    directory("work")?;
    let options = format!("mode=0755,size={},nr_inodes={}", work_bytes(spec), work_inodes(spec));
    mount(Some("work"), "work", Some("tmpfs"), PLAIN, Some(options.as_str())).step("mount /work")?;
    if !has(Rule::PrivateRoot) {
        rest_of_the_host()?;
    }
    pivot_root(".", ".").step("pivot_root")?;
    // The old root now lies over the new one at the same place: take it off.
    umount2(".", MntFlags::MNT_DETACH).step("detach the old root")?;
    chdir("/").step("enter the new root")
}

/// Closes what no longer needs to be written: everything but /tmp and the declared output.
pub(super) fn seal(spec: &WorkerSpec) -> Result<(), Fault> {
    if !spec.profile.has(Rule::ReadOnly) {
        return Ok(());
    }
    for path in ["/", "/work"] {
        sys::set_mount_attributes(path, READ_ONLY | NO_SUID | NO_DEVICES, false)
            .step(format!("make {path} read-only"))?;
    }
    if spec.profile.has(Rule::PrivateDevices) {
        sys::set_mount_attributes("/dev", READ_ONLY | NO_SUID | NO_EXEC, false).step("make /dev read-only")?;
    }
    Ok(())
}

/// Lets a declared output stay writable in a read-only /work, where it can neither be removed nor replaced.
pub(super) fn keep_writable(path: &str) -> Result<(), Fault> {
    bind(path, path, NO_SUID | NO_DEVICES | NO_EXEC)
}

fn system_directories(spec: &WorkerSpec) -> Result<(), Fault> {
    for path in SYSTEM_DIRECTORIES {
        let inside = path.trim_start_matches('/');
        let Ok(metadata) = fs::symlink_metadata(path) else { continue };
        if metadata.is_symlink() {
            let target = fs::read_link(path).step(format!("read {path}"))?;
            symlink(target, inside).step(format!("link {path}"))?;
        } else if metadata.is_dir() {
            directory(inside)?;
            bind(path, inside, closed(spec) | NO_SUID | NO_DEVICES)?;
        }
    }
    Ok(())
}

fn configuration(spec: &WorkerSpec) -> Result<(), Fault> {
    directory("etc")?;
    if !spec.profile.has(Rule::PrivateRoot) {
        return bind("/etc", "etc", closed(spec) | NO_SUID | NO_DEVICES);
    }
    for path in SYSTEM_CONFIGURATION {
        let inside = path.trim_start_matches('/');
        let Ok(metadata) = fs::metadata(path) else { continue };
        if let Some(parent) = Path::new(inside).parent() {
            fs::create_dir_all(parent).step(format!("create the directory of {path}"))?;
        }
        if metadata.is_dir() {
            directory(inside)?;
        } else {
            file(inside, "")?;
        }
        bind(path, inside, closed(spec) | NO_SUID | NO_DEVICES)?;
    }
    let id = super::super::launcher::INSIDE;
    file("etc/passwd", &format!("worker:x:{id}:{id}:worker:/tmp:/bin/sh\n"))?;
    file("etc/group", &format!("worker:x:{id}:\n"))?;
    file("etc/hosts", "127.0.0.1 localhost\n")
}

fn proc(spec: &WorkerSpec) -> Result<(), Fault> {
    directory("proc")?;
    if !spec.profile.has(Rule::PidNamespace) {
        return bind("/proc", "proc", 0);
    }
    // Processes that may not be looked into, such as the first one, are not even seen.
    let options = spec.profile.has(Rule::HiddenInit).then_some("hidepid=2");
    mount(Some("proc"), "proc", Some("proc"), PLAIN | MsFlags::MS_NOEXEC, options).step("mount /proc")?;
    for name in MASKED_PROC {
        let path = format!("proc/{name}");
        if Path::new(&path).exists() {
            bind("/dev/null", &path, READ_ONLY | NO_SUID | NO_EXEC)?;
        }
    }
    Ok(())
}

fn devices(spec: &WorkerSpec) -> Result<(), Fault> {
    directory("dev")?;
    let private = spec.profile.has(Rule::PrivateDevices);
    if private {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
        mount(Some("dev"), "dev", Some("tmpfs"), flags, Some(BONES)).step("mount /dev")?;
        for name in DEVICES {
            file(&format!("dev/{name}"), "")?;
            bind(&format!("/dev/{name}"), &format!("dev/{name}"), NO_SUID | NO_EXEC)?;
        }
        directory("dev/pts")?;
        directory("dev/shm")?;
        for (target, link) in
            [("pts/ptmx", "ptmx"), ("/proc/self/fd", "fd"), ("fd/0", "stdin"), ("fd/1", "stdout"), ("fd/2", "stderr")]
        {
            symlink(target, format!("dev/{link}")).step(format!("link /dev/{link}"))?;
        }
        memory("dev/shm", SHM_BYTES.min(spec.limits.tmp_bytes), TMP_INODES, "1777", spec)?;
    } else {
        bind("/dev", "dev", 0)?;
    }
    if spec.profile.has(Rule::PrivateTerminals) {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
        let options = "newinstance,ptmxmode=0666,mode=0620";
        mount(Some("devpts"), "dev/pts", Some("devpts"), flags, Some(options)).step("mount /dev/pts")?;
    } else if private {
        bind("/dev/pts", "dev/pts", 0)?;
    }
    Ok(())
}

/// Everything of the host that a worker must not see. Only positive controls of tests come here.
fn rest_of_the_host() -> Result<(), Fault> {
    for entry in fs::read_dir("/").step("read the old root")? {
        let path = entry.step("read the old root")?.path();
        let Some(inside) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if path.is_dir() && !path.is_symlink() && !Path::new(inside).exists() {
            directory(inside)?;
            bind(&format!("/{inside}"), inside, 0)?;
        }
    }
    Ok(())
}

/// Bytes that inputs and output need, in whole pages. A size of zero would mean no bound.
fn work_bytes(spec: &WorkerSpec) -> u64 {
    // Room for one byte more than the output may have, so that one that is too long is seen to be.
    let output = spec.output.iter().map(|output: &OutputSpec| output.max_bytes + 1);
    let sizes = spec.inputs.iter().map(|input| input.bytes).chain(output);
    sizes.map(|bytes| bytes.div_ceil(PAGE) * PAGE).sum::<u64>().max(PAGE)
}

/// Files, their directories, and the root.
fn work_inodes(spec: &WorkerSpec) -> usize {
    let paths = spec.inputs.iter().map(|input| &input.path).chain(spec.output.iter().map(|output| &output.path));
    16 + paths.map(|path| path.split('/').count()).sum::<usize>()
}

/// The attribute of a directory that the worker may only read.
fn closed(spec: &WorkerSpec) -> u64 {
    if spec.profile.has(Rule::ReadOnly) { READ_ONLY } else { 0 }
}

fn memory(inside: &str, bytes: u64, inodes: u32, mode: &str, spec: &WorkerSpec) -> Result<(), Fault> {
    let options = if spec.profile.has(Rule::TmpSize) {
        format!("mode={mode},size={bytes},nr_inodes={inodes}")
    } else {
        format!("mode={mode}")
    };
    mount(Some("tmpfs"), inside, Some("tmpfs"), PLAIN, Some(options.as_str())).step(format!("mount /{inside}"))
}

fn bind(source: &str, inside: &str, attributes: u64) -> Result<(), Fault> {
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(source), inside, NONE, flags, NONE).step(format!("bind {source}"))?;
    if attributes == 0 {
        return Ok(());
    }
    sys::set_mount_attributes(inside, attributes, true).step(format!("set attributes of {source}"))
}

fn directory(inside: &str) -> Result<(), Fault> {
    fs::create_dir(inside).step(format!("create {inside}"))
}

fn file(inside: &str, content: &str) -> Result<(), Fault> {
    fs::write(inside, content).step(format!("create {inside}"))
}

fn open_directory(path: &str) -> Result<OwnedFd, Fault> {
    open(path, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty()).step(format!("open {path}"))
}
