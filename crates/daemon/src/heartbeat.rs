//! Detects that a worker under `--supervise` no longer answers.
//!
//! ```text
//!   worker                                     supervisor
//!   once per HEARTBEAT_PERIOD, if healthy  ->  an eventfd: the worker is alive
//!                                              a period without that: a miss, unless
//!                                              the worker waits for a processor or a disk
//!                                              MAX_MISSED_PERIODS in a row: the worker hangs
//! ```
//!
//! What counts is how often the supervisor has waited in vain, not the elapsed time. If the
//! supervisor got no processor time or was stopped, this counts as one wait. A worker signals with
//! an eventfd. In contrast to a datagram, it never blocks the worker while the supervisor is
//! stopped.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::Pid;

/// Time between two signals of a worker that it is alive.
pub(crate) const HEARTBEAT_PERIOD: Duration = Duration::from_millis(200);
/// A serving worker counts as hung after this many periods in a row without a signal.
const MAX_MISSED_PERIODS: u32 = 4;
/// Like [`MAX_MISSED_PERIODS`], but for a worker that does not serve yet. Such a worker opens
/// interfaces again, which may take long.
const MAX_MISSED_PERIODS_AT_START: u32 = 300;
/// The name of the eventfd among the descriptors that are passed to a worker.
pub(crate) const HEARTBEAT_FD_NAME: &str = "heartbeat";

/// The supervisor's end of the heartbeat.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    beats: OwnedFd,
    missed_periods: u32,
    last_states: ThreadStates,
}

/// The states of the threads that a worker needs to answer requests, by thread id: the state
/// letter, and the processor time in clock ticks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ThreadStates(HashMap<u32, (char, u64)>);

impl Heartbeat {
    pub(crate) fn new() -> io::Result<Self> {
        let beats = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { beats, missed_periods: 0, last_states: ThreadStates::default() })
    }

    /// Returns a descriptor that is readable when the worker has signalled.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.beats.as_fd()
    }

    /// Takes the worker's signals. Returns whether there were any.
    pub(crate) fn take_beats(&mut self) -> bool {
        let has_beaten = rustix::io::read(&self.beats, &mut [0; 8]).is_ok();
        if has_beaten {
            (self.missed_periods, self.last_states) = (0, ThreadStates::default());
        }
        has_beaten
    }

    /// Records a period without a signal. Returns whether the worker counts as hung.
    pub(crate) fn record_miss(&mut self, worker: Pid, serves: bool) -> bool {
        self.is_hung(ThreadStates::read_threads(worker), serves)
    }

    fn is_hung(&mut self, states: ThreadStates, serves: bool) -> bool {
        let counts = !states.was_runnable_since(&self.last_states);
        self.last_states = states;
        self.missed_periods += u32::from(counts);
        self.missed_periods >= if serves { MAX_MISSED_PERIODS } else { MAX_MISSED_PERIODS_AT_START }
    }

    /// Returns the time after which a silent worker counts as hung, if it serves.
    pub(crate) fn timeout() -> Duration {
        HEARTBEAT_PERIOD * MAX_MISSED_PERIODS
    }
}

impl ThreadStates {
    /// Reads the states of the worker's threads. If the worker has ended, there are none.
    fn read_threads(worker: Pid) -> Self {
        let pid = worker.as_raw_nonzero().get() as u32;
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let one = |task: fs::DirEntry| {
            let tid = task.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(task.path().join("stat")).ok()?;
            let (name, state, time) = parse(&stat)?;
            (tid == pid || is_serving_thread(name)).then_some((tid, (state, time)))
        };
        Self(tasks.filter_map(one).collect())
    }

    /// Returns whether a thread was ready to run since `before` but got no processor, or waits for
    /// a disk. A new worker would also have to wait.
    fn was_runnable_since(&self, before: &Self) -> bool {
        self.0.iter().any(|(tid, &(state, time))| match state {
            // A thread that is missing in `before` may not have run yet.
            'R' => before.0.get(tid).is_none_or(|&(_, had)| had == time),
            'D' => true,
            _ => false,
        })
    }
}

