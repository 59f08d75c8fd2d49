//! The threads that serve the kernel's queues. For each processor on which this process may run,
//! there is one thread, which is bound to that processor. One more thread serves the queues of all
//! other processors.
//!
//! The kernel has one queue for each possible processor, and uses no queue before all queues have
//! entries. A request goes to the queue of the caller's processor, so the server runs on that
//! processor.
//!
//! # Invariants
//! 1. The kernel always owns entries of each queue, as long as there is memory for them. When a
//!    call in a blocking pool occupies an entry, another entry is registered. So calls that wait
//!    for a client never block the calls of other clients.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use slipring_netmap::Errno;

use crate::proto::FuseRequest;
use crate::reply::FuseReply;
use crate::reply_queue::{QueuedReply, ReplyQueue};
use crate::server::FuseServer;
use crate::sys::{FuseUring, UringEntryId, UringEvent};

/// Number of entries of a queue whose processor this process may use. It is more than the number of
/// calls that threads can begin on a processor before the worker runs there.
const LOCAL_QUEUE_ENTRIES: u32 = 128;
/// Number of entries of a queue whose processor this process may not use.
const REMOTE_QUEUE_ENTRIES: u32 = 16;

/// The queues that one thread serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UringWorker {
    /// The processor to which the thread is bound; `None` for the thread that serves all other
    /// processors.
    processor: Option<usize>,
    queues: Vec<u16>,
}

/// Distributes the machine's queues over threads. Returns one worker for each thread.
pub(crate) fn plan_workers() -> io::Result<Vec<UringWorker>> {
    let mine = sched_getaffinity(None)?;
    let possible = fs::read_to_string("/sys/devices/system/cpu/possible")?;
    Ok(assign_queues(count_processors(&possible), |processor| {
        processor < CpuSet::MAX_CPU && mine.is_set(processor)
    }))
}

/// Returns the number of processors in a list such as `0-3,8`.
fn count_processors(list: &str) -> u16 {
    let number = |text: &str| text.trim().parse::<u16>().unwrap_or(0);
    let counts = list.split(',').map(|part| match part.split_once('-') {
        Some((first, last)) => (number(last) + 1).saturating_sub(number(first)),
        None => 1,
    });
    counts.sum()
}

fn assign_queues(queues: u16, is_mine: impl Fn(usize) -> bool) -> Vec<UringWorker> {
    let (own, others): (Vec<u16>, _) = (0..queues).partition(|&queue| is_mine(queue.into()));
    let own = own.into_iter();
    let mut workers: Vec<_> = own
        .map(|queue| UringWorker { processor: Some(queue.into()), queues: vec![queue] })
        .collect();
    if !others.is_empty() {
        workers.push(UringWorker { processor: None, queues: others });
    }
    workers
}

/// Checks whether this process may create rings.
pub(crate) fn is_supported(device: impl AsFd) -> io::Result<()> {
    FuseUring::new(device.as_fd()).map(drop)
}

impl UringWorker {
    /// Returns how many entries of each queue the kernel should own.
    fn target_entries(&self) -> u32 {
        if self.processor.is_some() { LOCAL_QUEUE_ENTRIES } else { REMOTE_QUEUE_ENTRIES }
    }

    /// Serves the queues until the device is unmounted. Sends a result to `ready`: that the queues
    /// are set up, or why they cannot be.
    pub(crate) fn serve(&self, server: &FuseServer, worker: usize, ready: Sender<io::Result<()>>) {
        let served = UringLoop::new(self, server);
        let (started, served) = match served {
            Ok(served) => (Ok(()), Some(served)),
            Err(error) => (Err(error), None),
        };
        // An error only means that the receiver was already dropped.
        let _ = ready.send(started);
        drop(ready);
        if let Some(mut served) = served {
            match served.run(server, worker) {
                // The device was unmounted, so no one waits for a reply.
                Errno::NOTCONN | Errno::CONNABORTED | Errno::CANCELED => {}
                _ => server.fail(),
            }
        }
    }
}

