//! The processes that use an interface, by an XDP program that is attached to it or by AF_XDP
//! sockets that are bound to its queues.
//!
//! The files `/proc/PID/fdinfo/*` show a process's XDP programs. The kernel lists AF_XDP sockets if
//! it was built with `CONFIG_XDP_SOCKETS_DIAG`. Only root sees the processes of other users.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;
use slipring_port::xdp::{BoundQueue, HeldObject, ProcessTable, bound_sockets};

/// A process that uses an interface, or one queue of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct InterfaceOwner {
    /// The queue to which a socket is bound; `None` for an XDP program, which gets the frames of
    /// all queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue: Option<u32>,
    /// Number of the process (PID).
    pub(crate) pid: u32,
    /// Name of the process.
    pub(crate) process: String,
}

/// Returns owners by interface index, in this network namespace.
pub(crate) fn all() -> HashMap<u32, BTreeSet<InterfaceOwner>> {
    // A kernel that does not list AF_XDP sockets shows none here.
    let sockets = bound_sockets().unwrap_or_default();
    let table = ProcessTable::visible();
    let mut owners: HashMap<u32, BTreeSet<InterfaceOwner>> = HashMap::new();
    for process in table.all() {
        let is_here = table.is_in_our_netns(&process);
        let held = process.held_objects().filter_map(|held| used_by(held, &sockets, is_here));
        for (ifindex, queue) in held {
            let name = process.name().unwrap_or_default();
            let owner = InterfaceOwner { queue, pid: process.pid(), process: name };
            owners.entry(ifindex).or_default().insert(owner);
        }
    }
    owners
}

/// Returns the interface that a process uses through an object. A socket's interface comes with the
/// queue to which the socket is bound. An XDP program's interface comes with `None`, because the
/// program gets the frames of all queues. The interface index of an XDP program is valid only in
/// the network namespace of its process. So XDP programs are ignored unless `is_here` is true,
/// which means that the process is in the current namespace.
fn used_by(
    held: HeldObject,
    sockets: &HashMap<u64, BoundQueue>,
    is_here: bool,
) -> Option<(u32, Option<u32>)> {
    match held {
        HeldObject::Socket(inode) => {
            sockets.get(&inode).map(|bound| (bound.ifindex, Some(bound.queue)))
        }
        HeldObject::XdpLink(ifindex) => is_here.then_some((ifindex, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_counts_in_this_namespace_only_and_a_socket_if_it_is_bound_to_a_queue() {
        let sockets = [(4711, BoundQueue { ifindex: 3, queue: 1 })].into();
        for (held, here, elsewhere) in [
            (HeldObject::XdpLink(3), Some((3, None)), None),
            (HeldObject::Socket(4711), Some((3, Some(1))), Some((3, Some(1)))),
            (HeldObject::Socket(4712), None, None),
        ] {
            assert_eq!(used_by(held, &sockets, true), here);
            assert_eq!(used_by(held, &sockets, false), elsewhere);
        }
    }
}
