//! The forwarding loop of `slipring bridge`.

use std::time::Duration;

use slipring_port::{Interest, Queue, RunError, Visit, WaitSet, now};
use slipring_ring::{RxRing, TxRing};

use slipring_datapath::poll_loop::{MAX_SLEEP, PollLoop};

/// How frames pass from ring to ring: [`slipring_ring::forward`] or [`slipring_ring::copy`].
pub(crate) type ForwardFn = fn(&mut RxRing, &mut TxRing, u32) -> u32;

/// The queues of both sides that one thread forwards between. If one side is empty, frames of the
/// other go back where they came from.
pub(crate) struct BridgeWorker {
    /// Queues of the first port.
    left: Vec<Box<dyn Queue>>,
    /// Queues of the second port.
    right: Vec<Box<dyn Queue>>,
    /// Maximum slots moved at a time.
    burst: u32,
    /// Swaps or copies buffers.
    forward: ForwardFn,
    /// What each queue waits for, left queues first.
    interests: Vec<Interest>,
}

impl BridgeWorker {
    /// Creates a worker over these queues; `right` may be empty.
    pub(crate) fn new(
        left: Vec<Box<dyn Queue>>,
        right: Vec<Box<dyn Queue>>,
        burst: u32,
        forward: ForwardFn,
    ) -> Self {
        let interests = vec![Interest::RX; left.len() + right.len()];
        Self { left, right, burst, forward, interests }
    }

    fn update_interests(&mut self) {
        self.interests.fill(Interest::RX);
        let (left_wants, right_wants) = self.interests.split_at_mut(self.left.len());
        if self.right.is_empty() {
            for (queue, want) in self.left.iter_mut().zip(left_wants) {
                let rings = queue.rings();
                let blocked = rings.rx.avail() > 0 && rings.tx.avail() == 0;
                *want = if blocked { Interest::TX } else { Interest::RX };
            }
            return;
        }
        interest_of(&mut self.left, &mut self.right, left_wants, right_wants);
        interest_of(&mut self.right, &mut self.left, right_wants, left_wants);
    }
}

impl PollLoop for BridgeWorker {
    fn queues(&self) -> Vec<&dyn Queue> {
        self.left.iter().chain(&self.right).map(AsRef::as_ref).collect()
    }

    /// Moves one burst in each direction; returns the number of slots moved.
    fn step(&mut self) -> Result<u32, RunError> {
        if self.right.is_empty() {
            return self
                .left
                .iter_mut()
                .map(|queue| turn_back(&mut **queue, self.burst, self.forward))
                .sum();
        }
        let there = forward_side(&mut self.left, &mut self.right, self.burst, self.forward)?;
        let back = forward_side(&mut self.right, &mut self.left, self.burst, self.forward)?;
        Ok(there + back)
    }

    /// Whether a queue will deliver no more frames, and all its frames were forwarded.
    fn is_finished(&mut self) -> bool {
        let mut queues = self.left.iter_mut().chain(&mut self.right);
        queues.any(|queue| queue.ended() && queue.rings().rx.avail() == 0)
    }

    fn before_wait(&mut self) -> Duration {
        self.update_interests();
        MAX_SLEEP
    }

    /// Waits, for a bounded time, until queued frames have left.
    fn drain(&mut self) -> Result<(), RunError> {
        let until = now() + 100_000_000;
        for queue in self.left.iter_mut().chain(&mut self.right) {
            queue.tx_sync()?;
            while queue.rings().tx.with_driver() > 0 && now() < until {
                queue.tx_sync()?;
            }
        }
        self.update_stats();
        Ok(())
    }

    fn update_stats(&mut self) {
        self.left.iter_mut().chain(&mut self.right).for_each(|queue| queue.update_stats());
    }
}

/// Forwards queue `i` of one side to queue `i` of the other, modulo their number.
fn forward_side(
    from: &mut [Box<dyn Queue>],
    to: &mut [Box<dyn Queue>],
    burst: u32,
    pass: ForwardFn,
) -> Result<u32, RunError> {
    let outputs = to.len();
    let mut moved = 0;
    for (i, source) in from.iter_mut().enumerate() {
        let target = &mut to[i % outputs];
        source.rx_sync()?;
        let count = pass(source.rings().rx, target.rings().tx, burst);
        if count > 0 || target.rings().tx.with_driver() > 0 {
            target.tx_sync()?;
        }
        moved += count;
    }
    Ok(moved)
}

fn turn_back(queue: &mut dyn Queue, burst: u32, pass: ForwardFn) -> Result<u32, RunError> {
    queue.rx_sync()?;
    let rings = queue.rings();
    let count = pass(rings.rx, rings.tx, burst);
    queue.tx_sync()?;
    Ok(count)
}

/// The worker's queues with what each is waiting for.
impl WaitSet for BridgeWorker {
    fn each(&mut self, visit: Visit<'_>) -> Result<(), RunError> {
        let queues = self.left.iter_mut().chain(&mut self.right);
        queues.zip(&self.interests).try_for_each(|(queue, &interest)| visit(&mut **queue, interest))
    }
}

/// Waits for frames or, if frames wait for a full ring, for free slots in that ring.
fn interest_of(
    from: &mut [Box<dyn Queue>],
    to: &mut [Box<dyn Queue>],
    from_wants: &mut [Interest],
    to_wants: &mut [Interest],
) {
    for (i, source) in from.iter_mut().enumerate() {
        let j = i % to.len();
        let blocked = source.rings().rx.avail() > 0 && to[j].rings().tx.avail() == 0;
        from_wants[i].rx = !blocked;
        to_wants[j].tx |= blocked;
    }
}
