//! The saved state of a user's memory, ports and open files, in the format of the ledger. Each kind
//! of port has its own part of the state. The order of the fields is the format, so it must not
//! change.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use slipring_ring::{KernRing, Region, RingOffsets, RingView};

use crate::types::params::ObjectPools;
use crate::types::port_name::PortKey;
use crate::types::shape::AdapterShape;

/// The complete state of one domain.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DomainState {
    pub(crate) uid: u32,
    pub(crate) memories: Vec<MemoryState>,
    /// The ports whose kind has no state beyond [`PortState`]; other kinds have their own lists.
    pub(crate) ports: Vec<PortState>,
    pub(crate) pipes: Vec<PipeState>,
    pub(crate) bridges: Vec<BridgeState>,
    pub(crate) vale_ports: Vec<ValePortState>,
    pub(crate) attached: Vec<NicAttachmentState>,
    pub(crate) monitors: Vec<MonitorState>,
    pub(crate) opens: Vec<OpenState>,
}

/// A memory: its region, and which of its buffers are free.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MemoryState {
    pub(crate) id: u16,
    pub(crate) file_offset: u64,
    pub(crate) ring_bytes: u64,
    pub(crate) bufs: u32,
    pub(crate) buf_size: u32,
    /// The sizes of the memory's pools: number and size of the interface records, then number and
    /// size of the rings.
    pub(crate) objects: [u32; 4],
    pub(crate) fresh: u32,
    pub(crate) released: Vec<u64>,
}

impl ObjectPools {
    /// Returns number and size of the interfaces, then number and size of the rings.
    pub(crate) fn numbers(&self) -> [u32; 4] {
        [self.if_num, self.if_size, self.ring_num, self.ring_size]
    }

    /// Builds the pools from number and size of the interfaces, then number and size of the rings.
    pub(crate) fn from_numbers([if_num, if_size, ring_num, ring_size]: [u32; 4]) -> Self {
        Self { if_num, if_size, ring_num, ring_size }
    }
}

/// A saved [`AdapterShape`].
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct ShapeState {
    rings: [u16; 2],
    host_rings: [u16; 2],
    slots: [u32; 2],
}

impl From<AdapterShape> for ShapeState {
    fn from(AdapterShape { rings, host_rings, slots }: AdapterShape) -> Self {
        Self { rings, host_rings, slots }
    }
}

impl From<ShapeState> for AdapterShape {
    fn from(ShapeState { rings, host_rings, slots }: ShapeState) -> Self {
        Self { rings, host_rings, slots }
    }
}

/// The state of a ring. The ring owns the buffers in its slots.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct RingState {
    pub(crate) offset: u64,
    pub(crate) slots: u32,
    pub(crate) offsets: OffsetsState,
}

impl RingState {
    pub(crate) fn from_view(view: &RingView) -> Self {
        Self {
            offset: view.offset(),
            slots: view.num_slots(),
            offsets: OffsetsState::from_view(view),
        }
    }
}

impl RingState {
    /// Restores the ring; `None` if the state is inconsistent.
    pub(crate) fn resume(&self, region: &Arc<Region>) -> Option<KernRing> {
        let kern = KernRing::resume(region, self.offset, self.slots).ok()?;
        self.offsets.apply(&kern.view());
        Some(kern)
    }
}

/// A ring's payload offsets, as mask and maximum; a mask of 0 means none.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct OffsetsState(u64, u32);

impl OffsetsState {
    pub(crate) fn from_view(view: &RingView) -> Self {
        view.offsets().map_or_else(Self::default, |offsets| Self(offsets.mask, offsets.max))
    }

    /// Sets the offsets of a ring that has none yet in this process.
    pub(crate) fn apply(self, view: &RingView) {
        let Self(mask, max) = self;
        if mask != 0 {
            // An offset beyond the buffer selects the buffer's end.
            view.set_host_offsets(RingOffsets { mask, max: max.min(view.region().buf_size()) });
        }
    }
}

/// The state that all kinds of ports have.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PortState {
    pub(crate) kind: SavedPortKind,
    /// The name under which other open files find the port.
    pub(crate) key: Option<PortKey>,
    pub(crate) name: String,
    pub(crate) shape: ShapeState,
    pub(crate) memory: u16,
    /// The rings, by direction; `None` for rings that were not created yet.
    pub(crate) rings: [Vec<Option<RingState>>; 2],
}

impl PortState {
    /// Returns the rings that were created already.
    pub(crate) fn made(&self) -> [Vec<RingState>; 2] {
        self.rings.each_ref().map(|rings| rings.iter().flatten().copied().collect())
    }
}

/// The kind of a port that has no state beyond [`PortState`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SavedPortKind {
    /// The port is connected to nothing.
    Detached,
    /// The port was supplied by a `Provider`.
    Provided,
    /// The port's underlying object no longer exists. Also a placeholder in [`ValePortState`] and
    /// [`MonitorState`], whose ports have other kinds.
    Gone,
}

