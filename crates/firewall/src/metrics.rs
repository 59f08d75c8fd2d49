//! The counters of rules and pipes, and the losses, as OpenMetrics text (version 1.0.0). Prometheus
//! reads this format.

use std::collections::BTreeMap;

use slipring_cli::metrics::{MetricsText, NO_LABELS};
use slipring_dummynet::{ObjectKind, ShaperCounters, ShaperDropCause};

use crate::dataplane::{BypassCounters, DataplaneNanos};
use crate::figures::FirewallFigures;
use slipring_rules::command_batch::CommandFault;
use slipring_rules::control_plane::ControlPlane;
use slipring_rules::dataplane::RuleDataplane;

/// Returns the current metrics, with the end mark `# EOF`.
pub(crate) fn text(
    control_plane: &ControlPlane,
    figures: &FirewallFigures,
) -> Result<String, CommandFault> {
    let mut text = MetricsText::default();
    rules(&mut text, control_plane)?;
    pipes(&mut text, &summed(control_plane.run_on_engines(|| pipes_of)?));
    totals(&mut text, figures);
    Ok(text.finish())
}

/// Writes the counters of rules. The label `nth` distinguishes rules that have the same number.
fn rules(text: &mut MetricsText, control_plane: &ControlPlane) -> Result<(), CommandFault> {
    let rules = control_plane.with_master(|master| {
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
            let labels = [
                ("rule", entry.number.to_string()),
                ("nth", before.1.to_string()),
                ("set", entry.rule.set.to_string()),
            ];
            (labels, counters.packets, counters.bytes)
        };
        master.config().list.iter().map(row).collect::<Vec<_>>()
    })?;
    let packets = rules.iter().map(|(labels, packets, _)| (labels.clone(), *packets));
    text.counter("slipring_firewall_rule_packets", "Packets that matched the rule", packets);
    let bytes = rules.iter().map(|(labels, _, bytes)| (labels.clone(), *bytes));
    text.counter("slipring_firewall_rule_bytes", "Bytes of packets that matched the rule", bytes);
    Ok(())
}

/// The counters of one engine's pipes and schedulers, each with kind and number.
type ShaperCounterRows = Vec<((&'static str, u32), ShaperCounters)>;

fn pipes_of(dataplane: &mut dyn RuleDataplane, now: DataplaneNanos) -> ShaperCounterRows {
    let shaper = dataplane.shaper_mut();
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

/// Groups the counters of all engines by pipe or scheduler.
fn summed(all: Vec<ShaperCounterRows>) -> BTreeMap<(&'static str, u32), Vec<ShaperCounters>> {
    let mut sum: BTreeMap<_, Vec<ShaperCounters>> = BTreeMap::new();
    all.into_iter()
        .flatten()
        .for_each(|(key, counters)| sum.entry(key).or_default().push(counters));
    sum
}

/// Writes the counters of pipes and schedulers.
fn pipes(text: &mut MetricsText, pipes: &BTreeMap<(&'static str, u32), Vec<ShaperCounters>>) {
    type PipeCounter = (&'static str, &'static str, fn(&ShaperCounters) -> u64);
    const PIPE_COUNTERS: [PipeCounter; 3] = [
        ("received", "Packets handed in", |counters| counters.received),
        ("released", "Packets that are through", |counters| counters.released),
        ("marked", "Packets marked", |counters| counters.marked),
    ];
    let labels = |(kind, number): (&'static str, u32)| {
        [("kind", kind.to_owned()), ("number", number.to_string())]
    };
    let rows = |part: fn(&ShaperCounters) -> u64| {
        pipes
            .iter()
            .map(move |(&pipe, counters)| (labels(pipe), counters.iter().map(part).sum::<u64>()))
    };
    for (name, help, part) in PIPE_COUNTERS {
        text.counter(&format!("slipring_firewall_pipe_{name}_packets"), help, rows(part));
    }
    let waiting = rows(|counters| counters.queued + counters.delayed);
    text.gauge("slipring_firewall_pipe_waiting_packets", "Packets inside", waiting);
    let lost = pipes.iter().flat_map(|(&pipe, counters)| {
        ShaperDropCause::ALL.into_iter().map(move |cause| {
            let sum: u64 = counters.iter().map(|counters| counters.drops.of(cause)).sum();
            let [kind, number] = labels(pipe);
            ([kind, number, ("cause", cause.name().to_owned())], sum)
        })
    });
    text.counter("slipring_firewall_pipe_lost_packets", "Packets lost, by cause", lost);
}

/// Writes the metrics that have one value for the whole firewall.
fn totals(text: &mut MetricsText, figures: &FirewallFigures) {
    let stats = figures.dataplane_stats();
    let counters = &stats.counters;
    let lost = counters.losses().map(|(cause, count)| ([("cause", cause)], count));
    text.counter("slipring_firewall_lost_packets", "Frames lost, by cause", lost);
    let BypassCounters { arp, non_ip } = counters.bypassed;
    let bypassed = [("arp", arp), ("non_ip", non_ip)].map(|(kind, n)| ([("kind", kind)], n));
    let help = "Frames that passed and met no rules, by kind";
    text.counter("slipring_firewall_bypassed_packets", help, bypassed);
    for (name, help, count) in [
        ("offered_packets", "Frames that came", counters.offered),
        ("sent_packets", "Frames that were sent", counters.sent),
        ("made_packets", "Frames made here", counters.made),
        (
            "suppressed_errors",
            "ICMP errors not sent because of the limits on their rate",
            stats.suppressed_errors,
        ),
        ("log_lines", "Lines of rules with log", figures.log_lines()),
        ("log_missed_lines", "Lines that the log has missed", figures.log_missed()),
    ] {
        text.counter(&format!("slipring_firewall_{name}"), help, [(NO_LABELS, count)]);
    }
    for (name, help, count) in [
        ("states", "States there are", stats.states),
        ("waiting_packets", "Frames in pipes, and fragments", counters.waiting),
    ] {
        text.gauge(&format!("slipring_firewall_{name}"), help, [(NO_LABELS, count)]);
    }
}
