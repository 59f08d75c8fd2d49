//! The words of a port.

use slipring_link::{Cause, Drops, Tally};
use slipring_monitor::names::Counter;
use slipring_port::{DropCause, Snapshot};

use crate::emulate::realtime::State;

/// What they mean; with links there is more that can be lost between them and a port.
pub(super) fn counters(with_links: bool) -> Vec<Counter> {
    let traffic = [
        ("rx.packets", "packets"),
        ("rx.bytes", "bytes"),
        ("tx.packets", "packets"),
        ("tx.bytes", "bytes"),
    ];
    let traffic = traffic.into_iter().map(|(name, unit)| Counter::growing(name, unit));
    let own = DropCause::ALL.iter().map(|cause| cause.name());
    let between = Cause::ALL.iter().filter(|_| with_links).map(|cause| cause.as_str());
    let lost = own.chain(between).map(|cause| format!("lost.{cause}"));
    traffic.chain(lost.map(|name| Counter::growing(name, "packets"))).collect()
}

/// What they are for port `at`, in the same order.
pub(super) fn values(counts: &Snapshot, at: usize, state: Option<&State>, words: &mut Vec<u64>) {
    let (rx, tx) = (counts.rx, counts.tx);
    words.extend([rx.packets, rx.bytes, tx.packets, tx.bytes]);
    words.extend(DropCause::ALL.iter().map(|cause| counts.dropped(*cause)));
    let Some(state) = state else { return };
    let between = between(state, at);
    words.extend(between.iter().map(|(_, tally)| tally.packets));
}

/// What was lost between a port and the links. What no link wanted counts at the first port, as
/// in reports. What left a link and could not be sent is that link's.
fn between(state: &State, at: usize) -> Drops {
    let account = &state.account;
    let refused = account.entries.get(at).map(|entry| entry.refused);
    let mut sum = refused.unwrap_or_default();
    sum.add(Cause::Route, if at == 0 { account.unrouted } else { Tally::default() });
    sum
}
