//! The processes that use an interface, by an XDP program that is attached to it or by AF_XDP
//! sockets that are bound to its queues.
//!
//! The files `/proc/PID/fdinfo/*` show a process's XDP programs. The kernel lists AF_XDP sockets if
//! it was built with `CONFIG_XDP_SOCKETS_DIAG`. Only root sees the processes of other users.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use slipring_port::xdp::{BoundQueue, bound_sockets, socket_inode};

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

fn processes() -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
}

/// Returns the interfaces that a process uses through its descriptors. A socket's interface comes
/// with the queue to which the socket is bound. An XDP program's interface comes with `None`,
/// because the program gets the frames of all queues. The interface index of an XDP program is
/// valid only in the network namespace of its process. So XDP programs are ignored unless `here` is
/// true, which means that the process is in the current namespace.
fn held_by(dir: &Path, sockets: &HashMap<u64, BoundQueue>, here: bool) -> Vec<(u32, Option<u32>)> {
    let fds = fs::read_dir(dir.join("fd")).into_iter().flatten().flatten();
    let mut held = Vec::new();
    for fd in fds {
        let Ok(target) = fs::read_link(fd.path()) else { continue };
        let target = target.to_string_lossy();
        if let Some(bound) = socket_inode(&target).and_then(|inode| sockets.get(&inode)) {
            held.push((bound.ifindex, Some(bound.queue)));
        } else if here && target.starts_with("anon_inode:bpf") {
            let info = fs::read_to_string(dir.join("fdinfo").join(fd.file_name()));
            held.extend(xdp_link(&info.unwrap_or_default()).map(|ifindex| (ifindex, None)));
        }
    }
    held
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

    #[test]
    fn only_links_of_xdp_programs_hold_an_interface() {
        let info = "pos:\t0\nlink_type:\txdp\nlink_id:\t9\nprog_id:\t4\nifindex:\t12\n";
        assert_eq!(xdp_link(info), Some(12));
        assert_eq!(xdp_link(&info.replace("xdp", "tcx")), None);
        assert_eq!(xdp_link("link_type:\txdp\n"), None);
    }
}
