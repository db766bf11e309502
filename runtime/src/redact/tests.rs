//! What is found, what is left alone, and that pieces do not matter.

use super::*;
use proptest::prelude::*;
use serde_json::json;
use stockade_protocol::digest::{Digest, to_hex};
use stockade_protocol::ids::{CallId, RunId, SessionId};

fn redact(text: &str) -> String {
    Redactor::standard().text(text).0
}

/// Secrets of every form, each with its lead and what stands in its place. None is a real one.
fn samples() -> Vec<(String, String)> {
    let row = |lead: &str, secret: &str, mark: &str| (format!("{lead}{secret}"), format!("{lead}[redacted:{mark}]"));
    let token36 = "0123456789abcdefghijABCDEFGHIJ012345";
    let mut samples = vec![
        row("AKIA", "IOSFODNN7EXAMPLE", "aws-key"),
        row("ASIA", "IOSFODNN7EXAMPLE", "aws-key"),
        row("aws_secret_access_key = ", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "secret"),
        row("export AWS_SECRET_ACCESS_KEY=", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "secret"),
        row("ghp_", token36, "github-token"),
        row("github_pat_", "11ABCDEFG0abcdefghijkl_0123456789", "github-token"),
        row("glpat-", "abcDEF0123456789_-xy", "gitlab-token"),
        row("xoxb-", "123456789012-abcdefghij", "slack-token"),
        row("sk-", "ant-api03-abcdefghijklmnopqrstuvwxyz", "api-key"),
        row("sk-", "proj-abcdefghijklmnopqrstuvwxyz", "api-key"),
        row("sk_live_", "abcdefghijklmnopqrstuvwx", "api-key"),
        row("AIza", "SyA-abcdefghijklmnopqrstuvwxyz0123456", "google-key"),
        row("npm_", token36, "npm-token"),
        row("hf_", token36, "huggingface-token"),
        row("eyJ", "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc-_DEF123", "web-token"),
        row("Authorization: Bearer ", "abcdefghijklmnop.qrst", "bearer-token"),
        row("authorization: basic ", "YWxhZGRpbjpvcGVuc2VzYW1l", "credentials"),
        row("password=", "hunter2222", "password"),
        row("Password: ", "hunter2222", "password"),
        row("DB_PASSWD := ", "hunter2222", "password"),
        row("passphrase => ", "hunter2222", "password"),
        row("api-key: ", "0123456789abcdef", "secret"),
        row("X-API-KEY: ", "0123456789abcdef", "secret"),
        row("?access_token=", "0123456789abcdef", "secret"),
        row("pwd=", "pässwörd", "password"),
    ];
    for (lead, secret, mark, end) in [
        ("\"password\": \"", "my pass phrase", "password", "\""),
        ("\\\"client_secret\\\":\\\"", "abcdef-012345", "secret", "\\\""),
        ("token_value = '", "zzzzzzzz zz", "secret", "'"),
    ] {
        samples.push((format!("{lead}{secret}{end}"), format!("{lead}[redacted:{mark}]{end}")));
    }
    samples.push(("postgres://app:s3cr3t@db/x".to_owned(), "postgres://app:[redacted:url-password]@db/x".to_owned()));
    for kind in ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "] {
        let body = "\nMIIEpAIBAAKCAQEA0\nabcd+/==\n".repeat(8);
        let block = |inside: &str| format!("-----BEGIN {kind}PRIVATE KEY-----{inside}-----END {kind}PRIVATE KEY-----");
        samples.push((block(&body), block("[redacted:private-key]")));
    }
    samples
}

#[test]
fn every_form_is_found_alone_and_in_text() {
    for (secret, expected) in samples() {
        assert_eq!(redact(&secret), expected);
        for (before, after) in
            [("", "\n"), ("> ", "\n> "), ("a line\n\t", " \u{1b}[0m"), ("\"", "\""), ("日本 ", " 語")]
        {
            assert_eq!(redact(&format!("{before}{secret}{after}")), format!("{before}{expected}{after}"));
        }
    }
}

#[test]
fn redacting_again_changes_nothing() {
    for (secret, expected) in samples() {
        assert_eq!(Redactor::standard().text(&expected), (expected.clone(), false), "{secret}");
    }
}

