//! How many hosts of connected subnets the programs have the kernel ask for.

use super::Routing;

impl Routing {
    /// Has the programs ask the kernel for no more hosts in a second than it stores neighbours, for IPv4
    /// and for IPv6; 0 for any number.
    pub(crate) const fn set_neighbour_space(&mut self, sizes: [u32; 2]) {
        self.neighbour_space = sizes;
    }

    /// Sets the limits. There are none if a host that the kernel knows has found no space in the tables:
    /// to the programs, it would look like one for which the kernel is to ask.
    pub(super) fn limit_hosts(&self) {
        let knows_all = self.mirror.knows_all_hosts();
        self.engine.set_host_limits(if knows_all { self.neighbour_space } else { [0; 2] });
    }
}
