//! One interface as a port that several clients can bind.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use slipring_abi::name::{PortName, RingSelection};
use slipring_abi::{
    DELEGATED_SOFTWARE, DELEGATED_ZERO_COPY, DelegatedQueueLayout, NR_REG_NIC_SW, NR_REG_ONE_SW,
    NR_REG_SW,
};
use slipring_core::Host;
use slipring_netmap::{
    Adapter, AdapterBase, AdapterCounters, AdapterShape, DelegatingPort, DelegationGuard, Errno,
    Listeners, MonitorListener, MonitorTaps, NetmapMemory, OffsetLimits, QueueDelegation,
    SyncStatus, TxRx,
};
use slipring_port::iface::Iface;
use slipring_port::{OpenCause, OpenError, OpenOptions, Queue, QueueSnapshot, RunCause, RunError};
use slipring_ring::{RingView, SlotFlags, SyncFault};

use crate::netns::in_netns;
use crate::poller::NicPoller;
use crate::queue_loans::{MonitorForwarder, QueueLoans};
use crate::ring_counts::NicRingCounts;

/// Maximum number of times that the queues of a killed process are requested again. There is a
/// delay before each request.
const MAX_BUSY_RETRIES: u32 = 200;
const BUSY_RETRY_DELAY: Duration = Duration::from_millis(5);
/// When a monitor is opened while the program syncs the rings in its own process, opening waits at
/// most this time for the end of the current sync. Syncs are shorter than this.
const SYNC_DRAIN_TIMEOUT: Duration = Duration::from_millis(1);

/// A network interface as a port. Each of its two sides, NIC and host, is opened when it is first
/// bound.
#[derive(Debug)]
pub(crate) struct Nic {
    name: PortName,
    /// The interface's index at the start; `None` for a virtual machine, or if there is none.
    index: Option<u32>,
    netns: Arc<OwnedFd>,
    options: OpenOptions,
    expected: AdapterShape,
    monitor_taps: Arc<MonitorTaps>,
    opening: Mutex<()>,
    nic: OnceLock<LiveQueues>,
    host: OnceLock<LiveQueues>,
    /// Must be declared after the queues, so that it is dropped after them.
    base: AdapterBase,
}

/// The open ring pairs of one side: NIC or host.
#[derive(Debug)]
struct LiveQueues {
    /// Must be declared before the queues, so that its thread ends before they are dropped.
    _poller: NicPoller,
    queues: Arc<Vec<NicQueue>>,
    monitor_minder: Arc<MonitorForwarder>,
    /// Whether the interface uses a generic XDP program. Such a program would also catch the frames
    /// that host rings send to the host.
    is_generic_xdp: bool,
    /// The number of bytes of a buffer that are free if the payload has its maximum length. Slot
    /// offsets can be at most this. `u32::MAX` if the length of payloads is not limited.
    slack_bytes: u32,
}

impl LiveQueues {
    fn slots(&self) -> [u32; 2] {
        let first = self.queues.first();
        TxRx::BOTH.map(|dir| first.map_or(0, |one| one.views[dir as usize].num_slots()))
    }
}

/// One ring pair of either side, and the queue that serves it.
pub(crate) struct NicQueue {
    pub(crate) driver: Mutex<Box<dyn Queue>>,
    pub(crate) views: [RingView; 2],
    pub(crate) listeners: [Listeners; 2],
    /// Set when the interface or card is gone, because a driver does not report this at every sync.
    vanished: AtomicBool,
    /// The monitors of all ring pairs of the port.
    monitor_taps: Arc<MonitorTaps>,
    number: usize,
    /// Index of the first tx slot that was not yet copied to monitors. Accessed only under the
    /// driver's lock.
    tx_observed: AtomicU32,
    /// Id of the program that syncs this pair in its own process; 0 if no program does.
    pub(crate) holder: AtomicU32,
}

impl std::fmt::Debug for NicQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NicQueue").field("views", &self.views).finish_non_exhaustive()
    }
}

