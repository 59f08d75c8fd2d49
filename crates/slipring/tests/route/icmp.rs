//! ICMP and ICMPv6 errors, decoded.

use std::net::IpAddr;

use crate::packet::{ICMP, ICMP6, Packet};

/// An ICMP or ICMPv6 error (RFC 792, 4443).
#[derive(Debug)]
pub(crate) struct IcmpError {
    /// The packet that contains the error.
    pub(crate) packet: Packet,
    /// Type and code.
    pub(crate) kind: (u8, u8),
    /// Bytes 4 to 7: the MTU, a pointer, a gateway, or zero.
    pub(crate) rest: [u8; 4],
    /// The start of the packet in error.
    pub(crate) quote: Vec<u8>,
}

impl IcmpError {
    /// Parses an error.
    ///
    /// # Panics
    /// If the packet is not ICMP.
    #[track_caller]
    pub(crate) fn parse(packet: Packet) -> Self {
        assert!(matches!(packet.proto, ICMP | ICMP6), "{packet:?}");
        let message = &packet.payload;
        let kind = (message[0], message[1]);
        let (rest, quote) = (*message[4..].first_chunk().unwrap(), message[8..].to_vec());
        Self { kind, rest, quote, packet }
    }

    /// The next-hop MTU of "fragmentation needed" (RFC 1191) or "packet too big".
    pub(crate) fn mtu(&self) -> u32 {
        u32::from_be_bytes(self.rest)
    }

    /// Asserts that the error was sent to the packet's source and quotes the packet. An IPv4 error
    /// quotes at least the header and 8 bytes (RFC 792) and is not longer than 576 bytes (RFC 1812,
    /// section 4.3.2.3); an IPv6 error quotes as much as fits in 1280 bytes (RFC 4443, section
    /// 2.4). A router need not undo its decrement of the hops (RFC 1812, section 4.3.2.3), but a
    /// value of 1 is quoted as 1.
    #[track_caller]
    pub(crate) fn assert_quotes(&self, original: &Packet) {
        assert_eq!(self.packet.dst, original.src, "{self:?}");
        let bytes = original.bytes();
        let decremented = if original.hops > 1 { original.forwarded().bytes() } else { Vec::new() };
        let quotes = [&bytes, &decremented].iter().any(|bytes| bytes.starts_with(&self.quote));
        assert!(quotes, "{self:?} does not quote {bytes:02x?}");
        let len = self.quote.len();
        match original.src {
            IpAddr::V4(_) => {
                let least = bytes.len().min(28 + original.options.len());
                assert!(len >= least && self.packet.bytes().len() <= 576, "quotes {len} bytes");
            }
            IpAddr::V6(_) => assert_eq!(len, bytes.len().min(1280 - 48), "bytes quoted"),
        }
    }
}

/// The type and code of each kind of ICMP error, for one family.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kinds {
    pub(crate) time_exceeded: (u8, u8),
    pub(crate) no_route: (u8, u8),
    pub(crate) host_unreachable: (u8, u8),
    pub(crate) prohibited: (u8, u8),
}

/// Returns the kinds of errors for the family of this address.
pub(crate) fn kinds(src: IpAddr) -> Kinds {
    if src.is_ipv4() {
        let (time_exceeded, no_route) = ((11, 0), (3, 0));
        Kinds { time_exceeded, no_route, host_unreachable: (3, 1), prohibited: (3, 13) }
    } else {
        let (time_exceeded, no_route) = ((3, 0), (1, 0));
        Kinds { time_exceeded, no_route, host_unreachable: (1, 3), prohibited: (1, 1) }
    }
}
