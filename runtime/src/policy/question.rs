//! What policy is asked, and how the question becomes Cedar's request: by Cedar's own constructors, never by text.

use super::schema::Vocabulary;
use cedar_policy::{
    Context, Entities, Entity, EntityId, EntityTypeName, EntityUid, Request, RestrictedExpression, Schema,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::str::FromStr as _;
use stockade_protocol::contract::{FileContract, RiskTier};
use stockade_protocol::digest::Digest;
use stockade_protocol::ids::{Principal, PrincipalKind, SessionId};
use stockade_protocol::request::Origin;

/// A question to policy: one frozen call, or one taking over of a terminal.
#[derive(Debug, Clone)]
pub struct Question {
    /// Who asks.
    pub principal: Principal,
    /// By which channel.
    pub origin: Origin,
    /// What for.
    pub subject: Subject,
    /// Normalized arguments; empty for a taking over.
    pub arguments: BTreeMap<String, String>,
    /// The line to be typed, for a session.
    pub command: Option<String>,
    /// Effective risk tier.
    pub risk_tier: RiskTier,
    /// Whether the manifest demands a person.
    pub human_approval: bool,
    /// How it would be executed, e.g. `native_pipes` or `native_pty`.
    pub transport: String,
    /// Sandbox tier, e.g. `native`.
    pub tier: String,
    /// Digest of the sandbox profile.
    pub profile: Digest,
    /// Network mode, e.g. `none`.
    pub network: String,
    /// Files it may read and create.
    pub files: FileContract,
    /// Whether it ends its session and publishes.
    pub session_finalizes: bool,
    /// `none` for one-shot tools, `new` for a session yet to be started, otherwise the session's state.
    pub session_state: String,
    /// Interactions the session has had.
    pub interaction_count: u32,
    /// From [`super::environment`].
    pub environment: String,
}

/// What a question is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A call of this callable.
    Call {
        /// The callable's name, e.g. `report.query`.
        tool: String,
    },
    /// Taking over this session's keyboard.
    TakeOver {
        /// The session.
        session: SessionId,
        /// The callable it was started by.
        tool: String,
    },
}

impl Subject {
    /// The callable's name.
    #[must_use]
    pub fn tool(&self) -> &str {
        match self {
            Self::Call { tool } | Self::TakeOver { tool, .. } => tool,
        }
    }
}

/// A question that cannot be put to Cedar; it is then answered with a denial.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unaskable {
    #[error("policy knows no tool named {0}")]
    Tool(String),
    #[error("{0} is larger than policy can count")]
    Number(&'static str),
    #[error("the question does not fit the policy schema: {0}")]
    Shape(String),
}

fn shape(error: impl std::fmt::Display) -> Unaskable {
    Unaskable::Shape(error.to_string())
}

/// Builds an entity's name from its parts; the id may hold anything.
pub(super) fn uid(kind: &str, id: &str) -> Result<EntityUid, Unaskable> {
    let kind = EntityTypeName::from_str(kind).map_err(shape)?;
    Ok(EntityUid::from_type_name_and_id(kind, EntityId::new(id)))
}

/// A question in Cedar's terms.
pub(super) struct Asked {
    pub(super) request: Request,
    pub(super) entities: Entities,
    pub(super) principal: EntityUid,
    pub(super) action: EntityUid,
    pub(super) resource: EntityUid,
}

/// Translates a question.
pub(super) fn ask(question: &Question, vocabulary: &Vocabulary, schema: &Schema) -> Result<Asked, Unaskable> {
    let name = question.subject.tool();
    let tool = vocabulary.tools.get(name).ok_or_else(|| Unaskable::Tool(name.chars().take(64).collect()))?;
    let principal_type = match question.principal.kind {
        PrincipalKind::Person => "Person",
        PrincipalKind::Agent => "Agent",
    };
    let principal = uid(principal_type, &question.principal.name)?;
    let tool_resource = uid(&tool.resource_type, name)?;
    let family = uid(&tool.resource_type, &tool.tool)?;
    let mut entities = vec![entity(&principal, [("name", text(&question.principal.name))], [])?];
    let attributes = |name: &str| {
        [
            ("name", text(name)),
            ("tool", text(&tool.tool)),
            ("version", text(&tool.version)),
            ("manifest", text(&tool.manifest.to_string())),
        ]
    };
    if tool_resource != family {
        entities.push(entity(&family, attributes(&tool.tool), [])?);
        entities.push(entity(&tool_resource, attributes(name), [family.clone()])?);
    } else {
        entities.push(entity(&family, attributes(name), [])?);
    }
    let (action, resource) = match &question.subject {
        Subject::Call { .. } => (uid("Action", &tool.action)?, tool_resource),
        Subject::TakeOver { session, .. } => {
            let resource = uid("Session", &session.to_string())?;
            // A session belongs to the tool as a whole, so that one policy can speak of all its terminals.
            entities.push(entity(&resource, [("tool", text(&tool.tool))], [family])?);
            (uid("Action", "take_over")?, resource)
        }
    };
    let context = context(question, &tool.integers)?;
    let request =
        Request::new(principal.clone(), action.clone(), resource.clone(), context, Some(schema)).map_err(shape)?;
    let entities = Entities::from_entities(entities, Some(schema)).map_err(shape)?;
    Ok(Asked { request, entities, principal, action, resource })
}

