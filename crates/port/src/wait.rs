//! Waiting on many queues: spin a little, then sleep.
//!
//! Waiting includes syncing, as netmap's `poll` does: a ring that the caller waits for is synced if
//! nothing is available in it.

mod arm;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::Timespec;

use crate::clock::{Nanos, now};
use crate::error::RunError;
use crate::port::Port;
use crate::queue::{Interest, Queue, TxWait};

pub use arm::ArmResult;

/// How long to spin before sleeping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitStrategy {
    /// Never sleep: the lowest latency, at the cost of a whole CPU core.
    Spin,
    /// Check the queues, then sleep without spinning.
    Sleep,
    /// Spin for at most this many nanoseconds, then sleep. If recent waits took longer than that on
    /// average, do not spin.
    Adaptive(Nanos),
}

impl Default for WaitStrategy {
    fn default() -> Self {
        Self::Adaptive(20_000)
    }
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitOutcome {
    /// At least one queue has a frame or slot that the caller waited for, or has just ended.
    Ready,
    /// The time limit of the wait has passed.
    Timeout,
    /// The descriptor given to [`Waiter::add_fd`] became readable, or a signal arrived.
    Interrupted,
}

/// Waits for a fixed set of queues.
#[derive(Debug)]
pub struct Waiter {
    epoll: OwnedFd,
    strategy: WaitStrategy,
    /// The interests that were last registered with epoll. So an interest that has not changed
    /// needs no system call. `None` for a queue that is no longer watched, because it has ended.
    registered: Vec<Option<Interest>>,
    /// For each queue, whether no descriptor signals its frames or free slots.
    always: Vec<bool>,
    /// Moving average of the durations of recent waits that ended with [`WaitOutcome::Ready`], in
    /// ns.
    usual_wait: Nanos,
}

/// Maximum sleep, in ns, while the caller waits for a queue whose frames and free slots no
/// descriptor signals.
const BLIND_WAIT_NS: Nanos = 100_000;

/// epoll data of the descriptor given to [`Waiter::add_fd`]. For a queue's descriptor, the data is
/// the index of the queue.
const OTHER_FD_TOKEN: u64 = u64::MAX;

impl Waiter {
    /// Creates a waiter for `queues`; later calls must pass them in the same order.
    ///
    /// # Errors
    /// The kernel's error, usually because this process has no descriptors left.
    pub fn new<'q>(
        queues: impl IntoIterator<Item = &'q dyn Queue>,
        patience: WaitStrategy,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut waiter = Self {
            epoll,
            strategy: patience,
            registered: Vec::new(),
            always: Vec::new(),
            usual_wait: 0,
        };
        for (i, queue) in queues.into_iter().enumerate() {
            waiter.add(i as u64, queue)?;
        }
        Ok(waiter)
    }

