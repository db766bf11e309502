//! Removing terminal control from output, to find a prompt in what is left. What is drawn and kept is never stripped.

/// Where the stripper is inside a control sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Text,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate: one more byte ends it.
    Intermediate,
    /// Inside CSI, until a final byte.
    Csi,
    /// Inside OSC, DCS, SOS, PM or APC, until BEL (OSC only) or ST.
    String {
        osc: bool,
    },
    /// Inside such a string after ESC.
    StringEscape {
        osc: bool,
    },
}

/// Removes escape sequences (ECMA-48 in 7-bit and 8-bit form) and control characters other than line feed.
/// State survives between pieces, so a sequence split over reads is removed whole.
#[derive(Debug, Clone)]
pub(crate) struct Stripper {
    state: State,
}

impl Stripper {
    pub(crate) const fn new() -> Self {
        Self { state: State::Text }
    }

    /// Whether the stripper is outside any sequence.
    pub(crate) fn at_rest(&self) -> bool {
        self.state == State::Text
    }

    /// The character, if it is text or a line feed.
    pub(crate) fn push(&mut self, c: char) -> Option<char> {
        // CAN and SUB abandon any sequence; ESC starts a new one except where it may end a string.
        if matches!(c, '\u{18}' | '\u{1a}') {
            self.state = State::Text;
            return None;
        }
        match self.state {
            State::Text => return self.text(c),
            State::Escape => {
                self.state = match c {
                    '[' => State::Csi,
                    ']' => State::String { osc: true },
                    'P' | 'X' | '^' | '_' => State::String { osc: false },
                    '\u{1b}' => State::Escape,
                    ' '..='/' => State::Intermediate,
                    _ => State::Text,
                };
            }
            State::Intermediate => match c {
                ' '..='/' => {}
                '\u{1b}' => self.state = State::Escape,
                _ => self.state = State::Text,
            },
            State::Csi => match c {
                '\u{1b}' => self.state = State::Escape,
                '@'..='~' => self.state = State::Text,
                _ => {}
            },
            State::String { osc } => match c {
                '\u{7}' if osc => self.state = State::Text,
                '\u{9c}' => self.state = State::Text,
                '\u{1b}' => self.state = State::StringEscape { osc },
                _ => {}
            },
            State::StringEscape { osc } => match c {
                '\\' => self.state = State::Text,
                '\u{1b}' => {}
                _ => self.state = State::String { osc },
            },
        }
        None
    }

    fn text(&mut self, c: char) -> Option<char> {
        match c {
            '\u{1b}' => self.state = State::Escape,
            '\u{9b}' => self.state = State::Csi,
            '\u{9d}' => self.state = State::String { osc: true },
            '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => self.state = State::String { osc: false },
            '\n' => return Some('\n'),
            c if c.is_control() => {}
            c => return Some(c),
        }
        None
    }
}
