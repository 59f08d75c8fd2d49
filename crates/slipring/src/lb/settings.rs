//! Settings of a balancer.

/// How frames are spread.
#[derive(Debug, Clone, Copy)]
pub(super) struct LbSettings {
    /// Maximum number of slots that are taken at a time.
    pub(super) batch: u32,
    /// Frames that may wait for outputs that are full, over all threads.
    pub(super) backlog: usize,
    pub(super) threads: u16,
    /// Keys the hash.
    pub(super) key: u64,
    /// Whether the key may be shown, because the user gave it or it is that of `--consistent`. A
    /// sender that knows a random key could direct flows to one output.
    pub(super) shows_key: bool,
    pub(super) is_consistent: bool,
    pub(super) looks_inside: bool,
}
