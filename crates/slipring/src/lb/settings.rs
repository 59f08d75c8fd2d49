//! Settings of the load balancer.

/// How frames are distributed over the outputs.
#[derive(Debug, Clone, Copy)]
pub(super) struct LbSettings {
    /// Maximum number of slots that are received at a time; values below 64 count as 64.
    pub(super) batch: u32,
    /// Maximum frames that may wait for full outputs, over all threads.
    pub(super) backlog: usize,
    pub(super) threads: u16,
    /// Key of the hash that maps flows to outputs.
    pub(super) key: u64,
    /// Whether reports may show the key: true if the user gave it, or if `--consistent` sets it. A
    /// random key stays secret, because a sender that knows it could direct all flows to one
    /// output.
    pub(super) shows_key: bool,
    pub(super) is_consistent: bool,
    pub(super) looks_inside: bool,
}
