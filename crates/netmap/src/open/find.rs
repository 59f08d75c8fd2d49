//! Finds or creates the port that a request names: pipes, null ports, monitors, switch ports, and
//! ports of the provider.

use std::sync::{Arc, Weak};

use rustix::io::Errno;
use slipring_abi::name::PipeRole;
use slipring_abi::{
    NR_REG_ALL_NIC, NR_REG_NULL, NR_REG_ONE_NIC, NR_REG_PIPE_MASTER, NR_REG_PIPE_SLAVE,
    NmreqRegister,
};

use crate::memory::netmap_memory::NetmapMemory;
use crate::open::names::AdapterNames;
use crate::open::provider::{AdapterRequest, Provider};
use crate::port::adapter::Adapter;
use crate::port::detached::DetachedAdapter;
use crate::port::monitor::{Monitor, MonitorRequest, is_monitor_request};
use crate::port::pipe::{Pipe, PipePlan};
use crate::types::lock::lock;
use crate::types::params::rings;
use crate::types::port_name::{PortKind, is_vale};
use crate::types::shape::AdapterShape;

impl AdapterRequest<'_> {
    /// Finds or creates the port.
    pub(crate) fn find(&self, provider: &dyn Provider) -> Result<Arc<dyn Adapter>, Errno> {
        let mode = self.register.nr_mode;
        if matches!(mode, NR_REG_PIPE_MASTER | NR_REG_PIPE_SLAVE) {
            return Err(Errno::INVAL);
        }
        provider.admit(self, self.kind())?;
        let monitors = is_monitor_request(self.register);
        match mode {
            NR_REG_NULL if monitors => return Err(Errno::INVAL),
            NR_REG_NULL => return self.null(),
            _ if monitors => return self.monitor(provider),
            _ => {}
        }
        let mut names = lock(&self.domain.names);
        let port = match self.name.rfind(['{', '}']) {
            Some(sign) => self.pipe(&mut names, sign, provider),
            None => self.port(&mut names, provider),
        }?;
        let other = |memory: &Arc<NetmapMemory>| !Arc::ptr_eq(memory, port.memory());
        if self.memory.is_some_and(other) { Err(Errno::INVAL) } else { Ok(port) }
    }

    /// Returns the kind of port that the request names.
    pub(crate) fn kind(&self) -> PortKind {
        let kind = match self.register.nr_mode {
            NR_REG_NULL => PortKind::Null,
            _ => PortKind::of_name(self.name),
        };
        let persistent = || lock(&self.domain.names).switches.is_persistent(&self.key(self.name));
        if kind == PortKind::Interface && persistent() { PortKind::Switch } else { kind }
    }

    /// Finds the port if it exists. Creates no switch port and no pipe.
    pub(crate) fn find_existing(&self, provider: &dyn Provider) -> Result<Arc<dyn Adapter>, Errno> {
        provider.admit(self, self.kind())?;
        if let Some(port) = self.find_alive(&lock(&self.domain.names)) {
            return Ok(port);
        }
        match PortKind::of_name(self.name) {
            PortKind::Interface => provider.find(self),
            _ => Err(Errno::NXIO),
        }
    }

    /// Creates a null port, which only gives access to the memory that the request names.
    fn null(&self) -> Result<Arc<dyn Adapter>, Errno> {
        let memory = self.memory.ok_or(Errno::INVAL)?;
        let (register, params) = (self.register, self.domain.params());
        let shape = AdapterShape {
            rings: [register.nr_tx_rings, register.nr_rx_rings],
            host_rings: [0, 0],
            slots: [params.slots(register.nr_tx_slots), params.slots(register.nr_rx_slots)],
        };
        Ok(DetachedAdapter::new(self.name.to_owned(), shape, memory.clone()))
    }

    /// Creates a monitor of the port with this name. A program must have bound that port.
    fn monitor(&self, provider: &dyn Provider) -> Result<Arc<dyn Adapter>, Errno> {
        let names = lock(&self.domain.names);
        let Some(port) = self.find_alive(&names) else {
            drop(names);
            // No program has the port bound. If the provider knows no such port, its error is
            // returned.
            let plain = !is_vale(self.name) && !self.name.contains(['{', '}']);
            let found = if plain { provider.find(self).map(|_| ()) } else { Ok(()) };
            return Err(found.err().unwrap_or(Errno::INVAL));
        };
        drop(names);
        if port.claims().is_idle() {
            return Err(Errno::INVAL);
        }
        let wanted = MonitorRequest { register: self.register, memory: self.memory };
        Ok(Monitor::new(wanted, self.domain, &port)?)
    }

    /// Finds the port with this name if it is alive.
    fn find_alive(&self, names: &AdapterNames) -> Option<Arc<dyn Adapter>> {
        let Some(sign) = self.name.rfind(['{', '}']) else {
            let key = self.key(self.name);
            return names.switches.existing(&key).or_else(|| names.port(&key));
        };
        let (parent, end) = self.name.split_at(sign);
        let role = if end.starts_with('{') { PipeRole::Master } else { PipeRole::Slave };
        let master = self.key(&format!("{parent}{{{}", &end[1..]));
        names.pipes.get(&master).and_then(Weak::upgrade).map(|pipe| pipe.end(role))
    }

    /// Finds or creates a port that is neither a pipe nor a null port nor a monitor.
    fn port(
        &self,
        names: &mut AdapterNames,
        provider: &dyn Provider,
    ) -> Result<Arc<dyn Adapter>, Errno> {
        let key = self.key(self.name);
        // A port found in the table of switches may have more than one name and may leave its
        // switch at any time, so its name is not recorded.
        if let Some(port) = names.switches.existing(&key).or_else(|| names.port(&key)) {
            return Ok(port);
        }
        let port = if is_vale(self.name) { self.vale(names)? } else { provider.find(self)? };
        names.ports.retain(|_, port| port.strong_count() > 0);
        names.ports.insert(key, Arc::downgrade(&port));
        Ok(port)
    }

    /// Like [`Self::port`], but fails with `NXIO` for the name of a switch port.
    pub(crate) fn interface(
        &self,
        names: &mut AdapterNames,
        provider: &dyn Provider,
    ) -> Result<Arc<dyn Adapter>, Errno> {
        if is_vale(self.name) { Err(Errno::NXIO) } else { self.port(names, provider) }
    }

    /// Finds an end of a pipe, or creates the pipe; the sign of the end (`{` or `}`) is at byte
    /// `sign` of the name.
    fn pipe(
        &self,
        names: &mut AdapterNames,
        sign: usize,
        provider: &dyn Provider,
    ) -> Result<Arc<dyn Adapter>, Errno> {
        let one_of_two = matches!(self.register.nr_mode, NR_REG_ALL_NIC | NR_REG_ONE_NIC);
        let (parent, end) = self.name.split_at(sign);
        if parent.is_empty() || !one_of_two {
            return Err(Errno::INVAL);
        }
        let (role, id) = match end.strip_prefix('{') {
            Some(id) => (PipeRole::Master, id),
            None => (PipeRole::Slave, &end[1..]),
        };
        let ends = ["{", "}"].map(|sign| format!("{parent}{sign}{id}"));
        let key = self.key(&ends[0]);
        if let Some(pipe) = names.pipes.get(&key).and_then(Weak::upgrade) {
            return Ok(pipe.end(role));
        }
        let plan = PipePlan::of(self.register, role, &self.domain.params());
        let parent = self.parent(names, parent, &plan, provider)?;
        let pipe = Pipe::new(ends, plan, self.domain.ledger.words_region(), parent)?;
        names.pipes.retain(|_, pipe| pipe.strong_count() > 0);
        names.pipes.insert(key, Arc::downgrade(&pipe));
        Ok(pipe.end(role))
    }

    /// Finds the parent port of a pipe, or creates one that lives as long as its pipes.
    fn parent(
        &self,
        names: &mut AdapterNames,
        name: &str,
        plan: &PipePlan,
        provider: &dyn Provider,
    ) -> Result<Arc<dyn Adapter>, Errno> {
        let key = self.key(name);
        // The request's mode, sizes and flags are for the pipe, not for its parent.
        let register = NmreqRegister { nr_mode: NR_REG_ALL_NIC, ..NmreqRegister::default() };
        match (AdapterRequest { name, register: &register, ..*self }).port(names, provider) {
            Err(Errno::NXIO) => {}
            found => return found,
        }
        let memory = match self.memory {
            Some(memory) => memory.clone(),
            None => self.domain.memory_with(plan.memory_needs())?,
        };
        let slots = [self.domain.params().ring_slots; 2];
        let shape = AdapterShape { rings: [rings(0); 2], host_rings: [0, 0], slots };
        let port: Arc<dyn Adapter> = DetachedAdapter::new(name.to_owned(), shape, memory);
        names.ports.insert(key, Arc::downgrade(&port));
        Ok(port)
    }
}
