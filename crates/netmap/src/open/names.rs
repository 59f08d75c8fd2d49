//! The table of one user's ports by name.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::port::adapter::Adapter;
use crate::port::pipe::Pipe;
use crate::port::vale::switches::BridgeTable;
use crate::types::port_name::PortKey;

/// Ports with their names.
type NamedAdapters<T> = Vec<(PortKey, Arc<T>)>;

/// The ports of one domain that requests find by name. The entry of a port may outlive the port.
#[derive(Debug, Default)]
pub(crate) struct AdapterNames {
    pub(crate) ports: HashMap<PortKey, Weak<dyn Adapter>>,
    pub(crate) pipes: HashMap<PortKey, Weak<Pipe>>,
    pub(crate) switches: BridgeTable,
}

impl AdapterNames {
    /// Returns the existing ports of the table `ports`, then the existing pipes.
    pub(crate) fn all(&self) -> (NamedAdapters<dyn Adapter>, NamedAdapters<Pipe>) {
        let ports = self.ports.iter().filter_map(|(key, one)| Some((key.clone(), one.upgrade()?)));
        let pipes = self.pipes.iter().filter_map(|(key, one)| Some((key.clone(), one.upgrade()?)));
        (ports.collect(), pipes.collect())
    }

    /// Restores a port under its name.
    pub(crate) fn add_port(&mut self, key: PortKey, port: &Arc<dyn Adapter>) {
        self.ports.insert(key, Arc::downgrade(port));
    }

    /// Restores a pipe under the name of its master end.
    pub(crate) fn add_pipe(&mut self, key: PortKey, pipe: &Arc<Pipe>) {
        self.pipes.insert(key, Arc::downgrade(pipe));
    }

    /// Finds the port with this name in `ports`, if the port still exists and the name still refers
    /// to it ([`Adapter::is_stale`]).
    pub(crate) fn port(&self, key: &PortKey) -> Option<Arc<dyn Adapter>> {
        self.ports.get(key).and_then(Weak::upgrade).filter(|port| !port.is_stale())
    }
}
