//! What a command came to, as an exit status and as words.

use std::fmt;
use std::process::ExitCode;
use stockade_protocol::event::RunOutcome;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::text::SafeText;
use stockade_runtime::StartError;
use stockade_runtime::approval::KeyError;
use stockade_runtime::control::ControlError;
use stockade_runtime::journal::JournalError;
use stockade_runtime::project::{LockError, PlaceError, ProjectError, TrustError};

/// The exit statuses, the same for every command. `docs/command-line.md` holds the same table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It was done.
    Done,
    /// The tool or the agent failed.
    Failed,
    /// The command line cannot be meant so.
    Usage,
    /// Invalid or denied.
    Denied,
    /// An approval was rejected or expired.
    Unapproved,
    /// The boundary is unavailable.
    Unavailable,
    /// A journal does not verify.
    Unverified,
    /// Something of stockade's own failed.
    Internal,
    /// Interrupted from outside.
    Interrupted,
}

impl Exit {
    /// The status.
    pub(crate) const fn status(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Denied => 3,
            Self::Unapproved => 4,
            Self::Unavailable => 5,
            Self::Unverified => 6,
            Self::Internal => 7,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.status())
    }
}

impl From<RefusalCode> for Exit {
    fn from(code: RefusalCode) -> Self {
        match code {
            RefusalCode::Invalid | RefusalCode::Denied | RefusalCode::Stale => Self::Denied,
            RefusalCode::Rejected | RefusalCode::Expired => Self::Unapproved,
            RefusalCode::Unavailable => Self::Unavailable,
            RefusalCode::Failed
            | RefusalCode::Limit
            | RefusalCode::Timeout
            | RefusalCode::Cancelled
            | RefusalCode::InDoubt
            | RefusalCode::Unpublished => Self::Failed,
        }
    }
}

/// The status of a whole run. An approval in it that was asked for and not given comes first: what else went wrong
/// most likely followed from it.
pub(crate) fn of_run(outcome: RunOutcome, refusals: impl IntoIterator<Item = RefusalCode>) -> Exit {
    let unapproved = || refusals.into_iter().map(Exit::from).find(|exit| *exit == Exit::Unapproved);
    match outcome {
        RunOutcome::Done => unapproved().unwrap_or(Exit::Done),
        RunOutcome::Failed => unapproved().unwrap_or(Exit::Failed),
        RunOutcome::Cancelled | RunOutcome::Timeout | RunOutcome::Interrupted => Exit::Failed,
    }
}

/// Why a command could not do what was asked: what happened, why, and what to do next.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The status to exit with.
    pub(crate) exit: Exit,
    what: String,
    why: String,
    next: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), why: String::new(), next: String::new() }
    }

    pub(crate) fn why(mut self, why: impl fmt::Display) -> Self {
        self.why = in_words(&why.to_string());
        self
    }

    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = next.into();
        self
    }

    /// The same for a protocol that speaks in refusals.
    pub(crate) fn into_refusal(self) -> Refusal {
        let (code, authority) = match self.exit {
            Exit::Denied | Exit::Usage => (RefusalCode::Denied, Authority::Person),
            Exit::Unavailable => (RefusalCode::Unavailable, Authority::Tier),
            _ => (RefusalCode::Unavailable, Authority::Journal),
        };
        let reason = if self.why.is_empty() { self.what } else { format!("{}: {}", self.what, self.why) };
        Refusal::new(code, authority, reason).next(self.next)
    }

    /// A reply that has no place after this command.
    pub(crate) fn out_of_place() -> Self {
        Self::new(Exit::Internal, "the runtime gave an answer that does not belong to the question")
            .why("it may be another version")
            .next("use the same stockade on both sides")
    }
}

impl Failure {
    /// Drawable whatever it quotes, in rows of at most `columns`. What to do next stays whole: it may be a command that
    /// is copied, and nothing of it comes from outside.
    pub(crate) fn rows(&self, columns: usize) -> Vec<String> {
        const MARGIN: &str = "        ";
        let parts = [
            ("stockade: ", &self.what, columns),
            ("  why:  ", &self.why, columns),
            ("  next: ", &self.next, usize::MAX),
        ];
        let mut rows = Vec::new();
        for (label, text, columns) in parts.into_iter().filter(|(_, text, _)| !text.is_empty()) {
            for (at, line) in text.lines().enumerate() {
                let label = if at == 0 { label } else { MARGIN };
                rows.extend(SafeText::line(&format!("{label}{line}")).rows(columns, MARGIN));
            }
        }
        rows
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows(usize::MAX).iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let why = match &refusal.rule {
            Some(rule) => format!("{} ({rule})", refusal.reason),
            None => refusal.reason.clone(),
        };
        let what = format!("{} by {}", refusal.code, refusal.authority);
        // As it is: a reason may be a person's own words.
        Self { why, ..Self::new(refusal.code.into(), what).next(refusal.next) }
    }
}

