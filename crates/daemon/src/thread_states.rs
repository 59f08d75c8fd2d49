//! How much of a period the threads of a process could have used, by what the kernel says of them.
//!
//! ```text
//!   state when seen             what counts of the period
//!   sleeps or is stopped        all of it, less the waits for a processor that ended in it
//!   ready (perhaps it runs)     what it has run: the wait that it may be in is not known yet
//!   waits for a disk            nothing
//!   has ended                   nothing: there is nothing left to wait for
//! ```

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Pid;

/// Length of a clock tick of `/proc`, in ms, on all of Linux's architectures that slipring runs on.
const MS_PER_TICK: u64 = 10;
/// The name of the threads with sync loops (slipring-fuse).
const SYNC_LOOP: &str = "fuse-loop";

/// The states of a process's threads, by thread id, without those of its sync loops.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ThreadStates(HashMap<u32, ThreadState>);

/// What the kernel says of a thread (proc_pid_stat(5), proc_pid_schedstat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ThreadState {
    letter: char,
    times: ThreadTimes,
}

/// Times since the start of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ThreadTimes {
    /// How long the thread has run.
    run: Duration,
    /// How long it was ready to run, but had no processor. A wait counts when it is over.
    delay: Duration,
}

impl ThreadStates {
    /// Reads the states of a process's threads. If the process has ended, there are none.
    pub(crate) fn read(process: Pid) -> Self {
        let tasks = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()));
        let one = |task: fs::DirEntry| {
            let tid = task.file_name().to_str()?.parse().ok()?;
            Some((tid, ThreadState::read(&task.path())?))
        };
        Self(tasks.into_iter().flatten().flatten().filter_map(one).collect())
    }

    /// Returns how much of a period all threads could have used since `before`. If there are no
    /// threads, this is the whole period.
    ///
    /// A thread may wait for any other one: for its end, for a lock, for an answer. So the thread
    /// with the least opportunity counts.
    pub(crate) fn opportunity_since(&self, before: &Self, period: Duration) -> Duration {
        let all = self.0.iter().map(|(tid, state)| {
            // A thread that is not in `before` has started since then.
            let before = before.0.get(tid).map(|state| state.times).unwrap_or_default();
            state.opportunity_since(before, period)
        });
        all.min().unwrap_or(period)
    }
}

impl ThreadState {
    /// Reads the state of the thread with this directory in `/proc`. Returns `None` for a thread
    /// that no longer exists. Also returns `None` for a sync loop. A program can make its sync loop
    /// never sleep. The loop may have the lowest priority, so its waits for a processor would
    /// excuse every other thread.
    fn read(task: &Path) -> Option<Self> {
        let stat = fs::read_to_string(task.join("stat")).ok()?;
        let (name, letter, ticks) = parse(&stat)?;
        if name == SYNC_LOOP {
            return None;
        }
        let times = fs::read_to_string(task.join("schedstat")).ok();
        let times = times.and_then(|times| parse_times(&times));
        // If the kernel does not report these times, only the time on a processor is known, in
        // ticks.
        let in_ticks = || ThreadTimes {
            run: Duration::from_millis(ticks * MS_PER_TICK),
            delay: Duration::ZERO,
        };
        Some(Self { letter, times: times.unwrap_or_else(in_ticks) })
    }

    fn opportunity_since(&self, before: ThreadTimes, period: Duration) -> Duration {
        let grown = |of: fn(&ThreadTimes) -> Duration| {
            of(&self.times).saturating_sub(of(&before)).min(period)
        };
        match self.letter {
            'R' => grown(|times| times.run),
            'D' | 'Z' | 'X' => Duration::ZERO,
            _ => period - grown(|times| times.delay),
        }
    }
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
fn parse_times(schedstat: &str) -> Option<ThreadTimes> {
    let times = schedstat.split_whitespace().map_while(|field| field.parse::<u64>().ok());
    let mut times = times.map(Duration::from_nanos);
    Some(ThreadTimes { run: times.next()?, delay: times.next()? })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A thread: its id, its state, and for how many ms it has run and waited for a processor.
    pub(crate) type Thread = (u32, char, u64, u64);

    pub(crate) fn thread_states(threads: &[Thread]) -> ThreadStates {
        let state = |&(tid, letter, run, delay): &Thread| {
            let [run, delay] = [run, delay].map(Duration::from_millis);
            (tid, ThreadState { letter, times: ThreadTimes { run, delay } })
        };
        ThreadStates(threads.iter().map(state).collect())
    }

    #[test]
    fn what_counts_of_a_period_is_what_the_thread_with_the_least_opportunity_had() {
        let before = thread_states(&[(7, 'S', 5, 1000), (8, 'R', 50, 1000)]);
        for (now, wanted) in [
            (&[(7, 'S', 5, 1000), (8, 'S', 50, 1000)][..], 200),
            (&[(7, 'S', 5, 1000), (8, 'S', 60, 1190)], 10),
            (&[(7, 'S', 5, 1000), (8, 'R', 80, 1010)], 30),
            (&[(7, 'T', 5, 1020), (8, 'S', 50, 1000)], 180),
            (&[(7, 'D', 5, 1000), (8, 'S', 50, 1000)], 0),
            (&[(7, 'S', 5, 1000), (8, 'S', 50, 9000)], 0),
            (&[(7, 'Z', 5, 1000)], 0),
            (&[(7, 'S', 5, 1000), (9, 'S', 1, 150)], 50),
            (&[(7, 'S', 5, 1000), (9, 'R', 20, 30)], 20),
            (&[], 200),
        ] {
            let counted = thread_states(now).opportunity_since(&before, Duration::from_millis(200));
            assert_eq!(counted, Duration::from_millis(wanted), "{now:?}");
        }
    }

    #[test]
    fn states_are_read_as_the_kernel_writes_them() {
        let line = "12 (a) b (c) R 1 12 12 0 -1 4194368 17 0 0 0 250 50 0 0 20 0 1 0 99 0 0\n";
        assert_eq!(parse(line), Some(("a) b (c", 'R', 300)));
        assert_eq!(parse(""), None);
        let [run, delay] = [1_500_000, 2_000].map(Duration::from_nanos);
        assert_eq!(parse_times("1500000 2000 7\n"), Some(ThreadTimes { run, delay }));
        assert_eq!(parse_times("1500000\n"), None);
    }

    #[test]
    fn all_threads_of_a_process_are_read_but_its_sync_loops() {
        let with_name = |name: &str| {
            let thread = std::thread::Builder::new().name(name.into());
            let work = || {
                let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
                (tid, ThreadStates::read(rustix::process::getpid()).0)
            };
            thread.spawn(work).unwrap().join().unwrap()
        };
        for (name, is_read) in [("fuse-0", true), ("nic-pump", true), (SYNC_LOOP, false)] {
            let (tid, states) = with_name(name);
            assert_eq!(states.contains_key(&tid), is_read, "{name}");
            assert!(states.contains_key(&std::process::id()), "{states:?}");
        }
    }
}
