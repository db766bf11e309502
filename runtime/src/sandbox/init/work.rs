//! What lies in `/work`: the inputs, copied in and hashed on the way, and the declared output.

use super::super::fault::{Fault, Step as _};
use super::super::spec::{InputSpec, WORK, WorkerSpec};
use super::root;
use sha2::{Digest as _, Sha256};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use stockade_protocol::digest::Digest;

/// Copies the inputs in and makes the output. Returns the output, open for reading.
pub(super) fn fill(spec: &WorkerSpec, inputs: Vec<OwnedFd>) -> Result<Option<OwnedFd>, Fault> {
    for (input, source) in spec.inputs.iter().zip(inputs) {
        copy(input, &File::from(source))?;
    }
    let Some(output) = &spec.output else { return Ok(None) };
    let path = format!("{WORK}/{}", output.path);
    create(&path, 0o644)?;
    root::keep_writable(&path)?;
    let opened = File::open(&path).step(format!("open {path}"))?;
    Ok(Some(opened.into()))
}

/// Copies one input, and refuses when it is not the one that was granted.
fn copy(input: &InputSpec, source: &File) -> Result<(), Fault> {
    let path = format!("{WORK}/{}", input.path);
    let what = || format!("copy the input {}", input.path);
    let mut copy = create(&path, 0o644)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut at = 0;
    loop {
        // At offsets of its own, because the descriptor's is shared with whoever else holds it.
        let count = match source.read_at(&mut buffer, at) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).step(what()),
        };
        at += count as u64;
        if at > input.bytes {
            return Err(Fault::new(what(), format!("it is longer than {} bytes", input.bytes)));
        }
        let part = buffer.get(..count).unwrap_or_default();
        hash.update(part);
        copy.write_all(part).step(what())?;
    }
    let found = Digest::from_bytes(hash.finalize().into());
    if at != input.bytes || found != input.sha256 {
        let detail =
            format!("it has {at} bytes and SHA-256 {found}, granted were {} and {}", input.bytes, input.sha256);
        return Err(Fault::new(what(), detail));
    }
    copy.set_permissions(Permissions::from_mode(0o555)).step(what())
}

fn create(path: &str, mode: u32) -> Result<File, Fault> {
    if let Some(parent) = Path::new(path).parent() {
        fs::create_dir_all(parent).step(format!("create the directory of {path}"))?;
    }
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path).step(format!("create {path}"))
}
