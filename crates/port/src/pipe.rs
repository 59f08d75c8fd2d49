//! One end of a pipe as a queue: frames pass between ends without being copied.
//!
//! ```text
//!   ProcessPipe   closed ends, one PipeEnd per queue
//!     | open_end: moves the ends of one side into PipeQueues       ^ a dropped PipeQueue moves
//!     v                                                            | its end back
//!   Port   PipeQueue ... each holds the ProcessPipe: it lives as long as one queue is open
//! ```

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use slipring_abi::name::PipeRole;
use slipring_ring::{KernRing, PipeEnd, PipePair, Region, SlotFlags};

use crate::error::{OpenError, RunError};
use crate::info::{PortCaps, PortInfo, PortMode};
use crate::options::{OpenOptions, RegionNeeds};
use crate::port::Port;
use crate::queue::{Interest, Queue, QueueRings, TxWait, WaitFds};
use crate::stats::{QueueCounters, TrafficCounts};

/// Returns the memory that a pipe of `queues` ring pairs needs, for both ends together.
#[must_use]
pub fn needs(queues: u32, slots: u32) -> RegionNeeds {
    let mut needs = RegionNeeds::pairs(queues * 2, slots);
    // Only tx slots have buffers, so half as many are needed. Besides its four rings, each queue
    // needs memory for its shared state.
    needs.bufs /= 2;
    needs.ring_bytes += 1024 * u64::from(queues);
    needs
}

/// A pipe whose ends are opened and closed one by one. The pipe is freed when both ends are closed
/// and no other reference to it exists; until then, a closed end can be opened again, and finds the
/// frames that were sent to it.
#[derive(Debug)]
pub struct ProcessPipe {
    infos: [PortInfo; 2],
    /// For the master and the slave: the ends of their queues, by ring number; `None` while a queue
    /// is open.
    closed: [Mutex<Vec<Option<PipeEnd>>>; 2],
}

/// The index of an end in arrays of two.
const fn side(role: PipeRole) -> usize {
    match role {
        PipeRole::Master => 0,
        PipeRole::Slave => 1,
    }
}

impl ProcessPipe {
    /// Creates a pipe in `region`. Both ends are closed. `names` are their names, master first.
    ///
    /// # Errors
    /// [`OpenError`] if the region does not have enough memory left.
    pub fn create(
        names: [&str; 2],
        queues: u32,
        region: &Arc<Region>,
        options: &OpenOptions,
    ) -> Result<Arc<Self>, OpenError> {
        let mut ends = [Vec::new(), Vec::new()];
        for ringid in 0..queues {
            let pair = PipePair::create(region, ringid as u16, options.slots);
            let PipePair { a, b } = pair.map_err(|error| OpenError::new(names[0], error))?;
            ends[0].push(Some(a));
            ends[1].push(Some(b));
        }
        let infos = names.map(|name| info(name, queues, region, options.slots));
        Ok(Arc::new(Self { infos, closed: ends.map(Mutex::new) }))
    }

    /// Opens an end. Returns `None` if it is open, or if one of its queues is still in use.
    #[must_use]
    pub fn open_end(self: &Arc<Self>, role: PipeRole) -> Option<Port> {
        let mut closed = self.closed[side(role)].lock().unwrap_or_else(PoisonError::into_inner);
        if closed.iter().any(Option::is_none) {
            return None;
        }
        let info = self.infos[side(role)].clone();
        let queue = |(ringid, end): (usize, &mut Option<PipeEnd>)| -> Box<dyn Queue> {
            Box::new(PipeQueue {
                name: info.name.clone(),
                end: end.take(),
                counters: Arc::default(),
                home: Some(PipeHome { pipe: self.clone(), role, ringid }),
            })
        };
        let queues = closed.iter_mut().enumerate().map(queue).collect();
        Some(Port { info, queues })
    }

    /// Returns whether all queues of an end are closed.
    #[must_use]
    pub fn is_closed(&self, role: PipeRole) -> bool {
        let closed = self.closed[side(role)].lock().unwrap_or_else(PoisonError::into_inner);
        closed.iter().all(Option::is_some)
    }
}

/// Where the end of a queue goes when the queue is dropped.
#[derive(Debug)]
struct PipeHome {
    pipe: Arc<ProcessPipe>,
    role: PipeRole,
    ringid: usize,
}

impl PipeHome {
    fn put_back(&self, mut end: PipeEnd) {
        end.detach_program();
        let closed = self.pipe.closed[side(self.role)].lock();
        closed.unwrap_or_else(PoisonError::into_inner)[self.ringid] = Some(end);
    }
}

