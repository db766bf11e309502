use super::*;

#[test]
fn the_built_in_theme_parses_and_tells_its_roles_apart_without_colour() {
    let theme = Theme::parse(include_str!("../../../themes/dark.toml")).expect("the embedded theme parses");
    assert_eq!(theme, Theme::dark());
    let plain = theme.degraded(ColorMode::None);
    assert!(plain.danger.add_modifier.contains(Modifier::BOLD));
    assert!(plain.selection.add_modifier.contains(Modifier::REVERSED));
    assert_ne!(plain.border, plain.border_focus, "focus is visible without colour");
    assert_eq!(theme.text.bg, None, "the terminal keeps its own background");
}

#[test]
fn a_theme_with_an_unknown_token_a_missing_one_or_an_unknown_colour_is_refused() {
    let good = include_str!("../../../themes/dark.toml");
    assert!(Theme::parse(good).is_ok());
    assert!(Theme::parse(&format!("{good}\nextra = {{}}\n")).is_err());
    assert!(Theme::parse(&good.replace("text = {}", "")).is_err());
    let bad = Theme::parse(&good.replace("\"green\"", "\"grren\"")).expect_err("no such colour");
    assert!(bad.to_string().contains("ok names the unknown colour \"grren\""), "{bad}");
    assert!(Theme::parse(&good.replace("\"green\"", "\"#00ff7g\"")).is_err());
    let hex = Theme::parse(&good.replace("\"green\"", "\"#00ff7f\"")).expect("a hex colour");
    assert_eq!(hex.ok.fg, Some(Color::Rgb(0, 255, 127)));
}

fn environment(pairs: &[(&str, &str)]) -> Environment {
    Environment::read(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
}

#[test]
fn the_number_of_colours_follows_the_environment() {
    let mode = |pairs: &[(&str, &str)]| environment(pairs).color();
    assert_eq!(mode(&[("TERM", "xterm"), ("NO_COLOR", "1"), ("COLORTERM", "truecolor")]), ColorMode::None);
    assert_eq!(mode(&[("TERM", "xterm"), ("NO_COLOR", "")]), ColorMode::Ansi16);
    assert_eq!(mode(&[("TERM", "xterm-256color")]), ColorMode::Ansi256);
    assert_eq!(mode(&[("TERM", "screen"), ("COLORTERM", "24bit")]), ColorMode::True);
    assert_eq!(mode(&[("TERM", "vt100")]), ColorMode::None);
    assert_eq!(mode(&[]), ColorMode::None);
}

#[test]
fn ascii_is_used_where_the_locale_is_not_utf8_and_where_it_is_asked_for() {
    let ascii = |pairs: &[(&str, &str)]| environment(pairs).ascii();
    assert!(!ascii(&[("LANG", "de_DE.UTF-8")]));
    assert!(!ascii(&[("LANG", "C"), ("LC_ALL", "C.utf8")]));
    assert!(ascii(&[("LANG", "de_DE.UTF-8"), ("LC_ALL", "C")]));
    assert!(!ascii(&[("LANG", "de_DE.UTF-8"), ("LC_ALL", "")]), "an empty value counts as unset");
    assert!(ascii(&[]));
    assert!(ascii(&[("LANG", "de_DE.UTF-8"), ("STOCKADE_ASCII", "1")]));
    assert!(!ascii(&[("STOCKADE_ASCII", "0")]));
}

#[test]
fn missing_colours_become_the_nearest_and_none_means_none() {
    assert_eq!(degrade(Color::Rgb(250, 5, 5), ColorMode::Ansi16), Color::LightRed);
    assert_eq!(degrade(Color::Indexed(1), ColorMode::Ansi16), Color::Red);
    assert_eq!(degrade(Color::Indexed(231), ColorMode::Ansi16), Color::White);
    assert_eq!(degrade(Color::Rgb(255, 135, 0), ColorMode::Ansi256), Color::Indexed(208));
    assert_eq!(degrade(Color::Rgb(1, 2, 3), ColorMode::True), Color::Rgb(1, 2, 3));
    assert_eq!(degrade(Color::Red, ColorMode::None), Color::Reset);
    for mode in [ColorMode::None, ColorMode::Ansi16, ColorMode::Ansi256, ColorMode::True] {
        assert_eq!(degrade(Color::Reset, mode), Color::Reset);
    }
}

#[test]
fn every_ascii_glyph_is_ascii_and_as_wide_as_its_other_form() {
    use unicode_width::UnicodeWidthStr as _;
    let parts = |glyphs: Glyphs| {
        let border = glyphs.border;
        [
            glyphs.waiting,
            glyphs.running,
            glyphs.done,
            glyphs.failed,
            glyphs.person,
            glyphs.open,
            glyphs.closed,
            glyphs.session,
            glyphs.shield,
            glyphs.gutter,
            glyphs.ellipsis,
            glyphs.full,
            glyphs.empty,
            glyphs.dot,
            glyphs.line,
            glyphs.here,
            glyphs.enter,
            glyphs.left_right,
            glyphs.up_down,
            glyphs.times,
            border.top_left,
            border.top_right,
            border.bottom_left,
            border.bottom_right,
            border.vertical_left,
            border.vertical_right,
            border.horizontal_top,
            border.horizontal_bottom,
        ]
    };
    for (unicode, ascii) in parts(Glyphs::new(false)).into_iter().zip(parts(Glyphs::new(true))) {
        assert!(ascii.is_ascii(), "{ascii}");
        assert_eq!(ascii.width(), unicode.width(), "{unicode}");
        assert!(unicode.chars().all(|c| !stockade_protocol::text::is_hidden(c)), "{unicode}");
    }
}
