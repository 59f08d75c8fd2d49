//! Frames that one join has another one shape: pipes and queues are in one place, flows are not.

use slipring_dummynet::ShaperTarget;
use slipring_ipfw::run::PacketMetadata;

use super::frame_store::ShapedFrame;
use super::neighbors::LearnedNeighbor;
use super::{Dataplane, DataplaneLoss, DataplaneNanos, DataplaneOutput};

/// Number of a join among those that share ports.
pub type DataplaneId = u16;
/// The join that shapes for all.
const SHAPER_ID: DataplaneId = 0;

/// A frame on its way between two joins.
#[derive(Debug)]
pub struct Handoff {
    bytes: Vec<u8>,
    crossing: PacketMetadata,
    /// Where its flow is known.
    owner: DataplaneId,
    /// Where it wants to be shaped; `None` on its way back.
    object: Option<ShaperTarget>,
}

impl Handoff {
    /// The join that it belongs to.
    #[must_use]
    pub const fn owner(&self) -> DataplaneId {
        self.owner
    }
}

/// What a join has to do with others. Nothing, mostly.
#[derive(Debug, Default)]
pub(super) struct RemotePackets {
    own_id: DataplaneId,
    /// There are others.
    is_shared: bool,
    /// The one that shapes has too much to do.
    pub(super) is_congested: bool,
    handoffs: Vec<Handoff>,
    learned_neighbors: Vec<LearnedNeighbor>,
    /// Frames of others that were lost in pipes.
    foreign_losses: u64,
}

impl RemotePackets {
    pub(super) const fn own_id(&self) -> DataplaneId {
        self.own_id
    }

    pub(super) const fn shapes_elsewhere(&self) -> bool {
        self.own_id != SHAPER_ID
    }

    /// Others shall know, too, where a neighbour is.
    pub(super) fn announce(&mut self, told: LearnedNeighbor) {
        if self.is_shared {
            self.learned_neighbors.push(told);
        }
    }
}

impl Dataplane {
    /// The same as one of several, to which flows are dealt out.
    #[must_use]
    pub fn with_id(mut self, own: DataplaneId) -> Self {
        self.remote = RemotePackets { own_id: own, is_shared: true, ..RemotePackets::default() };
        self
    }

    /// What is to go to other joins: for the one that shapes, or from it to their homes.
    pub fn take_handoffs(&mut self) -> Vec<Handoff> {
        std::mem::take(&mut self.remote.handoffs)
    }

    /// What other joins should [hear](Self::hear).
    pub fn take_learned_neighbors(&mut self) -> Vec<LearnedNeighbor> {
        std::mem::take(&mut self.remote.learned_neighbors)
    }

    /// Frames of others that were lost here since this was asked last.
    pub fn take_foreign_losses(&mut self) -> u64 {
        std::mem::take(&mut self.remote.foreign_losses)
    }

    /// Says whether the join that shapes is behind: frames for pipes are lost then.
    pub fn set_congested(&mut self, is_crowded: bool) {
        self.remote.is_congested = is_crowded;
    }

    /// Takes over what others have learned.
    pub fn merge_neighbors(&mut self, news: Vec<LearnedNeighbor>) {
        for told in news {
            self.neighbors.insert(told);
        }
    }

    /// Takes frames that others want to be shaped, or that come home.
    pub fn accept_handoffs(
        &mut self,
        parcels: Vec<Handoff>,
        now: DataplaneNanos,
        outlet: &mut impl DataplaneOutput,
    ) {
        for Handoff { mut bytes, crossing, owner: home, object } in parcels {
            self.counters.foreign += 1;
            if let Some(object) = object {
                let handle = self.frames.insert(&bytes, (crossing, home));
                self.submit(object, handle, now);
            } else {
                self.resume(&mut bytes, crossing, now, outlet);
            }
            self.process_shaper_events(now, outlet);
        }
    }

    pub(super) fn hand_off(
        &mut self,
        object: ShaperTarget,
        frame: &[u8],
        crossing: PacketMetadata,
    ) {
        if self.remote.is_congested {
            return self.counters.count_loss(DataplaneLoss::ShaperCongested);
        }
        self.counters.handed_off += 1;
        let (bytes, home) = (frame.to_vec(), self.remote.own_id);
        self.remote.handoffs.push(Handoff { bytes, crossing, owner: home, object: Some(object) });
    }

    pub(super) fn hand_back(&mut self, waiting: ShapedFrame) {
        self.counters.handed_off += 1;
        let ShapedFrame { bytes, crossing, owner: home } = waiting;
        self.remote.handoffs.push(Handoff { bytes, crossing, owner: home, object: None });
    }

    /// The shaper has dropped a frame.
    pub(super) fn count_shaper_drop(&mut self, handle: u32) {
        let home = self.frames.get_mut(handle).owner;
        self.remote.foreign_losses += u64::from(home != self.remote.own_id);
        self.frames.release(handle, None);
    }
}
