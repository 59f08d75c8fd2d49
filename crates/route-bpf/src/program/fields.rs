//! Offsets of the fields of a frame, from its start.

/// Bytes of the Ethernet header, without tags.
pub(super) const ETHERNET_LEN: i32 = 14;
pub(super) const ETHERTYPE: i16 = 12;

/// Fields of IPv4 without options.
pub(super) mod ipv4 {
    pub(in crate::program) const VERSION: i16 = 14;
    pub(in crate::program) const TOTAL_LENGTH: i16 = 16;
    pub(in crate::program) const FRAGMENT: i16 = 20;
    pub(in crate::program) const TTL: i16 = 22;
    pub(in crate::program) const PROTOCOL: i16 = 23;
    pub(in crate::program) const CHECKSUM: i16 = 24;
    pub(in crate::program) const SOURCE: i16 = 26;
    pub(in crate::program) const DESTINATION: i16 = 30;

    /// The bits of the fragment field that are set in fragments: the more-fragments flag, and the
    /// offset.
    pub(in crate::program) const FRAGMENT_BITS: u16 = 0x3fff;
}

/// Fields of IPv6.
pub(super) mod ipv6 {
    pub(in crate::program) const VERSION: i16 = 14;
    pub(in crate::program) const PAYLOAD_LENGTH: i16 = 18;
    pub(in crate::program) const NEXT_HEADER: i16 = 20;
    pub(in crate::program) const HOP_LIMIT: i16 = 21;
    pub(in crate::program) const SOURCE: i16 = 22;
    pub(in crate::program) const DESTINATION: i16 = 38;
}
