//! Where everything is, as a pure function of the model: views draw by it, and the mouse and terminal sizes follow it.

use crate::model::{PaneId, Workbench};
use crate::projection::{RunState, Session};
use ratatui::layout::Rect;
use stockade_protocol::ids::SessionId;

/// From this width on, lists stand beside the terminals.
pub(crate) const BESIDE: u16 = 120;
/// Smallest terminal pane in a tiling, with its border.
const TILE: (u16, u16) = (60, 7);
/// Widest text of an approval card.
const CARD_TEXT: u16 = 116;

/// A pane and its place, border included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placed {
    pub id: PaneId,
    pub area: Rect,
    /// Drawn over the others.
    pub over: bool,
}

/// An approval card's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CardPlace {
    /// All of it, border included.
    pub area: Rect,
    /// The rows of the card.
    pub text: Rect,
    /// The line under them.
    pub rule: u16,
    /// The rows of keys.
    pub keys: Rect,
}

/// Where everything is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub header: Rect,
    /// Numbers of the terminals, when one is shown at a time.
    pub tabs: Option<Rect>,
    pub body: Rect,
    pub timeline: Option<Rect>,
    pub footer: Rect,
    /// In drawing order.
    pub panes: Vec<Placed>,
    pub card: Option<CardPlace>,
    /// Terminals that are there and not shown.
    pub more: usize,
}

/// Lays the screen out.
pub(crate) fn layout(model: &Workbench) -> Layout {
    let (width, height) = model.size;
    let shown = model.replay.as_ref().is_some_and(|replay| !replay.hidden);
    let timeline = if shown && height >= 12 { if height >= 20 { 4 } else { 3 } } else { 0 };
    let top = height.min(1);
    let bottom = u16::from(height >= 3);
    let body_height = height.saturating_sub(top + bottom + timeline);
    let mut layout = Layout {
        header: Rect::new(0, 0, width, top),
        body: Rect::new(0, top, width, body_height),
        footer: Rect::new(0, height.saturating_sub(bottom), width, bottom),
        // It shares a line with the panes above.
        timeline: (timeline > 0).then(|| Rect::new(0, top + body_height - 1, width, timeline + 1)),
        ..Layout::default()
    };
    place_panes(model, &mut layout);
    if model.desk.is_some() {
        layout.card = Some(card_place(layout.body, model.laid.rows.len()));
    }
    layout
}

fn place_panes(model: &Workbench, layout: &mut Layout) {
    if model.zoom
        && let Some(focus) = model.focus.filter(|focus| exists(model, *focus))
    {
        layout.panes.push(Placed { id: focus, area: layout.body, over: false });
        return;
    }
    if layout.body.width >= BESIDE { wide(model, layout) } else { narrow(model, layout) }
}

fn exists(model: &Workbench, id: PaneId) -> bool {
    match id {
        PaneId::Terminal(session) => model.projection().session(session).is_some(),
        PaneId::NoTerminal | PaneId::Runs | PaneId::Files | PaneId::Talk | PaneId::Journal => true,
    }
}

/// Lists beside the terminals, the journal below. Neighbours share one line of border.
fn wide(model: &Workbench, layout: &mut Layout) {
    let body = layout.body;
    let mut above = body;
    if model.drawer.unwrap_or(body.height >= 20) {
        let strip = (body.height / 5).clamp(5, 14).min(body.height);
        above.height = body.height - strip + 1;
        let area = Rect::new(body.x, above.bottom() - 1, body.width, strip);
        layout.panes.push(Placed { id: PaneId::Journal, area, over: false });
    }
    let mut right = above;
    if model.sidebar.unwrap_or(true) {
        let side = (body.width / 5).clamp(32, 44);
        right.x = above.x + side - 1;
        right.width = above.width - side + 1;
        sidebar(Rect { width: side, ..above }, false, layout);
    }
    main(model, right, model.tiles.unwrap_or(true), layout);
    // Focus goes round in reading order: lists, terminals, journal.
    if layout.panes.first().is_some_and(|pane| pane.id == PaneId::Journal) {
        layout.panes.rotate_left(1);
    }
}

/// One thing at a time; lists and journal lie over it.
fn narrow(model: &Workbench, layout: &mut Layout) {
    let mut body = layout.body;
    let terminals = shown(model).len();
    if terminals > 1 && !model.talk && body.height >= 8 && !model.tiles.unwrap_or(false) {
        layout.tabs = Some(Rect { height: 1, ..body });
        body.y += 1;
        body.height -= 1;
    }
    main(model, body, model.tiles.unwrap_or(false), layout);
    if model.drawer.unwrap_or(false) {
        let height = (body.height * 3 / 5).max(4).min(body.height);
        let area = Rect::new(body.x, body.bottom() - height, body.width, height);
        layout.panes.push(Placed { id: PaneId::Journal, area, over: true });
    }
    if model.sidebar.unwrap_or(false) {
        let side = (body.width * 3 / 5).clamp(34, 50).min(body.width);
        sidebar(Rect { width: side, ..body }, true, layout);
    }
}

