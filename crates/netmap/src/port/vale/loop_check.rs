//! Persistent ports that are attached to two switches, and so connect these switches. In the
//! picture, a port is attached to `vale0`, and as an interface to `vale1`.
//!
//! ```text
//!   senders of vale1 --> tx rings --> vale0          in the thread of the sender
//!   senders of vale0 --> rx rings --> vale1          by the worker of the second attachment
//! ```
//!
//! # Invariants
//! 1. Connected switches form no loop, in whichever direction they are connected: a broadcast would
//!    circulate in it for ever, and a sender that reaches its own switch again would wait for
//!    itself.
//! 2. Both switches see the same bytes: frames have no virtio-net header.

use std::sync::Arc;

use rustix::io::Errno;

use crate::port::adapter::Adapter;
use crate::port::switched::SwitchedPort;
use crate::port::vale::bridge::Bridge;
use crate::port::vale::port::ValePort;
use crate::port::vale::switches::BridgeTable;

impl BridgeTable {
    /// Returns the persistent ports that are attached to a second switch as interfaces, with that
    /// switch.
    fn patch_ports(&self) -> impl Iterator<Item = (&ValePort, &Arc<Bridge>)> {
        self.attached.iter().filter_map(|((netns, name), attached)| {
            // A persistent port is recognised by its identity, because an attached interface may
            // have the same name.
            let (_, name) = name.split_once(':')?;
            let port = &**self.persistent.get(&(*netns, name.to_owned()))?;
            let is_it = std::ptr::addr_eq(port, Arc::as_ptr(attached.nic()));
            is_it.then(|| (port, attached.bridge()))
        })
    }

    /// Returns the switch to which a port is attached as an interface.
    pub(crate) fn patched_bridge(&self, port: &dyn Adapter) -> Option<&Arc<Bridge>> {
        let mut seconds = self.patch_ports();
        seconds.find(|(one, _)| std::ptr::addr_eq(*one, port)).map(|(_, hub)| hub)
    }

    /// Checks that a port can be attached to a switch in addition to its current one.
    ///
    /// # Errors
    /// [`Errno::BUSY`]: the port is already in this switch, or in two switches. [`Errno::LOOP`]:
    /// the two switches are already connected. [`Errno::INVAL`]: the port's frames have virtio-net
    /// headers.
    pub(crate) fn check_loop(&self, port: &ValePort, hub: &Arc<Bridge>) -> Result<(), Errno> {
        let first = port.attachment().map(|(hub, _)| hub);
        let other = match (first, self.patched_bridge(port).cloned()) {
            (None, None) => return Ok(()),
            (Some(_), Some(_)) => return Err(Errno::BUSY),
            (Some(hub), None) | (None, Some(hub)) => hub,
        };
        if other.number() == hub.number() {
            return Err(Errno::BUSY);
        }
        if port.vnet_header() > 0 {
            return Err(Errno::INVAL);
        }
        if self.are_connected(other.number(), hub.number()) { Err(Errno::LOOP) } else { Ok(()) }
    }

    /// Returns whether a path of connected switches leads from one switch to the other.
    fn are_connected(&self, from: u16, to: u16) -> bool {
        let joints = self.patch_ports().filter_map(|(port, hub)| {
            let (first, _) = port.attachment()?;
            Some([first.number(), hub.number()])
        });
        let joints: Vec<_> = joints.collect();
        let mut reached = vec![from];
        let mut at = 0;
        while let Some(&here) = reached.get(at) {
            at += 1;
            for [a, b] in joints.iter().filter(|joint| joint.contains(&here)) {
                let peer = if *a == here { *b } else { *a };
                if !reached.contains(&peer) {
                    reached.push(peer);
                }
            }
        }
        reached.contains(&to)
    }
}
