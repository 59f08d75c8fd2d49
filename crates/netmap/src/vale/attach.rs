//! An interface plugged into a switch, with or without its host stack.
//!
//! It is bound as a program would bind it, exclusively, and a worker does what a program would:
//! sleeps until frames are there, hands them to the switch, gives the slots back. What the switch
//! has for the interface its senders put into the tx rings themselves. An interface that is no more
//! is plugged out by the worker that meets its end.

mod restart;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};

use rustix::io::Errno;
use rustix::thread::CpuSet;
use slipring_abi::{NR_EXCLUSIVE, NmreqRegister};
use slipring_ring::{RingView, SlotIdx};
use slipring_switch::{Batch, PortId};

use crate::adapter::{Adapter, Dir, Synced};
use crate::binding::Binding;
use crate::domain::{Domain, lock};
use crate::names::{Key, News, Provider};
use crate::vale::frames::Frames;
use crate::vale::hub::{Hub, Member, Seat};
use crate::vale::outlet::Outlet;
use crate::waker::{Notify, Ticker, Waker};

/// The interface in the switch; dropping it plugs it out and gives it back.
#[derive(Debug)]
pub(crate) struct Attachment {
    workers: Mutex<Workers>,
    plugged: Arc<Plugged>,
}

/// Who asks the rx rings for frames.
#[derive(Debug)]
enum Workers {
    /// One worker that sleeps while there are none.
    Sleeping { _all: Worker },
    /// Workers that never sleep, for the rings of the NIC; one that does, for those of the host.
    Polling { _nic: Vec<Worker>, _host: Option<Worker>, plan: Polling },
    /// Between the two.
    None,
}

/// What workers work on.
#[derive(Debug)]
struct Plugged {
    nic: Seat,
    host: Option<Seat>,
    binding: Binding,
    /// How many of the rx rings are the NIC's.
    nic_rings: usize,
    place: Place,
}

/// Where an attachment is kept, and who is told of its end.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) domain: Weak<Domain>,
    pub(crate) key: Key,
    pub(crate) provider: Arc<dyn Provider>,
}

/// Which rings are polled, and on which processors.
#[derive(Debug, Clone)]
pub(crate) struct Polling {
    /// For each worker: its processor and its rings.
    pub(crate) workers: Vec<(usize, Range<usize>)>,
}

impl Attachment {
    /// Binds the interface as `register` says and plugs it in under the name of its place; with its
    /// host stack, that becomes `NAME^`.
    pub(crate) fn new(
        hub: &Arc<Hub>,
        place: Place,
        nic: Arc<dyn Adapter>,
        register: &NmreqRegister,
        ticker: &Arc<Ticker>,
    ) -> Result<Self, Errno> {
        let register = NmreqRegister { nr_flags: register.nr_flags | NR_EXCLUSIVE, ..*register };
        let binding = Binding::new(nic.clone(), &register, None, &Self::idle(ticker))?;
        Self::plug(place, &nic, binding, ticker, |name, member| hub.join(name, member))
    }

    /// For its binding: its workers listen for themselves.
    fn idle(ticker: &Arc<Ticker>) -> Arc<Waker> {
        Waker::new(Arc::new(Bell::default()), ticker.clone())
    }

    /// Plugs in what is bound; `join` is told the name, first of the NIC's side, then of the host's.
    fn plug(
        place: Place,
        nic: &Arc<dyn Adapter>,
        binding: Binding,
        ticker: &Arc<Ticker>,
        mut join: impl FnMut(&str, Arc<Member>) -> Result<Seat, Errno>,
    ) -> Result<Self, Errno> {
        let (shape, rings) = (nic.shape(), binding.rings.clone());
        let count = |dir: Dir| usize::from(shape.rings[dir as usize]);
        let tx = |range: Range<usize>| range.filter_map(|i| Outlet::of_nic(nic, i)).collect();
        let mut plug = |name: &str, outlets: Vec<Outlet>| {
            if outlets.is_empty() {
                return Err(Errno::INVAL);
            }
            join(name, Member::new(outlets, 0, nic.taps().cloned()))
        };
        let (nic_tx, name) = (count(Dir::Tx), place.key.1.clone());
        let host = rings[Dir::Rx as usize].end > count(Dir::Rx);
        let plugged = Plugged {
            nic: plug(&name, tx(0..nic_tx))?,
            host: match host {
                true => Some(plug(&format!("{name}^"), tx(nic_tx..rings[Dir::Tx as usize].end))?),
                false => None,
            },
            binding,
            nic_rings: count(Dir::Rx),
            place,
        };
        let plugged = Arc::new(plugged);
        let attachment = Self { workers: Mutex::new(Workers::None), plugged };
        *lock(&attachment.workers) = attachment.sleeping(ticker)?;
        Ok(attachment)
    }

