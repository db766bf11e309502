//! The workbench: a projection of journal events, live or recorded.
//!
//! The binary makes [`model::Workbench`] with [`io::Options`], who sits in front of it and the zone to show times in,
//! and hands it to [`app::run`] with a source of events and a port to the runtime. Everything a person sees is a pure
//! function of the events and of where the person is; only [`app`] and [`outer`] have input and output.
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
