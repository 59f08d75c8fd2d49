//! The configuration of a switch, and configuration errors.

/// What to do with frames to unknown addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownUnicast {
    /// Send the frames to every port that takes them.
    #[default]
    Flood,
    /// Drop the frames and count them as unknown unicast.
    Drop,
}

/// The configuration of a [`crate::Switch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchConfig {
    /// The time in ns without frames after which an address is forgotten, give or take 17 ms;
    /// `None`: never, as in netmap.
    pub ageing_ns: Option<u64>,
    /// Maximum number of learned addresses.
    pub max_addresses: usize,
    /// What to do with frames to unknown addresses.
    pub unknown_unicast: UnknownUnicast,
    /// Whether VLAN tags matter; otherwise the ports' VLAN configuration is ignored.
    pub is_vlan_aware: bool,
    /// The key of the address table's hash; should be random.
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

/// Why a port or an address was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SwitchConfigError {
    /// The number of rings is out of range.
    #[error("a switch port has 1 to 1024 rings, not {0}")]
    Rings(u32),
    /// VLAN ids are 1 to 4094.
    #[error("{0} is no VLAN id (1 to 4094)")]
    VlanId(u16),
    /// The burst of a storm limit is zero.
    #[error("a storm limit needs a burst of at least 1")]
    Burst,
    /// No port has this number.
    #[error("the switch has no port {0}")]
    NoSuchPort(u32),
    /// The address cannot belong to a single station.
    #[error("a group address belongs to no port")]
    GroupAddress,
    /// The table is full.
    #[error("the table holds {0} addresses, and no more")]
    TableFull(usize),
}
