//! Pipes: two ends that pass slots to each other; frames are never copied.
//!
//! Both ends are created together when the first end is opened, and live while one of them is open.
//! So sent frames wait until a program opens the other end. An end that is closed and opened again
//! while the other end stays open has its rings unchanged. The rings are in the memory of the
//! parent port, whose name begins the pipe's name.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, TryLockError, Weak};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use slipring_abi::NmreqRegister;
use slipring_abi::name::PipeRole;
use slipring_ring::{
    DirectionLayout, Doorbell, HostedRx, HostedSyncError, HostedTx, KernRing, Region, RingView,
    SlotIdx, SyncReport, hosted_direction, share,
};

use crate::memory::netmap_memory::{MemoryNeeds, NetmapMemory};
use crate::port::adapter::Adapter;
use crate::port::base::AdapterBase;
use crate::port::delegation::{DelegatingPort, DelegationGuard, PipeDelegation};
use crate::port::kicks::{KickDispatcher, KickHandler};
use crate::port::monitor_taps::{MonitorListener, MonitorTaps};
use crate::port::persist::{
    Persistent, PersistentPipe, PersistentPort, PortVisitor, SavedPortIndex,
};
use crate::port::sharing::{SharedHalf, SharedPipe};
use crate::port::waker::Listeners;
use crate::types::lock::lock;
use crate::types::outcome::{OffsetLimits, SyncStatus};
use crate::types::params::{MemoryParams, rings};
use crate::types::shape::{AdapterShape, TxRx};
use crate::types::state::{PipeDirectionState, PipeState, PortRef};

/// A pipe with both ends.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// The rings on which each end sends and receives, indexed by [`PipeRole`].
    sides: [PipeSide; 2],
    /// The state of the rings that programs sync themselves; set when a ring is first lent.
    shared: OnceLock<Arc<SharedPipe>>,
    making: Mutex<()>,
    /// Keeps the parent port and its memory alive.
    parent: Arc<dyn Adapter>,
}

#[derive(Debug)]
struct PipeSide {
    shape: AdapterShape,
    tx: Vec<Mutex<HostedTx>>,
    rx: Vec<Mutex<HostedRx>>,
    views: [Vec<RingView>; 2],
    listeners: [Vec<Listeners>; 2],
    monitor_taps: Arc<MonitorTaps>,
    /// Must be the last field, so that the memory is dropped after the rings.
    base: AdapterBase,
}

/// The numbers of rings and slots of a pipe, as the master end sees them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PipePlan {
    shape: AdapterShape,
}

impl PipePlan {
    /// Returns the numbers of rings and slots that the first opener requests.
    pub(crate) fn of(register: &NmreqRegister, role: PipeRole, params: &MemoryParams) -> Self {
        let rings = [rings(register.nr_tx_rings), rings(register.nr_rx_rings)];
        let slots = [params.slots(register.nr_tx_slots), params.slots(register.nr_rx_slots)];
        let shape = AdapterShape { rings, host_rings: [0, 0], slots };
        Self { shape: if role == PipeRole::Master { shape } else { mirrored(shape) } }
    }

    /// Returns the memory that the pipe needs, including interface records for several openers.
    pub(crate) fn memory_needs(&self) -> MemoryNeeds {
        let mut room = MemoryNeeds { ring_bytes: 64 << 10, bufs: 0 };
        for dir in TxRx::BOTH {
            let (count, slots) = (self.shape.all(dir) as u32, self.shape.slots[dir as usize]);
            room = room
                + MemoryNeeds::rings(count, slots, true)
                + MemoryNeeds::rings(count, slots, false);
        }
        room
    }
}

fn mirrored(shape: AdapterShape) -> AdapterShape {
    let swap = |[a, b]: [u16; 2]| [b, a];
    let [a, b] = shape.slots;
    AdapterShape { rings: swap(shape.rings), host_rings: swap(shape.host_rings), slots: [b, a] }
}

impl Pipe {
    /// Creates a pipe in the memory of `parent`; `names` are the names of the master end and the
    /// slave end.
    pub(crate) fn new(
        names: [String; 2],
        plan: PipePlan,
        cells: &Arc<Region>,
        parent: Arc<dyn Adapter>,
    ) -> Result<Arc<Self>, Errno> {
        let shapes = [plan.shape, mirrored(plan.shape)];
        let memory = parent.memory().clone();
        let mut sides = names.into_iter().zip(shapes);
        let mut side = || sides.next().map(|(name, shape)| PipeSide::empty(name, shape, &memory));
        let ends = "one side per name";
        let (mut master, mut slave) = (side().expect(ends), side().expect(ends));
        connect(&memory, cells, &mut master, &mut slave)?;
        connect(&memory, cells, &mut slave, &mut master)?;
        Ok(Self::of([master, slave], parent))
    }

