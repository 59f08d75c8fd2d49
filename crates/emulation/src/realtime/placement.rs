//! Chooses the CPU and the scheduling class of a thread that moves frames in real time.
//!
//! | the thread | its CPU | scheduling |
//! |---|---|---|
//! | sleeps between frames | shared | SCHED_FIFO, with pauses ([`PausePacer`]) while always busy |
//! | any | isolated | SCHED_FIFO |
//! | never sleeps (`--spin`) | shared, and free | ordinary, nice -20 |
//! | never sleeps (`--spin`) | shared, and was preempted | SCHED_FIFO, with pauses |
//!
//! The kernel limits real-time threads to 95 % of a CPU (`sched_rt_runtime_us`). So once a second,
//! it stops an always busy real-time thread for 50 ms, without interruption. Only a thread with an
//! exclusive CPU is therefore a real-time thread without pauses. An ordinary thread needs no
//! pauses, but sometimes another thread preempts it for several milliseconds, regardless of their
//! priorities. So a spinning thread is ordinary until that happens, and then becomes a real-time
//! thread that makes short pauses.

use std::num::NonZeroU64;
use std::time::Duration;

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};
use slipring_port::{Nanos, WaitStrategy};
use thread_priority::unix::{
    RealtimeThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};
use thread_priority::{ThreadPriority, ThreadPriorityValue};

/// The CPU and scheduling class that a thread got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadPlacement {
    /// The CPU that the thread is bound to; `None` if it may run on several.
    pub cpu: Option<usize>,
    /// The thread's scheduling class.
    pub scheduling: ThreadScheduling,
    /// Whether the thread runs on isolated CPUs only. The kernel places no other threads there.
    pub isolated: bool,
}

/// The scheduling class of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ThreadScheduling {
    /// The thread runs before all ordinary threads (SCHED_FIFO).
    Fifo,
    /// Ordinary, with the highest weight (nice -20).
    Favoured,
    /// Ordinary, with the default weight.
    #[default]
    Ordinary,
}

/// Priority among real-time threads: above ordinary threads, and below the kernel's own.
const RT_PRIORITY: u8 = 10;
/// The highest weight of ordinary threads.
const MIN_NICE: i32 = -20;

/// Binds the calling thread to `cpu`, if one is given. Gives it the highest suitable scheduling
/// class that the kernel permits, and makes its sleeps end on time. Returns the CPU and the class
/// that it got.
///
/// `threads` is the number of threads placed this way. If this process may use no more CPUs than
/// that, threads stay ordinary unless their CPUs are isolated. As real-time threads they could keep
/// all other processes from running, including the shell with which a user could stop them.
pub(crate) fn place_thread(
    cpu: Option<usize>,
    threads: usize,
    patience: WaitStrategy,
) -> ThreadPlacement {
    // With the default slack, the kernel may end each sleep up to 50 us late.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let enough = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > threads);
    let cpu = cpu.filter(|&cpu| bind(cpu));
    let isolated = is_isolated(&isolated_cpus());
    let scheduling = match (patience, isolated) {
        _ if !enough && !isolated => ThreadScheduling::Ordinary,
        (WaitStrategy::Spin, false) => raise_nice(),
        _ if set_fifo() => ThreadScheduling::Fifo,
        _ => ThreadScheduling::Ordinary,
    };
    ThreadPlacement { cpu, scheduling, isolated }
}

fn bind(cpu: usize) -> bool {
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return false;
    }
    set.set(cpu);
    sched_setaffinity(None, &set).is_ok()
}

fn set_fifo() -> bool {
    let Ok(priority) = ThreadPriorityValue::try_from(RT_PRIORITY) else { return false };
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let priority = ThreadPriority::Crossplatform(priority);
    set_thread_priority_and_policy(thread_native_id(), priority, policy).is_ok()
}