/// Without the numbers and symbols of the system's errors ("EACCES", "os error 13"), beside which the same is said in
/// words.
pub(crate) fn in_words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(" (os error ") {
        let (before, after) = rest.split_at(at);
        let digits = after.trim_start_matches(" (os error ").trim_start_matches(|c: char| c.is_ascii_digit());
        out.push_str(before);
        match digits.strip_prefix(')') {
            Some(after) => rest = after,
            None => {
                out.push_str(" (os error ");
                rest = after.get(" (os error ".len()..).unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    let is_symbol = |word: &str| {
        word.len() > 2
            && word.starts_with('E')
            && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
    };
    let parts = out.split(": ").collect::<Vec<_>>();
    let beside_words = |at: usize| parts.get(at + 1).is_some_and(|next| begins_with_a_system_error(next));
    let kept = parts.iter().enumerate().filter(|(at, part)| !(is_symbol(part) && beside_words(*at)));
    kept.map(|(_, part)| *part).collect::<Vec<_>>().join(": ")
}

fn begins_with_a_system_error(text: &str) -> bool {
    (1..=133).any(|number| {
        let error = std::io::Error::from_raw_os_error(number).to_string();
        let words = error.split(" (os error ").next().unwrap_or_default();
        text.starts_with(words) && !words.starts_with("Unknown error")
    })
}

/// What to do about one of stockade's own places.
const PLACES: &str = "`stockade doctor` looks at stockade's own places; XDG_CONFIG_HOME, XDG_STATE_HOME and XDG_RUNTIME_DIR \
                      move them";

impl From<ProjectError> for Failure {
    fn from(error: ProjectError) -> Self {
        let (exit, next) = match error {
            ProjectError::NotAProject { .. } => {
                (Exit::Usage, "name a project with -C DIR, or make one with `stockade init`")
            }
            ProjectError::NotText { .. } => (Exit::Usage, "move the project to a path that is text"),
            ProjectError::Unfit { .. } => {
                (Exit::Denied, "put a plain file or folder of the project's own in its place")
            }
            ProjectError::Unreadable { .. } => (Exit::Denied, "make it readable for you, then try again"),
            ProjectError::Faults(_) => (Exit::Denied, "mend the files named above"),
            ProjectError::Changed => (Exit::Denied, "try again when nothing changes them"),
        };
        Self::new(exit, "the project cannot be opened").why(error).next(next)
    }
}

impl From<TrustError> for Failure {
    fn from(error: TrustError) -> Self {
        let next = match error {
            TrustError::Place(_) | TrustError::File { .. } => PLACES,
            TrustError::Damaged { .. } => "repair or remove it, then trust your projects again: stockade trust DIR",
        };
        Self::new(Exit::Denied, "it is not known whether you trust this project").why(error).next(next)
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        Self::new(Exit::Internal, "it is not known whether another stockade has this project open")
            .why(error)
            .next(PLACES)
    }
}

impl From<PlaceError> for Failure {
    fn from(error: PlaceError) -> Self {
        Self::new(Exit::Internal, "a place of stockade's own cannot be used").why(error).next(PLACES)
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        let next = match error {
            KeyError::Io { .. } => PLACES,
            KeyError::Exposed { .. } | KeyError::Malformed { .. } => "remove it: a new key is made when one is needed",
        };
        Self::new(Exit::Internal, "your approver's key cannot be used").why(error).next(next)
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        let next = match error {
            ControlError::Place(error) => return error.into(),
            ControlError::NoRuntime { .. } => "start one: stockade DIR",
            ControlError::InTheWay { .. } => "remove it, then try again",
            ControlError::Stranger { .. } | ControlError::Socket { .. } => PLACES,
            ControlError::Refused { .. } => "use the same stockade, and the same account, on both sides",
            ControlError::Silent => "look for its process, and end it",
            ControlError::Lost { .. } | ControlError::Frame(_) => {
                "`stockade journal tail` shows what was recorded before; then try again"
            }
        };
        Self::new(Exit::Internal, "the runtime that has the project open cannot be asked").why(error).next(next)
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        let exit = match error {
            JournalError::Tampered { .. } => Exit::Unverified,
            JournalError::Unreadable { .. } => Exit::Usage,
            _ => Exit::Internal,
        };
        let next = error.next();
        Self::new(exit, "the journal cannot be used").why(error).next(next)
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        const WHAT: &str = "stockade cannot start on this project";
        match error {
            StartError::Project(error) => error.into(),
            StartError::Journal(error) => error.into(),
            StartError::Tools(faults) | StartError::Policies(faults) => {
                Self::new(Exit::Denied, WHAT).why(faults).next("mend the files; `stockade tools check` reads the tools")
            }
            StartError::Boundary(error) => Self::new(Exit::Unavailable, WHAT)
                .why(error)
                .next("`stockade doctor` says what is missing and the command that changes it"),
            StartError::Trust(error) => error.into(),
            StartError::Untrusted { .. } => {
                Self::new(Exit::Denied, WHAT).why(error).next("`stockade trust` shows its state and asks")
            }
            StartError::Lock(error) => error.into(),
            StartError::Place(error) => error.into(),
            StartError::Busy => Self::new(Exit::Internal, WHAT).why(error).next("join it, or end it, then try again"),
            StartError::Grant(error) => Self::new(Exit::Internal, WHAT)
                .why(error)
                .next("make the project's folder usable for you, then try again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_the_status_that_scripts_rely_on() {
        for (code, status) in [
            (RefusalCode::Failed, 1),
            (RefusalCode::Limit, 1),
            (RefusalCode::Timeout, 1),
            (RefusalCode::Cancelled, 1),
            (RefusalCode::InDoubt, 1),
            (RefusalCode::Unpublished, 1),
            (RefusalCode::Invalid, 3),
            (RefusalCode::Denied, 3),
            (RefusalCode::Stale, 3),
            (RefusalCode::Rejected, 4),
            (RefusalCode::Expired, 4),
            (RefusalCode::Unavailable, 5),
        ] {
            assert_eq!(Exit::from(code).status(), status, "{code}");
        }
        let others = [Exit::Done, Exit::Usage, Exit::Unverified, Exit::Internal, Exit::Interrupted];
        assert_eq!(others.map(Exit::status), [0, 2, 6, 7, 130]);
    }

    #[test]
    fn the_documented_table_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/command-line.md");
        let page = std::fs::read_to_string(path).unwrap();
        let codes =
            "invalid unavailable denied rejected expired stale failed limit timeout cancelled in_doubt unpublished";
        for word in codes.split(' ') {
            let code: RefusalCode = serde_json::from_value(word.into()).unwrap();
            let row = format!("| {} |", Exit::from(code).status());
            let row = page.lines().find(|line| line.starts_with(&row)).unwrap_or_else(|| panic!("no row {row}"));
            assert!(row.contains(&format!("`{word}`")), "{word} is not in {row}");
        }
    }

    #[test]
    fn a_run_tells_first_of_an_approval_that_was_not_given() {
        use RefusalCode::{Denied, Expired};
        assert_eq!(of_run(RunOutcome::Done, []), Exit::Done);
        assert_eq!(of_run(RunOutcome::Done, [Denied]), Exit::Done);
        assert_eq!(of_run(RunOutcome::Done, [Denied, Expired]), Exit::Unapproved);
        assert_eq!(of_run(RunOutcome::Failed, [Expired]), Exit::Unapproved);
        assert_eq!(of_run(RunOutcome::Failed, [Denied]), Exit::Failed);
        assert_eq!(of_run(RunOutcome::Timeout, [Expired]), Exit::Failed);
    }

    #[test]
    fn nothing_that_a_failure_quotes_begins_a_row() {
        let why = format!("{}stockade: all is well", "x".repeat(80 - 8));
        let failure = Failure::new(Exit::Failed, "it failed").why(why).next("y".repeat(100));
        let rows = failure.rows(80);
        assert_eq!(rows.iter().filter(|row| row.starts_with("stockade: ")).count(), 1, "{rows:#?}");
        assert_eq!(rows.last(), Some(&format!("  next: {}", "y".repeat(100))), "what may be copied stays whole");
    }

    #[test]
    fn a_reason_of_a_refusal_stays_as_it_was_given() {
        use stockade_protocol::refusal::{Authority, RefusalCode};
        let reason = "EPERM: Permission denied (os error 13)";
        let failure = Failure::from(Refusal::new(RefusalCode::Rejected, Authority::Person, reason));
        assert_eq!(failure.why, reason);
    }

    #[test]
    fn the_systems_numbers_and_symbols_are_left_out_and_nothing_else() {
        for (given, said) in [
            ("x: Permission denied (os error 13)", "x: Permission denied"),
            ("EACCES: Permission denied", "Permission denied"),
            ("a: ENOENT: No such file or directory (os error 2); b (os error 17)", "a: No such file or directory; b"),
            ("refused: ENOUGH: no more", "refused: ENOUGH: no more"),
            ("(os error) (os error x) (os error 1", "(os error) (os error x) (os error 1"),
            ("ELF: E: Ex: E 1: x", "ELF: E: Ex: E 1: x"),
            ("", ""),
        ] {
            assert_eq!(in_words(given), said, "{given}");
        }
        for error in [2, 13, 17, 20, 28].map(std::io::Error::from_raw_os_error) {
            assert!(!in_words(&error.to_string()).contains("os error"), "{error}");
        }
    }

    #[test]
    fn a_failure_says_what_why_and_next_and_can_be_drawn() {
        let refusal = Refusal::new(RefusalCode::Denied, Authority::Policy, "no\u{1b}[2Jpolicy").by_rule("a.cedar:3");
        let text = Failure::from(refusal.next("ask")).to_string();
        assert_eq!(text, "stockade: denied by policy\n  why:  no\\u{001B}[2Jpolicy (a.cedar:3)\n  next: ask\n");
    }
}
