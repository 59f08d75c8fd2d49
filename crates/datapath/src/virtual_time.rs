//! The loop of a worker in virtual time, for tests. The clock advances only while the loop waits or
//! polls. Frames arrive at the ports at times that the test has chosen.
//!
//! ```text
//! arrive(at, frame) --> far end of a pipe --> VirtualQueue --> Worker --> VirtualQueue --> sent()
//!                   VirtualTime: jumps to the next arrival, or to the time a wait ends
//! ```
//!
//! A run takes no real time, and is the same each time. Each poll of the queues advances the clock
//! by [`LOOK_NS`]. Otherwise, a loop that polls until a given time would never end.
//!
//! Not for: measuring.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slipring_abi::name::PortName;
use slipring_core::Host;
use slipring_port::{
    Nanos, OpenOptions, Queue, QueueCounters, QueueRings, RunError, WaitFds, WaitSet,
};

use crate::environment::{Clock, Environment};
use crate::queues::WorkerQueues;

/// The virtual time that one poll of the queues takes.
pub const LOOK_NS: Nanos = 100;

/// The clock of a test. Waits take no real time and advance the clock.
#[derive(Debug, Clone)]
pub struct VirtualTime {
    now: Arc<AtomicU64>,
    /// Time at which the loop must stop.
    stop_at: Nanos,
    waits: u64,
}

impl VirtualTime {
    /// Creates a clock that starts at 0 and stops the loop at `stop_at`.
    #[must_use]
    pub fn until(stop_at: Nanos) -> Self {
        Self { now: Arc::default(), stop_at, waits: 0 }
    }

    /// Returns how often the loop has waited.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.waits
    }

    /// Opens ports that have one queue, with `slots` slots per ring. All are in one region.
    ///
    /// # Panics
    /// If the ports cannot be opened.
    #[must_use]
    pub fn ports<const N: usize>(&self, slots: u32) -> [VirtualPort; N] {
        let end = |i: usize, end: char| PortName::parse(&format!("virtual{end}{i}"));
        let names = (0..N).flat_map(|i| [end(i, '{'), end(i, '}')]).collect::<Result<Vec<_>, _>>();
        let options = OpenOptions { slots, ..OpenOptions::default() };
        let ports = Host::new().open_all(&names.expect("they are names of pipes"), &options);
        let ports = ports.expect("a process may open pipes");
        let mut queues = ports.into_iter().flat_map(|port| port.queues);
        let mut queue = || queues.next().expect("a pipe has a queue at each end");
        std::array::from_fn(|_| {
            let (near, far, traffic) = (queue(), queue(), Arc::default());
            let port_traffic = Arc::clone(&traffic);
            let queue = Box::new(VirtualQueue { near, far, now: self.now.clone(), traffic });
            VirtualPort { queue, traffic: port_traffic }
        })
    }

    fn advance_to(&self, time: Nanos) {
        self.now.fetch_max(time, Ordering::Relaxed);
    }
}

impl Clock for VirtualTime {
    fn now(&self) -> Nanos {
        self.now.load(Ordering::Relaxed)
    }
}

impl Environment for VirtualTime {
    fn wait(&mut self, queues: &mut WorkerQueues, until: Nanos) -> Result<(), RunError> {
        self.waits += 1;
        self.relax();
        loop {
            let (mut is_ready, mut next) = (false, until.min(self.stop_at));
            queues.each(&mut |queue, interest| {
                queue.rx_sync()?;
                queue.tx_sync()?;
                let deadline = queue.deadline().filter(|&deadline| deadline > self.now());
                next = next.min(deadline.unwrap_or(next));
                let rings = queue.rings();
                is_ready |= interest.rx && rings.rx.avail() > 0;
                is_ready |= interest.tx && rings.tx.avail() > 0;
                Ok(())
            })?;
            if is_ready || self.now() >= until.min(self.stop_at) {
                return Ok(());
            }
            self.advance_to(next);
        }
    }

    fn is_stopped(&self) -> bool {
        self.now() >= self.stop_at
    }

    fn relax(&mut self) {
        self.now.fetch_add(LOOK_NS, Ordering::Relaxed);
    }
}

/// A port with one queue: the program's end, and the test's view of it.
pub struct VirtualPort {
    /// The queue, for the program.
    pub queue: Box<dyn Queue>,
    /// The traffic, for the test.
    pub traffic: SharedTraffic,
}

/// The frames of a port. The test and the port share them.
pub type SharedTraffic = Arc<Mutex<VirtualTraffic>>;

/// The frames that will arrive at a port, and the frames that have left through it.
#[derive(Debug, Default)]
pub struct VirtualTraffic {
    /// The frames that will arrive, with the times of their arrival, in order.
    pub arrivals: VecDeque<(Nanos, Vec<u8>)>,
    /// Whether the port ends after these frames.
    pub ends: bool,
    /// Until this time, frames that the program sends stay in the ring.
    pub stalled_until: Nanos,
    /// The frames that were sent, with the times at which they left.
    pub sent: Vec<(Nanos, Vec<u8>)>,
}

/// Locks the traffic of a port.
pub fn lock(traffic: &SharedTraffic) -> MutexGuard<'_, VirtualTraffic> {
    traffic.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The near end of a pipe. Its far end delivers frames at the times that the test has chosen.
struct VirtualQueue {
    near: Box<dyn Queue>,
    far: Box<dyn Queue>,
    now: Arc<AtomicU64>,
    traffic: SharedTraffic,
}

impl VirtualQueue {
    fn now(&self) -> Nanos {
        self.now.load(Ordering::Relaxed)
    }
}

impl Queue for VirtualQueue {
    fn rings(&mut self) -> QueueRings<'_> {
        self.near.rings()
    }

    fn tx_sync(&mut self) -> Result<(), RunError> {
        let now = self.now();
        let mut traffic = lock(&self.traffic);
        self.near.tx_sync()?;
        if now < traffic.stalled_until {
            return Ok(());
        }
        self.far.rx_sync()?;
        let (rx, mut scratch) = (self.far.rings().rx, Vec::new());
        while rx.packet(&mut scratch, |frame| traffic.sent.push((now, frame.to_vec()))).is_some() {}
        self.far.rx_sync()?;
        self.near.tx_sync()
    }

    fn rx_sync(&mut self) -> Result<(), RunError> {
        let now = self.now();
        let mut traffic = lock(&self.traffic);
        self.near.rx_sync()?;
        self.far.tx_sync()?;
        while traffic.arrivals.front().is_some_and(|(at, _)| *at <= now)
            && let Some((at, frame)) = traffic.arrivals.pop_front()
        {
            if !self.far.rings().tx.push(&frame) {
                traffic.arrivals.push_front((at, frame));
                break;
            }
        }
        self.far.tx_sync()?;
        self.near.rx_sync()
    }

    fn wait_fds(&self) -> WaitFds<'_> {
        WaitFds::default()
    }

    /// Returns when the next frame arrives or a stall ends, whichever comes first.
    fn deadline(&self) -> Option<Nanos> {
        let traffic = lock(&self.traffic);
        let arrival = traffic.arrivals.front().map(|(at, _)| *at);
        let stall = Some(traffic.stalled_until).filter(|&until| until > self.now());
        arrival.into_iter().chain(stall).min()
    }

    fn ended(&self) -> bool {
        let traffic = lock(&self.traffic);
        traffic.ends && traffic.arrivals.is_empty()
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        self.near.counters()
    }
}
