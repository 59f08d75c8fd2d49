//! Rules, pipes and losses as OpenMetrics text (version 1.0.0), which Prometheus reads.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use slipring_dummynet::{ObjectKind, ShaperCounters, ShaperDropCause};

use crate::command_batch::CommandFault;
use crate::control_plane::ControlPlane;
use crate::dataplane::{BypassCounters, Dataplane, DataplaneNanos};
use crate::deferred_output::DeferredOutput;
use crate::figures::FirewallFigures;

/// Returns the current metrics, with the end mark.
pub(crate) fn text(desk: &ControlPlane, figures: &FirewallFigures) -> Result<String, CommandFault> {
    let mut text = String::new();
    rules(&mut text, desk)?;
    let pipes = desk.run_on_engines(|| pipes_of)?;
    pipes_text(&mut text, &summed(pipes));
    let shown = figures.dataplane_stats();
    head(&mut text, "lost_packets", "counter", "Frames lost, by cause");
    for (cause, count) in shown.counters.losses() {
        line(&mut text, "lost_packets_total", &format!("cause=\"{cause}\""), count);
    }
    let totals = [
        ("offered", "Frames that came", shown.counters.offered),
        ("sent", "Frames that were sent", shown.counters.sent),
        ("made", "Frames made here", shown.counters.made),
    ];
    let lines = [
        ("log_lines", "Lines of rules with log", figures.log_lines()),
        ("log_missed_lines", "Lines that the log has missed", figures.log_missed()),
    ];
    for (name, meaning, count) in totals {
        head(&mut text, &format!("{name}_packets"), "counter", meaning);
        line(&mut text, &format!("{name}_packets_total"), "", count);
    }
    head(&mut text, "bypassed_packets", "counter", "Frames that passed and met no rules, by kind");
    let BypassCounters { arp, non_ip } = shown.counters.bypassed;
    for (kind, count) in [("arp", arp), ("non_ip", non_ip)] {
        line(&mut text, "bypassed_packets_total", &format!("kind=\"{kind}\""), count);
    }
    for (name, meaning, count) in lines {
        head(&mut text, name, "counter", meaning);
        line(&mut text, &format!("{name}_total"), "", count);
    }
    for (name, meaning, count) in [
        ("states", "States there are", shown.states),
        ("waiting_packets", "Frames in pipes, and fragments", shown.counters.waiting),
    ] {
        head(&mut text, name, "gauge", meaning);
        line(&mut text, name, "", count);
    }
    text.push_str("# EOF\n");
    Ok(text)
}

/// Writes the counters of rules. Rules with the same number are distinguished by their order.
fn rules(text: &mut String, desk: &ControlPlane) -> Result<(), CommandFault> {
    let rules = desk.with_master(|master| {
        let mut before = (0, 0);
        let row = |(entry, counters): (
            &slipring_ipfw::run::RuleEntry,
            &slipring_ipfw::run::RuleCounters,
        )| {
            before = if before.0 == entry.number {
                (entry.number, before.1 + 1)
            } else {
                (entry.number, 0)
            };
            let labels = format!(
                "rule=\"{}\",nth=\"{}\",set=\"{}\"",
                entry.number, before.1, entry.rule.set
            );
            (labels, counters.packets, counters.bytes)
        };
        master.config().list.iter().map(row).collect::<Vec<_>>()
    })?;
    head(text, "rule_packets", "counter", "Packets that matched the rule");
    for (labels, packets, _) in &rules {
        line(text, "rule_packets_total", labels, packets);
    }
    head(text, "rule_bytes", "counter", "Bytes of packets that matched the rule");
    for (labels, _, bytes) in &rules {
        line(text, "rule_bytes_total", labels, bytes);
    }
    Ok(())
}

/// Kind and number of pipes and schedulers, with their counters.
type ShaperCounterRows = Vec<((&'static str, u32), ShaperCounters)>;

fn pipes_of(
    join: &mut Dataplane,
    _: &mut DeferredOutput,
    now: DataplaneNanos,
) -> ShaperCounterRows {
    let shaper = join.shaper_mut();
    let pipes = shaper.show_pipes(now).into_iter().map(|pipe| (ObjectKind::Pipe, pipe.link.number));
    let pipes: Vec<_> = pipes.collect();
    let scheds = shaper.show_scheds(now).into_iter();
    let all: Vec<_> = pipes
        .into_iter()
        .chain(scheds.map(|sched| (ObjectKind::Sched, sched.sched.number)))
        .collect();
    let counted = all.into_iter().filter_map(|(kind, number)| {
        let counters = shaper.counters_of(kind, u16::try_from(number).ok()?)?;
        Some(((kind.name(), number), counters))
    });
    counted.collect()
}

/// Collects the rows of several engines by object.
fn summed(all: Vec<ShaperCounterRows>) -> BTreeMap<(&'static str, u32), Vec<ShaperCounters>> {
    let mut sum: BTreeMap<_, Vec<ShaperCounters>> = BTreeMap::new();
    all.into_iter()
        .flatten()
        .for_each(|(key, counters)| sum.entry(key).or_default().push(counters));
    sum
}

fn pipes_text(text: &mut String, pipes: &BTreeMap<(&'static str, u32), Vec<ShaperCounters>>) {
    type PipeMetric = (&'static str, &'static str, &'static str, fn(&ShaperCounters) -> u64);
    const PIPE_METRICS: [PipeMetric; 4] = [
        ("received_packets", "counter", "Packets handed in", |counters| counters.received),
        ("released_packets", "counter", "Packets that are through", |counters| counters.released),
        ("marked_packets", "counter", "Packets marked", |counters| counters.marked),
        ("waiting_packets", "gauge", "Packets inside", |counters| {
            counters.queued + counters.delayed
        }),
    ];
    for (name, kind, meaning, part) in PIPE_METRICS {
        let name = format!("pipe_{name}");
        head(text, &name, kind, meaning);
        let total = if kind == "counter" { format!("{name}_total") } else { name };
        for ((object, number), counters) in pipes {
            let sum: u64 = counters.iter().map(part).sum();
            line(text, &total, &format!("kind=\"{object}\",number=\"{number}\""), sum);
        }
    }
    head(text, "pipe_lost_packets", "counter", "Packets lost, by cause");
    for ((object, number), counters) in pipes {
        for cause in ShaperDropCause::ALL {
            let sum: u64 = counters.iter().map(|counters| counters.drops.of(cause)).sum();
            let labels =
                format!("kind=\"{object}\",number=\"{number}\",cause=\"{}\"", cause.name());
            line(text, "pipe_lost_packets_total", &labels, sum);
        }
    }
}

fn head(text: &mut String, name: &str, kind: &str, meaning: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# TYPE slipring_firewall_{name} {kind}");
    if name.ends_with("bytes") {
        let _ = writeln!(text, "# UNIT slipring_firewall_{name} bytes");
    }
    let _ = writeln!(text, "# HELP slipring_firewall_{name} {meaning}.");
}

fn line(text: &mut String, name: &str, labels: &str, value: impl Display) {
    let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    let _ = writeln!(text, "slipring_firewall_{name}{labels} {value}");
}
