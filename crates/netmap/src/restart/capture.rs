//! A domain as it is now, for its ledger.

use std::collections::HashMap;
use std::sync::Arc;

use slipring_abi::name::Role;
use slipring_ring::RingView;

use crate::adapter::{Adapter, Dir};
use crate::binding::Binding;
use crate::detached::Detached;
use crate::domain::{Domain, Memory, lock};
use crate::monitor::Monitor;
use crate::open::{Kept, OpenFile};
use crate::pipe::{Pipe, PipeEnd};
use crate::restart::state::*;
use crate::taps::Taps;
use crate::vale::attach::Attachment;
use crate::vale::port::ValePort;

/// What has to live until the state is written.
pub(super) struct Held {
    _memories: Vec<Arc<Memory>>,
    _files: Vec<Arc<OpenFile>>,
    _ports: Vec<Arc<dyn Adapter>>,
    _pipes: Vec<Arc<Pipe>>,
    _attached: Vec<Arc<Attachment>>,
}

/// Lists in the making, with what their entries stand for.
#[derive(Default)]
struct Lists {
    ports: Vec<(Arc<dyn Adapter>, PortState)>,
    pipes: Vec<(Arc<Pipe>, PipeState)>,
    vales: Vec<(Arc<dyn Adapter>, ValeState)>,
    monitors: Vec<(Arc<dyn Adapter>, MonitorState)>,
    /// Places in the lists, by where what they stand for lies.
    places: HashMap<*const (), u32>,
    /// Ports by their monitors' list.
    tapped: HashMap<*const Taps, PortRef>,
}

impl State {
    pub(super) fn of(domain: &Domain) -> (Self, Held) {
        let mut lists = Lists::default();
        let (named, pipes, persistent, attached, hubs) = {
            let names = lock(&domain.names);
            let ((named, pipes), switches) = (names.all(), &names.switches);
            let (persistent, attached) = (switches.all_persistent(), switches.all_attached());
            (named, pipes, persistent, attached, switches.states())
        };
        for (key, port) in persistent.iter().filter(|(_, port)| !port.memory().is_external()) {
            let port: Arc<dyn Adapter> = port.clone();
            if let PortRef::Vale(at) = lists.port(&port) {
                let state = &mut lists.vales[at as usize].1;
                (state.port.key, state.is_persistent) = (Some(key.clone()), true);
            }
        }
        for (key, port) in named.iter().filter(|(_, port)| !port.memory().is_external()) {
            match lists.port(port) {
                PortRef::Port(at) => lists.ports[at as usize].1.key = Some(key.clone()),
                PortRef::Vale(at) => lists.vales[at as usize].1.port.key = Some(key.clone()),
                PortRef::Pipe(..) | PortRef::Monitor(_) => {}
            }
        }
        let ours = |pipe: &Pipe| !pipe.parent().memory().is_external();
        for (key, pipe) in pipes.iter().filter(|(_, pipe)| ours(pipe)) {
            let at = lists.pipe(pipe);
            lists.pipes[at as usize].1.key = Some(key.clone());
        }
        let files = domain.book.files();
        let opens = files.iter().filter_map(|file| Some(lists.open(file, file.kept.as_ref()?)));
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
                .map(|one| MemoryState::of(one))
                .collect(),
            ports: lists.ports.iter().map(|(_, state)| state.clone()).collect(),
            pipes: lists.pipes.iter().map(|(_, state)| state.clone()).collect(),
            hubs,
            vales: lists.vales.iter().map(|(_, state)| state.clone()).collect(),
            attached: in_switches,
            monitors: lists.monitors.iter().map(|(_, state)| state.clone()).collect(),
            opens,
        };
        let ports = lists.ports.into_iter().map(|(port, _)| port);
        let ports = ports.chain(lists.vales.into_iter().map(|(port, _)| port));
        let ports = ports.chain(lists.monitors.into_iter().map(|(port, _)| port));
        let held = Held {
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
    fn of(memory: &Memory) -> Self {
        let region = memory.region();
        let (geometry, left) = (region.geometry(), region.bufs_left());
        Self {
            id: memory.id(),
            at: region.at(),
            ring_bytes: geometry.ring_bytes,
            bufs: geometry.bufs,
            buf_size: geometry.buf_size,
            objects: memory.objects().numbers(),
            fresh: left.fresh,
            given: left.given,
        }
    }
}

impl PortState {
    /// Any port, as far as all have the same.
    fn of(port: &dyn Adapter, kind: Kind) -> Self {
        let shape = port.shape();
        // The provider makes pairs, also where the host was asked for more rings one way than the other.
        let pairs = shape.all(Dir::Tx).max(shape.all(Dir::Rx));
        let count = |dir| if kind == Kind::Provided { pairs } else { shape.all(dir) };
        let rings = Dir::BOTH
            .map(|dir| (0..count(dir)).map(|i| port.ring(dir, i).map(RingState::of)).collect());
        let (name, memory) = (port.name().to_owned(), port.memory().id());
        Self { kind, key: None, name, shape: shape.into(), memory, rings }
    }
}

impl Lists {
    /// The place of a port, which is added if it has none.
    fn port(&mut self, port: &Arc<dyn Adapter>) -> PortRef {
        let any = port.as_any();
        if let Some(end) = any.and_then(|any| any.downcast_ref::<PipeEnd>()) {
            return PortRef::Pipe(self.pipe(end.pipe()), end.is_slave());
        }
        if let Some(monitor) = any.and_then(|any| any.downcast_ref::<Monitor>()) {
            return self.monitor(port, monitor);
        }
        if let Some(vale) = any.and_then(|any| any.downcast_ref::<ValePort>()) {
            return self.vale(port, vale);
        }
        let next = self.ports.len() as u32;
        let at = *self.places.entry(Arc::as_ptr(port).cast()).or_insert(next);
        if at == next {
            let kind = match any.is_some_and(|any| any.is::<Detached>()) {
                true => Kind::Detached,
                false if port.has_vanished() => Kind::Gone,
                false => Kind::Provided,
            };
            self.ports.push((port.clone(), PortState::of(&**port, kind)));
            self.note_taps(port.taps(), PortRef::Port(at));
        }
        PortRef::Port(at)
    }

