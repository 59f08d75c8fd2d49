//! The bind of one open file: rings of a port, the interface record that lists them, extra buffers.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use slipring_abi::{IFNAMSIZ, NETMAP_API, NI_PRIV_MEM, NR_EXCLUSIVE, NetmapIf, NmreqRegister};
use slipring_ring::{BufIdx, InterfaceRecord, Region};

use crate::port::adapter::Adapter;
use crate::port::claims::Claim;
use crate::port::delegation::DelegationGuard;
use crate::port::forward::Forward;
use crate::port::offsets::{self, OffsetsRequest};
use crate::port::persist::SavedPortIndex;
use crate::port::waker::Waker;
use crate::types::lock::lock;
use crate::types::outcome::SyncStatus;
use crate::types::parameters::Parameters;
use crate::types::shape::{AdapterShape, TxRx};
use crate::types::state::BoundState;

/// A bind of an open file, or of an attachment to a switch, to rings of a port. Dropping it
/// releases the rings and the extra buffers.
#[derive(Debug)]
pub(crate) struct Binding {
    interface: InterfaceRecord,
    pub(crate) rings: [Range<usize>; 2],
    pub(crate) flags: u64,
    /// Forwards frames between an interface and its host; `None` if the port has no host rings, or
    /// the bind has no tx or no rx rings.
    forward: Option<Forward>,
    waker: Arc<Waker>,
    /// Claims the rings while the value exists.
    _claim: Claim,
    /// The delegation of the rings that the program syncs itself, ended when the guard is dropped;
    /// `None` if there is no delegation.
    pub(crate) delegation: Mutex<Option<DelegationGuard>>,
    /// Must be the last field: the memory is freed with its last port, so the port is dropped last.
    pub(crate) port: Arc<dyn Adapter>,
}

impl Binding {
    /// Binds the rings that `register` selects, without extra buffers.
    pub(crate) fn new(
        port: Arc<dyn Adapter>,
        register: &NmreqRegister,
        offsets: Option<&mut OffsetsRequest>,
        waker: &Arc<Waker>,
    ) -> Result<Self, Errno> {
        let (mode, flags) = (register.nr_mode, register.nr_flags);
        // A bind that is impossible for the expected shape is refused before it takes resources.
        // The check is repeated after `activate`, which may change the shape.
        port.shape().bound(mode, register.nr_ringid, flags)?;
        port.activate(mode)?;
        let shape = port.shape();
        let rings = shape.bound(mode, register.nr_ringid, flags)?;
        let settling = port.claims().settling();
        let claim = port.claims().acquire(rings.clone(), flags & NR_EXCLUSIVE != 0)?;
        offsets::apply_offsets(&*port, &claim, offsets)?;
        drop(settling);
        let interface = interface(&*port, &shape, &rings)?;
        let (_claim, waker, delegation) = (claim, waker.clone(), Mutex::default());
        let forward = Forward::new(&*port, &shape, &rings);
        let binding = Self { interface, rings, flags, forward, waker, _claim, delegation, port };
        binding.listen(&binding.waker);
        Ok(binding)
    }

    /// Restores a bind that the previous process granted; `None` if the state is inconsistent.
    pub(crate) fn resume(
        state: &BoundState,
        port: Arc<dyn Adapter>,
        waker: &Arc<Waker>,
    ) -> Option<Self> {
        let rings = state.rings.map(|[start, end]| start as usize..end as usize);
        let shape = port.shape();
        let fits = TxRx::BOTH
            .iter()
            .zip(&rings)
            .all(|(&dir, range)| range.start <= range.end && range.end <= shape.all(dir));
        let exclusive = state.flags & NR_EXCLUSIVE != 0;
        let claim = port.claims().acquire(Some(rings.clone()).filter(|_| fits)?, exclusive).ok()?;
        let region = port.memory().region();
        let interface = InterfaceRecord::resume(region, state.record, state.slots as usize).ok()?;
        let forward = Forward::new(&*port, &shape, &rings);
        let (_claim, waker, delegation) = (claim, waker.clone(), Mutex::default());
        let flags = state.flags;
        let binding = Self { interface, rings, flags, forward, waker, _claim, delegation, port };
        binding.listen(&binding.waker);
        Some(binding)
    }

    /// Sets the module parameters, which can change; `fwd` applies to the bind from now on.
    pub(crate) fn set_parameters(&mut self, parameters: &Arc<Parameters>) {
        if let Some(forward) = &mut self.forward {
            forward.set_parameters(parameters);
        }
    }

    /// Returns the saved form of the bind; `ports` assigns an index to the bound port.
    pub(crate) fn state(&self, ports: &mut dyn SavedPortIndex) -> BoundState {
        BoundState {
            port: ports.port_ref(&self.port),
            rings: self.rings.clone().map(|range| [range.start as u32, range.end as u32]),
            flags: self.flags,
            record: self.interface.offset(),
            slots: self.interface.rings() as u32,
        }
    }

