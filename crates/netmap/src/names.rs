//! Which port a request means: pipes, null ports and ports that others provide.

use std::collections::HashMap;
use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use rustix::io::Errno;
use slipring_abi::name::PipeRole;
use slipring_abi::{
    NR_REG_ALL_NIC, NR_REG_NULL, NR_REG_ONE_NIC, NR_REG_PIPE_MASTER, NR_REG_PIPE_SLAVE,
    NmreqRegister,
};

use slipring_ring::RingView;

use crate::adapter::{Adapter, AdapterShape};
use crate::detached::DetachedAdapter;
use crate::domain::{Domain, NetmapMemory, lock};
use crate::monitor::{Monitor, is_monitor_request};
use crate::open::Opener;
use crate::params::rings;
use crate::pipe::{Pipe, PipePlan};
use crate::vale::{BridgeTable, is_vale};

/// Ports of kinds that this crate does not know: NICs, switches.
pub trait Provider: Send + Sync + Debug {
    /// Finds or makes the port of this name. It need not take anything before
    /// [`Adapter::activate`].
    ///
    /// # Errors
    /// [`Errno::NXIO`]: there is none of this name.
    fn find(&self, wanted: &AdapterRequest<'_>) -> Result<Arc<dyn Adapter>, Errno>;

    /// Whether the opener may bind, or make, what it names, which is of this kind.
    ///
    /// # Errors
    /// Why not.
    fn admit(&self, _wanted: &AdapterRequest<'_>, _kind: PortKind) -> Result<(), Errno> {
        Ok(())
    }

    /// Makes a port again that a process which is no more had from its provider; `None` if that
    /// cannot be. Whoever has it bound may go on with it, whatever rules there are by now.
    fn resume(&self, _left: &RecoveredPort<'_>) -> Option<Arc<dyn Adapter>> {
        None
    }

    /// Hears of what happened without anybody having asked for it.
    fn notify(&self, _news: &AdapterEvent) {}
}

/// What a process that is no more left of a port.
#[derive(Debug)]
pub struct RecoveredPort<'l> {
    /// The name that requests had for it.
    pub name: &'l str,
    /// The network namespace that it was found in, if that is known still.
    pub netns: Option<Arc<OwnedFd>>,
    /// Where its rings lie.
    pub memory: &'l Arc<NetmapMemory>,
    /// All its rings.
    pub shape: AdapterShape,
    /// Those that there were, as they stand, by [`crate::Dir`]; the slots that are not the
    /// program's name a buffer each. They last as long as one of these does.
    pub rings: [Vec<Option<RingView>>; 2],
}

/// What happened by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdapterEvent {
    /// An interface in a switch is no more, and so has left the switch.
    InterfaceGone {
        /// Whose switch.
        uid: u32,
        /// The name that the interface had there: `vale0:eth1`.
        port: String,
    },
}

/// A kind of port, as rules about them know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortKind {
    /// A network interface, or its host rings; also a name that nothing has.
    Interface,
    /// One end of a pipe.
    Pipe,
    /// A port of a switch, or one that can be attached to switches: a persistent one.
    Switch,
    /// A way to memory only.
    Null,
}

impl PortKind {
    /// That of a port that has this name; netmap, too, takes what begins with `vale` for a
    /// switch's. Persistent ports look like interfaces.
    #[must_use]
    pub fn of_name(name: &str) -> Self {
        match name {
            _ if name.contains(['{', '}']) => Self::Pipe,
            _ if is_vale(name) => Self::Switch,
            _ => Self::Interface,
        }
    }
}

/// What a request says of the port that it wants.
#[derive(Debug, Clone, Copy)]
pub struct AdapterRequest<'w> {
    /// Whose memory and names.
    pub domain: &'w Arc<Domain>,
    /// Who asks.
    pub opener: &'w Opener,
    /// The name, as `nr_name` has it.
    pub name: &'w str,
    /// Wishes.
    pub register: &'w NmreqRegister,
    /// The memory that `nr_mem_id` names, if it names one.
    pub memory: Option<&'w Arc<NetmapMemory>>,
}

/// A network namespace, and a name in it.
pub(crate) type PortKey = (u64, String);

/// What is found by a name.
type NamedAdapters<T> = Vec<(PortKey, Arc<T>)>;

/// Ports of one domain that are alive.
#[derive(Debug, Default)]
pub(crate) struct AdapterNames {
    ports: HashMap<PortKey, Weak<dyn Adapter>>,
    pipes: HashMap<PortKey, Weak<Pipe>>,
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

impl AdapterRequest<'_> {
    /// The port.
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

    /// The kind of port that is meant.
    pub(crate) fn kind(&self) -> PortKind {
        let kind = match self.register.nr_mode {
            NR_REG_NULL => PortKind::Null,
            _ => PortKind::of_name(self.name),
        };
        let persistent = || lock(&self.domain.names).switches.is_persistent(&self.key(self.name));
        if kind == PortKind::Interface && persistent() { PortKind::Switch } else { kind }
    }

    /// The port, where it is there without being asked for: no port of a switch and no pipe that
    /// nobody has is made for this.
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

    /// A port without anything behind it, in a memory that has to be named.
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

    /// A monitor of the port of this name, which a program has bound.
    fn monitor(&self, provider: &dyn Provider) -> Result<Arc<dyn Adapter>, Errno> {
        let names = lock(&self.domain.names);
        let Some(port) = self.find_alive(&names) else {
            drop(names);
            // Nobody has it; where there is no such port at all, that is the answer.
            let plain = !is_vale(self.name) && !self.name.contains(['{', '}']);
            let found = if plain { provider.find(self).map(|_| ()) } else { Ok(()) };
            return Err(found.err().unwrap_or(Errno::INVAL));
        };
        drop(names);
        if port.claims().is_idle() {
            return Err(Errno::INVAL);
        }
        Ok(Monitor::new(self, &port)?)
    }

    /// The port of this name, if it is there already.
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

    pub(crate) fn key(&self, name: &str) -> PortKey {
        (self.opener.netns, name.to_owned())
    }

    /// A port that is neither pipe nor null.
    fn port(
        &self,
        names: &mut AdapterNames,
        provider: &dyn Provider,
    ) -> Result<Arc<dyn Adapter>, Errno> {
        let key = self.key(self.name);
        // Found by more than one name, so kept by none: it may leave its switch at any time.
        if let Some(port) = names.switches.existing(&key).or_else(|| names.port(&key)) {
            return Ok(port);
        }
        let port = if is_vale(self.name) { self.vale(names)? } else { provider.find(self)? };
        names.ports.retain(|_, port| port.strong_count() > 0);
        names.ports.insert(key, Arc::downgrade(&port));
        Ok(port)
    }

    /// What has this name and is neither pipe nor port of a switch.
    pub(crate) fn interface(
        &self,
        names: &mut AdapterNames,
        provider: &dyn Provider,
    ) -> Result<Arc<dyn Adapter>, Errno> {
        if is_vale(self.name) { Err(Errno::NXIO) } else { self.port(names, provider) }
    }

    /// The end of a pipe whose sign (`{` or `}`) is at byte `sign` of the name.
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

    /// The port whose name a pipe bears: one that is there, or one that lives as long as its pipes.
    fn parent(
        &self,
        names: &mut AdapterNames,
        name: &str,
        plan: &PipePlan,
        provider: &dyn Provider,
    ) -> Result<Arc<dyn Adapter>, Errno> {
        let key = self.key(name);
        // Wishes are for the pipe, not for its parent.
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