    fn pipe(&mut self, pipe: &Arc<Pipe>) -> u32 {
        if let Some(&at) = self.places.get(&Arc::as_ptr(pipe).cast()) {
            return at;
        }
        let parent = self.port(pipe.parent());
        let at = self.pipes.len() as u32;
        self.places.insert(Arc::as_ptr(pipe).cast(), at);
        self.pipes.push((pipe.clone(), pipe.state(parent)));
        for role in [Role::Master, Role::Slave] {
            let end = PortRef::Pipe(at, role == Role::Slave);
            self.note_taps(pipe.end(role).taps(), end);
        }
        at
    }

    fn vale(&mut self, port: &Arc<dyn Adapter>, vale: &ValePort) -> PortRef {
        let next = self.vales.len() as u32;
        let at = *self.places.entry(Arc::as_ptr(port).cast()).or_insert(next);
        if at == next {
            let plain = PortState::of(&**port, Kind::Gone);
            self.vales.push((port.clone(), vale.state(plain)));
            self.note_taps(port.taps(), PortRef::Vale(at));
        }
        PortRef::Vale(at)
    }

    fn note_taps(&mut self, taps: Option<&Arc<Taps>>, port: PortRef) {
        self.tapped.extend(taps.map(|taps| (Arc::as_ptr(taps), port)));
    }

    fn monitor(&mut self, port: &Arc<dyn Adapter>, monitor: &Monitor) -> PortRef {
        let next = self.monitors.len() as u32;
        let at = *self.places.entry(Arc::as_ptr(port).cast()).or_insert(next);
        if at == next {
            let plain = PortState::of(&**port, Kind::Gone);
            self.monitors.push((port.clone(), monitor.state(plain)));
        }
        PortRef::Monitor(at)
    }

    /// Says which ports the monitors listen to, when all are in the lists.
    fn find_monitored(&mut self) {
        for (port, state) in &mut self.monitors {
            let monitor = port.as_any().and_then(|any| any.downcast_ref::<Monitor>());
            let listening = monitor.filter(|monitor| !monitor.has_ended());
            let taps = listening.map(|monitor| Arc::as_ptr(monitor.taps()));
            state.of = taps.and_then(|taps| self.tapped.get(&taps).copied());
        }
    }

    fn open(&mut self, file: &OpenFile, kept: &Kept) -> OpenState {
        // A program's own pages, and so its control blocks, are for the process that it lent them to.
        let bound = file.bound.get().filter(|_| file.csb.get().is_none());
        let bound = bound.filter(|binding| !binding.port.memory().is_external());
        OpenState {
            handle: kept.ticket.handle,
            call: kept.ticket.call,
            netns: file.opener.netns,
            gids: file.opener.gids.clone(),
            words: kept.words.at(),
            answered: lock(&kept.answered).clone(),
            bound: bound.map(|binding| self.bound(binding)),
        }
    }

    fn bound(&mut self, binding: &Binding) -> BoundState {
        BoundState {
            port: self.port(&binding.port),
            rings: binding.rings.clone().map(|range| [range.start as u32, range.end as u32]),
            flags: binding.flags,
            record: binding.record().0,
            places: binding.record().1 as u32,
        }
    }
}

impl WayState {
    /// Of the rings of one direction, as sender and receiver have them.
    pub(crate) fn of(place: slipring_ring::Place, views: [&RingView; 2]) -> Self {
        let slipring_ring::Place { tx, rx, words, num_slots } = place;
        Self { tx, rx, words, slots: num_slots, offsets: views.map(OffsetsState::of) }
    }
}
