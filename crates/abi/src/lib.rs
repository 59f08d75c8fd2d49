//! netmap's structures, numbers and grammar of port names, bit for bit.
//!
//! Two programs must agree on some interfaces before they can share a ring. Only this crate defines
//! them: the layout of slots and rings ([`NetmapSlot`], [`NetmapRing`], [`NetmapIf`]), the
//! arguments of ioctls ([`NmreqHeader`] and the bodies that belong to it), the numbers of requests
//! and flags, and the names of ports ([`name::PortName`]).
//!
//! # Invariants
//! 1. Every structure is `repr(C)` with explicit padding. The offset of every field is asserted
//!    when the crate is compiled.
//! 2. No structure has an invalid bit pattern. So untrusted bytes can always be read as *some*
//!    value ([`PlainData::read_from`]), and the reader must check the value.
//!
//! # Not for
//! Opening, binding or mapping. The crate has no I/O, no clock and no `unsafe`.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]
extern crate alloc;

mod csb;
mod delegation;
pub mod ioctl;
mod layout;
mod legacy;
pub mod name;
mod option;
mod request;
mod ring;

pub use csb::*;
pub use delegation::{
    DELEGATED_QUEUES_SIZE, DELEGATED_SOFTWARE, DELEGATED_ZERO_COPY, DELEGATION_SIZE,
    DELEGATION_VERSION, DelegatedQueueLayout, DelegatedRingLayout, MAX_DELEGATED_RINGS, NIOCKICK,
    NIOCLEND, NIOCLENDQ, decode_delegated_queues, decode_delegated_rings, encode_delegated_queues,
    encode_delegated_rings,
};
pub use ioctl::{NIOCCONFIG, NIOCCTRL, NIOCGINFO, NIOCREGIF, NIOCRXSYNC, NIOCTXSYNC};
pub use layout::PlainData;
pub use legacy::*;
pub use option::*;
pub use request::*;
pub use ring::*;
