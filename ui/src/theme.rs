//! Colours as roles, the number of colours a terminal has, and glyphs with their ASCII forms.
//!
//! Colour never carries meaning alone: a glyph or a word beside it says the same.

use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::border;
use serde::Deserialize;

mod degrade;
pub use degrade::{degrade, degrade_style};

/// The colours of the workbench. Screens use these and never name a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Theme {
    /// Ordinary text.
    pub text: Style,
    /// What matters less: hints, old times, counts.
    pub dim: Style,
    /// What is in hand: keys, the current choice.
    pub accent: Style,
    /// It went well.
    pub ok: Style,
    /// It waits for a person.
    pub wait: Style,
    /// It is irreversible or open. Nothing else.
    pub danger: Style,
    /// Marks beside text from outside; the text itself is never styled.
    pub untrusted: Style,
    /// A border.
    pub border: Style,
    /// The border of what has the keyboard.
    pub border_focus: Style,
    /// The selected row.
    pub selection: Style,
}

/// A theme file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the theme is not usable: {what}; see themes/dark.toml for every token and colour")]
pub struct ThemeError {
    /// What is wrong and where.
    what: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    text: Token,
    dim: Token,
    accent: Token,
    ok: Token,
    wait: Token,
    danger: Token,
    untrusted: Token,
    border: Token,
    border_focus: Token,
    selection: Token,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Token {
    #[serde(default)]
    fg: Option<Named>,
    #[serde(default)]
    bg: Option<Named>,
    #[serde(default)]
    style: Vec<Attribute>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Named {
    Index(u8),
    Name(String),
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Attribute {
    Bold,
    Dim,
    Italic,
    Underline,
    Reverse,
}

impl Theme {
    /// The built-in theme, for dark terminals and readable on light ones.
    #[must_use]
    pub fn dark() -> Self {
        // A test holds that the embedded file parses; the plain theme would still be usable.
        Self::parse(include_str!("../../themes/dark.toml")).unwrap_or_default()
    }

    /// Reads a theme. Every token must be there and nothing else.
    pub fn parse(text: &str) -> Result<Self, ThemeError> {
        let file: File = toml::from_str(text).map_err(|error| ThemeError { what: error.to_string() })?;
        Ok(Self {
            text: style("text", &file.text)?,
            dim: style("dim", &file.dim)?,
            accent: style("accent", &file.accent)?,
            ok: style("ok", &file.ok)?,
            wait: style("wait", &file.wait)?,
            danger: style("danger", &file.danger)?,
            untrusted: style("untrusted", &file.untrusted)?,
            border: style("border", &file.border)?,
            border_focus: style("border_focus", &file.border_focus)?,
            selection: style("selection", &file.selection)?,
        })
    }

    /// The same roles in the colours this terminal has.
    #[must_use]
    pub fn degraded(self, mode: ColorMode) -> Self {
        Self {
            text: degrade_style(self.text, mode),
            dim: degrade_style(self.dim, mode),
            accent: degrade_style(self.accent, mode),
            ok: degrade_style(self.ok, mode),
            wait: degrade_style(self.wait, mode),
            danger: degrade_style(self.danger, mode),
            untrusted: degrade_style(self.untrusted, mode),
            border: degrade_style(self.border, mode),
            border_focus: degrade_style(self.border_focus, mode),
            selection: degrade_style(self.selection, mode),
        }
    }
}

fn style(token: &str, from: &Token) -> Result<Style, ThemeError> {
    let mut style = Style::new();
    if let Some(fg) = &from.fg {
        style = style.fg(color(token, fg)?);
    }
    if let Some(bg) = &from.bg {
        style = style.bg(color(token, bg)?);
    }
    for attribute in &from.style {
        style = style.add_modifier(match attribute {
            Attribute::Bold => Modifier::BOLD,
            Attribute::Dim => Modifier::DIM,
            Attribute::Italic => Modifier::ITALIC,
            Attribute::Underline => Modifier::UNDERLINED,
            Attribute::Reverse => Modifier::REVERSED,
        });
    }
    Ok(style)
}

fn color(token: &str, named: &Named) -> Result<Color, ThemeError> {
    let name = match named {
        Named::Index(index) => return Ok(Color::Indexed(*index)),
        Named::Name(name) => name.as_str(),
    };
    let color = match name {
        "default" => Color::Reset,
        "black" => Color::Black,
        "red" => Color::Red,
        "green" => Color::Green,
        "yellow" => Color::Yellow,
        "blue" => Color::Blue,
        "magenta" => Color::Magenta,
        "cyan" => Color::Cyan,
        "white" => Color::Gray,
        "bright-black" => Color::DarkGray,
        "bright-red" => Color::LightRed,
        "bright-green" => Color::LightGreen,
        "bright-yellow" => Color::LightYellow,
        "bright-blue" => Color::LightBlue,
        "bright-magenta" => Color::LightMagenta,
        "bright-cyan" => Color::LightCyan,
        "bright-white" => Color::White,
        _ => hex(name).ok_or_else(|| ThemeError { what: format!("{token} names the unknown colour {name:?}") })?,
    };
    Ok(color)
}

fn hex(name: &str) -> Option<Color> {
    let digits = name.strip_prefix('#')?;
    if digits.len() != 6 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let [_, r, g, b] = u32::from_str_radix(digits, 16).ok()?.to_be_bytes();
    Some(Color::Rgb(r, g, b))
}

/// How many colours a terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum ColorMode {
    /// None; bold, dim, underline and reverse remain.
    None,
    /// The 16 of the terminal's own palette.
    #[default]
    Ansi16,
    /// 256.
    Ansi256,
    /// 24 bits.
    True,
}

/// What the environment says about the terminal: values of `NO_COLOR`, `COLORTERM`, `TERM`, `LC_ALL`, `LC_CTYPE`,
/// `LANG` and `STOCKADE_ASCII`.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// `NO_COLOR`: any value but the empty one means no colours.
    pub no_color: Option<String>,
    /// `COLORTERM`: `truecolor` or `24bit`.
    pub colorterm: Option<String>,
    /// `TERM`.
    pub term: Option<String>,
    /// `LC_ALL`.
    pub lc_all: Option<String>,
    /// `LC_CTYPE`.
    pub lc_ctype: Option<String>,
    /// `LANG`.
    pub lang: Option<String>,
    /// `STOCKADE_ASCII`: `1` asks for ASCII, `0` forbids it whatever the locale says.
    pub stockade_ascii: Option<String>,
}

impl Environment {
    /// Reads the values through `get`, e.g. `|name| std::env::var(name).ok()`.
    #[must_use]
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Self {
        Self {
            no_color: get("NO_COLOR"),
            colorterm: get("COLORTERM"),
            term: get("TERM"),
            lc_all: get("LC_ALL"),
            lc_ctype: get("LC_CTYPE"),
            lang: get("LANG"),
            stockade_ascii: get("STOCKADE_ASCII"),
        }
    }

