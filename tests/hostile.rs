//! Programs that print too much or never stop, do not read, close their terminal, end at once, and lie about where an
//! answer ends; outputs that are not what was declared. Every bound is met, every end is told, nothing hangs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;
use stockade_protocol::command::{Command, Reply};
use stockade_protocol::digest::Digest;
use stockade_protocol::event::{CallEvent, Event, SessionEvent};
use stockade_protocol::ids::RunId;
use stockade_protocol::limits;
use stockade_protocol::refusal::{Authority, RefusalCode};
use stockade_protocol::request::ToolCallRequest;
use stockade_protocol::result::{CallResult, Execution, FilePublication, Removal};
use stockade_runtime::Runtime;
use stockade_runtime::control::{Caller, Serve as _};
use support::{Yard, call, code, event, events, line, open_run, order, person, records, refusal, request};
use tokio::task::JoinHandle;

/// A session tool around a script, with these lines in its `[session]`.
fn session(yard: &Yard, script: &str, bounds: &str) {
    let manifest = format!(
        r#"
[tool]
name = "odd"
version = "1.0.0"
description = "A program with habits"
binary = "sh"
mode = "session"
allow_interpreter = true
timeout_seconds = 60

[session]
startup_command = "/bin/sh bin/odd.sh"
ready_pattern = "odd> "
{bounds}

[session.commands.do]
pattern = "[a-z0-9 ]+"
description = "Does something odd"

[session.commands.save]
pattern = "save [a-z]+"
description = "Saves"
finalize = true

[filesystem]
read = ["bin/odd.sh"]
create = ["out/result.txt"]
max_file_bytes = 4096
"#
    );
    yard.write("tools/odd.clad.toml", &manifest);
    yard.write("bin/odd.sh", script);
}

/// A program that prompts and does what these cases say.
fn cases(cases: &str) -> String {
    format!(
        "printf 'odd> '\nwhile IFS= read -r line; do\n  case \"$line\" in\n{cases}\n  esac\n  printf 'odd> '\ndone\n"
    )
}

/// A one-shot tool around a script.
fn oneshot(yard: &Yard, script: &str) {
    let manifest = r#"
[tool]
name = "once"
version = "1.0.0"
description = "Runs once"
binary = "sh"
allow_interpreter = true
timeout_seconds = 20

[command]
exec = ["/bin/sh", "bin/once.sh"]

[filesystem]
read = ["bin/once.sh"]
"#;
    yard.write("tools/once.clad.toml", manifest);
    yard.write("bin/once.sh", script);
}

fn say(command: &str) -> ToolCallRequest {
    line(if command.starts_with("save") { "odd.save" } else { "odd.do" }, command)
}

fn spawned(runtime: &Runtime, run: RunId, request: ToolCallRequest) -> JoinHandle<CallResult> {
    let runtime = runtime.clone();
    tokio::spawn(async move { call(&runtime, &person(), Some(run), request).await })
}

/// How the last session was closed.
fn closed(runtime: &Runtime) -> Option<(String, Removal)> {
    events(runtime).into_iter().rev().find_map(|event| match event {
        Event::Session(SessionEvent::Closed { why, removal }) => Some((why, removal)),
        _ => None,
    })
}

async fn closing(runtime: &Runtime) -> (String, Removal) {
    event(runtime, |envelope| matches!(envelope.event, Event::Session(SessionEvent::Closed { .. }))).await;
    closed(runtime).unwrap()
}

fn printed(runtime: &Runtime) -> usize {
    let length = |event: &Event| match event {
        Event::Session(SessionEvent::Output { bytes, .. }) => STANDARD.decode(bytes).unwrap().len(),
        _ => 0,
    };
    events(runtime).iter().map(length).sum()
}