/// Creates a pipe in `region` and opens both its ends, master first. `names` are their names.
///
/// # Errors
/// [`OpenError`] if the region does not have enough memory left.
pub fn open(
    names: [&str; 2],
    queues: u32,
    region: &Arc<Region>,
    options: &OpenOptions,
) -> Result<[Port; 2], OpenError> {
    let pipe = ProcessPipe::create(names, queues, region, options)?;
    let end = |role| pipe.open_end(role).expect("both ends of a new pipe are closed");
    Ok([end(PipeRole::Master), end(PipeRole::Slave)])
}

/// Returns the description of one end.
#[must_use]
pub fn info(name: &str, queues: u32, region: &Region, slots: u32) -> PortInfo {
    PortInfo {
        name: name.to_owned(),
        kind: "pipe",
        mode: PortMode::new().with("mode", "swap").with("queues", queues).with("slots", slots),
        caps: PortCaps {
            rx: true,
            tx: true,
            max_packet: region.buf_size() * 64,
            max_slot: region.buf_size(),
        },
        mac: None,
        mtu: None,
    }
}

/// A [`PipeEnd`] and its counters, as a [`Queue`].
#[derive(Debug)]
pub struct PipeQueue {
    name: String,
    /// `None` only while the queue is being dropped.
    end: Option<PipeEnd>,
    counters: Arc<QueueCounters>,
    /// `None` if the end cannot be opened again.
    home: Option<PipeHome>,
}

impl PipeQueue {
    /// Wraps one end of a pipe as a queue.
    #[must_use]
    pub fn boxed(name: &str, end: PipeEnd) -> Box<dyn Queue> {
        let name = name.to_owned();
        Box::new(Self { name, end: Some(end), counters: Arc::default(), home: None })
    }

    #[inline(always)]
    fn end(&self) -> &PipeEnd {
        self.end.as_ref().expect(HAS_END)
    }

    #[inline(always)]
    fn end_mut(&mut self) -> &mut PipeEnd {
        self.end.as_mut().expect(HAS_END)
    }
}

const HAS_END: &str = "only drop takes the end";

impl Drop for PipeQueue {
    fn drop(&mut self) {
        if let (Some(end), Some(home)) = (self.end.take(), &self.home) {
            home.put_back(end);
        }
    }
}

/// Counts packets and bytes in the `count` slots before `end`.
fn traffic(ring: &KernRing, end: u32, count: u32) -> TrafficCounts {
    let start = ring.add(end, ring.num_slots() - count);
    let mut sum = TrafficCounts::default();
    for (_, slot) in ring.slots(start, end) {
        sum.bytes += u64::from(slot.len);
        sum.packets += u64::from(!slot.flags.has(SlotFlags::MOREFRAG));
    }
    sum
}

impl Queue for PipeQueue {
    fn rings(&mut self) -> QueueRings<'_> {
        let end = self.end_mut();
        QueueRings { tx: &mut end.tx, rx: &mut end.rx }
    }

    #[inline]
    fn tx_sync(&mut self) -> Result<(), RunError> {
        // The slots are counted before the sync, because after it they belong to the peer.
        let end = self.end.as_mut().expect(HAS_END);
        let from = end.tx_kern().hwcur();
        let sum = end.pending_tx().map_or(TrafficCounts::default(), |head| {
            traffic(end.tx_kern(), head, end.tx_kern().pending(head))
        });
        end.tx_sync().map_err(|fault| RunError::new(&self.name, fault))?;
        if end.tx_kern().hwcur() != from {
            self.counters.sent(sum);
        }
        Ok(())
    }

    #[inline]
    fn rx_sync(&mut self) -> Result<(), RunError> {
        let end = self.end.as_mut().expect(HAS_END);
        let new = end.rx_sync().map_err(|fault| RunError::new(&self.name, fault))?;
        if new > 0 {
            let ring = end.rx_kern();
            self.counters.received(traffic(ring, ring.hwtail(), new));
        }
        Ok(())
    }

    fn wait_fds(&self) -> WaitFds<'_> {
        let bell = self.end().doorbells().0.as_fd();
        WaitFds { rx: Some(bell), tx: Some(TxWait::Readable(bell)), link: None }
    }

    fn before_sleep(&mut self, interest: Interest) {
        self.end().announce_sleep(interest.rx, interest.tx);
    }

    fn after_sleep(&mut self) {
        self.end().wake();
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}