    pub(crate) fn nic(&self) -> &Arc<dyn Adapter> {
        &self.plugged.binding.port
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.plugged.nic.hub
    }

    pub(crate) fn id(&self) -> PortId {
        self.plugged.nic.id
    }

    pub(crate) fn rx_rings(&self) -> usize {
        self.plugged.nic_rings
    }

    pub(crate) fn is_polled(&self) -> bool {
        matches!(*lock(&self.workers), Workers::Polling { .. })
    }

    /// Lets workers that never sleep ask for frames.
    pub(crate) fn poll(&self, polling: &Polling, ticker: &Arc<Ticker>) -> Result<(), Errno> {
        let mut workers = lock(&self.workers);
        *workers = Workers::None;
        let nic = polling.workers.iter().map(|(cpu, rings)| {
            Worker::start(self.plugged.clone(), rings.clone(), Some(*cpu), ticker)
        });
        let all = self.plugged.binding.rings[Dir::Rx as usize].clone();
        let host = self.plugged.nic_rings..all.end;
        let host = match host.is_empty() {
            true => None,
            false => Some(Worker::start(self.plugged.clone(), host, None, ticker)?),
        };
        let nic = nic.collect::<Result<_, _>>()?;
        *workers = Workers::Polling { _nic: nic, _host: host, plan: polling.clone() };
        Ok(())
    }

    /// Lets a worker that sleeps do it again.
    pub(crate) fn stop_polling(&self, ticker: &Arc<Ticker>) -> Result<(), Errno> {
        let mut workers = lock(&self.workers);
        *workers = Workers::None;
        *workers = self.sleeping(ticker)?;
        Ok(())
    }

    fn sleeping(&self, ticker: &Arc<Ticker>) -> Result<Workers, Errno> {
        let all = self.plugged.binding.rings[Dir::Rx as usize].clone();
        Ok(Workers::Sleeping { _all: Worker::start(self.plugged.clone(), all, None, ticker)? })
    }
}

/// A thread, ended when this is dropped.
#[derive(Debug)]
struct Worker {
    bell: Arc<Bell>,
    waker: Arc<Waker>,
    plugged: Arc<Plugged>,
    rings: Range<usize>,
    thread: Option<JoinHandle<()>>,
}

/// Where a worker sleeps.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<bool>,
    ring: Condvar,
    stopped: AtomicBool,
}

impl Bell {
    fn wait(&self) {
        let rung = self.ring.wait_while(lock(&self.rung), |rung| !*rung);
        *rung.unwrap_or_else(PoisonError::into_inner) = false;
    }
}

impl Notify for Bell {
    fn notify(&self, _: u64) {
        *lock(&self.rung) = true;
        self.ring.notify_one();
    }
}

impl Worker {
    /// Works on the rx rings `rings`; with a processor, on that one and without sleeping.
    fn start(
        plugged: Arc<Plugged>,
        rings: Range<usize>,
        cpu: Option<usize>,
        ticker: &Arc<Ticker>,
    ) -> Result<Self, Errno> {
        let bell = Arc::<Bell>::default();
        let waker = Waker::new(bell.clone(), ticker.clone());
        let port = &plugged.binding.port;
        for i in rings.clone() {
            if let (Some(list), Some(view)) = (port.listeners(Dir::Rx, i), port.ring(Dir::Rx, i)) {
                list.add(&waker, Dir::Rx, view);
            }
        }
        let mut work = Work::new(plugged.clone(), rings.clone());
        let (told, woken) = (bell.clone(), waker.clone());
        let body = move || match cpu {
            Some(cpu) => work.poll(cpu, &told),
            None => work.serve(&told, &woken),
        };
        let thread = thread::Builder::new().name("vale".to_owned()).spawn(body);
        // Made first: dropping it takes the listeners back.
        let mut worker = Self { bell, waker, plugged, rings, thread: None };
        worker.thread = Some(thread.map_err(|_| Errno::NOMEM)?);
        Ok(worker)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.bell.stopped.store(true, Ordering::Release);
        self.bell.notify(0);
        let itself = |thread: &JoinHandle<()>| thread.thread().id() == thread::current().id();
        // The one that met the interface's end drops itself, and returns next.
        if let Some(thread) = self.thread.take().filter(|thread| !itself(thread)) {
            // One that panicked has said so already.
            let _ = thread.join();
        }
        for i in self.rings.clone() {
            if let Some(list) = self.plugged.binding.port.listeners(Dir::Rx, i) {
                list.remove(&self.waker);
            }
        }
    }
}

