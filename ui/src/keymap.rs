//! Every key, once. The footer, the help and the handling of keys are made from this table.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Where a key is pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Context {
    /// The workbench, whatever has focus.
    Workbench,
    /// The list of runs and sessions.
    Runs,
    /// A terminal that has focus and is not entered.
    Terminal,
    /// Inside a terminal that somebody else types into.
    Scrolling,
    /// Inside a terminal that the person types into.
    Typing,
    /// The list of files.
    Files,
    /// The conversation of a run.
    Talk,
    /// The journal.
    Journal,
    /// An approval card.
    Card,
    /// Writing the reason of a refusal.
    Reason,
    /// A question before something is lost.
    Question,
    /// The help.
    Help,
    /// A recording.
    Replay,
    /// Writing what to search for.
    Search,
}

impl Context {
    /// Its heading in the help.
    #[must_use]
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Workbench => "Everywhere",
            Self::Runs => "Runs and sessions",
            Self::Terminal => "A terminal",
            Self::Scrolling => "Inside a terminal",
            Self::Typing => "Typing into a terminal",
            Self::Files => "Files",
            Self::Talk => "Conversation",
            Self::Journal => "Journal",
            Self::Card => "Approval card",
            Self::Reason => "Reason of a refusal",
            Self::Question => "A question",
            Self::Help => "Help",
            Self::Replay => "Replay",
            Self::Search => "Search",
        }
    }
}

/// A movement in a list or text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// A screen up.
    PageUp,
    /// A screen down.
    PageDown,
    /// To the first.
    First,
    /// To the last.
    Last,
}

/// Something that is shown or hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// The help.
    Help,
    /// The oldest waiting card.
    Waiting,
    /// The sidebar: runs and files.
    Sidebar,
    /// The journal.
    Journal,
    /// Files.
    Files,
    /// The conversation, in place of the terminals.
    Talk,
    /// Terminals side by side, or one at a time.
    Tiles,
    /// The focused pane alone.
    Zoom,
    /// The recording of what has happened so far.
    Replay,
}

/// What is done with a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judge {
    /// Refuse.
    Refuse,
    /// Refuse and say why.
    RefuseWithReason,
    /// Approve once.
    Approve,
    /// Copy the contract digest.
    Copy,
    /// Put the card away undecided.
    Leave,
}

/// How a recording moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wind {
    /// One event back.
    Back,
    /// One event on.
    On,
    /// To the call before.
    CallBack,
    /// To the next call.
    CallOn,
    /// To the start.
    Start,
    /// To the end.
    End,
    /// Plays or pauses.
    Play,
    /// Plays faster.
    Faster,
    /// Plays slower.
    Slower,
    /// Searches.
    Search,
    /// Hides or shows the time line.
    Hide,
    /// Back to what is live, or out.
    Leave,
}

/// What a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Moves.
    Move(Move),
    /// Shows or hides.
    Show(Show),
    /// Decides.
    Judge(Judge),
    /// Winds a recording.
    Wind(Wind),
    /// Focus on the next pane.
    Next,
    /// Focus on the pane before.
    Previous,
    /// Focus on the terminal with this number.
    Terminal(usize),
    /// Into the pane.
    Enter,
    /// Out of the pane.
    Leave,
    /// Asks for the keyboard of a session, or gives it back.
    Keyboard,
    /// Shows other records.
    Filter,
    /// Asks whether to end the selected run or session.
    Close,
    /// Asks whether to end the program.
    Quit,
    /// The safe answer.
    No,
    /// The answer that loses something.
    Yes,
    /// Sends what was written.
    Send,
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// Where.
    pub context: Context,
    /// Which.
    pub code: KeyCode,
    /// With Control.
    pub control: bool,
    /// How it is written; empty for a second key of the same action, which only the help shows.
    pub key: &'static str,
    /// One or two words for the footer.
    pub name: &'static str,
    /// A sentence for the help.
    pub help: &'static str,
    /// What it does.
    pub action: Action,
}

const fn on(
    context: Context,
    code: KeyCode,
    key: &'static str,
    name: &'static str,
    help: &'static str,
    action: Action,
) -> Binding {
    Binding { context, code, control: false, key, name, help, action }
}

const fn control(
    context: Context,
    letter: char,
    key: &'static str,
    name: &'static str,
    help: &'static str,
    action: Action,
) -> Binding {
    Binding { context, code: KeyCode::Char(letter), control: true, key, name, help, action }
}

/// A second key of an action that another row explains.
const fn hidden(context: Context, code: KeyCode, action: Action) -> Binding {
    on(context, code, "", "", "", action)
}

