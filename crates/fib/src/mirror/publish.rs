//! Writes changes of the mirror to the tables, and creates the next snapshot.

use alloc::sync::Arc;

use super::Mirror;
use crate::resync::DumpKind;
use crate::tables::{FibPort, ForwardingTables, VrfTables};

impl Mirror {
    /// Updates the tables after a batch of messages. Returns the new snapshot, or `None` if nothing
    /// has changed, or some table of the kernel was never dumped.
    ///
    /// IPv4 tables change in place, so a reader of an older snapshot sees part of the change.
    pub fn publish(&mut self) -> Option<Arc<ForwardingTables>> {
        if !self.resync.is_complete() {
            return None;
        }
        self.settle();
        self.update_targets();
        let has_written = self.write_tables();
        let (new_ports, ports) = self.links.publish();
        let (new_targets, targets) = self.targets.publish();
        let (new_adjacencies, adjacencies) = self.adjacencies.publish();
        let (new_buckets, buckets) = self.buckets.publish();
        if !(has_written || new_ports || new_targets || new_adjacencies || new_buckets) {
            return None;
        }
        let vrfs =
            self.vrfs.iter().map(|vrf| VrfTables { v4: vrf.v4_reader.clone(), v6: vrf.v6.clone() });
        let generation = self.generation;
        let vrfs = vrfs.collect();
        let tables =
            Arc::new(ForwardingTables { generation, ports, vrfs, targets, adjacencies, buckets });
        self.generation += 1;
        self.snapshots.add(&tables);
        self.published = Some(tables.clone());
        Some(tables)
    }

    /// Returns the router's interfaces as soon as the kernel has listed all interfaces, which is
    /// before the first snapshot.
    pub fn ports(&mut self) -> Option<Arc<[FibPort]>> {
        self.resync.was_dumped(DumpKind::Links).then(|| self.links.publish().1)
    }

    /// Makes indices and blocks available again after the last reader that could use them has
    /// ended.
    fn settle(&mut self) {
        let Some(newest) = self.published.as_ref().map(|tables| tables.generation) else { return };
        let oldest = self.snapshots.oldest(newest);
        self.targets.settle(oldest);
        self.adjacencies.settle(oldest);
        self.buckets.settle(oldest);
        // Blocks are retired while tables are written, that is before the newest snapshot exists.
        // So they are free only when all readers use the newest one.
        if oldest == newest {
            self.vrfs.iter_mut().for_each(|vrf| vrf.v4.reclaim());
        }
    }
}
