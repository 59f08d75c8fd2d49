//! How often the routing thread writes a heartbeat: seldom while the router is idle, since each
//! heartbeat wakes a CPU.

use slipring_port::Nanos;

/// Time between two heartbeats while the router is not idle. The kernel takes over when three
/// heartbeats in a row are missing and the fourth is due.
pub(crate) const BUSY_PERIOD_NS: Nanos = 25_000_000;
/// Time between two heartbeats while the router is idle. It is 30 ms less than the limit after
/// which the programs leave packets to the kernel: 10 ms for a tick of the heartbeats' clock, and
/// 20 ms for a late heartbeat.
const IDLE_PERIOD_NS: Nanos = 70_000_000;
/// A router is idle if its programs have forwarded no packets, and its workers have had no frames,
/// for this time. A router with a thread of subinterfaces never counts as idle.
pub(crate) const IDLE_AFTER_NS: Nanos = 10_000_000_000;

/// When the next heartbeat is due.
pub(crate) struct BeatPace {
    busy_until: Nanos,
    /// Packets that programs have counted so far.
    packets: u64,
}

impl BeatPace {
    pub(crate) const fn new(now: Nanos) -> Self {
        Self { busy_until: now + IDLE_AFTER_NS, packets: 0 }
    }

    /// Compares the programs' packet counts with the previous counts.
    pub(crate) const fn note_packets(&mut self, packets: u64, now: Nanos) {
        if packets != self.packets {
            (self.packets, self.busy_until) = (packets, now + IDLE_AFTER_NS);
        }
    }

    /// Whether programs have counted no packets for a while.
    pub(crate) const fn is_idle(&self, now: Nanos) -> bool {
        now >= self.busy_until
    }

    /// Returns the time to the next heartbeat.
    pub(crate) const fn period(&self, now: Nanos) -> Nanos {
        if self.is_idle(now) { IDLE_PERIOD_NS } else { BUSY_PERIOD_NS }
    }

    /// Returns the time to the next heartbeat if threads forward. `is_idle` is true if all of them
    /// are idle, and programs have counted no packets for a while.
    pub(crate) const fn period_of_threads(is_idle: bool) -> Nanos {
        if is_idle { IDLE_PERIOD_NS } else { BUSY_PERIOD_NS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_is_busy_until_no_packet_has_come_for_a_while_and_at_once_when_one_has() {
        let mut pace = BeatPace::new(0);
        assert_eq!(pace.period(IDLE_AFTER_NS - 1), BUSY_PERIOD_NS);
        assert_eq!(pace.period(IDLE_AFTER_NS), IDLE_PERIOD_NS);
        pace.note_packets(0, IDLE_AFTER_NS);
        assert_eq!(pace.period(IDLE_AFTER_NS), IDLE_PERIOD_NS);
        pace.note_packets(1, IDLE_AFTER_NS);
        assert_eq!(pace.period(2 * IDLE_AFTER_NS - 1), BUSY_PERIOD_NS);
        assert_eq!(pace.period(2 * IDLE_AFTER_NS), IDLE_PERIOD_NS);
    }
}