use Action as A;
use Context as C;
use KeyCode as K;

/// The table. Within a context the footer shows them in this order.
pub static TABLE: &[Binding] = &[
    on(C::Workbench, K::Char('w'), "w", "waiting", "the oldest call that waits for you", A::Show(Show::Waiting)),
    on(C::Workbench, K::Enter, "⏎", "enter", "into the focused terminal", A::Enter),
    on(C::Workbench, K::Char('s'), "s", "sidebar", "show or hide runs and files", A::Show(Show::Sidebar)),
    on(C::Workbench, K::Char('j'), "j", "journal", "show or hide the journal", A::Show(Show::Journal)),
    on(C::Workbench, K::Char('m'), "m", "messages", "the agent's conversation, or the terminals", A::Show(Show::Talk)),
    on(C::Workbench, K::Char('q'), "q", "quit", "end the workbench; asks first", A::Quit),
    on(C::Workbench, K::Char('z'), "z", "zoom", "the focused pane alone, or all", A::Show(Show::Zoom)),
    on(C::Workbench, K::Char('t'), "t", "tile", "terminals side by side, or one at a time", A::Show(Show::Tiles)),
    on(C::Workbench, K::Char('g'), "g", "grants", "the files that calls read and create", A::Show(Show::Files)),
    on(C::Workbench, K::Char('r'), "r", "replay", "go back in time over what has happened", A::Show(Show::Replay)),
    on(C::Workbench, K::Tab, "Tab", "next pane", "focus on the next pane", A::Next),
    on(C::Workbench, K::BackTab, "S-Tab", "", "focus on the pane before", A::Previous),
    on(C::Workbench, K::Char('?'), "?", "help", "all keys; so does F1", A::Show(Show::Help)),
    hidden(C::Workbench, K::F(1), A::Show(Show::Help)),
    on(C::Workbench, K::Char('1'), "1-9", "", "the terminal with that number", A::Terminal(1)),
    on(
        C::Workbench,
        K::Up,
        "↑↓",
        "",
        "up and down; PgUp and PgDn by screens, Home and End to the ends",
        A::Move(Move::Up),
    ),
    hidden(C::Workbench, K::Down, A::Move(Move::Down)),
    hidden(C::Workbench, K::PageUp, A::Move(Move::PageUp)),
    hidden(C::Workbench, K::PageDown, A::Move(Move::PageDown)),
    hidden(C::Workbench, K::Home, A::Move(Move::First)),
    hidden(C::Workbench, K::End, A::Move(Move::Last)),
    on(C::Runs, K::Char('x'), "x", "end", "end the selected run or session; asks first", A::Close),
    on(
        C::Terminal,
        K::Char('k'),
        "k",
        "keyboard",
        "ask for the keyboard of this session, or give it back",
        A::Keyboard,
    ),
    on(C::Terminal, K::Char('x'), "x", "end", "end this session; asks first", A::Close),
    on(
        C::Scrolling,
        K::Up,
        "↑↓",
        "scroll",
        "scroll; PgUp and PgDn by screens, Home and End to the ends",
        A::Move(Move::Up),
    ),
    hidden(C::Scrolling, K::Down, A::Move(Move::Down)),
    hidden(C::Scrolling, K::PageUp, A::Move(Move::PageUp)),
    hidden(C::Scrolling, K::PageDown, A::Move(Move::PageDown)),
    hidden(C::Scrolling, K::Home, A::Move(Move::First)),
    hidden(C::Scrolling, K::End, A::Move(Move::Last)),
    on(
        C::Scrolling,
        K::Char('k'),
        "k",
        "take the keyboard",
        "ask for the keyboard; the agent pauses meanwhile",
        A::Keyboard,
    ),
    on(C::Scrolling, K::Esc, "Esc", "leave", "back to the workbench", A::Leave),
    control(C::Scrolling, ']', "", "", "", A::Leave),
    control(C::Scrolling, '5', "", "", "", A::Leave),
    control(C::Typing, ']', "Ctrl-]", "leave", "back to the workbench; every other key goes to the terminal", A::Leave),
    control(C::Typing, '5', "", "", "", A::Leave),
    on(C::Journal, K::Char('f'), "f", "filter", "acts only, or every record", A::Filter),
    on(C::Card, K::Char('n'), "n", "refuse", "refuse this call", A::Judge(Judge::Refuse)),
    on(
        C::Card,
        K::Char('r'),
        "r",
        "refuse with reason",
        "refuse, and tell the agent why",
        A::Judge(Judge::RefuseWithReason),
    ),
    on(C::Card, K::Char('A'), "A", "approve once", "approve exactly what is shown, once", A::Judge(Judge::Approve)),
    on(C::Card, K::PageDown, "PgDn", "more", "a screen down; so does Space, and PgUp goes up", A::Move(Move::PageDown)),
    hidden(C::Card, K::Char(' '), A::Move(Move::PageDown)),
    hidden(C::Card, K::PageUp, A::Move(Move::PageUp)),
    hidden(C::Card, K::Up, A::Move(Move::Up)),
    hidden(C::Card, K::Down, A::Move(Move::Down)),
    hidden(C::Card, K::Home, A::Move(Move::First)),
    hidden(C::Card, K::End, A::Move(Move::Last)),
    on(C::Card, K::Char('c'), "c", "copy digest", "copy the contract digest", A::Judge(Judge::Copy)),
    on(C::Card, K::Char('w'), "w", "next", "the next call that waits", A::Show(Show::Waiting)),
    on(C::Card, K::Esc, "Esc", "later", "put the card away; it keeps waiting", A::Judge(Judge::Leave)),
    on(C::Reason, K::Enter, "⏎", "refuse", "refuse, with what you wrote", A::Send),
    on(C::Reason, K::Esc, "Esc", "back", "back to the card", A::Leave),
    on(C::Question, K::Char('n'), "n", "no", "keep everything; so do Esc and Enter", A::No),
    hidden(C::Question, K::Esc, A::No),
    hidden(C::Question, K::Enter, A::No),
    on(C::Question, K::Char('Y'), "Y", "yes", "do it", A::Yes),
    on(C::Help, K::Esc, "Esc", "close", "close the help", A::Leave),
    hidden(C::Help, K::Char('?'), A::Leave),
    hidden(C::Help, K::Char('q'), A::Leave),
    hidden(C::Help, K::F(1), A::Leave),
    on(C::Help, K::PageDown, "PgDn", "more", "a screen down; PgUp goes up", A::Move(Move::PageDown)),
    hidden(C::Help, K::Char(' '), A::Move(Move::PageDown)),
    hidden(C::Help, K::PageUp, A::Move(Move::PageUp)),
    hidden(C::Help, K::Up, A::Move(Move::Up)),
    hidden(C::Help, K::Down, A::Move(Move::Down)),
    hidden(C::Help, K::Home, A::Move(Move::First)),
    hidden(C::Help, K::End, A::Move(Move::Last)),
    on(C::Replay, K::Right, "←→", "event", "one event back, one event on", A::Wind(Wind::On)),
    hidden(C::Replay, K::Left, A::Wind(Wind::Back)),
    on(
        C::Replay,
        K::Char('['),
        "[ ]",
        "call",
        "to the end of the call before, of the next call",
        A::Wind(Wind::CallBack),
    ),
    hidden(C::Replay, K::Char(']'), A::Wind(Wind::CallOn)),
    on(C::Replay, K::Char(' '), "Space", "play", "play or pause", A::Wind(Wind::Play)),
    on(C::Replay, K::Char('+'), "+ -", "speed", "play faster, slower", A::Wind(Wind::Faster)),
    hidden(C::Replay, K::Char('='), A::Wind(Wind::Faster)),
    hidden(C::Replay, K::Char('-'), A::Wind(Wind::Slower)),
    on(C::Replay, K::Char('/'), "/", "search", "search the records", A::Wind(Wind::Search)),
    on(C::Replay, K::Home, "Home", "", "to the start; End goes to the end", A::Wind(Wind::Start)),
    hidden(C::Replay, K::End, A::Wind(Wind::End)),
    on(C::Replay, K::Char('h'), "h", "hide line", "hide or show the time line", A::Wind(Wind::Hide)),
    on(C::Replay, K::Char('r'), "r", "live", "back to what is live", A::Wind(Wind::Leave)),
    on(C::Search, K::Enter, "⏎", "find", "to the next record that holds it", A::Send),
    on(C::Search, K::Esc, "Esc", "back", "back", A::Leave),
];