impl NicQueue {
    fn new(mut driver: Box<dyn Queue>, monitor_taps: Arc<MonitorTaps>, number: usize) -> Self {
        let rings = driver.rings();
        let views = [rings.tx.view(), rings.rx.view()];
        let tx_observed = AtomicU32::new(views[0].head());
        Self {
            driver: Mutex::new(driver),
            views,
            listeners: Default::default(),
            vanished: AtomicBool::new(false),
            monitor_taps,
            number,
            tx_observed,
            holder: AtomicU32::new(0),
        }
    }

    /// Copies to the monitors the frames that the next sync will send. The program waits meanwhile.
    fn observe_tx(&self) {
        let view = &self.views[TxRx::Tx as usize];
        let (from, head, n) =
            (self.tx_observed.load(Ordering::Relaxed), view.head(), view.num_slots());
        // With invalid indices, there are no frames to copy. The sync will reinitialise the ring.
        if head >= n || from >= n {
            return;
        }
        let to =
            if self.monitor_taps.has_monitors() { whole_frames(view, from, head) } else { head };
        self.monitor_taps.observe(TxRx::Tx, self.number, view, from, to);
        self.tx_observed.store(to, Ordering::Relaxed);
    }

    /// Must be called after a monitor was added or removed. Updates whether programs may sync rings
    /// in their own processes.
    pub(crate) fn monitors_changed(&self) {
        let start = Instant::now();
        loop {
            let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
            let lent = self.holder.load(Ordering::Acquire) != 0;
            let Some(lender) = driver.lender().filter(|_| lent) else { return };
            let free = lender.set_host_only(self.monitor_taps.has_monitors());
            // Monitors do not see what the program sent while it synced the rings itself.
            self.tx_observed.store(self.views[TxRx::Tx as usize].hwcur(), Ordering::Relaxed);
            if free || start.elapsed() > SYNC_DRAIN_TIMEOUT {
                return;
            }
        }
    }

    /// Returns what a program needs to sync those rings of this pair that it has bound.
    pub(crate) fn lend(&self, rings: &[Range<usize>; 2]) -> Result<QueueDelegation, Errno> {
        let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        let lender = driver.lender().ok_or(Errno::OPNOTSUPP)?;
        let lent = lender.lend(self.holder.load(Ordering::Acquire)).ok_or(Errno::OPNOTSUPP)?;
        if self.monitor_taps.has_monitors() {
            lender.set_host_only(true);
        }
        let layout_of = |dir: TxRx| {
            let bound = rings[dir as usize].contains(&self.number);
            if bound { self.views[dir as usize].offset() } else { 0 }
        };
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        let layout = DelegatedQueueLayout {
            words: lent.words,
            tx: layout_of(TxRx::Tx),
            rx: layout_of(TxRx::Rx),
            num_slots: self.views[0].num_slots(),
            cells: lent.cells,
            max_slot_len: lent.max_slot_len,
            bufs: self.views[0].region().num_bufs(),
            flags: flag(lent.software, DELEGATED_SOFTWARE)
                | flag(lent.zero_copy, DELEGATED_ZERO_COPY),
        };
        Ok(QueueDelegation { socket: lent.socket, layout })
    }

    fn sync(&self, dir: TxRx) -> SyncStatus {
        if self.vanished.load(Ordering::Relaxed) {
            return SyncStatus::Gone;
        }
        // This waits for the lock: both directions share it, and a sync is short.
        let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        // Monitors do not see what the program received while it synced the rings itself.
        driver.catch_up();
        let tail = self.views[TxRx::Rx as usize].tail();
        self.monitor_taps.observe_releases(dir, self.number, &self.views[TxRx::Rx as usize]);
        // An interface that has just come up sends its queued frames at any sync.
        if dir == TxRx::Tx || driver.is_link_down() {
            self.observe_tx();
        }
        let done = match dir {
            TxRx::Tx => driver.tx_sync(),
            TxRx::Rx => driver.rx_sync(),
        };
        if dir == TxRx::Rx && done.is_ok() {
            self.monitor_taps.observe_arrivals(self.number, &self.views[TxRx::Rx as usize], tail);
        }
        match done {
            Ok(()) => SyncStatus::Done,
            Err(RunError { cause: RunCause::Ring(SyncFault::Reinit(_)), .. }) => {
                let head = self.views[TxRx::Tx as usize].head();
                self.tx_observed.store(head, Ordering::Relaxed);
                SyncStatus::Reinit
            }
            Err(error) => {
                // If the error is not final, the interface may have come up again by the next sync.
                self.vanished.fetch_or(error.cause.is_final(), Ordering::Relaxed);
                SyncStatus::Gone
            }
        }
    }
}

