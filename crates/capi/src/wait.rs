//! Waiting for ports: either on descriptors in the program's own loop, or in a call of this
//! library.

use std::ffi::c_int;
use std::sync::MutexGuard;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use slipring_port::{ArmResult, Interest, Nanos, Queue, QueueVisitor, RunError, WaitSet, now};

use crate::error::CallError;
use crate::port::PortHandle;
use crate::structs::{
    SLIPRING_ALL_QUEUES, SLIPRING_ERR_MACHINE, SLIPRING_WAIT_END, SLIPRING_WAIT_RX,
    SLIPRING_WAIT_TX,
};

/// How long [`pause`] sleeps at most.
const BLIND_WAIT: Duration = Duration::from_micros(100);

/// All queues of a port, locked.
struct LockedQueues<'p> {
    queues: Vec<MutexGuard<'p, Box<dyn Queue>>>,
    interest: Interest,
}

impl<'p> LockedQueues<'p> {
    fn of(port: &'p PortHandle, interest: Interest) -> Result<Self, CallError> {
        let queues = port.some(SLIPRING_ALL_QUEUES)?.iter().map(|queue| port.lock(queue));
        let mut queues: Vec<_> = queues.collect::<Result<_, _>>()?;
        for queue in &mut queues {
            let rings = queue.rings();
            // As in netmap, a program waits for slots from `cur` on.
            rings.tx.take_over_cur();
            rings.rx.take_over_cur();
        }
        Ok(Self { queues, interest })
    }

    /// Returns which events are ready, according to the last sync.
    fn ready(&mut self) -> u32 {
        let has_ended = self.interest.rx && self.queues.iter().all(|queue| queue.ended());
        let mut ready = if has_ended { SLIPRING_WAIT_END } else { 0 };
        for queue in &mut self.queues {
            let rings = queue.rings();
            ready |= if self.interest.rx && rings.rx.avail() > 0 { SLIPRING_WAIT_RX } else { 0 };
            ready |= if self.interest.tx && rings.tx.avail() > 0 { SLIPRING_WAIT_TX } else { 0 };
        }
        ready
    }
}

impl WaitSet for LockedQueues<'_> {
    fn each(&mut self, visit: QueueVisitor<'_>) -> Result<(), RunError> {
        let interest = self.interest;
        self.queues.iter_mut().try_for_each(|queue| visit(queue.as_mut(), interest))
    }
}

fn interest_in(events: u32) -> Result<Interest, CallError> {
    if events & !(SLIPRING_WAIT_RX | SLIPRING_WAIT_TX) != 0 {
        return Err(CallError::argument(format!("events {events:#x}")));
    }
    Ok(Interest { rx: events & SLIPRING_WAIT_RX != 0, tx: events & SLIPRING_WAIT_TX != 0 })
}

/// Syncs each ring that `events` asks for if nothing is available in it, and prepares the port for
/// a poll of its descriptor. Returns the events that are ready, and the time at which the poll must
/// end at the latest (`None` means no limit).
pub(crate) fn arm(port: &PortHandle, events: u32) -> Result<(u32, Option<Nanos>), CallError> {
    let mut queues = LockedQueues::of(port, interest_in(events)?)?;
    match port.waiter()?.arm(&mut queues)? {
        // `Ready` may also mean that a queue has just ended; then perhaps no event is ready.
        ArmResult::Ready => Ok((queues.ready(), Some(now()))),
        ArmResult::Until(until) => Ok((queues.ready(), until)),
    }
}

/// Ends the poll of the port's descriptor, and syncs as [`arm`] does. Returns which events are
/// ready.
pub(crate) fn disarm(port: &PortHandle, events: u32) -> Result<u32, CallError> {
    let mut queues = LockedQueues::of(port, interest_in(events)?)?;
    port.waiter()?.disarm(&mut queues)?;
    Ok(queues.ready())
}

/// A port for which a call waits.
pub(crate) struct Waiting<'p> {
    pub(crate) port: &'p PortHandle,
    pub(crate) events: u32,
    pub(crate) ready: u32,
}

/// Waits until a port is ready, the timeout has expired, or a signal arrives. Returns how many
/// ports are ready.
pub(crate) fn wait(
    waiting: &mut [Waiting<'_>],
    timeout: Option<Duration>,
) -> Result<c_int, CallError> {
    let deadline = timeout.map(|timeout| now().saturating_add(timeout.as_nanos() as u64));
    loop {
        let until = arm_all(waiting, deadline);
        // Even if arming fails, the ports that were armed before must be disarmed.
        let slept = match until {
            Ok(until) => sleep(waiting, until),
            Err(error) => Err(error),
        };
        let disarmed = disarm_all(waiting);
        let was_interrupted = slept?;
        let count = disarmed?;
        if count > 0 || was_interrupted || deadline.is_some_and(|deadline| now() >= deadline) {
            return Ok(count);
        }
    }
}

/// Arms all ports. Returns when the sleep must end.
fn arm_all(
    waiting: &mut [Waiting<'_>],
    deadline: Option<Nanos>,
) -> Result<Option<Nanos>, CallError> {
    let mut until = deadline;
    for one in waiting.iter_mut() {
        let (ready, own) = arm(one.port, one.events)?;
        one.ready = ready;
        until = [until, own, (ready != 0).then_some(0)].into_iter().flatten().min();
    }
    Ok(until)
}

/// Disarms all ports, also after an error, so that none stays armed. Returns how many are ready, or
/// the first error.
fn disarm_all(waiting: &mut [Waiting<'_>]) -> Result<c_int, CallError> {
    let mut count = Ok(0);
    for one in waiting.iter_mut() {
        match disarm(one.port, one.events) {
            Ok(ready) => {
                one.ready |= ready;
                count = count.map(|count| count + c_int::from(one.ready != 0));
            }
            Err(error) => count = count.and(Err(error)),
        }
    }
    count
}

/// Sleeps on all descriptors. Returns whether a signal has ended the sleep.
fn sleep(waiting: &[Waiting<'_>], until: Option<Nanos>) -> Result<bool, CallError> {
    let rest = until.map(|until| Duration::from_nanos(until.saturating_sub(now())));
    let rest = rest.map(|rest| Timespec {
        tv_sec: rest.as_secs() as i64,
        tv_nsec: rest.subsec_nanos().into(),
    });
    let fds = waiting.iter().map(|one| PollFd::from_borrowed_fd(one.port.wait_fd(), PollFlags::IN));
    let mut fds: Vec<_> = fds.collect();
    match poll(&mut fds, rest.as_ref()) {
        Ok(_) => Ok(false),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => {
            Err(CallError::new(SLIPRING_ERR_MACHINE, format!("cannot poll descriptors: {error}")))
        }
    }
}

/// Sleeps briefly, at most until `deadline`, between two checks of a condition that no descriptor
/// signals.
pub(crate) fn pause(deadline: Option<Nanos>) {
    let left = deadline.map(|deadline| Duration::from_nanos(deadline.saturating_sub(now())));
    std::thread::sleep(left.map_or(BLIND_WAIT, |left| left.min(BLIND_WAIT)));
}
