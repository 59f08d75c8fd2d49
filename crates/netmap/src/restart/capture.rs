//! Captures the state of a domain by visiting its ports and open files.

use std::collections::HashMap;
use std::sync::Arc;

use crate::memory::netmap_memory::NetmapMemory;
use crate::open::commit_log::PersistentOpen;
use crate::open::domain::Domain;
use crate::port::adapter::Adapter;
use crate::port::monitor_taps::MonitorTaps;
use crate::port::persist::{Persistent, PersistentPipe, PortVisitor, SavedPortIndex};
use crate::port::vale::attach::NicAttachment;
use crate::types::lock::lock;
use crate::types::shape::TxRx;
use crate::types::state::*;

/// Holds references to the captured objects, so that they stay alive until the state was written.
pub(super) struct CapturedRefs {
    _memories: Vec<Arc<NetmapMemory>>,
    _files: Vec<Arc<dyn PersistentOpen>>,
    _ports: Vec<Arc<dyn Adapter>>,
    _pipes: Vec<Arc<dyn PersistentPipe>>,
    _attached: Vec<Arc<NicAttachment>>,
}

/// The state under construction: its lists, and the objects that are already in them.
#[derive(Default)]
struct DomainStateBuilder {
    ports: Vec<(Arc<dyn Adapter>, PortState)>,
    pipes: Vec<(Arc<dyn PersistentPipe>, PipeState)>,
    vale_ports: Vec<(Arc<dyn Adapter>, ValePortState)>,
    monitors: Vec<(Arc<dyn Adapter>, MonitorState)>,
    /// For each monitor, the taps of the port that it monitors.
    monitor_targets: Vec<Option<*const MonitorTaps>>,
    /// Index of each captured object in its list, by the object's address.
    indices: HashMap<*const (), u32>,
    /// The captured ports, by the address of their monitor taps.
    monitored: HashMap<*const MonitorTaps, PortRef>,
}

impl DomainState {
    pub(super) fn capture(domain: &Domain) -> (Self, CapturedRefs) {
        let mut lists = DomainStateBuilder::default();
        let (named, pipes, persistent, attached, hubs) = {
            let names = lock(&domain.names);
            let ((named, pipes), switches) = (names.all(), &names.switches);
            let (persistent, attached) = (switches.all_persistent(), switches.all_attached());
            (named, pipes, persistent, attached, switches.states())
        };
        for (key, port) in persistent.iter().filter(|(_, port)| !port.base().memory().is_external())
        {
            let port: Arc<dyn Adapter> = port.clone();
            if let PortRef::Vale(at) = lists.port_ref(&port) {
                let state = &mut lists.vale_ports[at as usize].1;
                (state.port.key, state.is_persistent) = (Some(key.clone()), true);
            }
        }
        for (key, port) in named.iter().filter(|(_, port)| !port.memory().is_external()) {
            match lists.port_ref(port) {
                PortRef::Port(at) => lists.ports[at as usize].1.key = Some(key.clone()),
                PortRef::Vale(at) => lists.vale_ports[at as usize].1.port.key = Some(key.clone()),
                PortRef::Pipe(..) | PortRef::Monitor(_) => {}
            }
        }
        for (key, pipe) in pipes.iter().filter(|(_, pipe)| !pipe.memory().is_external()) {
            let at = lists.pipe_index(pipe.clone());
            lists.pipes[at as usize].1.key = Some(key.clone());
        }
        let files = domain.commit_log.files();
        let opens = files.iter().filter_map(|file| file.state(&mut lists));
        let opens = opens.collect();
        let in_switches = attached.iter().filter(|one| !one.nic().memory().is_external());
        let in_switches = in_switches.filter_map(|one| one.state(&mut lists));
        let in_switches = in_switches.collect();
        lists.find_monitored();
        // Captured last, after all objects that allocate from them. A memory that was released in
        // the meantime belongs to none of the captured objects, so it need not be saved.
        let memories = domain.memories();
        let state = Self {
            uid: domain.uid(),
            memories: memories
                .iter()
                .filter(|one| !one.is_external())
                .map(|one| MemoryState::capture(one))
                .collect(),
            ports: lists.ports.iter().map(|(_, state)| state.clone()).collect(),
            pipes: lists.pipes.iter().map(|(_, state)| state.clone()).collect(),
            bridges: hubs,
            vale_ports: lists.vale_ports.iter().map(|(_, state)| state.clone()).collect(),
            attached: in_switches,
            monitors: lists.monitors.iter().map(|(_, state)| state.clone()).collect(),
            opens,
        };
        let ports = lists.ports.into_iter().map(|(port, _)| port);
        let ports = ports.chain(lists.vale_ports.into_iter().map(|(port, _)| port));
        let ports = ports.chain(lists.monitors.into_iter().map(|(port, _)| port));
        let held = CapturedRefs {
            _files: files,
            _ports: ports.chain(named.into_iter().map(|(_, port)| port)).collect(),
            _pipes: pipes.into_iter().map(|(_, pipe)| pipe as Arc<dyn PersistentPipe>).collect(),
            _attached: attached,
            _memories: memories,
        };
        (state, held)
    }
}

