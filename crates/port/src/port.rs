//! An open port: its description and its queues.

use slipring_ring::forward as forward_rings;

use crate::error::RunError;
use crate::info::PortInfo;
use crate::queue::Queue;
use crate::stats::QueueSnapshot;

/// An open port. A program may move `queues` out of it, to give each thread its own queue.
pub struct Port {
    /// The description of the port: mode, capabilities, MAC address, MTU.
    pub info: PortInfo,
    /// The ring pairs; at least one.
    pub queues: Vec<Box<dyn Queue>>,
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Port({}, {} queues)", self.info, self.queues.len())
    }
}

impl Port {
    /// Syncs all tx rings.
    ///
    /// # Errors
    /// The first [`RunError`]; the rings after it are not synced.
    pub fn tx_sync(&mut self) -> Result<(), RunError> {
        self.queues.iter_mut().try_for_each(|queue| queue.tx_sync())
    }

    /// Syncs all rx rings.
    ///
    /// # Errors
    /// The first [`RunError`]; the rings after it are not synced.
    pub fn rx_sync(&mut self) -> Result<(), RunError> {
        self.queues.iter_mut().try_for_each(|queue| queue.rx_sync())
    }

    /// Returns the sum of all queues' counters, including those that only the kernel has.
    pub fn stats(&mut self) -> QueueSnapshot {
        let mut sum = QueueSnapshot::default();
        for queue in &mut self.queues {
            queue.update_stats();
            sum += queue.counters().snapshot();
        }
        sum
    }
}

/// Moves up to `max` slots' worth of packets per queue from `from` to `to`: rx sync, forward, tx
/// sync. Frames of queue `i` of `from` go to queue `i` of `to`, modulo the number of queues there.
/// Returns how many slots were moved.
///
/// # Errors
/// The [`RunError`] of either port.
pub fn forward(from: &mut Port, to: &mut Port, max: u32) -> Result<u32, RunError> {
    let outputs = to.queues.len();
    let mut moved = 0;
    for (i, source) in from.queues.iter_mut().enumerate() {
        let target = &mut to.queues[i % outputs];
        source.rx_sync()?;
        moved += forward_rings(source.rings().rx, target.rings().tx, max);
        target.tx_sync()?;
    }
    Ok(moved)
}
