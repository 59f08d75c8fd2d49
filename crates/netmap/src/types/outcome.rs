//! Results that a port returns: the outcome of a sync, its counters, its limits of payload offsets.

/// The outcome of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncStatus {
    /// The ring was synced.
    Done,
    /// The ring was skipped, because another thread is syncing it.
    Busy,
    /// The program's indices were impossible; the ring was reinitialised.
    Reinit,
    /// The port's interface, monitored port or memory no longer exists, or the port has no such
    /// ring.
    Gone,
}

/// Packet counters of a port since its first bind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdapterCounters {
    /// Packets given to programs.
    pub received: u64,
    /// Packets that programs sent.
    pub sent: u64,
    /// Packets lost: for each cause, its name and the number.
    pub drops: Vec<(&'static str, u64)>,
}

/// Limits of a port that supports payload offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetLimits {
    /// The largest offset, in bytes, that leaves space for everything that the port puts into a
    /// slot.
    pub max: u32,
    /// Whether frames in the port's rings stay there after the last program has unbound them.
    pub preserves_frames: bool,
}

impl OffsetLimits {
    /// No limit on offsets, for a port that resets its rings before they are bound again.
    pub const ANY: Self = Self { max: u32::MAX, preserves_frames: false };
}
