//! Detects that a worker under `--supervise` no longer answers.
//!
//! ```text
//!   worker                                     supervisor
//!   once per HEARTBEAT_PERIOD, if healthy  ->  an eventfd: the worker is alive
//!                                              a period without that: silence, less the time
//!                                              that the worker waited for a processor or a disk
//!                                              MAX_MISSED_PERIODS of silence: the worker hangs
//! ```
//!
//! A wait of the supervisor counts as at most one period. So if the supervisor got no processor
//! time or was stopped, this counts as one period. Of the worker's threads, the one with the least
//! opportunity to act counts, because another thread may wait for it. A worker signals with
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
/// A serving worker counts as hung after a silence of this many periods.
const MAX_MISSED_PERIODS: u32 = 4;
/// Like [`MAX_MISSED_PERIODS`], but for a worker that does not serve yet. Such a worker opens
/// interfaces again, which may take long.
const MAX_MISSED_PERIODS_AT_START: u32 = 300;
/// Length of a clock tick of `/proc`, in ms, on all of Linux's architectures that slipring runs on.
const MS_PER_TICK: u64 = 10;
/// The name of the eventfd among the descriptors that are passed to a worker.
pub(crate) const HEARTBEAT_FD_NAME: &str = "heartbeat";

/// The supervisor's end of the heartbeat.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    beats: OwnedFd,
    silence: Duration,
    last_states: ThreadStates,
}

/// The states of the threads that a worker needs to answer requests, by thread id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ThreadStates(HashMap<u32, ThreadState>);

/// What the kernel says of a thread (proc_pid_stat(5), proc_pid_schedstat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ThreadState {
    letter: char,
    /// How long the thread has run.
    run: Duration,
    /// How long it was ready to run, but had no processor. A wait counts when it is over.
    delay: Duration,
}

impl Heartbeat {
    pub(crate) fn new() -> io::Result<Self> {
        let beats = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { beats, silence: Duration::ZERO, last_states: ThreadStates::default() })
    }

    /// Returns a descriptor that is readable when the worker has signalled.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.beats.as_fd()
    }

    /// Takes the worker's signals. Returns whether there were any.
    pub(crate) fn take_beats(&mut self) -> bool {
        let has_beaten = rustix::io::read(&self.beats, &mut [0; 8]).is_ok();
        if has_beaten {
            (self.silence, self.last_states) = (Duration::ZERO, ThreadStates::default());
        }
        has_beaten
    }

    /// Records a period without a signal. Returns whether the worker counts as hung.
    pub(crate) fn record_miss(&mut self, worker: Pid, serves: bool) -> bool {
        self.is_hung(ThreadStates::read_threads(worker), serves)
    }

    fn is_hung(&mut self, states: ThreadStates, serves: bool) -> bool {
        self.silence += states.opportunity_since(&self.last_states);
        self.last_states = states;
        let periods = if serves { MAX_MISSED_PERIODS } else { MAX_MISSED_PERIODS_AT_START };
        // Even an idle processor makes a thread wait for a few microseconds. Half a period less
        // makes up for them.
        self.silence >= HEARTBEAT_PERIOD * periods - HEARTBEAT_PERIOD / 2
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
            let (name, letter, ticks) = parse(&stat)?;
            let times = fs::read_to_string(task.path().join("schedstat")).ok();
            // A kernel without these times has the processor time, in ticks, only.
            let (run, delay) = times
                .and_then(|times| parse_times(&times))
                .unwrap_or((Duration::from_millis(ticks * MS_PER_TICK), Duration::ZERO));
            let state = ThreadState { letter, run, delay };
            (tid == pid || is_serving_thread(name)).then_some((tid, state))
        };
        Self(tasks.filter_map(one).collect())
    }

    /// Returns how much of the period since `before` each thread could have used to answer. A new
    /// worker would also have to wait for processors and disks.
    fn opportunity_since(&self, before: &Self) -> Duration {
        let all = self.0.iter().map(|(tid, state)| state.opportunity_since(before.0.get(tid)));
        all.min().unwrap_or(HEARTBEAT_PERIOD)
    }
}

