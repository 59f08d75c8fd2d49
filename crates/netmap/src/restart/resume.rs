//! Resumes a domain from its ledger.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use slipring_abi::name::PipeRole;
use slipring_ring::{BufIdx, FreeBufs, Geometry, KernRing, PersistentWords, Slot, SlotIdx};

use crate::memory::ledger::Ledger;
use crate::memory::netmap_memory::NetmapMemory;
use crate::open::attachment_cleanup::AttachmentCleanup;
use crate::open::commit_log::FdStore;
use crate::open::domain::Domain;
use crate::open::handle::OpenId;
use crate::open::handle::{Netmap, OpenHandle, PersistedOpen};
use crate::open::provider::{AdapterEvent, RecoveredPort};
use crate::port::adapter::Adapter;
use crate::port::binding::Binding;
use crate::port::detached::DetachedAdapter;
use crate::port::monitor::Monitor;
use crate::port::pipe::Pipe;
use crate::port::vale::attach::{AttachmentOwner, NicAttachment};
use crate::port::vale::bridge::Bridge;
use crate::port::vale::port::ValePort;
use crate::port::waker::Notify;
use crate::restart::{RecoveredDomain, ResumeError};
use crate::types::lock::lock;
use crate::types::opener::Opener;
use crate::types::parameters::Parameters;
use crate::types::params::ObjectPools;
use crate::types::shape::TxRx;
use crate::types::state::*;

/// A resumed domain with its open files.
#[derive(Debug)]
pub struct ResumedDomain {
    /// The domain: the user's memory and port names.
    pub domain: Arc<Domain>,
    /// The domain's open files, in the order of the numbers by which the front knows them.
    pub opens: Vec<OpenHandle>,
    /// Number of open files whose bound port did not survive the restart.
    pub lost: usize,
    /// Number of slots that were queued in tx rings of interfaces. Their frames may or may not have
    /// been sent.
    pub unsent: u64,
}

/// The parts that have been restored so far.
struct DomainResume<'r> {
    domain: Arc<Domain>,
    netmap: &'r Netmap,
    namespace: &'r dyn Fn(u64) -> Option<Arc<OwnedFd>>,
    unsent: u64,
    memories: HashMap<u16, Arc<NetmapMemory>>,
    ports: Vec<Arc<dyn Adapter>>,
    bridges: HashMap<u16, Arc<Bridge>>,
    vale_ports: Vec<Arc<ValePort>>,
    pipes: Vec<Arc<Pipe>>,
    monitors: Vec<Arc<dyn Adapter>>,
}