    /// Creates a waiter for all queues of some ports, in order.
    ///
    /// # Errors
    /// Same as for [`Self::new`].
    pub fn for_ports<'q>(
        ports: impl IntoIterator<Item = &'q Port>,
        patience: WaitStrategy,
    ) -> io::Result<Self> {
        Self::new(
            ports.into_iter().flat_map(|port| port.queues.iter().map(AsRef::as_ref)),
            patience,
        )
    }

    fn add(&mut self, index: u64, queue: &dyn Queue) -> io::Result<()> {
        let fds = queue.wait_fds();
        self.always.push(fds.rx.is_none() && fds.tx.is_none());
        self.registered.push(Some(Interest::NONE));
        if let Some(link) = fds.link {
            epoll::add(&self.epoll, link, EventData::new_u64(index), EventFlags::IN)?;
        }
        let mut seen: Option<i32> = None;
        let tx = fds.tx.filter(|tx| edge(tx).is_none()).map(tx_fd);
        for fd in [fds.rx, tx].into_iter().flatten() {
            use std::os::fd::AsRawFd;
            if seen.replace(fd.as_raw_fd()) != Some(fd.as_raw_fd()) {
                epoll::add(&self.epoll, fd, EventData::new_u64(index), EventFlags::empty())?;
            }
        }
        Ok(())
    }

    /// Makes waits end also when `fd` becomes readable. The caller must read it then.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn add_fd(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(OTHER_FD_TOKEN), EventFlags::IN)?)
    }

    /// Waits until a queue satisfies its interest. `queues` are those of [`Self::new`].
    ///
    /// # Errors
    /// The [`RunError`] of a queue's sync or of epoll.
    pub fn wait(
        &mut self,
        queues: &mut (impl WaitSet + ?Sized),
        timeout: Option<Duration>,
    ) -> Result<WaitOutcome, RunError> {
        let start = now();
        let deadline = timeout.map(|timeout| start.saturating_add(timeout.as_nanos() as u64));
        let woken = match self.spin(queues, start, deadline)? {
            Some(woken) => woken,
            None => self.sleep(queues, deadline)?,
        };
        if woken == WaitOutcome::Ready {
            let took = now().saturating_sub(start);
            self.usual_wait = (self.usual_wait * 7 + took) / 8;
        }
        Ok(woken)
    }

    /// Like [`Self::wait`], for all queues of the ports of [`Self::for_ports`].
    ///
    /// # Errors
    /// Same as for [`Self::wait`].
    pub fn wait_ports(
        &mut self,
        ports: &mut [&mut Port],
        interest: Interest,
        timeout: Option<Duration>,
    ) -> Result<WaitOutcome, RunError> {
        self.wait(&mut PortsWait(ports, interest), timeout)
    }

    /// Polls the queues as long as the strategy allows. Returns why the wait has ended; `None` if
    /// it must continue with a sleep.
    fn spin(
        &mut self,
        queues: &mut (impl WaitSet + ?Sized),
        start: Nanos,
        deadline: Option<Nanos>,
    ) -> Result<Option<WaitOutcome>, RunError> {
        let budget = match self.strategy {
            WaitStrategy::Spin => Nanos::MAX,
            WaitStrategy::Adaptive(most) if self.usual_wait <= most => most,
            WaitStrategy::Sleep | WaitStrategy::Adaptive(_) => 0,
        };
        let mut looks = 0u32;
        loop {
            if poll_queues(queues)? {
                return Ok(Some(WaitOutcome::Ready));
            }
            let time = now();
            if deadline.is_some_and(|deadline| time >= deadline) {
                return Ok(Some(WaitOutcome::Timeout));
            }
            if time - start >= budget {
                return Ok(None);
            }
            looks += 1;
            // Only a system call shows whether the descriptor of [`Self::add_fd`] is readable, so
            // this polls it only now and then.
            if looks.is_multiple_of(1024) && self.poll(Some(Duration::ZERO))? == PolledFd::Other {
                return Ok(Some(WaitOutcome::Interrupted));
            }
            std::hint::spin_loop();
        }
    }

    fn sleep(
        &mut self,
        queues: &mut (impl WaitSet + ?Sized),
        deadline: Option<Nanos>,
    ) -> Result<WaitOutcome, RunError> {
        let woken = self.sleep_registered(queues, deadline);
        self.unwatch_edges(queues).and(woken)
    }

    fn sleep_registered(
        &mut self,
        queues: &mut (impl WaitSet + ?Sized),
        deadline: Option<Nanos>,
    ) -> Result<WaitOutcome, RunError> {
        loop {
            self.register(queues)?;
            queues.each(&mut |queue, interest| {
                queue.before_sleep(interest);
                Ok(())
            })?;
            let ready = poll_queues(queues)?;
            let polled = if ready {
                Ok(PolledFd::Queue)
            } else {
                self.poll(self.sleep_timeout(queues, deadline))
            };
            queues.each(&mut |queue, _| {
                queue.after_sleep();
                Ok(())
            })?;
            if ready || poll_queues(queues)? {
                return Ok(WaitOutcome::Ready);
            }
            if polled? == PolledFd::Other {
                return Ok(WaitOutcome::Interrupted);
            }
            if deadline.is_some_and(|deadline| now() >= deadline) {
                return Ok(WaitOutcome::Timeout);
            }
        }
    }

    /// Returns how long the next sleep in the kernel may take; `None` for no limit.
    fn sleep_timeout(
        &self,
        queues: &mut (impl WaitSet + ?Sized),
        deadline: Option<Nanos>,
    ) -> Option<Duration> {
        let until = self.sleeps_until(queues, deadline)?;
        Some(Duration::from_nanos(until.saturating_sub(now())))
    }

    /// Returns the time at which the next sleep in the kernel must end; `None` for no limit.
    fn sleeps_until(
        &self,
        queues: &mut (impl WaitSet + ?Sized),
        deadline: Option<Nanos>,
    ) -> Option<Nanos> {
        let time = now();
        let mut until = deadline;
        let mut i = 0;
        let visited = queues.each(&mut |queue, interest| {
            // If no descriptor signals that this queue is ready, the sleep is short, and the queue
            // is checked after it.
            let blind = interest != Interest::NONE && self.always.get(i) == Some(&true);
            let own = [queue.deadline(), blind.then_some(time + BLIND_WAIT_NS), until];
            until = own.into_iter().flatten().min();
            i += 1;
            Ok(())
        });
        debug_assert!(visited.is_ok(), "the visit cannot fail");
        until
    }

    fn poll(&self, timeout: Option<Duration>) -> Result<PolledFd, RunError> {
        let timeout = timeout.map(|time| Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: time.subsec_nanos().into(),
        });
        let mut events: [std::mem::MaybeUninit<epoll::Event>; 16] =
            [std::mem::MaybeUninit::uninit(); 16];
        match epoll::wait(&self.epoll, &mut events[..], timeout.as_ref()) {
            Ok((seen, _)) if seen.iter().any(|event| event.data.u64() == OTHER_FD_TOKEN) => {
                Ok(PolledFd::Other)
            }
            Ok(([], _)) => Ok(PolledFd::Nothing),
            Ok(_) => Ok(PolledFd::Queue),
            Err(rustix::io::Errno::INTR) => Ok(PolledFd::Other),
            Err(error) => Err(RunError::system("epoll", "wait for descriptors", error.into())),
        }
    }

    fn register(&mut self, queues: &mut (impl WaitSet + ?Sized)) -> Result<(), RunError> {
        let mut i = 0;
        queues.each(&mut |queue, interest| {
            self.change(i, queue, interest)?;
            i += 1;
            Ok(())
        })
    }

    /// Removes edge-triggered descriptors from the epoll set after a sleep. While such a descriptor
    /// is in the set, each frame costs extra time in the thread that triggers it.
    fn unwatch_edges(&mut self, queues: &mut (impl WaitSet + ?Sized)) -> Result<(), RunError> {
        let mut i = 0;
        queues.each(&mut |queue, interest| {
            if queue.wait_fds().tx.as_ref().and_then(edge).is_some() {
                self.change(i, queue, Interest { tx: false, ..interest })?;
            }
            i += 1;
            Ok(())
        })
    }

    fn change(&mut self, i: usize, queue: &dyn Queue, wanted: Interest) -> Result<(), RunError> {
        let Some(Some(last)) = self.registered.get(i).copied() else { return Ok(()) };
        // While the interface is down, a descriptor may be writable although nothing can be sent.
        let wanted = Interest { tx: wanted.tx && !queue.is_link_down(), ..wanted };
        if queue.ended() && !wanted.tx {
            self.registered[i] = None;
            return self.forget(queue);
        }
        if last == wanted {
            return Ok(());
        }
        self.registered[i] = Some(wanted);
        let modified = self.modify(i as u64, queue, last, wanted);
        modified.map_err(|error| RunError::system("epoll", "change what is waited for", error))
    }

    /// Stops watching a queue that has ended, because its descriptor may report errors for ever.
    fn forget(&self, queue: &dyn Queue) -> Result<(), RunError> {
        let fds = queue.wait_fds();
        for fd in [fds.rx, fds.tx.map(tx_fd), fds.link].into_iter().flatten() {
            match epoll::delete(&self.epoll, fd) {
                // `NOENT`: a descriptor that serves both directions was already removed, or an
                // edge-triggered descriptor is not in the set, because it is there only during a
                // sleep.
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(error) => {
                    let what = "change what is waited for";
                    return Err(RunError::system("epoll", what, error.into()));
                }
            }
        }
        Ok(())
    }

    fn modify(
        &self,
        index: u64,
        queue: &dyn Queue,
        last: Interest,
        wanted: Interest,
    ) -> io::Result<()> {
        let fds = queue.wait_fds();
        let data = EventData::new_u64(index);
        let rx = if wanted.rx { EventFlags::IN } else { EventFlags::empty() };
        let tx = |fd: &TxWait<'_>| match fd {
            _ if !wanted.tx => EventFlags::empty(),
            TxWait::Readable(_) => EventFlags::IN,
            TxWait::Writable(_) | TxWait::WritableEdge(_) => EventFlags::OUT,
        };
        match (fds.rx, fds.tx) {
            (Some(one), Some(other)) if same(one, tx_fd(other)) => {
                epoll::modify(&self.epoll, one, data, rx | tx(&other))?
            }
            (one, other) => {
                if let Some(fd) = one {
                    epoll::modify(&self.epoll, fd, data, rx)?;
                }
                match (other, last.tx, wanted.tx) {
                    (Some(TxWait::WritableEdge(fd)), false, true) => {
                        epoll::add(&self.epoll, fd, data, EventFlags::OUT | EventFlags::ET)?
                    }
                    (Some(TxWait::WritableEdge(fd)), true, false) => {
                        epoll::delete(&self.epoll, fd)?
                    }
                    (Some(TxWait::WritableEdge(_)) | None, ..) => {}
                    (Some(fd), ..) => epoll::modify(&self.epoll, tx_fd(fd), data, tx(&fd))?,
                }
            }
        }
        Ok(())
    }
}

