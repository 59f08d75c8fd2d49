//! Limits on numbers in a capture file.

/// Maximum captured length of a packet, in bytes; a longer one means that the file is corrupt. The
/// limit is libpcap's.
pub const MAX_PACKET_LEN: u32 = 262_144;
/// Maximum length of a block that is parsed, in bytes, and so the largest buffer that a caller
/// needs.
pub const MAX_BLOCK_LEN: usize = 1 << 20;
