//! The report as text: requested and measured figures side by side.

use slipring_cli::units::human;
use slipring_link::{LinkDropCause, PacketCounts};

use super::histogram::Histogram;
use super::link_report::LinkReport;
use super::measurement::LinkMeasurement;
use super::requested::{percent, time};

/// Width of the columns before the last.
const NAME_WIDTH: usize = 8;
const REQUESTED_WIDTH: usize = 34;

/// Returns a few lines for each link that had frames; if no link had frames, for all links.
pub(crate) fn summary(links: &[LinkReport<'_>]) -> String {
    let busy = |link: &&LinkReport<'_>| link.counters.input.packets > 0;
    let any = links.iter().any(|link| busy(&link));
    let shown = links.iter().filter(|link| !any || busy(link));
    shown.map(link).collect::<Vec<_>>().join("\n")
}

fn link(link: &LinkReport<'_>) -> String {
    let asked = &link.requested;
    let head = format!("{} ({} to {})", link.name, link.from, link.to);
    let mut text =
        format!("{head:<width$}{:<REQUESTED_WIDTH$}measured", "asked", width = NAME_WIDTH + 2);
    if head.len() >= NAME_WIDTH + 2 {
        text = format!(
            "{head}\n{:<width$}{:<REQUESTED_WIDTH$}measured",
            "",
            "asked",
            width = NAME_WIDTH + 2
        );
    }
    for filter in &link.classes {
        text += &row("class", filter, "");
    }
    let counters = &link.counters;
    let of_all = |tally: PacketCounts| format!("{} of {}", tally.packets, counters.input.packets);
    let stage = |name: &str, asked: &Option<String>, seen: String| {
        asked.as_ref().map_or(String::new(), |asked| row(name, asked, &seen))
    };
    let policed = format!("{} dropped", of_all(counters.drops[LinkDropCause::Police]));
    text += &stage("police", &asked.police, policed);
    let measured =
        |figure: fn(&LinkMeasurement) -> String| link.measured.map_or(String::new(), figure);
    text += &row("rate", &asked.rate, &measured(rates));
    text += &row("delay", &asked.delay, &measured(delays));
    text += &row("loss", &asked.loss, &losses(link));
    text += &stage("hold", &asked.hold, format!("{} held", of_all(counters.held)));
    text += &stage("profile", &asked.profile, String::new());
    text += &stage("offset", &asked.offset, String::new());
    text += &stage("mangle", &asked.mangle, format!("{} hit", of_all(counters.mangled)));
    text += &stage("corrupt", &asked.corrupt, format!("{} hit", of_all(counters.corrupted)));
    text += &stage("copies", &asked.duplicate, of_all(counters.copies));
    text += &row("order", asked.order, &measured(order));
    if link.measured.is_some_and(|measured| measured.queue_delay.count() > 0) {
        text += &row("queue", &asked.queue, &measured(queue));
    }
    if link.measured.is_some_and(|measured| measured.error.count() > 0) {
        text += &row("release", "never early", &measured(errors));
    }
    text += &row("frames", "", &balance(link));
    for trouble in &link.model_failures {
        text += &format!("\n  {:<NAME_WIDTH$}{trouble}", "model");
    }
    text
}

fn row(name: &str, asked: &str, measured: &str) -> String {
    let row = format!("\n  {name:<NAME_WIDTH$}{asked:<REQUESTED_WIDTH$}");
    let fits = asked.chars().count() < REQUESTED_WIDTH || measured.is_empty();
    // If the requested value is too long for its column, the measured value goes to the next line.
    let text = match fits {
        true => row + measured,
        false => {
            format!("{row}\n{:<width$}{measured}", "", width = 2 + NAME_WIDTH + REQUESTED_WIDTH)
        }
    };
    text.trim_end().to_owned()
}

fn rates(measured: &LinkMeasurement) -> String {
    let rates = measured.rates();
    let mut text = human::bits_per_sec(rates.mean_bps);
    if let Some(line_bps) = rates.line_bps.filter(|line_bps| *line_bps != rates.mean_bps) {
        text += &format!(" ({} with its framing)", human::bits_per_sec(line_bps));
    }
    text += &format!(", at most {} in 1 ms", human::bits_per_sec(rates.peak_ms_bps));
    match rates.peak_s_bps {
        Some(peak_bps) => text + &format!(", {} in 1 s", human::bits_per_sec(peak_bps)),
        None => text,
    }
}

fn delays(measured: &LinkMeasurement) -> String {
    let delay = &measured.delay;
    match delay.count() {
        0 => "nothing left".to_owned(),
        _ => format!(
            "mean {} sd {} p50 {} p99 {} max {}",
            time(delay.mean().round() as u64),
            time(delay.sd().round() as u64),
            time(delay.quantile(0.5)),
            time(delay.quantile(0.99)),
            time(delay.max())
        ),
    }
}

fn losses(link: &LinkReport<'_>) -> String {
    let modelled = link.counters.drops[LinkDropCause::Loss].packets
        + link.counters.drops[LinkDropCause::Ber].packets;
    let input = link.counters.input.packets;
    let share = if input == 0 { 0.0 } else { modelled as f64 / input as f64 };
    format!("{} ({modelled} of {input})", percent((share * 1e8).round() / 1e8))
}

fn order(measured: &LinkMeasurement) -> String {
    let reordered = measured.order.reordered();
    format!("{reordered} reordered ({})", percent((measured.order.ratio() * 1e8).round() / 1e8))
}

fn queue(measured: &LinkMeasurement) -> String {
    let (bytes, delay) = (&measured.queue_bytes, &measured.queue_delay);
    format!(
        "delay mean {} p99 {} max {}, at most {} B in {} packets",
        time(delay.mean().round() as u64),
        time(delay.quantile(0.99)),
        time(delay.max()),
        bytes.max(),
        measured.queue_packets.max()
    )
}

fn errors(measured: &LinkMeasurement) -> String {
    let late = |histogram: &Histogram| {
        format!(
            "late by p50 {} p99 {} p99.9 {} max {}",
            time(histogram.quantile(0.5)),
            time(histogram.quantile(0.99)),
            time(histogram.quantile(0.999)),
            time(histogram.max())
        )
    };
    match measured.late {
        0 => late(&measured.error),
        count => {
            let above = time(measured.late_above_ns);
            format!("{}; {count} by more than {above}", late(&measured.error))
        }
    }
}

/// Formats a balance: `100 in + 0 copies = 99 out + 1 loss + 0 inside`.
fn balance(link: &LinkReport<'_>) -> String {
    let counters = &link.counters;
    let mut text = format!("{} in", counters.input.packets);
    if counters.copies.packets > 0 {
        text += &format!(" + {} copies", counters.copies.packets);
    }
    text += &format!(" = {} out", counters.output.packets);
    for (cause, tally) in counters.drops.iter().filter(|(_, tally)| tally.packets > 0) {
        text += &format!(" + {} {cause}", tally.packets);
    }
    if counters.in_flight.packets > 0 {
        text += &format!(" + {} inside", counters.in_flight.packets);
    }
    if !counters.is_balanced() {
        text += " (the sum is WRONG: please report this)";
    }
    text
}
