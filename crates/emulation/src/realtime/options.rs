//! Options of an emulation between ports.

use slipring_port::{Nanos, WaitStrategy};

use crate::flags::BurstLimit;

/// Options that determine how an emulation runs; the [`slipring_link::NetworkSpec`] determines
/// which links it emulates.
#[derive(Debug, Clone)]
pub struct RealtimeOptions {
    /// Seed of every random stream.
    pub seed: u64,
    /// Maximum number of slots and bytes that are taken from a queue at a time.
    pub burst: BurstLimit,
    /// How a thread waits for frames; with [`WaitStrategy::Spin`] it never sleeps.
    pub wait_policy: WaitStrategy,
    /// CPUs to bind the threads to, one for each thread; further threads are not bound.
    pub cpus: Vec<usize>,
    /// Whether to use two threads instead of one, for two ports whose directions share no link or
    /// node.
    pub pipeline: bool,
    /// Frames later than this many ns are dropped instead of sent; `None` for no limit.
    pub late_drop: Option<Nanos>,
    /// Frames later than this many ns are counted as late.
    pub late_warn: Nanos,
    /// Maximum memory for frames, in bytes.
    pub storage_bytes: u64,
}

impl Default for RealtimeOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            burst: BurstLimit::default(),
            wait_policy: WaitStrategy::default(),
            cpus: Vec::new(),
            pipeline: false,
            late_drop: None,
            late_warn: 100_000,
            storage_bytes: 4 << 30,
        }
    }
}
