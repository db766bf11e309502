use super::*;

fn pane(bytes: &[u8]) -> Pane {
    let mut pane = Pane::new(20, 4);
    pane.advance(bytes);
    pane
}

#[test]
fn a_program_draws_into_its_pane() {
    let pane = pane(b"one\r\ntwo\x1b[4;3Hfour");
    assert_eq!(pane.text(), ["one", "two", "", "  four"]);
    assert_eq!(pane.cursor(), Some(Cursor { column: 6, row: 3, visible: true }));
}
