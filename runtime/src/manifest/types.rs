//! Reading argument tables, and a project's own types from `toolclad.toml`.

use super::args::{ArgSpec, ArgType};
use super::argv::is_name;
use super::fault::{FaultKind, nearest};
use super::pattern::Pattern;
use super::read::{Reader, Spot, Table};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use stockade_protocol::limits::ARGUMENTS;
use toml::de::DeValue;

/// Types of the format that later versions build.
const LATER: &[&str] = &[
    "number",
    "port",
    "scope_target",
    "url",
    "ip_address",
    "cidr",
    "msf_options",
    "credential_file",
    "duration",
    "regex_match",
    "literal_text",
    "agent_summary",
];

/// Types this version builds.
const BUILT: &[&str] = &["string", "integer", "boolean", "enum", "path"];

/// What a project's own type stands for.
#[derive(Debug, Clone)]
pub(crate) struct CustomType {
    kind: ArgType,
    patterns: Vec<Pattern>,
}

/// A project's own types by name; `None` for one that had faults, so that its users are not faulted again.
pub(crate) type Types = BTreeMap<String, Option<CustomType>>;

/// Constraints of a type, as an argument or a project type has them.
struct Constraints {
    allowed: Option<Spot<Vec<Spot<String>>>>,
    pattern: Option<Spot<String>>,
    min: Option<Spot<i64>>,
    max: Option<Spot<i64>>,
    clamp: Option<Spot<bool>>,
}

/// Keys that belong to types which later versions build, and to which types.
const LATER_KEYS: &[(&str, &str)] = &[
    ("min_float", "number"),
    ("max_float", "number"),
    ("schemes", "url"),
    ("scope_check", "scope_target, url, ip_address and cidr"),
    ("block_internal", "scope_target, url, ip_address and cidr"),
];

/// Reads a pattern; a faulty one is noted.
pub(crate) fn pattern(table: &Table<'_>, key: &str) -> Option<Spot<Pattern>> {
    table.string(key).and_then(|text| compile(table, key, text))
}

fn compile(table: &Table<'_>, key: &str, text: Spot<String>) -> Option<Spot<Pattern>> {
    match Pattern::new(&text.value) {
        Ok(pattern) => Some(Spot { value: pattern, span: text.span }),
        Err(error) => {
            table.reader.value(&text.span, format!("`{}`: {error}", table.name_of(key)), error.hint());
            None
        }
    }
}

impl Constraints {
    fn read(table: &Table<'_>) -> Self {
        Self {
            allowed: table.strings("allowed"),
            pattern: table.string("pattern"),
            min: table.integer("min"),
            max: table.integer("max"),
            clamp: table.boolean("clamp"),
        }
    }

    /// Builds a type from its word; constraints that do not belong to it are faults.
    fn build(self, table: &Table<'_>, word: &str, at: &Range<usize>) -> Option<CustomType> {
        let reader = table.reader;
        let before = reader.count();
        let misplaced = |key: &str, span: &Range<usize>, types: &str| {
            reader.value(span, format!("`{}` applies to {types} only, not to {word}", table.name_of(key)), "remove it");
        };
        for (key, types) in LATER_KEYS {
            if table.has(key) {
                misplaced(key, &table.key_span(key), types);
            }
        }
        if word != "integer" {
            for (key, span) in [
                ("min", self.min.as_ref().map(|spot| &spot.span)),
                ("max", self.max.as_ref().map(|spot| &spot.span)),
                ("clamp", self.clamp.as_ref().map(|spot| &spot.span)),
            ] {
                if let Some(span) = span {
                    misplaced(key, span, "integer");
                }
            }
        }
        if let Some(allowed) = self.allowed.as_ref().filter(|_| word != "enum") {
            misplaced("allowed", &allowed.span, "enum");
        }
        if let Some(pattern) = self.pattern.as_ref().filter(|_| matches!(word, "integer" | "boolean")) {
            misplaced("pattern", &pattern.span, "string, path and enum");
        }
        let kind = match word {
            "string" => ArgType::String,
            "path" => ArgType::Path,
            "boolean" => ArgType::Boolean,
            "integer" => {
                if let (Some(min), Some(max)) = (&self.min, &self.max)
                    && min.value > max.value
                {
                    let what = format!("`{}` is larger than `max`", table.name_of("min"));
                    reader.value(&min.span, what, "exchange the two");
                }
                ArgType::Integer {
                    min: self.min.map(|spot| spot.value),
                    max: self.max.map(|spot| spot.value),
                    clamp: self.clamp.is_some_and(|spot| spot.value),
                }
            }
            _ => ArgType::Enum { allowed: allowed(table, self.allowed, at) },
        };
        let pattern = self.pattern.and_then(|text| compile(table, "pattern", text));
        let patterns = pattern.map(|spot| spot.value).into_iter().collect();
        (reader.count() == before).then_some(CustomType { kind, patterns })
    }
}