/// A pipe with both of its ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PipeState {
    pub(crate) key: Option<PortKey>,
    /// Names of the master end and the slave end.
    pub(crate) names: [String; 2],
    /// Shape of the master end.
    pub(crate) shape: ShapeState,
    pub(crate) parent: PortRef,
    /// For each end, the directions in which that end sends: one for each ring pair.
    pub(crate) directions: [Vec<PipeDirectionState>; 2],
}

/// One direction of one ring pair of a pipe.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct PipeDirectionState {
    pub(crate) tx: u64,
    pub(crate) rx: u64,
    pub(crate) words: u64,
    pub(crate) slots: u32,
    /// Payload offsets of the sender's ring and of the receiver's ring.
    pub(crate) offsets: [OffsetsState; 2],
}

/// A switch, under the number that it had.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BridgeState {
    pub(crate) key: PortKey,
    pub(crate) number: u16,
    pub(crate) ageing_ns: Option<u64>,
    pub(crate) drops_unknown: bool,
    pub(crate) is_vlan_aware: bool,
}

/// A switch port, or a port that can be attached to switches.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ValePortState {
    pub(crate) port: PortState,
    pub(crate) is_persistent: bool,
    pub(crate) vnet: u32,
    /// Number of the switch to which the port is attached when it is first bound.
    pub(crate) home_bridge: Option<u16>,
    pub(crate) attachment: Option<BridgeAttachmentState>,
    /// For each tx ring, the offset of its persistent words.
    pub(crate) words: Vec<u64>,
}

/// An interface attached to a switch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NicAttachmentState {
    pub(crate) key: PortKey,
    pub(crate) nic: BridgeAttachmentState,
    pub(crate) host: Option<BridgeAttachmentState>,
    pub(crate) bound: BoundState,
    /// For each polling worker: its processor, its first ring, and one past its last ring. `None`
    /// if no worker polls.
    pub(crate) polling: Option<Vec<[u32; 3]>>,
}

/// An attachment of a port to a switch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BridgeAttachmentState {
    pub(crate) bridge: u16,
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) settings: BridgePortState,
}

/// The settings of a port in a switch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BridgePortState {
    pub(crate) learns: bool,
    pub(crate) is_isolated: bool,
    /// Whether the port receives broadcasts, multicasts, and frames for unknown addresses.
    pub(crate) takes: [bool; 3],
    pub(crate) vlan: VlanState,
    /// Storm limits for these three kinds of frames: true for bits and false for frames, rate per
    /// second, burst (in bytes or frames).
    pub(crate) storm: [Option<(bool, u64, u64)>; 3],
}

/// The VLANs of a port in a switch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum VlanState {
    Access(u16),
    Trunk(Option<u16>, Vec<u16>),
}

/// A monitor and its rings.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MonitorState {
    pub(crate) port: PortState,
    /// The monitored port, while that port is bound.
    pub(crate) target: Option<PortRef>,
    pub(crate) wants: [bool; 2],
    pub(crate) bound: [u32; 2],
    /// Shape of the monitored port.
    pub(crate) parent: ShapeState,
    pub(crate) copies: bool,
}

/// Refers to a port by its index in the lists of [`DomainState`].
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum PortRef {
    Port(u32),
    /// An end of the pipe with this index: the slave end if the flag is true.
    Pipe(u32, bool),
    Vale(u32),
    Monitor(u32),
}

/// An open file, bound or not.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OpenState {
    pub(crate) handle: u64,
    pub(crate) call: u64,
    pub(crate) netns: u64,
    pub(crate) gids: Vec<u32>,
    /// Offset of the file's persistent words.
    pub(crate) words: u64,
    pub(crate) answered: Option<AnsweredCall>,
    pub(crate) bound: Option<BoundState>,
}

/// The file's last request that changed state, and its answer: after a restart, the kernel may send
/// the request again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AnsweredCall {
    pub(crate) call: u64,
    pub(crate) body: Vec<u8>,
    /// The bodies of options that were granted, by type.
    pub(crate) options: Vec<(u32, Vec<u8>)>,
}

/// A bind of an open file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BoundState {
    pub(crate) port: PortRef,
    /// The bound rings by direction: the first ring, and one past the last.
    pub(crate) rings: [[u32; 2]; 2],
    pub(crate) flags: u64,
    /// Offset of the interface record; the next field is the number of ring offsets in the record.
    pub(crate) record: u64,
    pub(crate) slots: u32,
}

impl PipeDirectionState {
    /// Captures one direction of a ring pair; `views` are the sender's ring and the receiver's
    /// ring.
    pub(crate) fn capture(layout: slipring_ring::DirectionLayout, views: [&RingView; 2]) -> Self {
        let slipring_ring::DirectionLayout { tx, rx, words, num_slots } = layout;
        Self { tx, rx, words, slots: num_slots, offsets: views.map(OffsetsState::from_view) }
    }
}
