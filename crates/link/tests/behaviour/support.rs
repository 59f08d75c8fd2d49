//! A carrier in memory and a network in virtual time.

use std::collections::BTreeMap;

use slipring_link::{
    Burst, BurstItem, Carrier, Delivery, EntryId, FrameArrival, FrameHandle, InFlightFrame,
    LinkCounters, LinkDropCause, LinkId, LinkSpec, LostFrame, Network, NetworkSpec, QueueArrival,
    QueueDeparture,
};

/// Stores frames and records all events.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) frames: BTreeMap<FrameHandle, Vec<u8>>,
    /// The frames of bursts, as they arrived, by handle.
    arrivals: BTreeMap<FrameHandle, FrameArrival>,
    next: u32,
    /// Number of copies that may still be made; `None` for no limit.
    pub(crate) room: Option<usize>,
    pub(crate) delivered: Vec<Delivery>,
    /// Bytes of the delivered frames.
    pub(crate) bytes: Vec<Vec<u8>>,
    pub(crate) lost: Vec<LostFrame>,
    pub(crate) queued: Vec<QueueDeparture>,
    pub(crate) joined: Vec<QueueArrival>,
    /// The notifications of the network in order, except those of hops.
    pub(crate) notifications: Vec<Notification>,
    /// For each frame that came to a node: the link, the frame's handle, and the time of the
    /// arrival in ns.
    pub(crate) hops: Vec<(u32, u32, u64)>,
}

/// A notification of the network to its carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notification {
    Delivered,
    Lost,
    Joined,
    Queued,
}

impl Memory {
    pub(crate) fn store(&mut self, bytes: &[u8]) -> FrameHandle {
        let handle = FrameHandle(self.next);
        self.next += 1;
        self.frames.insert(handle, bytes.to_vec());
        handle
    }

    /// Stores 14 zero bytes for a frame of `len` bytes.
    pub(crate) fn blank(&mut self, arrival_ns: u64, len: u32) -> FrameArrival {
        FrameArrival { arrival_ns, handle: self.store(&[0; 14]), len }
    }

    /// Stores a burst of [blank](Self::blank) frames, each with its arrival time and length.
    pub(crate) fn train(&mut self, frames: &[(u64, u32)]) -> Burst {
        let frames: Vec<_> = frames.iter().map(|&(at_ns, len)| self.blank(at_ns, len)).collect();
        self.arrivals.extend(frames.iter().map(|frame| (frame.handle, *frame)));
        Burst {
            handle: frames[0].handle,
            packets: frames.len() as u32,
            bytes: frames.iter().map(|frame| u64::from(frame.len)).sum(),
            first_ns: frames[0].arrival_ns,
            last_ns: frames[frames.len() - 1].arrival_ns,
        }
    }

    pub(crate) fn releases(&self) -> Vec<u64> {
        self.delivered.iter().map(|delivery| delivery.release_ns).collect()
    }

    pub(crate) fn handles(&self) -> Vec<u32> {
        self.delivered.iter().map(|delivery| delivery.handle.0).collect()
    }

    pub(crate) fn lost_to(&self, cause: LinkDropCause) -> usize {
        self.lost.iter().filter(|lost| lost.cause == cause).count()
    }
}

impl Carrier for Memory {
    fn frame(&mut self, handle: FrameHandle) -> &mut [u8] {
        self.frames.get_mut(&handle).expect("the engine knows only frames that are stored")
    }

    fn copy(&mut self, handle: FrameHandle) -> Option<FrameHandle> {
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
        self.notifications.push(Notification::Delivered);
    }

    fn burst_item(&mut self, handle: FrameHandle) -> Option<BurstItem> {
        self.arrivals
            .get(&handle)
            .map(|&frame| BurstItem { frame, next: FrameHandle(handle.0 + 1) })
    }

    fn on_hop(&mut self, link: LinkId, frame: &InFlightFrame) {
        self.hops.push((link.0, frame.handle.0, frame.release_ns));
    }

    fn lose(&mut self, lost: LostFrame) {
        self.frames.remove(&lost.handle).expect("lost once");
        self.lost.push(lost);
        self.notifications.push(Notification::Lost);
    }

    fn on_enqueue(&mut self, joined: QueueArrival) {
        self.joined.push(joined);
        self.notifications.push(Notification::Joined);
    }

