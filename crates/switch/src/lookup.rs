//! The part of a frame that the switch sees, and the hook that selects a frame's destination.

use crate::port::SwitchPortId;

/// The position of a frame: consecutive slots in the source's ring. The switch does not use it, but
/// passes it on to the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameSlots {
    /// Index of the first slot.
    pub first: u32,
    /// The number of slots.
    pub count: u16,
}

/// What the flags of a frame's slots request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlotMarks {
    /// Whether the switch must not learn the source address (`NS_NO_LEARN`).
    pub no_learn: bool,
    /// The port to which the frame goes, whatever the address table says (`NS_PORT`); `None` if the
    /// frame names no port.
    pub to: Option<SwitchPortId>,
}

/// The part of a frame that the switch reads.
#[derive(Debug, Clone, Copy)]
pub struct SwitchPacket<'a> {
    /// The frame's first bytes: at least 18, or the whole frame if it is shorter. They must be a
    /// copy if the source can write to the frame during the call.
    pub header: &'a [u8],
    /// The frame's length in bytes, over all its slots.
    pub len: u32,
    /// The slots of the frame.
    pub slots: FrameSlots,
    /// The requests in the flags of the frame's slots.
    pub marks: SlotMarks,
}

/// The destination that a [`SwitchLookup`] selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchRoute {
    /// The port at which the destination address was learned. Frames to group addresses are
    /// flooded; frames to unknown addresses are treated as [`crate::UnknownUnicast`] says.
    Learned,
    /// This port. The frame goes to the ring whose index is the source ring's index modulo the
    /// port's number of rings.
    Port(SwitchPortId),
    /// This ring of this port. The ring's index is taken modulo the port's number of rings.
    Ring(SwitchPortId, u32),
    /// All ports that receive frames to unknown addresses.
    Flood,
    /// No destination: the frame is dropped.
    Drop,
}

/// Selects destinations instead of the address table; see [`crate::Switch::forward_by`].
pub trait SwitchLookup {
    /// Selects the destination of a frame from `source`. The switch checks isolation and the VLANs
    /// of the destination afterwards. It does not call this for a frame without a complete header,
    /// for a frame of a VLAN that the source port does not accept, nor for a frame whose slot names
    /// a destination port.
    fn route(&mut self, source: SwitchPortId, packet: &SwitchPacket<'_>) -> SwitchRoute;
}

/// The standard lookup: always [`SwitchRoute::Learned`].
#[derive(Debug, Clone, Copy, Default)]
pub struct LearnedLookup;

impl SwitchLookup for LearnedLookup {
    #[inline(always)]
    fn route(&mut self, _: SwitchPortId, _: &SwitchPacket<'_>) -> SwitchRoute {
        SwitchRoute::Learned
    }
}

impl<F: FnMut(SwitchPortId, &SwitchPacket<'_>) -> SwitchRoute> SwitchLookup for F {
    #[inline(always)]
    fn route(&mut self, source: SwitchPortId, packet: &SwitchPacket<'_>) -> SwitchRoute {
        self(source, packet)
    }
}
