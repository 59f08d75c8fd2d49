//! A sample as plain text: for output without a terminal, and for the cells of the screen.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use slipring_cli::units::human;

use crate::figures::{
    TopLink, TopLinkRate, TopPort, TopQuantiles, TopSample, TopSpeed, TopTraffic,
};
use crate::router::{TopFib, TopInterface, TopRouter, TopRules, TopWorker};

/// A column: its heading, and the text of its cells.
pub(crate) type TopColumn<T> = (&'static str, fn(&T) -> String);

/// The columns of a link.
pub(crate) const LINK_COLUMNS: [TopColumn<TopLink>; 8] = [
    ("link", |link| link.name.clone()),
    ("asked", |link| rate(link.asked.rate)),
    ("measured", |link| human::bits_per_sec(link.rate_bps)),
    ("asked delay", |link| link.asked.delay_ns.map_or("varies".to_owned(), spread_ns)),
    ("delay p50/p99", |link| optional(link.delay_ns.or(link.total_delay_ns), spread_ns)),
    ("loss", |link| link.loss_share.map_or("-".to_owned(), percent)),
    ("queue p50/p99", |link| optional(link.queue_bytes, spread_bytes)),
    ("late by p50/p99", |link| optional(link.error_ns.or(link.total_error_ns), spread_ns)),
];

/// The columns of a port.
pub(crate) const PORT_COLUMNS: [TopColumn<TopPort>; 4] = [
    ("port", |port| port.name.clone()),
    ("received", |port| speed(port.rx_rate)),
    ("sent", |port| speed(port.tx_rate)),
    ("lost", |port| lost(&port.lost)),
];

/// The columns of an interface of a router.
pub(crate) const INTERFACE_COLUMNS: [TopColumn<TopInterface>; 6] = [
    ("interface", |of| of.name.clone()),
    ("engine", |of| of.engine.clone()),
    ("state", |of| of.state.clone()),
    ("forwarded", |of| speed(of.forwarded_rate)),
    ("to kernel", |of| human::packets_per_sec(of.passed_pps)),
    ("dropped", |of| human::packets_per_sec(of.dropped_pps)),
];

/// The columns of a thread of a router.
pub(crate) const WORKER_COLUMNS: [TopColumn<TopWorker>; 6] = [
    ("worker", |of| of.id.clone()),
    ("received", |of| human::packets_per_sec(of.frames_pps)),
    ("busy", |of| percent((of.busy_share * 1000.0).round() / 1000.0)),
    ("held", |of| of.held.to_string()),
    ("over the rate for the kernel", |of| lost(&of.limited)),
    ("not taken by the kernel", |of| of.failed.to_string()),
];

/// Formats the whole sample.
#[must_use]
pub fn text(frame: &TopSample) -> String {
    let text = head(frame) + "\n";
    match &frame.router {
        Some(router) => text + &self::router(router),
        None => text + &links_and_ports(frame),
    }
}

fn links_and_ports(frame: &TopSample) -> String {
    let mut text = String::new();
    if !frame.links.is_empty() {
        text += "\n";
        text += &table(&LINK_COLUMNS, &frame.links);
        for link in &frame.links {
            let _ = writeln!(text, "{}", printable(&format!("{}: {}", link.name, totals(link))));
        }
    }
    text += "\n";
    text + &table(&PORT_COLUMNS, &frame.ports)
}

fn router(router: &TopRouter) -> String {
    let mut text = format!(
        "{}\n\n{}",
        state(router).join("\n"),
        table(&INTERFACE_COLUMNS, &router.interfaces)
    );
    for of in &router.interfaces {
        for line in counters(of) {
            let _ = writeln!(text, "{}", printable(&format!("{}: {line}", of.name)));
        }
    }
    if !router.workers.is_empty() {
        text += "\n";
        text += &table(&WORKER_COLUMNS, &router.workers);
    }
    text
}

/// Formats `forwarding: 12 IPv4 and 3 IPv6 routes, 4 neighbours; …`, and, if there are rules, a
/// second line with what they have done.
#[must_use]
pub fn state(router: &TopRouter) -> Vec<String> {
    let TopFib { v4, v6, neighbours, generation, resyncs, overruns, refused } = router.fib;
    let state = &router.state;
    let tables = format!(
        "{state}: {v4} IPv4 and {v6} IPv6 routes, {neighbours} neighbours; generation {generation}, \
         {resyncs} resyncs, {overruns} overruns, {refused} refused"
    );
    let rules = router.rules.map(|TopRules { dropped, delayed, waiting, made, unsent }| {
        format!(
            "rules: {dropped} dropped, {delayed} delayed ({waiting} wait), {made} made ({unsent} not sent)"
        )
    });
    std::iter::once(tables).chain(rules).collect()
}

/// Formats the counters of an interface since the start.
#[must_use]
pub fn counters(of: &TopInterface) -> [String; 3] {
    let TopTraffic { packets, bytes } = of.forwarded;
    let by_class = match of.punted.is_empty() {
        true => String::new(),
        false => format!("; by class {}", lost(&of.punted)),
    };
    [
        format!("forwarded {packets} packets, {bytes} bytes"),
        format!("to the kernel {}{by_class}", lost(&of.passed)),
        format!("dropped {}", lost(&of.dropped)),
    ]
}

/// Formats `lab, process 42, 12.5 s: slipring emulate …`
#[must_use]
pub fn head(frame: &TopSample) -> String {
    let name = frame.name.as_ref().map_or(String::new(), |name| format!("{name}, "));
    let elapsed = human::span(Duration::from_nanos(frame.elapsed_ns));
    format!("{name}process {}, {elapsed}: {}", frame.pid, printable(&frame.command))
}

/// Formats `100 in, 97 out, 2 inside, lost 1 queue`
#[must_use]
pub fn totals(link: &TopLink) -> String {
    let [input, output, inside] =
        [link.input, link.output, link.inside].map(|amount| amount.packets);
    format!("{input} in, {output} out, {inside} inside, lost {}", lost(&link.lost))
}

/// Formats `3 queue, 1 loss`
#[must_use]
pub fn lost(lost: &BTreeMap<String, u64>) -> String {
    let causes: Vec<_> = lost.iter().map(|(cause, count)| format!("{count} {cause}")).collect();
    if causes.is_empty() { "0".to_owned() } else { causes.join(", ") }
}

/// Replaces control characters in the text of another program, because they could move the cursor.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn table<T>(columns: &[TopColumn<T>], rows: &[T]) -> String {
    let cells = |row: &T| columns.iter().map(|(_, cell)| printable(&cell(row))).collect();
    let heading = columns.iter().map(|(heading, _)| (*heading).to_owned()).collect();
    let lines: Vec<Vec<String>> = std::iter::once(heading).chain(rows.iter().map(cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<_> = (0..columns.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for line in &lines {
        let padded = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let padded = padded.collect::<Vec<_>>().join("  ");
        text += padded.trim_end();
        text += "\n";
    }
    text
}

fn rate(rate: TopLinkRate) -> String {
    match rate {
        TopLinkRate::Unlimited => "unlimited".to_owned(),
        TopLinkRate::Bps(bps) => human::bits_per_sec(bps as f64),
        TopLinkRate::Varies => "varies".to_owned(),
    }
}

fn speed(speed: TopSpeed) -> String {
    format!("{} {}", human::packets_per_sec(speed.pps), human::bits_per_sec(speed.bps))
}

fn optional<T>(value: Option<T>, say: fn(T) -> String) -> String {
    value.map_or("-".to_owned(), say)
}

fn spread_ns(spread: TopQuantiles) -> String {
    let [p50, p99] = [spread.p50, spread.p99].map(|ns| human::span(Duration::from_nanos(ns)));
    if p50 == p99 { p50 } else { format!("{p50} / {p99}") }
}

fn spread_bytes(spread: TopQuantiles) -> String {
    let [p50, p99] = [spread.p50, spread.p99].map(human::bytes);
    if p50 == p99 { p50 } else { format!("{p50} / {p99}") }
}

/// Formats a share as a percentage with at most three decimals.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        percent if percent < 0.001 => "<0.001 %".to_owned(),
        percent => format!("{} %", (percent * 1000.0).round() / 1000.0),
    }
}
