//! Warnings about settings that are valid but may have surprising effects.

use std::time::Duration;

use slipring_cli::units::human;
use slipring_link::{
    DelayModel, LinkQueueSpec, LinkSpec, NetworkLink, NetworkSpec, OrderPolicy, RateSpec,
};

use crate::config::{self, RunOutputs};

/// Returns all warnings. `unasked` are the names of the links with a default queue, `later` are the
/// networks after each scheduled change.
pub(super) fn of(
    network: &NetworkSpec,
    later: &[NetworkSpec],
    outputs: &RunOutputs,
    unasked: &[&str],
) -> Vec<String> {
    [
        short_queues(network, unasked),
        idle_queues(network, later),
        fast_changing_delays(network),
        idle_delays(network),
        missed_means(network),
        mahimahi_multi_link(network, outputs),
    ]
    .concat()
}

/// Returns warnings about delays that change faster than frames can follow without overtaking. If
/// the half-life is below `MIN_RATIO` times the standard deviation, the delay may fall by more than
/// the time that passes. Frames are then delayed further to keep their order. So the actual delay
/// has neither the requested mean nor the requested deviation.
fn fast_changing_delays(network: &NetworkSpec) -> Vec<String> {
    const MIN_RATIO: f64 = 6.6;
    let warning = |link: &NetworkLink| {
        let (DelayModel::Random(dist), OrderPolicy::Correlated) =
            (&link.spec.delay.model, link.spec.order)
        else {
            return None;
        };
        let half_life_ns = link.spec.delay.half_life_ns?;
        let least_ns = MIN_RATIO * dist.sd_ns();
        let span = |ns: u64| human::span(Duration::from_nanos(ns));
        ((half_life_ns as f64) < least_ns).then(|| {
            format!(
                "the half-life of {}, {}, is too short for a delay that deviates by {}: frames \
                 wait for those before them and the mean delay grows; from {} on it is kept",
                link.spec.name,
                span(half_life_ns),
                span(dist.sd_ns() as u64),
                span(least_ns as u64)
            )
        })
    };
    network.links.iter().filter_map(warning).collect()
}

/// Returns warnings about half-lives of delays that are not random, and about offsets above
/// constant delays.
fn idle_delays(network: &NetworkSpec) -> Vec<String> {
    let warnings = |link: &NetworkLink| {
        let LinkSpec { name, delay, offset_ns, .. } = &link.spec;
        let varies = matches!(delay.model, DelayModel::Random(_));
        let half_life = (delay.half_life_ns.is_some() && !varies)
            .then(|| format!("the half-life of {name} does nothing: its delay is not random"));
        let offset = match delay.model {
            DelayModel::Constant(delay_ns) if *offset_ns > delay_ns => Some(format!(
                "the offset of {name} is more than its delay of {}: frames leave at once",
                human::span(Duration::from_nanos(delay_ns))
            )),
            _ => None,
        };
        [half_life, offset]
    };
    network.links.iter().flat_map(warnings).flatten().collect()
}

/// Returns warnings about distributions whose mean changes because they are truncated.
fn missed_means(network: &NetworkSpec) -> Vec<String> {
    const MIN_REPORTED_SHARE: f64 = 0.01;
    let warning = |link: &NetworkLink| {
        let DelayModel::Random(dist) = &link.spec.delay.model else { return None };
        let missed =
            config::MeanMismatch::of(dist).filter(|missed| missed.share() > MIN_REPORTED_SHARE)?;
        Some(format!("the delay of {} is cut: its mean is {missed}", link.spec.name))
    };
    network.links.iter().filter_map(warning).collect()
}

/// Returns a warning if there are more links than mahimahi's format expects, one per direction:
/// each log then covers a whole path, and has the name of the path's first link.
fn mahimahi_multi_link(network: &NetworkSpec, outputs: &RunOutputs) -> Vec<String> {
    let alone = network.classes.is_empty() && network.nodes.is_empty();
    let Some(prefix) = outputs.mahimahi.as_ref().filter(|_| !alone) else { return Vec::new() };
    vec![format!(
        "logs {}.LINK tell of the whole way from a port to another, by whichever links: in \
         mahimahi's form there is one link in each direction; --log names the link of each loss",
        prefix.display()
    )]
}

/// Returns warnings about queues in which no frame ever waits, because their links never have a
/// rate.
fn idle_queues(network: &NetworkSpec, later: &[NetworkSpec]) -> Vec<String> {
    let has_rate = |link: &NetworkLink| link.spec.rate != RateSpec::Unlimited;
    let gets_one = |name: &str| {
        let mut links = later.iter().flat_map(|network| &network.links);
        links.any(|link| link.spec.name == name && has_rate(link))
    };
    let idle = network.links.iter().filter(|link| {
        link.spec.queue != LinkQueueSpec::default() && !has_rate(link) && !gets_one(&link.spec.name)
    });
    idle.map(|link| {
        format!(
            "the queue of {} does nothing: without a rate (-B) no frame waits in it",
            link.spec.name
        )
    })
    .collect()
}

/// Returns warnings about default queues that are too short for a TCP connection whose round trip
/// passes all links.
fn short_queues(network: &NetworkSpec, unasked: &[&str]) -> Vec<String> {
    let round_trip_ns: f64 =
        network.links.iter().map(|link| config::mean_delay_ns(&link.spec)).sum();
    let small = network.links.iter().filter(|link| unasked.contains(&link.spec.name.as_str()));
    small
        .filter_map(|link| {
            let RateSpec::Constant { bps } = link.spec.rate else { return None };
            let bytes = link.spec.queue.bytes?;
            let needed = bps as f64 * round_trip_ns / 8e9;
            let message = format!(
                "the queue of {} holds {bytes} bytes, as for TLEM; one TCP needs about {needed:.0} \
                 bytes to fill the link (-Q)",
                link.spec.name
            );
            (needed > bytes as f64).then_some(message)
        })
        .collect()
}
