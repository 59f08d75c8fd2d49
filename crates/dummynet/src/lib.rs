//! dummynet's pipes, queues and schedulers, as a pure engine.
//!
//! ```text
//!   rule says `pipe 1`,   plr, RED, limit          scheduler             link          delay
//!   packet ---submit----> flow's queue --+
//!                         flow's queue --+--> WF2Q+, RR, ... --> bandwidth --> ... ---> released
//!   rule says `queue 2`   flow's queue --+                       (an instance per mask value)
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`text`] | commands such as `pipe N config …`: parsed, checked, printed canonically |
//! | [`spec`] | specifications of the objects |
//! | [`flow`] | fields of packets, and masks over them |
//! | [`show`] | `pipe|queue|sched show`, identical to ipfw's output |
//! | [`Dummynet`] | the engine |
//!
//! # Properties
//! 1. Time is a `u64` of ns and is passed in. There are no ticks: a packet's release time is
//!    exactly that of its last bit, in ns, even if the engine is called rarely. Rates have 64 bits.
//! 2. Every packet is accounted for: packets in = released + dropped by cause + still inside.
//! 3. A link keeps order, even when its delay changes.
//! 4. The same calls give the same packets and times, however often the engine is polled.
//!
//! # Where dummynet's behaviour needed a decision
//! - **`pipe N` and queues of pipe N** each have the full bandwidth, as on FreeBSD, where they are
//!   two schedulers with separate links.
//! - **`io_fast`** has no effect: it compensates for the tick, which does not exist here. A packet
//!   that finds the link idle takes its transmission time. The sysctls `red_…` have no effect
//!   either: RED computes without tables. Both can be set, so that scripts work.
//! - **burst**: an idle link sends min(`burst`, bandwidth × idle time) at once (the manual says
//!   max). Idle means that all bits given to the link so far would have left at its bandwidth.
//! - **`red … ecn`** marks every packet above `min`, and drops those that cannot be marked.
//! - **One queue for all**: with `type fifo` the limits are those of `sched N config`, not of the
//!   queues; flow queueing has its own limits and uses only `plr` of the queues, as on FreeBSD.
//! - **`pri`** is the priority for PRIO; without `pri`, `weight` is the priority.
//! - **`expire`**: dynamic queues and pipes are removed when idle for
//!   [`ShaperSettings::expire_ns`], not at the next tick; their number is bounded
//!   ([`ShaperSettings::max_dynamic`]). Hash tables grow automatically; `buckets` is only shown.
//! - **Deleting** a pipe or queue drops waiting packets; packets in the delay still arrive.
//! - **Changes while running** keep flows: see [`Dummynet::configure`].
//!
//! Not for: clocks, threads, frames, rules.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod engine;
pub mod flow;
mod sched;
pub mod show;
pub mod spec;
pub mod text;

pub use engine::{
    Dummynet, ObjectKind, RedSizes, ReleaseAction, SYSCTL_PREFIX, ShaperConfig, ShaperConfigError,
    ShaperCounters, ShaperDropCause, ShaperDrops, ShaperEvent, ShaperPacket, ShaperSettings,
    ShaperSysctlError, ShaperTarget, SubmitResult,
};
