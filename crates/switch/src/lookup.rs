//! What the switch is told of a frame, and the hook that decides where it goes.

use crate::port::SwitchPortId;

/// Where a frame lies: so many slots of the source's ring from one on. The switch only passes it
/// through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameSlots {
    /// Index of the first slot.
    pub first: u32,
    /// Slots that the frame takes.
    pub count: u16,
}

/// What a slot's flags ask of the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlotMarks {
    /// Do not learn the source (`NS_NO_LEARN`).
    pub no_learn: bool,
    /// Send it to this port, whatever the table says (`NS_PORT`).
    pub to: Option<SwitchPortId>,
}

/// A frame, as far as the switch looks.
#[derive(Debug, Clone, Copy)]
pub struct SwitchPacket<'a> {
    /// Its first bytes, at least 18 where it has as many. Where the source may write to them
    /// meanwhile, a copy.
    pub header: &'a [u8],
    /// Bytes in all slots.
    pub len: u32,
    /// Where it lies.
    pub slots: FrameSlots,
    /// What its flags ask for.
    pub marks: SlotMarks,
}

/// Where a [`Lookup`] sends a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchRoute {
    /// To where the address table says.
    Learned,
    /// To a port; its ring is the source's, modulo their number.
    Port(SwitchPortId),
    /// To a ring of a port, modulo their number.
    Ring(SwitchPortId, u32),
    /// To all ports that take unknown addresses.
    Flood,
    /// Nowhere.
    Drop,
}

/// Decides instead of the address table; see [`crate::Switch::forward_by`].
pub trait SwitchLookup {
    /// Where a frame from `source` goes. Isolation and VLANs are checked afterwards. Called for
    /// frames that have a header and whose slot names no port.
    fn route(&mut self, source: SwitchPortId, packet: &SwitchPacket<'_>) -> SwitchRoute;
}

/// The ordinary switch: always [`SwitchRoute::Learned`].
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
