//! The file broker: the only part of the runtime that opens a user's files for tools.
//!
//! A grant names files below the project's root. Inputs become sealed snapshots in memory, so what was hashed is what
//! the worker reads. The one output is staged away from the project and appears there in a single step that neither
//! overwrites nor follows anything. Every decision is made on an open handle; paths are for people.
//!
//! A grant goes one way: [`Grants::prepare`] gives a [`Prepared`], whose [`Prepared::recheck`] is asked right before
//! dispatch; after the worker is gone [`Prepared::stage`] gives a [`Candidate`], whose [`Candidate::intent`] is made
//! durable before [`Candidate::publish`]. After a crash [`reconcile()`] settles an intent that has no end.
//!
//! What this module never does: it never follows a symbolic or magic link, never leaves the project's mount, never
//! opens a project's control files or stockade's own, never replaces an existing entry, and never trusts a size it
//! was told. `docs/file-grants.md` has the whole story.

mod candidate;
mod destination;
mod error;
mod kernel;
mod path;
mod prepared;
mod reconcile;
mod root;
mod snapshot;

#[cfg(test)]
mod tests;

pub use candidate::Candidate;
pub use error::{Escape, GrantError, PathFault};
pub use prepared::{GrantRequest, Grants, Prepared};
pub use reconcile::{Reconciliation, reconcile};
pub use root::ProjectRoot;
