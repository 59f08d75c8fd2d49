//! The processes that use an interface, by an XDP program that is attached to it or by AF_XDP
//! sockets that are bound to its queues.
//!
//! The files `/proc/PID/fdinfo/*` show a process's XDP programs. The kernel lists AF_XDP sockets if
//! it was built with `CONFIG_XDP_SOCKETS_DIAG`. Only root sees the processes of other users.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use serde::Serialize;

use slipring_port::netlink::request::{RequestScope, attributes, first, request_all};

/// Message type of a sock_diag request.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const AF_XDP: u8 = 44;
/// Flag that requests the attribute `XDP_DIAG_INFO`. The next constant is the number of that
/// attribute.
const XDP_SHOW_INFO: u32 = 1;
const XDP_DIAG_INFO: u16 = 1;

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
    let sockets = bound_sockets();
    let mut owners: HashMap<u32, BTreeSet<InterfaceOwner>> = HashMap::new();
    let here = fs::read_link("/proc/thread-self/ns/net").ok();
    for (pid, dir) in processes() {
        let name = || fs::read_to_string(dir.join("comm")).unwrap_or_default().trim().to_owned();
        let in_here = fs::read_link(dir.join("ns/net")).ok() == here;
        for (ifindex, queue) in held_by(&dir, &sockets, in_here) {
            let owner = InterfaceOwner { queue, pid, process: name() };
            owners.entry(ifindex).or_default().insert(owner);
        }
    }
    owners
}

/// Returns interface and queue of each bound AF_XDP socket of this namespace, by inode.
fn bound_sockets() -> HashMap<u64, (u32, u32)> {
    // struct xdp_diag_req: family, protocol, padding, inode, which attributes to return, cookie.
    let mut request = vec![AF_XDP, 0, 0, 0, 0, 0, 0, 0];
    request.extend(XDP_SHOW_INFO.to_ne_bytes());
    request.extend([0xff; 8]);
    // A kernel without sock_diag for AF_XDP returns no sockets.
    let answers = request_all(NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, RequestScope::All, &request)
        .unwrap_or_default();
    answers.iter().filter_map(|answer| socket(answer)).collect()
}

/// Parses struct xdp_diag_msg: family, type, padding, inode, cookie; then attributes.
fn socket(message: &[u8]) -> Option<(u64, (u32, u32))> {
    let word = |bytes: &[u8]| Some(u32::from_ne_bytes(first(bytes)?));
    let inode = word(message.get(4..)?)?;
    let (_, info) = attributes(message.get(16..)?).find(|(kind, _)| *kind == XDP_DIAG_INFO)?;
    Some((inode.into(), (word(info)?, word(info.get(4..)?)?)))
}

fn processes() -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
}

/// Returns the interfaces that a process uses through its descriptors. A socket's interface comes
/// with the queue to which the socket is bound. An XDP program's interface comes with `None`,
/// because the program gets the frames of all queues. The interface index of an XDP program is
/// valid only in the network namespace of its process. So XDP programs are ignored unless `here` is
/// true, which means that the process is in the current namespace.
fn held_by(dir: &Path, sockets: &HashMap<u64, (u32, u32)>, here: bool) -> Vec<(u32, Option<u32>)> {
    let fds = fs::read_dir(dir.join("fd")).into_iter().flatten().flatten();
    let mut held = Vec::new();
    for fd in fds {
        let Ok(target) = fs::read_link(fd.path()) else { continue };
        let target = target.to_string_lossy();
        if let Some((ifindex, queue)) = inode(&target).and_then(|inode| sockets.get(&inode)) {
            held.push((*ifindex, Some(*queue)));
        } else if here && target.starts_with("anon_inode:bpf") {
            let info = fs::read_to_string(dir.join("fdinfo").join(fd.file_name()));
            held.extend(xdp_link(&info.unwrap_or_default()).map(|ifindex| (ifindex, None)));
        }
    }
    held
}

/// Parses the number in `socket:[123]`.
fn inode(target: &str) -> Option<u64> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Returns the interface of an XDP link, from its `fdinfo`.
fn xdp_link(info: &str) -> Option<u32> {
    let value = |key| {
        let mut lines = info.lines().filter_map(|line| line.split_once(':'));
        lines.find_map(|(name, value)| (name == key).then_some(value.trim()))
    };
    (value("link_type")? == "xdp").then(|| value("ifindex")?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use slipring_port::netlink::request::attribute;

    #[test]
    fn a_bound_socket_tells_its_interface_and_queue() {
        let mut message = vec![AF_XDP, 3, 0, 0];
        message.extend(4711u32.to_ne_bytes());
        message.extend([0; 8]);
        assert_eq!(socket(&message), None);
        message.extend(attribute(2, &[0; 4]));
        message
            .extend(attribute(XDP_DIAG_INFO, &[5u32.to_ne_bytes(), 3u32.to_ne_bytes()].concat()));
        assert_eq!(socket(&message), Some((4711, (5, 3))));
        assert_eq!(inode("socket:[4711]"), Some(4711));
        assert_eq!(inode("pipe:[4711]"), None);
    }

    #[test]
    fn only_links_of_xdp_programs_hold_an_interface() {
        let info = "pos:\t0\nlink_type:\txdp\nlink_id:\t9\nprog_id:\t4\nifindex:\t12\n";
        assert_eq!(xdp_link(info), Some(12));
        assert_eq!(xdp_link(&info.replace("xdp", "tcx")), None);
        assert_eq!(xdp_link("link_type:\txdp\n"), None);
    }
}