fn allowed(table: &Table<'_>, list: Option<Spot<Vec<Spot<String>>>>, at: &Range<usize>) -> Vec<String> {
    let Some(list) = list else {
        if !table.has("allowed") {
            let hint = "list the values: allowed = [\"words\", \"lines\"]";
            let what = format!("an enum needs `{}`", table.name_of("allowed"));
            table.reader.fault(at, FaultKind::Missing, what, hint);
        }
        return Vec::new();
    };
    if list.value.is_empty() {
        let what = format!("`{}` is empty: no value could ever be sent", table.name_of("allowed"));
        table.reader.value(&list.span, what, "list at least one value");
    }
    let mut seen = BTreeSet::new();
    for Spot { value, span } in list.value {
        if let Some(c) = value.chars().find(|c| c.is_control()) {
            let what = format!("`{}` holds the control character U+{:04X}", table.name_of("allowed"), u32::from(c));
            table.reader.value(&span, what, "remove it");
        }
        if seen.contains(&value) {
            let what = format!("`{}` lists {value} a second time", table.name_of("allowed"));
            table.reader.value(&span, what, "list each value once");
        }
        seen.insert(value);
    }
    seen.into_iter().collect()
}

/// What a type's word means.
enum Word {
    Built,
    Custom(CustomType),
    /// A fault was or is noted elsewhere.
    Faulty,
}

