//! The workbench.
#![forbid(unsafe_code)]
