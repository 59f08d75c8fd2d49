//! Ports: the trait that all kinds implement, the data common to all ports, the abilities of some,
//! and the kinds.
//!
//! ```text
//!   binding  forward  offsets                    rings of a port that one open file has bound
//!   detached  pipe  monitor  vale                kinds of ports
//!   adapter                                      the trait
//!   base                                         data common to all ports
//!   delegation  switched  persist                abilities of some ports
//!   slot_snapshot  claims  waker  monitor_taps
//!   kicks  sharing                               parts that ports are made of
//! ```

pub(crate) mod adapter;
pub(crate) mod base;
pub(crate) mod binding;
pub(crate) mod claims;
pub(crate) mod delegation;
pub(crate) mod detached;
pub(crate) mod forward;
pub(crate) mod kicks;
pub(crate) mod monitor;
pub(crate) mod monitor_taps;
pub(crate) mod offsets;
pub(crate) mod persist;
pub(crate) mod pipe;
pub(crate) mod sharing;
pub(crate) mod slot_snapshot;
pub(crate) mod switched;
pub(crate) mod vale;
pub(crate) mod waker;
