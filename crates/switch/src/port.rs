//! A port of the switch.

use core::fmt;

use crate::config::SwitchConfigError;
use crate::counters::SwitchPortCounters;
use crate::flood::FloodClass;
use crate::storm::{StormControl, StormLimits};
use crate::vlan::{VlanEgress, VlanMembership};

/// A port's number in its switch. A new port gets the lowest free number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchPortId(pub u32);

impl fmt::Display for SwitchPortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The configuration of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchPortConfig {
    /// The number of rings through which the port receives frames.
    pub rings: u32,
    /// Whether the switch learns addresses at this port.
    pub learns: bool,
    /// Whether the port is isolated: isolated ports exchange no frames with each other.
    pub is_isolated: bool,
    /// Whether the port receives flooded broadcasts.
    pub takes_broadcast: bool,
    /// Whether the port receives flooded multicasts.
    pub takes_multicast: bool,
    /// Whether the port receives flooded frames to unknown addresses.
    pub takes_unknown: bool,
    /// The port's VLANs; ignored if the switch is not VLAN-aware.
    pub vlan: VlanMembership,
    /// How many frames from this port may be flooded.
    pub storm: StormLimits,
}

impl Default for SwitchPortConfig {
    /// One ring; the port learns, receives every class of flooded frames, and has no storm limits.
    fn default() -> Self {
        Self {
            rings: 1,
            learns: true,
            is_isolated: false,
            takes_broadcast: true,
            takes_multicast: true,
            takes_unknown: true,
            vlan: VlanMembership::default(),
            storm: StormLimits::default(),
        }
    }
}

/// The properties of a port that forwarding decisions need, kept small so that they take few cache
/// lines.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PortForwarding {
    /// The index of the port's ring 0 among the rings of all ports.
    pub(crate) first_queue: u32,
    /// The port's number of rings; 0 if no port has this number.
    pub(crate) rings: u32,
    pub(crate) is_isolated: bool,
}

#[derive(Debug)]
pub(crate) struct SwitchPort {
    pub(crate) config: SwitchPortConfig,
    pub(crate) counters: SwitchPortCounters,
    pub(crate) storm: StormControl,
}

impl SwitchPort {
    pub(crate) fn new(config: SwitchPortConfig) -> Result<Self, SwitchConfigError> {
        if !(1..=1024).contains(&config.rings) {
            return Err(SwitchConfigError::Rings(config.rings));
        }
        let storm = StormControl::new(&config.storm)?;
        Ok(Self { config, counters: SwitchPortCounters::default(), storm })
    }

    pub(crate) fn takes(&self, class: FloodClass) -> bool {
        match class {
            FloodClass::Broadcast => self.config.takes_broadcast,
            FloodClass::Multicast => self.config.takes_multicast,
            FloodClass::Unknown => self.config.takes_unknown,
        }
    }

    pub(crate) fn egress(&self, is_vlan_aware: bool) -> VlanEgress {
        if is_vlan_aware { self.config.vlan.egress() } else { VlanEgress::AsIs }
    }
}
