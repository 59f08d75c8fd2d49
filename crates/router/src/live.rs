//! Settings that can change while the router runs.

use slipring_neighbour::icmp::IcmpLimits;
use slipring_port::Nanos;
use slipring_route::PuntClass;

/// The settings. Each thread applies those that concern it together, between two batches of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveSettings {
    /// Packets per second that all workers together may give to the kernel, by class, in the order
    /// of [`PuntClass::ALL`].
    pub(crate) punt_rates: [u64; PuntClass::COUNT],
    /// Limits on the ICMP errors of each thread.
    pub(crate) icmp_limits: IcmpLimits,
    /// Whether workers send redirects on interfaces where the kernel's settings allow it.
    pub(crate) sends_redirects: bool,
    /// How long changes of the kernel's tables are collected before they are written.
    pub(crate) coalesce_ns: Nanos,
}

impl Default for LiveSettings {
    fn default() -> Self {
        Self {
            punt_rates: [2000, 2000, 20_000, 5000, 5000, 1000, 1000],
            icmp_limits: IcmpLimits::default(),
            sends_redirects: true,
            coalesce_ns: 20_000_000,
        }
    }
}
