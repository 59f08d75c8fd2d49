//! An interface attached to a switch, with or without its host stack.
//!
//! The interface is bound exclusively. A worker thread takes the role of a program: it sleeps until
//! frames arrive, passes them to the switch, and gives the slots back. With `VALE_POLLING_ENABLE`,
//! several workers may do this, without sleeping. Senders put frames for the interface directly
//! into its tx rings. If a worker finds that the interface has vanished, it detaches the interface.

mod restart;

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::io::Errno;
use rustix::thread::CpuSet;
use slipring_abi::{NR_EXCLUSIVE, NmreqRegister};
use slipring_ring::{RingView, SlotIdx};
use slipring_switch::{SwitchBatch, SwitchPortId};

use crate::port::adapter::Adapter;
use crate::port::binding::Binding;
use crate::port::vale::bridge::{Bridge, BridgeAttachment, BridgePort};
use crate::port::vale::destination_ring::DestinationRing;
use crate::port::vale::frames::SyncFrames;
use crate::port::waker::{Notify, Ticker, Waker};
use crate::types::lock::lock;
use crate::types::outcome::SyncStatus;
use crate::types::port_name::PortKey;
use crate::types::shape::TxRx;

/// An attached interface. Dropping the value detaches and releases the interface.
#[derive(Debug)]
pub(crate) struct NicAttachment {
    workers: Mutex<NicWorkers>,
    attached: Arc<AttachedNic>,
}

/// The workers that serve the rx rings.
#[derive(Debug)]
enum NicWorkers {
    /// One worker, which sleeps while no frames arrive.
    Sleeping { all: NicWorker },
    /// Workers that poll the rings of the NIC without sleeping, and a worker that sleeps until
    /// frames arrive on the rings of the host.
    Polling { nic: Vec<NicWorker>, host: Option<NicWorker>, plan: PollingPlan },
    /// No workers: before the first worker starts, and while workers are being replaced.
    None,
}

/// The state that the workers of an attachment share.
#[derive(Debug)]
struct AttachedNic {
    nic: BridgeAttachment,
    host: Option<BridgeAttachment>,
    binding: Binding,
    /// Number of the NIC's rx rings; the rx rings of the host follow them.
    nic_rings: usize,
    owner: AttachmentOwner,
}

/// Identifies an attachment, and holds the handler that is called when its interface vanishes.
#[derive(Debug)]
pub(crate) struct AttachmentOwner {
    pub(crate) key: PortKey,
    pub(crate) handler: Arc<dyn NicVanishedHandler>,
}

/// Detaches an interface that has vanished.
pub(crate) trait NicVanishedHandler: Send + Sync + Debug {
    /// Called when the interface attached as `key` has vanished. Drops the attachment with this
    /// name if `is_current` returns true for it; a later attachment may have the same name.
    fn nic_vanished(&self, key: &PortKey, is_current: &dyn Fn(&NicAttachment) -> bool);
}

/// Which rings are polled, and on which processors.
#[derive(Debug, Clone)]
pub(crate) struct PollingPlan {
    /// For each worker: its processor and its rings.
    pub(crate) workers: Vec<(usize, Range<usize>)>,
}

impl NicAttachment {
    /// Binds the interface exclusively, and otherwise as `register` says, and attaches it under the
    /// name in the key of `owner`. Its host stack, if included, becomes the port `NAME^`.
    pub(crate) fn new(
        hub: &Arc<Bridge>,
        owner: AttachmentOwner,
        nic: Arc<dyn Adapter>,
        register: &NmreqRegister,
        ticker: &Arc<Ticker>,
    ) -> Result<Self, Errno> {
        let register = NmreqRegister { nr_flags: register.nr_flags | NR_EXCLUSIVE, ..*register };
        let binding = Binding::new(nic.clone(), &register, None, &Self::idle_waker(ticker))?;
        Self::attach(owner, &nic, binding, ticker, |name, member| hub.attach(name, member))
    }

    /// Returns a waker for the binding. It is never armed, because the workers register wakers of
    /// their own.
    fn idle_waker(ticker: &Arc<Ticker>) -> Arc<Waker> {
        Waker::new(Arc::new(WorkerBell::default()), ticker.clone())
    }

