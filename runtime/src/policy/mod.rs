//! Policy: Cedar decides whether a valid call may go on. It decides on the frozen call, and only ever by permission.
//!
//! Cedar leaves a policy out of the decision when it cannot be evaluated, so that a failing `forbid` would be as if it
//! were not there. Here any evaluation error denies, and so does an engine that panics; and policies and questions are both checked against one generated
//! schema first, so that such an error is hard to come by. Whether a person is asked is not a policy's to take away: it can only
//! add the demand, with `@approval("required")`.

mod load;
mod question;
mod schema;
mod statements;

#[cfg(test)]
mod tests;

pub use question::{Question, Subject};
pub use schema::context_reference;

use crate::manifest::{Faults, ToolSet};
use cedar_policy::{Authorizer, Decision, PolicyId, PolicySet, Response, Schema};
use question::{Asked, ask};
use schema::Vocabulary;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use stockade_protocol::digest::Digest;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};

/// A project's policies, validated.
#[derive(Debug, Clone)]
pub struct Policies {
    set: PolicySet,
    /// What is known of each policy beside what it says.
    notes: BTreeMap<PolicyId, Note>,
    schema: Schema,
    vocabulary: Vocabulary,
    digest: Digest,
}

/// What is known of a policy beside what it says.
#[derive(Debug, Clone, Default)]
struct Note {
    /// Whether it carries `@approval("required")`.
    approval: bool,
    /// Its `@reason`, told to whoever is refused by it.
    reason: Option<String>,
}

/// Policy's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// Whether the call may go on.
    pub permitted: bool,
    /// The policies that decided, sorted, each as `file.cedar:line`. Empty when no policy permits.
    pub policies: Vec<String>,
    /// Whether a permit that decided asks for a person, whatever the manifest says.
    pub needs_person: bool,
    /// Why it may not go on; `None` exactly when permitted.
    pub refusal: Option<Refusal>,
}

impl Judgement {
    fn denied(policies: Vec<String>, refusal: Refusal) -> Self {
        Self { permitted: false, policies, needs_person: false, refusal: Some(refusal) }
    }
}

impl Policies {
    /// Reads `policies/*.cedar` below `root` and validates it against the schema of `tools`. A missing or empty
    /// directory permits nothing.
    ///
    /// # Errors
    /// All faults of all files: unreadable, not Cedar, not of the schema, templates, unknown annotations, the same
    /// `@id` twice.
    pub fn load(root: &Path, tools: &ToolSet) -> Result<Self, Faults> {
        load::load(root, tools)
    }

    /// Digest over the names and bytes of all policy files.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Number of policies.
    #[must_use]
    pub fn len(&self) -> usize {
        self.notes.len()
    }

    /// Whether there is no policy, so that nothing is permitted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// Judges a question. Anything but a clean permit is a denial. Where the engine gave no verdict the refusal says
    /// so, by the rule `no-verdict` or by the policy that could not be evaluated: that is nobody's decision.
    #[must_use]
    pub fn judge(&self, question: &Question) -> Judgement {
        self.judge_by(question, |asked| Authorizer::new().is_authorized(&asked.request, &self.set, &asked.entities))
    }

    /// Judges by an engine, and contains what it does.
    fn judge_by(&self, question: &Question, engine: impl FnOnce(&Asked) -> Response) -> Judgement {
        // The engine gets borrowed values that nothing changes, so a panic leaves none of them half done.
        let judged = catch_unwind(AssertUnwindSafe(|| self.judged(question, engine)));
        judged.unwrap_or_else(|_panic| {
            no_verdict("it panicked", "this is a fault of stockade or of Cedar: report it with the policies")
        })
    }

    fn judged(&self, question: &Question, engine: impl FnOnce(&Asked) -> Response) -> Judgement {
        let asked = match ask(question, &self.vocabulary, &self.schema) {
            Ok(asked) => asked,
            Err(error) => {
                let next = "a person may look at the tool's manifest and at the policies";
                return no_verdict(&error.to_string(), next);
            }
        };
        let response = engine(&asked);
        let mut errors: Vec<(String, String)> = response
            .diagnostics()
            .errors()
            .map(|error| match error {
                cedar_policy::AuthorizationError::PolicyEvaluationError(error) => {
                    (error.policy_id().to_string(), error.inner().to_string())
                }
            })
            .collect();
        errors.sort();
        if let Some((policy, error)) = errors.first() {
            let refusal = denied(format!("{NO_VERDICT}: the policy {policy} could not be evaluated: {error}"))
                .by_rule(policy.clone())
                .next(format!("correct {policy}: a policy that fails denies"));
            return Judgement::denied(errors.into_iter().map(|(policy, _)| policy).collect(), refusal);
        }
        let mut deciding: Vec<&PolicyId> = response.diagnostics().reason().collect();
        deciding.sort();
        let notes = || deciding.iter().filter_map(|id| self.notes.get(id));
        let policies: Vec<String> = deciding.iter().map(ToString::to_string).collect();
        match (response.decision(), policies.first()) {
            (Decision::Allow, Some(_)) => {
                let needs_person = notes().any(|note| note.approval);
                Judgement { permitted: true, policies, needs_person, refusal: None }
            }
            // A permit that no policy accounts for is none.
            (Decision::Allow, None) | (Decision::Deny, None) => Judgement::denied(policies, self.nobody(&asked)),
            (Decision::Deny, Some(first)) => {
                let why = notes().find_map(|note| note.reason.clone());
                let why = why.map_or_else(String::new, |why| format!(": {why}"));
                let refusal = denied(format!("the policy {first} forbids it{why}")).by_rule(first.clone());
                Judgement::denied(
                    policies.clone(),
                    refusal.next(format!("ask for something that {first} does not forbid")),
                )
            }
        }
    }

    /// The refusal when no policy permits. It names the question in Cedar's own words, escaped by Cedar.
    fn nobody(&self, asked: &Asked) -> Refusal {
        let Asked { principal, action, resource, .. } = asked;
        let count = if self.is_empty() { ": the project has no policy" } else { "" };
        denied(format!("no policy permits {principal} {action} on {resource}{count}")).next(format!(
            "to permit it, a person may add to a file in policies/: \
             permit(principal == {principal}, action == {action}, resource == {resource});"
        ))
    }
}

fn denied(reason: String) -> Refusal {
    Refusal::new(RefusalCode::Denied, Authority::Policy, reason)
}

/// How every refusal begins that is not a decision.
const NO_VERDICT: &str = "the policy engine gave no verdict";

/// The denial where no policy could be asked.
fn no_verdict(why: &str, next: &str) -> Judgement {
    let refusal = denied(format!("{NO_VERDICT}: {why}")).by_rule("no-verdict");
    Judgement::denied(Vec::new(), refusal.next(next))
}

/// The word that policies see as `context.environment`, from the value of `STOCKADE_ENV`.
///
/// Every spelling of production counts, in any case and with blanks around it, and so does a value that is no text:
/// what cannot be read is taken for the stricter place.
#[must_use]
pub fn environment(value: Option<&OsStr>) -> String {
    match value.map(OsStr::to_str) {
        None => "development".to_owned(),
        Some(None) => "production".to_owned(),
        Some(Some(text)) => match text.trim().to_lowercase().as_str() {
            "" => "development".to_owned(),
            word if word.split_whitespace().collect::<String>() == "production" => "production".to_owned(),
            word => word.to_owned(),
        },
    }
}
