//! How often the routing thread beats: seldom while no packets come, since each beat wakes a CPU.

use slipring_port::Nanos;

/// Time between two heartbeats while packets come; three may be late before the kernel takes over.
pub(crate) const BUSY_PERIOD_NS: Nanos = 25_000_000;
/// Time between two heartbeats while none come. Together with a tick of the clock of heartbeats, at
/// most 10 ms, it leaves 20 ms of the programs' limit for a late beat, after which the kernel would
/// forward the first packets.
const IDLE_PERIOD_NS: Nanos = 70_000_000;
/// Without packets for this time, a router is idle.
pub(crate) const IDLE_AFTER_NS: Nanos = 10_000_000_000;

/// When the next heartbeat is due.
pub(crate) struct BeatPace {
    busy_until: Nanos,
    /// Packets that programs have counted.
    packets: u64,
}

impl BeatPace {
    pub(crate) const fn new(now: Nanos) -> Self {
        Self { busy_until: now + IDLE_AFTER_NS, packets: 0 }
    }

    /// Compares what programs have counted with the last time.
    pub(crate) const fn note_packets(&mut self, packets: u64, now: Nanos) {
        if packets != self.packets {
            (self.packets, self.busy_until) = (packets, now + IDLE_AFTER_NS);
        }
    }

    /// The time to the next heartbeat.
    pub(crate) const fn period(&self, now: Nanos) -> Nanos {
        if now < self.busy_until { BUSY_PERIOD_NS } else { IDLE_PERIOD_NS }
    }

    /// The time to the next heartbeat if threads forward: `is_idle` if all of them are idle.
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
