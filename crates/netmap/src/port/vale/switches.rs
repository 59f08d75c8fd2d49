//! The table of one user's switches, persistent ports and attached interfaces.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::port::adapter::Adapter;
use crate::port::vale::attach::NicAttachment;
use crate::port::vale::bridge::Bridge;
use crate::port::vale::port::ValePort;
use crate::types::port_name::PortKey;

/// A user's switches, persistent ports and attached interfaces.
#[derive(Debug, Default)]
pub(crate) struct BridgeTable {
    /// The switches, by number; a switch that no longer exists leaves a dead entry.
    pub(crate) bridges: Vec<(PortKey, Weak<Bridge>)>,
    /// Ports created by requests (`VALE_NEWIF`), in a switch or not.
    pub(crate) persistent: HashMap<PortKey, Arc<ValePort>>,
    /// Interfaces and second attachments of persistent ports, by their name in the switch.
    pub(crate) attached: HashMap<PortKey, Arc<NicAttachment>>,
}

impl BridgeTable {
    /// Returns whether there is anything that exists without open files: persistent ports, or
    /// attached interfaces.
    pub(crate) fn is_lasting(&self) -> bool {
        !self.persistent.is_empty() || !self.attached.is_empty()
    }

    /// Returns whether a persistent port has this name.
    pub(crate) fn is_persistent(&self, key: &PortKey) -> bool {
        self.persistent.contains_key(key)
    }

    /// Returns all ports that [`Self::existing`] finds: attached interfaces with their names in the
    /// switch, persistent ports with their own names.
    pub(crate) fn ports_by_name(&self) -> Vec<(PortKey, Arc<dyn Adapter>)> {
        let attached = self.attached.iter().map(|(key, one)| (key.clone(), one.nic().clone()));
        let persistent = self.persistent.iter();
        let persistent =
            persistent.map(|(key, one)| (key.clone(), one.clone() as Arc<dyn Adapter>));
        attached.chain(persistent).collect()
    }

    /// Finds an interface in a switch, or a persistent port by its own name or its name in a
    /// switch.
    pub(crate) fn existing(&self, key: &PortKey) -> Option<Arc<dyn Adapter>> {
        if let Some(attached) = self.attached.get(key) {
            return Some(attached.nic().clone());
        }
        let (switch, name) = key.1.split_once(':').unwrap_or(("", &key.1));
        let port = self.persistent.get(&(key.0, name.to_owned()))?;
        let existing =
            switch.is_empty() || port.attachment().is_some_and(|(hub, _)| hub.name() == switch);
        existing.then(|| port.clone() as Arc<dyn Adapter>)
    }

    /// Returns the existing switches of a network namespace.
    pub(crate) fn in_netns(&self, netns: u64) -> impl Iterator<Item = Arc<Bridge>> + '_ {
        let ours = self.bridges.iter().filter(move |((at, _), _)| *at == netns);
        ours.filter_map(|(_, hub)| hub.upgrade())
    }

    /// Finds the switch with this name.
    pub(crate) fn find(&self, netns: u64, name: &str) -> Option<Arc<Bridge>> {
        self.in_netns(netns).find(|hub| hub.name() == name)
    }

    /// Finds or creates the switch with this name; a new one has the lowest free number.
    pub(crate) fn get_or_create(&mut self, netns: u64, name: &str) -> Arc<Bridge> {
        if let Some(hub) = self.find(netns, name) {
            return hub;
        }
        let free = self.bridges.iter().position(|(_, hub)| hub.strong_count() == 0);
        let at = free.unwrap_or(self.bridges.len());
        let hub = Bridge::new(name.to_owned(), at as u16);
        let entry = ((netns, name.to_owned()), Arc::downgrade(&hub));
        match free {
            Some(at) => self.bridges[at] = entry,
            None => self.bridges.push(entry),
        }
        hub
    }
}
