//! Output: text as it is, JSON as declared.

use super::support::*;
use crate::manifest::{OutputError, OutputFormat, OutputSpec, interpret};
use proptest::prelude::*;
use stockade_protocol::limits::INTERACTION_BYTES;
use stockade_protocol::refusal::{Authority, RefusalCode};

fn triage() -> OutputSpec {
    fixtures_cached().get("triage").unwrap().output.clone()
}

#[test]
fn json_that_fits_its_schema_is_passed_on() {
    let read = interpret(&triage(), b" {\"queue\": \"infra\", \"rank\": 2.0, \"tags\": [\"a\", \"b\"]}\n").unwrap();
    assert_eq!(read.structured.as_deref(), Some(r#"{"queue":"infra","rank":2.0,"tags":["a","b"]}"#));
    assert!(interpret(&triage(), br#"{"queue": "other", "rank": null}"#).is_ok());
}

#[test]
fn the_first_place_that_breaks_the_schema_is_named() {
    for (json, error) in [
        ("[]", "/: expected object, found array"),
        ("{}", "/: the property queue is missing"),
        (r#"{"queue": "sales"}"#, "/queue: the value is not one of the schema's enum"),
        (r#"{"queue": 1}"#, "/queue: expected string, found number"),
        (r#"{"queue": "infra", "more": 1}"#, "/: the property more is not in the schema"),
        (r#"{"queue": "infra", "rank": 1.5}"#, "/rank: expected integer or null, found number"),
        (r#"{"queue": "infra", "rank": 6}"#, "/rank: 6 is larger than maximum"),
        (r#"{"queue": "infra", "rank": 0}"#, "/rank: 0 is smaller than minimum"),
        (r#"{"queue": "infra", "tags": ["a", ""]}"#, "/tags/1: the text has 0 characters, fewer than minLength"),
        (r#"{"queue": "infra", "tags": ["abcdefghi"]}"#, "/tags/0: the text has 9 characters, more than maxLength"),
        (r#"{"queue": "infra", "tags": ["a\nb"]}"#, "/tags/0: the text does not match the pattern [a-z]+"),
    ] {
        match interpret(&triage(), json.as_bytes()).unwrap_err() {
            OutputError::Schema(found) => assert_eq!(found.to_string(), error),
            OutputError::Json(found) => panic!("{json}: {found}"),
        }
    }
    let refusal = interpret(&triage(), b"{}").unwrap_err().refusal();
    assert_eq!((refusal.code, refusal.authority), (RefusalCode::Failed, Authority::Manifest));
    assert_eq!(refusal.rule.as_deref(), Some("output.schema"));
}

#[test]
fn a_pointer_escapes_what_a_name_holds() {
    let manifest = "[tool]\nname = \"a\"\nversion = \"1\"\ndescription = \"d\"\nbinary = \"wc\"\n[command]\nexec = [\"wc\"]\n\
        [output]\nformat = \"json\"\n[output.schema.properties.\"a/b~c\"]\nenum = [1, { x = [1.0] }]\n";
    let spec = one(manifest).unwrap().get("a").unwrap().output.clone();
    let error = interpret(&spec, br#"{"a/b~c": 2}"#).unwrap_err();
    assert!(error.to_string().contains("at /a~1b~0c: "), "{error}");
    for same in [r#"{"a/b~c": 1.0}"#, r#"{"a/b~c": {"x": [1]}}"#] {
        assert!(interpret(&spec, same.as_bytes()).is_ok(), "{same}");
    }
}

#[test]
fn what_is_no_json_is_refused_where_json_is_declared() {
    for bytes in [b"".as_slice(), b"{", b"{} {}", b"\xff", b"NaN", b"{\"queue\": \"infra\"} trailing"] {
        let error = interpret(&triage(), bytes).unwrap_err();
        assert!(matches!(error, OutputError::Json(_)), "{bytes:?}");
        assert_eq!(error.refusal().rule.as_deref(), Some("output.format"));
    }
    let deep = "[".repeat(100_000);
    assert!(matches!(interpret(&triage(), deep.as_bytes()), Err(OutputError::Json(_))));
}

#[test]
fn text_is_left_alone_and_its_schema_sees_it_whole() {
    let count = fixtures_cached().get("count").unwrap().output.clone();
    assert_eq!((count.format, count.max_bytes), (OutputFormat::Text, INTERACTION_BYTES));
    assert_eq!(interpret(&count, b" 1 \xff\n").unwrap().structured, None);
    let manifest = "[tool]\nname = \"a\"\nversion = \"1\"\ndescription = \"d\"\nbinary = \"wc\"\n[command]\nexec = [\"wc\"]\n\
        [output]\nmax_bytes = 10\n[output.schema.properties.raw_output]\ntype = \"string\"\nmaxLength = 3\n";
    let spec = one(manifest).unwrap().get("a").unwrap().output.clone();
    assert_eq!(spec.max_bytes, 10);
    assert!(interpret(&spec, b"abc").is_ok());
    let error = interpret(&spec, b"abcd").unwrap_err();
    assert!(error.to_string().contains("/raw_output: the text has 4 characters"), "{error}");
}

proptest! {
    #[test]
    fn any_bytes_are_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(read) = interpret(&triage(), &bytes) {
            prop_assert!(read.structured.is_some());
        }
    }
}