fn sidebar(area: Rect, over: bool, layout: &mut Layout) {
    let files = (area.height / 3).clamp(3, 14).min(area.height);
    let runs = area.height - files + 1;
    layout.panes.push(Placed { id: PaneId::Runs, area: Rect { height: runs, ..area }, over });
    let files = Rect { y: area.y + runs - 1, height: files, ..area };
    layout.panes.push(Placed { id: PaneId::Files, area: files, over });
}

/// Sessions that have a terminal worth showing, in order of their numbers: open ones, ended ones of runs that go on, and
/// the one looked at; when nothing is open, whatever still has a screen.
pub(crate) fn shown(model: &Workbench) -> Vec<&Session> {
    let projection = model.projection();
    let goes_on = |session: &Session| {
        session.run.and_then(|run| projection.run(run)).is_some_and(|run| run.state == RunState::Running)
    };
    let any_open = projection.open() > 0;
    let worth = |session: &&Session| {
        let kept = session.pane.is_some() && (!any_open || goes_on(session));
        session.is_open() || kept || model.terminal == Some(session.id)
    };
    projection.sessions().iter().filter(worth).collect()
}

fn main(model: &Workbench, area: Rect, tiles: bool, layout: &mut Layout) {
    if model.talk {
        layout.panes.push(Placed { id: PaneId::Talk, area, over: false });
        return;
    }
    let sessions = shown(model);
    if sessions.is_empty() {
        layout.panes.push(Placed { id: PaneId::NoTerminal, area, over: false });
        return;
    }
    let columns = usize::from((area.width / TILE.0).max(1));
    let rows = usize::from((area.height.saturating_sub(1) / (TILE.1 - 1)).max(1));
    let room = if tiles { columns * rows } else { 1 };
    let chosen = choose(model, &sessions, room);
    layout.more = sessions.len() - chosen.len();
    let columns = columns.min(chosen.len().div_ceil(rows).max(if chosen.len() > 2 { columns.min(2) } else { 1 }));
    let per_column = chosen.len().div_ceil(columns.max(1));
    for (column, ids) in chosen.chunks(per_column.max(1)).enumerate() {
        let (left, right) = share(area.width, column, chosen.len().div_ceil(per_column.max(1)));
        for (row, id) in ids.iter().enumerate() {
            let (top, bottom) = share(area.height, row, ids.len());
            let area = Rect::new(area.x + left, area.y + top, right - left + 1, bottom - top + 1);
            layout.panes.push(Placed { id: PaneId::Terminal(*id), area, over: false });
        }
    }
}

/// First and last cell of part `at` of `parts`; neighbours share a cell.
fn share(length: u16, at: usize, parts: usize) -> (u16, u16) {
    let span = usize::from(length.saturating_sub(1));
    let edge = |at: usize| u16::try_from(span * at / parts.max(1)).unwrap_or(u16::MAX);
    (edge(at), edge(at + 1))
}

/// Which terminals are shown when there is room for `room`: the one looked at, then open ones, then the newest closed.
fn choose(model: &Workbench, sessions: &[&Session], room: usize) -> Vec<SessionId> {
    let looked_at = |session: &Session| model.terminal == Some(session.id);
    let mut ranked: Vec<&Session> = sessions.to_vec();
    // One at a time shows the oldest open one until another is chosen, so that nothing moves by itself.
    ranked.sort_by_key(|session| {
        let age = if session.is_open() { session.number } else { usize::MAX - session.number };
        (!looked_at(session), !session.is_open(), age)
    });
    ranked.truncate(room);
    ranked.sort_by_key(|session| session.number);
    ranked.iter().map(|session| session.id).collect()
}

/// Columns of a card's text on a terminal of this size.
pub(crate) fn card_width(size: (u16, u16)) -> usize {
    usize::from(card_outer(size.0).saturating_sub(4).max(1))
}

fn card_outer(width: u16) -> u16 {
    if width > CARD_TEXT + 8 { CARD_TEXT + 4 } else { width }
}

fn card_place(body: Rect, rows: usize) -> CardPlace {
    let width = card_outer(body.width);
    let keys = if body.width < 100 && body.height >= 12 { 2 } else { 1 };
    let around = 3 + keys;
    let rows = u16::try_from(rows).unwrap_or(u16::MAX).max(1);
    let height = rows.saturating_add(around).min(body.height);
    let x = body.x + (body.width - width) / 2;
    let y = body.y + (body.height - height) / 3;
    let area = Rect::new(x, y, width, height);
    let text = height.saturating_sub(around);
    let side = if width >= 8 { 2 } else { 1 };
    let inner = Rect { x: x + side.min(width), width: width.saturating_sub(2 * side), ..area };
    CardPlace {
        area,
        text: Rect { y: y + 1, height: text, ..inner },
        rule: y + 1 + text,
        keys: Rect { y: (y + 2 + text).min(body.bottom()), height: keys.min(height.saturating_sub(text + 2)), ..inner },
    }
}
