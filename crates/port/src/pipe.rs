//! One end of a pipe as a queue: frames pass between ends without being copied.

use std::os::fd::AsFd;
use std::sync::Arc;

use slipring_ring::{KernRing, PipeEnd, PipePair, Region, SlotFlags};

use crate::error::{OpenError, RunError};
use crate::info::{PortCaps, PortInfo, PortMode};
use crate::options::{OpenOptions, RegionNeeds};
use crate::port::Port;
use crate::queue::{Interest, Queue, QueueRings, TxWait, WaitFds};
use crate::stats::{QueueCounters, TrafficCounts};

/// Returns the memory that a pipe of `queues` ring pairs needs, for both ends together.
#[must_use]
pub fn needs(queues: u32, slots: u32) -> RegionNeeds {
    let mut needs = RegionNeeds::pairs(queues * 2, slots);
    // Only tx slots have buffers. Besides its four rings, each queue needs memory for its shared
    // state.
    needs.bufs /= 2;
    needs.ring_bytes += 1024 * u64::from(queues);
    needs
}

/// Creates a pipe in `region` and opens both its ends, master first. `names` are their names.
///
/// # Errors
/// [`OpenError`] if the region does not have enough memory left.
pub fn open(
    names: [&str; 2],
    queues: u32,
    region: &Arc<Region>,
    options: &OpenOptions,
) -> Result<[Port; 2], OpenError> {
    let mut ends = [Vec::new(), Vec::new()];
    for ringid in 0..queues {
        let pair = PipePair::create(region, ringid as u16, options.slots);
        let PipePair { a, b } = pair.map_err(|error| OpenError::new(names[0], error))?;
        ends[0].push(PipeQueue::boxed(names[0], a));
        ends[1].push(PipeQueue::boxed(names[1], b));
    }
    let [master, slave] = ends;
    Ok([
        Port { info: info(names[0], queues, region, options.slots), queues: master },
        Port { info: info(names[1], queues, region, options.slots), queues: slave },
    ])
}

/// Returns the description of one end.
#[must_use]
pub fn info(name: &str, queues: u32, region: &Region, slots: u32) -> PortInfo {
    PortInfo {
        name: name.to_owned(),
        kind: "pipe",
        mode: PortMode::new().with("mode", "swap").with("queues", queues).with("slots", slots),
        caps: PortCaps {
            rx: true,
            tx: true,
            max_packet: region.buf_size() * 64,
            max_slot: region.buf_size(),
        },
        mac: None,
        mtu: None,
    }
}

/// A [`PipeEnd`] and its counters, as a [`Queue`].
#[derive(Debug)]
pub struct PipeQueue {
    name: String,
    end: PipeEnd,
    counters: Arc<QueueCounters>,
}

impl PipeQueue {
    /// Wraps one end of a pipe as a queue.
    #[must_use]
    pub fn boxed(name: &str, end: PipeEnd) -> Box<dyn Queue> {
        Box::new(Self { name: name.to_owned(), end, counters: Arc::default() })
    }
}

/// Counts packets and bytes in the `count` slots before `end`.
fn traffic(ring: &KernRing, end: u32, count: u32) -> TrafficCounts {
    let start = ring.add(end, ring.num_slots() - count);
    let mut sum = TrafficCounts::default();
    for (_, slot) in ring.slots(start, end) {
        sum.bytes += u64::from(slot.len);
        sum.packets += u64::from(!slot.flags.has(SlotFlags::MOREFRAG));
    }
    sum
}

impl Queue for PipeQueue {
    fn rings(&mut self) -> QueueRings<'_> {
        QueueRings { tx: &mut self.end.tx, rx: &mut self.end.rx }
    }

    #[inline]
    fn tx_sync(&mut self) -> Result<(), RunError> {
        // The slots are counted before the sync, because after it they belong to the peer.
        let from = self.end.tx_kern().hwcur();
        let sum = self.end.pending_tx().map_or(TrafficCounts::default(), |head| {
            traffic(self.end.tx_kern(), head, self.end.tx_kern().pending(head))
        });
        self.end.tx_sync().map_err(|fault| RunError::new(&self.name, fault))?;
        if self.end.tx_kern().hwcur() != from {
            self.counters.sent(sum);
        }
        Ok(())
    }

    #[inline]
    fn rx_sync(&mut self) -> Result<(), RunError> {
        let new = self.end.rx_sync().map_err(|fault| RunError::new(&self.name, fault))?;
        if new > 0 {
            let ring = self.end.rx_kern();
            self.counters.received(traffic(ring, ring.hwtail(), new));
        }
        Ok(())
    }

    fn wait_fds(&self) -> WaitFds<'_> {
        let bell = self.end.doorbells().0.as_fd();
        WaitFds { rx: Some(bell), tx: Some(TxWait::Readable(bell)), link: None }
    }

    fn before_sleep(&mut self, interest: Interest) {
        self.end.announce_sleep(interest.rx, interest.tx);
    }

    fn after_sleep(&mut self) {
        self.end.wake();
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}
