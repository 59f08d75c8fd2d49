//! Frames that one dataplane passes to another for shaping: all pipes are in one dataplane, and
//! flows are distributed over all.

use slipring_dummynet::ShaperTarget;
use slipring_ipfw::run::PacketMetadata;

use super::neighbors::LearnedNeighbor;

/// Number of a dataplane among those that share ports.
pub type DataplaneId = u16;
/// The dataplane that shapes for all.
const SHAPER_ID: DataplaneId = 0;

/// A frame in transit between two dataplanes.
#[derive(Debug)]
pub struct Handoff {
    pub(super) bytes: Vec<u8>,
    pub(super) crossing: PacketMetadata,
    /// The dataplane that handles its flow.
    pub(super) owner: DataplaneId,
    /// The pipe or queue that shapes the frame; `None` on its return.
    pub(super) object: Option<ShaperTarget>,
}

impl Handoff {
    /// Returns the dataplane that handles its flow.
    #[must_use]
    pub const fn owner(&self) -> DataplaneId {
        self.owner
    }
}

/// Exchange with the other dataplanes; mostly empty.
#[derive(Debug, Default)]
pub(super) struct RemotePackets {
    own_id: DataplaneId,
    /// Whether there are other dataplanes.
    is_shared: bool,
    /// The dataplane that shapes is overloaded.
    pub(super) is_congested: bool,
    pub(super) handoffs: Vec<Handoff>,
    pub(super) learned_neighbors: Vec<LearnedNeighbor>,
    /// Frames of other dataplanes that were lost in pipes here.
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
