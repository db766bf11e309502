//! One record: the canonical JSON line that is hashed as stored.

use super::scan::{self, Member};
use stockade_protocol::event::{Event, EventEnvelope};
use stockade_protocol::ids::{CallId, RunId, SessionId};
use stockade_protocol::time::Timestamp;

/// Version of the record format.
pub(super) const VERSION: u32 = 1;

/// The hash of no record: what the first record names as its predecessor.
pub(super) const NO_RECORD: [u8; 64] = [b'0'; 64];

/// The ids a record belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Places {
    pub(super) run: Option<RunId>,
    pub(super) session: Option<SessionId>,
    pub(super) call: Option<CallId>,
}

/// What the writer adds to an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position<'a> {
    pub(super) journal: &'a str,
    pub(super) seq: u64,
    pub(super) prev: &'a [u8; 64],
    pub(super) time: Timestamp,
}

/// Writes a record without its line end. `kind` and `body` must be canonical already.
pub(super) fn compose(out: &mut Vec<u8>, position: &Position<'_>, places: &Places, kind: &str, body: &[u8]) {
    use std::io::Write as _;
    out.extend_from_slice(b"{\"body\":");
    out.extend_from_slice(body);
    // Writing into memory cannot fail. The names are in canonical order.
    if let Some(call) = places.call {
        let _ = write!(out, ",\"call\":\"{call}\"");
    }
    let _ = write!(out, ",\"journal\":\"{}\",\"prev\":\"", position.journal);
    out.extend_from_slice(position.prev);
    out.push(b'"');
    if let Some(run) = places.run {
        let _ = write!(out, ",\"run\":\"{run}\"");
    }
    let _ = write!(out, ",\"seq\":{}", position.seq);
    if let Some(session) = places.session {
        let _ = write!(out, ",\"session\":\"{session}\"");
    }
    let _ = write!(out, ",\"time\":{},\"type\":\"{kind}\",\"v\":{VERSION}}}", position.time.0);
}

/// A record as read, borrowed from its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) journal: &'a str,
    pub(super) seq: u64,
    pub(super) prev: &'a str,
    time: u64,
    run: Option<&'a str>,
    session: Option<&'a str>,
    call: Option<&'a str>,
    pub(super) kind: &'a str,
    pub(super) body: &'a str,
}

/// Reads a line, without its end, as a record. The error says what is wrong with it.
pub(super) fn parse(line: &[u8]) -> Result<Record<'_>, String> {
    let members =
        scan::members(line).map_err(|fault| format!("not canonical JSON at byte {}: {}", fault.at, fault.what))?;
    let mut members = members.into_iter().peekable();
    let mut take = |name: &str| members.next_if(|member| member.name == name);
    let body = required("body", take("body"))?;
    let call = take("call").map(|member| id(&member, b'c')).transpose()?;
    let journal = text(&required("journal", take("journal"))?)?;
    let prev = text(&required("prev", take("prev"))?)?;
    let run = take("run").map(|member| id(&member, b'r')).transpose()?;
    let seq = integer(&required("seq", take("seq"))?)?;
    let session = take("session").map(|member| id(&member, b's')).transpose()?;
    let time = integer(&required("time", take("time"))?)?;
    let kind = text(&required("type", take("type"))?)?;
    let version = integer(&required("v", take("v"))?)?;
    if let Some(member) = members.next() {
        return Err(format!("unknown member {:?}", member.name));
    }
    if version != u64::from(VERSION) {
        return Err(format!("version {version}, but this program reads version {VERSION}"));
    }
    if !body.value.starts_with('{') {
        return Err("its body is not an object".to_owned());
    }
    if !is_hex(journal, 32) || !is_hex(prev, 64) {
        return Err("its journal id or its link is not lower-case hex of the right length".to_owned());
    }
    if kind.is_empty() || !kind.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'_' | b'.')) {
        return Err("its type is not a type's name".to_owned());
    }
    Ok(Record { journal, seq, prev, time, run, session, call, kind, body: body.value })
}

