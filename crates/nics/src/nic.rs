//! One interface as a port that several clients can bind.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use slipring_abi::name::{PortName, Rings};
use slipring_abi::{NR_REG_NIC_SW, NR_REG_ONE_SW, NR_REG_SW};
use slipring_core::Host;
use slipring_netmap::{Adapter, Claims, Dir, Errno, Listeners, Memory, Shape, Synced};
use slipring_port::iface::Iface;
use slipring_port::{OpenCause, OpenError, OpenOptions, Queue, RunCause};
use slipring_ring::{RingView, SyncFault};

use crate::pump::Pump;
use crate::within;

/// Pairs of rings that lead to the host.
const HOST_RINGS: u16 = 1;

/// The port. Each of its two sides is taken with its first bind.
#[derive(Debug)]
pub(crate) struct Nic {
    shown: String,
    name: PortName,
    netns: Arc<OwnedFd>,
    options: OpenOptions,
    expected: Shape,
    claims: Arc<Claims>,
    opening: Mutex<()>,
    nic: OnceLock<Live>,
    host: OnceLock<Live>,
    /// Behind the queues, which go first.
    memory: Arc<Memory>,
}

/// Ring pairs that a bound port has: those of the NIC, or that of the host.
#[derive(Debug)]
struct Live {
    /// Ends before the queues do.
    _pump: Pump,
    queues: Arc<Vec<NicQueue>>,
    /// An XDP program in the stack has it, which would see what is sent to the host.
    in_stack: bool,
}

impl Live {
    fn slots(&self) -> [u32; 2] {
        let first = self.queues.first();
        Dir::BOTH.map(|dir| first.map_or(0, |one| one.views[dir as usize].num_slots()))
    }
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
        let expected =
            Shape { rings: [queues; 2], host_rings: [HOST_RINGS; 2], slots: [options.slots; 2] };
        Self {
            shown: name.name.clone(),
            name,
            netns,
            options,
            expected,
            claims: Claims::new(&expected),
            opening: Mutex::default(),
            nic: OnceLock::new(),
            host: OnceLock::new(),
            memory,
        }
    }

    fn open(&self, rings: Rings, options: &OpenOptions) -> Result<Live, Errno> {
        let mut name = self.name.clone();
        name.rings = rings;
        let open = || Host::new().open_in(&name, self.memory.region(), options);
        let port = within(&self.netns, open).ok_or(Errno::NXIO)?;
        let port = port.map_err(|error| errno(&error))?;
        let in_stack = port.info.mode.get("mode").is_some_and(|mode| mode == "generic");
        let queues: Vec<_> = port.queues.into_iter().map(NicQueue::new).collect();
        let queues = Arc::new(queues);
        let pump = Pump::start(queues.clone()).map_err(|_| Errno::NOMEM)?;
        Ok(Live { _pump: pump, queues, in_stack })
    }

    /// Takes the interface from the host. Beside host rings not by a program in the stack: that
    /// would catch what is meant for the host once more.
    fn take(&self, beside_host: bool) -> Result<(), Errno> {
        if let Some(nic) = self.nic.get() {
            return if beside_host && nic.in_stack { Err(Errno::BUSY) } else { Ok(()) };
        }
        let beside_host = beside_host || self.host.get().is_some();
        let options = OpenOptions { beside_host, ..self.options.clone() };
        let live = self.open(self.name.rings, &options)?;
        // Rings of the host are numbered behind these, and may be bound already.
        if self.host.get().is_some() && live.queues.len() != usize::from(self.expected.rings[0]) {
            return Err(Errno::INVAL);
        }
        // The lock is held, so nobody else has set it.
        let _ = self.nic.set(live);
        Ok(())
    }

    /// Takes the host's side.
    fn take_host(&self) -> Result<(), Errno> {
        if self.host.get().is_some() {
            return Ok(());
        }
        if self.nic.get().is_some_and(|nic| nic.in_stack) {
            return Err(Errno::BUSY);
        }
        let live = self.open(Rings::Host, &self.options)?;
        // As in `take`.
        let _ = self.host.set(live);
        Ok(())
    }

    fn queue(&self, i: usize) -> Option<&NicQueue> {
        let rings = usize::from(self.shape().rings[0]);
        match i.checked_sub(rings) {
            None => self.nic.get()?.queues.get(i),
            Some(i) => self.host.get()?.queues.get(i),
        }
    }
}

impl Drop for Nic {
    /// What leads to the host lies in the interface's namespace and is removed from there.
    fn drop(&mut self) {
        if let Some(host) = self.host.take() {
            // Where the namespace cannot be entered it is gone with all that was in it.
            let _ = within(&self.netns, move || drop(host));
        }
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
        let live = self.nic.get().or(self.host.get());
        let rings = self.nic.get().map_or(self.expected.rings, |nic| [nic.queues.len() as u16; 2]);
        let slots = live.map_or(self.expected.slots, Live::slots);
        Shape { rings, slots, ..self.expected }
    }

    fn claims(&self) -> &Arc<Claims> {
        &self.claims
    }

    fn activate(&self, mode: u32) -> Result<(), Errno> {
        let _one_opener = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        match mode {
            NR_REG_SW | NR_REG_ONE_SW => self.take_host(),
            NR_REG_NIC_SW => self.take(true).and_then(|()| self.take_host()),
            _ => self.take(false),
        }
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
