//! Frames that one dataplane passes to another for shaping: all pipes are in one dataplane, and
//! flows are distributed over all dataplanes.

use slipring_dummynet::ShaperTarget;
use slipring_ipfw::run::PacketMetadata;

use super::neighbors::LearnedNeighbor;

/// Number of a dataplane among those that share ports.
pub type DataplaneId = u16;
/// Number of the dataplane that has all pipes.
const SHAPER_ID: DataplaneId = 0;

/// A frame in transit between two dataplanes.
#[derive(Debug)]
pub struct Handoff {
    pub(super) bytes: Vec<u8>,
    pub(super) crossing: PacketMetadata,
    /// The dataplane that handles the frame's flow.
    pub(super) owner: DataplaneId,
    /// The pipe or queue that shapes the frame; `None` if the frame returns to its owner after
    /// shaping.
    pub(super) object: Option<ShaperTarget>,
}

impl Handoff {
    /// Returns the dataplane that handles the frame's flow.
    #[must_use]
    pub const fn owner(&self) -> DataplaneId {
        self.owner
    }
}

/// The frames and neighbours to exchange with other dataplanes; mostly empty.
#[derive(Debug, Default)]
pub(super) struct RemotePackets {
    own_id: DataplaneId,
    /// Whether there are other dataplanes.
    is_shared: bool,
    /// Whether the dataplane that shapes is overloaded.
    pub(super) is_congested: bool,
    pub(super) handoffs: Vec<Handoff>,
    pub(super) learned_neighbors: Vec<LearnedNeighbor>,
    /// Number of other dataplanes' frames that were lost in pipes here.
    pub(super) foreign_losses: u64,
}

impl RemotePackets {
    /// Creates the exchange of one of several dataplanes that share the flows.
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
