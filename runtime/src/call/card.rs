//! The card of a call, drawn from its contract and nothing else.

use stockade_protocol::card::{Card, Field};
use stockade_protocol::contract::{Contract, Demand, Effect, FileContract};
use stockade_protocol::digest::Digest;
use stockade_protocol::script::{lookalike_words, lookalikes};
use stockade_protocol::text::SafeText;

/// Builds the card. `reason` is what the caller says; `policies` are those that permit with a person's approval.
pub(crate) fn card(contract: &Contract, digest: Digest, reason: Option<&str>, policies: &[String]) -> Card {
    let mut facts = Vec::new();
    match &contract.effect {
        Effect::Oneshot { argv, environment } => {
            facts.push(Field::many("argv", argv.clone()));
            facts.push(environment_field(environment));
        }
        Effect::Session { session, startup_argv, command, environment, finalizes } => {
            facts.push(Field::one("command", command.clone()));
            if *finalizes {
                facts.push(Field::one("then", "ends the session and publishes its output"));
            }
            facts.push(Field::many("typed into", startup_argv.clone()));
            facts.push(Field::one("session", session.short()));
            facts.push(environment_field(environment));
        }
        Effect::TakeOver { session } => {
            facts.push(Field::one("hands over", format!("the keyboard of session {}", session.short())));
        }
    }
    facts.push(Field::one("runs in", place(contract)));
    if !contract.sandbox.unenforced.is_empty() {
        facts.push(Field::one("not limited", contract.sandbox.unenforced.join(", ")));
    }
    facts.extend(file_fields(&contract.files));
    if !contract.arguments.is_empty() {
        let lines = contract.arguments.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        facts.push(Field::many("arguments", lines));
    }
    facts.push(Field::one("risk", contract.risk_tier.word()));
    facts.push(Field::one("why asked", why(contract, policies)));
    facts.push(Field::one("asked by", format!("{} in run {}", contract.principal, contract.run.short())));
    facts.push(Field::one("contract", digest.to_string()));

    let claims = reason.map(|reason| Field::one("the caller says", reason)).into_iter().collect::<Vec<_>>();
    let warnings = warnings(&facts, &claims);
    Card {
        title: format!("{} asks to run {}", contract.principal, SafeText::line(&contract.tool)),
        facts,
        claims,
        warnings,
    }
}

fn place(contract: &Contract) -> String {
    let sandbox = &contract.sandbox;
    format!(
        "{}, network {}, cwd {}, for at most {} s",
        sandbox.tier,
        sandbox.network,
        sandbox.cwd,
        contract.deadline_ms.div_ceil(1000)
    )
}

fn environment_field(environment: &std::collections::BTreeMap<String, String>) -> Field {
    Field::many("environment", environment.iter().map(|(name, value)| format!("{name}={value}")).collect())
}

fn file_fields(files: &FileContract) -> Vec<Field> {
    if files.inputs.is_empty() && files.output.is_none() {
        return vec![Field::one("files", "reads nothing, creates nothing")];
    }
    let mut fields = Vec::new();
    if !files.inputs.is_empty() {
        let lines = files
            .inputs
            .iter()
            .map(|input| format!("{}, {} bytes, sha256 {}", name(&input.path), input.bytes, input.sha256));
        fields.push(Field::many("reads", lines.collect()));
    }
    if let Some(output) = &files.output {
        fields.push(Field::one(
            "creates",
            format!("{}, at most {} bytes, never over a file", name(&output.path), files.max_file_bytes),
        ));
    }
    fields
}

/// A path as it stands, or quoted where it could be read as more than a path.
fn name(path: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "._-/".contains(letter);
    if path.chars().all(plain) {
        return path.to_owned();
    }
    format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\""))
}

fn why(contract: &Contract, policies: &[String]) -> String {
    let mut reasons: Vec<String> = contract
        .demands
        .iter()
        .map(|demand| {
            match demand {
                Demand::Manifest => "the manifest demands a person",
                Demand::RiskTier => "the risk is high or critical",
                Demand::Sandbox => "the sandbox does not isolate",
            }
            .to_owned()
        })
        .collect();
    if reasons.is_empty() {
        reasons.push("policy permits it with a person's approval".to_owned());
    }
    if !policies.is_empty() {
        reasons.push(format!("permitted by {}", policies.join(", ")));
    }
    reasons.join(", ")
}

fn warnings(facts: &[Field], claims: &[Field]) -> Vec<String> {
    let mut warnings = Vec::new();
    let facts = facts.iter().map(|field| (field, lookalikes as fn(&str) -> _));
    let claims = claims.iter().map(|field| (field, lookalike_words as fn(&str) -> _));
    for (field, alike) in facts.chain(claims) {
        let hidden: usize = field.lines.iter().map(|line| SafeText::line(line).hidden()).sum();
        if hidden > 0 {
            let plural = if hidden == 1 { "character" } else { "characters" };
            warnings.push(format!("{hidden} hidden {plural} in {}, shown as \\u{{…}}", field.label));
        }
        for found in field.lines.iter().flat_map(|line| alike(line)) {
            warnings.push(format!("{}: {found}", field.label));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_reads_like_more_than_a_path_is_quoted() {
        assert_eq!(name("data/orders-2026.csv"), "data/orders-2026.csv");
        assert_eq!(name("out/x, at most 5 bytes"), r#""out/x, at most 5 bytes""#);
        assert_eq!(name(r#"out/x", 5 bytes, "y"#), r#""out/x\", 5 bytes, \"y""#);
        assert_eq!(name(r"out\"), r#""out\\""#);
    }
}
