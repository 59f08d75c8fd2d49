//! Limits how many hosts of connected subnets the BPF programs let the kernel resolve, and warns if
//! the tables are full.

use super::Routing;

impl Routing {
    /// Sets the limits. If the tables lack a host that the kernel knows, for want of space or
    /// because its link has no ARP, there are no limits, because this host looks unresolved to the
    /// BPF programs.
    pub(super) fn limit_hosts(&self) {
        self.engine.limit_hosts(self.mirror.knows_all_hosts());
    }

    /// Makes the main thread warn about routes and neighbours without space, and warn again when
    /// the count has more than doubled.
    pub(super) fn note_unplaced(&mut self) {
        let unplaced = self.mirror.counters().unplaced();
        if unplaced > 2 * self.unplaced {
            self.unplaced = unplaced;
            self.ready.ring();
        }
    }
}
