//! The counters that are published for a port.

use slipring_port::{DropCause, QueueSnapshot};
use slipring_top::schema::MetricCounter;

/// Describes the counters. `between` contains the causes for which packets are lost between a port
/// and the links.
pub(super) fn counters(between: &[&'static str]) -> Vec<MetricCounter> {
    let traffic = [
        ("rx.packets", "packets"),
        ("rx.bytes", "bytes"),
        ("tx.packets", "packets"),
        ("tx.bytes", "bytes"),
    ];
    let traffic = traffic.into_iter().map(|(name, unit)| MetricCounter::growing(name, unit));
    let own = DropCause::ALL.iter().map(|cause| cause.name());
    let lost = own.chain(between.iter().copied()).map(|cause| format!("lost.{cause}"));
    traffic.chain(lost.map(|name| MetricCounter::growing(name, "packets"))).collect()
}

/// Appends the values in the order of [`counters`], but not the losses between port and links.
pub(super) fn values(counts: &QueueSnapshot, words: &mut Vec<u64>) {
    let (rx, tx) = (counts.rx, counts.tx);
    words.extend([rx.packets, rx.bytes, tx.packets, tx.bytes]);
    words.extend(DropCause::ALL.iter().map(|cause| counts.dropped(*cause)));
}
