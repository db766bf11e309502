//! The subset of JSON Schema that `[output.schema]` is written in.
//!
//! Known keywords: `type`, `properties`, `required`, `additionalProperties`, `items`, `enum`, `minimum`, `maximum`,
//! `minLength`, `maxLength`, `pattern`. Others are ignored, as in ToolClad. Nothing here can loop: a schema has no references.

use super::fault::FaultKind;
use super::pattern::Pattern;
use super::read::Table;
use super::types;
use serde_json::{Map, Number, Value};
use std::collections::BTreeMap;
use std::fmt;
use toml::de::DeValue;

/// A compiled schema.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    types: Vec<JsonType>,
    properties: BTreeMap<String, Schema>,
    required: Vec<String>,
    closed: bool,
    items: Option<Box<Schema>>,
    members: Option<Vec<Value>>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    pattern: Option<Pattern>,
}

/// The types of JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonType {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    Null,
}

const TYPES: &[(&str, JsonType)] = &[
    ("object", JsonType::Object),
    ("array", JsonType::Array),
    ("string", JsonType::String),
    ("integer", JsonType::Integer),
    ("number", JsonType::Number),
    ("boolean", JsonType::Boolean),
    ("null", JsonType::Null),
];

impl JsonType {
    fn word(self) -> &'static str {
        TYPES.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }

    fn admits(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Object, Value::Object(_))
            | (Self::Array, Value::Array(_))
            | (Self::String, Value::String(_))
            | (Self::Number, Value::Number(_))
            | (Self::Boolean, Value::Bool(_))
            | (Self::Null, Value::Null) => true,
            (Self::Integer, Value::Number(number)) => {
                number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
            }
            _ => false,
        }
    }
}

/// The first place where a value breaks its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaError {
    /// Where, as a JSON Pointer; empty for the whole value.
    pub pointer: String,
    /// What is wrong there.
    pub message: String,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pointer = if self.pointer.is_empty() { "/" } else { &self.pointer };
        write!(f, "{pointer}: {}", self.message)
    }
}

impl Schema {
    /// Reads a schema from a manifest; faults are noted, and a faulty part admits nothing it should not because the
    /// manifest then does not load.
    pub(crate) fn read(table: &Table<'_>) -> Self {
        let mut schema = Self {
            types: read_types(table),
            required: table
                .strings("required")
                .map(|list| list.value.into_iter().map(|item| item.value).collect())
                .unwrap_or_default(),
            closed: table.boolean("additionalProperties").is_some_and(|spot| !spot.value),
            items: table.table("items").map(|items| Box::new(Self::read(&items))),
            members: members(table),
            minimum: number(table, "minimum"),
            maximum: number(table, "maximum"),
            min_length: length(table, "minLength"),
            max_length: length(table, "maxLength"),
            pattern: types::pattern(table, "pattern").map(|spot| spot.value),
            ..Self::default()
        };
        if let Some(properties) = table.table("properties") {
            schema.properties =
                properties.tables().into_iter().map(|(name, table)| (name, Self::read(&table))).collect();
        }
        schema
    }

    /// Checks a value.
    ///
    /// # Errors
    /// The first place where it breaks the schema, in the order of the schema's keywords.
    pub fn check(&self, value: &Value) -> Result<(), SchemaError> {
        self.check_at(value, &mut String::new())
    }