fn entity<const A: usize, const P: usize>(
    uid: &EntityUid,
    attributes: [(&str, RestrictedExpression); A],
    parents: [EntityUid; P],
) -> Result<Entity, Unaskable> {
    let attributes: HashMap<String, RestrictedExpression> =
        attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Entity::new(uid.clone(), attributes, HashSet::from(parents)).map_err(shape)
}

fn text(value: &str) -> RestrictedExpression {
    RestrictedExpression::new_string(value.to_owned())
}

fn texts<'a>(values: impl IntoIterator<Item = &'a str>) -> RestrictedExpression {
    RestrictedExpression::new_set(values.into_iter().map(text))
}

fn number(value: u64, what: &'static str) -> Result<RestrictedExpression, Unaskable> {
    i64::try_from(value).map(RestrictedExpression::new_long).ok().ok_or(Unaskable::Number(what))
}

fn record<K: Into<String>>(
    fields: impl IntoIterator<Item = (K, RestrictedExpression)>,
) -> Result<RestrictedExpression, Unaskable> {
    RestrictedExpression::new_record(fields.into_iter().map(|(name, value)| (name.into(), value))).map_err(shape)
}

fn context(question: &Question, integers: &HashSet<String>) -> Result<Context, Unaskable> {
    let arguments = record(question.arguments.iter().map(|(name, value)| (name.as_str(), text(value))))?;
    let numbers: Vec<(&str, RestrictedExpression)> = question
        .arguments
        .iter()
        .filter(|(name, _)| integers.contains(*name))
        .map(|(name, value)| {
            let number = value.parse::<i64>().map_err(shape)?;
            Ok((name.as_str(), RestrictedExpression::new_long(number)))
        })
        .collect::<Result<_, Unaskable>>()?;
    let files = &question.files;
    let total = files.inputs.iter().fold(0_u64, |sum, input| sum.saturating_add(input.bytes));
    let digests: Vec<String> = files.inputs.iter().map(|input| input.sha256.to_string()).collect();
    let files = record([
        ("read", texts(files.inputs.iter().map(|input| input.path.as_str()))),
        ("create", texts(files.output.iter().map(|output| output.path.as_str()))),
        ("digests", texts(digests.iter().map(String::as_str))),
        ("read_bytes", number(total, "the size of the granted files")?),
        ("max_file_bytes", number(files.max_file_bytes, "max_file_bytes")?),
    ])?;
    let sandbox = record([
        ("tier", text(&question.tier)),
        ("profile", text(&question.profile.to_string())),
        ("network", text(&question.network)),
    ])?;
    let kind = match question.principal.kind {
        PrincipalKind::Person => "person",
        PrincipalKind::Agent => "agent",
    };
    let caller = record([
        ("kind", text(kind)),
        ("name", text(&question.principal.name)),
        ("origin", text(origin(question.origin))),
    ])?;
    let mut pairs = vec![
        ("tool", text(question.subject.tool())),
        ("arguments", arguments),
        ("numbers", record(numbers)?),
        ("risk_tier", text(question.risk_tier.word())),
        ("risk_level", RestrictedExpression::new_long(risk_level(question.risk_tier))),
        ("human_approval", RestrictedExpression::new_bool(question.human_approval)),
        ("execution_transport", text(&question.transport)),
        ("sandbox", sandbox),
        ("files", files),
        ("session_finalizes", RestrictedExpression::new_bool(question.session_finalizes)),
        ("session_state", text(&question.session_state)),
        ("interaction_count", RestrictedExpression::new_long(i64::from(question.interaction_count))),
        ("environment", text(&question.environment)),
        ("caller", caller),
    ];
    if let Some(command) = &question.command {
        pairs.push(("command", text(command)));
    }
    Context::from_pairs(pairs.into_iter().map(|(name, value)| (name.to_owned(), value))).map_err(shape)
}

/// The word policies use for a channel.
const fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Loop => "loop",
        Origin::Mcp => "mcp",
        Origin::Cli => "cli",
        Origin::Workbench => "workbench",
    }
}

/// Risk tiers as numbers, so that policies can compare them.
const fn risk_level(tier: RiskTier) -> i64 {
    match tier {
        RiskTier::Info => 0,
        RiskTier::Low => 1,
        RiskTier::Medium => 2,
        RiskTier::High => 3,
        RiskTier::Critical => 4,
    }
}
