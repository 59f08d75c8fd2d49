//! One interface as a port that several clients can bind.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use slipring_abi::name::{PortName, Rings};
use slipring_abi::{
    LENT_SOFTWARE, LENT_ZERO_COPY, LentQueue, NR_REG_NIC_SW, NR_REG_ONE_SW, NR_REG_SW,
};
use slipring_core::Host;
use slipring_netmap::{
    Adapter, Claims, Dir, Errno, Figures, Listeners, Loan, Memory, QueueLent, Shape, Synced, Taps,
    Watched,
};
use slipring_port::iface::Iface;
use slipring_port::{OpenCause, OpenError, OpenOptions, Queue, RunCause, Snapshot};
use slipring_ring::{RingView, SlotFlags, SyncFault};

use crate::loan::{Loans, Minder};
use crate::pump::Pump;
use crate::within;

/// How often, and after how long, what a killed process had is asked for again.
const BUSY_TRIES: u32 = 200;
const BUSY_PAUSE: Duration = Duration::from_millis(5);
/// How long a monitor's opener waits for a program that is just syncing; more than a sync takes.
const FINISH: Duration = Duration::from_millis(1);

/// Rings of the two sides of a port; the NIC has pairs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sides {
    pub(crate) nic: u16,
    /// Rings that lead to the host, and those that come from it.
    pub(crate) host: [u16; 2],
}

impl Sides {
    /// What the host has nothing of.
    pub(crate) fn one(nic: u16) -> Self {
        Self { nic, host: [0; 2] }
    }
}

/// The port. Each of its two sides is taken with its first bind.
#[derive(Debug)]
pub(crate) struct Nic {
    shown: String,
    name: PortName,
    /// The kernel's number of the interface, which stays while it is there; a guest has none.
    index: Option<u32>,
    netns: Arc<OwnedFd>,
    options: OpenOptions,
    expected: Shape,
    claims: Arc<Claims>,
    taps: Arc<Taps>,
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
    minder: Arc<Minder>,
    /// An XDP program in the stack has it, which would see what is sent to the host.
    in_stack: bool,
    /// What is left of a buffer beside the longest payload of a slot, where one is not cut to fit.
    spare: u32,
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
    /// Who else sees its frames, and the number of its rings.
    taps: Arc<Taps>,
    number: usize,
    /// First slot of the tx ring that nobody was shown. Belongs to whoever has the driver.
    tx_seen: AtomicU32,
    /// The program that syncs it in its own process, too; 0 for none.
    pub(crate) holder: AtomicU32,
}

impl std::fmt::Debug for NicQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NicQueue").field("views", &self.views).finish_non_exhaustive()
    }
}

impl NicQueue {
    fn new(mut driver: Box<dyn Queue>, taps: Arc<Taps>, number: usize) -> Self {
        let rings = driver.rings();
        let views = [rings.tx.view(), rings.rx.view()];
        let tx_seen = AtomicU32::new(views[0].head());
        Self {
            driver: Mutex::new(driver),
            views,
            listeners: Default::default(),
            vanished: AtomicBool::new(false),
            taps,
            number,
            tx_seen,
            holder: AtomicU32::new(0),
        }
    }

    /// Shows what the next sync sends: a program stands still in its own call meanwhile.
    fn show_tx(&self) {
        let view = &self.views[Dir::Tx as usize];
        let (from, head, n) = (self.tx_seen.load(Ordering::Relaxed), view.head(), view.num_slots());
        // Impossible indices: the ring is about to be reinitialised.
        if head >= n || from >= n {
            return;
        }
        let to = if self.taps.is_any() { whole_frames(view, from, head) } else { head };
        self.taps.see(Dir::Tx, self.number, view, from, to);
        self.tx_seen.store(to, Ordering::Relaxed);
    }

    /// A monitor came or went.
    pub(crate) fn watched(&self) {
        let start = Instant::now();
        loop {
            let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
            let lent = self.holder.load(Ordering::Acquire) != 0;
            let Some(lender) = driver.lender().filter(|_| lent) else { return };
            let free = lender.keep_to_host(self.taps.is_any());
            // What the program has sent itself was nobody's to see.
            self.tx_seen.store(self.views[Dir::Tx as usize].hwcur(), Ordering::Relaxed);
            if free || start.elapsed() > FINISH {
                return;
            }
        }
    }

