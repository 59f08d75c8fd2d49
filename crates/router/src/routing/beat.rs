//! When the routing thread writes a heartbeat, and what it waits for.
//!
//! The kernel gets all packets of a queue whose heartbeat is older than 100 ms. A heartbeat is the
//! time up to which all messages of the kernel have been read, or 50 ms later than that while the
//! router is idle ([`BeatInterval`]). The changes in the messages are in the tables within
//! [`LiveSettings::coalesce_ns`](crate::live::LiveSettings::coalesce_ns), plus the time to write
//! them.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use slipring_port::{Nanos, now};
use slipring_ring::Doorbell;
use slipring_route_bpf::ResidentHeartbeat;

use super::{LATE_BEAT_NS, Routing, RoutingHandle};
use crate::pace::BeatInterval;
use crate::worker::WorkerLink;

/// A time up to which all messages were read. `seen` is by the clock of heartbeats, `at` by
/// [`slipring_port::now`].
pub(super) struct QuietTime {
    seen: u64,
    at: Nanos,
}

impl Routing {
    /// Writes a heartbeat without reading the sockets, after a wait that has shown that they were
    /// empty up to this time. If the tables must be written first, or the time is too old, writes
    /// none and returns false. Otherwise returns whether no other work is due.
    pub(super) fn beat_unread(&mut self, QuietTime { seen, at }: QuietTime) -> bool {
        let time = now();
        let must_publish = self.is_behind || self.publish_at.is_some_and(|at| at <= time);
        // If the process was stopped in between, the time is too old for a heartbeat.
        if must_publish || time > at + LATE_BEAT_NS {
            return false;
        }
        (self.seen, self.seen_at) = (seen, at);
        self.beat();
        let wants_more = !self.mirror.needs_resync().is_empty() || self.neighbours.has_waiting();
        !wants_more && time < self.settle_at
    }

    /// Writes the heartbeats of all queues for the time `self.seen`, or makes the workers write
    /// theirs.
    pub(super) fn beat(&mut self) {
        self.stop_refused();
        let late = LATE_BEAT_NS + self.interval.lead;
        self.interval = BeatInterval::of(self.is_idle());
        let heartbeat = self.seen + self.interval.lead;
        if let Some(own) = self.subinterfaces.as_ref().filter(|_| self.counters.published > 0) {
            own.note_current(self.seen_at);
        }
        if self.workers.is_empty() {
            self.heartbeat.beat_all(heartbeat);
            return;
        }
        let seen = self.seen;
        let was_late = seen.saturating_sub(std::mem::replace(&mut self.told, seen)) > late;
        for worker in &self.workers {
            worker.set_heartbeat(heartbeat);
            if worker.is_parked() {
                worker.queues().iter().for_each(|queue| self.heartbeat.beat(*queue, heartbeat));
            } else if was_late {
                worker.tell(move |worker| worker.catch_up(heartbeat));
            }
        }
    }

    /// Waits for a message, a task, the time to publish, or the next heartbeat. If the wait ended
    /// only because its time was over, returns that time, since no socket was readable until then.
    pub(super) fn wait(&self, handle: &RoutingHandle, stop: &Doorbell) -> Option<QuietTime> {
        let (seen, time) = (ResidentHeartbeat::now(), now());
        let until = self.publish_at.unwrap_or(Nanos::MAX).min(time + self.interval.period);
        let [links, routes, ipv6] = self.feed.descriptors();
        let fds = [links, routes, ipv6, handle.tasks.wake_fd(), stop.as_fd()];
        let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let left = until.saturating_sub(time);
        let timeout = Timespec { tv_sec: 0, tv_nsec: left as _ };
        // Even if a signal interrupted the poll, the caller checks all conditions.
        let is_quiet = poll(&mut fds, Some(&timeout)) == Ok(0);
        is_quiet.then_some(QuietTime { seen: seen + left, at: time + left })
    }

    /// Whether long intervals between heartbeats are enough, because nothing has been forwarded for
    /// a while.
    fn is_idle(&self) -> bool {
        let has_sleeping_threads = match self.workers[..] {
            // The thread of subinterfaces, if there is one, compares times without a lead.
            [] => self.subinterfaces.is_none(),
            ref workers => workers.iter().all(WorkerLink::is_parked),
        };
        has_sleeping_threads && self.pace.is_idle(now())
    }
}
