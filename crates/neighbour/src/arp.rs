//! ARP for IPv4 over Ethernet (RFC 826, RFC 5227).
//!
//! ```text
//!   0  hardware type 1   2 protocol type 0x0800   4 lengths 6, 4   6 operation
//!   8  sender MAC       14 sender IP             18 target MAC    24 target IP   28
//! ```

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use slipring_wire::MacAddr;
use slipring_wire::assigned::EtherType;

use crate::field::{self, MIN_FRAME_LEN, array};

/// The operation of an ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArpOperation {
    /// A request for the MAC address of an IP address.
    Request,
    /// A reply with the MAC address of an IP address.
    Reply,
}

/// An ARP packet for IPv4 over Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArpPacket {
    /// Whether the packet is a request or a reply.
    pub operation: ArpOperation,
    /// The sender's MAC address.
    pub sender_mac: MacAddr,
    /// The sender's IP address. In a probe, it is unspecified (0.0.0.0).
    pub sender: Ipv4Addr,
    /// The target's MAC address. It has no meaning in a request.
    pub target_mac: MacAddr,
    /// The IP address that the packet asks for, or to which it replies.
    pub target: Ipv4Addr,
}

/// Why an ARP packet is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ArpError {
    /// The packet ends too early.
    #[error("the ARP packet is truncated")]
    Truncated,
    /// The packet is not about IPv4 over Ethernet.
    #[error("the ARP packet is not about IPv4 over Ethernet")]
    Protocol,
    /// The operation is neither a request nor a reply.
    #[error("the ARP operation {0} is neither request nor reply")]
    Operation(u16),
    /// The sender's MAC address is not that of a single host (RFC 1812, 3.3.2).
    #[error("the ARP sender claims the MAC address {0}")]
    SenderMac(MacAddr),
    /// The sender's IP address cannot belong to a host.
    #[error("the ARP sender claims the address {0}")]
    Sender(Ipv4Addr),
}

impl ArpPacket {
    /// Parses the payload of an ARP frame.
    ///
    /// # Errors
    /// [`ArpError`] if the packet must be ignored.
    pub fn parse(payload: &[u8]) -> Result<Self, ArpError> {
        let bytes = payload.first_chunk::<28>().ok_or(ArpError::Truncated)?;
        if bytes[..6] != [0, 1, 8, 0, 6, 4] {
            return Err(ArpError::Protocol);
        }
        let operation = match u16::from_be_bytes([bytes[6], bytes[7]]) {
            1 => ArpOperation::Request,
            2 => ArpOperation::Reply,
            other => return Err(ArpError::Operation(other)),
        };
        let mac = |at| MacAddr(array(bytes, at).unwrap_or_default());
        let address = |at| Ipv4Addr::from(array::<4>(bytes, at).unwrap_or_default());
        let packet = Self {
            operation,
            sender_mac: mac(8),
            sender: address(14),
            target_mac: mac(18),
            target: address(24),
        };
        if !field::is_unicast(packet.sender_mac) {
            return Err(ArpError::SenderMac(packet.sender_mac));
        }
        if packet.sender.is_multicast() || packet.sender.is_broadcast() {
            return Err(ArpError::Sender(packet.sender));
        }
        Ok(packet)
    }

    /// Creates a request for the MAC address of `target`.
    #[must_use]
    pub const fn request(sender_mac: MacAddr, sender: Ipv4Addr, target: Ipv4Addr) -> Self {
        let operation = ArpOperation::Request;
        Self { operation, sender_mac, sender, target_mac: MacAddr::ZERO, target }
    }

    /// Creates an announcement that `address` belongs to `mac` (RFC 5227, 2.3).
    #[must_use]
    pub const fn announcement(mac: MacAddr, address: Ipv4Addr) -> Self {
        Self::request(mac, address, address)
    }

    /// Creates the reply to this request. The reply says that `target` has the MAC address `mac`.
    #[must_use]
    pub const fn reply(&self, mac: MacAddr) -> Self {
        Self {
            operation: ArpOperation::Reply,
            sender_mac: mac,
            sender: self.target,
            target_mac: self.sender_mac,
            target: self.sender,
        }
    }

    /// Builds the Ethernet frame that carries this packet to the MAC address `to`. It is padded to
    /// the minimum length.
    #[must_use]
    pub fn frame(&self, to: MacAddr) -> Vec<u8> {
        let mut frame = field::ethernet_header(to, self.sender_mac, EtherType::ARP);
        frame.extend([0, 1, 8, 0, 6, 4, 0]);
        frame.push(if self.operation == ArpOperation::Request { 1 } else { 2 });
        frame.extend(self.sender_mac.0);
        frame.extend(self.sender.octets());
        frame.extend(self.target_mac.0);
        frame.extend(self.target.octets());
        frame.resize(MIN_FRAME_LEN, 0);
        frame
    }
}