    /// What a program needs to sync it, of the rings that it has bound.
    pub(crate) fn lend(&self, rings: &[Range<usize>; 2]) -> Result<QueueLent, Errno> {
        let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        let lender = driver.lender().ok_or(Errno::OPNOTSUPP)?;
        let lent = lender.lend(self.holder.load(Ordering::Acquire)).ok_or(Errno::OPNOTSUPP)?;
        if self.taps.is_any() {
            lender.keep_to_host(true);
        }
        let place = |dir: Dir| {
            let bound = rings[dir as usize].contains(&self.number);
            if bound { self.views[dir as usize].offset() } else { 0 }
        };
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        let layout = LentQueue {
            words: lent.words,
            tx: place(Dir::Tx),
            rx: place(Dir::Rx),
            num_slots: self.views[0].num_slots(),
            cells: lent.cells,
            longest: lent.longest,
            bufs: self.views[0].region().num_bufs(),
            flags: flag(lent.software, LENT_SOFTWARE) | flag(lent.zero_copy, LENT_ZERO_COPY),
        };
        Ok(QueueLent { socket: lent.socket, layout })
    }

    fn sync(&self, dir: Dir) -> Synced {
        if self.vanished.load(Ordering::Relaxed) {
            return Synced::Gone;
        }
        // Waited for, not skipped: both directions share this lock, and a sync is short.
        let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        // What a program has found itself is not shown.
        driver.catch_up();
        let tail = self.views[Dir::Rx as usize].tail();
        self.taps.see_releases(dir, self.number, &self.views[Dir::Rx as usize]);
        // An interface that has come up sends what waits for it at any sync.
        if dir == Dir::Tx || driver.is_link_down() {
            self.show_tx();
        }
        let done = match dir {
            Dir::Tx => driver.tx_sync(),
            Dir::Rx => driver.rx_sync(),
        };
        if dir == Dir::Rx && done.is_ok() {
            self.taps.see_arrivals(self.number, &self.views[Dir::Rx as usize], tail);
        }
        match done {
            Ok(()) => Synced::Done,
            Err(error) => match error.cause {
                RunCause::Ring(SyncFault::Reinit(_)) => {
                    let head = self.views[Dir::Tx as usize].head();
                    self.tx_seen.store(head, Ordering::Relaxed);
                    Synced::Reinit
                }
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

/// The end of the last whole frame in the slots `from..to`.
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
        sides: Sides,
        memory: Arc<Memory>,
    ) -> Self {
        let Sides { nic, host } = sides;
        let expected = Shape { rings: [nic; 2], host_rings: host, slots: [options.slots; 2] };
        Self {
            shown: name.request_name().unwrap_or_else(|| name.name.clone()),
            name,
            index,
            netns,
            options,
            expected,
            claims: Claims::new(&expected),
            taps: Arc::default(),
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
        let info = &port.info;
        let spare = match info.kind {
            "xdp" | "host" => self.memory.region().buf_size().saturating_sub(info.caps.max_slot),
            _ => u32::MAX,
        };
        let first = if rings == Rings::Host { usize::from(self.shape().rings[0]) } else { 0 };
        let numbered = port.queues.into_iter().zip(first..);
        let queue = |(driver, number)| NicQueue::new(driver, self.taps.clone(), number);
        let queues = Arc::new(numbered.map(queue).collect::<Vec<_>>());
        let pump = Pump::start(queues.clone()).map_err(|_| Errno::NOMEM)?;
        let minder = Arc::new(Minder(queues.clone()));
        Ok(Live { _pump: pump, queues, minder, in_stack, spare })
    }

    /// Goes on with rings of a process that is no more, of the sides that it had taken; whether that
    /// could be.
    pub(crate) fn resume(&self, rings: &[Vec<Option<RingView>>; 2]) -> bool {
        let nic_rings = usize::from(self.expected.rings[0]);
        let ring = |dir: Dir, i: usize| rings[dir as usize].get(i).cloned().flatten();
        // `None` where a ring lacks its other half, which nothing here leaves so.
        let pairs = |range: Range<usize>| {
            let pairs = range.filter_map(|i| match (ring(Dir::Tx, i), ring(Dir::Rx, i)) {
                (None, None) => None,
                (tx, rx) => Some(tx.zip(rx).map(|(tx, rx)| [tx, rx])),
            });
            pairs.collect::<Option<Vec<_>>>()
        };
        let all = self.expected.all(Dir::Tx).max(self.expected.all(Dir::Rx));
        let (Some(nic), Some(host)) = (pairs(0..nic_rings), pairs(nic_rings..all)) else {
            return false;
        };
        // It may have what it had, though rules may say otherwise by now.
        let options = OpenOptions { take_over: true, ..self.options.clone() };
        let nic_options =
            OpenOptions { beside_host: !host.is_empty(), rings: nic, ..options.clone() };
        let host_options = OpenOptions { rings: host, ..options };
        // The way to the host that the other process had.
        let _ = within(&self.netns, slipring_port::host::remove_stale);
        self.reopen(&self.nic, self.name.rings, &nic_options)
            && self.reopen(&self.host, Rings::Host, &host_options)
    }

    /// Opens a side with the rings that the options have, if they have any.
    fn reopen(&self, side: &OnceLock<Live>, rings: Rings, options: &OpenOptions) -> bool {
        if options.rings.is_empty() {
            return true;
        }
        // The kernel lets go of a killed process's queues a moment after its end, and does not say
        // when.
        let mut tries = 0..BUSY_TRIES;
        let live = loop {
            match self.open(rings, options) {
                Err(Errno::BUSY) if tries.next().is_some() => thread::sleep(BUSY_PAUSE),
                opened => break opened,
            }
        };
        let same = live.ok().filter(|live| live.queues.len() == options.rings.len());
        same.is_some_and(|live| side.set(live).is_ok())
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

    /// Without what it sends by the default route the host is cut off.
    fn may_have_host(&self) -> bool {
        let leads_out = || Iface::find(&self.name.name).is_ok_and(|iface| iface.default_route());
        self.options.take_over || within(&self.netns, leads_out) == Some(false)
    }

    /// Takes the host's side.
    fn take_host(&self) -> Result<(), Errno> {
        if self.host.get().is_some() {
            return Ok(());
        }
        if self.nic.get().is_some_and(|nic| nic.in_stack) || !self.may_have_host() {
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
    match &*error.cause {
        OpenCause::NoInterface { .. } => Errno::NXIO,
        OpenCause::Busy { .. } | OpenCause::DefaultRoute { .. } => Errno::BUSY,
        OpenCause::Region(_) | OpenCause::LockedMemory { .. } => Errno::NOMEM,
        OpenCause::Privilege { .. } | OpenCause::ClosedNode { .. } => Errno::PERM,
        OpenCause::Down { .. } => Errno::NETDOWN,
        OpenCause::File { source, .. } => Errno::from_io_error(source).unwrap_or(Errno::INVAL),
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

    fn lend_queues(
        &self,
        rings: &[Range<usize>; 2],
        who: u32,
    ) -> Result<(Vec<QueueLent>, Loan), Errno> {
        let live = self.nic.get().ok_or(Errno::OPNOTSUPP)?;
        // Those of the host are synced here.
        if rings.iter().any(|rings| rings.end > live.queues.len()) {
            return Err(Errno::OPNOTSUPP);
        }
        let watcher: Arc<dyn Watched> = live.minder.clone();
        self.taps.tell(Arc::downgrade(&watcher));
        let (lent, loan) = Loans::make(&live.queues, rings, who)?;
        Ok((lent, Box::new(loan)))
    }

    fn has_vanished(&self) -> bool {
        let sides = [&self.nic, &self.host].into_iter().filter_map(OnceLock::get);
        let mut queues = sides.flat_map(|side| side.queues.iter());
        queues.any(|queue| queue.vanished.load(Ordering::Relaxed))
    }

    fn is_stale(&self) -> bool {
        let find = || Iface::find(&self.name.name).map(|iface| iface.index);
        self.has_vanished()
            || self.index.is_some_and(|index| match within(&self.netns, find) {
                Some(Ok(now)) => now != index,
                Some(Err(OpenCause::NoInterface { .. })) => true,
                // Not known: what is bound may well be there.
                _ => false,
            })
    }

    fn figures(&self) -> Option<Figures> {
        let side = self.nic.get().or(self.host.get())?;
        let mut sum = Snapshot::default();
        for queue in side.queues.iter() {
            let mut driver = queue.driver.lock().unwrap_or_else(PoisonError::into_inner);
            driver.update_stats();
            sum += driver.counters().snapshot();
        }
        let drops = sum.drops().map(|(cause, count)| (cause.name(), count)).collect();
        Some(Figures { received: sum.rx.packets, sent: sum.tx.packets, drops })
    }

    fn has_offsets(&self) -> bool {
        true
    }

    fn max_offset(&self) -> u32 {
        let sides = [&self.nic, &self.host].into_iter().filter_map(OnceLock::get);
        sides.map(|side| side.spare).min().unwrap_or(u32::MAX)
    }

    fn taps(&self) -> Option<&Arc<Taps>> {
        Some(&self.taps)
    }

    fn listeners(&self, dir: Dir, i: usize) -> Option<&Listeners> {
        self.queue(i).map(|queue| &queue.listeners[dir as usize])
    }
}
