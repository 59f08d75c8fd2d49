//! Selects the tables for the packets of each interface, according to the kernel's routing rules.
//!
//! From the time at which this thread processes a change of the rules until the new tables are in
//! use, the packets of the interfaces concerned are left to the kernel, in which the change is
//! already in force.

use slipring_fib::{FibPortIndex, VrfIndex};

use super::Routing;
use crate::lookup_tables::LookupTables;

/// The VRF of interfaces whose packets the kernel looks up. It has no tables.
const NO_TABLES: VrfIndex = VrfIndex(u16::MAX);

impl Routing {
    /// Makes lookups use the tables that the kernel's routing rules choose. Packets of interfaces
    /// with unsupported rules are left to the kernel.
    pub(super) fn follow_rules(&mut self) {
        if !self.mirror.knows_rules() {
            return;
        }
        let ifindexes: Vec<u32> = self.ifindexes().collect();
        let LookupTables { vrfs, of_ports } =
            LookupTables::of(&self.mirror, &ifindexes, &self.named_vrfs);
        // The tables that were not read before must be dumped first.
        let before = self.mirror.vrf_configs();
        self.is_behind |= vrfs != before;
        let is_new = |vrf: VrfIndex| before[usize::from(vrf.0)] != vrfs[usize::from(vrf.0)];
        let mut must_wait = false;
        for (at, vrf) in of_ports.iter().enumerate() {
            let waits = *vrf != self.vrf_of[at] || vrf.is_some_and(is_new);
            self.waits[at] |= waits;
            must_wait |= waits;
            // The source of a packet is looked up in the tables of the packet's egress interface.
            // If the router does not follow the rules of that interface, it does not have these
            // tables, so the kernel checks the source.
            self.mirror.set_port_vrf(FibPortIndex(at as u16), vrf.unwrap_or(NO_TABLES));
        }
        for (at, config) in vrfs.iter().enumerate() {
            self.mirror.set_vrf(VrfIndex(at as u16), config.clone());
        }
        let ruled: Vec<bool> = of_ports.iter().map(Option::is_none).collect();
        self.vrf_of = of_ports;
        let has_changed = ruled != self.ruled;
        self.ruled = ruled;
        if must_wait || has_changed {
            self.leave_ruled();
        }
        if has_changed {
            self.ready.ring();
        }
    }

    /// Leaves the packets of an interface to the kernel if its tables are not in use yet, or if
    /// only the kernel has them.
    pub(super) fn leave_ruled(&mut self) {
        for at in 0..self.ruled.len() {
            let is_left = self.ruled[at] || self.waits[at];
            self.engine.set_ruled(FibPortIndex(at as u16), is_left);
        }
        self.tell_what_is_left();
    }

    /// Returns the VRF in which packets of a port are looked up; the first VRF for ports that are
    /// left to the kernel.
    pub(crate) fn vrf_of_port(&self, port: FibPortIndex) -> VrfIndex {
        self.vrf_of.get(usize::from(port.0)).copied().flatten().unwrap_or_default()
    }
}
