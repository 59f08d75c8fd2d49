//! Detects that a worker under `--supervise` no longer answers.
//!
//! ```text
//!   worker                                     supervisor
//!   READY=1: it serves from now on         ->  the worker is alive
//!   once per HEARTBEAT_PERIOD, if healthy  ->  an eventfd: the worker is alive
//!                                              periods without that are silence; the worker hangs
//!                                                after max_missed periods in which its threads
//!                                                could act, or max_silent periods of any kind
//! ```
//!
//! A wait of the supervisor counts as at most one period. So if the supervisor got no processor
//! time or was stopped, this counts as one period. A thread cannot act while it waits for a
//! processor or a disk. The worker's thread that could act for the shortest time counts, because
//! another thread may wait for it (`thread_states`); sync loops are left out. So on a busy machine,
//! it takes longer until a worker that hangs is found. A thread that waits for ever in the kernel
//! hides that its worker hangs. Hence the limit for silence of any kind.
//!
//! A worker signals with an eventfd. In contrast to a datagram, it never blocks the worker while
//! the supervisor is stopped.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::Pid;

use crate::thread_states::ThreadStates;

/// Time between two signals of a worker that it is alive.
pub(crate) const HEARTBEAT_PERIOD: Duration = Duration::from_millis(200);
/// The limits for a serving worker.
const SERVING: SilenceLimits = SilenceLimits { max_missed: 4, max_silent: 300 };
/// The limits for a worker that does not serve yet. It opens interfaces again, which may take long.
const STARTING: SilenceLimits = SilenceLimits { max_missed: 300, max_silent: 1500 };
/// The name of the eventfd among the descriptors that are passed to a worker.
pub(crate) const HEARTBEAT_FD_NAME: &str = "heartbeat";

/// The supervisor's end of the heartbeat.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    beats: OwnedFd,
    heard_at: Instant,
    /// Number of periods without a sign of life.
    missed: u32,
    /// The part of the silence in which all threads of the worker could act.
    opportunity: Duration,
    last_states: ThreadStates,
}

/// How many periods of silence make a worker count as hung.
#[derive(Debug)]
struct SilenceLimits {
    /// Limit for the number of silent periods in which all threads could act.
    max_missed: u32,
    /// Limit for the number of all silent periods, whether or not the threads could act.
    max_silent: u32,
}

/// A silence after which a worker counts as hung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Silence {
    pub(crate) length: Duration,
    /// The part of it in which all threads of the worker could act.
    pub(crate) opportunity: Duration,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [length, opportunity] = [self.length, self.opportunity].map(|time| time.as_millis());
        write!(
            f,
            "{length} ms without an answer, in {opportunity} ms of which it could have given one"
        )
    }
}

impl Heartbeat {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            beats: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            heard_at: Instant::now(),
            missed: 0,
            opportunity: Duration::ZERO,
            last_states: ThreadStates::default(),
        })
    }

    /// Returns a descriptor that is readable when the worker has signalled.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.beats.as_fd()
    }

    /// Takes the worker's signals. Returns whether there were any.
    pub(crate) fn take_beats(&self) -> bool {
        rustix::io::read(&self.beats, &mut [0; 8]).is_ok()
    }

    /// Records a sign of life. The silence before it no longer counts.
    pub(crate) fn record_life(&mut self, worker: Pid) {
        self.restart(ThreadStates::read(worker), Instant::now());
    }

    /// Records a period without a sign of life. Returns the silence if the worker counts as hung.
    pub(crate) fn record_miss(&mut self, worker: Pid, serves: bool) -> Option<Silence> {
        self.miss(ThreadStates::read(worker), Instant::now(), serves)
    }

    fn restart(&mut self, states: ThreadStates, now: Instant) {
        (self.heard_at, self.missed) = (now, 0);
        (self.opportunity, self.last_states) = (Duration::ZERO, states);
    }

    fn miss(&mut self, states: ThreadStates, now: Instant, serves: bool) -> Option<Silence> {
        self.opportunity += states.opportunity_since(&self.last_states, HEARTBEAT_PERIOD);
        self.last_states = states;
        self.missed += 1;
        let limits = if serves { SERVING } else { STARTING };
        // Even on an idle processor, a thread waits for a few microseconds until it runs. The limit
        // is half a period lower to allow for such waits.
        let max_missed = HEARTBEAT_PERIOD * limits.max_missed - HEARTBEAT_PERIOD / 2;
        let is_hung = self.opportunity >= max_missed || self.missed >= limits.max_silent;
        let length = now.saturating_duration_since(self.heard_at);
        is_hung.then_some(Silence { length, opportunity: self.opportunity })
    }
}

