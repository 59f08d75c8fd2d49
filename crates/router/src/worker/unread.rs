//! Counts the frames that a worker had received, and that it has not taken when it ends.
//!
//! Before the end, programs leave everything to the kernel, and workers have a second to process
//! what they had received. So this is for workers that were too slow, or that have lost a port, and
//! for the sockets and devices of subinterfaces, at which frames still arrive.
//!
//! | queue | its frames count as |
//! |---|---|
//! | socket of an interface | unread, at the interface |
//! | socket of a parent of subinterfaces | unread, at the subinterface of their tags |
//! | device of a subinterface | frames of the kernel that were not sent |
//! | pipe from another worker | [`in_pipes`](super::WorkerTotals::in_pipes) |
//!
//! What pipes contain is counted when all workers have ended, as the sum of `in_pipes` over all
//! workers: after the end of one worker, another one may still put frames into a pipe.

use slipring_datapath::queues::{WorkerQueue, WorkerQueues};
use slipring_datapath::slots;
use slipring_fib::FibPortIndex;
use slipring_ring::RxRing;

use super::{RouteWorker, WorkerTotals};
use crate::subinterface::QueueRole;

/// No more syncs follow when this many slots of a queue were read: a socket and its ring do not
/// hold as many. After the loss of another port, frames may still arrive, and the worker must end
/// all the same.
const MAX_UNREAD: u32 = 1 << 16;

impl RouteWorker {
    /// Takes and counts the frames of all sockets and devices.
    pub(super) fn count_unread(&mut self, queues: &mut WorkerQueues) {
        let Self { ports, subinterfaces, totals, .. } = self;
        let mut scratch = Vec::new();
        for (input, port) in ports.of_queue.iter().enumerate() {
            // Pipes have no port.
            let Some(port) = *port else { continue };
            let queue = &mut queues[input];
            let role = subinterfaces.as_mut().and_then(|of| Some((of.role(input)?, of)));
            match role {
                None => take_all(queue, |_, _, _| totals.count_unread(port)),
                Some((QueueRole::Wire(parent), of)) => take_all(queue, |rx, at, count| {
                    let bytes = slots::bytes(rx, at, count, &mut scratch);
                    if let Some(number) = of.shared.number_of(parent, bytes) {
                        totals.count_unread(of.shared.all()[number].port);
                    }
                }),
                Some((QueueRole::Tap(number), of)) => take_all(queue, |_, _, _| {
                    of.counters[number].from_kernel += 1;
                    of.counters[number].unsent += 1;
                }),
            }
        }
    }
}

impl WorkerTotals {
    fn count_unread(&mut self, port: FibPortIndex) {
        if let Some(count) = self.unread.get_mut(usize::from(port.0)) {
            *count += 1;
        }
    }
}

/// Takes the frames of a queue. `each` is called with the rx ring, the first slot of a frame, and
/// the number of its slots.
fn take_all(queue: &mut WorkerQueue, mut each: impl FnMut(&mut RxRing, u32, u32)) {
    let mut left = MAX_UNREAD;
    while left > 0 {
        // A lost port has no more frames, but those of earlier syncs are still in its ring.
        let _ = queue.receive();
        let taken = queue.take_frames(u32::MAX, |rx, at, count| {
            each(rx, at, count);
            true
        });
        if taken == 0 {
            return;
        }
        left = left.saturating_sub(taken);
    }
}

#[cfg(test)]
mod tests {
    use slipring_datapath::virtual_time::{SharedTraffic, VirtualTime, lock};
    use slipring_port::{Nanos, RunCause};

    use super::*;
    use crate::failing_queue::FailingQueue;

    /// Returns a queue of 64 slots at which this number of frames arrives, and which is lost after
    /// `syncs` syncs.
    fn queue_with(frames: u32, syncs: u32) -> (WorkerQueue, SharedTraffic) {
        let [port] = VirtualTime::until(Nanos::MAX).ports::<1>(64);
        lock(&port.traffic).arrivals = (0..frames).map(|_| (0, vec![1; 60])).collect();
        let queue = FailingQueue::new(port.queue, syncs, || RunCause::CardGone);
        (WorkerQueue::input(Box::new(queue)), port.traffic)
    }

    fn count(queue: &mut WorkerQueue) -> u32 {
        let mut count = 0;
        take_all(queue, |_, _, _| count += 1);
        count
    }

    #[test]
    fn all_frames_of_a_socket_are_counted_if_they_fill_the_ring_several_times() {
        let (mut queue, _) = queue_with(1000, u32::MAX);
        assert_eq!((count(&mut queue), count(&mut queue)), (1000, 0));
    }

    #[test]
    fn frames_that_a_lost_port_had_synced_are_counted() {
        let (mut queue, _) = queue_with(10, 1);
        assert!(queue.receive().unwrap());
        assert_eq!(count(&mut queue), 10);
    }

    #[test]
    fn the_count_ends_although_frames_still_arrive() {
        let (mut queue, traffic) = queue_with(2 * MAX_UNREAD, u32::MAX);
        assert!(count(&mut queue) < MAX_UNREAD + 64, "the slots of one more sync");
        assert!(!lock(&traffic).arrivals.is_empty());
    }
}
