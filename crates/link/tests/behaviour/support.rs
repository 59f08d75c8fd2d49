//! Frames in memory and a network in virtual time.

use std::collections::BTreeMap;

use slipring_link::{
    Arrival, Carrier, Cause, Counters, Delivery, EntryId, Handle, LinkId, LinkSpec, Lost, Network,
    NetworkSpec, Queued,
};

/// Keeps frames and everything that became of them.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) frames: BTreeMap<Handle, Vec<u8>>,
    next: u32,
    /// How many copies may still be made.
    pub(crate) room: Option<usize>,
    pub(crate) delivered: Vec<Delivery>,
    /// Bytes of what was delivered.
    pub(crate) bytes: Vec<Vec<u8>>,
    pub(crate) lost: Vec<Lost>,
    pub(crate) queued: Vec<Queued>,
}

impl Memory {
    pub(crate) fn store(&mut self, bytes: &[u8]) -> Handle {
        let handle = Handle(self.next);
        self.next += 1;
        self.frames.insert(handle, bytes.to_vec());
        handle
    }

    /// A frame of zeros.
    pub(crate) fn blank(&mut self, arrival_ns: u64, len: u32) -> Arrival {
        Arrival { arrival_ns, handle: self.store(&[0; 14]), len }
    }

    pub(crate) fn releases(&self) -> Vec<u64> {
        self.delivered.iter().map(|delivery| delivery.release_ns).collect()
    }

    pub(crate) fn handles(&self) -> Vec<u32> {
        self.delivered.iter().map(|delivery| delivery.handle.0).collect()
    }

    pub(crate) fn lost_to(&self, cause: Cause) -> usize {
        self.lost.iter().filter(|lost| lost.cause == cause).count()
    }
}

impl Carrier for Memory {
    fn frame(&mut self, handle: Handle) -> &mut [u8] {
        self.frames.get_mut(&handle).expect("the engine knows only frames that are stored")
    }

    fn copy(&mut self, handle: Handle) -> Option<Handle> {
        match &mut self.room {
            Some(0) => return None,
            Some(room) => *room -= 1,
            None => {}
        }
        let bytes = self.frames[&handle].clone();
        Some(self.store(&bytes))
    }

    fn deliver(&mut self, delivery: Delivery) {
        let bytes = self.frames.remove(&delivery.handle).expect("delivered once");
        self.bytes.push(bytes);
        self.delivered.push(delivery);
    }

    fn lose(&mut self, lost: Lost) {
        self.frames.remove(&lost.handle).expect("lost once");
        self.lost.push(lost);
    }

    fn queued(&mut self, queued: Queued) {
        self.queued.push(queued);
    }
}

/// A network and its memory.
pub(crate) struct Sim {
    pub(crate) network: Network,
    pub(crate) memory: Memory,
}

impl Sim {
    pub(crate) fn new(plan: &NetworkSpec, seed: u64) -> Self {
        let network = Network::new(plan, seed).unwrap();
        Self { network, memory: Memory::default() }
    }

    /// One link, which everything below is about unless it says otherwise.
    pub(crate) fn link(spec: LinkSpec) -> Self {
        Self::seeded(spec, 7)
    }

    pub(crate) fn seeded(spec: LinkSpec, seed: u64) -> Self {
        Self::new(&NetworkSpec::single(spec), seed)
    }

    pub(crate) fn push(&mut self, arrival_ns: u64, len: u32) -> Handle {
        self.push_at(0, arrival_ns, len)
    }

    pub(crate) fn push_at(&mut self, entry: u16, arrival_ns: u64, len: u32) -> Handle {
        let arrival = self.memory.blank(arrival_ns, len);
        self.network.push(EntryId(entry), &[arrival], &mut self.memory);
        arrival.handle
    }

    pub(crate) fn push_frame(&mut self, arrival_ns: u64, bytes: &[u8]) -> Handle {
        let handle = self.memory.store(bytes);
        let arrival = Arrival { arrival_ns, handle, len: bytes.len() as u32 };
        self.network.push(EntryId(0), &[arrival], &mut self.memory);
        handle
    }

    pub(crate) fn run(&mut self, now_ns: u64) {
        self.network.run(now_ns, &mut self.memory);
    }

    /// Runs until nothing is left to do.
    pub(crate) fn finish(&mut self) {
        while let Some(next_ns) = self.network.next_ns() {
            self.run(next_ns);
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        self.network.counters(LinkId(0))
    }
}

/// Releases of `count` frames of `len`, one every `gap_ns` from 0.
pub(crate) fn releases(spec: LinkSpec, count: u64, len: u32, gap_ns: u64) -> Vec<u64> {
    let mut sim = Sim::link(spec);
    for number in 0..count {
        sim.push(number * gap_ns, len);
        if number % 64 == 0 {
            sim.run(number * gap_ns);
        }
    }
    sim.finish();
    sim.memory.releases()
}
