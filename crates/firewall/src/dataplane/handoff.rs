//! Frames that one dataplane passes to another for shaping. One dataplane has all pipes, but the
//! flows are distributed over all dataplanes.

use slipring_dummynet::ShaperTarget;
use slipring_ipfw::run::PacketMetadata;

use super::neighbors::LearnedNeighbor;

/// The number of a dataplane among the dataplanes that share the flows.
pub type DataplaneId = u16;
/// The number of the dataplane that has all pipes.
const SHAPER_ID: DataplaneId = 0;

/// A frame in transit between two dataplanes.
#[derive(Debug)]
pub struct Handoff {
    pub(super) bytes: Vec<u8>,
    pub(super) crossing: PacketMetadata,
    /// The dataplane that handles the frame's flow.
    pub(super) owner: DataplaneId,
    /// The pipe or queue that must shape the frame; `None` if the frame was shaped and returns to
    /// its owner.
    pub(super) object: Option<ShaperTarget>,
}

impl Handoff {
    /// Returns the dataplane that handles the frame's flow.
    #[must_use]
    pub const fn owner(&self) -> DataplaneId {
        self.owner
    }
}

/// The frames and learned neighbours that other dataplanes must receive. Usually there are none.
#[derive(Debug, Default)]
pub(super) struct RemotePackets {
    own_id: DataplaneId,
    /// Whether other dataplanes share the flows.
    is_shared: bool,
    /// Whether the dataplane with the pipes is overloaded.
    pub(super) is_congested: bool,
    pub(super) handoffs: Vec<Handoff>,
    pub(super) learned_neighbors: Vec<LearnedNeighbor>,
    /// Number of frames of other dataplanes that were lost in this dataplane's pipes.
    pub(super) foreign_losses: u64,
}

impl RemotePackets {
    /// Creates the value for the dataplane `own_id`, one of several that share the flows.
    pub(super) fn shared(own_id: DataplaneId) -> Self {
        Self { own_id, is_shared: true, ..Self::default() }
    }

    pub(super) const fn own_id(&self) -> DataplaneId {
        self.own_id
    }

    pub(super) const fn shapes_elsewhere(&self) -> bool {
        self.own_id != SHAPER_ID
    }

    /// Queues a learned neighbour for the other dataplanes.
    pub(super) fn announce(&mut self, neighbor: LearnedNeighbor) {
        if self.is_shared {
            self.learned_neighbors.push(neighbor);
        }
    }
}