    fn check_at(&self, value: &Value, at: &mut String) -> Result<(), SchemaError> {
        let fail = |message: String| Err(SchemaError { pointer: at.clone(), message });
        if !self.types.is_empty() && !self.types.iter().any(|kind| kind.admits(value)) {
            let words: Vec<&str> = self.types.iter().map(|kind| kind.word()).collect();
            return fail(format!("expected {}, found {}", words.join(" or "), found(value)));
        }
        if self.members.as_ref().is_some_and(|members| !members.iter().any(|member| same(member, value))) {
            return fail("the value is not one of the schema's enum".to_owned());
        }
        match value {
            Value::Object(object) => return self.check_object(object, at),
            Value::Array(items) => return self.check_items(items, at),
            Value::String(text) => {
                let length = text.chars().count() as u64;
                if self.min_length.is_some_and(|min| length < min) {
                    return fail(format!("the text has {length} characters, fewer than minLength"));
                }
                if self.max_length.is_some_and(|max| length > max) {
                    return fail(format!("the text has {length} characters, more than maxLength"));
                }
                if let Some(pattern) = self.pattern.as_ref().filter(|pattern| !pattern.matches(text)) {
                    return fail(format!("the text does not match the pattern {}", pattern.as_str()));
                }
            }
            Value::Number(number) => {
                // Beyond every f64 means not comparable, so a bound is then broken.
                let value = number.as_f64();
                if self.minimum.is_some_and(|min| value.is_none_or(|value| value < min)) {
                    return fail(format!("{number} is smaller than minimum"));
                }
                if self.maximum.is_some_and(|max| value.is_none_or(|value| value > max)) {
                    return fail(format!("{number} is larger than maximum"));
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
        Ok(())
    }

    fn check_object(&self, object: &Map<String, Value>, at: &mut String) -> Result<(), SchemaError> {
        if let Some(name) = self.required.iter().find(|name| !object.contains_key(*name)) {
            return Err(SchemaError { pointer: at.clone(), message: format!("the property {name} is missing") });
        }
        for (name, value) in object {
            match self.properties.get(name) {
                Some(schema) => within(at, name, |at| schema.check_at(value, at))?,
                None if self.closed => {
                    let message = format!("the property {name} is not in the schema");
                    return Err(SchemaError { pointer: at.clone(), message });
                }
                None => {}
            }
        }
        Ok(())
    }

    fn check_items(&self, items: &[Value], at: &mut String) -> Result<(), SchemaError> {
        let Some(schema) = &self.items else { return Ok(()) };
        for (number, item) in items.iter().enumerate() {
            within(at, &number.to_string(), |at| schema.check_at(item, at))?;
        }
        Ok(())
    }
}

/// Runs a check one step deeper in the pointer.
fn within(
    at: &mut String,
    step: &str,
    check: impl FnOnce(&mut String) -> Result<(), SchemaError>,
) -> Result<(), SchemaError> {
    let length = at.len();
    at.push('/');
    at.push_str(&step.replace('~', "~0").replace('/', "~1"));
    let result = check(at);
    at.truncate(length);
    result
}

fn found(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Deep equality in which 1 and 1.0 are the same.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

fn read_types(table: &Table<'_>) -> Vec<JsonType> {
    let Some(spot) = table.raw("type") else { return Vec::new() };
    let words = match spot.value {
        DeValue::String(word) => vec![(word.to_string(), spot.span)],
        _ => table
            .strings("type")
            .map(|list| list.value.into_iter().map(|item| (item.value, item.span)).collect())
            .unwrap_or_default(),
    };
    words
        .into_iter()
        .filter_map(|(word, span)| {
            let kind = TYPES.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind);
            if kind.is_none() {
                let words: Vec<&str> = TYPES.iter().map(|(word, _)| *word).collect();
                let what = format!("`{}`: there is no JSON type `{word}`", table.name_of("type"));
                table.reader.value(&span, what, format!("use one of {}", words.join(", ")));
            }
            kind
        })
        .collect()
}

fn number(table: &Table<'_>, key: &str) -> Option<f64> {
    let spot = table.raw(key)?;
    match json(spot.value) {
        Some(Value::Number(number)) => number.as_f64(),
        _ => {
            let what = format!("`{}` must be a number", table.name_of(key));
            table.reader.fault(&spot.span, FaultKind::WrongType, what, "");
            None
        }
    }
}

fn length(table: &Table<'_>, key: &str) -> Option<u64> {
    let spot = table.integer(key)?;
    let length = u64::try_from(spot.value).ok();
    if length.is_none() {
        table.reader.value(&spot.span, format!("`{}` must not be negative", table.name_of(key)), "");
    }
    length
}

fn members(table: &Table<'_>) -> Option<Vec<Value>> {
    let spot = table.raw("enum")?;
    let members = match spot.value {
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        _ => None,
    };
    if members.is_none() {
        let what = format!("`{}` must be a list of JSON values", table.name_of("enum"));
        table.reader.fault(&spot.span, FaultKind::WrongType, what, "");
    }
    members
}

/// The JSON form of a TOML value; dates and numbers beyond reach have none.
fn json(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(digits) => i64::from_str_radix(digits.as_str(), digits.radix()).ok()?.into(),
        DeValue::Float(digits) => Value::Number(Number::from_f64(digits.as_str().parse().ok()?)?),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(_) => return None,
        DeValue::Array(items) => Value::Array(items.iter().map(|item| json(item.get_ref())).collect::<Option<_>>()?),
        DeValue::Table(entries) => Value::Object(
            entries
                .iter()
                .map(|(name, value)| Some((name.get_ref().to_string(), json(value.get_ref())?)))
                .collect::<Option<_>>()?,
        ),
    })
}
