//! A network in virtual time, with frames in memory.

use slipring_link::user::{DelayFactory, LossFactory, RateFactory};
use slipring_link::{
    Carrier, DelayModel, DelaySpec, Delivery, EntryId, FrameArrival, FrameHandle, LinkDropCause,
    LinkSpec, LossModel, LossPosition, LossSpec, LostFrame, Network, NetworkSpec, RateSpec,
};

pub(crate) fn delay(name: &str, model: DelayFactory) -> LinkSpec {
    let delay = DelaySpec { model: DelayModel::User(model), half_life_ns: None };
    LinkSpec { delay, ..LinkSpec::wire(name) }
}

pub(crate) fn loss(name: &str, model: LossFactory) -> LinkSpec {
    let loss = vec![LossSpec { model: LossModel::User(model), position: LossPosition::Pre }];
    LinkSpec { loss, ..LinkSpec::wire(name) }
}

pub(crate) fn rate(name: &str, model: RateFactory) -> LinkSpec {
    LinkSpec { rate: RateSpec::User(model), ..LinkSpec::wire(name) }
}

#[derive(Default)]
struct Frames {
    bytes: Vec<Vec<u8>>,
    releases: Vec<u64>,
    lost: Vec<LinkDropCause>,
}

impl Carrier for Frames {
    fn frame(&mut self, handle: FrameHandle) -> &mut [u8] {
        &mut self.bytes[handle.0 as usize]
    }

    fn copy(&mut self, _: FrameHandle) -> Option<FrameHandle> {
        None
    }

    fn deliver(&mut self, delivery: Delivery) {
        self.releases.push(delivery.release_ns);
    }

    fn lose(&mut self, lost: LostFrame) {
        self.lost.push(lost.cause);
    }
}

pub(crate) struct Sim {
    network: Network,
    frames: Frames,
}

impl Sim {
    pub(crate) fn new(link: LinkSpec, seed: u64) -> Self {
        Self::of(&NetworkSpec::single(link), seed)
    }

    pub(crate) fn between(up: LinkSpec, down: LinkSpec, seed: u64) -> Self {
        Self::of(&NetworkSpec::between("left", "right", up, down), seed)
    }

    fn of(plan: &NetworkSpec, seed: u64) -> Self {
        Self { network: Network::new(plan, seed).unwrap(), frames: Frames::default() }
    }

    pub(crate) fn push(&mut self, at_ns: u64, bytes: &[u8]) {
        self.push_at(0, at_ns, bytes);
    }

    pub(crate) fn push_at(&mut self, entry: u16, at_ns: u64, bytes: &[u8]) {
        let handle = FrameHandle(self.frames.bytes.len() as u32);
        self.frames.bytes.push(bytes.to_vec());
        let arrival = FrameArrival { handle, len: bytes.len() as u32, arrival_ns: at_ns };
        self.network.push(EntryId(entry), &[arrival], &mut self.frames);
    }

    pub(crate) fn change(&mut self, at_ns: u64, link: LinkSpec) {
        self.network.change(at_ns, &NetworkSpec::single(link)).unwrap();
    }

    /// Waits until all frames have left. Returns the time at which each of them left, in ns.
    pub(crate) fn releases(&mut self) -> Vec<u64> {
        while let Some(next_ns) = self.network.next_ns() {
            self.network.run(next_ns, &mut self.frames);
        }
        self.frames.releases.clone()
    }

    /// Waits until all frames have left. Returns the bytes of all frames, including lost ones.
    pub(crate) fn bytes(&mut self) -> Vec<Vec<u8>> {
        self.releases();
        self.frames.bytes.clone()
    }

    /// Waits until all frames have left. Returns how many were lost for this cause.
    pub(crate) fn lost(&mut self, cause: LinkDropCause) -> usize {
        self.releases();
        self.frames.lost.iter().filter(|lost| **lost == cause).count()
    }
}
