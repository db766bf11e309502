//! The approval card: what a person sees before signing, and when a key decides it.
//!
//! Invariants: every character of the card is in its rows, and every row has been on the screen before approve is
//! offered. A press decides the card that was drawn, or nothing.

mod desk;
mod rows;
#[cfg(test)]
mod tests;

pub(crate) use desk::{Desk, Gate, Off, QUIET_MS, STEPS};
pub(crate) use rows::{CardRow, rows};
