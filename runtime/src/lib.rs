//! The runtime core of stockade.
//!
//! Nothing an agent does reaches a process, a file or the network except as a call that went the whole way: validate,
//! freeze, authorize, approve, record, dispatch, finalize, journal. This crate owns that way and every boundary on it.
//! It knows nothing of screens, reads no environment variable and takes its places and clock from its caller.
//!
//! Modules import only downward in this list; `tests/tidy.rs` holds them to it.

pub mod canon;
pub mod ports;
pub mod sys;

pub mod manifest;
pub mod redact;

pub mod policy;

pub mod journal;

pub mod grant;
pub mod sandbox;

pub mod project;

pub mod control;

pub mod approval;
pub mod call;
mod session;

mod recovery;
pub mod run;
mod runtime;

pub mod endpoint;

pub use runtime::{Options, Runtime, StartError};
