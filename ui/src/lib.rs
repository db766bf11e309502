//! The workbench.
#![forbid(unsafe_code)]

pub mod contain;
pub mod io;
pub mod pane;
pub mod sweep;
pub mod theme;
