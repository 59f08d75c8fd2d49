//! How many hosts of connected subnets the programs have the kernel ask for; the alarm for tables without
//! space.

use super::Routing;

impl Routing {
    /// Sets the limits. There are none if a host that the kernel knows has found no space in the tables:
    /// to the programs, it would look like one for which the kernel is to ask.
    pub(super) fn limit_hosts(&self) {
        self.engine.limit_hosts(self.mirror.knows_all_hosts());
    }

    /// Has the main thread tell of routes and neighbours without space, also when they have become twice as
    /// many.
    pub(super) fn note_unplaced(&mut self) {
        let unplaced = self.mirror.counters().unplaced();
        if unplaced > 2 * self.unplaced {
            self.unplaced = unplaced;
            self.ready.ring();
        }
    }
}