fn word(reader: &Reader<'_>, text: &Spot<String>, types: &Types) -> Word {
    let name = text.value.as_str();
    if BUILT.contains(&name) {
        return Word::Built;
    }
    if LATER.contains(&name) {
        let hint = format!("built now: {}", BUILT.join(", "));
        reader.unsupported(&text.span, &format!("the argument type `{name}`"), hint);
        return Word::Faulty;
    }
    match types.get(name) {
        Some(Some(custom)) => Word::Custom(custom.clone()),
        Some(None) => Word::Faulty,
        None => {
            let names = BUILT.iter().chain(LATER).copied().chain(types.keys().map(String::as_str));
            let hint = nearest(name, names).map_or_else(
                || "declare it under [types] in toolclad.toml, or use a built-in type".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            reader.value(&text.span, format!("there is no argument type `{name}`"), hint);
            Word::Faulty
        }
    }
}

/// Reads `[types.*]` of `toolclad.toml`.
pub(crate) fn read_types(root: &Table<'_>) -> Types {
    let mut types = Types::new();
    let Some(table) = root.table("types") else { return types };
    let mut waiting: Vec<(String, Table<'_>, Spot<String>)> = Vec::new();
    for (name, table) in table.tables() {
        table.string("description");
        let base = table.required_string("base", "name the type it narrows: base = \"string\"");
        if BUILT.contains(&name.as_str()) || LATER.contains(&name.as_str()) {
            table.reader.value(&table.span, format!("[{}] has the name of a built-in type", table.path()), "rename it");
        } else if !is_name(&name) {
            let hint = "use letters, digits, `_` and `-`, at most 64";
            table.reader.value(&table.span, format!("`{name}` cannot name a type"), hint);
        } else if let Some(base) = base {
            waiting.push((name, table, base));
            continue;
        }
        Constraints::read(&table);
        types.insert(name, None);
        finish(table);
    }
    let names: BTreeSet<String> = waiting.iter().map(|(name, ..)| name.clone()).collect();
    // Each round settles the types whose base is settled; what is left when a round settles nothing is a cycle.
    while !waiting.is_empty() {
        let (ready, rest): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|(_, _, base)| types.contains_key(&base.value) || !names.contains(&base.value));
        waiting = rest;
        if ready.is_empty() {
            for (name, table, base) in waiting {
                let what = format!("the type {name} is based on itself, through {}", base.value);
                table.reader.value(&base.span, what, "base one of them on a built-in type");
                Constraints::read(&table);
                finish(table);
                types.insert(name, None);
            }
            break;
        }
        for (name, table, base) in ready {
            let settled = settle(&table, &base, &types);
            finish(table);
            types.insert(name, settled);
        }
    }
    types
}

/// Ends a table, with the keys that only later types use known.
fn finish(table: Table<'_>) {
    for (key, _) in LATER_KEYS {
        table.has(key);
    }
    table.finish();
}

fn settle(table: &Table<'_>, base: &Spot<String>, types: &Types) -> Option<CustomType> {
    let constraints = Constraints::read(table);
    match word(table.reader, base, types) {
        Word::Built => constraints.build(table, &base.value, &table.span),
        Word::Custom(custom) => narrow(table, constraints, custom, &base.value),
        Word::Faulty => None,
    }
}

/// A project type is used as it is; only a pattern may be added to it.
fn narrow(table: &Table<'_>, constraints: Constraints, mut custom: CustomType, name: &str) -> Option<CustomType> {
    let before = table.reader.count();
    let spans = [
        ("allowed", constraints.allowed.map(|spot| spot.span)),
        ("min", constraints.min.map(|spot| spot.span)),
        ("max", constraints.max.map(|spot| spot.span)),
        ("clamp", constraints.clamp.map(|spot| spot.span)),
    ];
    let later = LATER_KEYS.iter().filter(|(key, _)| table.has(key)).map(|(key, _)| (*key, Some(table.key_span(key))));
    for (key, span) in spans.into_iter().chain(later) {
        if let Some(span) = span {
            let what = format!("`{}` cannot be changed: the type {name} already fixes it", table.name_of(key));
            table.reader.value(&span, what, "declare another type in toolclad.toml");
        }
    }
    let pattern = constraints.pattern.and_then(|text| compile(table, "pattern", text));
    custom.patterns.extend(pattern.map(|spot| spot.value));
    (table.reader.count() == before).then_some(custom)
}

/// Declared arguments; `None` for one that had faults, so that its users are not faulted again.
pub(crate) type Args = BTreeMap<String, Option<ArgSpec>>;

/// The arguments without fault.
pub(crate) fn sound(args: Args) -> BTreeMap<String, ArgSpec> {
    args.into_iter().filter_map(|(name, spec)| spec.map(|spec| (name, spec))).collect()
}

/// Reads a table of argument tables.
pub(crate) fn read_args(parent: &Table<'_>, types: &Types) -> Args {
    let Some(table) = parent.table("args") else { return Args::new() };
    let args = table.tables();
    if args.len() > ARGUMENTS {
        let what = format!("[{}] declares {} arguments: at most {ARGUMENTS} are taken", table.path(), args.len());
        table.reader.value(&table.span, what, "");
    }
    args.into_iter()
        .map(|(name, arg)| {
            let spec = read_arg(&name, arg, types);
            (name, spec)
        })
        .collect()
}

fn read_arg(name: &str, table: Table<'_>, types: &Types) -> Option<ArgSpec> {
    let reader = table.reader;
    let before = reader.count();
    if !is_name(name) || name.starts_with('_') {
        let hint = "begin with a letter, then letters, digits, `_` and `-`, at most 64";
        reader.value(&table.span, format!("`{name}` cannot name an argument"), hint);
    }
    let type_word = table.required_string("type", "add type = \"string\", or another type");
    let position = table.integer("position").map_or(0, |spot| spot.value);
    let required = table.boolean("required").is_some_and(|spot| spot.value);
    let description = table.string("description").map(|spot| spot.value).unwrap_or_default();
    let allow_leading_dash = table.boolean("allow_leading_dash").is_some_and(|spot| spot.value);
    let allow_whitespace = table.boolean("allow_whitespace").is_some_and(|spot| spot.value);
    table.boolean("feeds_decision");
    for item in table.strings("sanitize").into_iter().flat_map(|list| list.value) {
        if item.value != "injection" {
            let what = format!("`{}` knows only \"injection\"", table.name_of("sanitize"));
            reader.value(&item.span, what, "every text is checked for it anyway");
        }
    }
    let default = default_text(&table);
    let constraints = Constraints::read(&table);
    let custom = match type_word.as_ref().map(|text| (word(reader, text, types), text)) {
        Some((Word::Built, text)) => constraints.build(&table, &text.value, &table.span),
        Some((Word::Custom(custom), text)) => narrow(&table, constraints, custom, &text.value),
        Some((Word::Faulty, _)) | None => None,
    };
    finish(table);
    let CustomType { kind, patterns } = custom?;
    let mut spec = ArgSpec {
        name: name.to_owned(),
        position,
        kind,
        description,
        required,
        default: None,
        patterns,
        allow_leading_dash,
        allow_whitespace,
    };
    if let Some(default) = default {
        // An optional argument whose default is the empty text is simply unset, unless the empty text is a member.
        let unset = default.value.is_empty()
            && !matches!(&spec.kind, ArgType::Enum { allowed } if allowed.contains(&default.value));
        match spec.check(&default.value) {
            _ if unset && !required => {}
            Ok(value) => spec.default = Some(value),
            Err(unfit) => reader.value(
                &default.span,
                format!("the default of the argument {name} would be refused: {}", unfit.why),
                unfit.next,
            ),
        }
    }
    (reader.count() == before).then_some(spec)
}

/// A default as text: strings, integers and booleans have one.
fn default_text(table: &Table<'_>) -> Option<Spot<String>> {
    let spot = table.raw("default")?;
    let text = scalar_text(spot.value);
    if text.is_none() {
        let what = format!("`{}` must be a string, an integer or a boolean", table.name_of("default"));
        table.reader.fault(&spot.span, FaultKind::WrongType, what, "");
    }
    text.map(|value| Spot { value, span: spot.span })
}

/// The text of a string, an integer or a boolean.
pub(crate) fn scalar_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(digits) => {
            i64::from_str_radix(digits.as_str(), digits.radix()).ok().map(|number| number.to_string())
        }
        DeValue::Boolean(value) => Some(value.to_string()),
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}
