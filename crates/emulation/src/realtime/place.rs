//! Where and how eagerly the kernel runs a thread that must not be late.

use std::num::NonZeroU64;

use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};
use thread_priority::unix::{
    RealtimeThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};
use thread_priority::{ThreadPriority, ThreadPriorityValue};

/// What a thread got of what it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// The CPU that it is bound to.
    pub cpu: Option<usize>,
    /// Whether it goes before all ordinary threads (SCHED_FIFO).
    pub first: bool,
}

/// Priority among real-time threads: before ordinary ones, behind the kernel's own.
const PRIORITY: u8 = 10;

/// Moves the calling thread to `cpu`, if one is named, before ordinary threads if the kernel
/// permits, and has its sleeps end on time.
///
/// On a machine with no more CPUs than there are such `threads` they stay ordinary ones: they could
/// keep everything else from running, the shell that would stop them included.
pub(crate) fn take(cpu: Option<usize>, threads: usize) -> Place {
    // Without it the kernel may end each sleep up to 50 us late.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let enough = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > threads);
    Place { cpu: cpu.filter(|&cpu| bind(cpu)), first: enough && go_first() }
}

fn bind(cpu: usize) -> bool {
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return false;
    }
    set.set(cpu);
    sched_setaffinity(None, &set).is_ok()
}

fn go_first() -> bool {
    let Ok(priority) = ThreadPriorityValue::try_from(PRIORITY) else { return false };
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let priority = ThreadPriority::Crossplatform(priority);
    set_thread_priority_and_policy(thread_native_id(), priority, policy).is_ok()
}

impl std::fmt::Display for Place {
    /// `cpu=1 sched=fifo`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.cpu {
            Some(cpu) => write!(f, "cpu={cpu} ")?,
            None => write!(f, "cpu=any ")?,
        }
        f.write_str(if self.first { "sched=fifo" } else { "sched=ordinary" })
    }
}
