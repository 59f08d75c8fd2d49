//! Reads fields of frames, and creates the headers of new frames.

use alloc::vec::Vec;

use slipring_wire::MacAddr;
use slipring_wire::assigned::EtherType;

/// Length of an Ethernet header without VLAN tags.
pub(crate) const ETHERNET_LEN: usize = 14;
/// Minimum length in bytes of an Ethernet frame without its FCS.
pub(crate) const MIN_FRAME_LEN: usize = 60;

/// Returns the `N` bytes at offset `at`; `None` if the slice is too short.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Returns the big-endian 16-bit number at offset `at`; `None` if the slice is too short.
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

/// Returns whether a MAC address can belong to a single interface.
pub(crate) fn is_unicast(mac: MacAddr) -> bool {
    !mac.is_multicast() && mac != MacAddr::ZERO
}

/// Creates a new frame that contains only its Ethernet header.
pub(crate) fn ethernet_header(to: MacAddr, from: MacAddr, ethertype: EtherType) -> Vec<u8> {
    [&to.0[..], &from.0, &ethertype.0.to_be_bytes()].concat()
}
