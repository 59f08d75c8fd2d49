//! A port of the switch.

use core::fmt;

use crate::config::SwitchConfigError;
use crate::counters::SwitchPortCounters;
use crate::flood::FloodClass;
use crate::storm::{StormControl, StormLimits};
use crate::vlan::{VlanEgress, VlanMembership};

/// A port's number in its switch: the lowest that is free when it is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchPortId(pub u32);

impl fmt::Display for SwitchPortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Settings of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchPortConfig {
    /// Rings that frames can be delivered to.
    pub rings: u32,
    /// Whether addresses are learned here.
    pub learns: bool,
    /// Isolated ports reach only ports that are not.
    pub is_isolated: bool,
    /// Whether broadcasts go here.
    pub takes_broadcast: bool,
    /// Whether multicasts go here.
    pub takes_multicast: bool,
    /// Whether frames for unknown addresses go here.
    pub takes_unknown: bool,
    /// Its VLANs; ignored by a switch that is not VLAN-aware.
    pub vlan: VlanMembership,
    /// Limits of what is flooded from here.
    pub storm: StormLimits,
}

impl Default for SwitchPortConfig {
    /// One ring, learning, taking everything, without limits.
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

/// What deciding on a frame for a port needs, close together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PortForwarding {
    /// Number of its ring 0 among the rings of all ports.
    pub(crate) first_queue: u32,
    /// 0 where there is no port.
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
