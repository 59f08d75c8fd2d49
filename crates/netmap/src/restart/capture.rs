//! A domain as it is now, for its ledger.

use std::collections::HashMap;
use std::sync::Arc;

use slipring_abi::name::PipeRole;
use slipring_ring::RingView;

use crate::adapter::{Adapter, TxRx};
use crate::binding::Binding;
use crate::detached::DetachedAdapter;
use crate::domain::{Domain, NetmapMemory, lock};
use crate::monitor::Monitor;
use crate::monitor_taps::MonitorTaps;
use crate::open::{OpenFile, PersistedOpen};
use crate::pipe::{Pipe, PipeAdapter};
use crate::restart::state::*;
use crate::vale::attach::NicAttachment;
use crate::vale::port::ValePort;

/// What has to live until the state is written.
pub(super) struct CapturedRefs {
    _memories: Vec<Arc<NetmapMemory>>,
    _files: Vec<Arc<OpenFile>>,
    _ports: Vec<Arc<dyn Adapter>>,
    _pipes: Vec<Arc<Pipe>>,
    _attached: Vec<Arc<NicAttachment>>,
}

/// Lists in the making, with what their entries stand for.
#[derive(Default)]
struct CaptureLists {
    ports: Vec<(Arc<dyn Adapter>, PortState)>,
    pipes: Vec<(Arc<Pipe>, PipeState)>,
    vale_ports: Vec<(Arc<dyn Adapter>, ValePortState)>,
    monitors: Vec<(Arc<dyn Adapter>, MonitorState)>,
    /// Places in the lists, by where what they stand for lies.
    indices: HashMap<*const (), u32>,
    /// Ports by their monitors' list.
    monitored: HashMap<*const MonitorTaps, PortRef>,
}

