//! Capture interfaces and their link types.

use alloc::string::String;

use crate::time::InterfaceClock;

/// The protocol of a packet's first header (a "DLT" or "LINKTYPE" number).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback.
    pub const NULL: Self = Self(0);
    /// Ethernet; frames have no CRC unless the interface's description says otherwise.
    pub const ETHERNET: Self = Self(1);
    /// IP without a link header; the version is in the first nibble.
    pub const RAW: Self = Self(101);
    /// Linux "cooked" capture.
    pub const LINUX_SLL: Self = Self(113);
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);
}

/// An interface that a file describes. Classic pcap has one interface, without a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureInterface {
    /// The interface's name; empty if the file has none.
    pub name: String,
    /// The link type of its packets.
    pub link_type: LinkType,
    /// Maximum number of bytes captured per packet; 0 for no limit.
    pub snaplen: u32,
    /// Bytes of frame check sequence at the end of each packet, if the file specifies them.
    pub fcs_len: Option<u8>,
    pub(crate) clock: InterfaceClock,
}