/// What a key does in the innermost of these contexts that knows it.
#[must_use]
pub fn lookup(contexts: &[Context], key: &KeyEvent) -> Option<Action> {
    if key.modifiers.contains(KeyModifiers::ALT) {
        return None;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let found = contexts.iter().find_map(|context| {
        let matches =
            |binding: &&Binding| binding.context == *context && binding.control == control && binding.code == key.code;
        TABLE.iter().find(matches).map(|binding| binding.action)
    });
    found.or_else(|| digit(contexts, key, control))
}

fn digit(contexts: &[Context], key: &KeyEvent, control: bool) -> Option<Action> {
    let KeyCode::Char(c @ '1'..='9') = key.code else { return None };
    let number = c.to_digit(10).and_then(|digit| usize::try_from(digit).ok())?;
    (!control && contexts.contains(&Context::Workbench)).then_some(Action::Terminal(number))
}

/// The bindings a footer shows for these contexts, innermost first, each action once.
#[must_use]
pub fn footer(contexts: &[Context]) -> Vec<&'static Binding> {
    let mut shown: Vec<&'static Binding> = Vec::new();
    for context in contexts {
        for binding in TABLE.iter().filter(|binding| binding.context == *context && !binding.name.is_empty()) {
            let shadowed = shown.iter().any(|other| other.code == binding.code && other.control == binding.control);
            if !shadowed && lookup(contexts, &event(binding)) == Some(binding.action) {
                shown.push(binding);
            }
        }
    }
    // Among panes, what waits for the person comes first. A recording's and a card's own keys come before that.
    if contexts.last() == Some(&Context::Workbench) && contexts.first() != Some(&Context::Replay) {
        shown.sort_by_key(|binding| !matches!(binding.action, Action::Show(Show::Waiting) | Action::Enter));
    }
    shown
}

