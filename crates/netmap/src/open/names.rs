//! The table of one user's ports by name.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::port::adapter::Adapter;
use crate::port::pipe::Pipe;
use crate::port::vale::switches::BridgeTable;
use crate::types::port_name::PortKey;

/// What is found by a name.
type NamedAdapters<T> = Vec<(PortKey, Arc<T>)>;

/// Ports of one domain that are alive.
#[derive(Debug, Default)]
pub(crate) struct AdapterNames {
    pub(crate) ports: HashMap<PortKey, Weak<dyn Adapter>>,
    pub(crate) pipes: HashMap<PortKey, Weak<Pipe>>,
    pub(crate) switches: BridgeTable,
}

impl AdapterNames {
    /// Ports that are found by a name, and pipes.
    pub(crate) fn all(&self) -> (NamedAdapters<dyn Adapter>, NamedAdapters<Pipe>) {
        let ports = self.ports.iter().filter_map(|(key, one)| Some((key.clone(), one.upgrade()?)));
        let pipes = self.pipes.iter().filter_map(|(key, one)| Some((key.clone(), one.upgrade()?)));
        (ports.collect(), pipes.collect())
    }

    /// Lets a port be found by a name again.
    pub(crate) fn add_port(&mut self, key: PortKey, port: &Arc<dyn Adapter>) {
        self.ports.insert(key, Arc::downgrade(port));
    }

    /// Lets a pipe be found again, by the name of its master's end.
    pub(crate) fn add_pipe(&mut self, key: PortKey, pipe: &Arc<Pipe>) {
        self.pipes.insert(key, Arc::downgrade(pipe));
    }

    /// The port of this name, if somebody has it and it stands for what has the name today.
    pub(crate) fn port(&self, key: &PortKey) -> Option<Arc<dyn Adapter>> {
        self.ports.get(key).and_then(Weak::upgrade).filter(|port| !port.is_stale())
    }
}
