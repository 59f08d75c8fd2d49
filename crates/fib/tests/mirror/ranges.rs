//! An IPv4 table that is quick to create: a map with the first address of each range.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use slipring_classify::dir24::NoBlocks;
use slipring_fib::{Ipv4Lookup, Ipv4Table, TargetIndex};

#[derive(Clone, Debug)]
pub(crate) struct RangeTable {
    ranges: Arc<Mutex<BTreeMap<u32, u16>>>,
    /// The number of addresses that were written.
    written: Arc<AtomicU64>,
}

impl RangeTable {
    pub(crate) fn boxed() -> Box<dyn Ipv4Table> {
        Self::counting().0
    }

    /// Returns an IPv4 table, and the counter of the addresses that are written to it.
    pub(crate) fn counting() -> (Box<dyn Ipv4Table>, Arc<AtomicU64>) {
        let written = Arc::new(AtomicU64::new(0));
        let ranges = Arc::new(Mutex::new([(0, 0)].into()));
        (Box::new(Self { ranges, written: written.clone() }), written)
    }
}

impl Ipv4Table for RangeTable {
    fn reader(&self) -> Arc<dyn Ipv4Lookup> {
        Arc::new(self.clone())
    }

    fn set(&mut self, start: u32, end: u32, ranges: &[(u32, u16)]) -> Result<(), NoBlocks> {
        self.written.fetch_add(u64::from(end - start) + 1, Ordering::Relaxed);
        let mut map = self.ranges.lock().unwrap();
        if let Some(next) = end.checked_add(1) {
            let after = *map.range(..=next).next_back().unwrap().1;
            map.insert(next, after);
        }
        let old: Vec<u32> = map.range(start..=end).map(|range| *range.0).collect();
        map.retain(|start, _| !old.contains(start));
        assert_eq!(ranges[0].0, start);
        map.extend(ranges.iter().copied());
        Ok(())
    }

    fn retired_blocks(&self) -> usize {
        0
    }

    fn reclaim(&mut self, _: usize) {}

    fn free_blocks(&self) -> usize {
        1
    }
}

impl Ipv4Lookup for RangeTable {
    fn lookup(&self, destinations: &[u32], targets: &mut [TargetIndex]) {
        let map = self.ranges.lock().unwrap();
        for (destination, target) in destinations.iter().zip(targets) {
            *target = TargetIndex(*map.range(..=destination).next_back().unwrap().1);
        }
    }
}
