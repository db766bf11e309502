//! Errors of the helper processes on their way to the program.

use super::error::{Failure, Stage};
use super::spec::SpecError;
use std::io;

/// A step that failed.
#[derive(Debug)]
pub(super) struct Fault {
    step: String,
    errno: i32,
    detail: String,
}

impl Fault {
    /// A fault that no system call reported.
    pub(super) fn new(step: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { step: step.into(), errno: 0, detail: detail.into() }
    }

    /// Names the process it happened in.
    pub(super) fn at(self, stage: Stage) -> Failure {
        Failure { stage, step: self.step, errno: self.errno, detail: self.detail }
    }
}

impl From<SpecError> for Fault {
    fn from(error: SpecError) -> Self {
        Self::new("read the specification", error.to_string())
    }
}

/// Names the step that a system call was part of.
pub(super) trait Step<T> {
    /// Turns the error into a fault of this step.
    fn step(self, step: impl Into<String>) -> Result<T, Fault>;
}

impl<T, E: Into<io::Error>> Step<T> for Result<T, E> {
    fn step(self, step: impl Into<String>) -> Result<T, Fault> {
        self.map_err(|error| {
            let error = error.into();
            match error.raw_os_error() {
                Some(errno) => Fault { step: step.into(), errno, detail: String::new() },
                None => Fault::new(step, error.to_string()),
            }
        })
    }
}
