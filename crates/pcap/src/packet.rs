//! One packet of a file.

use crate::interface::LinkType;
use crate::options::{
    COMMENT, EPB_DROPCOUNT, EPB_FLAGS, EPB_PACKETID, EPB_QUEUE, EPB_VERDICT, PcapngOptions,
};

/// A packet, its bytes borrowed from the buffer that was decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedPacket<'b> {
    /// When, in nanoseconds since 1970; 0 for a simple packet block, which has no time.
    pub ts_ns: u64,
    /// Length in bytes before the capture cut it.
    pub orig_len: u32,
    /// What was captured.
    pub data: &'b [u8],
    /// Index among the interfaces of the section.
    pub interface: u32,
    /// Kind of the packet.
    pub link_type: LinkType,
    /// What else the file says; nothing in classic pcap.
    pub options: PcapngOptions<'b>,
    /// Where its record starts in the file, in bytes.
    pub offset: u64,
}

/// Which way a packet went through the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PcapDirection {
    /// Received.
    Inbound,
    /// Sent.
    Outbound,
}

/// What became of a packet, in the words of Linux traffic control: the form of the verdict option
/// that readers know how to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TcVerdict {
    /// It goes on (`TC_ACT_OK`).
    Passed,
    /// It was dropped (`TC_ACT_SHOT`).
    Dropped,
}

impl TcVerdict {
    /// The option's first byte: a verdict of Linux traffic control in eight bytes.
    pub(crate) const TC: u8 = 1;

    /// Linux's number of it.
    pub(crate) const fn number(self) -> u64 {
        match self {
            Self::Passed => 0,
            Self::Dropped => 2,
        }
    }
}

impl<'b> CapturedPacket<'b> {
    /// Which way it went, if the file tells.
    #[must_use]
    pub fn direction(&self) -> Option<PcapDirection> {
        match self.u32(EPB_FLAGS)? & 3 {
            1 => Some(PcapDirection::Inbound),
            2 => Some(PcapDirection::Outbound),
            _ => None,
        }
    }

    /// Packets lost by the capture between the packet before and this one, if the file tells.
    #[must_use]
    pub fn drop_count(&self) -> Option<u64> {
        self.u64(EPB_DROPCOUNT)
    }

    /// A number that links captures of the same packet at several interfaces.
    #[must_use]
    pub fn packet_id(&self) -> Option<u64> {
        self.u64(EPB_PACKETID)
    }

    /// The queue of the interface that it came through.
    #[must_use]
    pub fn queue(&self) -> Option<u32> {
        self.u32(EPB_QUEUE)
    }

    /// What became of it, if the file tells in the words of Linux traffic control.
    #[must_use]
    pub fn verdict(&self) -> Option<TcVerdict> {
        let (&kind, number) = self.options.get(EPB_VERDICT)?.split_first()?;
        let number = self.options.endian.u64(number.try_into().ok()?);
        let known = [TcVerdict::Passed, TcVerdict::Dropped];
        known.into_iter().find(|verdict| kind == TcVerdict::TC && verdict.number() == number)
    }

    /// The first comment, if it is UTF-8.
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
