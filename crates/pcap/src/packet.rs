//! One packet of a file.

use crate::interface::LinkType;
use crate::options::{
    COMMENT, EPB_DROPCOUNT, EPB_FLAGS, EPB_PACKETID, EPB_QUEUE, EPB_VERDICT, PcapngOptions,
};

/// A packet. Its bytes are borrowed from the buffer that was decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedPacket<'b> {
    /// The time in nanoseconds since 1970. It is 0 for a simple packet block, which has no time.
    pub ts_ns: u64,
    /// The length in bytes that the packet had before the capture truncated it.
    pub orig_len: u32,
    /// The captured bytes.
    pub data: &'b [u8],
    /// Index of the packet's interface among those of the section.
    pub interface: u32,
    /// The link type of the packet.
    pub link_type: LinkType,
    /// All options of the packet in the file. In classic pcap, there are none.
    pub options: PcapngOptions<'b>,
    /// Offset of the packet's record in the file, in bytes.
    pub offset: u64,
}

/// The direction of a packet at the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PcapDirection {
    /// The packet was received.
    Inbound,
    /// The packet was sent.
    Outbound,
}

/// The action on a packet, in the terms of Linux traffic control. The verdict option has other
/// forms, too, but some readers display only this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TcVerdict {
    /// The packet was passed on (`TC_ACT_OK`).
    Passed,
    /// The packet was dropped (`TC_ACT_SHOT`).
    Dropped,
}

impl TcVerdict {
    /// The first byte of the verdict option if an 8-byte verdict of Linux traffic control follows.
    pub(crate) const TC: u8 = 1;

    /// Returns Linux's number for the verdict (`TC_ACT_*`).
    pub(crate) const fn number(self) -> u64 {
        match self {
            Self::Passed => 0,
            Self::Dropped => 2,
        }
    }
}

impl<'b> CapturedPacket<'b> {
    /// Returns the direction; `None` if the file does not contain it.
    #[must_use]
    pub fn direction(&self) -> Option<PcapDirection> {
        match self.u32(EPB_FLAGS)? & 3 {
            1 => Some(PcapDirection::Inbound),
            2 => Some(PcapDirection::Outbound),
            _ => None,
        }
    }

    /// Returns how many packets the capture lost between the previous packet and this one; `None`
    /// if the packet has no option for this.
    #[must_use]
    pub fn drop_count(&self) -> Option<u64> {
        self.u64(EPB_DROPCOUNT)
    }

    /// Returns a number that is the same for captures of this packet at several interfaces; `None`
    /// if the file does not contain it.
    #[must_use]
    pub fn packet_id(&self) -> Option<u64> {
        self.u64(EPB_PACKETID)
    }

    /// Returns the number of the interface's queue on which the packet was received or sent; `None`
    /// if the file does not contain it.
    #[must_use]
    pub fn queue(&self) -> Option<u32> {
        self.u32(EPB_QUEUE)
    }

    /// Returns the verdict; `None` if the file contains none in the terms of Linux traffic control.
    #[must_use]
    pub fn verdict(&self) -> Option<TcVerdict> {
        let (&kind, number) = self.options.get(EPB_VERDICT)?.split_first()?;
        let number = self.options.endian.u64(number.try_into().ok()?);
        let known = [TcVerdict::Passed, TcVerdict::Dropped];
        known.into_iter().find(|verdict| kind == TcVerdict::TC && verdict.number() == number)
    }

    /// Returns the first comment; `None` if there is none or it is not UTF-8.
    #[must_use]
    pub fn comment(&self) -> Option<&'b str> {
        core::str::from_utf8(self.options.get(COMMENT)?).ok()
    }

    fn u32(&self, code: u16) -> Option<u32> {
        let bytes = self.options.get(code)?.try_into().ok()?;
        Some(self.options.endian.u32(bytes))
    }

    fn u64(&self, code: u16) -> Option<u64> {
        let bytes = self.options.get(code)?.try_into().ok()?;
        Some(self.options.endian.u64(bytes))
    }
}