/// Returns the index after the last complete frame in the slots `from..to`.
fn whole_frames(view: &RingView, from: u32, to: u32) -> u32 {
    let before = |i: u32| if i == 0 { view.num_slots() - 1 } else { i - 1 };
    let mut end = to;
    while end != from && view.slot(before(end)).flags.has(SlotFlags::MOREFRAG) {
        end = before(end);
    }
    end
}

impl Nic {
    pub(crate) fn new(
        name: PortName,
        index: Option<u32>,
        netns: Arc<OwnedFd>,
        options: OpenOptions,
        sides: NicRingCounts,
        memory: Arc<NetmapMemory>,
    ) -> Self {
        let NicRingCounts { nic, host } = sides;
        let expected =
            AdapterShape { rings: [nic; 2], host_rings: host, slots: [options.slots; 2] };
        let display_name = name.request_name().unwrap_or_else(|| name.name.clone());
        let monitor_taps = Arc::default();
        Self {
            base: AdapterBase::new(display_name, &expected, memory)
                .with_monitor_taps(&monitor_taps),
            name,
            index,
            netns,
            options,
            expected,
            monitor_taps,
            opening: Mutex::default(),
            nic: OnceLock::new(),
            host: OnceLock::new(),
        }
    }

    fn open(&self, rings: RingSelection, options: &OpenOptions) -> Result<LiveQueues, Errno> {
        let mut name = self.name.clone();
        name.rings = rings;
        let open = || Host::new().open_in(&name, self.base.memory().region(), options);
        let port = in_netns(&self.netns, open).ok_or(Errno::NXIO)?;
        let port = port.map_err(|error| errno(&error))?;
        let in_stack = port.info.mode.get("mode").is_some_and(|mode| mode == "generic");
        let info = &port.info;
        let spare = match info.kind {
            "xdp" | "host" | "vfio" => {
                self.base.memory().region().buf_size().saturating_sub(info.caps.max_slot)
            }
            _ => u32::MAX,
        };
        let first =
            if rings == RingSelection::Host { usize::from(self.shape().rings[0]) } else { 0 };
        let numbered = port.queues.into_iter().zip(first..);
        let queue = |(driver, number)| NicQueue::new(driver, self.monitor_taps.clone(), number);
        let queues = Arc::new(numbered.map(queue).collect::<Vec<_>>());
        let poller = NicPoller::start(queues.clone()).map_err(|_| Errno::NOMEM)?;
        let minder = Arc::new(MonitorForwarder(queues.clone()));
        Ok(LiveQueues {
            _poller: poller,
            queues,
            monitor_minder: minder,
            is_generic_xdp: in_stack,
            slack_bytes: spare,
        })
    }

    /// Takes over the rings of a previous process for each side that the process had opened.
    /// Returns whether that succeeded.
    pub(crate) fn resume(&self, rings: &[Vec<Option<RingView>>; 2]) -> bool {
        let nic_rings = usize::from(self.expected.rings[0]);
        let ring = |dir: TxRx, i: usize| rings[dir as usize].get(i).cloned().flatten();
        // `None` if a tx ring has no rx ring or the reverse. A previous process never leaves such
        // rings.
        let pairs = |range: Range<usize>| {
            let pairs = range.filter_map(|i| match (ring(TxRx::Tx, i), ring(TxRx::Rx, i)) {
                (None, None) => None,
                (tx, rx) => Some(tx.zip(rx).map(|(tx, rx)| [tx, rx])),
            });
            pairs.collect::<Option<Vec<_>>>()
        };
        let all = self.expected.all(TxRx::Tx).max(self.expected.all(TxRx::Rx));
        let (Some(nic), Some(host)) = (pairs(0..nic_rings), pairs(nic_rings..all)) else {
            return false;
        };
        // The port keeps its interface, even if the access rules have changed since it was opened.
        let options = OpenOptions { take_over: true, ..self.options.clone() };
        let nic_options =
            OpenOptions { uses_host_rings: !host.is_empty(), rings: nic, ..options.clone() };
        let host_options = OpenOptions { rings: host, ..options };
        // Removes the veth pair that the previous process used for its host rings.
        let _ = in_netns(&self.netns, slipring_port::host::remove_stale);
        self.reopen(&self.nic, self.name.rings, &nic_options)
            && self.reopen(&self.host, RingSelection::Host, &host_options)
    }