/// Raises the calling thread to nice -20 if permitted, and returns the resulting scheduling class.
/// On Linux, a nice value belongs to a thread, and process `None` means the calling thread.
fn raise_nice() -> ThreadScheduling {
    match setpriority_process(None, MIN_NICE) {
        Ok(()) if getpriority_process(None) == Ok(MIN_NICE) => ThreadScheduling::Favoured,
        _ => ThreadScheduling::Ordinary,
    }
}

/// Returns the CPUs that are isolated by the kernel's command line or by a cpuset.
fn isolated_cpus() -> Vec<usize> {
    let lists = ["/sys/devices/system/cpu/isolated", "/sys/fs/cgroup/cpuset.cpus.isolated"];
    let read = lists.into_iter().filter_map(|path| std::fs::read_to_string(path).ok());
    read.flat_map(|list| cpus_of(&list)).collect()
}

/// Parses a CPU list in the kernel's format, for example `2-3,7`.
fn cpus_of(list: &str) -> Vec<usize> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// Returns whether the calling thread runs on isolated CPUs only.
fn is_isolated(isolated: &[usize]) -> bool {
    let Ok(allowed) = sched_getaffinity(None) else { return false };
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).peekable();
    cpus.peek().is_some() && cpus.all(|cpu| isolated.contains(&cpu))
}

/// Makes a real-time thread that is always busy pause briefly and often, before the kernel stops it
/// for long.
#[derive(Debug)]
pub(crate) struct PausePacer {
    need: PauseAction,
    /// Interval between checks whether a pause is due.
    period: Nanos,
    since: Nanos,
    worked_ns: Nanos,
}

/// What [`PausePacer`] does for a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PauseAction {
    Nothing,
    /// Makes the thread pause.
    Pauses,
    /// Makes the thread a real-time thread once another thread preempts it.
    Precedence,
}

impl PausePacer {
    /// Interval in ns between checks for a thread that sleeps between frames. Such a thread hardly
    /// ever needs a pause.
    const LONG_PERIOD_NS: Nanos = 10_000_000;
    /// Interval in ns between checks for a thread that spins. As a real-time thread, it needs a
    /// short pause in each interval.
    const SHORT_PERIOD_NS: Nanos = 1_000_000;
    /// Maximum share of CPU time in the elapsed time, in permille. It is less than the kernel's
    /// limit of 950.
    const MAX_WORK_PERMILLE: Nanos = 940;
    /// If the CPU time of a thread is more than this many ns below the elapsed time, the thread was
    /// preempted.
    const MAX_PREEMPTED_NS: Nanos = 300_000;

    /// Creates the pacer for a thread with this placement.
    pub(crate) fn of(placement: &ThreadPlacement) -> Self {
        let (need, period) = match placement.scheduling {
            ThreadScheduling::Fifo if !placement.isolated => {
                (PauseAction::Pauses, Self::LONG_PERIOD_NS)
            }
            ThreadScheduling::Favoured => (PauseAction::Precedence, Self::SHORT_PERIOD_NS),
            ThreadScheduling::Fifo | ThreadScheduling::Ordinary => {
                (PauseAction::Nothing, Self::LONG_PERIOD_NS)
            }
        };
        Self { need, period, since: 0, worked_ns: 0 }
    }

    /// Sleeps if a pause is due.
    #[inline]
    pub(crate) fn pause_if_due(&mut self, now: Nanos) {
        if self.need != PauseAction::Nothing && now >= self.since + self.period {
            self.check(now);
        }
    }

    #[cold]
    fn check(&mut self, now: Nanos) {
        let worked = thread_cpu_ns();
        let (time, work) = (now - self.since, worked - self.worked_ns);
        let is_first = self.since == 0;
        (self.since, self.worked_ns) = (now, worked);
        if self.need == PauseAction::Precedence {
            if !is_first && time.saturating_sub(work) > Self::MAX_PREEMPTED_NS {
                self.need = if set_fifo() { PauseAction::Pauses } else { PauseAction::Nothing };
            }
            return;
        }
        let pause = pause(self.period, time, work);
        if pause > 0 {
            std::thread::sleep(Duration::from_nanos(pause));
            self.since += pause;
        }
    }
}

