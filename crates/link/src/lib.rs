//! Emulated links, as a pure engine: it decides what happens to each frame, and when.
//!
//! ```text
//!  push -> classes -> | police -> loss -> hold -> queue -> line -> loss -> mangle -> corrupt
//!         (route)     | (ingress)                 (server)       (egress)
//!                     |           -> duplicate -> delay -> order -> | -> next link, or deliver
//!                     |              (egress)     (output)          |
//!                     +------------------ one link -----------------+        (network)
//! ```
//!
//! The caller keeps the frames ([`Carrier`]) and the clock; the engine decides. Events on that
//! clock drive it: [`Network::push`] brings frames, [`Network::run`] performs what is due,
//! [`Network::next_ns`] returns the time of the next event. The same engine serves real time and
//! virtual time. The same seed and the same arrivals give the same deliveries on every machine.
//!
//! | module | what |
//! |---|---|
//! | [`spec`] | specifications of links: plain data, checked before anything is built |
//! | [`carrier`] | what the engine needs from its caller |
//! | [`counters`] | the counters |
//! | [`user`] | user models |
//!
//! # Invariants
//! 1. Every random number is a function of the seed, the name of the link, the stage, and the
//!    frame's identity or the time. A stage is identified by its kind; a loss stage also by its
//!    position and by its order among the loss stages of its kind at this position. So adding or
//!    changing a stage does not change the random numbers of other stages, on this link or on later
//!    ones, except those of loss stages of the same kind that follow it. A frame keeps the number
//!    with which it entered.
//! 2. Times are exact inside and rounded up to the next nanosecond when reported: never early.
//! 3. At any moment a link's `input + copies = output + drops by cause + in flight`.
//!
//! Not for: reading clocks, ports or files, or keeping payload.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bits;
mod burst;
pub mod carrier;
mod checksums;
mod corrupt;
pub mod counters;
mod delay;
mod ecn;
mod egress;
mod event_queue;
mod fifo;
mod frame_id;
mod ingress;
mod line;
mod link;
mod loss;
mod mangle;
mod network;
mod output;
mod queue;
mod schedule;
mod server;
mod sink;
pub mod spec;
mod streams;
pub mod user;

pub use burst::{Burst, BurstItem};
pub use carrier::{
    Carrier, Delivery, EntryId, ExitId, FrameArrival, FrameHandle, InFlightFrame, LinkDropCause,
    LinkId, LostFrame, QueueArrival, QueueDeparture,
};
pub use counters::{LinkCounters, LinkDrops, PacketCounts};
pub use line::held_opportunity_ns;
pub use network::{ChangeError, Network};
pub use spec::*;