    fn on_dequeue(&mut self, queued: QueueDeparture) {
        self.queued.push(queued);
        self.notifications.push(Notification::Queued);
    }
}

/// A network and its carrier.
pub(crate) struct Sim {
    pub(crate) network: Network,
    pub(crate) memory: Memory,
}

impl Sim {
    pub(crate) fn new(plan: &NetworkSpec, seed: u64) -> Self {
        let network = Network::new(plan, seed).unwrap();
        Self { network, memory: Memory::default() }
    }

    /// Builds a single link, which most tests use.
    pub(crate) fn link(spec: LinkSpec) -> Self {
        Self::seeded(spec, 7)
    }

    pub(crate) fn seeded(spec: LinkSpec, seed: u64) -> Self {
        Self::new(&NetworkSpec::single(spec), seed)
    }

    pub(crate) fn push(&mut self, arrival_ns: u64, len: u32) -> FrameHandle {
        self.push_at(0, arrival_ns, len)
    }

    pub(crate) fn push_at(&mut self, entry: u16, arrival_ns: u64, len: u32) -> FrameHandle {
        let arrival = self.memory.blank(arrival_ns, len);
        self.network.push(EntryId(entry), &[arrival], &mut self.memory);
        arrival.handle
    }

    pub(crate) fn push_frame(&mut self, arrival_ns: u64, bytes: &[u8]) -> FrameHandle {
        let handle = self.memory.store(bytes);
        let arrival = FrameArrival { arrival_ns, handle, len: bytes.len() as u32 };
        self.network.push(EntryId(0), &[arrival], &mut self.memory);
        handle
    }

    pub(crate) fn run(&mut self, now_ns: u64) {
        self.network.run(now_ns, &mut self.memory);
    }

    /// Runs until there are no more events.
    pub(crate) fn finish(&mut self) {
        while let Some(next_ns) = self.network.next_ns() {
            self.run(next_ns);
        }
    }

    pub(crate) fn counters(&self) -> LinkCounters {
        self.network.counters(LinkId(0))
    }
}

/// Returns the release times of `count` frames of `len` bytes, one every `gap_ns` from 0 on.
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

/// Returns the delay of each of `count` frames of 60 bytes, one every `gap_ns`.
pub(crate) fn delays(spec: LinkSpec, count: u64, gap_ns: u64) -> Vec<u64> {
    let out = releases(spec, count, 60, gap_ns);
    assert_eq!(out.len() as u64, count, "none is lost");
    out.iter().zip(0..).map(|(release_ns, number)| release_ns - number * gap_ns).collect()
}

/// Returns which of `count` frames, one every microsecond, are lost.
pub(crate) fn losses(spec: LinkSpec, seed: u64, count: u64) -> Vec<bool> {
    let mut sim = Sim::seeded(spec, seed);
    for number in 0..count {
        sim.push(number * 1000, 125);
        sim.run(number * 1000);
    }
    sim.finish();
    let mut lost = vec![false; count as usize];
    sim.memory.lost.iter().for_each(|frame| lost[frame.handle.0 as usize] = true);
    lost
}

/// Returns the lengths of the runs of losses.
pub(crate) fn bursts(lost: &[bool]) -> Vec<usize> {
    lost.chunk_by(|a, b| a == b).filter(|run| run[0]).map(<[bool]>::len).collect()
}

pub(crate) fn mean(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64 / values.len() as f64
}

pub(crate) fn deviation(values: &[u64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|&value| (value as f64 - mean).powi(2)).sum();
    (squares / values.len() as f64).sqrt()
}

/// Asserts that values come from a distribution. `below` returns its probability of at most x.
/// Uses the Kolmogorov–Smirnov test at a significance level of 0.001.
pub(crate) fn assert_distribution(values: &[u64], below: impl Fn(f64) -> f64) {
    let mut sorted: Vec<f64> = values.iter().map(|&value| value as f64).collect();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let distance = sorted
        .iter()
        .enumerate()
        .map(|(rank, &x)| {
            let p = below(x);
            (p - rank as f64 / n).abs().max(((rank + 1) as f64 / n - p).abs())
        })
        .fold(0.0, f64::max);
    assert!(distance < 1.95 / n.sqrt(), "distance {distance}");
}
