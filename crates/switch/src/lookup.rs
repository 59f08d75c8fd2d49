//! What the switch is told of a frame, and the hook that decides where it goes.

use crate::port::PortId;

/// Where a frame lies: so many slots of the source's ring from one on. The switch only passes it
/// through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlotRange {
    /// Index of the first slot.
    pub first: u32,
    /// Slots that the frame takes.
    pub count: u16,
}

/// What a slot's flags ask of the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// Do not learn the source (`NS_NO_LEARN`).
    pub no_learn: bool,
    /// Send it to this port, whatever the table says (`NS_PORT`).
    pub to: Option<PortId>,
}

/// A frame, as far as the switch looks.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// Its first bytes, at least 18 where it has as many. Where the source may write to them
    /// meanwhile, a copy.
    pub header: &'a [u8],
    /// Bytes in all slots.
    pub len: u32,
    /// Where it lies.
    pub slots: SlotRange,
    /// What its flags ask for.
    pub marks: Marks,
}

/// Where a [`Lookup`] sends a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// To where the address table says.
    Learned,
    /// To a port; its ring is the source's, modulo their number.
    Port(PortId),
    /// To a ring of a port, modulo their number.
    Ring(PortId, u32),
    /// To all ports that take unknown addresses.
    Flood,
    /// Nowhere.
    Drop,
}

/// Decides instead of the address table; see [`crate::Switch::forward_by`].
pub trait Lookup {
    /// Where a frame from `source` goes. Isolation and VLANs are checked afterwards. Called for
    /// frames that have a header and whose slot names no port.
    fn route(&mut self, source: PortId, packet: &Packet<'_>) -> Route;
}

/// The ordinary switch: always [`Route::Learned`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Learned;

impl Lookup for Learned {
    #[inline(always)]
    fn route(&mut self, _: PortId, _: &Packet<'_>) -> Route {
        Route::Learned
    }
}

impl<F: FnMut(PortId, &Packet<'_>) -> Route> Lookup for F {
    #[inline(always)]
    fn route(&mut self, source: PortId, packet: &Packet<'_>) -> Route {
        self(source, packet)
    }
}
