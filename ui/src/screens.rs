//! Tests of whole screens.
//!
//! Goal: a person can read and use every screen at every size, and no text or key can make them decide what they have
//! not seen. Method: a made-up journal is folded, keys are pressed, frames are written as the loop writes them, and the
//! finished cells are read.

mod approving;
mod hostile;
mod plain;
mod replaying;
mod snapshots;
mod unread;
mod using;
