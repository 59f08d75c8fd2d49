//! How often the routing thread writes a heartbeat, and how long it is valid: while the router is
//! idle, heartbeats are seldom, since each of them wakes a CPU.

use slipring_port::Nanos;

/// Time between two heartbeats while the router is not idle. The kernel takes over when three
/// heartbeats in a row are missing and the fourth is due.
pub(crate) const BUSY_PERIOD_NS: Nanos = 25_000_000;
/// Time between two heartbeats while the router is idle. It is 30 ms less than the time for which
/// such a heartbeat is valid: 10 ms for a tick of the heartbeats' clock, and 20 ms for a late
/// heartbeat.
const IDLE_PERIOD_NS: Nanos = 120_000_000;
/// How far ahead of the clock an idle router writes its heartbeats. The programs accept a heartbeat
/// until it is 100 ms old, so they leave packets to the kernel 150 ms after the last one.
const IDLE_LEAD_NS: Nanos = 50_000_000;
/// A router is idle if its programs have forwarded no packets, and its workers have had no frames,
/// for this time. A router with a thread of subinterfaces never counts as idle.
pub(crate) const IDLE_AFTER_NS: Nanos = 10_000_000_000;

/// Decides by the programs' packet counts whether the router is idle.
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
}

/// How often heartbeats are written, and which time they contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BeatInterval {
    /// Time from one heartbeat to the next.
    pub(crate) period: Nanos,
    /// How far the time in a heartbeat is ahead of the time up to which all messages of the kernel
    /// have been read.
    pub(crate) lead: Nanos,
}

impl BeatInterval {
    pub(crate) const BUSY: Self = Self { period: BUSY_PERIOD_NS, lead: 0 };
    const IDLE: Self = Self { period: IDLE_PERIOD_NS, lead: IDLE_LEAD_NS };

    /// The interval of a router that is idle or not.
    pub(crate) const fn of(is_idle: bool) -> Self {
        if is_idle { Self::IDLE } else { Self::BUSY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_is_busy_until_no_packet_has_come_for_a_while_and_at_once_when_one_has() {
        let mut pace = BeatPace::new(0);
        assert!(!pace.is_idle(IDLE_AFTER_NS - 1));
        assert!(pace.is_idle(IDLE_AFTER_NS));
        pace.note_packets(0, IDLE_AFTER_NS);
        assert!(pace.is_idle(IDLE_AFTER_NS));
        pace.note_packets(1, IDLE_AFTER_NS);
        assert!(!pace.is_idle(2 * IDLE_AFTER_NS - 1));
        assert!(pace.is_idle(2 * IDLE_AFTER_NS));
    }
}
