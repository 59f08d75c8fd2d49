//! Administration of switches beyond netmap's requests: counters, addresses, settings, and removal
//! of ports that a user left behind.

use std::sync::Arc;

use rustix::io::Errno;
use slipring_switch::{
    MacEntry, Switch, SwitchConfig, SwitchPortConfig, SwitchPortCounters, SwitchPortId,
};

use crate::open::domain::Domain;
use crate::port::monitor_taps::MonitorInfo;
use crate::port::vale::switches::BridgeTable;
use crate::types::lock::lock;
use crate::types::port_name::PortKey;
use crate::types::port_name::split;

/// The current state of a switch.
#[derive(Debug, Clone)]
pub struct SwitchInfo {
    /// Inode number of its network namespace.
    pub netns: u64,
    /// The switch's name: `vale0`.
    pub name: String,
    /// The number that lists show for the switch: its `nr_bridge_idx`.
    pub number: u16,
    /// The switch's settings.
    pub config: SwitchConfig,
    /// The switch's ports, in order of their numbers.
    pub ports: Vec<SwitchPortInfo>,
    /// The addresses in the switch's table, learned or static.
    pub addresses: Vec<MacEntry>,
}

/// A port of a switch.
#[derive(Debug, Clone)]
pub struct SwitchPortInfo {
    /// The port's number.
    pub id: SwitchPortId,
    /// The port's name: `vale0:a`.
    pub name: String,
    /// The port's packet counters.
    pub counters: SwitchPortCounters,
    /// The port's settings.
    pub config: SwitchPortConfig,
    /// The port's monitors.
    pub monitors: Vec<MonitorInfo>,
}

impl Domain {
    /// Returns all switches that have at least one port.
    #[must_use]
    pub fn switches(&self) -> Vec<SwitchInfo> {
        let hubs: Vec<_> = {
            let names = lock(&self.names);
            let hubs = names.switches.bridges.iter();
            hubs.filter_map(|((netns, _), hub)| Some((*netns, hub.upgrade()?))).collect()
        };
        let infos = hubs.into_iter().map(|(netns, hub)| {
            let (now_ns, named) = (hub.now_ns(), hub.ports());
            let watched = |(id, name)| (id, name, hub.monitors(id));
            let named: Vec<_> = named.into_iter().map(watched).collect();
            hub.with_engine(|engine| SwitchInfo {
                netns,
                name: hub.name().to_owned(),
                number: hub.number(),
                config: *engine.config(),
                ports: named.into_iter().filter_map(|port| port_info(engine, port)).collect(),
                addresses: engine.table().entries(now_ns).collect(),
            })
        });
        infos.filter(|info| !info.ports.is_empty()).collect()
    }

    /// Reads or changes the switch `name`. The closure gets the forwarding engine, the time of its
    /// clock in ns, and the numbers and names of the ports.
    ///
    /// # Errors
    /// [`Errno::NOENT`] if no switch has this name.
    pub fn with_switch<T>(
        &self,
        netns: u64,
        name: &str,
        visit: impl FnOnce(&mut Switch, u64, &[(SwitchPortId, String)]) -> T,
    ) -> Result<T, Errno> {
        let hub = lock(&self.names).switches.find(netns, name).ok_or(Errno::NOENT)?;
        let (now_ns, ports) = (hub.now_ns(), hub.ports());
        let visited = hub.with_engine(|engine| visit(engine, now_ns, &ports));
        self.commit();
        Ok(visited)
    }

    /// Removes a persistent port.
    ///
    /// # Errors
    /// [`Errno::NOENT`]: no persistent port has this name. [`Errno::BUSY`]: the port is in a
    /// switch, or a program uses it.
    pub fn remove_persistent(&self, netns: u64, name: &str) -> Result<(), Errno> {
        let change = self.begin_change();
        let removed = lock(&self.names).switches.remove_persistent(&(netns, name.to_owned()));
        drop(change);
        self.commit();
        removed
    }

    /// Detaches an interface or a persistent port from a switch, even while it is polled. `name` is
    /// its name there: `vale0:eth0`. Returns the number that it had in the switch.
    ///
    /// # Errors
    /// [`Errno::NXIO`]: nothing is attached under this name. [`Errno::INVAL`]: the port is not
    /// persistent and lives as long as programs have it open, or the name is invalid.
    pub fn detach(&self, netns: u64, name: &str) -> Result<SwitchPortId, Errno> {
        let change = self.begin_change();
        let detached = self.detach_port(&(netns, name.to_owned()), PolledNic::Detach);
        drop(change);
        self.commit();
        detached
    }

    /// Like [`Self::detach`], for a caller that has already begun a change of the domain. With
    /// [`PolledNic::Refuse`], returns [`Errno::BUSY`] for an interface that workers poll.
    pub(crate) fn detach_port(
        &self,
        key: &PortKey,
        polled: PolledNic,
    ) -> Result<SwitchPortId, Errno> {
        let (switch, port) = split(&key.1)?;
        let mut names = lock(&self.names);
        if let Some(attached) = names.switches.attached.get(key) {
            if attached.is_polled() && polled == PolledNic::Refuse {
                return Err(Errno::BUSY);
            }
            let index = attached.id();
            let gone = names.switches.attached.remove(key);
            drop(names);
            // Dropping the attachment waits for its workers to end.
            drop(gone);
            return Ok(index);
        }
        let persistent = names.switches.persistent.get(&(key.0, port.to_owned()));
        if let Some(persistent) = persistent
            && persistent.attachment().is_some_and(|(hub, _)| hub.name() == switch)
        {
            return persistent.detach().ok_or(Errno::NXIO);
        }
        // A port that is not persistent cannot be detached: it stays as long as programs have it
        // open.
        Err(if names.port(key).is_some() { Errno::INVAL } else { Errno::NXIO })
    }

    /// Returns whether the domain has anything that exists without open files: interfaces in
    /// switches, or persistent ports.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        lock(&self.names).switches.is_lasting()
    }
}

/// What a detach does with an interface whose rings workers poll without sleeping
/// (`VALE_POLLING_ENABLE`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PolledNic {
    /// The interface stays in its switch; the request is refused.
    Refuse,
    /// The interface is detached like any other.
    Detach,
}

impl BridgeTable {
    /// Removes a persistent port that is not in use.
    pub(crate) fn remove_persistent(&mut self, key: &PortKey) -> Result<(), Errno> {
        let port = self.persistent.get(key).ok_or(Errno::NOENT)?;
        if port.attachment().is_some() || Arc::strong_count(port) > 1 {
            return Err(Errno::BUSY);
        }
        self.persistent.remove(key);
        Ok(())
    }
}

fn port_info(
    engine: &Switch,
    (id, name, monitors): (SwitchPortId, String, Vec<MonitorInfo>),
) -> Option<SwitchPortInfo> {
    let (counters, config) = (*engine.counters(id)?, engine.port(id)?.clone());
    Some(SwitchPortInfo { id, name, counters, config, monitors })
}
