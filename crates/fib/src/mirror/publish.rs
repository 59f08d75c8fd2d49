//! Writes changes of the mirror to the tables, and creates the next snapshot.

use alloc::sync::Arc;

use super::{Mirror, VrfState};
use crate::resync::DumpKind;
use crate::tables::{FibPort, ForwardingTables, VrfTables};

impl Mirror {
    /// Updates the tables after a batch of messages. Returns the new snapshot, or `None` if nothing
    /// has changed, or some table of the kernel was never dumped.
    ///
    /// IPv4 tables change in place, by [`Self::write_ipv4`], which the caller must call when the
    /// readers have the snapshot. Until then, they find the previous routes of IPv4 destinations in
    /// it.
    pub fn publish(&mut self) -> Option<Arc<ForwardingTables>> {
        if !self.resync.is_complete() {
            return None;
        }
        self.settle();
        self.update_targets();
        let has_written = self.write_tables() | self.may_gain_space();
        let (new_ports, ports) = self.links.publish();
        let (new_targets, targets) = self.targets.publish();
        let (new_adjacencies, adjacencies) = self.adjacencies.publish();
        let (new_buckets, buckets) = self.buckets.publish();
        if !(has_written || new_ports || new_targets || new_adjacencies || new_buckets) {
            if self.deferred.ranges.is_empty() {
                self.free_released();
            }
            return None;
        }
        let vrfs =
            self.vrfs.iter().map(|vrf| VrfTables { v4: vrf.v4_reader.clone(), v6: vrf.v6.clone() });
        let generation = self.generation;
        let vrfs = vrfs.collect();
        let tables =
            Arc::new(ForwardingTables { generation, ports, vrfs, targets, adjacencies, buckets });
        self.generation += 1;
        self.vrfs.iter_mut().for_each(|vrf| vrf.v4_retired = vrf.v4.retired_blocks());
        self.snapshots.add(&tables);
        self.published = Some(tables.clone());
        Some(tables)
    }

    /// Whether routes or hosts wait for freed indices or blocks that become available once all
    /// readers use a new snapshot.
    fn may_gain_space(&self) -> bool {
        let has_retired =
            |vrf: &VrfState| !vrf.starved.is_empty() && vrf.v4.retired_blocks() > vrf.v4_retired;
        self.is_starved && self.targets.has_freed() || self.vrfs.iter().any(has_retired)
    }

    /// Returns the router's interfaces; `None` until the kernel has listed all its interfaces. They
    /// are known before the first snapshot.
    pub fn ports(&mut self) -> Option<Arc<[FibPort]>> {
        self.resync.was_dumped(DumpKind::Links).then(|| self.links.publish().1)
    }

    /// Makes freed indices and blocks available again if no reader can use them any more.
    fn settle(&mut self) {
        let Some(newest) = self.published.as_ref().map(|tables| tables.generation) else { return };
        let oldest = self.snapshots.oldest(newest);
        self.targets.settle(oldest);
        self.adjacencies.settle(oldest);
        self.buckets.settle(oldest);
        // Readers of the newest snapshot may still use blocks that were retired after it was made.
        if oldest == newest {
            for vrf in &mut self.vrfs {
                vrf.v4.reclaim(core::mem::take(&mut vrf.v4_retired));
            }
        }
    }
}