/// The state of a running worker.
struct UringLoop {
    ring: FuseUring,
    replies: Arc<ReplyQueue>,
    /// How many entries of each queue the kernel should own.
    target_entries: u32,
    /// Events that arrived before all queues were ready.
    early_events: Vec<UringEvent>,
    /// Memory for the current request. The next field is memory for the replies to be sent.
    message: Vec<u8>,
    answers: Vec<QueuedReply>,
}

impl UringLoop {
    fn new(worker: &UringWorker, server: &FuseServer) -> io::Result<Self> {
        if let Some(processor) = worker.processor {
            let mut set = CpuSet::new();
            set.set(processor);
            // This fails if the processor has gone offline. Another processor serves the queue
            // then.
            let _ = sched_setaffinity(None, &set);
        }
        let mut ring = FuseUring::new(server.device())?;
        let outbox = Arc::new(ReplyQueue::new()?);
        ring.poll_wakeup(outbox.event())?;
        for &queue in &worker.queues {
            (0..worker.target_entries()).try_for_each(|_| ring.register_entry(queue))?;
        }
        let early: Vec<_> = std::iter::from_fn(|| ring.next()).collect();
        if let Some(&UringEvent::Ended(error)) =
            early.iter().find(|one| matches!(one, UringEvent::Ended(_)))
        {
            return Err(error.into());
        }
        let (message, answers) = (Vec::new(), Vec::new());
        Ok(Self {
            ring,
            replies: outbox,
            target_entries: worker.target_entries(),
            early_events: early,
            message,
            answers,
        })
    }

    /// Serves the queues until an error occurs, and returns this error.
    fn run(&mut self, server: &FuseServer, worker: usize) -> Errno {
        let mut came = std::mem::take(&mut self.early_events).into_iter();
        loop {
            let done = match came.next().or_else(|| self.ring.next()) {
                Some(UringEvent::Request(slot)) => {
                    server.heartbeat(worker);
                    let done = self.answer(server, slot);
                    server.heartbeat(worker);
                    done
                }
                Some(UringEvent::Wakeup) => self.handle_wakeup(),
                Some(UringEvent::Ended(error)) => return error,
                None => self.ring.wait(),
            };
            if let Err(error) = done {
                return Errno::from_io_error(&error).unwrap_or(Errno::IO);
            }
        }
    }

    /// Sends the replies that other threads have queued.
    fn handle_wakeup(&mut self) -> io::Result<()> {
        self.replies.clear_event();
        self.ring.poll_wakeup(self.replies.event())?;
        self.commit()
    }

    #[inline]
    fn answer(&mut self, server: &FuseServer, slot: UringEntryId) -> io::Result<()> {
        self.ring.read(slot, &mut self.message);
        if let Some(message) = FuseRequest::new(&self.message) {
            let reply = FuseReply::to_ring(&self.replies, slot, message.unique());
            server.handle(message, reply);
        }
        self.commit()?;
        if let Some(queue) = self.ring.owned_queue(slot)
            && self.ring.kernel_entries(queue) < self.target_entries
        {
            // If there is not enough memory for this, the kernel has fewer entries until the next
            // attempt.
            let _ = self.ring.register_entry(queue);
        }
        Ok(())
    }

    /// Takes the queued replies and queues their commands, which the next submit sends to the
    /// kernel.
    #[inline]
    fn commit(&mut self) -> io::Result<()> {
        self.replies.drain_into(&mut self.answers);
        let mut answers = self.answers.drain(..);
        answers.try_for_each(|one| self.ring.commit(one.slot, one.header, &one.body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn possible_processors_are_counted() {
        assert_eq!(["0-1\n", "0", "0-3,8\n", "0-239"].map(count_processors), [2, 1, 5, 240]);
    }

    #[test]
    fn every_queue_is_served_and_each_processor_of_ours_has_a_thread_of_its_own() {
        let worker = |processor, queues: &[u16]| UringWorker { processor, queues: queues.to_vec() };
        assert_eq!(assign_queues(2, |_| true), [worker(Some(0), &[0]), worker(Some(1), &[1])]);
        assert_eq!(
            assign_queues(4, |one| one == 1),
            [worker(Some(1), &[1]), worker(None, &[0, 2, 3])]
        );
    }
}
