//! One measurement: a loop for a bounded time on one CPU, with wall clock and CPU time.

use std::fmt;
use std::io;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use slipring_port::{ErrorClass, Nanos, OpenError, RunError, now};
use slipring_ring::{RegionError, SyncFault};

/// The CPU of senders, generators and the kernel's receive work.
pub(crate) const FEEDER_CPU: usize = 0;
/// The CPU of the measured program.
pub(crate) const PROGRAM_CPU: usize = 1;

/// Why a contender has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BenchError {
    /// The machine lacks something that the contender needs.
    Skipped(String),
    /// The contender ran and failed.
    Failed(String),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skipped(why) => write!(f, "skipped: {why}"),
            Self::Failed(why) => write!(f, "FAILED: {why}"),
        }
    }
}

impl From<io::Error> for BenchError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Skipped(format!("needs root: {error}")),
            io::ErrorKind::NotFound => Self::Skipped(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<rustix::io::Errno> for BenchError {
    fn from(error: rustix::io::Errno) -> Self {
        io::Error::from(error).into()
    }
}

impl From<OpenError> for BenchError {
    fn from(error: OpenError) -> Self {
        let text = format!("{}: {}", error.port, error.cause);
        if error.class() == ErrorClass::Machine { Self::Skipped(text) } else { Self::Failed(text) }
    }
}

impl From<RunError> for BenchError {
    fn from(error: RunError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<SyncFault> for BenchError {
    fn from(error: SyncFault) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<RegionError> for BenchError {
    fn from(error: RegionError) -> Self {
        Self::Skipped(error.to_string())
    }
}

/// The result of one run of a contender.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BenchReading {
    /// The main figure, in the row's unit.
    pub(crate) value: f64,
    /// Packets per second of CPU time, if known.
    pub(crate) per_cpu_second: Option<f64>,
    /// Further figures, in the row's unit.
    pub(crate) extra: Vec<(&'static str, f64)>,
}

impl BenchReading {
    /// A result with a single figure.
    pub(crate) fn of(value: f64) -> Self {
        Self { value, per_cpu_second: None, extra: Vec::new() }
    }
}

/// Number of packets, and the time they took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BenchTally {
    pub(crate) packets: u64,
    pub(crate) wall: Nanos,
    /// CPU time; 0 if unknown.
    pub(crate) cpu: Nanos,
}

impl From<BenchTally> for BenchReading {
    fn from(tally: BenchTally) -> Self {
        let per_second = |nanos: Nanos| tally.packets as f64 * 1e9 / nanos.max(1) as f64;
        let per_cpu_second = (tally.cpu > 0).then(|| per_second(tally.cpu));
        Self { value: per_second(tally.wall), per_cpu_second, extra: Vec::new() }
    }
}

/// Repeats `work`, which returns how many packets it processed, for `time`.
pub(crate) fn tally<E>(
    time: Duration,
    mut work: impl FnMut() -> Result<u64, E>,
) -> Result<BenchTally, E> {
    let (start, cpu) = (now(), thread_cpu());
    let until = start + time.as_nanos() as Nanos;
    let mut packets = 0;
    loop {
        // The clock is read after 16 rounds only: reading it each time would cost too much.
        for _ in 0..16 {
            packets += work()?;
        }
        let time = now();
        if time >= until {
            return Ok(BenchTally { packets, wall: time - start, cpu: thread_cpu() - cpu });
        }
    }
}

/// Runs `work` in a separate thread on one CPU.
pub(crate) fn on_cpu<T: Send>(cpu: usize, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            pin(cpu);
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Binds the calling thread to a CPU. If the machine does not have that CPU, the thread stays
/// unbound.
pub(crate) fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    let _ = sched_setaffinity(None, &set);
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as Nanos * 1_000_000_000 + time.tv_nsec as Nanos
}

/// CPU time of another process, summed over its living threads; `None` when it has ended.
pub(crate) fn process_cpu(pid: u32) -> Option<Nanos> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let spent = |task: io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        stat.split_ascii_whitespace().next()?.parse::<Nanos>().ok()
    };
    Some(tasks.filter_map(spent).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_is_packets_over_time_and_over_cpu_time() {
        let reading = BenchReading::from(BenchTally { packets: 10, wall: 1_000, cpu: 500 });
        assert_eq!((reading.value, reading.per_cpu_second), (1e7, Some(2e7)));
        assert_eq!(
            BenchReading::from(BenchTally { packets: 1, wall: 1, cpu: 0 }).per_cpu_second,
            None
        );
    }

    #[test]
    fn a_loop_counts_what_its_rounds_did() {
        let mut rounds = 0;
        let result: Result<_, ()> = tally(Duration::ZERO, || {
            rounds += 1;
            Ok(3)
        });
        assert_eq!(result.unwrap().packets, 3 * rounds);
    }

    #[test]
    fn own_cpu_time_is_seen_from_outside() {
        assert!(process_cpu(std::process::id()).unwrap() > 0);
        assert_eq!(process_cpu(u32::MAX), None);
    }
}