impl AsFd for Waiter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PolledFd {
    Queue,
    Other,
    Nothing,
}

fn same(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> bool {
    use std::os::fd::AsRawFd;
    a.as_raw_fd() == b.as_raw_fd()
}

/// Returns the descriptor if it is edge-triggered.
fn edge<'q>(wait: &TxWait<'q>) -> Option<BorrowedFd<'q>> {
    match *wait {
        TxWait::WritableEdge(fd) => Some(fd),
        TxWait::Readable(_) | TxWait::Writable(_) => None,
    }
}

fn tx_fd(wait: TxWait<'_>) -> BorrowedFd<'_> {
    match wait {
        TxWait::Readable(fd) | TxWait::Writable(fd) | TxWait::WritableEdge(fd) => fd,
    }
}

/// Syncs the queues according to their interests. Returns whether a queue satisfies its interest,
/// or has just ended while the caller waits for its frames.
fn poll_queues(queues: &mut (impl WaitSet + ?Sized)) -> Result<bool, RunError> {
    let mut ready = false;
    queues.each(&mut |queue, interest| {
        ready |= poll_queue(queue, interest)?;
        Ok(())
    })?;
    Ok(ready)
}

fn poll_queue(queue: &mut dyn Queue, interest: Interest) -> Result<bool, RunError> {
    let due = queue.deadline().is_some_and(|deadline| deadline <= now());
    let had_ended = queue.ended();
    if due || interest.rx && queue.rings().rx.avail() == 0 {
        queue.rx_sync()?;
    }
    if due || interest.tx && queue.rings().tx.avail() == 0 {
        queue.tx_sync()?;
    }
    let has_just_ended = interest.rx && !had_ended && queue.ended();
    let rings = queue.rings();
    let has_slots = interest.rx && rings.rx.avail() > 0 || interest.tx && rings.tx.avail() > 0;
    Ok(has_slots || has_just_ended)
}

/// The queues of a wait, always in the same order, and what the caller waits for on each queue.
pub trait WaitSet {
    /// Calls `visit` for each queue, up to the first error.
    ///
    /// # Errors
    /// The errors of `visit`.
    fn each(&mut self, visit: QueueVisitor<'_>) -> Result<(), RunError>;
}

/// The function that a [`WaitSet`] calls for each queue.
pub type QueueVisitor<'v> = &'v mut dyn FnMut(&mut dyn Queue, Interest) -> Result<(), RunError>;

impl WaitSet for [(&mut dyn Queue, Interest)] {
    fn each(&mut self, visit: QueueVisitor<'_>) -> Result<(), RunError> {
        self.iter_mut().try_for_each(|(queue, interest)| visit(*queue, *interest))
    }
}

/// All queues of some ports. The caller waits for the same events on each queue.
struct PortsWait<'w, 'p>(&'w mut [&'p mut Port], Interest);

impl WaitSet for PortsWait<'_, '_> {
    fn each(&mut self, visit: QueueVisitor<'_>) -> Result<(), RunError> {
        let mut queues = self.0.iter_mut().flat_map(|port| &mut port.queues);
        queues.try_for_each(|queue| visit(&mut **queue, self.1))
    }
}
