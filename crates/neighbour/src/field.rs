//! Reads fields of frames, and starts new frames.

use alloc::vec::Vec;

use slipring_wire::MacAddr;
use slipring_wire::assigned::EtherType;

/// Length of an Ethernet header without tags.
pub(crate) const ETHERNET_LEN: usize = 14;
/// Minimum length of an Ethernet frame without its FCS.
pub(crate) const MIN_FRAME_LEN: usize = 60;

/// Returns `N` bytes at an offset, if the slice has them.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Returns the big-endian number at an offset.
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

/// Whether a MAC address can be that of one interface.
pub(crate) fn is_unicast(mac: MacAddr) -> bool {
    !mac.is_multicast() && mac != MacAddr::ZERO
}

/// The Ethernet header of a new frame.
pub(crate) fn ethernet_header(to: MacAddr, from: MacAddr, ethertype: EtherType) -> Vec<u8> {
    [&to.0[..], &from.0, &ethertype.0.to_be_bytes()].concat()
}
