//! The switch's view of a frame, and the hook that selects its destination.

use crate::port::SwitchPortId;

/// The position of a frame: consecutive slots in the source's ring. The switch only passes
/// it through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameSlots {
    /// Index of the first slot.
    pub first: u32,
    /// The number of slots.
    pub count: u16,
}

/// Requests in a slot's flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlotMarks {
    /// Do not learn the source (`NS_NO_LEARN`).
    pub no_learn: bool,
    /// Send the frame to this port, regardless of the table (`NS_PORT`).
    pub to: Option<SwitchPortId>,
}

/// The part of a frame that the switch reads.
#[derive(Debug, Clone, Copy)]
pub struct SwitchPacket<'a> {
    /// The frame's first bytes, at least 18 unless the frame is shorter. They are a copy if the
    /// source may write to the frame meanwhile.
    pub header: &'a [u8],
    /// The length in bytes, over all slots.
    pub len: u32,
    /// The slots of the frame.
    pub slots: FrameSlots,
    /// The requests in the flags of the frame's slots.
    pub marks: SlotMarks,
}

/// The destination that a [`SwitchLookup`] selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchRoute {
    /// The port at which the address table has the destination; unknown and group addresses are
    /// flooded.
    Learned,
    /// A port. The ring is the source ring's index modulo the port's number of rings.
    Port(SwitchPortId),
    /// A ring of a port; the ring's index is taken modulo the port's number of rings.
    Ring(SwitchPortId, u32),
    /// All ports that receive frames to unknown addresses.
    Flood,
    /// No destination.
    Drop,
}

/// Decides instead of the address table; see [`crate::Switch::forward_by`].
pub trait SwitchLookup {
    /// Selects the destination of a frame from `source`. Isolation and VLANs are checked
    /// afterwards. Not called for a frame without a complete header, or a frame whose slot names a
    /// port.
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