impl DomainState {
    pub(super) fn capture(domain: &Domain) -> (Self, CapturedRefs) {
        let mut lists = CaptureLists::default();
        let (named, pipes, persistent, attached, hubs) = {
            let names = lock(&domain.names);
            let ((named, pipes), switches) = (names.all(), &names.switches);
            let (persistent, attached) = (switches.all_persistent(), switches.all_attached());
            (named, pipes, persistent, attached, switches.states())
        };
        for (key, port) in persistent.iter().filter(|(_, port)| !port.memory().is_external()) {
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
        let ours = |pipe: &Pipe| !pipe.parent().memory().is_external();
        for (key, pipe) in pipes.iter().filter(|(_, pipe)| ours(pipe)) {
            let at = lists.pipe_index(pipe);
            lists.pipes[at as usize].1.key = Some(key.clone());
        }
        let files = domain.commit_log.files();
        let opens =
            files.iter().filter_map(|file| Some(lists.open(file, file.persisted.as_ref()?)));
        let opens = opens.collect();
        let in_switches = attached.iter().filter(|one| !one.nic().memory().is_external());
        let in_switches = in_switches.filter_map(|one| one.state(lists.bound(one.binding())));
        let in_switches = in_switches.collect();
        lists.find_monitored();
        // After all that takes from them was looked at: what goes meanwhile goes to nobody.
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
            _pipes: pipes.into_iter().map(|(_, pipe)| pipe).collect(),
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
    /// Any port, as far as all have the same.
    fn capture(port: &dyn Adapter, kind: SavedPortKind) -> Self {
        let shape = port.shape();
        // The provider makes pairs, also where the host was asked for more rings one way than the other.
        let pairs = shape.all(TxRx::Tx).max(shape.all(TxRx::Rx));
        let count = |dir| if kind == SavedPortKind::Provided { pairs } else { shape.all(dir) };
        let rings = TxRx::BOTH.map(|dir| {
            (0..count(dir)).map(|i| port.ring(dir, i).map(RingState::from_view)).collect()
        });
        let (name, memory) = (port.name().to_owned(), port.memory().id());
        Self { kind, key: None, name, shape: shape.into(), memory, rings }
    }
}

impl CaptureLists {
    /// The place of a port, which is added if it has none.
    fn port_ref(&mut self, port: &Arc<dyn Adapter>) -> PortRef {
        let any = port.as_any();
        if let Some(end) = any.and_then(|any| any.downcast_ref::<PipeAdapter>()) {
            return PortRef::Pipe(self.pipe_index(end.pipe()), end.is_slave());
        }
        if let Some(monitor) = any.and_then(|any| any.downcast_ref::<Monitor>()) {
            return self.monitor_ref(port, monitor);
        }
        if let Some(vale) = any.and_then(|any| any.downcast_ref::<ValePort>()) {
            return self.vale_ref(port, vale);
        }
        let next = self.ports.len() as u32;
        let at = *self.indices.entry(Arc::as_ptr(port).cast()).or_insert(next);
        if at == next {
            let kind = match any.is_some_and(|any| any.is::<DetachedAdapter>()) {
                true => SavedPortKind::Detached,
                false if port.has_vanished() => SavedPortKind::Gone,
                false => SavedPortKind::Provided,
            };
            self.ports.push((port.clone(), PortState::capture(&**port, kind)));
            self.record_monitored(port.monitor_taps(), PortRef::Port(at));
        }
        PortRef::Port(at)
    }

    fn pipe_index(&mut self, pipe: &Arc<Pipe>) -> u32 {
        if let Some(&at) = self.indices.get(&Arc::as_ptr(pipe).cast()) {
            return at;
        }
        let parent = self.port_ref(pipe.parent());
        let at = self.pipes.len() as u32;
        self.indices.insert(Arc::as_ptr(pipe).cast(), at);
        self.pipes.push((pipe.clone(), pipe.state(parent)));
        for role in [PipeRole::Master, PipeRole::Slave] {
            let end = PortRef::Pipe(at, role == PipeRole::Slave);
            self.record_monitored(pipe.end(role).monitor_taps(), end);
        }
        at
    }

    fn vale_ref(&mut self, port: &Arc<dyn Adapter>, vale: &ValePort) -> PortRef {
        let next = self.vale_ports.len() as u32;
        let at = *self.indices.entry(Arc::as_ptr(port).cast()).or_insert(next);
        if at == next {
            let plain = PortState::capture(&**port, SavedPortKind::Gone);
            self.vale_ports.push((port.clone(), vale.state(plain)));
            self.record_monitored(port.monitor_taps(), PortRef::Vale(at));
        }
        PortRef::Vale(at)
    }

    fn record_monitored(&mut self, taps: Option<&Arc<MonitorTaps>>, port: PortRef) {
        self.monitored.extend(taps.map(|taps| (Arc::as_ptr(taps), port)));
    }

    fn monitor_ref(&mut self, port: &Arc<dyn Adapter>, monitor: &Monitor) -> PortRef {
        let next = self.monitors.len() as u32;
        let at = *self.indices.entry(Arc::as_ptr(port).cast()).or_insert(next);
        if at == next {
            let plain = PortState::capture(&**port, SavedPortKind::Gone);
            self.monitors.push((port.clone(), monitor.state(plain)));
        }
        PortRef::Monitor(at)
    }

    /// Says which ports the monitors listen to, when all are in the lists.
    fn find_monitored(&mut self) {
        for (port, state) in &mut self.monitors {
            let monitor = port.as_any().and_then(|any| any.downcast_ref::<Monitor>());
            let listening = monitor.filter(|monitor| !monitor.has_ended());
            let taps = listening.map(|monitor| Arc::as_ptr(monitor.target_taps()));
            state.target = taps.and_then(|taps| self.monitored.get(&taps).copied());
        }
    }

    fn open(&mut self, file: &OpenFile, kept: &PersistedOpen) -> OpenState {
        // A program's own pages, and so its control blocks, are for the process that it lent them to.
        let bound = file.bound.get().filter(|_| file.csb.get().is_none());
        let bound = bound.filter(|binding| !binding.port.memory().is_external());
        OpenState {
            handle: kept.open_id.handle,
            call: kept.open_id.call,
            netns: file.opener.netns,
            gids: file.opener.gids.clone(),
            words: kept.words.offset(),
            answered: lock(&kept.last_answer).clone(),
            bound: bound.map(|binding| self.bound(binding)),
        }
    }

    fn bound(&mut self, binding: &Binding) -> BoundState {
        BoundState {
            port: self.port_ref(&binding.port),
            rings: binding.rings.clone().map(|range| [range.start as u32, range.end as u32]),
            flags: binding.flags,
            record: binding.record().0,
            slots: binding.record().1 as u32,
        }
    }
}

impl PipeDirectionState {
    /// Of the rings of one direction, as sender and receiver have them.
    pub(crate) fn capture(place: slipring_ring::DirectionLayout, views: [&RingView; 2]) -> Self {
        let slipring_ring::DirectionLayout { tx, rx, words, num_slots } = place;
        Self { tx, rx, words, slots: num_slots, offsets: views.map(OffsetsState::from_view) }
    }
}