    /// Attaches a bound interface. Calls the parameter `attach` for the NIC's port with its name,
    /// and then for the host's port if the host is included.
    fn attach(
        owner: AttachmentOwner,
        nic: &Arc<dyn Adapter>,
        binding: Binding,
        ticker: &Arc<Ticker>,
        mut attach: impl FnMut(&str, Arc<BridgePort>) -> Result<BridgeAttachment, Errno>,
    ) -> Result<Self, Errno> {
        let (shape, rings) = (nic.shape(), binding.rings.clone());
        let count = |dir: TxRx| usize::from(shape.rings[dir as usize]);
        let tx =
            |range: Range<usize>| range.filter_map(|i| DestinationRing::of_nic(nic, i)).collect();
        let mut plug = |name: &str, outlets: Vec<DestinationRing>| {
            if outlets.is_empty() {
                return Err(Errno::INVAL);
            }
            attach(name, BridgePort::new(outlets, 0, nic.monitor_taps().cloned()))
        };
        let (nic_tx, name) = (count(TxRx::Tx), owner.key.1.clone());
        let host = rings[TxRx::Rx as usize].end > count(TxRx::Rx);
        let plugged = AttachedNic {
            nic: plug(&name, tx(0..nic_tx))?,
            host: match host {
                true => Some(plug(&format!("{name}^"), tx(nic_tx..rings[TxRx::Tx as usize].end))?),
                false => None,
            },
            binding,
            nic_rings: count(TxRx::Rx),
            owner,
        };
        let plugged = Arc::new(plugged);
        let attachment = Self { workers: Mutex::new(NicWorkers::None), attached: plugged };
        let worker = attachment.create_sleeping_worker(ticker)?;
        lock(&attachment.workers).replace(worker);
        Ok(attachment)
    }

    pub(crate) fn nic(&self) -> &Arc<dyn Adapter> {
        &self.attached.binding.port
    }

    pub(crate) fn bridge(&self) -> &Arc<Bridge> {
        &self.attached.nic.bridge
    }

    pub(crate) fn id(&self) -> SwitchPortId {
        self.attached.nic.id
    }

    pub(crate) fn rx_rings(&self) -> usize {
        self.attached.nic_rings
    }

    pub(crate) fn is_polled(&self) -> bool {
        matches!(*lock(&self.workers), NicWorkers::Polling { .. })
    }

    /// Replaces the workers: from now on, workers poll the NIC's rings without sleeping. After an
    /// error the workers are as before.
    pub(crate) fn poll(&self, polling: &PollingPlan, ticker: &Arc<Ticker>) -> Result<(), Errno> {
        let mut workers = lock(&self.workers);
        let nic = polling
            .workers
            .iter()
            .map(|(cpu, rings)| self.create_worker(rings.clone(), Some(*cpu), ticker));
        let nic = nic.collect::<Result<_, _>>()?;
        let all = self.attached.binding.rings[TxRx::Rx as usize].clone();
        let host = self.attached.nic_rings..all.end;
        let host = match host.is_empty() {
            true => None,
            false => Some(self.create_worker(host, None, ticker)?),
        };
        workers.replace(NicWorkers::Polling { nic, host, plan: polling.clone() });
        Ok(())
    }

    /// Replaces the polling workers by one worker that sleeps. After an error the workers are as
    /// before.
    pub(crate) fn stop_polling(&self, ticker: &Arc<Ticker>) -> Result<(), Errno> {
        let mut workers = lock(&self.workers);
        let worker = self.create_sleeping_worker(ticker)?;
        workers.replace(worker);
        Ok(())
    }

    fn create_sleeping_worker(&self, ticker: &Arc<Ticker>) -> Result<NicWorkers, Errno> {
        let all = self.attached.binding.rings[TxRx::Rx as usize].clone();
        Ok(NicWorkers::Sleeping { all: self.create_worker(all, None, ticker)? })
    }

    fn create_worker(
        &self,
        rings: Range<usize>,
        cpu: Option<usize>,
        ticker: &Arc<Ticker>,
    ) -> Result<NicWorker, Errno> {
        NicWorker::new(self.attached.clone(), rings, cpu, ticker)
    }
}

