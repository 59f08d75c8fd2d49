//! A single measurement: a loop that runs on one CPU for a limited time. Both wall clock and CPU
//! time are measured.

use std::fmt;
use std::io;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use slipring_port::{ErrorClass, Nanos, OpenError, RunError, now};
use slipring_ring::{RegionError, SyncFault};

/// The CPU of the threads that send frames to the measured program, and of the kernel's work to
/// receive these frames.
pub(crate) const FEEDER_CPU: usize = 0;
/// The CPU on which the measured program runs.
pub(crate) const PROGRAM_CPU: usize = 1;

/// Why a contender has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BenchError {
    /// The machine lacks something that the contender needs.
    Skipped(String),
    /// The contender has failed, at its start or when it was run.
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
    /// The main figure, in the unit of the row.
    pub(crate) value: f64,
    /// Packets per second of CPU time; `None` if this is not known.
    pub(crate) per_cpu_second: Option<f64>,
    /// Other figures with their names. If a name ends with `cpu`, its figure is a fraction of 1; if
    /// it ends with `per batch`, a number; otherwise, it is in the unit of the row.
    pub(crate) extra: Vec<(&'static str, f64)>,
}

impl BenchReading {
    /// Returns a result with a single figure.
    pub(crate) fn of(value: f64) -> Self {
        Self { value, per_cpu_second: None, extra: Vec::new() }
    }
}

/// A number of packets, and the time that they took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BenchTally {
    pub(crate) packets: u64,
    pub(crate) wall: Nanos,
    /// CPU time; 0 if it is not known.
    pub(crate) cpu: Nanos,
}

impl From<BenchTally> for BenchReading {
    fn from(tally: BenchTally) -> Self {
        let per_second = |nanos: Nanos| tally.packets as f64 * 1e9 / nanos.max(1) as f64;
        let per_cpu_second = (tally.cpu > 0).then(|| per_second(tally.cpu));
        Self { value: per_second(tally.wall), per_cpu_second, extra: Vec::new() }
    }
}

/// Repeats `work` for `time`. `work` returns how many packets it has processed.
pub(crate) fn tally<E>(
    time: Duration,
    mut work: impl FnMut() -> Result<u64, E>,
) -> Result<BenchTally, E> {
    let (start, cpu) = (now(), thread_cpu());
    let until = start + time.as_nanos() as Nanos;
    let mut packets = 0;
    loop {
        // The clock is read only after 16 calls, because reading it each time would take too long.
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

/// Binds the calling thread to a CPU. If the machine does not have this CPU, the thread is not
/// bound.
pub(crate) fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    let _ = sched_setaffinity(None, &set);
}

/// Returns the CPU time of the calling thread.
pub(crate) fn thread_cpu() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as Nanos * 1_000_000_000 + time.tv_nsec as Nanos
}

/// Returns the CPU time of a process, summed over its living threads; `None` if the process does
/// not exist.
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
