//! The clock of all real-time code: CLOCK_MONOTONIC in nanoseconds.

use rustix::thread::ClockId;
use rustix::time::Timespec;

/// Nanoseconds of CLOCK_MONOTONIC, or a duration in nanoseconds.
pub type Nanos = u64;

/// Allowance for a late wakeup, in ns: a plain sleep may end this late on an idle machine. So
/// `sleep_until` ends its sleep this much early and spins for the rest.
const WAKE_MARGIN_NS: Nanos = 60_000;

/// The current time. Costs some 20 ns: call it once per batch, not once per packet.
#[must_use]
#[inline]
pub fn now() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until shortly before `when`, then spins until `when`. It usually returns tens of
/// nanoseconds after `when`; a plain sleep would return tens of microseconds late. Returns the time
/// at the end, which is earlier than `when` if a signal ended the sleep.
pub fn sleep_until(when: Nanos) -> Nanos {
    let before = when.saturating_sub(WAKE_MARGIN_NS);
    if now() < before {
        let request = Timespec {
            tv_sec: (before / 1_000_000_000) as i64,
            tv_nsec: (before % 1_000_000_000) as _,
        };
        if rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &request).is_err() {
            return now();
        }
    }
    loop {
        let time = now();
        if time >= when {
            return time;
        }
        std::hint::spin_loop();
    }
}