#[test]
fn what_only_looks_a_little_like_a_secret_is_left_alone() {
    let plain = [
        "",
        "AKIA123",
        "tokens: 123456789",
        "used 512 tokens = 4096 bytes",
        "the password is on the paper",
        "password:",
        "password: \n",
        "token: null, secret: none, api_key: true",
        "task-management-interface-for-everyone-here",
        "risk-averse-and-some-more-words-in-a-row",
        "basic authorization works like this",
        "bearer of bad news",
        "https://localhost:8080/path@home",
        "ssh://git@example.com:22/x.git",
        "mailto:someone@example.com",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "eyJhbGciOiJub25lIn0",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "secretary: someone else entirely",
        "keyboard shortcuts: pwdx",
        "xoxb",
        "ghp_short",
        "| id | name |\n+----+------+",
    ];
    for text in plain {
        assert_eq!(Redactor::standard().text(text), (text.to_owned(), false));
    }
}

#[test]
fn text_after_a_secret_goes_on() {
    assert_eq!(redact("token=abcdefgh&user=bob"), "token=[redacted:secret]&user=bob");
    assert_eq!(redact("a password=hunter2222 b"), "a password=[redacted:password] b");
    assert_eq!(redact("{\"password\":\"hunter2222\",\"n\":1}"), "{\"password\":\"[redacted:password]\",\"n\":1}");
    assert_eq!(
        redact("password=hunter2222\ntoken=abcdefgh\n"),
        "password=[redacted:password]\ntoken=[redacted:secret]\n"
    );
    let unclosed = format!("-----BEGIN PRIVATE KEY-----\n{}", "A".repeat(40_000));
    let out = redact(&unclosed);
    assert!(out.starts_with("-----BEGIN PRIVATE KEY-----[redacted:private-key]A"), "{}", &out[..80]);
    assert!(out.len() < 40_000 - 16_000);
}

#[test]
fn a_secret_among_secrets_does_not_survive() {
    let inner = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    for text in
        [format!("password={inner}"), format!("sk-{inner}"), format!("token: '{inner}'"), format!("xoxb-{inner}")]
    {
        let out = redact(&text);
        assert!(!out.contains("0123456789abcdef"), "{out}");
        assert_eq!(redact(&out), out);
    }
}

#[test]
fn a_secret_right_behind_another_is_found_too() {
    let text = "AKIAIOSFODNN7EXAMPLEghp_0123456789abcdefghijABCDEFGHIJ012345";
    assert_eq!(redact(text), "AKIA[redacted:aws-key]ghp_[redacted:github-token]");
    assert_eq!(redact("xAKIAIOSFODNN7EXAMPLE"), "xAKIAIOSFODNN7EXAMPLE", "a letter before it makes it something else");
}

#[test]
fn known_values_are_replaced_wherever_they_are_also_within_each_other() {
    let redactor = Redactor::standard();
    redactor.learn("short", b"abcdef").unwrap();
    redactor.learn("the long one!", b"abcdefghij").unwrap();
    assert_eq!(redactor.learn("x", b"abcde"), Err(TooShort));
    assert_eq!(
        redactor.text("-abcdef-abcdefghij-abcdefghi-").0,
        "-[redacted:short]-[redacted:the-long-one-]-[redacted:short]ghi-"
    );
    assert_eq!(redactor.text("ababcdef").0, "ab[redacted:short]");
    assert_eq!(redactor.text("abcde").0, "abcde");
    let twice = redactor.text("password=abcdef").0;
    assert_eq!(redactor.text(&twice).0, twice);
}

#[test]
fn a_stream_learns_values_while_it_runs() {
    let redactor = Redactor::standard();
    let mut stream = redactor.stream();
    let mut out = Vec::new();
    assert!(!stream.write(b"squeamish ", &mut out));
    redactor.learn("late", b"ossifrage").unwrap();
    assert!(stream.write(b"ossifrage ossi", &mut out));
    assert_eq!(stream.held(), 4);
    stream.flush(&mut out);
    assert_eq!(out, b"squeamish [redacted:late] ossi");
}

#[test]
fn prompts_and_plain_text_are_released_at_once() {
    let prompts =
        ["$ ", "report> ", "Password: ", "Enter token: ", "mysql> ", "(gdb) ", ">>> ", "sk-", "AKIA", "Passw", "-----"];
    for prompt in prompts {
        let mut stream = Redactor::standard().stream();
        let mut out = Vec::new();
        stream.write(prompt.as_bytes(), &mut out);
        assert_eq!((out.as_slice(), stream.held()), (prompt.as_bytes(), 0));
    }
}