impl ThreadState {
    fn opportunity_since(&self, before: Option<&Self>) -> Duration {
        let grown = |now: Duration, of: fn(&Self) -> Duration| {
            now.saturating_sub(before.map_or(now, of)).min(HEARTBEAT_PERIOD)
        };
        match self.letter {
            // It may have been waiting for a processor, so only what it has run counts.
            'R' => grown(self.run, |state| state.run),
            'D' => Duration::ZERO,
            _ => HEARTBEAT_PERIOD - grown(self.delay, |state| state.delay),
        }
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

/// Parses how long a thread has run and waited for a processor, in `/proc/PID/task/TID/schedstat`
/// (both in ns).
fn parse_times(schedstat: &str) -> Option<(Duration, Duration)> {
    let mut times = schedstat.split_whitespace().map_while(|field| field.parse::<u64>().ok());
    Some((Duration::from_nanos(times.next()?), Duration::from_nanos(times.next()?)))
}

/// Sends the signal that the worker is alive.
pub(crate) fn send_heartbeat(to: BorrowedFd<'_>) {
    // The counter cannot become full in any realistic time.
    let _ = rustix::io::write(to, &1u64.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread: its id, its state, and for how many ms it has run and waited for a processor.
    type Thread = (u32, char, u64, u64);

    fn thread_states(threads: &[Thread]) -> ThreadStates {
        let state = |&(tid, letter, run, delay): &Thread| {
            let [run, delay] = [run, delay].map(Duration::from_millis);
            (tid, ThreadState { letter, run, delay })
        };
        ThreadStates(threads.iter().map(state).collect())
    }

    /// Returns after how many silent periods the worker counts as hung. `threads` returns the
    /// states of its threads in each period.
    fn silences(serves: bool, threads: impl Fn(u64) -> Vec<Thread>) -> Option<u64> {
        let mut heartbeat = Heartbeat::new().unwrap();
        (1..1000).find(|&period| heartbeat.is_hung(thread_states(&threads(period)), serves))
    }

    #[test]
    fn a_worker_hangs_when_it_sleeps_is_stopped_or_spins_in_silence() {
        assert_eq!(silences(true, |_| vec![(7, 'S', 3, 0), (8, 'S', 3, 0)]), Some(4));
        assert_eq!(silences(true, |_| vec![(7, 'T', 3, 0), (8, 'T', 3, 0)]), Some(4));
        assert_eq!(silences(true, |_| vec![]), Some(4), "it has just ended");
        // The first sample of a running thread cannot show how long the thread has run, so this
        // takes one more period.
        let spins = |period| vec![(7, 'S', 3, 0), (8, 'R', 200 * period, 0)];
        assert_eq!(silences(true, spins), Some(5));
    }

    #[test]
    fn a_worker_that_waits_for_a_processor_or_a_disk_does_not_hang() {
        assert_eq!(silences(true, |_| vec![(7, 'R', 3, 0), (8, 'S', 3, 0)]), None);
        assert_eq!(silences(true, |_| vec![(7, 'S', 3, 0), (8, 'D', 3, 0)]), None);
    }

    #[test]
    fn only_the_time_in_which_a_worker_has_a_processor_or_needs_none_counts() {
        let runs_a_little = |period| vec![(7, 'R', 10 * period, 190 * period)];
        assert_eq!(silences(true, runs_a_little), Some(71), "700 ms of 10 ms each, and the first");
        let sleeps_when_seen = |period| vec![(7, 'S', 10 * period, 190 * period)];
        assert_eq!(silences(true, sleeps_when_seen), Some(51), "200 ms, then 10 ms each");
        let waits_more_than_a_period = |period| vec![(7, 'S', 0, 1000 * period)];
        assert_eq!(silences(true, waits_more_than_a_period), None);
        let has_half = |period| vec![(7, 'R', 100 * period, 100 * period)];
        assert_eq!(silences(true, has_half), Some(8));
    }

    #[test]
    fn a_worker_that_starts_has_more_time_and_one_that_is_heard_all_of_it() {
        assert_eq!(silences(false, |_| vec![(7, 'S', 3, 0)]), Some(300));
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
        let [run, delay] = [1_500_000, 2_000].map(Duration::from_nanos);
        assert_eq!(parse_times("1500000 2000 7\n"), Some((run, delay)));
        assert_eq!(parse_times("1500000\n"), None);
        let itself = ThreadStates::read_threads(rustix::process::getpid());
        let own = std::process::id();
        assert!(itself.0.contains_key(&own), "{itself:?}");
    }
}
