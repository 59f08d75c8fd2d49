//! A domain made again from its ledger.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use slipring_abi::name::Role;
use slipring_ring::{BufsLeft, Cell, Geometry};

use crate::adapter::Adapter;
use crate::binding::Binding;
use crate::detached::Detached;
use crate::domain::{Domain, Memory, Objects, lock};
use crate::monitor::Monitor;
use crate::open::{Kept, Netmap, Open, Opener};
use crate::parameters::Parameters;
use crate::pipe::Pipe;
use crate::restart::state::*;
use crate::restart::{Ledger, Left, Refused, Store, Ticket};
use crate::vale::hub::Hub;
use crate::vale::port::ValePort;
use crate::waker::Notify;

/// A domain with the open files that it had.
#[derive(Debug)]
pub struct Resumed {
    /// The domain.
    pub domain: Arc<Domain>,
    /// Its files, by the front's numbers.
    pub opens: Vec<Open>,
    /// How many have something bound that did not outlive the restart.
    pub lost: usize,
}

/// What has been made again so far.
struct Resuming {
    domain: Arc<Domain>,
    memories: HashMap<u16, Arc<Memory>>,
    ports: Vec<Arc<dyn Adapter>>,
    hubs: HashMap<u16, Arc<Hub>>,
    vales: Vec<Arc<ValePort>>,
    pipes: Vec<Arc<Pipe>>,
    monitors: Vec<Arc<dyn Adapter>>,
}

impl Netmap {
    /// Goes on with a user's memory, ports and open files where a process that is no more left
    /// them. `namespace` finds network namespaces by their inode numbers.
    ///
    /// # Errors
    /// [`Refused`]: what was left does not fit together.
    pub fn resume(
        &self,
        left: Left,
        parameters: &Arc<Parameters>,
        store: Option<Arc<dyn Store>>,
        namespace: &dyn Fn(u64) -> Option<Arc<OwnedFd>>,
        notify: &Arc<dyn Notify>,
    ) -> Result<Resumed, Refused> {
        let uid = left.uid;
        let refused = |what: &str| Refused(format!("user {uid}: {what}"));
        let (ledger, bytes) = Ledger::adopt(left.ledger)
            .ok_or_else(|| refused("the ledger has no state that is whole"))?;
        let state: State = postcard::from_bytes(&bytes)
            .map_err(|error| refused(&format!("the ledger cannot be read: {error}")))?;
        if state.uid != uid {
            return Err(refused("the ledger is another user's"));
        }
        let domain = Domain::over(uid, left.memory, ledger, parameters, store)
            .map_err(|error| refused(&format!("no memory: {error}")))?;
        let mut resuming = Resuming {
            domain: domain.clone(),
            memories: HashMap::new(),
            ports: Vec::new(),
            hubs: HashMap::new(),
            vales: Vec::new(),
            pipes: Vec::new(),
            monitors: Vec::new(),
        };
        resuming.all(&state).map_err(|what| refused(&what))?;
        let opens = state.opens.iter().map(|open| {
            let netns_fd = namespace(open.netns);
            let opener = Opener { netns: open.netns, netns_fd, gids: open.gids.clone() };
            resuming.open(self, open, opener, notify).map_err(|what| refused(&what))
        });
        let opens = opens.collect::<Result<Vec<_>, _>>()?;
        let gone = |open: &&Open| open.bound.get().is_some_and(|bound| bound.port.has_vanished());
        let lost = opens.iter().filter(gone).count();
        Ok(Resumed { domain, opens, lost })
    }
}

impl Resuming {
    fn all(&mut self, state: &State) -> Result<(), String> {
        for memory in &state.memories {
            let made = self.memory(memory).ok_or_else(|| format!("memory {}", memory.id))?;
            self.memories.insert(memory.id, made);
        }
        for port in &state.ports {
            let made = self.port(port).ok_or_else(|| format!("port {}", port.name))?;
            self.ports.push(made);
        }
        for hub in &state.hubs {
            let made = lock(&self.domain.names).switches.resume(hub);
            let made = made.ok_or_else(|| format!("switch {}", hub.key.1))?;
            self.hubs.insert(hub.number, made);
        }
        for vale in &state.vales {
            let made = self.vale(vale).ok_or_else(|| format!("port {}", vale.port.name))?;
            self.vales.push(made);
        }
        for pipe in &state.pipes {
            let made = self.pipe(pipe).ok_or_else(|| format!("pipe {}", pipe.names[0]))?;
            self.pipes.push(made);
        }
        for monitor in &state.monitors {
            let name = &monitor.port.name;
            let made = self.monitor(monitor).ok_or_else(|| format!("monitor of {name}"))?;
            self.monitors.push(made);
        }
        Ok(())
    }

