//! Takeover: a second router (`slipring route --takeover`) replaces the running router, which ends.
//!
//! ```text
//!   slipring route … --takeover --control socket--> running router
//!     opens, reads all tables  <--links, sockets--  forwards
//!     has complete tables      ---programs------->  exchanges them between two frames, and ends
//!     forwards
//! ```
//!
//! | frames are forwarded | between the two |
//! |---|---|
//! | in XDP | the kernel exchanges the programs of the interfaces' links between two frames |
//! | by threads, packet sockets | frames wait in the rings; the new router reads on in them |
//! | by threads, AF_XDP sockets | the old router ends first, and the kernel forwards |
//!
//! A queue can have only one AF_XDP socket, so the new router opens its own after the old one's
//! end.
//!
//! Subinterfaces that the old router has made move with their devices, neighbours and waiting
//! packets (`subinterface/succession.rs`).
//!
//! The steps, and what undoes them, are in [`protocol`]. Counters go on from those of the old
//! router ([`crate::inherited_figures`]). States of rules move; other neighbours and routes are the
//! kernel's anyway.

mod channel;
mod predecessor;
mod protocol;
mod running;
mod successor;

use serde_json::{Value, json};

pub(crate) use running::TakeoverService;
pub(crate) use successor::{Successor, TakeoverStart};

use slipring_port::iface::Iface;

use crate::plan::RoutePlan;

/// Version of the takeover protocol.
const TAKEOVER_VERSION: u64 = 3;

/// Numbers of receive and transmit queues of each interface. Programs and workers depend on them.
fn queues_of<'i>(ifaces: impl Iterator<Item = &'i Iface>) -> Value {
    ifaces.map(|iface| json!([iface.rx_queues, iface.tx_queues])).collect()
}

/// The settings that must be equal in both routers. `interfaces` contains the names of the kernel's
/// interfaces; subinterfaces may differ.
fn settings_of(plan: &RoutePlan, interfaces: Vec<&str>) -> [(&'static str, Value); 5] {
    let compat = plan.compat.as_ref().map(|of| (&of.socket, &of.pidfile));
    [
        ("interfaces", json!(interfaces)),
        ("io", json!(plan.io.name())),
        ("threads", json!(plan.threads)),
        ("rules", json!(plan.rules.is_some())),
        // The new router replaces these files, so they must be those of the running one.
        ("command socket and pidfile of --compat", json!(compat)),
    ]
}