impl Netmap {
    /// Resumes a user's memory, ports and open files from the files that the previous process left.
    /// `namespace` finds network namespaces by their inode numbers.
    ///
    /// # Errors
    /// [`ResumeError`]: the saved state is inconsistent.
    pub fn resume(
        &self,
        left: RecoveredDomain,
        parameters: &Arc<Parameters>,
        store: Option<Arc<dyn FdStore>>,
        namespace: &dyn Fn(u64) -> Option<Arc<OwnedFd>>,
        notify: &Arc<dyn Notify>,
    ) -> Result<ResumedDomain, ResumeError> {
        let uid = left.uid;
        let refused = |what: &str| ResumeError(format!("user {uid}: {what}"));
        let (ledger, bytes) = Ledger::adopt(left.ledger)
            .ok_or_else(|| refused("the ledger has no state that is whole"))?;
        let state: DomainState = postcard::from_bytes(&bytes)
            .map_err(|error| refused(&format!("the ledger cannot be read: {error}")))?;
        if state.uid != uid {
            return Err(refused("the ledger is another user's"));
        }
        let domain = Domain::with_file(uid, left.memory, ledger, parameters, store)
            .map_err(|error| refused(&format!("no memory: {error}")))?;
        let mut resuming = DomainResume {
            domain: domain.clone(),
            netmap: self,
            namespace,
            unsent: 0,
            memories: HashMap::new(),
            ports: Vec::new(),
            bridges: HashMap::new(),
            vale_ports: Vec::new(),
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
        let gone =
            |open: &&OpenHandle| open.bound.get().is_some_and(|bound| bound.port.has_vanished());
        let lost = opens.iter().filter(gone).count();
        Ok(ResumedDomain { domain, opens, lost, unsent: resuming.unsent })
    }
}

impl DomainResume<'_> {
    fn all(&mut self, state: &DomainState) -> Result<(), String> {
        for memory in &state.memories {
            let made = self.memory(memory).ok_or_else(|| format!("memory {}", memory.id))?;
            self.memories.insert(memory.id, made);
        }
        for port in &state.ports {
            let made = self.port(port).ok_or_else(|| format!("port {}", port.name))?;
            self.ports.push(made);
        }
        for hub in &state.bridges {
            let made = lock(&self.domain.names).switches.resume(hub);
            let made = made.ok_or_else(|| format!("switch {}", hub.key.1))?;
            self.bridges.insert(hub.number, made);
        }
        for vale in &state.vale_ports {
            let made = self.vale(vale).ok_or_else(|| format!("port {}", vale.port.name))?;
            self.vale_ports.push(made);
        }
        for attached in &state.attached {
            self.attach(attached).ok_or_else(|| format!("interface {}", attached.key.1))?;
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

    fn memory(&self, state: &MemoryState) -> Option<Arc<NetmapMemory>> {
        let MemoryState {
            id,
            file_offset: at,
            ring_bytes,
            bufs,
            buf_size,
            objects,
            fresh,
            released: given,
        } = state;
        let geometry = Geometry { ring_bytes: *ring_bytes, bufs: *bufs, buf_size: *buf_size };
        let left = FreeBufs { fresh: *fresh, released: given.clone() };
        self.domain.resume_memory(*id, *at, geometry, &left, ObjectPools::from_numbers(*objects))
    }

    fn port(&mut self, state: &PortState) -> Option<Arc<dyn Adapter>> {
        let memory = self.memories.get(&state.memory)?.clone();
        let resume = |rings: &Vec<Option<RingState>>| {
            let rings = rings.iter().flatten().map(|ring| ring.resume(memory.region()));
            rings.collect::<Option<Vec<_>>>()
        };
        let [tx, rx] = &state.rings;
        let made = [resume(tx)?, resume(rx)?];
        let port = match self.provided(state, &made, &memory) {
            Some(port) => port,
            None => DetachedAdapter::resume(state, made, memory)? as Arc<dyn Adapter>,
        };
        // The name of a port that has vanished is not restored, so that a new port can have it.
        if let Some(key) = state.key.clone().filter(|_| !port.has_vanished()) {
            lock(&self.domain.names).add_port(key, &port);
        }
        Some(port)
    }

    /// Resumes the provider's port with its rings; `None` if the port is of another kind or no
    /// longer exists.
    fn provided(
        &mut self,
        state: &PortState,
        made: &[Vec<KernRing>; 2],
        memory: &Arc<NetmapMemory>,
    ) -> Option<Arc<dyn Adapter>> {
        let (netns, _) = state.key.as_ref().filter(|_| state.kind == SavedPortKind::Provided)?;
        let [tx, rx] = made;
        tx.iter().for_each(|ring| {
            clear_unusable_slots(ring, ring.next(ring.hwtail()), ring.free_slots())
        });
        rx.iter().for_each(|ring| clear_unusable_slots(ring, ring.hwtail(), ring.free_slots() + 1));
        let views = |dir: TxRx| {
            let mut made = made[dir as usize].iter();
            let rings = state.rings[dir as usize].iter();
            rings.map(|ring| ring.and_then(|_| made.next()).map(KernRing::view)).collect()
        };
        let port = self.netmap.provider.resume(&RecoveredPort {
            name: &state.name,
            netns: (self.namespace)(*netns),
            memory,
            shape: state.shape.into(),
            rings: TxRx::BOTH.map(views),
        })?;
        self.unsent += tx.iter().map(|ring| u64::from(ring.free_slots())).sum::<u64>();
        Some(port)
    }

    fn vale(&self, state: &ValePortState) -> Option<Arc<ValePort>> {
        let memory = self.memories.get(&state.port.memory)?.clone();
        let hub = |number| self.bridges.get(&number).cloned();
        let port = ValePort::resume(state, memory, self.domain.ledger.words_region(), hub)?;
        let mut names = lock(&self.domain.names);
        match (state.port.key.clone(), state.is_persistent) {
            (Some(key), true) => names.switches.add_persistent(key, port.clone()),
            (Some(key), false) => names.add_port(key, &(port.clone() as Arc<dyn Adapter>)),
            (None, _) => {}
        }
        Some(port)
    }

    /// Restores an interface attached to a switch, or reports that it has vanished; `None` if the
    /// state is inconsistent.
    fn attach(&self, state: &NicAttachmentState) -> Option<()> {
        let nic = self.find(state.bound.port)?;
        let Netmap { provider, ticker, .. } = self.netmap;
        if nic.has_vanished() {
            let (uid, port) = (self.domain.uid(), state.key.1.clone());
            provider.notify(&AdapterEvent::InterfaceGone { uid, port });
            return Some(());
        }
        let (handler, key) = (AttachmentCleanup::new(&self.domain, provider), state.key.clone());
        let owner = AttachmentOwner { key: key.clone(), handler };
        let hub = self.bridges.get(&state.nic.bridge)?;
        let attachment = NicAttachment::resume(state, owner, &nic, hub, ticker)?;
        lock(&self.domain.names).switches.add_attached(key, attachment);
        Some(())
    }

    fn pipe(&self, state: &PipeState) -> Option<Arc<Pipe>> {
        let parent = self.find(state.parent)?;
        let pipe = Pipe::resume(state, self.domain.ledger.words_region(), parent)?;
        if let Some(key) = state.key.clone() {
            lock(&self.domain.names).add_pipe(key, &pipe);
        }
        Some(pipe)
    }

    fn monitor(&self, state: &MonitorState) -> Option<Arc<dyn Adapter>> {
        let port = match state.target {
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
                self.vale_ports.get(at as usize).map(|port| port.clone() as Arc<dyn Adapter>)
            }
            PortRef::Monitor(at) => self.monitors.get(at as usize).cloned(),
            PortRef::Pipe(at, is_slave) => {
                let role = if is_slave { PipeRole::Slave } else { PipeRole::Master };
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
    ) -> Result<OpenHandle, String> {
        let wrong = || format!("open file {}", state.handle);
        let words = PersistentWords::resume(self.domain.ledger.words_region(), state.words)
            .map_err(|_| wrong())?;
        let ticket = OpenId { handle: state.handle, call: state.call };
        let kept = PersistedOpen {
            open_id: ticket,
            words,
            last_answer: Mutex::new(state.answered.clone()),
        };
        let open = netmap.new_file(self.domain.clone(), opener, notify.clone(), Some(kept));
        if let Some(bound) = &state.bound {
            let port = self.find(bound.port).ok_or_else(wrong)?;
            let mut binding = Binding::resume(bound, port, &open.waker).ok_or_else(wrong)?;
            binding.set_parameters(self.domain.parameters());
            // The open file is new, so nothing has set its bind yet.
            let _ = open.bound.set(binding);
        }
        Ok(open)
    }
}

/// Checks `count` slots from `from` on, which belong to the driver. A slot without a usable buffer
/// gets a new one (buffer 0 if none is free), and so does a slot whose buffer is also in an earlier
/// one of these slots or in a slot of the program. So the ring is consistent even if the previous
/// process was killed in the middle of a change.
fn clear_unusable_slots(ring: &KernRing, from: SlotIdx, count: u32) {
    let (view, region) = (ring.view(), ring.region());
    let slots = |from: SlotIdx, count: u32| (0..count).map(move |i| ring.add(from, i));
    let others = slots(ring.add(from, count), ring.num_slots() - count);
    let mut seen: HashSet<BufIdx> = others.map(|at| view.slot(at).buf).collect();
    for at in slots(from, count) {
        let slot = view.slot(at);
        if !region.is_usable(slot.buf) || !seen.insert(slot.buf) {
            let fresh = region.alloc_bufs(1).ok().and_then(|bufs| bufs.first().copied());
            view.set_slot(at, Slot { buf: fresh.unwrap_or(BufIdx(0)), ..slot });
        }
    }
}
