//! dummynet's pipes, queues and schedulers, as a library without clocks, input or output.
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
//! 1. Time is a `u64` of ns and is passed in. There are no ticks. A packet's time of release is the
//!    time at which its last bit leaves the link, plus the delay. This time is exact in ns, even if
//!    the engine is called rarely. Rates have 64 bits.
//! 2. Every packet is accounted for: packets in = released + dropped by cause + still inside.
//! 3. Packets leave a link in order, even when its delay changes.
//! 4. The same sequence of packets always has the same result, no matter how often the engine is
//!    called in between.
//!
//! # Where dummynet's behaviour needed a decision
//! - **`pipe N` and queues of pipe N** each have the full bandwidth, as on FreeBSD, where they are
//!   two schedulers with separate links.
//! - **`io_fast`** has no effect. In dummynet it compensates for the tick, which does not exist
//!   here. A packet that finds the link idle always takes its transmission time. `red_lookup_depth`
//!   has no effect either, because RED computes without tables. Both accept their default values,
//!   so that scripts that set these work, and refuse all other values.
//! - **burst**: a link that was idle sends min(`burst`, bandwidth × idle time) immediately (the
//!   manual says max). A link is idle when all bits that it was given would have left at its
//!   bandwidth.
//! - **`red … ecn`** marks every packet when the average queue length is above `min`, and drops
//!   packets that cannot be marked.
//! - **One queue for all**: with `type fifo`, the limits, losses and AQM of `sched N config`, if it
//!   was given, apply instead of those of the queues. Flow queueing has its own limits; it uses
//!   only `plr` and `noerror` of the queues' parameters. Both are as on FreeBSD.
//! - **`pri`** is the priority for PRIO. For a queue without `pri`, `weight` is the priority.
//! - **`expire`**: dynamic queues and pipes that were idle for [`ShaperSettings::expire_ns`] are
//!   removed when others are created or listings are shown, not at a tick. The number of dynamic
//!   queues and pipes is bounded ([`ShaperSettings::max_dynamic`]). Hash tables grow automatically;
//!   `buckets` only shows in listings.
//! - **Deleting** a pipe or queue drops the packets that wait in its own queues. Packets in the
//!   delay are still released.
//! - **Changes at run time** do not interrupt flows: see [`Dummynet::configure`].
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
