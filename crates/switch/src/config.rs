//! The configuration of a switch, and configuration errors.

/// What the switch does with frames to unknown addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownUnicast {
    /// Sends the frames to every port that takes frames to unknown addresses.
    #[default]
    Flood,
    /// Drops the frames and counts them as [`crate::SwitchDropReason::UnknownUnicast`].
    Drop,
}

/// The configuration of a [`crate::Switch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchConfig {
    /// A learned address is forgotten if no frame has come from it for this time in ns, to within
    /// 17 ms. `None` if addresses are never forgotten, as in netmap.
    pub ageing_ns: Option<u64>,
    /// Maximum number of addresses in the table, learned or static.
    pub max_addresses: usize,
    /// What the switch does with frames to unknown addresses.
    pub unknown_unicast: UnknownUnicast,
    /// Whether the switch takes VLAN tags into account. If not, it ignores the ports' VLAN
    /// configuration.
    pub is_vlan_aware: bool,
    /// The key of the address table's hash. It should be random, so that senders cannot choose
    /// addresses with equal hashes.
    pub secret: [u64; 2],
}

impl Default for SwitchConfig {
    /// Ageing after 300 s (as IEEE 802.1Q recommends), at most 131,072 addresses, frames to unknown
    /// addresses are flooded, and VLAN tags are ignored.
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
    /// The number of rings, which is the value of this variant, is out of range.
    #[error("a switch port has 1 to 1024 rings, not {0}")]
    Rings(u32),
    /// The value of this variant is not a VLAN id. VLAN ids are 1 to 4094.
    #[error("{0} is no VLAN id (1 to 4094)")]
    VlanId(u16),
    /// The burst of a storm limit is zero.
    #[error("a storm limit needs a burst of at least 1")]
    Burst,
    /// The switch has no port with the number that is the value of this variant.
    #[error("the switch has no port {0}")]
    NoSuchPort(u32),
    /// The address is a group address, so it cannot belong to a single station.
    #[error("a group address belongs to no port")]
    GroupAddress,
    /// The address table already holds its maximum number of addresses, which is the value of this
    /// variant.
    #[error("the table holds {0} addresses, and no more")]
    TableFull(usize),
}
