//! The vocabulary of stockade.
//!
//! Everything that the workbench, the command line and the protocol endpoints may know about the runtime is
//! named here: commands go in, events come out, and both are plain data. The crate performs no input or output
//! and holds no behaviour beyond parsing, formatting and hashing what is to be shown.
//!
//! Invariant: nothing in this crate can start a process, open a file, sign or decide anything.
#![forbid(unsafe_code)]

pub mod card;
pub mod command;
pub mod contract;
pub mod digest;
pub mod event;
pub mod ids;
pub mod limits;
pub mod receipt;
pub mod refusal;
pub mod request;
pub mod result;
pub mod script;
pub mod text;
pub mod time;
pub mod wide;
