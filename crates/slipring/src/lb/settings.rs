//! Settings of a balancer.

/// How frames are spread.
#[derive(Debug, Clone, Copy)]
pub(super) struct LbSettings {
    /// Slots taken at most at a time.
    pub(super) batch: u32,
    /// Frames that may wait for outputs that are full, over all threads.
    pub(super) backlog: usize,
    pub(super) threads: u16,
    /// Keys the hash.
    pub(super) key: u64,
    /// Whether the key may be shown: it was given, or is the one of `--consistent`. Who knows a drawn
    /// one could aim flows at one output.
    pub(super) shows_key: bool,
    pub(super) is_consistent: bool,
    pub(super) looks_inside: bool,
}
