//! Tests of a queue's rx side and tx side, over a fake device that consists of lists. The tests
//! check what the common code guarantees to every driver.

mod delegated;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use slipring_ring::{BufIdx, Geometry, HugePages, Region, RingHalves, Rx, SlotFlags, Tx};

use super::dma::DmaMemory;
use super::dma::fake::{BASE, FakeDma};
use super::*;
use crate::stats::QueueCounters;

const SLOTS: u32 = 64;
const BUF_SIZE: u32 = 2048;

/// A device whose descriptors are lists of addresses, like those of a NIC.
struct FakeDevice {
    dma: FakeDma,
    pending: Vec<u64>,
    queued: VecDeque<u64>,
    done: VecDeque<(u64, u32)>,
}

impl FakeDevice {
    fn new(region: &Region) -> Self {
        let mut dma = FakeDma::default();
        dma.map_buffers(region).unwrap();
        Self { dma, pending: Vec::new(), queued: VecDeque::new(), done: VecDeque::new() }
    }

    fn address(&self, buf: BufIdx) -> u64 {
        self.dma.address_of(buf).expect("only buffers of the port are given to the device")
    }

    fn buf(address: u64) -> BufIdx {
        BufIdx(((address - BASE) / u64::from(BUF_SIZE)) as u32)
    }

    /// Makes the device process the descriptors at these indices of its list.
    fn work(&mut self, at: impl IntoIterator<Item = usize>, len: u32) {
        let taken: Vec<_> = at.into_iter().map(|i| self.queued[i]).collect();
        self.queued.retain(|address| !taken.contains(address));
        self.done.extend(taken.into_iter().map(|address| (address, len)));
    }
}

impl RxDescriptorRings for FakeDevice {
    fn max_part(&self) -> u32 {
        BUF_SIZE - 256
    }

    fn has_room(&mut self) -> bool {
        self.queued.len() + self.pending.len() < SLOTS as usize
    }

    fn post(&mut self, buf: BufIdx) {
        self.pending.push(self.address(buf));
    }

    fn publish(&mut self) {
        self.queued.extend(self.pending.drain(..));
    }

    fn refresh(&mut self) -> u32 {
        self.done.len() as u32
    }

    fn peek(&self, i: u32) -> RxDescriptor {
        let (address, len) = self.done[i as usize];
        RxDescriptor { buf: Self::buf(address), offset: 256, len, more: false }
    }

    fn settle(&self, _region: &Region, _descriptor: RxDescriptor) {}

    fn release(&mut self, count: u32) {
        self.done.drain(..count as usize);
    }
}

impl TxDescriptorRings for FakeDevice {
    fn max_part(&self) -> u32 {
        BUF_SIZE - 256
    }

    fn has_tail(&self, _buf: BufIdx) -> bool {
        false
    }

    fn has_room(&mut self, count: u32) -> bool {
        self.queued.len() + self.pending.len() + count as usize <= SLOTS as usize
    }

    fn push(&mut self, buf: BufIdx, at: u32, _len: u32, _more: bool) {
        self.pending.push(self.address(buf) + u64::from(at));
    }

    fn push_tail(&mut self, _buf: BufIdx, _len: u32, _more: bool) {
        unreachable!("there is none")
    }

    fn publish(&mut self) {
        self.queued.extend(self.pending.drain(..));
    }

    fn refresh_completed(&mut self) -> u32 {
        self.done.len() as u32
    }

    fn peek_completed(&self, i: u32) -> BufIdx {
        Self::buf(self.done[i as usize].0)
    }

    fn release_completed(&mut self, count: u32) {
        self.done.drain(..count as usize);
    }
}

fn region() -> Arc<Region> {
    let geometry = Geometry { ring_bytes: 1 << 16, bufs: 4 * SLOTS, buf_size: BUF_SIZE };
    Region::create(geometry, HugePages::Never).unwrap()
}

#[test]
fn frames_arrive_in_the_device_s_order_and_every_buffer_stays_with_one_owner() {
    let region = region();
    let mut device = FakeDevice::new(&region);
    let RingHalves { mut app, kern } = RingHalves::<Rx>::create(&region, 0, SLOTS).unwrap();
    let counters = Arc::<QueueCounters>::default();
    let mut side = RxSide::start(kern, &mut device, 0, OffloadFixup::none(), counters.clone());
    let all: BTreeSet<_> = device.queued.iter().copied().collect();
    assert_eq!(all.len(), SLOTS as usize, "all slots of a new ring are the driver's");
    for (round, order) in [[5, 0, 9], [2, 1, 0], [7, 30, 11]].into_iter().enumerate() {
        device.work(order, 60 + round as u32);
        assert!(side.sync(&mut device).unwrap());
        assert_eq!(app.avail(), 3);
        assert!((0..3).all(|i| u32::from(app.slot(i).unwrap().len) == 60 + round as u32));
        app.advance(3);
        assert!(!side.sync(&mut device).unwrap(), "nothing has come since");
        // The buffers of slots that were read are posted again.
        assert_eq!(device.queued.iter().copied().collect::<BTreeSet<_>>(), all);
    }
    assert_eq!(counters.snapshot().rx.packets, 9);
}

#[test]
fn completions_in_any_order_free_slots_in_order_and_a_broken_slot_is_dropped() {
    let region = region();
    let mut device = FakeDevice::new(&region);
    let RingHalves { mut app, kern } = RingHalves::<Tx>::create(&region, 0, SLOTS).unwrap();
    let counters = Arc::<QueueCounters>::default();
    let limits = TxLimits { packet: 1514, chains: false, enabled: true };
    let mut side = TxSide::new(kern, limits, counters.clone());
    let mut kicks = 0;
    for i in 0..5 {
        // Slot 2 has no bytes, as if the program had corrupted it.
        app.set(i, if i == 2 { 0 } else { 60 }, SlotFlags::default());
    }
    app.advance(5);
    side.sync(&mut device, |_, device| {
        kicks += device.queued.len();
        Ok(())
    })
    .unwrap();
    assert_eq!((kicks, side.packets_out()), (4, 4));
    device.work([3, 1], 60);
    side.sync(&mut device, |_, _| Ok(())).unwrap();
    assert_eq!(side.packets_out(), 2);
    device.work([1, 0], 60);
    side.sync(&mut device, |_, _| Ok(())).unwrap();
    assert_eq!((side.packets_out(), app.avail()), (0, SLOTS - 1));
    assert_eq!(side.packets_done(), 4, "grows although as many may be queued");
    let snapshot = counters.snapshot();
    assert_eq!((snapshot.tx.packets, snapshot.drops().map(|(_, n)| n).sum::<u64>()), (4, 1));
}

#[test]
fn what_the_device_had_is_free_again_when_the_queue_is_closed() {
    let region = region();
    let before = region.free_bufs();
    {
        let mut device = FakeDevice::new(&region);
        let RingHalves { app: _app, kern } = RingHalves::<Rx>::create(&region, 0, SLOTS).unwrap();
        let mut side = RxSide::start(
            kern,
            &mut device,
            8,
            OffloadFixup::none(),
            Arc::<QueueCounters>::default(),
        );
        device.work([4, 3, 2], 60);
        side.sync(&mut device).unwrap();
    }
    assert_eq!(region.free_bufs(), before);
}
