//! The lengths that frames can have.

/// Bytes of the longest frame that any port carries, without FCS.
pub const MAX_FRAME_LEN: u32 = 65_535;
/// Bytes of the shortest Ethernet frame, without FCS.
pub const MIN_FRAME_LEN: u32 = 60;