#[test]
fn what_is_held_back_is_bounded() {
    let mut stream = Redactor::standard().stream();
    let mut out = Vec::new();
    for (secret, _) in samples() {
        for byte in secret.bytes() {
            stream.write(&[byte], &mut out);
            assert!(stream.held() <= 520, "{} held at {secret}", stream.held());
        }
    }
    for _ in 0..20_000 {
        stream.write(b"A", &mut out);
        assert!(stream.held() <= 520);
    }
}

fn in_pieces(redactor: &Redactor, bytes: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut stream = redactor.stream();
    let mut out = Vec::new();
    let mut at = 0;
    for cut in cuts {
        let cut = (*cut).clamp(at, bytes.len());
        stream.write(&bytes[at..cut], &mut out);
        at = cut;
    }
    stream.write(&bytes[at..], &mut out);
    stream.flush(&mut out);
    out
}

#[test]
fn no_secret_survives_any_split_in_two_or_three() {
    let redactor = Redactor::standard();
    redactor.learn("db", b"correct horse battery").unwrap();
    let mut samples = samples();
    samples.push(("correct horse battery".to_owned(), "[redacted:db]".to_owned()));
    for (secret, expected) in samples {
        let text = format!("run: {secret}\nok> ");
        let expected = format!("run: {expected}\nok> ");
        let length = text.len();
        // Long blocks are split at every point near their ends, short secrets at every pair of points.
        let points: Vec<usize> = (0..=length).filter(|at| length < 90 || *at < 60 || *at > length - 50).collect();
        for (n, first) in points.iter().enumerate() {
            for second in &points[n..] {
                let out = in_pieces(&redactor, text.as_bytes(), &[*first, *second]);
                assert_eq!(String::from_utf8(out).unwrap(), expected, "split at {first} and {second}");
            }
        }
        let each: Vec<usize> = (0..=length).collect();
        assert_eq!(in_pieces(&redactor, text.as_bytes(), &each), expected.as_bytes());
    }
}

#[test]
fn ids_digests_keys_and_signatures_are_never_touched() {
    let texts = [
        CallId::from_bits([0xa5; 16]).to_string(),
        RunId::from_bits([0x5a; 16]).to_string(),
        SessionId::from_bits([0xff; 16]).to_string(),
        Digest::of("x").to_string(),
        to_hex(&[0xca; 16]),
        to_hex(&[0xfe; 64]),
    ];
    for text in texts {
        assert_eq!(redact(&text), text);
    }
}

#[test]
fn structural_fields_are_left_alone_even_when_a_value_looks_like_them() {
    let redactor = Redactor::standard();
    let digest = Digest::of("x").to_string();
    redactor.learn("digest", digest.as_bytes()).unwrap();
    redactor.learn("word", b"rejected").unwrap();
    let mut body = json!({
        "digest": digest, "decision": "rejected", "lost_calls": [digest], "bytes": "rejected",
        "text": digest, "arguments": { "digest": digest, "code": "rejected" }, "list": ["rejected", 1, null],
    });
    assert!(redactor.value(&mut body));
    assert_eq!(
        body,
        json!({
            "digest": digest, "decision": "rejected", "lost_calls": [digest], "bytes": "rejected",
            "text": "[redacted:digest]", "arguments": { "digest": "[redacted:digest]", "code": "[redacted:word]" },
            "list": ["[redacted:word]", 1, null],
        })
    );
    assert!(!redactor.value(&mut body), "again nothing");
}

#[test]
fn an_argument_or_variable_with_a_telling_name_is_a_secret() {
    let redactor = Redactor::standard();
    let mut body = json!({
        "request": { "arguments": { "password": "correct horse", "API_KEY": "0123456789", "path": "a/b", "token": "five5",
            "token_count": "12345", "secretary": "someone", "monkey": "bananas1" } },
        "environment": { "DB_PASSWORD": "it is secret", "HOME": "/home/someone" },
        "password": "not the name of an argument",
    });
    assert!(redactor.value(&mut body));
    assert_eq!(
        body,
        json!({
            "request": { "arguments": { "password": "[redacted:password]", "API_KEY": "[redacted:secret]", "path": "a/b",
                "token": "five5", "token_count": "12345", "secretary": "someone", "monkey": "bananas1" } },
            "environment": { "DB_PASSWORD": "[redacted:password]", "HOME": "/home/someone" },
            "password": "not the name of an argument",
        })
    );
    assert!(!redactor.value(&mut body), "again nothing");
}