    /// Returns one end of the pipe.
    pub(crate) fn end(self: &Arc<Self>, role: PipeRole) -> Arc<dyn Adapter> {
        Arc::new(PipeAdapter { pipe: self.clone(), role })
    }
}

impl Pipe {
    fn of(sides: [PipeSide; 2], parent: Arc<dyn Adapter>) -> Arc<Self> {
        let (sharing, making) = (OnceLock::new(), Mutex::default());
        Arc::new(Self { sides, shared: sharing, making, parent })
    }

    /// Restores a pipe of the previous process in the memory of `parent`; `None` if the state is
    /// inconsistent.
    pub(crate) fn resume(
        state: &PipeState,
        cells: &Arc<Region>,
        parent: Arc<dyn Adapter>,
    ) -> Option<Arc<Self>> {
        let shape = AdapterShape::from(state.shape);
        let [master, slave] = &state.names;
        let memory = parent.memory().clone();
        let mut master = PipeSide::empty(master.clone(), shape, &memory);
        let mut slave = PipeSide::empty(slave.clone(), mirrored(shape), &memory);
        reconnect(&memory, cells, &mut master, &mut slave, &state.directions[0])?;
        reconnect(&memory, cells, &mut slave, &mut master, &state.directions[1])?;
        Some(Self::of([master, slave], parent))
    }
}

impl Pipe {
    /// Returns the memory with the rings of both ends.
    pub(crate) fn memory(&self) -> &Arc<NetmapMemory> {
        self.parent.memory()
    }
}

impl PersistentPipe for Pipe {
    fn state(&self, ports: &mut dyn SavedPortIndex) -> PipeState {
        let parent = ports.port_ref(&self.parent);
        let directions = [(0, 1), (1, 0)].map(|(from, to)| {
            let (from, to) = (&self.sides[from], &self.sides[to]);
            let layouts = from.tx.iter().map(|tx| lock(tx).layout());
            let views = from.views[TxRx::Tx as usize].iter().zip(&to.views[TxRx::Rx as usize]);
            layouts
                .zip(views)
                .map(|(layout, (tx, rx))| PipeDirectionState::capture(layout, [tx, rx]))
                .collect()
        });
        PipeState {
            key: None,
            names: self.sides.each_ref().map(|side| side.base.name().to_owned()),
            shape: self.sides[0].shape.into(),
            parent,
            directions,
        }
    }

    fn monitor_taps(&self) -> [&Arc<MonitorTaps>; 2] {
        self.sides.each_ref().map(|side| &side.monitor_taps)
    }
}

/// How long, at most, a change of the monitors waits until programs have finished syncs that they
/// have begun. A sync normally takes less time.
const SYNC_DRAIN_TIMEOUT: Duration = Duration::from_millis(1);

impl Pipe {
    /// Creates, on first use, the state with which programs sync their rings themselves.
    fn share(self: &Arc<Self>, kicks: &KickDispatcher) -> Result<Arc<SharedPipe>, Errno> {
        let _one_maker = lock(&self.making);
        if let Some(sharing) = self.shared.get() {
            return Ok(sharing.clone());
        }
        let mut halves: [[Vec<SharedHalf>; 2]; 2] = Default::default();
        for (from, to) in [(0, 1), (1, 0)] {
            for (tx, rx) in self.sides[from].tx.iter().zip(&self.sides[to].rx) {
                let (mut tx, mut rx) = (lock(tx), lock(rx));
                let layout = share(&mut tx, &mut rx).map_err(|_| Errno::NOMEM)?;
                halves[from][TxRx::Tx as usize].push(SharedHalf::new(layout, tx.signs())?);
                halves[to][TxRx::Rx as usize].push(SharedHalf::new(layout, rx.signs())?);
            }
        }
        let kick = Arc::new(Doorbell::new().map_err(|_| Errno::NFILE)?);
        let weak: Weak<Self> = Arc::downgrade(self);
        kicks.register(&kick, weak.clone())?;
        let sharing =
            self.shared.get_or_init(|| Arc::new(SharedPipe { halves, kick, pipe: weak.clone() }));
        for side in &self.sides {
            side.monitor_taps.set_observer(weak.clone());
        }
        // If a monitor already exists, only this process may sync the rings.
        self.monitors_changed();
        Ok(sharing.clone())
    }
}

impl KickHandler for Pipe {
    fn handle_kick(&self) {
        let Some(sharing) = self.shared.get() else { return };
        for (side, halves) in self.sides.iter().zip(&sharing.halves) {
            for dir in TxRx::BOTH {
                let listeners = side.listeners[dir as usize].iter();
                for (half, listeners) in halves[dir as usize].iter().zip(listeners) {
                    if half.take_wakeup() {
                        listeners.wake();
                    }
                }
            }
        }
    }