/// Returns whether a thread with this name answers requests (slipring-fuse). Sync loops
/// (`fuse-loop`) do not count, because they run only when no other thread does.
fn is_serving_thread(name: &str) -> bool {
    let rest = name.strip_prefix("fuse-").unwrap_or_default();
    rest.starts_with("queue-") || rest.starts_with(|first: char| first.is_ascii_digit())
}

/// Parses the name, the state and the processor time in `/proc/PID/task/TID/stat`
/// (proc_pid_stat(5)).
fn parse(stat: &str) -> Option<(&str, char, u64)> {
    /// Index of the first field with processor time, counted from the state.
    const UTIME_FIELD: usize = 11;
    let (head, rest) = stat.rsplit_once(") ")?;
    let (_, name) = head.split_once(" (")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    let mut times = fields.skip(UTIME_FIELD - 1).map_while(|field| field.parse::<u64>().ok());
    Some((name, state, times.next()? + times.next()?))
}

/// Sends the signal that the worker is alive.
pub(crate) fn send_heartbeat(to: BorrowedFd<'_>) {
    // The counter cannot become full in any realistic time.
    let _ = rustix::io::write(to, &1u64.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread_states(threads: &[(u32, char, u64)]) -> ThreadStates {
        ThreadStates(threads.iter().map(|&(tid, state, time)| (tid, (state, time))).collect())
    }

    /// Returns after how many silent periods the worker counts as hung. `threads` returns the
    /// states of its threads in each period.
    fn silences(serves: bool, threads: impl Fn(u64) -> Vec<(u32, char, u64)>) -> Option<u64> {
        let mut heartbeat = Heartbeat::new().unwrap();
        (1..1000).find(|&period| heartbeat.is_hung(thread_states(&threads(period)), serves))
    }

    #[test]
    fn a_worker_hangs_when_it_sleeps_is_stopped_or_spins_in_silence() {
        assert_eq!(silences(true, |_| vec![(7, 'S', 3), (8, 'S', 3)]), Some(4));
        assert_eq!(silences(true, |_| vec![(7, 'T', 3), (8, 'T', 3)]), Some(4));
        assert_eq!(silences(true, |_| vec![]), Some(4), "it has just ended");
        // The first sample of a running thread cannot show whether the thread has made progress, so
        // this takes one more period.
        assert_eq!(silences(true, |period| vec![(7, 'S', 3), (8, 'R', period)]), Some(5));
    }

    #[test]
    fn a_worker_that_waits_for_a_processor_or_a_disk_does_not_hang() {
        assert_eq!(silences(true, |_| vec![(7, 'R', 3), (8, 'S', 3)]), None);
        assert_eq!(silences(true, |_| vec![(7, 'S', 3), (8, 'D', 3)]), None);
        let gets_a_little = |period| vec![(7, 'R', period / 2)];
        assert_eq!(silences(true, gets_a_little), Some(8), "what it waits is not counted");
    }

    #[test]
    fn a_worker_that_starts_has_more_time_and_one_that_is_heard_all_of_it() {
        assert_eq!(silences(false, |_| vec![(7, 'S', 3)]), Some(300));
        let mut heartbeat = Heartbeat::new().unwrap();
        for _ in 0..10 {
            (0..MAX_MISSED_PERIODS - 1)
                .for_each(|_| assert!(!heartbeat.is_hung(ThreadStates::default(), true)));
            assert!(!heartbeat.take_beats());
            send_heartbeat(heartbeat.fd());
            assert!(heartbeat.take_beats() && !heartbeat.take_beats());
        }
    }

    #[test]
    fn threads_are_known_by_name_and_read_as_the_kernel_writes_them() {
        for (name, answers) in [
            ("fuse-0", true),
            ("fuse-12", true),
            ("fuse-queue-1", true),
            ("fuse-loop", false),
            ("fuse-blocking", false),
            ("nic-pump", false),
        ] {
            assert_eq!(is_serving_thread(name), answers, "{name}");
        }
        let line = "12 (a) b (c) R 1 12 12 0 -1 4194368 17 0 0 0 250 50 0 0 20 0 1 0 99 0 0\n";
        assert_eq!(parse(line), Some(("a) b (c", 'R', 300)));
        assert_eq!(parse(""), None);
        let itself = ThreadStates::read_threads(rustix::process::getpid());
        let own = std::process::id();
        assert!(itself.0.contains_key(&own), "{itself:?}");
    }
}
