//! Settings of a whole switch, and what is wrong with settings.

/// What happens to frames for an address that nobody is known to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownUnicast {
    /// They go to every port that takes them.
    #[default]
    Flood,
    /// They are dropped, and counted as such.
    Drop,
}

/// Settings of a [`crate::Switch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchConfig {
    /// An address that was silent for so many nanoseconds is forgotten, give or take 17 ms;
    /// `None`: never, as in netmap.
    pub ageing_ns: Option<u64>,
    /// Most addresses that are learned.
    pub max_addresses: usize,
    /// Frames for unknown addresses.
    pub unknown_unicast: UnknownUnicast,
    /// Whether VLAN tags count; ports' VLAN settings are ignored otherwise.
    pub is_vlan_aware: bool,
    /// Keys the address table; should be random.
    pub secret: [u64; 2],
}

impl Default for SwitchConfig {
    /// 300 s (IEEE 802.1Q's recommendation), 131,072 addresses, flooding, without VLANs.
    fn default() -> Self {
        Self {
            ageing_ns: Some(300_000_000_000),
            max_addresses: 131_072,
            unknown_unicast: UnknownUnicast::Flood,
            is_vlan_aware: false,
            secret: [0x5157_6e69_7463_6830, 0x7661_6c65_3a78_3179],
        }
    }
}

/// Why a port or an address cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SwitchConfigError {
    /// A port needs a ring to deliver to.
    #[error("a switch port has 1 to 1024 rings, not {0}")]
    Rings(u32),
    /// VLAN ids are 1 to 4094.
    #[error("{0} is no VLAN id (1 to 4094)")]
    VlanId(u16),
    /// A storm limit of nothing.
    #[error("a storm limit needs a burst of at least 1")]
    Burst,
    /// There is no such port.
    #[error("the switch has no port {0}")]
    NoSuchPort(u32),
    /// The address cannot be one station's.
    #[error("a group address belongs to no port")]
    GroupAddress,
    /// The table is full.
    #[error("the table holds {0} addresses, and no more")]
    TableFull(usize),
}
