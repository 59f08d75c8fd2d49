//! The words of a port.

use slipring_monitor::names::Counter;
use slipring_port::{DropCause, Snapshot};

/// What they mean; `between` are the causes of losses between it and what is behind it.
pub(super) fn counters(between: &[&'static str]) -> Vec<Counter> {
    let traffic = [
        ("rx.packets", "packets"),
        ("rx.bytes", "bytes"),
        ("tx.packets", "packets"),
        ("tx.bytes", "bytes"),
    ];
    let traffic = traffic.into_iter().map(|(name, unit)| Counter::growing(name, unit));
    let own = DropCause::ALL.iter().map(|cause| cause.name());
    let lost = own.chain(between.iter().copied()).map(|cause| format!("lost.{cause}"));
    traffic.chain(lost.map(|name| Counter::growing(name, "packets"))).collect()
}

/// What they are, in the same order, without those of losses between.
pub(super) fn values(counts: &Snapshot, words: &mut Vec<u64>) {
    let (rx, tx) = (counts.rx, counts.tx);
    words.extend([rx.packets, rx.bytes, tx.packets, tx.bytes]);
    words.extend(DropCause::ALL.iter().map(|cause| counts.dropped(*cause)));
}