impl MemoryState {
    fn capture(memory: &NetmapMemory) -> Self {
        let region = memory.region();
        let (geometry, left) = (region.geometry(), region.free_buf_state());
        Self {
            id: memory.id(),
            file_offset: region.file_offset(),
            ring_bytes: geometry.ring_bytes,
            bufs: geometry.bufs,
            buf_size: geometry.buf_size,
            objects: memory.objects().numbers(),
            fresh: left.fresh,
            released: left.released,
        }
    }
}

impl PortState {
    /// Captures the part of the state that all kinds of ports have.
    fn capture(port: &dyn Adapter, kind: SavedPortKind) -> Self {
        let shape = port.shape();
        // A provider's port has its rings in pairs, even if different numbers of host rings were
        // requested for the two directions.
        let pairs = shape.all(TxRx::Tx).max(shape.all(TxRx::Rx));
        let count = |dir| if kind == SavedPortKind::Provided { pairs } else { shape.all(dir) };
        let rings = TxRx::BOTH.map(|dir| {
            (0..count(dir)).map(|i| port.ring(dir, i).map(RingState::from_view)).collect()
        });
        let (name, memory) = (port.name().to_owned(), port.memory().id());
        Self { kind, key: None, name, shape: shape.into(), memory, rings }
    }
}

impl SavedPortIndex for DomainStateBuilder {
    fn port_ref(&mut self, port: &Arc<dyn Adapter>) -> PortRef {
        match port.as_persistent() {
            Some(Persistent(persistent)) => {
                persistent.visit(&mut CaptureVisitor { lists: self, port })
            }
            None if port.has_vanished() => self.plain(port, SavedPortKind::Gone),
            None => self.plain(port, SavedPortKind::Provided),
        }
    }
}

/// Visits one port and adds it to the lists.
struct CaptureVisitor<'v> {
    lists: &'v mut DomainStateBuilder,
    port: &'v Arc<dyn Adapter>,
}

impl PortVisitor for CaptureVisitor<'_> {
    fn detached(&mut self) -> PortRef {
        self.lists.plain(self.port, SavedPortKind::Detached)
    }

    fn pipe_end(&mut self, pipe: Arc<dyn PersistentPipe>, is_slave: bool) -> PortRef {
        PortRef::Pipe(self.lists.pipe_index(pipe), is_slave)
    }

    fn monitor(
        &mut self,
        of: Option<&Arc<MonitorTaps>>,
        state: &dyn Fn(PortState) -> MonitorState,
    ) -> PortRef {
        let lists = &mut *self.lists;
        let (at, is_new) = lists.index_of(self.port, lists.monitors.len());
        if is_new {
            let plain = PortState::capture(&**self.port, SavedPortKind::Gone);
            lists.monitors.push((self.port.clone(), state(plain)));
            lists.monitor_targets.push(of.map(Arc::as_ptr));
        }
        PortRef::Monitor(at)
    }

    fn switch_port(&mut self, state: &dyn Fn(PortState) -> ValePortState) -> PortRef {
        let lists = &mut *self.lists;
        let (at, is_new) = lists.index_of(self.port, lists.vale_ports.len());
        if is_new {
            let plain = PortState::capture(&**self.port, SavedPortKind::Gone);
            lists.vale_ports.push((self.port.clone(), state(plain)));
            lists.record_monitored(self.port.monitor_taps(), PortRef::Vale(at));
        }
        PortRef::Vale(at)
    }
}

impl DomainStateBuilder {
    /// Returns the index of a port in a list that has `len` entries, and whether the port has to be
    /// added to it.
    fn index_of(&mut self, port: &Arc<dyn Adapter>, len: usize) -> (u32, bool) {
        let next = len as u32;
        let at = *self.indices.entry(Arc::as_ptr(port).cast()).or_insert(next);
        (at, at == next)
    }

    /// Returns the reference to a port whose kind has no further state; adds the port if needed.
    fn plain(&mut self, port: &Arc<dyn Adapter>, kind: SavedPortKind) -> PortRef {
        let (at, is_new) = self.index_of(port, self.ports.len());
        if is_new {
            self.ports.push((port.clone(), PortState::capture(&**port, kind)));
            self.record_monitored(port.monitor_taps(), PortRef::Port(at));
        }
        PortRef::Port(at)
    }

    fn pipe_index(&mut self, pipe: Arc<dyn PersistentPipe>) -> u32 {
        let address = Arc::as_ptr(&pipe).cast();
        if let Some(&at) = self.indices.get(&address) {
            return at;
        }
        let state = pipe.state(self);
        let at = self.pipes.len() as u32;
        self.indices.insert(address, at);
        for (taps, is_slave) in pipe.monitor_taps().into_iter().zip([false, true]) {
            self.record_monitored(Some(taps), PortRef::Pipe(at, is_slave));
        }
        self.pipes.push((pipe, state));
        at
    }

    fn record_monitored(&mut self, taps: Option<&Arc<MonitorTaps>>, port: PortRef) {
        self.monitored.extend(taps.map(|taps| (Arc::as_ptr(taps), port)));
    }

    /// Resolves which ports the monitors listen to, once all ports are in the lists.
    fn find_monitored(&mut self) {
        for ((_, state), taps) in self.monitors.iter_mut().zip(&self.monitor_targets) {
            state.target = taps.and_then(|taps| self.monitored.get(&taps).copied());
        }
    }
}
