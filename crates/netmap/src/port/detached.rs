//! Ports without a peer: what is sent is discarded, and nothing ever arrives.
//!
//! Two of netmap's kinds work like this: the null port (`NR_REG_NULL`), which gives access to a
//! memory, and the parent port of a pipe when no interface has its name.

use std::sync::{Arc, Mutex, OnceLock};

use rustix::io::Errno;
use slipring_ring::{KernRing, RingHalves, RingView, Rx, Tx};

use crate::memory::netmap_memory::NetmapMemory;
use crate::port::adapter::Adapter;
use crate::port::base::AdapterBase;
use crate::port::persist::{Persistent, PersistentPort, PortVisitor};
use crate::port::waker::Listeners;
use crate::types::lock::lock;
use crate::types::outcome::{OffsetLimits, SyncStatus};
use crate::types::shape::{AdapterShape, TxRx};
use crate::types::state::{PortRef, PortState, SavedPortKind};

/// A detached port. Its rings are created at the first bind.
#[derive(Debug)]
pub(crate) struct DetachedAdapter {
    shape: AdapterShape,
    listeners: [Vec<Listeners>; 2],
    rings: OnceLock<DetachedRings>,
    making: Mutex<()>,
    /// Whether the port was connected to an interface or another object that has vanished.
    is_gone: bool,
    /// Must be the last field, so that the memory is dropped after the rings.
    base: AdapterBase,
}

#[derive(Debug)]
struct DetachedRings {
    views: [Vec<RingView>; 2],
    kern: [Vec<Mutex<KernRing>>; 2],
}

impl DetachedAdapter {
    pub(crate) fn new(name: String, shape: AdapterShape, memory: Arc<NetmapMemory>) -> Arc<Self> {
        let listeners = TxRx::BOTH.map(|dir| (0..shape.all(dir)).map(|_| Listeners::default()));
        Arc::new(Self {
            shape,
            listeners: listeners.map(Iterator::collect),
            rings: OnceLock::new(),
            making: Mutex::default(),
            is_gone: false,
            base: AdapterBase::new(name, &shape, memory),
        })
    }

    /// Restores a port of the previous process with its rings. A port that was of another kind
    /// keeps its rings, but they are connected to nothing, and programs that use them get an error.
    pub(crate) fn resume(
        state: &PortState,
        made: [Vec<KernRing>; 2],
        memory: Arc<NetmapMemory>,
    ) -> Option<Arc<Self>> {
        let any = made.iter().any(|rings| !rings.is_empty());
        let views = made.each_ref().map(|rings| rings.iter().map(KernRing::view).collect());
        let kern = made.map(|rings| rings.into_iter().map(Mutex::new).collect());
        let rings = DetachedRings { views, kern };
        let mut port = Arc::into_inner(Self::new(state.name.clone(), state.shape.into(), memory))?;
        port.is_gone = state.kind != SavedPortKind::Detached;
        if any || port.is_gone {
            port.rings = OnceLock::from(rings);
        }
        Some(Arc::new(port))
    }

    fn make(&self) -> Result<DetachedRings, Errno> {
        let mut rings = DetachedRings { views: Default::default(), kern: Default::default() };
        for dir in TxRx::BOTH {
            for ringid in 0..self.shape.rings[dir as usize] {
                let (region, slots) = (self.base.memory().region(), self.shape.slots[dir as usize]);
                let kern = match dir {
                    TxRx::Tx => {
                        RingHalves::<Tx>::create(region, ringid, slots).map(|pair| pair.kern)
                    }
                    TxRx::Rx => {
                        RingHalves::<Rx>::create(region, ringid, slots).map(|pair| pair.kern)
                    }
                };
                let kern = kern.map_err(|_| Errno::NOMEM)?;
                rings.views[dir as usize].push(kern.view());
                rings.kern[dir as usize].push(Mutex::new(kern));
            }
        }
        Ok(rings)
    }
}

impl Adapter for DetachedAdapter {
    fn base(&self) -> &AdapterBase {
        &self.base
    }

    fn shape(&self) -> AdapterShape {
        self.shape
    }

    fn activate(&self, _mode: u32) -> Result<(), Errno> {
        let _one_maker = lock(&self.making);
        if self.rings.get().is_none() {
            let rings = self.make()?;
            // The lock on `making` is held, so no other thread has set the rings.
            let _ = self.rings.set(rings);
        }
        Ok(())
    }

    fn ring(&self, dir: TxRx, i: usize) -> Option<&RingView> {
        self.rings.get()?.views[dir as usize].get(i)
    }

    fn has_vanished(&self) -> bool {
        self.is_gone
    }

    fn sync(&self, dir: TxRx, i: usize) -> SyncStatus {
        if self.is_gone {
            return SyncStatus::Gone;
        }
        let Some(ring) = self.rings.get().and_then(|rings| rings.kern[dir as usize].get(i)) else {
            return SyncStatus::Gone;
        };
        let Ok(mut ring) = ring.try_lock() else { return SyncStatus::Busy };
        let Ok(head) = ring.released() else { return SyncStatus::Reinit };
        ring.complete_to(head);
        let tail = if dir == TxRx::Tx { ring.prev(head) } else { ring.hwtail() };
        ring.set_tail(tail);
        SyncStatus::Done
    }

    fn offset_limits(&self) -> Option<OffsetLimits> {
        Some(OffsetLimits::ANY)
    }

    fn as_persistent(&self) -> Option<Persistent<'_>> {
        // A vanished port stays vanished for the successor process.
        (!self.is_gone).then_some(Persistent(self))
    }

    fn listeners(&self, dir: TxRx, i: usize) -> Option<&Listeners> {
        self.listeners[dir as usize].get(i)
    }
}

impl PersistentPort for DetachedAdapter {
    fn visit(&self, visitor: &mut dyn PortVisitor) -> PortRef {
        visitor.detached()
    }
}
