//! Where packets were captured.

use alloc::string::String;

use crate::time::InterfaceClock;

/// What the first byte of a packet belongs to (a "DLT" or "LINKTYPE" number).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback.
    pub const NULL: Self = Self(0);
    /// Ethernet, without CRC unless the interface says otherwise.
    pub const ETHERNET: Self = Self(1);
    /// IP without link header, version by the first nibble.
    pub const RAW: Self = Self(101);
    /// Linux "cooked" capture.
    pub const LINUX_SLL: Self = Self(113);
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);
}

/// An interface that a file describes. Classic pcap has one, without a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureInterface {
    /// Its name, empty if the file does not tell.
    pub name: String,
    /// Kind of its packets.
    pub link_type: LinkType,
    /// Most bytes captured per packet; 0 for no limit.
    pub snaplen: u32,
    /// Bytes of frame check sequence at the end of each packet, if the file tells.
    pub fcs_len: Option<u8>,
    pub(crate) clock: InterfaceClock,
}
