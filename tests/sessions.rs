//! Sessions on real terminals behind the real boundary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use stockade_protocol::command::{Command, Reply};
use stockade_protocol::event::{Event, SessionEvent};
use stockade_protocol::refusal::{Authority, RefusalCode};
use stockade_protocol::result::{Execution, FilePublication, Removal};
use stockade_runtime::control::Serve as _;
use support::{Yard, agent, call, code, end_run, event, events, line, open_run, person, refusal, request};

#[tokio::test(flavor = "multi_thread")]
async fn a_session_keeps_its_state_over_lines_and_ends_with_its_run() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let me = person();
    let run = open_run(&runtime, &me).await;
    let first = call(&runtime, &me, Some(run), line("talk.say", "where")).await;
    assert_eq!(first.refusal, None);
    assert_eq!(first.output, "/work\r\nhello\r\n");
    assert_eq!((first.execution, first.exit_code, first.interaction_count), (Execution::PromptObserved, None, 1));
    assert_eq!(first.file_publication, FilePublication::Pending);
    assert!(first.created_files.is_empty());
    let second = call(&runtime, &me, Some(run), line("talk.say", "echo  a b ")).await;
    assert_eq!((second.output.as_str(), second.interaction_count), (" a b \r\n", 2));
    assert_eq!(first.session, second.session, "one session for the run");
    end_run(&runtime, &me, run).await;
    let closed = events(&runtime).into_iter().find_map(|event| match event {
        Event::Session(SessionEvent::Closed { why, removal }) => Some((why, removal)),
        _ => None,
    });
    assert_eq!(closed, Some(("run_ended".to_owned(), Removal::Confirmed)));
    runtime.stop().await.unwrap();
    support::verified(runtime.journal_path());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_of_64_kib_arrives_whole() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let me = person();
    let run = open_run(&runtime, &me).await;
    let text = format!("length {}", "x".repeat(64 * 1024 - 7));
    let result = call(&runtime, &me, Some(run), line("talk.say", &text)).await;
    assert_eq!((result.refusal.as_ref(), result.output.as_str()), (None, "65536\r\n"));
    let longer = call(&runtime, &me, Some(run), line("talk.say", &format!("{text}x"))).await;
    assert_eq!(code(&longer), Some(RefusalCode::Invalid));
    runtime.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_text_inside_output_does_not_end_an_interaction() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let me = person();
    let run = open_run(&runtime, &me).await;
    for (command, output) in [
        ("prompt", "talk> \r\n"),
        ("echo talk> ", "talk> \r\n"),
        ("raw talk> ", "\u{1b}[31mtalk> \u{1b}[0m\r\n"),
        ("split more", "talk\u{1b}[0m> more\r\n"),
        ("count 20000", &(0..20_000).map(|n| format!("{n}\r\n")).collect::<String>()),
    ] {
        let result = call(&runtime, &me, Some(run), line("talk.say", command)).await;
        assert_eq!((result.refusal.as_ref(), result.output.as_str()), (None, output), "{command}");
    }
    runtime.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_is_not_of_a_declared_form_never_reaches_the_terminal() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let me = person();
    let run = open_run(&runtime, &me).await;
    for command in [
        "size\nhang",
        "size\r",
        "sizes",
        "x size",
        "size ",
        "",
        "echo \u{1b}[2J",
        "echo \u{85}x",
        "echo \u{2028}x",
        "echo \u{7f}",
    ] {
        let result = call(&runtime, &me, Some(run), line("talk.say", command)).await;
        assert_eq!(
            (code(&result), refusal(&result).authority),
            (Some(RefusalCode::Invalid), Authority::Manifest),
            "{command:?}"
        );
        assert_eq!(result.execution, Execution::NotStarted);
    }
    let typed =
        events(&runtime).iter().filter(|event| matches!(event, Event::Session(SessionEvent::Input { .. }))).count();
    assert_eq!(typed, 0);
    let control = call(&runtime, &me, Some(run), line("talk.say", "size")).await;
    assert_eq!((control.refusal.as_ref(), control.output.as_str()), (None, "24 80\r\n"));
    runtime.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_can_be_resized() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let me = person();
    let run = open_run(&runtime, &me).await;
    let first = call(&runtime, &me, Some(run), line("talk.say", "size")).await;
    let session = first.session.unwrap();
    let resize = Command::Resize { session, columns: 111, rows: 33 };
    assert_eq!(runtime.command(&me, resize).await, Reply::Done {});
    event(&runtime, |envelope| {
        matches!(envelope.event, Event::Session(SessionEvent::Resized { columns: 111, rows: 33 }))
    })
    .await;
    let second = call(&runtime, &me, Some(run), line("talk.say", "size")).await;
    assert_eq!(second.output, "33 111\r\n");
    runtime.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_principals_with_one_tool_cannot_reach_each_others_session() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let (one, two) = (agent("one", 11), agent("two", 12));
    let (run_one, run_two) = (open_run(&runtime, &one).await, open_run(&runtime, &two).await);
    let first = call(&runtime, &one, Some(run_one), line("talk.say", "echo secret of one")).await;
    let second = call(&runtime, &two, Some(run_two), line("talk.say", "where")).await;
    assert_eq!((first.refusal.as_ref(), second.refusal.as_ref()), (None, None));
    assert_ne!(first.session, second.session);
    // A foreign run and session get the same answers as ones that do not exist.
    let foreign = call(&runtime, &two, Some(run_one), line("talk.say", "where")).await;
    assert_eq!(code(&foreign), Some(RefusalCode::Invalid));
    for session in [first.session.unwrap(), stockade_protocol::ids::SessionId::from_bits([7; 16])] {
        let close = runtime.command(&two, Command::CloseSession { session }).await;
        let Reply::Refused { refusal } = close else { panic!("{close:?}") };
        assert_eq!(refusal.reason, format!("there is no live session {session}"));
    }
    let own = runtime.command(&one, Command::CloseSession { session: first.session.unwrap() }).await;
    assert_eq!(own, Reply::Done {});
    runtime.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_in_time_closes_the_session_and_it_is_not_restarted() {
    let yard = Yard::new();
    yard.write(
        "tools/talk.clad.toml",
        &support::TALK.replace("timeout_seconds = 20\n\n[session]", "timeout_seconds = 2\n\n[session]"),
    );
    let runtime = yard.start().await;
    let me = person();
    let run = open_run(&runtime, &me).await;
    let hung = call(&runtime, &me, Some(run), line("talk.hang", "hang")).await;
    assert_eq!((code(&hung), refusal(&hung).authority), (Some(RefusalCode::Timeout), Authority::Clock), "{hung:?}");
    assert!(hung.session_closed);
    assert_eq!((hung.removal, hung.file_publication), (Some(Removal::Confirmed), FilePublication::Unpublished));
    let after = call(&runtime, &me, Some(run), line("talk.say", "size")).await;
    assert_eq!(code(&after), Some(RefusalCode::Limit), "{after:?}");
    assert!(!yard.root().join("out/result.txt").exists());
    runtime.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_goes_away_takes_its_call_and_session_along() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let one = agent("one", 11);
    let run = open_run(&runtime, &one).await;
    let waiting = {
        let (runtime, one) = (runtime.clone(), one.clone());
        tokio::spawn(async move { call(&runtime, &one, Some(run), line("talk.hang", "hang")).await })
    };
    event(&runtime, |envelope| matches!(envelope.event, Event::Session(SessionEvent::Input { .. }))).await;
    runtime.caller_gone(&one).await;
    let result = waiting.await.unwrap();
    assert_eq!((code(&result), result.removal), (Some(RefusalCode::Cancelled), Some(Removal::Confirmed)), "{result:?}");
    let Reply::Sessions { sessions } = runtime.command(&person(), Command::ListSessions).await else { panic!() };
    assert!(sessions.is_empty());
    runtime.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_one_shot_tool_runs_to_its_end() {
    let yard = Yard::new();
    let runtime = yard.start().await;
    let result = call(&runtime, &person(), None, request("count", &[])).await;
    assert_eq!(result.refusal, None);
    assert_eq!((result.output.as_str(), result.exit_code), ("6 data/in.txt\n", Some(0)));
    assert_eq!((result.execution, result.removal), (Execution::Executed, Some(Removal::Confirmed)));
    let unknown = call(&runtime, &person(), None, request("count", &[("approved", "true")])).await;
    assert_eq!(code(&unknown), Some(RefusalCode::Invalid));
    runtime.stop().await.unwrap();
    support::verified(runtime.journal_path());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_takes_the_keyboard_types_and_hands_it_back() {
    use base64::Engine as _;
    let yard = Yard::new();
    let runtime = yard.start().await;
    let me = person();
    let run = open_run(&runtime, &me).await;
    let session = call(&runtime, &me, Some(run), line("talk.say", "size")).await.session.unwrap();
    let typed = |text: &str| Command::Type { session, bytes: base64::engine::general_purpose::STANDARD.encode(text) };
    let refused = runtime.command(&me, typed("hang\n")).await;
    assert!(matches!(refused, Reply::Refused { .. }), "typing without the keyboard: {refused:?}");
    let by_agent = runtime.command(&agent("one", 11), Command::TakeOver { session }).await;
    assert!(matches!(by_agent, Reply::Refused { .. }), "an agent took over: {by_agent:?}");
    let Reply::Result { result } = runtime.command(&me, Command::TakeOver { session }).await else { panic!() };
    assert_eq!(result.refusal, None);
    assert_eq!(runtime.command(&me, typed("echo by hand\n")).await, Reply::Done {});
    event(&runtime, |envelope| match &envelope.event {
        Event::Session(SessionEvent::Output { bytes, .. }) => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(bytes).unwrap();
            String::from_utf8_lossy(&bytes).contains("by hand")
        }
        _ => false,
    })
    .await;
    assert_eq!(runtime.command(&me, Command::HandBack { session }).await, Reply::Done {});
    let after = call(&runtime, &me, Some(run), line("talk.say", "echo again")).await;
    assert_eq!((after.refusal.as_ref(), after.output.as_str()), (None, "again\r\n"));
    runtime.stop().await.unwrap();
}
