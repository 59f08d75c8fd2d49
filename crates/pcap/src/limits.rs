//! Limits on what is read from a capture file.

/// Longest captured packet that is believed, in bytes: the limit of libpcap.
pub const MAX_PACKET_LEN: u32 = 262_144;
/// Longest block that is looked into, in bytes, and so the largest buffer a caller needs.
pub const MAX_BLOCK_LEN: usize = 1 << 20;
