//! Ports in memory for the benchmarks of the link emulator. Sources have new frames at every sync,
//! and sinks accept all frames.

use std::sync::Arc;

use slipring_port::{
    Port, PortCaps, PortInfo, PortMode, Queue, QueueCounters, QueueRings, RunError, TrafficCounts,
    WaitFds,
};
use slipring_ring::{
    BUF_SIZE, Geometry, HugePages, KernRing, Region, RingHalves, Rx, RxRing, SlotFlags, Tx, TxRing,
};

use crate::measure::BenchError;

/// Number of slots per ring of [`pair`] and of the floor. A small ring stays in the core's cache.
pub(super) const NUM_SLOTS: u32 = 512;

/// Creates a port that always has frames of `len` bytes, and another that accepts all frames.
pub(super) fn pair(len: u16) -> Result<Vec<Port>, BenchError> {
    let geometry = Geometry { ring_bytes: 1 << 20, bufs: 4 * NUM_SLOTS + 2, buf_size: BUF_SIZE };
    let region = Region::create(geometry, HugePages::Try)?;
    let rings = || {
        Ok::<_, BenchError>((
            RingHalves::create(&region, 0, NUM_SLOTS)?,
            RingHalves::create(&region, 0, NUM_SLOTS)?,
        ))
    };
    Ok(vec![port("source", len, u32::MAX, rings()?), port("sink", 0, 0, rings()?)])
}

/// Returns `count` ports that each have one frame of `len` bytes per sync. Only the first port can
/// send.
pub(super) fn trickles(count: usize, len: u16) -> Result<Vec<Port>, BenchError> {
    const SLOTS_PER_RING: u32 = 4;
    let most = 2 * count as u32;
    let bufs = SLOTS_PER_RING * count as u32 + most + 2;
    let ring_bytes = (2048 * count as u64 + 32 * u64::from(most)).next_multiple_of(1 << 20);
    let region = Region::create(Geometry { ring_bytes, bufs, buf_size: BUF_SIZE }, HugePages::Try)?;
    let one = |i| -> Result<Port, BenchError> {
        let tx = if i == 0 {
            RingHalves::create(&region, 0, most)?
        } else {
            RingHalves::absent(&region, 0)?
        };
        Ok(port("trickle", len, 1, (tx, RingHalves::create(&region, 0, SLOTS_PER_RING)?)))
    };
    (0..count).map(one).collect()
}

fn port(
    name: &str,
    len: u16,
    per_sync: u32,
    (tx, mut rx): (RingHalves<Tx>, RingHalves<Rx>),
) -> Port {
    for i in 0..rx.kern.num_slots() {
        rx.kern.set(i, len, SlotFlags::default());
    }
    let queue = MemoryQueue {
        tx: tx.app,
        rx: rx.app,
        tx_kern: tx.kern,
        rx_kern: rx.kern,
        len,
        per_sync,
        counters: Arc::default(),
    };
    let caps = PortCaps { rx: true, tx: true, max_packet: BUF_SIZE, max_slot: BUF_SIZE };
    let (name, mode) = (name.to_owned(), PortMode::new());
    let info = PortInfo { name, kind: "memory", mode, caps, mac: None, mtu: None };
    Port { info, queues: vec![Box::new(queue)] }
}

struct MemoryQueue {
    tx: TxRing,
    rx: RxRing,
    tx_kern: KernRing,
    rx_kern: KernRing,
    /// Length of received frames. 0 if the port receives none.
    len: u16,
    /// Maximum number of frames received per sync.
    per_sync: u32,
    counters: Arc<QueueCounters>,
}

fn fault(error: impl Into<slipring_ring::SyncFault>) -> RunError {
    RunError::new("memory", error.into())
}

impl Queue for MemoryQueue {
    fn rings(&mut self) -> QueueRings<'_> {
        QueueRings { tx: &mut self.tx, rx: &mut self.rx }
    }

    fn tx_sync(&mut self) -> Result<(), RunError> {
        let ring = &mut self.tx_kern;
        let head = ring.released().map_err(fault)?;
        let sent = ring.pending(head);
        ring.complete_to(head);
        ring.set_tail(ring.prev(head));
        self.counters.sent(TrafficCounts { packets: sent.into(), bytes: 0 });
        Ok(())
    }

    fn rx_sync(&mut self) -> Result<(), RunError> {
        let ring = &mut self.rx_kern;
        let head = ring.released().map_err(fault)?;
        ring.complete_to(head);
        if self.len == 0 {
            return Ok(());
        }
        // The slots keep the length that they had at first. A real device would write descriptors,
        // which are not measured here.
        let new = ring.free_slots().min(self.per_sync);
        ring.set_tail(ring.add(ring.hwtail(), new));
        self.counters.received(TrafficCounts { packets: new.into(), bytes: 0 });
        Ok(())
    }

    fn wait_fds(&self) -> WaitFds<'_> {
        WaitFds::default()
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}
