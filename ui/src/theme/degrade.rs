//! Colours a terminal does not have, as the nearest it has.

use super::ColorMode;
use ratatui::style::{Color, Style};

/// The nearest colour in `mode`. The terminal's default colour stays what it is.
#[must_use]
pub fn degrade(color: Color, mode: ColorMode) -> Color {
    match (mode, color) {
        (_, Color::Reset) | (ColorMode::None, _) => Color::Reset,
        (ColorMode::True, color) => color,
        (ColorMode::Ansi256, Color::Rgb(r, g, b)) => Color::Indexed(nearest_256([r, g, b])),
        (ColorMode::Ansi256, color) => color,
        (ColorMode::Ansi16, Color::Rgb(r, g, b)) => nearest_16([r, g, b]),
        (ColorMode::Ansi16, Color::Indexed(index)) => match NAMES.get(usize::from(index)) {
            Some(name) => *name,
            None => nearest_16(rgb_of(index)),
        },
        (ColorMode::Ansi16, color) => color,
    }
}

/// [`degrade`] for every colour of a style.
#[must_use]
pub fn degrade_style(mut style: Style, mode: ColorMode) -> Style {
    style.fg = style.fg.map(|color| degrade(color, mode));
    style.bg = style.bg.map(|color| degrade(color, mode));
    style.underline_color = style.underline_color.map(|color| degrade(color, mode));
    style
}

/// The 16 names in the order of their indices.
const NAMES: [Color; 16] = [
    Color::Black,
    Color::Red,
    Color::Green,
    Color::Yellow,
    Color::Blue,
    Color::Magenta,
    Color::Cyan,
    Color::Gray,
    Color::DarkGray,
    Color::LightRed,
    Color::LightGreen,
    Color::LightYellow,
    Color::LightBlue,
    Color::LightMagenta,
    Color::LightCyan,
    Color::White,
];

/// What the 16 names usually look like. Palettes differ; nearest is a guess that keeps light light and red red.
const USUAL: [[u8; 3]; 16] = [
    [0, 0, 0],
    [205, 0, 0],
    [0, 205, 0],
    [205, 205, 0],
    [0, 0, 238],
    [205, 0, 205],
    [0, 205, 205],
    [229, 229, 229],
    [127, 127, 127],
    [255, 0, 0],
    [0, 255, 0],
    [255, 255, 0],
    [92, 92, 255],
    [255, 0, 255],
    [0, 255, 255],
    [255, 255, 255],
];

/// Levels of the 6 x 6 x 6 cube.
const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];

fn distance(a: [u8; 3], b: [u8; 3]) -> u32 {
    // Weights near how bright each part looks.
    let part = |at: usize, weight: u32| {
        let (x, y) = (a.get(at).copied().unwrap_or(0), b.get(at).copied().unwrap_or(0));
        u32::from(x.abs_diff(y)).pow(2) * weight
    };
    part(0, 3) + part(1, 6) + part(2, 1)
}

fn nearest_16(rgb: [u8; 3]) -> Color {
    USUAL.iter().zip(NAMES).min_by_key(|(usual, _)| distance(**usual, rgb)).map_or(Color::Reset, |(_, name)| name)
}

fn nearest_256(rgb: [u8; 3]) -> u8 {
    let mut best = (u32::MAX, 16);
    for index in 16..=255_u8 {
        let away = distance(rgb_of(index), rgb);
        if away < best.0 {
            best = (away, index);
        }
    }
    best.1
}

/// What an index of the 256 looks like.
fn rgb_of(index: u8) -> [u8; 3] {
    let level = |at: u8| LEVELS.get(usize::from(at)).copied().unwrap_or(255);
    match index {
        0..16 => USUAL.get(usize::from(index)).copied().unwrap_or([0; 3]),
        16..232 => {
            let cube = index - 16;
            [level(cube / 36), level(cube / 6 % 6), level(cube % 6)]
        }
        232.. => [8 + 10 * (index - 232); 3],
    }
}
