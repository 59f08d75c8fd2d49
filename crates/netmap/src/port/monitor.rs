//! Monitors: ports that receive what another port sends, or receives, or both.
//!
//! Each monitor belongs to its opener. Its rings are in a memory of its own, in the memory that the
//! request names, or (`NR_ZCOPY_MON`) in the memory of the monitored port. A monitor ends when the
//! last program unbinds the monitored port.
//!
//! A monitor sees a received frame when the frame is put into the ring of the port's program; on a
//! pipe, when the other end sends the frame. With `NR_ZCOPY_MON`, as in netmap, the monitor sees it
//! at the first sync after the program has released it.

use std::sync::Arc;

use rustix::io::Errno;
use slipring_abi::{NR_MONITOR_RX, NR_MONITOR_TX, NR_ZCOPY_MON, NmreqRegister};
use slipring_ring::{KernRing, RingHalves, RingView, Rx, Tx};

use crate::memory::netmap_memory::{MemoryNeeds, NetmapMemory};
use crate::memory::user_memory::UserMemory;
use crate::port::adapter::Adapter;
use crate::port::base::AdapterBase;
use crate::port::monitor_taps::{MonitorSelection, MonitorTap, MonitorTaps};
use crate::port::persist::{Persistent, PersistentPort, PortVisitor};
use crate::port::waker::Listeners;
use crate::types::lock::lock;
use crate::types::outcome::{OffsetLimits, SyncStatus};
use crate::types::shape::{AdapterShape, TxRx};
use crate::types::state::{MonitorState, PortRef, PortState};

/// Slots of the monitor's tx ring: the minimum, because the ring never sends.
const SILENT_SLOTS: u32 = 2;

/// Returns whether the request is for a monitor of the port, and not for the port itself.
pub(crate) fn is_monitor_request(register: &NmreqRegister) -> bool {
    register.nr_flags & (NR_MONITOR_TX | NR_MONITOR_RX | NR_ZCOPY_MON) != 0
}

/// Returns the monitored directions, by [`TxRx`]: both if neither direction has its flag.
fn selected_directions(flags: u64) -> [bool; 2] {
    match [NR_MONITOR_TX, NR_MONITOR_RX].map(|flag| flags & flag != 0) {
        [false, false] => [true, true],
        other => other,
    }
}

/// A monitor port.
#[derive(Debug)]
pub(crate) struct Monitor {
    shape: AdapterShape,
    own_tap: Arc<MonitorTap>,
    target_taps: Arc<MonitorTaps>,
    /// The tx ring, which never sends. It exists because programs expect a tx ring.
    silent: KernRing,
    silent_view: RingView,
    no_listeners: Listeners,
    /// Whether the monitor was requested without `NR_ZCOPY_MON`; see [`MonitorSelection`].
    copies: bool,
    /// Must be the last field, so that the memory is dropped after the rings.
    base: AdapterBase,
}

/// The parts of a bind request that concern a monitor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MonitorRequest<'r> {
    pub(crate) register: &'r NmreqRegister,
    /// The memory for the monitor's rings, if the request names a memory.
    pub(crate) memory: Option<&'r Arc<NetmapMemory>>,
}

impl Monitor {
    /// Creates a monitor of `port`, which a program of the user must have bound.
    pub(crate) fn new(
        wanted: MonitorRequest<'_>,
        user: &UserMemory,
        port: &Arc<dyn Adapter>,
    ) -> Result<Arc<Self>, Errno> {
        let MonitorRequest { register, memory } = wanted;
        let taps = port.monitor_taps().ok_or(Errno::OPNOTSUPP)?.clone();
        let (parent, params) = (port.shape(), user.params());
        let shape = AdapterShape {
            rings: [1, MonitorTap::rings_for(&parent)],
            host_rings: [0, parent.host_rings[0].max(parent.host_rings[1])],
            slots: [SILENT_SLOTS, params.slots(register.nr_rx_slots)],
        };
        let flags = register.nr_flags;
        let [_, bound] = shape.bound(register.nr_mode, register.nr_ringid, flags)?;
        let memory = match (flags & NR_ZCOPY_MON, memory) {
            (0, None) => user.private_memory(memory_needs(&shape, register.nr_extra_bufs))?,
            (0, Some(memory)) => memory.clone(),
            (_, Some(memory)) if !Arc::ptr_eq(memory, port.memory()) => return Err(Errno::INVAL),
            _ => port.memory().clone(),
        };
        let (region, failed) = (memory.region(), |_| Errno::NOMEM);
        let silent = RingHalves::<Tx>::create(region, 0, shape.slots[0]).map_err(failed)?.kern;
        let rings = (0..shape.all(TxRx::Rx)).map(|i| {
            let pair = RingHalves::<Rx>::create(region, i as u16, shape.slots[1]);
            pair.map(|pair| pair.kern).map_err(failed)
        });
        let copies = flags & NR_ZCOPY_MON == 0;
        let wishes = MonitorSelection { directions: selected_directions(flags), copies };
        let tap = MonitorTap::new(wishes, parent, bound, rings.collect::<Result<_, _>>()?);
        taps.add(tap.clone());
        let monitor = Arc::new(Self {
            base: AdapterBase::new(port.name().to_owned(), &shape, memory),
            shape,
            own_tap: tap,
            target_taps: taps,
            silent_view: silent.view(),
            silent,
            no_listeners: Listeners::default(),
            copies,
        });
        // Checked after the monitor was added. If the port is unbound later than this check, the
        // unbinding ends the monitor.
        if port.claims().is_idle() { Err(Errno::INVAL) } else { Ok(monitor) }
    }
}

