//! Results that a port returns: the outcome of a sync, its counters, its limits for payload offsets.

/// How a sync went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncStatus {
    /// As it should.
    Done,
    /// Another thread is syncing this ring.
    Busy,
    /// The program's indices were impossible; the ring was reinitialised.
    Reinit,
    /// The port is not there any more.
    Gone,
}

/// What has passed a port since it was bound, in packets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdapterCounters {
    /// Given to programs.
    pub received: u64,
    /// Sent by them.
    pub sent: u64,
    /// Lost, by cause.
    pub drops: Vec<(&'static str, u64)>,
}

/// Limits of a port that supports payload offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetLimits {
    /// The largest offset that leaves room for all that the port puts into a slot, in bytes.
    pub max: u32,
    /// Whether frames in its rings stay there until the port is bound again.
    pub preserves_frames: bool,
}

impl OffsetLimits {
    /// No limit, for a port whose rings are reset before they are bound again.
    pub const ANY: Self = Self { max: u32::MAX, preserves_frames: false };
}
