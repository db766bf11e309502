//! Granted paths as written, and the names that no grant opens. Pure text: nothing here touches the disk.

use super::error::{GrantError, PathFault};

/// Longest path, bytes (source: `PATH_MAX`).
const PATH_BYTES: usize = 4096;
/// Longest component, bytes (source: `NAME_MAX`).
const NAME_BYTES: usize = 255;

/// Entries that are closed in every directory.
pub(super) const CLOSED_ANYWHERE: [&str; 4] = [".git", ".stockade", "stockade.toml", "toolclad.toml"];
/// Entries that are closed where they mean something: in the project and in every directory with a `stockade.toml`
/// of its own, which somebody may open as a project later.
pub(super) const CLOSED_IN_PROJECTS: [&str; 4] = ["tools", "policies", "scope", "agents"];
/// What the broker's own short-lived entries begin with.
pub(super) const TEMPORARY_PREFIX: &str = ".stockade-publish-";

/// A relative path of plain components: no `.`, no `..`, nothing empty, no control character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GrantPath {
    text: String,
    folded: String,
}

impl GrantPath {
    /// Takes a path as written. Nothing is repaired: another spelling of the same place is refused, so that the path
    /// people see is the path that is opened.
    pub(super) fn parse(text: &str) -> Result<Self, GrantError> {
        match fault(text) {
            Some(fault) => Err(GrantError::Path { path: text.to_owned(), fault }),
            None => {
                let folded = text.split('/').map(fold).collect::<Vec<_>>().join("/");
                Ok(Self { text: text.to_owned(), folded })
            }
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// The path as a file system that ignores case and invisible characters might take it.
    pub(super) fn folded(&self) -> &str {
        &self.folded
    }

    /// The components above the last one.
    pub(super) fn directories(&self) -> impl Iterator<Item = &str> {
        self.text.rsplit_once('/').map(|(above, _)| above).into_iter().flat_map(|above| above.split('/'))
    }

    /// The last component.
    pub(super) fn name(&self) -> &str {
        self.text.rsplit_once('/').map_or(self.text.as_str(), |(_, name)| name)
    }

    pub(super) fn to_owned_text(&self) -> String {
        self.text.clone()
    }
}

fn fault(text: &str) -> Option<PathFault> {
    if text.is_empty() {
        return Some(PathFault::Empty);
    }
    if text.len() > PATH_BYTES {
        return Some(PathFault::TooLong);
    }
    if text.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
        return Some(PathFault::Control);
    }
    if text.starts_with('/') {
        return Some(PathFault::Absolute);
    }
    text.split('/').find_map(|part| match part {
        "" => Some(PathFault::EmptyPart),
        "." => Some(PathFault::Current),
        ".." => Some(PathFault::Parent),
        part if part.len() > NAME_BYTES => Some(PathFault::TooLong),
        _ => None,
    })
}

/// A component as file systems that ignore case, invisible characters or trailing dots and blanks would compare it.
/// Errs on the side of folding too much: that only refuses more.
pub(super) fn fold(name: &str) -> String {
    let seen: String = name.chars().filter(|c| !stockade_protocol::text::is_hidden(*c)).collect();
    // Through upper case first, so that letters with two lower-case forms (long s, final sigma) meet.
    seen.to_uppercase().to_lowercase().trim_end_matches(['.', ' ']).to_owned()
}

/// Whether a component is closed by its name. `in_project` says whether the directory it is looked up in is the root
/// of a project.
pub(super) fn is_closed(name: &str, in_project: bool) -> bool {
    let folded = fold(name);
    CLOSED_ANYWHERE.contains(&folded.as_str())
        || (in_project && CLOSED_IN_PROJECTS.contains(&folded.as_str()))
        || folded.starts_with(TEMPORARY_PREFIX)
}
