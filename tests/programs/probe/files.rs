//! Files of the host's, and files of its own that a worker must leave as they are.

use super::{Attempt, Context, Outcome, errno, found};
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

pub(crate) const ATTEMPTS: &[(&str, Attempt)] = &[
    ("home_directory", |context| fs::read_dir(&context.home).map(drop).map_err(errno)),
    ("home_canary", |context| read(&format!("{}/canary", context.home), context)),
    ("home_by_way_of_proc", |context| read(&format!("/proc/self/root{}/canary", context.home), context)),
    // A worker's own holds fewer than a dozen.
    ("host_configuration", |_| found(fs::read_dir("/etc").map_err(errno)?.count() > 20)),
    ("host_tmp", |context| read(&context.tmp_canary, context)),
    ("host_terminal", |context| seen(&format!("/dev/pts/{}", context.host_terminal))),
    ("host_device", |context| seen(&context.host_device)),
    ("write_root", |_| create("/probe")),
    ("write_system", |_| create("/usr/bin/probe")),
    ("write_configuration", |_| create("/etc/probe")),
    ("write_devices", |_| create("/dev/probe")),
    ("write_work", |_| create("/work/probe-was-here")),
    ("change_input_mode", |_| fs::set_permissions("/work/probe", Permissions::from_mode(0o777)).map_err(errno)),
    ("remove_input", |_| fs::remove_file("/work/probe").map_err(errno)),
    ("remove_output", |_| fs::remove_file("/work/out").map_err(errno)),
    ("rename_output", |_| fs::rename("/work/out", "/work/other").map_err(errno)),
    ("write_output", |_| open_to_write("/work/out")),
    ("write_tmp", |_| create("/tmp/probe")),
    ("list_root", |_| fs::read_dir("/").map(drop).map_err(errno)),
];

fn read(path: &str, context: &Context) -> Outcome {
    let text = fs::read_to_string(path).map_err(errno)?;
    found(text.contains(&context.canary))
}

fn seen(path: &str) -> Outcome {
    fs::symlink_metadata(Path::new(path)).map(drop).map_err(errno)
}

fn create(path: &str) -> Outcome {
    File::create_new(path).map_err(errno)?;
    fs::remove_file(path).map_err(errno)
}

fn open_to_write(path: &str) -> Outcome {
    OpenOptions::new().write(true).open(path).map(drop).map_err(errno)
}