    fn handle_client_exit(&self) {
        for listeners in self.sides.iter().flat_map(|side| &side.listeners).flatten() {
            listeners.wake();
        }
        let halves = self.shared.get().map(|sharing| sharing.halves.iter().flatten().flatten());
        for half in halves.into_iter().flatten().filter(|half| half.signals.take_guest_sleep()) {
            half.doorbell.ring();
        }
    }
}

impl MonitorListener for Pipe {
    /// Called when a monitor was added or removed. While the pipe is monitored, this process does
    /// all syncs, and shows the frames to the monitors. Frames that one end receives are shown when
    /// the other end sends them; with `NR_ZCOPY_MON`, when the receiver has released them.
    fn monitors_changed(&self) {
        let Some(sharing) = self.shared.get() else { return };
        let monitored = self.sides.iter().any(|side| side.monitor_taps.has_monitors());
        let halves = sharing.halves.iter().flatten().flatten();
        halves.for_each(|half| half.signals.set_host_only(monitored));
        let start = Instant::now();
        let held = |half: &SharedHalf| half.signals.is_held_by_guest();
        while sharing.halves.iter().flatten().flatten().any(held)
            && start.elapsed() < SYNC_DRAIN_TIMEOUT
        {
            std::hint::spin_loop();
        }
    }
}

impl PipeSide {
    fn empty(name: String, shape: AdapterShape, memory: &Arc<NetmapMemory>) -> Self {
        let listeners = TxRx::BOTH.map(|dir| (0..shape.all(dir)).map(|_| Listeners::default()));
        let monitor_taps = Arc::default();
        Self {
            shape,
            tx: Vec::new(),
            rx: Vec::new(),
            views: Default::default(),
            listeners: listeners.map(Iterator::collect),
            base: AdapterBase::new(name, &shape, memory.clone()).with_monitor_taps(&monitor_taps),
            monitor_taps,
        }
    }
}

/// Creates the rings on which `from` sends and `to` receives.
fn connect(
    memory: &NetmapMemory,
    cells: &Arc<Region>,
    from: &mut PipeSide,
    to: &mut PipeSide,
) -> Result<(), Errno> {
    for ringid in 0..from.shape.rings[TxRx::Tx as usize] {
        let slots = from.shape.slots[TxRx::Tx as usize];
        let pair = hosted_direction(memory.region(), cells, ringid, slots);
        link_sides(from, to, pair.map_err(|_| Errno::NOMEM)?);
    }
    Ok(())
}

/// Restores the rings on which `from` sent and `to` received.
fn reconnect(
    memory: &NetmapMemory,
    cells: &Arc<Region>,
    from: &mut PipeSide,
    to: &mut PipeSide,
    directions: &[PipeDirectionState],
) -> Option<()> {
    let rings = usize::from(from.shape.rings[TxRx::Tx as usize]);
    for direction in Some(directions).filter(|directions| directions.len() == rings)? {
        let PipeDirectionState { tx, rx, words, slots, offsets } = *direction;
        let layout = DirectionLayout { tx, rx, words, num_slots: slots };
        let (tx, rx) = layout.resume(memory.region(), cells).ok()?;
        offsets[0].apply(&tx.kern().view());
        offsets[1].apply(&rx.kern().view());
        link_sides(from, to, (tx, rx));
    }
    Some(())
}

fn link_sides(from: &mut PipeSide, to: &mut PipeSide, (tx, rx): (HostedTx, HostedRx)) {
    from.views[TxRx::Tx as usize].push(tx.kern().view());
    to.views[TxRx::Rx as usize].push(rx.kern().view());
    from.tx.push(Mutex::new(tx));
    to.rx.push(Mutex::new(rx));
}

/// One end of a pipe as a port.
#[derive(Debug)]
pub(crate) struct PipeAdapter {
    pipe: Arc<Pipe>,
    role: PipeRole,
}

impl PipeAdapter {
    fn side(&self) -> &PipeSide {
        &self.pipe.sides[self.role as usize]
    }

    /// Returns a closure that shows sent frames to the monitors of both ends, because sent frames
    /// arrive at the other end at the same time.
    #[inline(always)]
    fn observe_sent(&self, i: usize) -> impl FnOnce(&KernRing, SlotIdx, SlotIdx) + '_ {
        move |_, from, to| {
            if let Some(view) = self.side().views[TxRx::Tx as usize].get(i) {
                self.side().monitor_taps.observe(TxRx::Tx, i, view, from, to);
                self.peer_side().monitor_taps.observe(TxRx::Rx, i, view, from, to);
            }
        }
    }

    /// Returns a closure that shows released frames to the monitors.
    #[inline(always)]
    fn observe_released(&self, i: usize) -> impl FnOnce(&KernRing, SlotIdx, SlotIdx) + '_ {
        move |_, from, to| {
            if let Some(view) = self.side().views[TxRx::Rx as usize].get(i) {
                self.side().monitor_taps.observe_released(i, view, from, to);
            }
        }
    }

    fn peer_side(&self) -> &PipeSide {
        &self.pipe.sides[1 - self.role as usize]
    }
}