    fn memory(&self, state: &MemoryState) -> Option<Arc<Memory>> {
        let MemoryState { id, at, ring_bytes, bufs, buf_size, objects, fresh, given } = state;
        let geometry = Geometry { ring_bytes: *ring_bytes, bufs: *bufs, buf_size: *buf_size };
        let left = BufsLeft { fresh: *fresh, given: given.clone() };
        self.domain.resume_memory(*id, *at, geometry, &left, Objects::of(*objects))
    }

    fn port(&self, state: &PortState) -> Option<Arc<dyn Adapter>> {
        let memory = self.memories.get(&state.memory)?.clone();
        let port: Arc<dyn Adapter> = Detached::resume(state, memory)?;
        // The name of what is gone is free for what will have it next.
        if let Some(key) = state.key.clone().filter(|_| state.kind != Kind::Gone) {
            lock(&self.domain.names).add_port(key, &port);
        }
        Some(port)
    }

    fn vale(&self, state: &ValeState) -> Option<Arc<ValePort>> {
        let memory = self.memories.get(&state.port.memory)?.clone();
        let hub = |number| self.hubs.get(&number).cloned();
        let port = ValePort::resume(state, memory, self.domain.ledger.cells(), hub)?;
        let mut names = lock(&self.domain.names);
        match (state.port.key.clone(), state.is_persistent) {
            (Some(key), true) => names.switches.add_persistent(key, port.clone()),
            (Some(key), false) => names.add_port(key, &(port.clone() as Arc<dyn Adapter>)),
            (None, _) => {}
        }
        Some(port)
    }

    fn pipe(&self, state: &PipeState) -> Option<Arc<Pipe>> {
        let parent = self.find(state.parent)?;
        let pipe = Pipe::resume(state, self.domain.ledger.cells(), parent)?;
        if let Some(key) = state.key.clone() {
            lock(&self.domain.names).add_pipe(key, &pipe);
        }
        Some(pipe)
    }

    fn monitor(&self, state: &MonitorState) -> Option<Arc<dyn Adapter>> {
        let port = match state.of {
            Some(of) => Some(self.find(of)?),
            None => None,
        };
        let memory = self.memories.get(&state.port.memory)?.clone();
        Monitor::resume(state, port.as_ref(), memory).map(|monitor| monitor as Arc<dyn Adapter>)
    }

    fn find(&self, port: PortRef) -> Option<Arc<dyn Adapter>> {
        match port {
            PortRef::Port(at) => self.ports.get(at as usize).cloned(),
            PortRef::Vale(at) => {
                self.vales.get(at as usize).map(|port| port.clone() as Arc<dyn Adapter>)
            }
            PortRef::Monitor(at) => self.monitors.get(at as usize).cloned(),
            PortRef::Pipe(at, is_slave) => {
                let role = if is_slave { Role::Slave } else { Role::Master };
                self.pipes.get(at as usize).map(|pipe| pipe.end(role))
            }
        }
    }

    fn open(
        &self,
        netmap: &Netmap,
        state: &OpenState,
        opener: Opener,
        notify: &Arc<dyn Notify>,
    ) -> Result<Open, String> {
        let wrong = || format!("open file {}", state.handle);
        let words = Cell::resume(self.domain.ledger.cells(), state.words).map_err(|_| wrong())?;
        let ticket = Ticket { handle: state.handle, call: state.call };
        let kept = Kept { ticket, words, answered: Mutex::new(state.answered.clone()) };
        let open = netmap.file(self.domain.clone(), opener, notify.clone(), Some(kept));
        if let Some(bound) = &state.bound {
            let port = self.find(bound.port).ok_or_else(wrong)?;
            let binding = Binding::resume(bound, port, &open.waker).ok_or_else(wrong)?;
            // It is new: nobody can have set it.
            let _ = open.bound.set(binding);
        }
        Ok(open)
    }
}