    /// Opens one side with the rings of a previous process, if that process had opened the side.
    fn reopen(
        &self,
        side: &OnceLock<LiveQueues>,
        rings: RingSelection,
        options: &OpenOptions,
    ) -> bool {
        if options.rings.is_empty() {
            return true;
        }
        // The kernel frees the queues of a killed process a moment after its end. It does not
        // report when, so this tries repeatedly.
        let mut tries = 0..MAX_BUSY_RETRIES;
        let live = loop {
            match self.open(rings, options) {
                Err(Errno::BUSY) if tries.next().is_some() => thread::sleep(BUSY_RETRY_DELAY),
                opened => break opened,
            }
        };
        let same = live.ok().filter(|live| live.queues.len() == options.rings.len());
        same.is_some_and(|live| side.set(live).is_ok())
    }

    /// Takes the interface from the host. If host rings are open, or are opened next
    /// (`beside_host`), generic XDP is refused, because it would also catch what these rings send.
    fn open_nic(&self, beside_host: bool) -> Result<(), Errno> {
        if let Some(nic) = self.nic.get() {
            return if beside_host && nic.is_generic_xdp { Err(Errno::BUSY) } else { Ok(()) };
        }
        let beside_host = beside_host || self.host.get().is_some();
        let options = OpenOptions { uses_host_rings: beside_host, ..self.options.clone() };
        let live = self.open(self.name.rings, &options)?;
        // The indices of host rings follow those of the NIC rings. So while host rings are open,
        // the number of NIC rings must be as expected.
        if self.host.get().is_some() && live.queues.len() != usize::from(self.expected.rings[0]) {
            return Err(Errno::INVAL);
        }
        // The lock is held, so no other thread has set the value since it was checked.
        let _ = self.nic.set(live);
        Ok(())
    }

    /// Returns whether host rings may be taken. Taking them from the interface of the default route
    /// would cut off the host.
    fn allows_host(&self) -> bool {
        let leads_out = || Iface::find(&self.name.name).is_ok_and(|iface| iface.default_route());
        self.options.take_over || in_netns(&self.netns, leads_out) == Some(false)
    }

    /// Opens the host's side, unless it is open already.
    fn open_host(&self) -> Result<(), Errno> {
        if self.host.get().is_some() {
            return Ok(());
        }
        if self.nic.get().is_some_and(|nic| nic.is_generic_xdp) || !self.allows_host() {
            return Err(Errno::BUSY);
        }
        let live = self.open(RingSelection::Host, &self.options)?;
        // The lock is held, so no other thread has set the value since it was checked.
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
    /// Removes the host's side. This must happen in the interface's network namespace, which
    /// contains its veth pair.
    fn drop(&mut self) {
        if let Some(host) = self.host.take() {
            // If the namespace cannot be entered, it and its veth pair no longer exist.
            let _ = in_netns(&self.netns, move || drop(host));
        }
    }
}

/// Returns netmap's error number for an error.
fn errno(error: &OpenError) -> Errno {
    match &*error.cause {
        OpenCause::NoInterface { .. } => Errno::NXIO,
        OpenCause::Busy { .. } | OpenCause::CardBusy { .. } | OpenCause::DefaultRoute { .. } => {
            Errno::BUSY
        }
        OpenCause::Region(_) | OpenCause::LockedMemory { .. } => Errno::NOMEM,
        OpenCause::Privilege { .. } | OpenCause::ClosedNode { .. } => Errno::PERM,
        OpenCause::Down { .. } => Errno::NETDOWN,
        OpenCause::File { source, .. } => Errno::from_io_error(source).unwrap_or(Errno::INVAL),
        _ => Errno::INVAL,
    }
}

impl Adapter for Nic {
    fn base(&self) -> &AdapterBase {
        &self.base
    }