fn required<'a>(name: &str, member: Option<Member<'a>>) -> Result<Member<'a>, String> {
    member.ok_or_else(|| format!("no member {name:?}"))
}

fn text<'a>(member: &Member<'a>) -> Result<&'a str, String> {
    member
        .value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .filter(|inside| !inside.contains('\\'))
        .ok_or_else(|| format!("member {:?} is not plain text", member.name))
}

fn integer(member: &Member<'_>) -> Result<u64, String> {
    member.value.parse().map_err(|_ignored| format!("member {:?} is not a whole number", member.name))
}

fn id<'a>(member: &Member<'a>, letter: u8) -> Result<&'a str, String> {
    let id = text(member)?;
    let hex = id.strip_prefix(char::from(letter)).unwrap_or_default();
    if is_hex(hex, 32) { Ok(id) } else { Err(format!("member {:?} is not an id of its kind", member.name)) }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Record<'_> {
    /// The event it holds. An event of an unknown type, or with unknown members, is an error.
    pub(super) fn envelope(&self) -> Result<EventEnvelope, String> {
        let event: Event = serde_json::from_str(&format!("{{\"type\":\"{}\",\"body\":{}}}", self.kind, self.body))
            .map_err(|error| error.to_string())?;
        Ok(EventEnvelope {
            seq: self.seq,
            time: Timestamp(self.time),
            run: self.run.and_then(|id| id.parse().ok()),
            session: self.session.and_then(|id| id.parse().ok()),
            call: self.call.and_then(|id| id.parse().ok()),
            event,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(places: &Places) -> Vec<u8> {
        let mut line = Vec::new();
        let position =
            Position { journal: &"ab".repeat(16), seq: 7, prev: &[b'c'; 64], time: Timestamp(1_700_000_000_000) };
        compose(&mut line, &position, places, "session.ready", b"{}");
        line
    }

    #[test]
    fn a_composed_record_is_canonical_and_reads_back() {
        let all = Places {
            run: Some(RunId::from_bits([1; 16])),
            session: Some(SessionId::from_bits([2; 16])),
            call: Some(CallId::from_bits([3; 16])),
        };
        for places in [Places::default(), all] {
            let line = line(&places);
            let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
            assert_eq!(crate::canon::to_bytes(&value).unwrap(), line);
            let envelope = parse(&line).unwrap().envelope().unwrap();
            assert_eq!(Places { run: envelope.run, session: envelope.session, call: envelope.call }, places);
            assert_eq!((envelope.seq, envelope.time), (7, Timestamp(1_700_000_000_000)));
        }
    }

    #[test]
    fn what_is_not_exactly_a_record_is_refused() {
        let good = String::from_utf8(line(&Places::default())).unwrap();
        assert!(parse(good.as_bytes()).is_ok());
        for (from, to) in [
            ("\"v\":1", "\"v\":2"),
            ("\"v\":1", "\"v\":1,\"x\":1"),
            ("\"seq\":7", "\"seq\":-7"),
            ("\"body\":{}", "\"body\":[]"),
            ("session.ready", "session ready"),
            ("\"prev\":\"c", "\"prev\":\"C"),
            ("\"journal\":\"ab", "\"journal\":\"b"),
            ("\"seq\":7,", "\"seq\":7,\"session\":\"r00000000000000000000000000000000\","),
            (",\"time\":1700000000000", ""),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good);
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_unknown_event_is_an_error() {
        let line = String::from_utf8(line(&Places::default())).unwrap();
        assert!(parse(line.replace("session.ready", "session.melted").as_bytes()).unwrap().envelope().is_err());
        assert!(parse(line.replace("{}", "{\"a\":1}").as_bytes()).unwrap().envelope().is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes).map(|record| record.envelope());
        }

        #[test]
        fn a_changed_record_does_not_panic(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = line(&Places { run: Some(RunId::from_bits([1; 16])), ..Places::default() });
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = parse(&bytes).map(|record| record.envelope());
        }
    }
}
