//! Limits of the lengths in a capture file.

/// Maximum captured length of a packet, in bytes. If a file has a larger length, it is corrupt.
/// libpcap has the same limit.
pub const MAX_PACKET_LEN: u32 = 262_144;
/// Maximum length of a block that is parsed, in bytes. A caller needs no larger buffer.
pub const MAX_BLOCK_LEN: usize = 1 << 20;