    /// Returns `nr_offset`: the offset of the bind's interface record in the user's file, or in the
    /// external memory of the port.
    pub(crate) fn offset(&self) -> u64 {
        self.port.memory().region().file_offset() + self.interface.offset()
    }

    /// Syncs ring `i` of the port. For an rx ring, first forwards frames between the interface and
    /// its host ([`Forward::before_sync`]).
    #[inline]
    pub(crate) fn sync(&self, dir: TxRx, i: usize) -> SyncStatus {
        if let (TxRx::Rx, Some(forward)) = (dir, &self.forward) {
            forward.before_sync(&*self.port, i);
        }
        match self.port.sync(dir, i) {
            // The program has revoked its memory, so the rings have no meaning any more.
            _ if self.port.memory().region().is_revoked() => SyncStatus::Gone,
            synced => synced,
        }
    }

    /// Takes up to `wanted` extra buffers from the memory and links them into a list; returns how
    /// many it took.
    pub(crate) fn alloc_extra(&self, wanted: u32) -> u32 {
        let region = self.port.memory().region();
        let count = wanted.min(region.free_bufs());
        let Ok(bufs) = region.alloc_bufs(count) else {
            // In the meantime, another thread has taken the buffers. Then the caller gets none: a
            // request may be granted fewer buffers than it asked for.
            return 0;
        };
        let nexts = bufs.iter().skip(1).map(|buf| buf.0).chain([0]);
        for (&buf, next) in bufs.iter().zip(nexts) {
            region.copy_in(buf, &next.to_ne_bytes());
        }
        self.interface.set_extra_bufs(bufs.first().copied().unwrap_or(BufIdx(0)));
        count
    }

    /// Adds `waker` to the listeners of all bound rings.
    pub(crate) fn listen(&self, waker: &Arc<Waker>) {
        for dir in TxRx::BOTH {
            for i in self.rings[dir as usize].clone() {
                if let (Some(list), Some(view)) =
                    (self.port.listeners(dir, i), self.port.ring(dir, i))
                {
                    list.add(waker, dir, view);
                }
            }
        }
    }

    /// Removes `waker` from the listeners of all bound rings.
    pub(crate) fn stop_listening(&self, waker: &Arc<Waker>) {
        for dir in TxRx::BOTH {
            for list in self.rings[dir as usize].clone().filter_map(|i| self.port.listeners(dir, i))
            {
                list.remove(waker);
            }
        }
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        self.stop_listening(&self.waker);
        // The delegation ends before the claim: rings without a claim are never lent.
        drop(lock(&self.delegation).take());
        let region = self.port.memory().region();
        region.release_bufs(linked_bufs(region, self.interface.extra_bufs()));
    }
}

/// Returns the buffers of an extra list, up to the first invalid link: the program may have written
/// anything into the list.
fn linked_bufs(region: &Region, head: BufIdx) -> Vec<BufIdx> {
    let mut bufs = Vec::new();
    let mut next = head;
    // A list with more entries than the memory has buffers has a cycle.
    while region.is_usable(next) && bufs.len() < region.num_bufs() as usize {
        bufs.push(next);
        let mut word = [0; 4];
        region.copy_out(next, &mut word);
        next = BufIdx(u32::from_ne_bytes(word));
    }
    bufs
}

/// Creates the interface record. It has the offset of each ring, in the order tx, host tx, rx, host
/// rx, and 0 for rings that are not bound.
fn interface(
    port: &dyn Adapter,
    shape: &AdapterShape,
    rings: &[Range<usize>; 2],
) -> Result<InterfaceRecord, Errno> {
    let mut offsets = Vec::new();
    for dir in TxRx::BOTH {
        // The record has an entry for every host ring that programs are shown, even for one that
        // cannot be bound.
        let shown = shape.rings[dir as usize] + shape.shown_host_rings(dir);
        offsets.extend((0..usize::from(shown)).map(|i| {
            let bound = rings[dir as usize].contains(&i);
            let ring = port.ring(dir, i).filter(|_| bound);
            ring.map_or(0, |ring| ring.offset())
        }));
    }
    let head = head(port, shape);
    let region = port.memory().region();
    InterfaceRecord::create(region, &head, offsets.into_iter()).map_err(|_| Errno::NOMEM)
}

fn head(port: &dyn Adapter, shape: &AdapterShape) -> NetmapIf {
    let mut ni_name = [0; IFNAMSIZ];
    let name = port.name().as_bytes();
    let len = name.len().min(IFNAMSIZ - 1);
    ni_name[..len].copy_from_slice(&name[..len]);
    let [ni_tx_rings, ni_rx_rings] = shape.rings.map(u32::from);
    let [ni_host_tx_rings, ni_host_rx_rings] =
        TxRx::BOTH.map(|dir| shape.shown_host_rings(dir).into());
    NetmapIf {
        ni_name,
        ni_version: NETMAP_API.into(),
        ni_flags: if port.memory().is_private() { NI_PRIV_MEM } else { 0 },
        ni_tx_rings,
        ni_rx_rings,
        ni_host_tx_rings,
        ni_host_rx_rings,
        ..NetmapIf::default()
    }
}