impl Monitor {
    /// Returns the saved form for the successor process.
    fn state(&self, port: PortState) -> MonitorState {
        let (wants, parent, bound) = self.own_tap.selection();
        MonitorState {
            port,
            target: None,
            wants,
            bound: [bound.start as u32, bound.end as u32],
            parent: parent.into(),
            copies: self.copies,
        }
    }

    /// Restores a monitor of the previous process. `port` is the monitored port, if it is still
    /// bound. `None` if the state is inconsistent.
    pub(crate) fn resume(
        state: &MonitorState,
        port: Option<&Arc<dyn Adapter>>,
        memory: Arc<NetmapMemory>,
    ) -> Option<Arc<Self>> {
        let [tx, rx] = state.port.made();
        let silent = tx.first()?.resume(memory.region())?;
        let rings = rx.iter().map(|ring| ring.resume(memory.region())).collect::<Option<_>>()?;
        let bound = state.bound[0] as usize..state.bound[1] as usize;
        let wishes = MonitorSelection { directions: state.wants, copies: state.copies };
        let tap = MonitorTap::new(wishes, state.parent.into(), bound, rings);
        let taps = port.and_then(|port| port.monitor_taps()).cloned().unwrap_or_default();
        taps.add(tap.clone());
        if port.is_none() {
            taps.mark_ended();
        }
        let shape = AdapterShape::from(state.port.shape);
        Some(Arc::new(Self {
            base: AdapterBase::new(state.port.name.clone(), &shape, memory),
            shape,
            own_tap: tap,
            target_taps: taps,
            silent_view: silent.view(),
            silent,
            no_listeners: Listeners::default(),
            copies: state.copies,
        }))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.target_taps.remove(&self.own_tap);
    }
}

fn memory_needs(shape: &AdapterShape, extra: u32) -> MemoryNeeds {
    let rx = MemoryNeeds::rings(shape.all(TxRx::Rx) as u32, shape.slots[1], true);
    let spare = MemoryNeeds { ring_bytes: 64 << 10, bufs: extra.min(500_000) };
    rx + MemoryNeeds::rings(1, shape.slots[0], true) + spare
}

impl Adapter for Monitor {
    fn base(&self) -> &AdapterBase {
        &self.base
    }

    fn shape(&self) -> AdapterShape {
        self.shape
    }

    fn ring(&self, dir: TxRx, i: usize) -> Option<&RingView> {
        match dir {
            TxRx::Tx => (i == 0).then_some(&self.silent_view),
            TxRx::Rx => self.own_tap.rings.get(i).map(|ring| &ring.view),
        }
    }

    fn sync(&self, dir: TxRx, i: usize) -> SyncStatus {
        if self.own_tap.has_ended() {
            return SyncStatus::Gone;
        }
        if dir == TxRx::Tx {
            return SyncStatus::Done;
        }
        let Some(ring) = self.own_tap.rings.get(i) else { return SyncStatus::Gone };
        let mut kern = lock(&ring.kern);
        let Ok(head) = kern.released() else { return SyncStatus::Reinit };
        kern.complete_to(head);
        let tail = kern.hwtail();
        kern.set_tail(tail);
        SyncStatus::Done
    }

    fn listeners(&self, dir: TxRx, i: usize) -> Option<&Listeners> {
        match dir {
            TxRx::Tx => Some(&self.no_listeners),
            TxRx::Rx => self.own_tap.rings.get(i).map(|ring| &ring.listeners),
        }
    }

    fn offset_limits(&self) -> Option<OffsetLimits> {
        Some(OffsetLimits::ANY)
    }

    fn as_persistent(&self) -> Option<Persistent<'_>> {
        Some(Persistent(self))
    }

    fn is_monitor(&self) -> bool {
        debug_assert_eq!(self.silent.hwcur(), 0, "nothing is sent");
        true
    }
}

impl PersistentPort for Monitor {
    fn visit(&self, visitor: &mut dyn PortVisitor) -> PortRef {
        let of = (!self.own_tap.has_ended()).then_some(&self.target_taps);
        visitor.monitor(of, &|port| self.state(port))
    }
}
