//! The hash by which a flow chooses among several next hops, as the program computes it.
//!
//! All engines of a router must choose the same next hop, so this is the hash of `slipring-route`:
//!
//! ```text
//!   fold(a, b)  = high half of the 128-bit product ^ low half
//!   IPv4: rest  = ports << 8 | protocol
//!         hash  = fold(fold(addresses ^ seed, M0) ^ rest, M1)
//!   IPv6: rest  = ports << 32 | flow label << 8 | next header
//!         hash  = fold(fold(source[0] ^ seed, destination[0] ^ M0)
//!                      ^ fold(source[1] ^ M1, destination[1] ^ seed) ^ rest, M2)
//!   bucket      = hash modulo 256
//! ```
//!
//! Words of the packet are big-endian: the two IPv4 addresses are one word of 64 bits, an IPv6
//! address has two, the ports are one word of 32 bits. The ports are those of TCP, UDP and SCTP
//! directly after the IP header, and 0 for all fragments, because only the first one has ports, and
//! for packets whose ports are cut off. The flow label is 0 unless
//! [`ResidentHash::uses_flow_label`] is set.

/// How flows are spread over several next hops. Must be the same in all engines of a router.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResidentHash {
    /// Decides which next hop a flow takes.
    pub seed: u64,
    /// Whether the IPv6 flow label is part of the hash (RFC 6438).
    pub uses_flow_label: bool,
}

/// M0, M1 and M2: odd numbers with irregular bits.
pub(crate) const MULTIPLIERS: [u64; 3] =
    [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
/// IP protocols whose headers start with ports: TCP, UDP and SCTP.
pub(crate) const HAS_PORTS: [u8; 3] = [6, 17, 132];
