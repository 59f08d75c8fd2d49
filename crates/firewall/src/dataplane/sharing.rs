//! The frames, neighbours and counts that several dataplanes exchange when they share the flows.

use slipring_dummynet::ShaperTarget;
use slipring_ipfw::run::PacketMetadata;

use super::frame_store::ShapedFrame;
use super::handoff::{DataplaneId, Handoff, RemotePackets};
use super::neighbors::LearnedNeighbor;
use super::{Dataplane, DataplaneLoss, DataplaneNanos, DataplaneOutput};

impl Dataplane {
    /// Makes this the dataplane with number `own` of several that share the flows.
    #[must_use]
    pub fn with_id(mut self, own: DataplaneId) -> Self {
        self.remote = RemotePackets::shared(own);
        self
    }

    /// Removes and returns the frames for other dataplanes. These frames must be shaped there, or
    /// were shaped here and return to their owners.
    pub fn take_handoffs(&mut self) -> Vec<Handoff> {
        std::mem::take(&mut self.remote.handoffs)
    }

    /// Removes and returns the learned neighbours that other dataplanes must
    /// [merge](Self::merge_neighbors).
    pub fn take_learned_neighbors(&mut self) -> Vec<LearnedNeighbor> {
        std::mem::take(&mut self.remote.learned_neighbors)
    }

    /// Returns how many frames of other dataplanes were lost here since the last call.
    pub fn take_foreign_losses(&mut self) -> u64 {
        std::mem::take(&mut self.remote.foreign_losses)
    }

    /// Sets whether the dataplane that shapes is overloaded. While it is overloaded, frames for
    /// pipes are dropped.
    pub fn set_congested(&mut self, is_crowded: bool) {
        self.remote.is_congested = is_crowded;
    }

    /// Merges neighbours that other dataplanes have learned.
    pub fn merge_neighbors(&mut self, news: Vec<LearnedNeighbor>) {
        for neighbor in news {
            self.neighbors.insert(neighbor);
        }
    }

    /// Accepts frames from other dataplanes: frames to be shaped here, and frames of this dataplane
    /// that were shaped.
    pub fn accept_handoffs(
        &mut self,
        handoffs: Vec<Handoff>,
        now: DataplaneNanos,
        outlet: &mut impl DataplaneOutput,
    ) {
        for Handoff { mut bytes, crossing, owner: home, object } in handoffs {
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
        let (bytes, home) = (frame.to_vec(), self.remote.own_id());
        self.remote.handoffs.push(Handoff { bytes, crossing, owner: home, object: Some(object) });
    }

    pub(super) fn hand_back(&mut self, waiting: ShapedFrame) {
        self.counters.handed_off += 1;
        let ShapedFrame { bytes, crossing, owner: home } = waiting;
        self.remote.handoffs.push(Handoff { bytes, crossing, owner: home, object: None });
    }

    /// Removes a frame that the shaper has dropped from the store. If the frame belongs to another
    /// dataplane, counts it for [`Self::take_foreign_losses`].
    pub(super) fn count_shaper_drop(&mut self, handle: u32) {
        let home = self.frames.get_mut(handle).owner;
        self.remote.foreign_losses += u64::from(home != self.remote.own_id());
        self.frames.release(handle, None);
    }
}
