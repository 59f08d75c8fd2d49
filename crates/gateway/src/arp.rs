//! ARP for IPv4 over Ethernet (RFC 826).
//!
//! ```text
//!   14  hardware type 1   16 protocol type 0x0800   18 lengths 6, 4   20 operation
//!   22  sender MAC        28 sender IP              32 target MAC     38 target IP   42
//! ```

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use slipring_wire::MacAddr;
use slipring_wire::assigned::EtherType;

use crate::frame::{array, ethernet_header};

/// Minimum length of an Ethernet frame without its FCS.
const MIN_FRAME_LEN: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Request,
    Reply,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arp {
    pub(crate) operation: Operation,
    pub(crate) sender_mac: MacAddr,
    pub(crate) sender: Ipv4Addr,
    pub(crate) target_mac: MacAddr,
    pub(crate) target: Ipv4Addr,
}

impl Arp {
    /// Parses an ARP frame; `None` if it is not IPv4 over Ethernet, or truncated.
    pub(crate) fn parse(frame: &[u8]) -> Option<Self> {
        if array(frame, 14)? != [0, 1, 8, 0, 6, 4] {
            return None;
        }
        Some(Self {
            operation: match array(frame, 20)? {
                [0, 1] => Operation::Request,
                [0, 2] => Operation::Reply,
                _ => return None,
            },
            sender_mac: MacAddr(array(frame, 22)?),
            sender: array::<4>(frame, 28)?.into(),
            target_mac: MacAddr(array(frame, 32)?),
            target: array::<4>(frame, 38)?.into(),
        })
    }

    /// Builds the frame of this message to `to`.
    pub(crate) fn frame(&self, to: MacAddr) -> Vec<u8> {
        let mut frame = ethernet_header(to, self.sender_mac, EtherType::ARP);
        frame.extend([0, 1, 8, 0, 6, 4, 0]);
        frame.push(if self.operation == Operation::Request { 1 } else { 2 });
        frame.extend(self.sender_mac.0);
        frame.extend(self.sender.octets());
        frame.extend(self.target_mac.0);
        frame.extend(self.target.octets());
        frame.resize(MIN_FRAME_LEN, 0);
        frame
    }
}
