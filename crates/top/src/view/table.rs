//! The tables of links and ports, and of the parts of a router.

use std::collections::VecDeque;

use ratatui::Frame as Screen;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Stylize;
use ratatui::widgets::{Row, Table};

use super::selection_style;
use crate::figures::TopSample;
use crate::model::TopModel;
use crate::plain::{
    INTERFACE_COLUMNS, LINK_COLUMNS, PORT_COLUMNS, TopColumn, WORKER_COLUMNS, printable,
};
use crate::router::TopRouter;

/// Number of rates in a sparkline.
const SPARKLINE_WIDTH: usize = 16;

/// Draws the links that fit, including the selected one.
pub(super) fn links(screen: &mut Screen<'_>, area: Rect, model: &TopModel) {
    selectable(screen, area, model, &LINK_COLUMNS, &model.sample.links);
}

/// Draws the interfaces of a router that fit, including the selected one.
pub(super) fn interfaces(
    screen: &mut Screen<'_>,
    area: Rect,
    model: &TopModel,
    router: &TopRouter,
) {
    selectable(screen, area, model, &INTERFACE_COLUMNS, &router.interfaces);
}

/// Draws the rows that fit, including the selected one, each with its rate over time.
fn selectable<T>(
    screen: &mut Screen<'_>,
    area: Rect,
    model: &TopModel,
    columns: &[TopColumn<T>],
    all: &[T],
) {
    let rows = usize::from(area.height).saturating_sub(1);
    let first = first_row(model.selected, rows);
    let seen = all.iter().enumerate().skip(first).take(rows);
    let none = VecDeque::new();
    let cells: Vec<(Vec<String>, bool)> = seen
        .map(|(at, row)| {
            let glance = sparkline(model.rates.get(at).unwrap_or(&none));
            let cells = columns.iter().map(|(_, cell)| printable(&cell(row)));
            (cells.chain([glance]).collect(), at == model.selected)
        })
        .collect();
    let headings = columns.iter().map(|(heading, _)| *heading).chain(["rate over time"]);
    render(screen, area, &headings.collect::<Vec<_>>(), cells);
}

/// Draws the ports that fit.
pub(super) fn ports(screen: &mut Screen<'_>, area: Rect, frame: &TopSample) {
    plain(screen, area, &PORT_COLUMNS, &frame.ports);
}

/// Draws the threads of a router that fit.
pub(super) fn workers(screen: &mut Screen<'_>, area: Rect, router: &TopRouter) {
    plain(screen, area, &WORKER_COLUMNS, &router.workers);
}

fn plain<T>(screen: &mut Screen<'_>, area: Rect, columns: &[TopColumn<T>], all: &[T]) {
    let seen = all.iter().take(usize::from(area.height).saturating_sub(1));
    let cells = seen.map(|row| {
        let cells = columns.iter().map(|(_, cell)| printable(&cell(row)));
        (cells.collect::<Vec<_>>(), false)
    });
    let headings: Vec<_> = columns.iter().map(|(heading, _)| *heading).collect();
    render(screen, area, &headings, cells.collect());
}

/// Returns the index of the first visible row if `rows` rows fit, so that `selected` is visible.
pub(super) fn first_row(selected: usize, rows: usize) -> usize {
    (selected + 1).saturating_sub(rows.max(1))
}

/// Draws the columns that fit in the area; the last drawn column may be truncated.
fn render(screen: &mut Screen<'_>, area: Rect, headings: &[&str], rows: Vec<(Vec<String>, bool)>) {
    const COLUMN_GAP: u16 = 2;
    let mut room = area.width;
    let mut widths = Vec::new();
    for (column, heading) in headings.iter().enumerate() {
        let cells = rows.iter().map(|(cells, _)| cells[column].chars().count());
        let widest = cells.chain([heading.chars().count()]).max().unwrap_or(0);
        let width = u16::try_from(widest).unwrap_or(u16::MAX).min(room);
        widths.push(Constraint::Length(width));
        room = room.saturating_sub(width.saturating_add(COLUMN_GAP));
        if room == 0 {
            break;
        }
    }
    let seen = widths.len();
    let rows = rows.into_iter().map(|(cells, selected)| {
        Row::new(cells.into_iter().take(seen)).style(selection_style(selected))
    });
    let header = Row::new(headings.iter().copied().take(seen)).dim();
    screen.render_widget(Table::new(rows, widths).header(header).column_spacing(COLUMN_GAP), area);
}

/// Draws the latest rates in one cell, scaled to their maximum.
fn sparkline(rates: &VecDeque<u64>) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let last = rates.iter().skip(rates.len().saturating_sub(SPARKLINE_WIDTH));
    let highest = last.clone().max().copied().unwrap_or(0).max(1);
    // The product of a rate and 7 fits in 64 bits for every realistic rate.
    let bar = |rate: &u64| BARS[(rate.saturating_mul(7) / highest).min(7) as usize];
    last.map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_row_is_always_seen() {
        assert_eq!([0, 4, 5, 99].map(|selected| first_row(selected, 5)), [0, 0, 1, 95]);
        assert_eq!(first_row(3, 0), 3);
    }

    #[test]
    fn a_glance_is_as_high_as_its_highest_rate() {
        assert_eq!(sparkline(&VecDeque::from([0, 50, 100])), "▁▄█");
        assert_eq!(sparkline(&VecDeque::from([0, 0])), "▁▁");
        assert_eq!(sparkline(&VecDeque::from([u64::MAX; 2])), "▂▂", "absurd, and no panic");
        assert_eq!(sparkline(&(0..100).collect()).chars().count(), SPARKLINE_WIDTH);
    }
}