impl NicWorkers {
    /// Stops these workers, and starts others in their place. No two workers serve a ring at the
    /// same time.
    fn replace(&mut self, others: Self) {
        *self = Self::None;
        match &others {
            Self::Sleeping { all } => all.start(),
            Self::Polling { nic, host, .. } => nic.iter().chain(host).for_each(NicWorker::start),
            Self::None => {}
        }
        *self = others;
    }
}

/// A worker thread; dropping the value stops the thread and waits for its end.
#[derive(Debug)]
struct NicWorker {
    bell: Arc<WorkerBell>,
    waker: Arc<Waker>,
    attached: Arc<AttachedNic>,
    rings: Range<usize>,
    thread: Option<JoinHandle<()>>,
}

/// Wakes and stops a worker.
#[derive(Debug, Default)]
struct WorkerBell {
    is_rung: Mutex<bool>,
    changed: Condvar,
    /// Whether the worker may serve its rings.
    started: AtomicBool,
    stopped: AtomicBool,
}

impl WorkerBell {
    fn wait_for_start(&self) {
        while !self.started.load(Ordering::Acquire) && !self.stopped.load(Ordering::Acquire) {
            self.wait();
        }
    }

    fn wait(&self) {
        let rung = self.changed.wait_while(lock(&self.is_rung), |rung| !*rung);
        *rung.unwrap_or_else(PoisonError::into_inner) = false;
    }
}

impl Notify for WorkerBell {
    fn notify(&self, _: u64) {
        *lock(&self.is_rung) = true;
        self.changed.notify_one();
    }
}

impl NicWorker {
    /// Creates a worker for the rx rings `rings`, with its thread. The worker does nothing before
    /// [`Self::start`]. If a processor is given, it runs on that processor and never sleeps.
    fn new(
        plugged: Arc<AttachedNic>,
        rings: Range<usize>,
        cpu: Option<usize>,
        ticker: &Arc<Ticker>,
    ) -> Result<Self, Errno> {
        let bell = Arc::<WorkerBell>::default();
        let waker = Waker::new(bell.clone(), ticker.clone());
        let port = &plugged.binding.port;
        for i in rings.clone() {
            if let (Some(list), Some(view)) = (port.listeners(TxRx::Rx, i), port.ring(TxRx::Rx, i))
            {
                list.add(&waker, TxRx::Rx, view);
            }
        }
        let mut work = NicWorkerLoop::new(plugged.clone(), rings.clone());
        let (stop, woken) = (bell.clone(), waker.clone());
        let body = move || {
            stop.wait_for_start();
            match cpu {
                Some(cpu) => work.poll(cpu, &stop),
                None => work.serve(&stop, &woken),
            }
        };
        let thread = spawn(body);
        // The worker exists from here on, so if the thread could not be started, dropping the
        // worker removes the waker from the listeners.
        let mut worker = Self { bell, waker, attached: plugged, rings, thread: None };
        worker.thread = Some(thread.map_err(|_| Errno::NOMEM)?);
        Ok(worker)
    }

    fn start(&self) {
        self.bell.started.store(true, Ordering::Release);
        self.bell.notify(0);
    }
}

fn spawn(body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    #[cfg(test)]
    spawn_limit::take()?;
    thread::Builder::new().name("vale".to_owned()).spawn(body)
}

impl Drop for NicWorker {
    fn drop(&mut self) {
        self.bell.stopped.store(true, Ordering::Release);
        self.bell.notify(0);
        let itself = |thread: &JoinHandle<()>| thread.thread().id() == thread::current().id();
        // If the worker itself drops this value, because its interface has vanished, it cannot wait
        // for its own end.
        if let Some(thread) = self.thread.take().filter(|thread| !itself(thread)) {
            // A panic of the worker has already been reported.
            let _ = thread.join();
        }
        for i in self.rings.clone() {
            if let Some(list) = self.attached.binding.port.listeners(TxRx::Rx, i) {
                list.remove(&self.waker);
            }
        }
    }
}

/// The loop of a worker.
struct NicWorkerLoop {
    attached: Arc<AttachedNic>,
    rings: Range<usize>,
    /// The frames of each ring. A ring keeps its value between syncs, because the slots of a frame
    /// may arrive in several syncs.
    frames: Vec<SyncFrames>,
    batch: SwitchBatch,
}

