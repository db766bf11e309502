//! Validate and prepare: from an untrusted request to a frozen contract.

use super::publish::blocking;
use super::{Attended, Call, Facts, Free, Freeze, Frozen, Plan, Prepared, Proposed, World};
use crate::canon;
use crate::grant::{self, GrantRequest, Grants};
use crate::manifest::{Callable, Mode, ValidCall, ValidEffect};
use crate::policy::{Question, Subject};
use crate::redact::Redactor;
use crate::sandbox::{InputSpec, OutputSpec, Profile, Stdio, WORK, WorkerSpec};
use crate::session::{Binding, Hold, Slot};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stockade_protocol::contract::{Contract, Effect, FileContract, RiskTier, SandboxContract, WorkerLimits};
use stockade_protocol::digest::Digest;
use stockade_protocol::ids::SessionId;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};

/// Version of the contract's structure.
const CONTRACT_VERSION: u32 = 1;

impl Call<Proposed> {
    /// Checks a request against its tool's manifest.
    ///
    /// # Errors
    /// `invalid`, naming the argument or the pattern.
    pub(super) fn validate(facts: Facts, world: &World) -> Result<Self, Refusal> {
        let Some(callable) = world.tools.get(&facts.request.tool) else {
            let reason = format!("there is no tool called {:?}", facts.request.tool);
            return Err(Refusal::new(RefusalCode::Invalid, Authority::Manifest, reason)
                .next("`stockade tools list` shows the callable tools"));
        };
        let valid = callable.validate(&facts.request)?;
        Ok(Self { facts, stage: Proposed { callable: Arc::new(callable.clone()), valid } })
    }

    /// Freezes everything that decides the effect.
    ///
    /// # Errors
    /// `unavailable` or `stale` from the file broker and the session, `invalid` when the contract would hold a secret:
    /// it would be hidden from the person who is to confirm it.
    pub(super) async fn prepare(self, world: &World) -> Result<Freeze, Refusal> {
        let Self { facts, stage: Proposed { callable, valid } } = self;
        let root = Arc::clone(&world.root);
        let request = GrantRequest {
            read: valid.files.read.clone(),
            create: valid.files.create.clone(),
            max_file_bytes: valid.files.max_file_bytes,
        };
        let files = Arc::new(blocking(move || Grants::prepare(&root, &request)).await?);
        let hold = match callable.mode {
            Mode::Session(..) => Some(session_slot(&facts, &callable, &files, world)?),
            Mode::Oneshot(_) => None,
        };
        let slot = hold.as_ref().map(|hold| Arc::clone(hold.slot()));
        let spec = Box::new(worker(&callable, &valid, &files));
        let contract = contract(&facts, &callable, &valid, &files.contract(), slot.as_deref(), &spec, world);
        let plan = match slot {
            Some(slot) => Plan::Session { callable, slot, spec, files },
            None => Plan::Oneshot { callable, spec, files },
        };
        freeze(facts, contract, plan, hold, world)
    }
}

impl Call<Prepared<Free>> {
    /// Freezes a person's take-over of a live session.
    pub(super) fn take_over(facts: Facts, slot: Arc<Slot>, connection: u64, world: &World) -> Result<Freeze, Refusal> {
        let contract = Contract {
            version: CONTRACT_VERSION,
            principal: facts.principal.clone(),
            run: facts.run,
            tool: "take_over".to_owned(),
            arguments: BTreeMap::new(),
            effect: Effect::TakeOver { session: slot.id },
            risk_tier: RiskTier::Low,
            demands: Vec::new(),
            manifest: slot.binding.context,
            policy: world.policies.digest(),
            configuration: world.project.digest(),
            sandbox: sandbox(&WorkerLimits::default(), world),
            files: FileContract::default(),
            deadline_ms: 60_000,
        };
        freeze(facts, contract, Plan::TakeOver { slot, connection }, None, world)
    }
}

