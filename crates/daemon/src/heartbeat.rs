//! Whether a worker under `--supervise` still answers.
//!
//! ```text
//!   worker                                    supervisor
//!   once in a PERIOD, if all is well   ---->  an eventfd: the worker is alive
//!                                             a PERIOD without that: a silence, which counts unless
//!                                             the worker waits for a processor or for a disk
//!                                             MAX_SILENCES in a row: the worker hangs
//! ```
//!
//! What counts is how often the supervisor has waited in vain, not how long it took: one that was
//! starved or stopped itself has waited once. An eventfd, unlike a datagram, never keeps the worker
//! waiting for a supervisor that is stopped.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::Pid;

/// How often a worker says that it is alive.
pub(crate) const HEARTBEAT_PERIOD: Duration = Duration::from_millis(200);
/// Periods in a row without a word, after which a worker that serves is taken to hang.
const MAX_MISSED_PERIODS: u32 = 4;
/// The same for one that has not begun to serve: it opens interfaces again, which may take its time.
const MAX_MISSED_PERIODS_AT_START: u32 = 300;
/// The descriptor's name among those that a worker is handed.
pub(crate) const HEARTBEAT_FD_NAME: &str = "heartbeat";

/// The supervisor's end.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    beats: OwnedFd,
    missed_periods: u32,
    last_states: ThreadStates,
}

/// The threads of a worker on which its answers depend: what state each is in, and the processor time
/// that it has had, in the kernel's ticks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ThreadStates(HashMap<u32, (char, u64)>);

impl Heartbeat {
    pub(crate) fn new() -> io::Result<Self> {
        let beats = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { beats, missed_periods: 0, last_states: ThreadStates::default() })
    }

    /// Readable when the worker has said that it is alive.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.beats.as_fd()
    }

    /// Takes what the worker has said; whether it has said anything.
    pub(crate) fn take_beats(&mut self) -> bool {
        let heard = rustix::io::read(&self.beats, &mut [0; 8]).is_ok();
        if heard {
            (self.missed_periods, self.last_states) = (0, ThreadStates::default());
        }
        heard
    }

    /// A period has passed without a word from the worker; whether it hangs.
    pub(crate) fn record_miss(&mut self, worker: Pid, serves: bool) -> bool {
        self.is_hung(ThreadStates::read_threads(worker), serves)
    }

    fn is_hung(&mut self, look: ThreadStates, serves: bool) -> bool {
        let counts = !look.was_runnable_since(&self.last_states);
        self.last_states = look;
        self.missed_periods += u32::from(counts);
        self.missed_periods >= if serves { MAX_MISSED_PERIODS } else { MAX_MISSED_PERIODS_AT_START }
    }

    /// How long a worker that serves is waited for.
    pub(crate) fn timeout() -> Duration {
        HEARTBEAT_PERIOD * MAX_MISSED_PERIODS
    }
}

impl ThreadStates {
    /// One that has ended meanwhile has no threads, and waits for nothing.
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

    /// Whether one of the threads could go on, but that others have the processors or a disk is slow:
    /// another worker would have to wait for the same.
    fn was_runnable_since(&self, before: &Self) -> bool {
        self.0.iter().any(|(tid, &(state, time))| match state {
            // Of one that was not seen before nobody knows.
            'R' => before.0.get(tid).is_none_or(|&(_, had)| had == time),
            'D' => true,
            _ => false,
        })
    }
}

/// Whether a thread of this name answers requests (slipring-fuse). Sync loops, which are called
/// `door-loop`, run when nothing else does.
fn is_serving_thread(name: &str) -> bool {
    let rest = name.strip_prefix("door-").unwrap_or_default();
    rest.starts_with("queue-") || rest.starts_with(|first: char| first.is_ascii_digit())
}

/// Name, state and processor time of a line of `/proc/PID/task/TID/stat` (proc_pid_stat(5)).
fn parse(stat: &str) -> Option<(&str, char, u64)> {
    /// Where the two parts of the processor time stand, counted from the state.
    const UTIME_FIELD: usize = 11;
    let (head, rest) = stat.rsplit_once(") ")?;
    let (_, name) = head.split_once(" (")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    let mut times = fields.skip(UTIME_FIELD - 1).map_while(|field| field.parse::<u64>().ok());
    Some((name, state, times.next()? + times.next()?))
}

/// The worker's end: says that it is alive.
pub(crate) fn send_heartbeat(to: BorrowedFd<'_>) {
    // A counter that is full has not been heard for longer than anybody lives.
    let _ = rustix::io::write(to, &1u64.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(threads: &[(u32, char, u64)]) -> ThreadStates {
        ThreadStates(threads.iter().map(|&(tid, state, time)| (tid, (state, time))).collect())
    }

    /// How many periods of silence it takes, where the threads look like that in each of them.
    fn silences(serves: bool, threads: impl Fn(u64) -> Vec<(u32, char, u64)>) -> Option<u64> {
        let mut heartbeat = Heartbeat::new().unwrap();
        (1..1000).find(|&period| heartbeat.is_hung(look(&threads(period)), serves))
    }

    #[test]
    fn a_worker_hangs_when_it_sleeps_is_stopped_or_spins_in_silence() {
        assert_eq!(silences(true, |_| vec![(7, 'S', 3), (8, 'S', 3)]), Some(4));
        assert_eq!(silences(true, |_| vec![(7, 'T', 3), (8, 'T', 3)]), Some(4));
        assert_eq!(silences(true, |_| vec![]), Some(4), "it has just ended");
        // Of the first look at what runs nobody knows whether it has got on.
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
            ("door-0", true),
            ("door-12", true),
            ("door-queue-1", true),
            ("door-loop", false),
            ("door-desk", false),
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