impl NicWorkerLoop {
    fn new(attached: Arc<AttachedNic>, rings: Range<usize>) -> Self {
        let frames = rings.clone().map(|_| SyncFrames::default()).collect();
        Self { attached, rings, frames, batch: SwitchBatch::new() }
    }

    /// Works until the bell is stopped or the interface vanishes; sleeps while there is nothing to
    /// do.
    fn serve(&mut self, bell: &WorkerBell, waker: &Waker) {
        while !bell.stopped.load(Ordering::Acquire) {
            if self.poll_rings() {
                continue;
            }
            waker.arm(0, false, true, false);
            // Frames that arrived before the waker was armed cause no wake-up, so the rings are
            // checked once more.
            if self.poll_rings() {
                continue;
            }
            if self.has_ended() {
                return self.attached.detach_vanished();
            }
            if !bell.stopped.load(Ordering::Acquire) {
                bell.wait();
            }
        }
    }

    /// Works until the bell is stopped or the interface vanishes, on one processor and without
    /// sleeping.
    fn poll(&mut self, cpu: usize, bell: &WorkerBell) {
        let mut here = CpuSet::new();
        here.set(cpu);
        // If the thread cannot be pinned to the processor, it polls on any processor.
        let _ = rustix::thread::sched_setaffinity(None, &here);
        while !bell.stopped.load(Ordering::Acquire) {
            if self.poll_rings() {
                continue;
            }
            if self.has_ended() {
                return self.attached.detach_vanished();
            }
            thread::yield_now();
        }
    }

    fn has_ended(&self) -> bool {
        self.attached.binding.port.has_vanished()
    }

    /// Switches the frames that have arrived on all rings; returns whether there were any.
    fn poll_rings(&mut self) -> bool {
        let Self { attached: plugged, rings, frames, batch } = self;
        let numbered = rings.clone().zip(frames);
        numbered
            .filter_map(|(i, frames)| plugged.forward_ring(i, frames, batch).then_some(()))
            .count()
            > 0
    }
}

impl AttachedNic {
    /// Switches the frames that have arrived on ring `i`; returns whether there were any.
    fn forward_ring(&self, i: usize, frames: &mut SyncFrames, batch: &mut SwitchBatch) -> bool {
        let port = &self.binding.port;
        if matches!(port.sync(TxRx::Rx, i), SyncStatus::Gone) {
            return false;
        }
        let Some(view) = port.ring(TxRx::Rx, i) else { return false };
        let (from, to) = received_range(view);
        if from == to {
            return false;
        }
        let end = frames.read(view, from, to, 0);
        let (attachment, ring) = match &self.host {
            Some(host) if i >= self.nic_rings => (host, i - self.nic_rings),
            _ => (&self.nic, i),
        };
        attachment.bridge.transmit(attachment.id, ring as u32, view, frames, batch);
        view.advance_to(end);
        end != from
    }

    /// Removes the attachment, whose interface has vanished, from its switch, unless it is removed
    /// already.
    fn detach_vanished(self: &Arc<Self>) {
        let AttachmentOwner { key, handler } = &self.owner;
        handler.nic_vanished(key, &|one| Arc::ptr_eq(&one.attached, self));
    }
}

/// Returns the range of slots that hold received frames; empty if an index is invalid.
fn received_range(view: &RingView) -> (SlotIdx, SlotIdx) {
    let (head, tail, n) = (view.head(), view.tail(), view.num_slots());
    if head < n && tail < n { (head, tail) } else { (0, 0) }
}

/// Lets tests refuse threads, as a system without memory does.
#[cfg(test)]
pub(crate) mod spawn_limit {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        static LEFT: Cell<u32> = const { Cell::new(u32::MAX) };
    }

    /// Sets how many workers the calling thread may still create.
    pub(crate) fn set(count: u32) {
        LEFT.set(count);
    }

    pub(super) fn take() -> io::Result<()> {
        let left = LEFT.get().checked_sub(1).ok_or(io::ErrorKind::OutOfMemory)?;
        LEFT.set(left);
        Ok(())
    }
}