/// Sends the signal that the worker is alive.
pub(crate) fn send_heartbeat(to: BorrowedFd<'_>) {
    // The counter cannot become full in any realistic time.
    let _ = rustix::io::write(to, &1u64.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread_states::tests::{Thread, thread_states};

    /// Number of silent periods after which a worker counts as hung if none of the silence is time
    /// in which all its threads could act.
    const ANY_SILENCE: Option<u64> = Some(300);

    /// Returns after how many silent periods the worker counts as hung. `threads` returns the
    /// states of its threads in each period. Period 0 ends with a sign of life.
    fn silences(serves: bool, threads: impl Fn(u64) -> Vec<Thread>) -> Option<u64> {
        let mut heartbeat = Heartbeat::new().unwrap();
        let now = heartbeat.heard_at;
        heartbeat.restart(thread_states(&threads(0)), now);
        (1..2000)
            .find(|&period| heartbeat.miss(thread_states(&threads(period)), now, serves).is_some())
    }

    #[test]
    fn a_worker_hangs_when_it_sleeps_is_stopped_or_spins_in_silence() {
        assert_eq!(silences(true, |_| vec![(7, 'S', 3, 0), (8, 'S', 3, 0)]), Some(4));
        assert_eq!(silences(true, |_| vec![(7, 'T', 3, 0), (8, 'T', 3, 0)]), Some(4));
        assert_eq!(silences(true, |_| vec![]), Some(4), "nothing is known of it");
        let spins = |period| vec![(7, 'S', 3, 0), (8, 'R', 200 * period, 0)];
        assert_eq!(silences(true, spins), Some(4));
        let was_busy_before = |_| vec![(7, 'S', 3000, 9000)];
        assert_eq!(silences(true, was_busy_before), Some(4));
    }

    #[test]
    fn a_worker_that_waits_for_a_processor_or_a_disk_does_not_hang_for_a_minute() {
        assert_eq!(silences(true, |_| vec![(7, 'R', 3, 0), (8, 'S', 3, 0)]), ANY_SILENCE);
        assert_eq!(silences(true, |_| vec![(7, 'S', 3, 0), (8, 'D', 3, 0)]), ANY_SILENCE);
        assert_eq!(silences(false, |_| vec![(7, 'D', 3, 0)]), Some(1500));
    }

    #[test]
    fn a_worker_that_is_ending_does_not_hang() {
        assert_eq!(silences(true, |_| vec![(7, 'Z', 3, 0)]), ANY_SILENCE);
    }

    #[test]
    fn only_the_time_in_which_a_worker_has_a_processor_or_needs_none_counts() {
        let runs_a_little = |period| vec![(7, 'R', 10 * period, 190 * period)];
        assert_eq!(silences(true, runs_a_little), Some(70), "700 ms of 10 ms each");
        let sleeps_when_seen = |period| vec![(7, 'S', 10 * period, 190 * period)];
        assert_eq!(silences(true, sleeps_when_seen), Some(70), "the first period, too");
        let waits_more_than_a_period = |period| vec![(7, 'S', 0, 1000 * period)];
        assert_eq!(silences(true, waits_more_than_a_period), ANY_SILENCE);
        let has_half = |period| vec![(7, 'R', 100 * period, 100 * period)];
        assert_eq!(silences(true, has_half), Some(7));
    }

    #[test]
    fn a_thread_that_waits_for_another_one_has_no_more_opportunity_than_that() {
        // The thread that sends the heartbeats waits for a lock. The thread that has the lock waits
        // for a processor.
        let starves = |period| vec![(7, 'S', 3, 0), (8, 'S', 3, 200 * period)];
        assert_eq!(silences(true, starves), ANY_SILENCE);
        let get_on_by_turns = |period| {
            let waited = |first| (period + first) / 2 * 200;
            vec![(7, 'S', 3, 0), (8, 'S', 3, waited(0)), (9, 'S', 3, waited(1))]
        };
        assert_eq!(silences(true, get_on_by_turns), ANY_SILENCE);
        // In each period, one thread ends and the next one starts. Each of them first waits for a
        // processor.
        let one_after_the_other = |period| vec![(7, 'S', 3, 0), (100 + period as u32, 'S', 1, 190)];
        assert_eq!(silences(true, one_after_the_other), Some(70));
    }

    #[test]
    fn a_worker_that_starts_has_more_time_and_one_that_is_heard_all_of_it() {
        let asleep = || thread_states(&[(7, 'S', 3, 0)]);
        assert_eq!(silences(false, |_| vec![(7, 'S', 3, 0)]), Some(300));
        let mut heartbeat = Heartbeat::new().unwrap();
        let now = heartbeat.heard_at;
        for _ in 0..10 {
            (0..SERVING.max_missed - 1)
                .for_each(|_| assert_eq!(heartbeat.miss(asleep(), now, true), None));
            assert!(!heartbeat.take_beats());
            send_heartbeat(heartbeat.fd());
            assert!(heartbeat.take_beats() && !heartbeat.take_beats());
            heartbeat.restart(asleep(), now);
        }
    }

    #[test]
    fn the_silence_of_a_slow_start_ends_when_the_worker_is_ready() {
        let asleep = || thread_states(&[(7, 'S', 3, 0)]);
        let mut heartbeat = Heartbeat::new().unwrap();
        let now = heartbeat.heard_at;
        (0..100).for_each(|_| assert_eq!(heartbeat.miss(asleep(), now, false), None));
        heartbeat.restart(asleep(), now);
        let missed = (1..10).find(|_| heartbeat.miss(asleep(), now, true).is_some());
        assert_eq!(missed, Some(4), "from then on, it has the time of a serving one");
    }

    #[test]
    fn a_silence_is_told_as_it_was() {
        let mut heartbeat = Heartbeat::new().unwrap();
        let start = heartbeat.heard_at;
        heartbeat.restart(thread_states(&[(7, 'S', 3, 0)]), start + Duration::from_secs(60));
        let silence = (1..100).find_map(|i| {
            let now = start + Duration::from_secs(60) + Duration::from_millis(250) * i;
            heartbeat.miss(thread_states(&[(7, 'S', 3, u64::from(i) * 100)]), now, true)
        });
        assert_eq!(
            silence.unwrap().to_string(),
            "1750 ms without an answer, in 700 ms of which it could have given one"
        );
    }
}