impl Freeze {
    /// The frozen contract and its digest.
    pub(super) fn contract(&self) -> (&Contract, Digest) {
        let frozen = self.frozen();
        (&frozen.contract, frozen.digest)
    }

    /// Whether something besides policy demands a person.
    pub(super) const fn demands_person(&self) -> bool {
        matches!(self, Self::Attended(_))
    }

    fn frozen(&self) -> &Frozen {
        match self {
            Self::Free(call) => &call.stage.frozen,
            Self::Attended(call) => &call.stage.frozen,
        }
    }

    fn facts(&self) -> &Facts {
        match self {
            Self::Free(call) => &call.facts,
            Self::Attended(call) => &call.facts,
        }
    }

    /// What policy is asked: the contract's facts.
    pub(super) fn question(&self) -> Question {
        question(self.facts(), self.frozen())
    }
}

/// What policy is asked: the contract's facts, and how the session stands now.
pub(super) fn question(facts: &Facts, frozen: &Frozen) -> Question {
    let contract = &frozen.contract;
    let call = || Subject::Call { tool: contract.tool.clone() };
    let (subject, slot) = match &frozen.plan {
        Plan::Oneshot { .. } => (call(), None),
        Plan::Session { slot, .. } => (call(), Some(slot)),
        Plan::TakeOver { slot, .. } => {
            (Subject::TakeOver { session: slot.id, tool: slot.callable.clone() }, Some(slot))
        }
    };
    let (command, finalizes, transport) = match &contract.effect {
        Effect::Oneshot { .. } => (None, false, "native_pipes"),
        Effect::Session { command, finalizes, .. } => (Some(command.clone()), *finalizes, "native_pty"),
        Effect::TakeOver { .. } => (None, false, "native_pty"),
    };
    Question {
        principal: contract.principal.clone(),
        origin: facts.origin,
        subject,
        command,
        arguments: contract.arguments.clone(),
        risk_tier: contract.risk_tier,
        human_approval: !contract.demands.is_empty(),
        transport: transport.to_owned(),
        tier: contract.sandbox.tier.clone(),
        profile: contract.sandbox.profile,
        network: contract.sandbox.network.clone(),
        files: contract.files.clone(),
        session_finalizes: finalizes,
        session_state: slot.map_or("none", |slot| slot.policy_state()).to_owned(),
        interaction_count: slot.map_or(0, |slot| slot.interactions.load(Ordering::SeqCst)),
        environment: facts.environment.to_string(),
    }
}

/// Refuses what the journal would not hold as it is: it is not what would run, or not what a person would be shown.
pub(super) fn recorded_as_it_is(what: &impl serde::Serialize, redactor: &Redactor) -> Result<(), Refusal> {
    let invalid = |reason: String| Refusal::new(RefusalCode::Invalid, Authority::Manifest, reason);
    let mut value = serde_json::to_value(what).map_err(|error| invalid(error.to_string()))?;
    if !redactor.value(&mut value) {
        return Ok(());
    }
    let reason = "the call holds what looks like a secret, which nobody could be shown before it runs";
    Err(invalid(reason.to_owned()).next("Leave the secret out of the arguments"))
}

fn freeze(facts: Facts, contract: Contract, plan: Plan, hold: Option<Hold>, world: &World) -> Result<Freeze, Refusal> {
    let invalid = |reason: String| Refusal::new(RefusalCode::Invalid, Authority::Manifest, reason);
    let bytes = canon::to_bytes(&contract).map_err(|error| invalid(error.to_string()))?;
    recorded_as_it_is(&contract, &world.redactor)?;
    let digest = Digest::of(&bytes);
    let attended = !contract.demands.is_empty();
    let frozen = Frozen { contract, digest, plan, _hold: hold };
    Ok(if attended {
        Freeze::Attended(Call { facts, stage: Prepared::<Attended> { frozen, standing: PhantomData } })
    } else {
        Freeze::Free(Call { facts, stage: Prepared::<Free> { frozen, standing: PhantomData } })
    })
}

