//! Alacritty's terminal with everything removed that reaches beyond its grid.
//!
//! Requests for reports, clipboard, colours, hyperlinks, keyboard protocols and the title stack end here: what is not
//! passed on below does not happen, because the trait's default does nothing. Marks on one cell are bounded.

use super::{TITLE_CHARS, title};
use crate::sweep::is_mark;
use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions as _;
use alacritty_terminal::index::{Column, Line, Point};
use alacritty_terminal::term::Term;
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::vte::ansi::{
    Attr, CharsetIndex, ClearMode, CursorShape, CursorStyle, Handler, LineClearMode, Mode, NamedPrivateMode,
    PrivateMode, StandardCharset, TabulationClearMode,
};
use stockade_protocol::text::Untrusted;

/// Most marks on one cell: with its base character at most as many bytes as a symbol may have.
const MARKS: usize = 7;

pub(super) struct Quiet<'a> {
    pub(super) term: &'a mut Term<VoidListener>,
    pub(super) title: &'a mut Option<Untrusted>,
}

impl Quiet<'_> {
    /// Whether the cell that the next mark would join holds as many as it may.
    fn loaded(&self) -> bool {
        let cursor = &self.term.grid().cursor;
        let mut column = cursor.point.column.0;
        if !cursor.input_needs_wrap {
            column = column.saturating_sub(1);
        }
        let cell_at = |column: usize| &self.term.grid()[Point::new(cursor.point.line, Column(column))];
        if cell_at(column).flags.contains(Flags::WIDE_CHAR_SPACER) {
            column = column.saturating_sub(1);
        }
        cell_at(column).zerowidth().is_some_and(|marks| marks.len() >= MARKS)
    }
}

/// The two older numbers of the alternate screen mean the one that is known.
fn known(mode: PrivateMode) -> PrivateMode {
    match mode {
        PrivateMode::Unknown(47 | 1047) => PrivateMode::Named(NamedPrivateMode::SwapScreenAndSetRestoreCursor),
        mode => mode,
    }
}

macro_rules! passed_on {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {
        $(fn $name(&mut self, $($argument: $kind),*) {
            self.term.$name($($argument),*);
        })*
    };
}

impl Handler for Quiet<'_> {
    fn set_title(&mut self, text: Option<String>) {
        *self.title = text.filter(|text| !text.is_empty()).map(|text| title(&text));
        debug_assert!(self.title.as_ref().is_none_or(|title| title.raw().chars().count() <= TITLE_CHARS));
    }

    fn input(&mut self, c: char) {
        if !c.is_ascii() && is_mark(c) && self.loaded() {
            return;
        }
        self.term.input(c);
    }

    fn set_private_mode(&mut self, mode: PrivateMode) {
        self.term.set_private_mode(known(mode));
    }

    fn unset_private_mode(&mut self, mode: PrivateMode) {
        self.term.unset_private_mode(known(mode));
    }

    fn insert_blank_lines(&mut self, count: usize) {
        self.term.insert_blank_lines(count.min(self.term.screen_lines()));
    }

    fn delete_lines(&mut self, count: usize) {
        self.term.delete_lines(count.min(self.term.screen_lines()));
    }

    fn scroll_up(&mut self, count: usize) {
        self.term.scroll_up(count.min(self.term.screen_lines()));
    }

    fn scroll_down(&mut self, count: usize) {
        self.term.scroll_down(count.min(self.term.screen_lines()));
    }

    fn clear_screen(&mut self, mode: ClearMode) {
        // The emulator leaves the first line alone when the cursor is on the second.
        let line = self.term.grid().cursor.point.line;
        if matches!(mode, ClearMode::Above) && line == Line(1) {
            self.term.grid_mut().reset_region(..line);
        }
        self.term.clear_screen(mode);
    }

    fn reset_state(&mut self) {
        *self.title = None;
        self.term.reset_state();
    }

    passed_on! {
        set_cursor_style(style: Option<CursorStyle>);
        set_cursor_shape(shape: CursorShape);
        goto(line: i32, column: usize);
        goto_line(line: i32);
        goto_col(column: usize);
        insert_blank(count: usize);
        move_up(count: usize);
        move_down(count: usize);
        move_forward(count: usize);
        move_backward(count: usize);
        move_down_and_cr(count: usize);
        move_up_and_cr(count: usize);
        put_tab(count: u16);
        backspace();
        carriage_return();
        linefeed();
        substitute();
        newline();
        set_horizontal_tabstop();
        erase_chars(count: usize);
        delete_chars(count: usize);
        move_backward_tabs(count: u16);
        move_forward_tabs(count: u16);
        save_cursor_position();
        restore_cursor_position();
        clear_line(mode: LineClearMode);
        clear_tabs(mode: TabulationClearMode);
        set_tabs(interval: u16);
        reverse_index();
        terminal_attribute(attribute: Attr);
        set_mode(mode: Mode);
        unset_mode(mode: Mode);
        set_scrolling_region(top: usize, bottom: Option<usize>);
        set_keypad_application_mode();
        unset_keypad_application_mode();
        set_active_charset(index: CharsetIndex);
        configure_charset(index: CharsetIndex, charset: StandardCharset);
        decaln();
    }
}
