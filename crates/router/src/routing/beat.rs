//! When the routing thread writes a heartbeat, and what it waits for.
//!
//! The kernel gets all packets of a queue whose heartbeat is older than 100 ms. A heartbeat is the
//! time up to which all messages of the kernel have been read. The changes in them are in the
//! tables within [`LiveSettings::coalesce_ns`](crate::live::LiveSettings::coalesce_ns), plus the
//! time to write them.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use slipring_port::{Nanos, now};
use slipring_ring::Doorbell;
use slipring_route_bpf::ResidentHeartbeat;

use super::{LATE_BEAT_NS, Routing, RoutingHandle};
use crate::pace::BeatPace;
use crate::worker::WorkerLink;

/// A time up to which all messages were read. `seen` is by the clock of heartbeats, `at` by
/// [`slipring_port::now`].
pub(super) struct QuietTime {
    seen: u64,
    at: Nanos,
}

impl Routing {
    /// Writes a heartbeat without reading the sockets, after a wait that has shown that they were
    /// empty up to this time. Returns whether no other work is due.
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
        if let Some(own) = self.subinterfaces.as_ref().filter(|_| self.counters.published > 0) {
            own.note_current(self.seen_at);
        }
        if self.workers.is_empty() {
            self.heartbeat.beat_all(self.seen);
            return;
        }
        let seen = self.seen;
        let was_late = seen.saturating_sub(std::mem::replace(&mut self.told, seen)) > LATE_BEAT_NS;
        for worker in &self.workers {
            worker.set_seen(seen);
            if worker.is_parked() {
                worker.queues().iter().for_each(|queue| self.heartbeat.beat(*queue, seen));
            } else if was_late {
                worker.tell(move |worker| worker.catch_up(seen));
            }
        }
    }

    /// Waits for a message, a task, the time to publish, or the next heartbeat. If the wait ended
    /// only because its time was over, returns that time, since no socket was readable until then.
    pub(super) fn wait(&self, handle: &RoutingHandle, stop: &Doorbell) -> Option<QuietTime> {
        let (seen, time) = (ResidentHeartbeat::now(), now());
        let until = self.publish_at.unwrap_or(Nanos::MAX).min(time + self.beat_period(time));
        let [links, routes, ipv6] = self.feed.descriptors();
        let fds = [links, routes, ipv6, handle.tasks.wake_fd(), stop.as_fd()];
        let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let left = until.saturating_sub(time);
        let timeout = Timespec { tv_sec: 0, tv_nsec: left as _ };
        // Even if a signal interrupted the poll, the caller checks all conditions.
        let is_quiet = poll(&mut fds, Some(&timeout)) == Ok(0);
        is_quiet.then_some(QuietTime { seen: seen + left, at: time + left })
    }

    fn beat_period(&self, time: Nanos) -> Nanos {
        if !self.workers.is_empty() {
            let are_parked = self.workers.iter().all(WorkerLink::is_parked);
            BeatPace::period_of_threads(are_parked && self.pace.is_idle(time))
        } else if self.subinterfaces.is_some() {
            BeatPace::period_of_threads(false)
        } else {
            self.pace.period(time)
        }
    }
}
