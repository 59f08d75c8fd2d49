//! Which of the kernel's tables decide about the packets of an interface, by its routing rules.
//!
//! There is one VRF: the tables that most interfaces have in common, those of the kernel's first
//! rules if one has them. Packets of interfaces for which other tables, or rules that look at more
//! than the interface, decide are left to the kernel.

use slipring_fib::{Mirror, VrfConfig};
use slipring_rtnetlink::RouteFamily;

/// What the rules mean for the router.
pub(crate) struct LookupTables {
    /// The tables in which packets are looked up.
    pub(crate) config: VrfConfig,
    /// Whose packets the kernel's rules look up elsewhere, by port.
    pub(crate) ruled: Vec<bool>,
}

impl LookupTables {
    /// Reads the rules that the mirror knows.
    pub(crate) fn of(mirror: &Mirror, ifindexes: &[u32]) -> Self {
        let all: Vec<_> = ifindexes.iter().map(|ifindex| tables_of(mirror, *ifindex)).collect();
        let default = VrfConfig::default();
        let known = || all.iter().flatten();
        let has_default = known().any(|config| *config == default);
        let config = if has_default { default } else { known().next().cloned().unwrap_or(default) };
        let ruled = all.iter().map(|of| of.as_ref() != Some(&config)).collect();
        Self { config, ruled }
    }
}

/// The tables for packets that arrive on an interface. `None` if rules also look at other properties
/// of the packets.
fn tables_of(mirror: &Mirror, ifindex: u32) -> Option<VrfConfig> {
    let of = |family| mirror.tables_for(family, ifindex).ok();
    Some(VrfConfig { v4: of(RouteFamily::V4)?, v6: of(RouteFamily::V6)? })
}