async fn stop(runtime: &Runtime) {
    assert_eq!(runtime.stop().await.unwrap(), Removal::Confirmed);
    order::accounted(&records(runtime));
    support::verified(runtime.journal_path());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_output_meets_its_bound() {
    let yard = Yard::new();
    session(&yard, &cases("flood) yes ;;\nafter) (sleep 1; yes) & ;;"), "");
    let runtime = yard.start().await;
    let run = open_run(&runtime, &person()).await;
    let result = call(&runtime, &person(), Some(run), say("flood")).await;
    assert_eq!((code(&result), refusal(&result).authority), (Some(RefusalCode::Limit), Authority::Manifest));
    assert!(result.output_truncated && !result.output.is_empty());
    assert_eq!((result.session_closed, result.removal), (true, Some(Removal::Confirmed)));
    assert_eq!(closed(&runtime), Some(("output".to_owned(), Removal::Confirmed)));
    assert!(printed(&runtime) <= limits::TRANSCRIPT_BYTES + 256 * 1024, "{}", printed(&runtime));
    // Also when it comes while nobody waits for an answer.
    let run = open_run(&runtime, &person()).await;
    assert_eq!(call(&runtime, &person(), Some(run), say("after")).await.refusal, None);
    let mut ends = 0;
    event(&runtime, |envelope| {
        ends += usize::from(matches!(envelope.event, Event::Session(SessionEvent::Closed { .. })));
        ends == 2
    })
    .await;
    assert_eq!(closed(&runtime), Some(("output".to_owned(), Removal::Confirmed)));
    let next = call(&runtime, &person(), Some(run), say("x")).await;
    assert_eq!(code(&next), Some(RefusalCode::Limit), "{next:?}");
    stop(&runtime).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_output_is_counted_and_does_not_put_off_the_end() {
    let yard = Yard::new();
    session(
        &yard,
        &cases("chat) (sleep 0.5; while :; do echo still here; sleep 0.1; done) & ;;"),
        "idle_timeout_seconds = 2\nsession_timeout_seconds = 600",
    );
    let runtime = yard.start().await;
    let run = open_run(&runtime, &person()).await;
    assert_eq!(call(&runtime, &person(), Some(run), say("chat")).await.refusal, None);
    assert_eq!(closing(&runtime).await, ("idle".to_owned(), Removal::Confirmed));
    stop(&runtime).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_never_falls_silent_does_not_put_off_a_deadline() {
    let yard = Yard::new();
    // A byte at a time, always one ready: slow enough that no bound of bytes is met first.
    let chatter = r#"awk 'BEGIN { for (;;) { printf "."; fflush(); for (i = 0; i < 3000; i++) x = i } }' "#;
    session(&yard, &cases(&format!("chatter) {chatter} ;;")), "interaction_timeout_seconds = 3");
    let runtime = yard.start().await;
    let run = open_run(&runtime, &person()).await;
    let result = call(&runtime, &person(), Some(run), say("chatter")).await;
    assert_eq!((code(&result), refusal(&result).authority), (Some(RefusalCode::Timeout), Authority::Clock));
    stop(&runtime).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn interactions_are_used_up() {
    let yard = Yard::new();
    session(&yard, &cases("*) echo ok ;;"), "max_interactions = 2");
    let runtime = yard.start().await;
    let run = open_run(&runtime, &person()).await;
    for count in 1..=2 {
        let result = call(&runtime, &person(), Some(run), say("x")).await;
        assert_eq!((result.refusal.as_ref(), result.interaction_count), (None, count));
    }
    let third = call(&runtime, &person(), Some(run), say("x")).await;
    assert_eq!((code(&third), third.session_closed), (Some(RefusalCode::Limit), true), "{third:?}");
    assert_eq!((third.execution, third.removal), (Execution::NotStarted, Some(Removal::Confirmed)), "nothing is typed");
    let typed =
        events(&runtime).iter().filter(|event| matches!(event, Event::Session(SessionEvent::Input { .. }))).count();
    assert_eq!(typed, 2);
    stop(&runtime).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_comes_to_nothing_is_told_and_not_tried_again() {
    for (script, bounds, expected) in [
        ("exit 3\n", "", RefusalCode::Failed),
        ("printf 'odd> '\nexit 0\n", "", RefusalCode::Failed),
        ("sleep 600\n", "startup_timeout_seconds = 1", RefusalCode::Timeout),
        ("while :; do printf 'odd> and more\\n'; done\n", "startup_timeout_seconds = 10", RefusalCode::Limit),
        ("exec <&- >&- 2>&-\nsleep 600\n", "", RefusalCode::Failed),
    ] {
        let yard = Yard::new();
        session(&yard, script, bounds);
        let runtime = yard.start().await;
        let run = open_run(&runtime, &person()).await;
        let result = call(&runtime, &person(), Some(run), say("x")).await;
        assert_eq!(code(&result), Some(expected), "{script:?}: {result:?}");
        assert_eq!((result.session_closed, result.removal), (true, Some(Removal::Confirmed)), "{script:?}: {result:?}");
        assert_eq!(result.file_publication, FilePublication::Unpublished);
        let again = call(&runtime, &person(), Some(run), say("x")).await;
        assert_eq!(code(&again), Some(RefusalCode::Limit), "{script:?}: {again:?}");
        stop(&runtime).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_closes_its_terminal_or_ends_has_not_answered() {
    for habit in ["exec <&- >&- 2>&-; sleep 600", "exit 0", "kill -9 $$"] {
        let yard = Yard::new();
        session(&yard, &cases(&format!("go) {habit} ;;")), "");
        let runtime = yard.start().await;
        let run = open_run(&runtime, &person()).await;
        let result = call(&runtime, &person(), Some(run), say("go")).await;
        assert_eq!((code(&result), result.removal), (Some(RefusalCode::Failed), Some(Removal::Confirmed)), "{habit}");
        stop(&runtime).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_read_holds_up_neither_deadline_nor_close() {
    let yard = Yard::new();
    session(&yard, &cases("deaf) printf 'odd> '; sleep 600 ;;"), "interaction_timeout_seconds = 3");
    let runtime = yard.start().await;
    let long = "x".repeat(60_000);
    let run = open_run(&runtime, &person()).await;
    assert_eq!(call(&runtime, &person(), Some(run), say("deaf")).await.refusal, None);
    let result = call(&runtime, &person(), Some(run), say(&long)).await;
    assert_eq!((code(&result), result.removal), (Some(RefusalCode::Timeout), Some(Removal::Confirmed)), "{result:?}");

    let run = open_run(&runtime, &person()).await;
    let session = call(&runtime, &person(), Some(run), say("deaf")).await.session.unwrap();
    let work = spawned(&runtime, run, say(&long));
    let mut typed = 0;
    event(&runtime, |envelope| {
        typed += usize::from(
            envelope.session == Some(session) && matches!(envelope.event, Event::Session(SessionEvent::Input { .. })),
        );
        typed == 2
    })
    .await;
    // A line that is half typed is no place for another's keys.
    let taken = runtime.command(&person(), Command::TakeOver { session }).await;
    let Reply::Result { result: taken } = taken else { panic!("{taken:?}") };
    assert_eq!(code(&taken), Some(RefusalCode::Limit), "{taken:?}");
    assert_eq!(runtime.command(&person(), Command::CloseSession { session }).await, Reply::Done {});
    let result = work.await.unwrap();
    assert_eq!((code(&result), result.removal), (Some(RefusalCode::Cancelled), Some(Removal::Confirmed)), "{result:?}");
    stop(&runtime).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_ends_at_the_prompt_however_it_arrives_and_whatever_is_in_it() {
    let yard = Yard::new();
    let script = cases(
        "pieces) echo one; printf od; sleep 0.2; printf 'd>'; sleep 0.2; printf ' more\\n' ;;\n\
         bytes) printf '\\377\\300\\233x\\355\\240\\200\\n' ;;\n\
         late) (sleep 0.4; printf 'late\\nodd> ') & ;;\n\
         wait) sleep 1; echo waited ;;",
    );
    session(&yard, &script, "");
    let runtime = yard.start().await;
    let run = open_run(&runtime, &person()).await;
    let pieces = call(&runtime, &person(), Some(run), say("pieces")).await;
    assert_eq!((pieces.refusal.as_ref(), pieces.output.as_str()), (None, "one\r\nodd> more\r\n"));
    let bytes = call(&runtime, &person(), Some(run), say("bytes")).await;
    assert_eq!(bytes.refusal, None);
    assert!(!bytes.output.contains('\u{9b}') && bytes.output.contains("\u{fffd}"), "{:?}", bytes.output);
    // Output that nobody asked for answers nothing, even when it ends in a prompt.
    assert_eq!(call(&runtime, &person(), Some(run), say("late")).await.refusal, None);
    event(&runtime, |envelope| match &envelope.event {
        Event::Session(SessionEvent::Output { bytes, .. }) => {
            String::from_utf8_lossy(&STANDARD.decode(bytes).unwrap()).contains("late")
        }
        _ => false,
    })
    .await;
    let waited = call(&runtime, &person(), Some(run), say("wait")).await;
    assert_eq!((waited.refusal.as_ref(), waited.output.as_str()), (None, "waited\r\n"));
    stop(&runtime).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_published_is_what_was_there_when_the_last_process_was_gone() {
    let yard = Yard::new();
    let script = cases(
        "'save busy') (while :; do printf 'more %s\\n' $RANDOM$$ >> out/result.txt; [ $(wc -c < out/result.txt) -lt 3000 ] || : > out/result.txt; done) & (setsid sh -c 'while :; do echo x >> out/result.txt; sleep 0.01; done') & printf 'first\\n' >> out/result.txt ;;",
    );
    session(&yard, &script, "");
    let runtime = yard.start().await;
    let run = open_run(&runtime, &person()).await;
    let result = call(&runtime, &person(), Some(run), say("save busy")).await;
    // It may have been empty at that moment; then nothing is published.
    let path = yard.root().join("out/result.txt");
    if result.refusal.is_none() {
        let file = &result.created_files[0];
        let bytes = fs::read(&path).unwrap();
        assert_eq!((file.bytes, file.sha256), (bytes.len() as u64, Digest::of(&bytes)));
        assert!(bytes.len() <= 4096);
    } else {
        assert_eq!(code(&result), Some(RefusalCode::Unpublished), "{result:?}");
        assert!(!path.exists());
    }
    assert_eq!(result.removal, Some(Removal::Confirmed));
    // The removal is on record before the publication.
    stop(&runtime).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_is_not_as_declared_is_not_published() {
    let cases = cases(
        "'save empty') : > out/result.txt ;;\n\
         'save nothing') : ;;\n\
         'save large') head -c 5000 /dev/zero > out/result.txt ;;\n\
         'save link') rm -f out/result.txt; ln -s /etc/passwd out/result.txt ;;\n\
         'save dir') rm -f out/result.txt; mkdir out/result.txt; echo x > out/result.txt/x ;;\n\
         'save sparse') truncate -s 1T out/result.txt ;;\n\
         'save setuid') echo x > out/result.txt; chmod 6777 out/result.txt ;;\n\
         'save twice') echo x > out/result.txt; ln out/result.txt /tmp/other; echo y >> /tmp/other; sleep 600 9>>/tmp/other & ;;\n\
         'save other') echo x > out/other.txt; echo y > out/result ;;\n\
         'save exact') head -c 4096 /dev/zero > out/result.txt ;;",
    );
    for (command, published) in [
        ("save empty", false),
        ("save nothing", false),
        ("save large", false),
        ("save link", false),
        ("save dir", false),
        ("save sparse", false),
        ("save setuid", true),
        ("save twice", true),
        ("save other", false),
        ("save exact", true),
    ] {
        let yard = Yard::new();
        session(&yard, &cases, "");
        let runtime = yard.start().await;
        let run = open_run(&runtime, &person()).await;
        let result = call(&runtime, &person(), Some(run), say(command)).await;
        let there = fs::read_dir(yard.root().join("out")).unwrap().count();
        assert_eq!(there, usize::from(published), "{command}: {result:?}");
        if published {
            assert_eq!((result.refusal.as_ref(), result.execution), (None, Execution::SessionFinalized), "{command}");
            let file = yard.root().join("out/result.txt");
            let there = fs::metadata(&file).unwrap();
            assert_eq!((there.mode() & 0o7777, there.nlink()), (0o644, 1), "{command}");
            assert_eq!(Digest::of(fs::read(&file).unwrap()), result.created_files[0].sha256, "{command}");
        } else {
            assert_eq!(code(&result), Some(RefusalCode::Unpublished), "{command}: {result:?}");
            assert_eq!((result.file_publication, result.created_files.len()), (FilePublication::Unpublished, 0));
        }
        assert_eq!(result.removal, Some(Removal::Confirmed));
        stop(&runtime).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_one_shot_flood_on_either_stream_meets_its_bound_at_once() {
    for script in ["yes\n", "yes >&2\n", "sleep 600 & yes\n"] {
        let yard = Yard::new();
        oneshot(&yard, script);
        let runtime = yard.start().await;
        let result = call(&runtime, &person(), None, request("once", &[])).await;
        assert_eq!((code(&result), result.removal), (Some(RefusalCode::Limit), Some(Removal::Confirmed)), "{script:?}");
        assert!(result.output_truncated, "{script:?}: {result:?}");
        assert!(result.output.len() <= limits::INTERACTION_BYTES && result.stderr.len() <= limits::INTERACTION_BYTES);
        stop(&runtime).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_one_shot_ends_with_its_program_whatever_it_leaves_behind() {
    let yard = Yard::new();
    oneshot(&yard, "(setsid sleep 600 &) ; sleep 600 & echo done\n");
    let runtime = yard.start().await;
    let result = call(&runtime, &person(), None, request("once", &[])).await;
    assert_eq!((result.refusal.as_ref(), result.output.as_str()), (None, "done\n"));
    assert_eq!(result.removal, Some(Removal::Confirmed));
    stop(&runtime).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_no_record_could_hold_is_cut_and_said_to_be() {
    let yard = Yard::new();
    // Every byte takes six in JSON: far more than one record holds.
    oneshot(&yard, "head -c 4000000 /dev/zero | tr '\\0' '\\1'; head -c 4000000 /dev/zero >&2\n");
    let runtime = yard.start().await;
    let result = call(&runtime, &person(), None, request("once", &[])).await;
    assert_eq!((code(&result), refusal(&result).authority), (Some(RefusalCode::Limit), Authority::Journal));
    assert!(result.output_truncated && result.output.starts_with('\u{1}'));
    assert_eq!((result.exit_code, result.execution), (Some(0), Execution::Executed));
    let recorded = events(&runtime).into_iter().find_map(|event| match event {
        Event::Call(CallEvent::Finished { result }) => Some(*result),
        _ => None,
    });
    assert_eq!(recorded, Some(result));
    stop(&runtime).await;
}

fn on(connection: u64) -> Caller {
    Caller { connection, ..person() }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_person_has_the_keyboard_a_call_waits_and_can_be_taken_back_alone() {
    let yard = Yard::new();
    session(&yard, &cases("ok) echo ok ;;\nhand*) echo by hand ;;\nslow) sleep 1; echo slow ;;"), "");
    let runtime = yard.start().await;
    let me = person();
    let run = open_run(&runtime, &me).await;
    let session = call(&runtime, &me, Some(run), say("ok")).await.session.unwrap();
    let Reply::Result { result } = runtime.command(&on(77), Command::TakeOver { session }).await else { panic!() };
    assert_eq!(result.refusal, None);
    // A call of another connection's waits; its caller gives up; the session and the person's keyboard stay.
    let work = spawned(&runtime, run, say("ok"));
    let mut dispatched = 0;
    event(&runtime, |envelope| {
        dispatched += usize::from(matches!(envelope.event, Event::Call(CallEvent::Dispatched { .. })));
        dispatched == 3
    })
    .await;
    work.abort();
    drop(work.await);
    let mut finished = 0;
    event(&runtime, |envelope| {
        finished += usize::from(matches!(&envelope.event, Event::Call(CallEvent::Finished { result })
            if code(result) == Some(RefusalCode::Cancelled) && result.execution == Execution::NotStarted));
        finished == 1
    })
    .await;
    let typed = Command::Type { session, bytes: STANDARD.encode("hand\n") };
    assert_eq!(runtime.command(&on(77), typed.clone()).await, Reply::Done {});
    // Another person can neither type nor hand back.
    let other = Caller { principal: stockade_protocol::ids::Principal::person("other"), ..on(78) };
    for command in [typed, Command::HandBack { session }, Command::TakeOver { session }] {
        let refused = match runtime.command(&other, command.clone()).await {
            Reply::Refused { refusal } => refusal.code,
            Reply::Result { result } => code(&result).unwrap(),
            other => panic!("{command:?}: {other:?}"),
        };
        assert_eq!(refused, RefusalCode::Denied, "{command:?}");
    }
    // A person whose connection ends has handed back.
    let waiting = spawned(&runtime, run, say("slow"));
    runtime.caller_gone(&on(77)).await;
    let slow = waiting.await.unwrap();
    assert_eq!((slow.refusal.as_ref(), slow.output.as_str()), (None, "slow\r\n"));
    assert!(events(&runtime).iter().any(|event| matches!(event, Event::Session(SessionEvent::HandedBack { .. }))));
    stop(&runtime).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_takes_over_a_running_line_has_the_time_they_need() {
    let yard = Yard::new();
    session(
        &yard,
        &cases("ask) echo sure?; IFS= read -r answer; echo got $answer ;;"),
        "interaction_timeout_seconds = 3",
    );
    let runtime = yard.start().await;
    let me = person();
    let run = open_run(&runtime, &me).await;
    let session = call(&runtime, &me, Some(run), say("x")).await.session.unwrap();
    let work = spawned(&runtime, run, say("ask"));
    event(&runtime, |envelope| match &envelope.event {
        Event::Session(SessionEvent::Output { bytes, .. }) => {
            String::from_utf8_lossy(&STANDARD.decode(bytes).unwrap()).contains("sure?")
        }
        _ => false,
    })
    .await;
    let Reply::Result { result } = runtime.command(&me, Command::TakeOver { session }).await else { panic!() };
    assert_eq!(result.refusal, None);
    // Longer than a line may take on its own.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let typed = Command::Type { session, bytes: STANDARD.encode("yes\n") };
    assert_eq!(runtime.command(&me, typed).await, Reply::Done {});
    assert_eq!(runtime.command(&me, Command::HandBack { session }).await, Reply::Done {});
    let result = work.await.unwrap();
    assert_eq!((result.refusal.as_ref(), result.output.as_str()), (None, "sure?\r\ngot yes\r\n"));
    let too_much = Command::Type { session, bytes: STANDARD.encode(vec![b'x'; limits::COMMAND_BYTES + 1]) };
    let refused = runtime.command(&me, too_much).await;
    assert!(matches!(&refused, Reply::Refused { refusal } if refusal.code == RefusalCode::Invalid), "{refused:?}");
    stop(&runtime).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_resizes_neither_starves_a_line_nor_leaves_bounds() {
    let yard = Yard::new();
    session(&yard, &cases("slow) sleep 1; stty size ;;\nhang) sleep 600 ;;"), "interaction_timeout_seconds = 5");
    let runtime = yard.start().await;
    let me = person();
    let run = open_run(&runtime, &me).await;
    let session = call(&runtime, &me, Some(run), say("x")).await.session.unwrap();
    let storm = {
        let (runtime, me) = (runtime.clone(), me.clone());
        tokio::spawn(async move {
            for at in (0..u16::MAX).cycle() {
                let rows = if at % 2 == 0 { u16::MAX } else { at % 100 };
                let resize = Command::Resize { session, columns: at.wrapping_mul(977), rows };
                if runtime.command(&me, resize).await != (Reply::Done {}) {
                    return;
                }
            }
        })
    };
    let result = call(&runtime, &me, Some(run), say("slow")).await;
    assert_eq!(result.refusal, None, "{result:?}");
    let hung = call(&runtime, &me, Some(run), say("hang")).await;
    assert_eq!(code(&hung), Some(RefusalCode::Timeout), "{hung:?}");
    storm.await.unwrap();
    for event in events(&runtime) {
        if let Event::Session(SessionEvent::Resized { columns, rows }) = event {
            let (most_columns, most_rows) = limits::TERMINAL_MAX;
            assert!((2..=most_columns).contains(&columns) && (1..=most_rows).contains(&rows), "{columns} x {rows}");
        }
    }
    stop(&runtime).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_line_waits_behind_another() {
    let yard = Yard::new();
    session(&yard, &cases("slow) sleep 1; echo slow ;;"), "");
    let runtime = yard.start().await;
    let run = open_run(&runtime, &person()).await;
    assert_eq!(call(&runtime, &person(), Some(run), say("x")).await.refusal, None);
    let works: Vec<_> = (0..10).map(|_| spawned(&runtime, run, say("slow"))).collect();
    let mut counts = (0, 0);
    for work in works {
        let result = work.await.unwrap();
        match code(&result) {
            None => counts.0 += 1,
            Some(RefusalCode::Limit) => counts.1 += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(counts.0 >= 2 && counts.0 + counts.1 == 10, "{counts:?}");
    stop(&runtime).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_in_answers_that_can_be_sent_however_large_they_are() {
    let yard = Yard::new();
    oneshot(&yard, "head -c 4000000 /dev/zero | tr '\\0' x; head -c 4000000 /dev/zero | tr '\\0' y >&2\n");
    let runtime = yard.start().await;
    for _ in 0..9 {
        assert_eq!(call(&runtime, &person(), None, request("once", &[])).await.refusal, None);
    }
    let all = records(&runtime);
    let (mut from, mut answers) = (0, 0);
    while from < all.len() as u64 {
        let reply = runtime.command(&person(), Command::Events { from, max: 512, wait_ms: 0 }).await;
        assert!(serde_json::to_vec(&reply).unwrap().len() < limits::REPLY_BYTES);
        let Reply::Events { events } = reply else { panic!() };
        assert!(!events.is_empty(), "whoever follows gets on");
        for event in events {
            assert_eq!((event.seq, &event), (from, all[usize::try_from(from).unwrap()].as_ref()));
            from += 1;
        }
        answers += 1;
    }
    assert!(answers > 1, "there was enough to need several answers");
    stop(&runtime).await;
}