#[test]
fn a_value_comes_back_as_it_would_be_recorded() {
    use stockade_protocol::card::{Card, Field};
    let redactor = Redactor::standard();
    let card = |claim: &str| Card {
        title: "agent asks".to_owned(),
        facts: vec![],
        claims: vec![Field::one("reason", claim)],
        warnings: vec![],
    };
    assert_eq!(redactor.redacted(card("to list files")).unwrap(), (card("to list files"), false));
    assert_eq!(redactor.redacted(card("token=abcdefgh")).unwrap(), (card("token=[redacted:secret]"), true));
}

#[test]
fn marked_text_is_recognised() {
    assert!(is_marked(&redact("password=hunter2222")));
    assert!(!is_marked("redacted"));
}

fn pieces_of_text() -> impl Strategy<Value = Vec<u8>> {
    let bits = samples().into_iter().map(|(secret, _)| secret.into_bytes()).collect::<Vec<_>>();
    let piece = prop_oneof![
        4 => proptest::sample::select(bits.clone()),
        // Parts of secrets, so that forms begin and break off.
        4 => (proptest::sample::select(bits), any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(
            |(bytes, a, b)| {
                let (a, b) = (a.index(bytes.len() + 1), b.index(bytes.len() + 1));
                bytes[a.min(b)..a.max(b)].to_vec()
            }
        ),
        2 => proptest::collection::vec(any::<u8>(), 0..12),
        2 => proptest::sample::select(vec![" ", "\n", "=", "\"", "password", "-----", "[redacted:", "]", "AKIA", "://a:"])
            .prop_map(|text| text.as_bytes().to_vec()),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn pieces_do_not_matter(bytes in pieces_of_text(), cuts in proptest::collection::vec(0..600_usize, 0..12)) {
        let redactor = Redactor::standard();
        redactor.learn("known", b"SFODNN7EX").unwrap();
        let mut cuts = cuts;
        cuts.sort_unstable();
        prop_assert_eq!(in_pieces(&redactor, &bytes, &cuts), redactor.bytes(&bytes).0);
    }

    #[test]
    fn redacting_again_changes_nothing_in_anything(bytes in pieces_of_text()) {
        let once = Redactor::standard().bytes(&bytes).0;
        let twice = Redactor::standard().bytes(&once).0;
        prop_assert_eq!(String::from_utf8_lossy(&twice), String::from_utf8_lossy(&once));
    }

    #[test]
    fn bytes_without_secrets_pass_unchanged(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let (out, replaced) = Redactor::standard().bytes(&bytes);
        prop_assume!(!replaced);
        prop_assert_eq!(out, bytes);
    }

    #[test]
    fn a_known_value_survives_no_split(
        before in "[a-f ]{0,12}", value in "[a-c]{6,12}", after in "[a-f ]{0,12}", cuts in proptest::collection::vec(0..40_usize, 0..6),
    ) {
        let redactor = Redactor::standard();
        redactor.learn("v", value.as_bytes()).unwrap();
        let text = format!("{before}{value}{after}");
        let mut cuts = cuts;
        cuts.sort_unstable();
        let out = String::from_utf8(in_pieces(&redactor, text.as_bytes(), &cuts)).unwrap();
        prop_assert!(!out.contains(&value), "{}", out);
        prop_assert_eq!(out, text.replace(&value, "[redacted:v]"));
    }

    #[test]
    fn hex_of_any_id_or_digest_is_left_alone(bytes in proptest::collection::vec(any::<u8>(), 64), size in prop_oneof![Just(16), Just(32), Just(64)]) {
        let text = to_hex(&bytes[..size]);
        prop_assert_eq!(redact(&text), text);
    }

    #[test]
    fn text_stays_text(text in any::<String>()) {
        let (out, replaced) = Redactor::standard().text(&text);
        prop_assert!(replaced || out == text);
        let broken = char::REPLACEMENT_CHARACTER;
        prop_assert!(!out.contains(broken) || text.contains(broken));
    }
}