/// The session the call will type into: the run's own, or a place for a new one.
fn session_slot(facts: &Facts, callable: &Callable, files: &grant::Prepared, world: &World) -> Result<Hold, Refusal> {
    let invalid = |error: canon::CanonError| Refusal::new(RefusalCode::Invalid, Authority::Manifest, error.to_string());
    let context = (callable.manifest, world.policies.digest(), world.project.digest(), world.boundary.profile_digest());
    let binding = Binding {
        run: facts.run,
        principal: facts.principal.clone(),
        tool: callable.tool.clone(),
        context: canon::digest(&context).map_err(invalid)?,
        files: canon::digest(&files.contract()).map_err(invalid)?,
    };
    world.sessions.slot(binding, &callable.name, SessionId::from_bits(world.ports.random()))
}

fn worker(callable: &Callable, valid: &ValidCall, files: &grant::Prepared) -> WorkerSpec {
    let (argv, stdio) = match (&valid.effect, callable.session()) {
        (ValidEffect::Line { .. }, Some((session, _))) => {
            (session.startup_argv.clone(), Stdio::Pty { columns: 80, rows: 24 })
        }
        (ValidEffect::Oneshot { argv }, _) => (argv.clone(), Stdio::Pipes),
        (ValidEffect::Line { .. }, None) => (Vec::new(), Stdio::Pipes),
    };
    let contract = files.contract();
    let inputs = contract.inputs.into_iter();
    WorkerSpec {
        version: crate::sandbox::SPEC_VERSION,
        label: "worker".to_owned(),
        argv,
        environment: environment(stdio),
        cwd: WORK.to_owned(),
        stdio,
        inputs: inputs.map(|input| InputSpec { path: input.path, bytes: input.bytes, sha256: input.sha256 }).collect(),
        output: contract.output.map(|output| OutputSpec { path: output.path, max_bytes: contract.max_file_bytes }),
        limits: callable.limits,
        profile: Profile::standard(),
    }
}

/// The whole environment of a worker. It is built, never inherited.
fn environment(stdio: Stdio) -> BTreeMap<String, String> {
    let mut environment: BTreeMap<String, String> = [("HOME", "/tmp"), ("LANG", "C.UTF-8"), ("PATH", "/usr/bin:/bin")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    if matches!(stdio, Stdio::Pty { .. }) {
        environment.insert("TERM".to_owned(), "dumb".to_owned());
    }
    environment
}

fn sandbox(limits: &WorkerLimits, world: &World) -> SandboxContract {
    SandboxContract {
        tier: world.boundary.tier().to_owned(),
        network: world.project.configuration().network.word().to_owned(),
        profile: world.boundary.profile_digest(),
        cwd: WORK.to_owned(),
        limits: *limits,
        unenforced: world.boundary.unenforced(),
    }
}

fn contract(
    facts: &Facts,
    callable: &Callable,
    valid: &ValidCall,
    files: &FileContract,
    slot: Option<&Slot>,
    spec: &WorkerSpec,
    world: &World,
) -> Contract {
    let effect = match (&valid.effect, slot) {
        (ValidEffect::Line { command, finalizes }, Some(slot)) => Effect::Session {
            session: slot.id,
            startup_argv: spec.argv.clone(),
            environment: spec.environment.clone(),
            command: command.clone(),
            finalizes: *finalizes,
        },
        _ => Effect::Oneshot { argv: spec.argv.clone(), environment: spec.environment.clone() },
    };
    Contract {
        version: CONTRACT_VERSION,
        principal: facts.principal.clone(),
        run: facts.run,
        tool: callable.name.clone(),
        arguments: valid.arguments.clone(),
        effect,
        risk_tier: callable.risk_tier,
        demands: callable.demands(),
        manifest: callable.manifest,
        policy: world.policies.digest(),
        configuration: world.project.digest(),
        sandbox: sandbox(&callable.limits, world),
        files: files.clone(),
        deadline_ms: callable.timeout_ms,
    }
}
