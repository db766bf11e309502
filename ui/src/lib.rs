//! The workbench.
#![forbid(unsafe_code)]

pub mod app;
pub mod contain;
#[cfg(test)]
mod fixture;
pub mod io;
pub mod outer;
pub mod pane;
pub mod projection;
pub mod sweep;
pub mod text;
pub mod theme;