/// The key press of a binding.
#[must_use]
pub fn event(binding: &Binding) -> KeyEvent {
    KeyEvent::new(binding.code, if binding.control { KeyModifiers::CONTROL } else { KeyModifiers::NONE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_has_two_meanings_in_one_place() {
        for (at, one) in TABLE.iter().enumerate() {
            for other in &TABLE[at + 1..] {
                let same = one.context == other.context && one.code == other.code && one.control == other.control;
                assert!(!same, "{:?} {:?} is bound twice", one.context, one.code);
            }
        }
    }

    #[test]
    fn approve_is_one_capital_letter_in_one_place_and_never_enter() {
        let approving: Vec<_> = TABLE.iter().filter(|b| b.action == Action::Judge(Judge::Approve)).collect();
        assert_eq!(approving.len(), 1);
        assert_eq!((approving[0].context, approving[0].code), (Context::Card, KeyCode::Char('A')));
        for code in [KeyCode::Enter, KeyCode::Char('y'), KeyCode::Char('a'), KeyCode::Tab] {
            let key = KeyEvent::new(code, KeyModifiers::NONE);
            assert_eq!(lookup(&[Context::Card], &key), None, "{code:?}");
        }
    }

    #[test]
    fn refusing_and_keeping_are_the_same_key_everywhere() {
        let n = KeyEvent::new(KeyCode::Char('n'), KeyModifiers::NONE);
        assert_eq!(lookup(&[Context::Card], &n), Some(Action::Judge(Judge::Refuse)));
        assert_eq!(lookup(&[Context::Question], &n), Some(Action::No));
    }

    #[test]
    fn every_key_in_the_footer_does_what_it_says() {
        let stacks: &[&[Context]] = &[
            &[Context::Runs, Context::Workbench],
            &[Context::Terminal, Context::Workbench],
            &[Context::Scrolling],
            &[Context::Typing],
            &[Context::Journal, Context::Workbench],
            &[Context::Card],
            &[Context::Replay, Context::Terminal, Context::Workbench],
        ];
        for stack in stacks {
            let shown = footer(stack);
            assert!(!shown.is_empty(), "{stack:?}");
            for binding in shown {
                assert_eq!(lookup(stack, &event(binding)), Some(binding.action), "{stack:?} {}", binding.key);
            }
        }
    }

    /// The table of keys as the documentation holds it.
    fn documented() -> String {
        let mut text = String::new();
        let mut context = None;
        for binding in TABLE.iter().filter(|binding| !binding.key.is_empty()) {
            if context != Some(binding.context) {
                text.push_str(&format!("\n**{}**\n\n| key | does |\n| --- | --- |\n", binding.context.heading()));
                context = Some(binding.context);
            }
            text.push_str(&format!("| `{}` | {} |\n", binding.key, binding.help));
        }
        text
    }

    #[test]
    fn the_documented_keys_are_these() {
        let page = include_str!("../../docs/workbench.md");
        assert!(page.ends_with(&documented()), "docs/workbench.md should end with:\n{}", documented());
    }

    #[test]
    fn every_binding_with_a_key_is_explained() {
        for binding in TABLE.iter().filter(|binding| !binding.key.is_empty()) {
            assert!(!binding.help.is_empty(), "{:?} {}", binding.context, binding.key);
        }
    }
}
