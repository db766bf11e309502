//! The workbench.
#![forbid(unsafe_code)]

pub mod app;
#[cfg(test)]
mod bench;
mod card;
pub mod contain;
#[cfg(test)]
mod fixture;
pub mod io;
pub mod keymap;
pub mod model;
pub mod outer;
pub mod pane;
pub mod projection;
mod replay;
#[cfg(test)]
mod screens;
pub mod sweep;
pub mod text;
pub mod theme;
mod update;
mod view;
