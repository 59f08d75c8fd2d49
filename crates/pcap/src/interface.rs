//! Capture interfaces and their link types.

use alloc::string::String;

use crate::time::InterfaceClock;

/// The protocol of a packet's first header (a "DLT" or "LINKTYPE" number).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Loopback on BSD: a 4-byte address family precedes the packet.
    pub const NULL: Self = Self(0);
    /// Ethernet. Frames have no CRC, unless the description of the interface says so.
    pub const ETHERNET: Self = Self(1);
    /// IP without a link header. The first four bits are the version.
    pub const RAW: Self = Self(101);
    /// The format of Linux's device "any": a 16-byte header instead of the link header ("cooked").
    pub const LINUX_SLL: Self = Self(113);
    /// Version 2 of the "cooked" format, with a 20-byte header.
    pub const LINUX_SLL2: Self = Self(276);
}

/// An interface that a file describes. Classic pcap has one interface, which has no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureInterface {
    /// The interface's name; empty if the file has none.
    pub name: String,
    /// The link type of its packets.
    pub link_type: LinkType,
    /// Maximum number of bytes that were captured per packet. 0 means that there is no limit.
    pub snaplen: u32,
    /// Number of bytes of frame check sequence at the end of each packet; `None` if the file does
    /// not say it.
    pub fcs_len: Option<u8>,
    pub(crate) clock: InterfaceClock,
}
