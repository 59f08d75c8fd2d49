//! The selected link or interface in detail: its rate over time, its counters, its losses by cause.

use std::time::Duration;

use ratatui::Frame as Screen;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Sparkline};
use slipring_cli::units::human;

use crate::figures::{TopLink, TopLinkRate, TopQuantiles};
use crate::model::TopModel;
use crate::plain::{self, printable};
use crate::router::TopInterface;

/// Draws the selected link.
pub(super) fn draw(screen: &mut Screen<'_>, area: Rect, model: &TopModel) {
    let Some(link) = model.sample.links.get(model.selected) else { return };
    let title = format!(" {}: {} to {} ", link.name, link.from, link.to);
    let asked = match link.asked.rate {
        TopLinkRate::Bps(bps) => bps,
        TopLinkRate::Unlimited | TopLinkRate::Varies => 1,
    };
    row(screen, area, model, &RowDetail { title, asked, lines: figures(link) });
}

/// Draws the selected interface of a router.
pub(super) fn draw_interface(
    screen: &mut Screen<'_>,
    area: Rect,
    model: &TopModel,
    interfaces: &[TopInterface],
) {
    let Some(of) = interfaces.get(model.selected) else { return };
    let title = format!(" {}: {} ", of.name, of.engine);
    let lines = plain::counters(of).map(|line| Line::from(printable(&line)));
    row(screen, area, model, &RowDetail { title, asked: 1, lines: lines.into() });
}

/// The details about the selected row.
struct RowDetail {
    title: String,
    /// The smallest rate, in bits per second, that the top of the chart may stand for.
    asked: u64,
    lines: Vec<Line<'static>>,
}

fn row(screen: &mut Screen<'_>, area: Rect, model: &TopModel, detail: &RowDetail) {
    let block = Block::bordered().title(printable(&detail.title));
    let inner = block.inner(area);
    screen.render_widget(block, area);
    let [scale, rates, text] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(detail.lines.len() as u16),
    ])
    .areas(inner);
    let width = usize::from(rates.width);
    let all = model.rates.get(model.selected);
    let all = all.map(|all| all.iter().copied().collect::<Vec<_>>()).unwrap_or_default();
    let seen = &all[all.len().saturating_sub(width)..];
    // The rate at the top of the chart: the configured rate, or the maximum measured rate if that
    // is higher.
    let top = seen.iter().copied().fold(detail.asked, u64::max);
    screen.render_widget(Line::from(human::bits_per_sec(top as f64)).dim(), scale);
    screen.render_widget(Sparkline::default().data(seen).max(top).green(), rates);
    screen.render_widget(Paragraph::new(detail.lines.clone()), text);
}

fn figures(link: &TopLink) -> Vec<Line<'static>> {
    let since_start = |what, spread: Option<TopQuantiles>| {
        spread.map(|spread| format!("   {what} p50 {} p99 {}", time(spread.p50), time(spread.p99)))
    };
    let delay = since_start("delay", link.total_delay_ns).unwrap_or_default();
    let late_by = since_start("late by", link.total_error_ns).unwrap_or_default();
    let asked_loss = link.asked.loss_share.map_or("varies".to_owned(), plain::percent);
    vec![
        Line::from(printable(&plain::totals(link))),
        Line::from(format!("since the start:{delay}{late_by}   late {}", link.late)),
        Line::from(format!("asked loss {asked_loss}")),
    ]
}

fn time(ns: u64) -> String {
    human::span(Duration::from_nanos(ns))
}