    /// How many colours there are.
    #[must_use]
    pub fn color(&self) -> ColorMode {
        let term = self.term.as_deref().unwrap_or("dumb");
        if self.no_color.as_deref().is_some_and(|value| !value.is_empty()) || monochrome(term) {
            return ColorMode::None;
        }
        match self.colorterm.as_deref() {
            Some("truecolor" | "24bit") => ColorMode::True,
            _ if term.ends_with("-direct") => ColorMode::True,
            _ if term.contains("256") => ColorMode::Ansi256,
            _ => ColorMode::Ansi16,
        }
    }

    /// Whether to draw with ASCII only: asked for, or the locale's encoding is not UTF-8.
    #[must_use]
    pub fn ascii(&self) -> bool {
        match self.stockade_ascii.as_deref() {
            Some("0") => return false,
            Some(value) if !value.is_empty() => return true,
            _ => {}
        }
        let locale = [&self.lc_all, &self.lc_ctype, &self.lang]
            .into_iter()
            .find_map(|value| value.as_deref().filter(|value| !value.is_empty()))
            .unwrap_or("C")
            .to_ascii_lowercase();
        !(locale.contains("utf-8") || locale.contains("utf8"))
    }
}

fn monochrome(term: &str) -> bool {
    matches!(term, "" | "dumb") || term.starts_with("vt1") || term.starts_with("vt2") || term.ends_with("-mono")
}

/// The marks the screens draw, one column each unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Glyphs {
    /// Waits for a person.
    pub waiting: &'static str,
    /// Runs; a boundary proven from inside.
    pub running: &'static str,
    /// Ended well; published; anchored.
    pub done: &'static str,
    /// Refused, failed.
    pub failed: &'static str,
    /// A person acted.
    pub person: &'static str,
    /// An opened branch of a tree.
    pub open: &'static str,
    /// A closed branch of a tree.
    pub closed: &'static str,
    /// A session.
    pub session: &'static str,
    /// Protected by a grant.
    pub shield: &'static str,
    /// The gutter before text from outside.
    pub gutter: &'static str,
    /// Something was cut here.
    pub ellipsis: &'static str,
    /// A filled step of a bar.
    pub full: &'static str,
    /// An empty step of a bar.
    pub empty: &'static str,
    /// Between facts on one line.
    pub dot: &'static str,
    /// A horizontal line.
    pub line: &'static str,
    /// Where one is on a time line.
    pub here: &'static str,
    /// The Enter key.
    pub enter: &'static str,
    /// The arrow keys left and right, two columns.
    pub left_right: &'static str,
    /// The arrow keys up and down, two columns.
    pub up_down: &'static str,
    /// Times, e.g. before a count.
    pub times: &'static str,
    /// Borders of every pane.
    pub border: border::Set<'static>,
}

impl Glyphs {
    /// The marks, or their ASCII forms.
    #[must_use]
    pub const fn new(ascii: bool) -> Self {
        if ascii { Self::ASCII } else { Self::UNICODE }
    }

    const UNICODE: Self = Self {
        waiting: "⚠",
        running: "●",
        done: "✓",
        failed: "✗",
        person: "▲",
        open: "▾",
        closed: "▸",
        session: "⌁",
        shield: "⛨",
        gutter: "┆",
        ellipsis: "…",
        full: "▮",
        empty: "▯",
        dot: "·",
        line: "─",
        here: "▏",
        enter: "⏎",
        left_right: "←→",
        up_down: "↑↓",
        times: "×",
        border: border::PLAIN,
    };

    const ASCII: Self = Self {
        waiting: "!",
        running: "*",
        done: "+",
        failed: "x",
        person: "^",
        open: "v",
        closed: ">",
        session: "~",
        shield: "#",
        gutter: ":",
        ellipsis: "~",
        full: "#",
        empty: ".",
        dot: "-",
        line: "-",
        here: "|",
        enter: "E",
        left_right: "<>",
        up_down: "^v",
        times: "x",
        border: border::Set {
            top_left: "+",
            top_right: "+",
            bottom_left: "+",
            bottom_right: "+",
            vertical_left: "|",
            vertical_right: "|",
            horizontal_top: "-",
            horizontal_bottom: "-",
        },
    };
}

#[cfg(test)]
mod tests;
