//! Queues that were lent to a program, which syncs them in its own process.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use slipring_netmap::{Errno, MonitorListener, QueueDelegation};

use crate::nic::NicQueue;

/// The queues lent to one program. Dropping the value takes the queues back.
#[derive(Debug)]
pub(crate) struct QueueLoans {
    queues: Arc<Vec<NicQueue>>,
    lent: Vec<usize>,
}

impl QueueLoans {
    /// Lends all queues that have a ring bound by the program. If one of them cannot be lent, lends
    /// none.
    pub(crate) fn lend(
        queues: &Arc<Vec<NicQueue>>,
        rings: &[Range<usize>; 2],
        client_id: u32,
    ) -> Result<(Vec<QueueDelegation>, Self), Errno> {
        let bound = |i: &usize| rings.iter().any(|rings| rings.contains(i));
        let mut loans = Self { queues: queues.clone(), lent: Vec::new() };
        let mut lent = Vec::new();
        for i in (0..queues.len()).filter(bound) {
            let holder = &queues[i].holder;
            let taken = holder.compare_exchange(0, client_id, Ordering::AcqRel, Ordering::Relaxed);
            taken.map_err(|_| Errno::BUSY)?;
            // If lending a later queue fails, dropping `loans` takes back the queues that were lent
            // before.
            loans.lent.push(i);
            lent.push(queues[i].lend(rings)?);
        }
        Ok((lent, loans))
    }
}

impl Drop for QueueLoans {
    fn drop(&mut self) {
        for &i in &self.lent {
            let queue = &self.queues[i];
            let mut driver = queue.driver.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(lender) = driver.lender() {
                lender.revoke();
            }
            queue.holder.store(0, Ordering::Release);
        }
    }
}

/// Tells the queues when monitors are added or removed.
#[derive(Debug)]
pub(crate) struct MonitorForwarder(pub(crate) Arc<Vec<NicQueue>>);

impl MonitorListener for MonitorForwarder {
    fn monitors_changed(&self) {
        self.0.iter().for_each(NicQueue::monitors_changed);
    }
}