impl Adapter for PipeAdapter {
    fn base(&self) -> &AdapterBase {
        &self.side().base
    }

    fn shape(&self) -> AdapterShape {
        self.side().shape
    }

    fn ring(&self, dir: TxRx, i: usize) -> Option<&RingView> {
        self.side().views[dir as usize].get(i)
    }

    #[inline]
    fn sync(&self, dir: TxRx, i: usize) -> SyncStatus {
        let moved = match dir {
            TxRx::Tx => with_half(self.side().tx.get(i), |tx| tx.sync_shown(self.observe_sent(i))),
            TxRx::Rx => {
                with_half(self.side().rx.get(i), |rx| rx.sync_released(self.observe_released(i)))
            }
        };
        match moved {
            Ok(SyncReport { slots: 0, .. }) => SyncStatus::Done,
            // The sync has moved slots: the other end can receive frames, or has free slots again.
            Ok(moved) => {
                let dir = dir.opposite();
                if let Some(listeners) = self.peer_side().listeners[dir as usize].get(i) {
                    listeners.wake();
                }
                if let Some(sharing) = self.pipe.shared.get().filter(|_| moved.wake_guest) {
                    sharing.halves[1 - self.role as usize][dir as usize][i].doorbell.ring();
                }
                SyncStatus::Done
            }
            Err(how) => how,
        }
    }

    fn offset_limits(&self) -> Option<OffsetLimits> {
        Some(OffsetLimits { preserves_frames: true, ..OffsetLimits::ANY })
    }

    fn as_delegating(&self) -> Option<&dyn DelegatingPort> {
        Some(self)
    }

    fn as_persistent(&self) -> Option<Persistent<'_>> {
        Some(Persistent(self))
    }

    fn listeners(&self, dir: TxRx, i: usize) -> Option<&Listeners> {
        self.side().listeners[dir as usize].get(i)
    }
}

impl DelegatingPort for PipeAdapter {
    fn lend(
        &self,
        rings: &[Range<usize>; 2],
        kicks: &Arc<KickDispatcher>,
    ) -> Result<(PipeDelegation, DelegationGuard), Errno> {
        self.pipe.share(kicks)?.lend(self.role as usize, rings, kicks.next_client())
    }

    fn kick(&self) {
        let Some(sharing) = self.pipe.shared.get() else { return };
        for half in sharing.halves[1 - self.role as usize].iter().flatten() {
            if half.signals.take_guest_sleep() {
                half.doorbell.ring();
            }
        }
        self.pipe.handle_kick();
    }

    fn announce_sleep(&self, dir: TxRx, i: usize) {
        let sharing = self.pipe.shared.get();
        let half = sharing.and_then(|one| one.halves[self.role as usize][dir as usize].get(i));
        if half.is_some_and(SharedHalf::announce_sleep)
            && let Some(listeners) = self.listeners(dir, i)
        {
            listeners.wake();
        }
    }

    #[cfg(test)]
    fn while_locked(&self, dir: TxRx, i: usize, then: &mut dyn FnMut()) {
        let side = self.side();
        match dir {
            TxRx::Tx => drop((lock(&side.tx[i]), then())),
            TxRx::Rx => drop((lock(&side.rx[i]), then())),
        }
    }
}

impl PersistentPort for PipeAdapter {
    fn visit(&self, visitor: &mut dyn PortVisitor) -> PortRef {
        visitor.pipe_end(self.pipe.clone(), self.role == PipeRole::Slave)
    }
}

/// Syncs a half unless another thread is syncing it.
#[inline]
fn with_half<T>(
    half: Option<&Mutex<T>>,
    sync: impl FnOnce(&mut T) -> Result<SyncReport, HostedSyncError>,
) -> Result<SyncReport, SyncStatus> {
    let synced = match half.ok_or(SyncStatus::Gone)?.try_lock() {
        Ok(mut half) => sync(&mut half),
        Err(TryLockError::WouldBlock) => return Err(SyncStatus::Busy),
        Err(TryLockError::Poisoned(half)) => sync(&mut half.into_inner()),
    };
    synced.map_err(|why| match why {
        HostedSyncError::Busy | HostedSyncError::HostOnly => SyncStatus::Busy,
        // A program has written invalid values to the ring's indices or to the shared words.
        HostedSyncError::Reinit(_) | HostedSyncError::Corrupt => SyncStatus::Reinit,
    })
}
