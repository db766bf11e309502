//! The workbench.
#![forbid(unsafe_code)]

pub mod io;
pub mod theme;
