//! Draws a model on a screen.
//!
//! ```text
//!   slipring top  lab, process 42, 12.5 s: slipring emulate …
//!   link  asked       measured      …  rate over time
//!   up    10 Mbit/s   9.87 Mbit/s   …  ▂▅▇█████
//!   ┌ up: left to right ─────────────────────────────┐
//!   │ ▁▂▃▅▇█████████████                  10 Mbit/s   │
//!   │ 100 in, 97 out, 2 inside, lost 1 queue          │
//!   └─────────────────────────────────────────────────┘
//!   port  received  sent  lost
//!   q quit  arrows select  p pause  ? help
//! ```
//!
//! Only visible rows are built, so the cost for ten thousand links depends only on the screen's
//! size.

mod detail;
mod table;

use ratatui::Frame as Screen;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use crate::model::{ProgramChooser, TopModel};
use crate::plain::{self, printable};

/// The keys, as shown in the bottom line.
const KEYS_LINE: &str = "q quit   arrows select   p pause   ? help";

/// The help text.
const HELP_LINES: [&str; 9] = [
    "asked     what the link is to do",
    "measured  what left it in the last interval",
    "delay     from arrival to departure, in the last second",
    "queue     bytes that waited for the line, in the last second",
    "late by   how much later than asked frames left",
    "loss      share that was lost in the last interval, whatever the cause",
    "",
    "arrows, j k, PgUp PgDn, Home End   another link",
    "p pause   ? this help   q, Esc, Ctrl-C quit",
];

/// The help text for a router.
const ROUTER_HELP_LINES: [&str; 9] = [
    "forwarded  what arrived on the interface and was forwarded, in the last interval",
    "to kernel  what arrived on it and was left to the kernel",
    "dropped    what arrived on it and was dropped; cause driver: what was to leave by it",
    "busy       share of the last interval in which the thread moved frames",
    "held       packets that wait for the address of a neighbour",
    "refused    routes and neighbours for which the tables have no space",
    "",
    "arrows, j k, PgUp PgDn, Home End   another interface",
    "p pause   ? this help   q, Esc, Ctrl-C quit",
];

/// Height of the detail part below the links, in rows.
const DETAIL_ROWS: u16 = 10;

/// Draws a model.
pub fn draw(screen: &mut Screen<'_>, model: &TopModel) {
    let frame = &model.sample;
    let RowLayout { state, links, detail, ports } = RowLayout::of(model, screen.area().height);
    let rows = [1, state, links, detail, ports].map(Constraint::Length);
    let [head, state, links, detail, ports, _, keys] =
        Layout::vertical(rows.into_iter().chain([Constraint::Fill(1), Constraint::Length(1)]))
            .areas(screen.area());
    screen.render_widget(header(model), head);
    if let Some(router) = &frame.router {
        let lines = plain::state(router).into_iter().map(|line| Line::from(printable(&line)));
        screen.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), state);
        table::interfaces(screen, links, model, router);
        detail::draw_interface(screen, detail, model, &router.interfaces);
        table::workers(screen, ports, router);
    } else {
        if !frame.links.is_empty() {
            table::links(screen, links, model);
            detail::draw(screen, detail, model);
        }
        table::ports(screen, ports, frame);
    }
    screen.render_widget(Line::from(KEYS_LINE).dim(), keys);
    if model.shows_help {
        help(screen, if frame.router.is_some() { &ROUTER_HELP_LINES } else { &HELP_LINES });
    }
}

/// The number of rows of each part. For a router, the interfaces use the rows of the links, and the
/// workers use those of the ports.
struct RowLayout {
    state: u16,
    links: u16,
    detail: u16,
    ports: u16,
}

impl RowLayout {
    /// Distributes rows: up to 4 for the links, up to 8 for the ports, then the detail part if all
    /// of it fits. The links get the rest.
    fn of(model: &TopModel, height: u16) -> Self {
        let table = |count: usize| match count {
            0 => 0,
            count => u16::try_from(count + 1).unwrap_or(u16::MAX),
        };
        let room = height.saturating_sub(2);
        let frame = &model.sample;
        let state = frame
            .router
            .as_ref()
            .map_or(0, |router| 1 + u16::from(router.rules.is_some()))
            .min(room);
        let room = room - state;
        let (links, ports) = match &frame.router {
            Some(router) => (router.interfaces.len(), router.workers.len()),
            None => (frame.links.len(), frame.ports.len()),
        };
        let links = table(links);
        let few = links.min(4).min(room);
        let ports = table(ports).min(8).min(room - few);
        let has_room = links > 0 && room - few - ports >= DETAIL_ROWS;
        let detail = if has_room { DETAIL_ROWS } else { 0 };
        Self { state, links: links.min(room - ports - detail), detail, ports }
    }
}

/// Draws a list to choose from.
pub fn choose(screen: &mut Screen<'_>, choice: &ProgramChooser) {
    let [head, list, keys] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(1), Constraint::Length(1)])
            .areas(screen.area());
    screen.render_widget(Line::from("Several programs run. Which one?").bold(), head);
    let rows = usize::from(list.height).max(1);
    let first = table::first_row(choice.selected, rows);
    let seen = choice.running.iter().enumerate().skip(first).take(rows);
    let lines: Vec<_> = seen
        .map(|(at, running)| {
            let text = printable(&format!("{running}  {}", running.line));
            Line::styled(text, selection_style(at == choice.selected))
        })
        .collect();
    screen.render_widget(Paragraph::new(lines), list);
    screen.render_widget(Line::from("Enter watch   arrows select   q quit").dim(), keys);
}

fn header(model: &TopModel) -> Line<'static> {
    let state = match (model.ended, model.paused) {
        (true, _) => " [ended]",
        (false, true) => " [paused]",
        (false, false) => "",
    };
    Line::from(vec![
        Span::from("slipring top").bold(),
        Span::from(state).bold().yellow(),
        Span::from(format!("  {}", plain::head(&model.sample))),
    ])
}

fn help(screen: &mut Screen<'_>, lines: &[&str]) {
    let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0) as u16;
    let area = centred(screen.area(), widest + 4, lines.len() as u16 + 2);
    let lines: Vec<_> = lines.iter().map(|line| Line::from(format!(" {line}"))).collect();
    screen.render_widget(Clear, area);
    screen.render_widget(Paragraph::new(lines).block(Block::bordered().title(" Help ")), area);
}

fn centred(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    let (x, y) = (area.x + (area.width - width) / 2, area.y + (area.height - height) / 2);
    Rect { x, y, width, height }
}

/// Returns the style of a row.
fn selection_style(selected: bool) -> Style {
    if selected { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() }
}

#[cfg(test)]
mod tests;
