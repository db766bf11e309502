//! What a worker prints, in a pane.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use stockade_protocol::text::is_hidden;
use stockade_ui::pane::{Look, Pane, SIZE_MAX, Vt100Pane};

/// Output, in pieces between changes of size: a byte 255 begins a change, and the two after it are the new columns and
/// rows. Whatever comes, the pane draws, inside its area, and nothing hidden.
pub(crate) fn pane(bytes: &[u8]) {
    check(Pane::new(80, 24), bytes);
    check(Pane::with(|| Box::new(Vt100Pane::new(80, 24)), 80, 24), bytes);
}

fn check(mut pane: Pane, bytes: &[u8]) {
    for (number, piece) in bytes.split(|byte| *byte == 255).enumerate() {
        let sized = if number == 0 { None } else { piece.split_first_chunk::<2>() };
        match sized {
            Some(([columns, rows], output)) => {
                pane.resize(u16::from(*columns), u16::from(*rows));
                pane.advance(output);
            }
            None => pane.advance(piece),
        }
    }
    let (columns, rows) = pane.size();
    assert!(columns <= SIZE_MAX.0 && rows <= SIZE_MAX.1, "the pane grew");
    for row in pane.text() {
        assert!(row.chars().all(|c| !is_hidden(c)), "something hidden is drawn: {row:?}");
    }
    let area = Rect::new(2, 1, 20, 5);
    let mut buffer = Buffer::filled(Rect::new(0, 0, 24, 7), ratatui::buffer::Cell::new("#"));
    for offset in [0, 3, usize::MAX] {
        pane.draw(area, &mut buffer, &Look { offset, ..Look::default() });
    }
    for (place, cell) in buffer.content.iter().enumerate() {
        let (x, y) = buffer.pos_of(place);
        assert!(area.contains((x, y).into()) || cell.symbol() == "#", "drawn outside of its area at {x},{y}");
    }
}
