//! One interface as a port that several clients can bind.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use slipring_abi::name::PortName;
use slipring_core::Host;
use slipring_netmap::{Adapter, Claims, Dir, Errno, Listeners, Memory, Shape, Synced};
use slipring_port::iface::Iface;
use slipring_port::{OpenCause, OpenError, OpenOptions, Queue, RunCause};
use slipring_ring::{RingView, SyncFault};

use crate::pump::Pump;
use crate::within;

/// The port; its queues are there from the first bind on.
#[derive(Debug)]
pub(crate) struct Nic {
    shown: String,
    name: PortName,
    netns: Arc<OwnedFd>,
    options: OpenOptions,
    expected: Shape,
    claims: Arc<Claims>,
    opening: Mutex<()>,
    live: OnceLock<Live>,
    /// Behind the queues, which go first.
    memory: Arc<Memory>,
}

/// What a bound port has.
#[derive(Debug)]
struct Live {
    /// Ends before the queues do.
    _pump: Pump,
    shape: Shape,
    queues: Arc<Vec<NicQueue>>,
}

/// One ring pair.
pub(crate) struct NicQueue {
    pub(crate) driver: Mutex<Box<dyn Queue>>,
    pub(crate) views: [RingView; 2],
    pub(crate) listeners: [Listeners; 2],
    /// The interface is no more. A driver does not say so at every sync.
    vanished: AtomicBool,
}

impl std::fmt::Debug for NicQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NicQueue").field("views", &self.views).finish_non_exhaustive()
    }
}

impl NicQueue {
    fn new(mut driver: Box<dyn Queue>) -> Self {
        let rings = driver.rings();
        let views = [rings.tx.view(), rings.rx.view()];
        let listeners = Default::default();
        Self { driver: Mutex::new(driver), views, listeners, vanished: AtomicBool::new(false) }
    }

    fn sync(&self, dir: Dir) -> Synced {
        if self.vanished.load(Ordering::Relaxed) {
            return Synced::Gone;
        }
        // Waited for, not skipped: both directions share this lock, and a sync is short.
        let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        let done = match dir {
            Dir::Tx => driver.tx_sync(),
            Dir::Rx => driver.rx_sync(),
        };
        match done {
            Ok(()) => Synced::Done,
            Err(error) => match error.cause {
                RunCause::Ring(SyncFault::Reinit(_)) => Synced::Reinit,
                RunCause::Vanished => {
                    self.vanished.store(true, Ordering::Relaxed);
                    Synced::Gone
                }
                // It may be up again by the next sync.
                _ => Synced::Gone,
            },
        }
    }
}

impl Nic {
    pub(crate) fn new(
        name: PortName,
        netns: Arc<OwnedFd>,
        options: OpenOptions,
        iface: &Iface,
        memory: Arc<Memory>,
    ) -> Self {
        let queues = iface.rx_queues.min(u16::MAX.into()) as u16;
        let expected = Shape { rings: [queues; 2], host_rings: [0; 2], slots: [options.slots; 2] };
        Self {
            shown: name.name.clone(),
            name,
            netns,
            options,
            expected,
            claims: Claims::new(&expected),
            opening: Mutex::default(),
            live: OnceLock::new(),
            memory,
        }
    }

    fn open(&self) -> Result<Live, Errno> {
        let open = || Host::new().open_in(&self.name, self.memory.region(), &self.options);
        let port = within(&self.netns, open).ok_or(Errno::NXIO)?;
        let port = port.map_err(|error| errno(&error))?;
        let queues: Vec<_> = port.queues.into_iter().map(NicQueue::new).collect();
        let slots = |dir: Dir| queues.first().map_or(0, |one| one.views[dir as usize].num_slots());
        let shape = Shape {
            rings: [queues.len() as u16; 2],
            host_rings: [0; 2],
            slots: Dir::BOTH.map(slots),
        };
        let queues = Arc::new(queues);
        let pump = Pump::start(queues.clone()).map_err(|_| Errno::NOMEM)?;
        Ok(Live { _pump: pump, shape, queues })
    }

    fn queue(&self, i: usize) -> Option<&NicQueue> {
        self.live.get()?.queues.get(i)
    }
}

/// What netmap would have answered.
fn errno(error: &OpenError) -> Errno {
    match *error.cause {
        OpenCause::NoInterface { .. } => Errno::NXIO,
        OpenCause::Busy { .. } | OpenCause::DefaultRoute { .. } => Errno::BUSY,
        OpenCause::Region(_) | OpenCause::LockedMemory { .. } => Errno::NOMEM,
        OpenCause::Privilege { .. } => Errno::PERM,
        OpenCause::Down { .. } => Errno::NETDOWN,
        _ => Errno::INVAL,
    }
}

impl Adapter for Nic {
    fn name(&self) -> &str {
        &self.shown
    }

    fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    fn shape(&self) -> Shape {
        self.live.get().map_or(self.expected, |live| live.shape)
    }

    fn claims(&self) -> &Arc<Claims> {
        &self.claims
    }

    fn activate(&self) -> Result<(), Errno> {
        let _one_opener = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if self.live.get().is_none() {
            let live = self.open()?;
            // The lock is held, so nobody else has set it.
            let _ = self.live.set(live);
        }
        Ok(())
    }

    fn ring(&self, dir: Dir, i: usize) -> Option<&RingView> {
        self.queue(i).map(|queue| &queue.views[dir as usize])
    }

    fn sync(&self, dir: Dir, i: usize) -> Synced {
        self.queue(i).map_or(Synced::Gone, |queue| queue.sync(dir))
    }

    fn listeners(&self, dir: Dir, i: usize) -> Option<&Listeners> {
        self.queue(i).map(|queue| &queue.listeners[dir as usize])
    }
}