/// Returns how long to pause after an elapsed `time` of which `worked` was CPU time, all in ns.
fn pause(period: Nanos, time: Nanos, worked: Nanos) -> Nanos {
    let time = time.min(2 * period);
    (worked.min(time) * 1000 / PausePacer::MAX_WORK_PERMILLE).saturating_sub(time)
}

/// Returns the CPU time of the calling thread.
fn thread_cpu_ns() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

impl std::fmt::Display for ThreadPlacement {
    /// Formats as `cpu=1 sched=fifo`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.cpu {
            Some(cpu) => write!(f, "cpu={cpu} ")?,
            None => write!(f, "cpu=any ")?,
        }
        f.write_str(match self.scheduling {
            ThreadScheduling::Fifo => "sched=fifo",
            ThreadScheduling::Favoured => "sched=favoured",
            ThreadScheduling::Ordinary => "sched=ordinary",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_as_the_kernel_writes_them() {
        assert_eq!(cpus_of("2-4,7\n"), [2, 3, 4, 7]);
        assert!(cpus_of("\n").is_empty());
        assert_eq!(cpus_of("0"), [0]);
    }

    #[test]
    fn a_thread_is_isolated_only_where_all_its_cpus_are() {
        let allowed = sched_getaffinity(None).unwrap();
        let all: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
        assert!(is_isolated(&all));
        assert!(!is_isolated(&all[1..]));
        assert!(!is_isolated(&[]));
    }

    #[test]
    fn a_spinning_thread_on_a_shared_cpu_is_no_real_time_one() {
        let take = || place_thread(None, 1, WaitStrategy::Spin);
        let placement = std::thread::spawn(take).join().unwrap();
        assert!(
            placement.isolated || placement.scheduling != ThreadScheduling::Fifo,
            "{placement}"
        );
    }

    #[test]
    fn pauses_keep_a_busy_thread_below_what_the_kernel_grants() {
        for (period, most) in
            [(PausePacer::LONG_PERIOD_NS, 1_000_000), (PausePacer::SHORT_PERIOD_NS, 100_000)]
        {
            // Simulates one second in which the thread is always busy except for the pauses.
            let (mut time, mut worked, mut longest) = (0, 0, 0);
            while time < 1_000_000_000 {
                let pause = pause(period, period, period);
                longest = longest.max(pause);
                worked += period;
                time += period + pause;
            }
            assert!(worked * 1000 < time * 950, "{worked} of {time}");
            assert!(longest < most, "{longest}");
            assert_eq!(pause(period, period, period * 9 / 10), 0, "it sleeps enough");
            let long = pause(period, Nanos::MAX / 2000, Nanos::MAX / 2000);
            assert!(long < 2 * most, "however long it was: {long}");
        }
    }

    #[test]
    fn a_thread_that_spins_goes_first_only_once_others_kept_it_from_its_cpu() {
        // Which scheduling class is permitted depends on the machine. So the test checks only when
        // real-time scheduling is requested.
        let spins = ThreadPlacement {
            scheduling: ThreadScheduling::Favoured,
            ..ThreadPlacement::default()
        };
        std::thread::spawn(move || {
            let mut breather = PausePacer::of(&spins);
            let start = slipring_port::now();
            breather.pause_if_due(start);
            assert_eq!(breather.need, PauseAction::Precedence, "nothing is known yet");
            // No time has elapsed between the two calls, so no other thread can have run on this
            // CPU.
            breather.check(start);
            assert_eq!(breather.need, PauseAction::Precedence);
            breather.check(start + 5 * PausePacer::SHORT_PERIOD_NS);
            assert_ne!(breather.need, PauseAction::Precedence, "5 ms went to others");
        })
        .join()
        .unwrap();
    }
}
