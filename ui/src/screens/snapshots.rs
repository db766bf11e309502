//! The main screens as they are drawn. Few, and each worth reading.

use crate::bench::Bench;
use crate::fixture::{Script, ending, full_card, story};
use crossterm::event::KeyCode;

fn shown(name: &str, bench: &Bench) {
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, bench.text());
    });
}

#[test]
fn the_frame_at_every_size() {
    for size in [(40, 10), (80, 24), (120, 34), (250, 70)] {
        shown(&format!("frame_{}x{}", size.0, size.1), &Bench::seeing(&story(), size));
    }
}

#[test]
fn nothing_yet() {
    let mut script = Script::new();
    script.started();
    shown("empty_120x34", &Bench::seeing(&script, (120, 34)));
    shown("empty_80x24", &Bench::seeing(&Script::new(), (80, 24)));
}

#[test]
fn the_sidebar_and_the_journal_lie_over_a_small_screen() {
    shown("sidebar_80x24", Bench::seeing(&story(), (80, 24)).keys("s"));
    shown("journal_80x24", Bench::seeing(&story(), (80, 24)).keys("j"));
}

#[test]
fn the_conversation() {
    shown("messages_120x34", Bench::seeing(&story(), (120, 34)).keys("m"));
    shown("messages_80x24", Bench::seeing(&story(), (80, 24)).keys("m"));
}

#[test]
fn the_card_at_every_size() {
    for size in [(40, 10), (80, 24), (120, 34), (250, 70)] {
        let mut bench = Bench::seeing(&story(), size);
        bench.keys("w").wait(600);
        shown(&format!("card_{}x{}", size.0, size.1), &bench);
    }
    for size in [(80, 24), (120, 34)] {
        let mut bench = Bench::seeing(&super::unread::one(full_card()), size);
        shown(&format!("card_full_{}x{}", size.0, size.1), bench.keys("w").wait(600));
    }
    let mut bench = Bench::seeing(&story(), (100, 30));
    shown("card_armed_100x30", bench.keys("w").wait(1_500));
    shown("card_reason_100x30", bench.keys("rwrong env"));
}

#[test]
fn questions_and_help() {
    shown("quit_80x24", Bench::seeing(&story(), (80, 24)).keys("q"));
    shown("help_80x24", Bench::seeing(&story(), (80, 24)).keys("?"));
}

#[test]
fn a_recording() {
    let mut script = story();
    ending(&mut script);
    for size in [(80, 24), (120, 40)] {
        let mut bench = Bench::seeing(&script, size);
        bench.keys("r").press(KeyCode::Home).keys("]]]").press(KeyCode::Left);
        shown(&format!("replay_{}x{}", size.0, size.1), &bench);
    }
}
