//! Limits on numbers in a capture file.

/// Longest captured packet that is believed, in bytes: the limit of libpcap.
pub const MAX_PACKET_LEN: u32 = 262_144;
/// Maximum length of a block that is parsed, in bytes, and so the largest buffer that a caller
/// needs.
pub const MAX_BLOCK_LEN: usize = 1 << 20;