/// What a worker does.
struct Work {
    plugged: Arc<Plugged>,
    rings: Range<usize>,
    /// By ring, as a frame may come in parts.
    frames: Vec<Frames>,
    batch: Batch,
}

impl Work {
    fn new(plugged: Arc<Plugged>, rings: Range<usize>) -> Self {
        let frames = rings.clone().map(|_| Frames::default()).collect();
        Self { plugged, rings, frames, batch: Batch::new() }
    }

    /// Works until the bell is stopped or the interface is no more; sleeps while there is nothing
    /// to do.
    fn serve(&mut self, bell: &Bell, waker: &Waker) {
        while !bell.stopped.load(Ordering::Acquire) {
            if self.round() {
                continue;
            }
            waker.arm(0, false, true, false);
            // What came before it was armed would be slept through.
            if self.round() {
                continue;
            }
            if self.has_ended() {
                return self.plugged.leave();
            }
            if !bell.stopped.load(Ordering::Acquire) {
                bell.wait();
            }
        }
    }

    /// Works until the bell is stopped or the interface is no more, on one processor and without
    /// sleeping.
    fn poll(&mut self, cpu: usize, bell: &Bell) {
        let mut here = CpuSet::new();
        here.set(cpu);
        // Where that is not allowed, it polls wherever it may.
        let _ = rustix::thread::sched_setaffinity(None, &here);
        while !bell.stopped.load(Ordering::Acquire) {
            if self.round() {
                continue;
            }
            if self.has_ended() {
                return self.plugged.leave();
            }
            thread::yield_now();
        }
    }

    fn has_ended(&self) -> bool {
        self.plugged.binding.port.has_vanished()
    }

    /// Switches what has arrived on all rings; whether there was anything.
    fn round(&mut self) -> bool {
        let Self { plugged, rings, frames, batch } = self;
        let numbered = rings.clone().zip(frames);
        numbered.filter_map(|(i, frames)| plugged.ring(i, frames, batch).then_some(())).count() > 0
    }
}

impl Plugged {
    /// Switches what has arrived on ring `i`; whether there was anything.
    fn ring(&self, i: usize, frames: &mut Frames, batch: &mut Batch) -> bool {
        let port = &self.binding.port;
        if matches!(port.sync(Dir::Rx, i), Synced::Gone) {
            return false;
        }
        let Some(view) = port.ring(Dir::Rx, i) else { return false };
        let (from, to) = arrived(view);
        if from == to {
            return false;
        }
        let end = frames.read(view, from, to, 0);
        let (seat, ring) = match &self.host {
            Some(host) if i >= self.nic_rings => (host, i - self.nic_rings),
            _ => (&self.nic, i),
        };
        seat.hub.transmit(seat.id, ring as u32, view, frames, batch);
        view.advance_to(end);
        end != from
    }

    /// Takes the attachment out of its switch, if it is there still: its interface is no more.
    fn leave(self: &Arc<Self>) {
        let Place { domain, key, provider } = &self.place;
        let Some(domain) = domain.upgrade() else { return };
        let mut names = lock(&domain.names);
        let attached = &mut names.switches.attached;
        let ours = attached.get(key).is_some_and(|one| Arc::ptr_eq(&one.plugged, self));
        let gone = if ours { attached.remove(key) } else { None };
        drop(names);
        if gone.is_some() {
            provider.tell(&News::InterfaceGone { uid: domain.uid(), port: key.1.clone() });
        }
        // Its other workers end first, which may take a moment.
        drop(gone);
    }
}

/// The slots that a program would read now; indices out of the ring mean none.
fn arrived(view: &RingView) -> (SlotIdx, SlotIdx) {
    let (head, tail, n) = (view.head(), view.tail(), view.num_slots());
    if head < n && tail < n { (head, tail) } else { (0, 0) }
}