    fn shape(&self) -> AdapterShape {
        let live = self.nic.get().or(self.host.get());
        let rings = self.nic.get().map_or(self.expected.rings, |nic| [nic.queues.len() as u16; 2]);
        let slots = live.map_or(self.expected.slots, LiveQueues::slots);
        AdapterShape { rings, slots, ..self.expected }
    }

    fn activate(&self, mode: u32) -> Result<(), Errno> {
        let _one_opener = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        match mode {
            NR_REG_SW | NR_REG_ONE_SW => self.open_host(),
            NR_REG_NIC_SW => self.open_nic(true).and_then(|()| self.open_host()),
            _ => self.open_nic(false),
        }
    }

    fn ring(&self, dir: TxRx, i: usize) -> Option<&RingView> {
        self.queue(i).map(|queue| &queue.views[dir as usize])
    }

    fn sync(&self, dir: TxRx, i: usize) -> SyncStatus {
        self.queue(i).map_or(SyncStatus::Gone, |queue| queue.sync(dir))
    }

    fn has_vanished(&self) -> bool {
        let sides = [&self.nic, &self.host].into_iter().filter_map(OnceLock::get);
        let mut queues = sides.flat_map(|side| side.queues.iter());
        queues.any(|queue| queue.vanished.load(Ordering::Relaxed))
    }

    fn is_stale(&self) -> bool {
        let find = || Iface::find(&self.name.name).map(|iface| iface.index);
        self.has_vanished()
            || self.index.is_some_and(|index| match in_netns(&self.netns, find) {
                Some(Ok(now)) => now != index,
                Some(Err(OpenCause::NoInterface { .. })) => true,
                // If the state cannot be determined, the interface is assumed to exist.
                _ => false,
            })
    }

    fn counters(&self) -> Option<AdapterCounters> {
        let side = self.nic.get().or(self.host.get())?;
        let mut sum = QueueSnapshot::default();
        for queue in side.queues.iter() {
            let mut driver = queue.driver.lock().unwrap_or_else(PoisonError::into_inner);
            driver.update_stats();
            sum += driver.counters().snapshot();
        }
        let drops = sum.drops().map(|(cause, count)| (cause.name(), count)).collect();
        Some(AdapterCounters { received: sum.rx.packets, sent: sum.tx.packets, drops })
    }

    fn offset_limits(&self) -> Option<OffsetLimits> {
        let sides = [&self.nic, &self.host].into_iter().filter_map(OnceLock::get);
        let max = sides.map(|side| side.slack_bytes).min().unwrap_or(u32::MAX);
        Some(OffsetLimits { max, ..OffsetLimits::ANY })
    }

    fn as_delegating(&self) -> Option<&dyn DelegatingPort> {
        Some(self)
    }

    fn listeners(&self, dir: TxRx, i: usize) -> Option<&Listeners> {
        self.queue(i).map(|queue| &queue.listeners[dir as usize])
    }
}

impl DelegatingPort for Nic {
    fn lend_queues(
        &self,
        rings: &[Range<usize>; 2],
        client_id: u32,
    ) -> Result<(Vec<QueueDelegation>, DelegationGuard), Errno> {
        let live = self.nic.get().ok_or(Errno::OPNOTSUPP)?;
        // Host rings cannot be lent, because this process must sync them.
        if rings.iter().any(|rings| rings.end > live.queues.len()) {
            return Err(Errno::OPNOTSUPP);
        }
        let watcher: Arc<dyn MonitorListener> = live.monitor_minder.clone();
        self.monitor_taps.set_observer(Arc::downgrade(&watcher));
        let (lent, loan) = QueueLoans::lend(&live.queues, rings, client_id)?;
        Ok((lent, Box::new(loan)))
    }
}
