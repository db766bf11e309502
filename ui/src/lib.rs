//! The workbench.
#![forbid(unsafe_code)]

pub mod app;
pub mod contain;
pub mod io;
pub mod outer;
pub mod pane;
pub mod sweep;
pub mod theme;
