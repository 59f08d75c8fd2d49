//! How the kernel schedules the daemon.
//!
//! The first thread changes its class before it starts others. So all threads inherit it, and so
//! does the worker that a supervisor starts. Only sync loops leave a real-time class, because a
//! program may make them spin for ever.

use slipring_cli::Diagnostic;
use slipring_cli::codes::SR0303;
use thread_priority::unix::{
    RealtimeThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};
use thread_priority::{ThreadPriority, ThreadPriorityValue};

/// The allowed values, as text for error messages.
const ALLOWED_VALUES: &str = "normal, nice:-20 to nice:19, fifo:1 to fifo:99, rr:1 to rr:99";

/// A scheduling class and the priority in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SchedulingClass {
    /// The class is not changed: it is the one with which the daemon was started.
    Normal,
    /// The ordinary class (SCHED_OTHER) with a nice value, from -20 (most processor time) to 19
    /// (least).
    Nice(i32),
    /// The real-time class SCHED_FIFO with a priority from 1 to 99.
    Fifo(u8),
    /// The real-time class with time slices, SCHED_RR, with a priority from 1 to 99.
    RoundRobin(u8),
}

impl std::fmt::Display for SchedulingClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Normal => f.write_str("normal"),
            Self::Nice(nice) => write!(f, "nice:{nice}"),
            Self::Fifo(priority) => write!(f, "fifo:{priority}"),
            Self::RoundRobin(priority) => write!(f, "rr:{priority}"),
        }
    }
}

/// Parses a class. An error lists the allowed values.
#[allow(clippy::ptr_arg)] // Called with what the file holds.
pub(crate) fn scheduling(text: &String) -> Result<SchedulingClass, String> {
    let (class, number) = text.split_once(':').unwrap_or((text, ""));
    let nice = || number.parse().ok().filter(|nice| (-20..=19).contains(nice));
    let priority = || number.parse().ok().filter(|priority| (1..=99).contains(priority));
    let read = match class {
        "normal" if number.is_empty() => Some(SchedulingClass::Normal),
        "nice" => nice().map(SchedulingClass::Nice),
        "fifo" => priority().map(SchedulingClass::Fifo),
        "rr" => priority().map(SchedulingClass::RoundRobin),
        _ => None,
    };
    read.ok_or_else(|| ALLOWED_VALUES.to_owned())
}

impl SchedulingClass {
    /// Sets the class of this thread and of the threads that it starts later.
    pub(crate) fn apply(self) -> Result<(), Diagnostic> {
        use RealtimeThreadSchedulePolicy::{Fifo, RoundRobin};
        let taken = match self {
            Self::Normal => Ok(()),
            Self::Nice(nice) => rustix::process::setpriority_process(None, nice)
                .map_err(|error| std::io::Error::from(error).to_string()),
            Self::Fifo(priority) => real_time(Fifo, priority),
            Self::RoundRobin(priority) => real_time(RoundRobin, priority),
        };
        taken.map_err(|cause| {
            Diagnostic::new(SR0303, format!("the daemon cannot have the scheduling {self}"))
                .with_cause(cause)
                .with_help(
                    "run it as root; under systemd, see that RestrictRealtime= is not set and \
                     CapabilityBoundingSet= has CAP_SYS_NICE; or leave --scheduling out",
                )
        })
    }
}

fn real_time(policy: RealtimeThreadSchedulePolicy, priority: u8) -> Result<(), String> {
    let priority = ThreadPriorityValue::try_from(priority)?;
    let (priority, policy) =
        (ThreadPriority::Crossplatform(priority), ThreadSchedulePolicy::Realtime(policy));
    set_thread_priority_and_policy(thread_native_id(), priority, policy)
        .map_err(|error| format!("{error:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_read_as_they_are_written_and_others_refused() {
        for text in ["normal", "nice:-20", "nice:19", "fifo:1", "fifo:99", "rr:50"] {
            assert_eq!(scheduling(&text.to_owned()).unwrap().to_string(), text);
        }
        for text in
            ["", "fifo", "fifo:0", "fifo:100", "rr:-1", "nice:20", "nice:-21", "normal:1", "10"]
        {
            assert_eq!(scheduling(&text.to_owned()).unwrap_err(), ALLOWED_VALUES, "{text}");
        }
    }
}
