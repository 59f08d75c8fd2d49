//! `null:`: each tx sync discards the sent frames, and each rx sync puts frames into all free
//! slots. This is for measuring a program without the cost of a port.

use std::sync::Arc;

use slipring_ring::{KernRing, Region, RingHalves, RxRing, SlotFlags, TxRing};

use crate::error::{OpenError, RunError};
use crate::info::{PortCaps, PortInfo, PortMode};
use crate::options::{OpenOptions, RegionNeeds};
use crate::port::Port;
use crate::queue::{Queue, QueueRings, WaitFds};
use crate::stats::{DropCause, QueueCounters, TrafficCounts};

/// Bytes of the frames that a null port delivers.
const FRAME_LEN: u16 = 60;

/// The memory that the port needs from a region.
#[must_use]
pub fn needs(queues: u32, options: &OpenOptions) -> RegionNeeds {
    RegionNeeds::pairs(queues, options.slots)
}

/// Opens a null port of `queues` ring pairs, but at least one.
///
/// # Errors
/// [`OpenError`] if the region does not have enough memory left.
pub fn open(
    name: &str,
    queues: u32,
    region: &Arc<Region>,
    options: &OpenOptions,
) -> Result<Port, OpenError> {
    let make = |ringid| NullQueue::boxed(name, ringid, region, options.slots);
    let queues = (0..queues.max(1)).map(|i| make(i as u16)).collect::<Result<Vec<_>, _>>()?;
    let info = PortInfo {
        name: name.to_owned(),
        kind: "null",
        mode: PortMode::new().with("queues", queues.len()).with("slots", options.slots),
        caps: PortCaps {
            rx: true,
            tx: true,
            max_packet: region.buf_size() * 64,
            max_slot: region.buf_size(),
        },
        mac: None,
        mtu: None,
    };
    Ok(Port { info, queues })
}

struct NullQueue {
    name: String,
    tx: TxRing,
    rx: RxRing,
    tx_kern: KernRing,
    rx_kern: KernRing,
    counters: Arc<QueueCounters>,
}

impl NullQueue {
    fn boxed(
        name: &str,
        ringid: u16,
        region: &Arc<Region>,
        slots: u32,
    ) -> Result<Box<dyn Queue>, OpenError> {
        let refused = |error| OpenError::new(name, error);
        let tx = RingHalves::create(region, ringid, slots).map_err(refused)?;
        let rx = RingHalves::create(region, ringid, slots).map_err(refused)?;
        Ok(Box::new(Self {
            name: name.to_owned(),
            tx: tx.app,
            rx: rx.app,
            tx_kern: tx.kern,
            rx_kern: rx.kern,
            counters: Arc::default(),
        }))
    }
}

impl Queue for NullQueue {
    fn rings(&mut self) -> QueueRings<'_> {
        QueueRings { tx: &mut self.tx, rx: &mut self.rx }
    }

    fn tx_sync(&mut self) -> Result<(), RunError> {
        let ring = &mut self.tx_kern;
        let head = ring
            .released()
            .map_err(|fault| RunError::new(&self.name, slipring_ring::SyncFault::from(fault)))?;
        let mut sum = TrafficCounts::default();
        for (_, slot) in ring.slots(ring.hwcur(), head) {
            if slot.len == 0 {
                self.counters.dropped(DropCause::TxBadSlot, 1);
                continue;
            }
            sum.bytes += u64::from(slot.len);
            sum.packets += u64::from(!slot.flags.has(SlotFlags::MOREFRAG));
        }
        ring.complete_to(head);
        ring.set_tail(ring.prev(head));
        self.counters.sent(sum);
        Ok(())
    }

    fn rx_sync(&mut self) -> Result<(), RunError> {
        let ring = &mut self.rx_kern;
        let head = ring
            .released()
            .map_err(|fault| RunError::new(&self.name, slipring_ring::SyncFault::from(fault)))?;
        ring.complete_to(head);
        let new = ring.free_slots();
        let mut at = ring.hwtail();
        for _ in 0..new {
            ring.set(at, FRAME_LEN, SlotFlags::default());
            at = ring.next(at);
        }
        ring.set_tail(at);
        let packets = u64::from(new);
        self.counters.received(TrafficCounts { packets, bytes: packets * u64::from(FRAME_LEN) });
        Ok(())
    }

    fn wait_fds(&self) -> WaitFds<'_> {
        WaitFds::default()
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}
