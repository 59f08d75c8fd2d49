//! Finds the process that uses an interface or a queue of it. A descriptor keeps an XDP program
//! attached, and `/proc` describes each process's descriptors. The kernel lists the AF_XDP socket of
//! a queue, if it was built with `CONFIG_XDP_SOCKETS_DIAG`. Otherwise, each process with AF_XDP
//! sockets is suspected.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::bound::{BoundQueue, bound_sockets, socket_inode};
use crate::error::QueueOwner;

/// Returns the process that holds the XDP program of an interface, as `name (pid)`. `None` if it
/// cannot be found, because privileges are missing or no process holds it.
pub(super) fn program_owner(ifindex: u32) -> Option<String> {
    // A child process that is just being started has a copy of this process's descriptors. So this
    // process is checked before all others.
    if holds_link_to(std::process::id(), ifindex) {
        return Some("this process".into());
    }
    let pid = pids().find(|&pid| is_in_our_netns(pid) && holds_link_to(pid, ifindex))?;
    process_label(pid)
}

/// Returns what uses a queue to which a socket cannot be bound. `has_own_program` means that this
/// process has attached the XDP program of the interface, so its owner says nothing.
pub(super) fn queue_owner(wanted: BoundQueue, has_own_program: bool) -> QueueOwner {
    let other_program = || match has_own_program {
        true => None,
        false => program_owner(wanted.ifindex),
    };
    match bound_sockets() {
        Ok(sockets) => owner_among(&sockets, wanted),
        // The kernel does not list AF_XDP sockets.
        Err(_) => other_program().map_or_else(suspects, QueueOwner::Process),
    }
}

/// Returns the owner of a queue among the sockets that the kernel has listed.
fn owner_among(sockets: &HashMap<u64, BoundQueue>, wanted: BoundQueue) -> QueueOwner {
    let inodes: HashSet<u64> =
        sockets.iter().filter(|(_, queue)| **queue == wanted).map(|(inode, _)| *inode).collect();
    if inodes.is_empty() {
        return QueueOwner::Nobody;
    }
    // As for programs, a child process that is just being started does not count.
    if holds_any(std::process::id(), &inodes) {
        return QueueOwner::Process("this process".into());
    }
    let holds = pids().filter(|pid| holds_any(*pid, &inodes));
    let labels: Vec<_> = holds.filter_map(process_label).collect();
    match labels.is_empty() {
        true => QueueOwner::Unknown,
        false => QueueOwner::Process(labels.join(" and ")),
    }
}

/// Returns the other processes of this network namespace that have AF_XDP sockets, of any queue.
fn suspects() -> QueueOwner {
    let own = std::process::id();
    let mut labels = Vec::new();
    for pid in pids().filter(|&pid| pid != own && is_in_our_netns(pid)) {
        match fs::read_to_string(format!("/proc/{pid}/maps")) {
            Ok(maps) if maps.lines().any(is_fill_ring) => labels.extend(process_label(pid)),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return QueueOwner::Unknown;
            }
            // Without such a ring, or the process has ended.
            Ok(_) | Err(_) => {}
        }
    }
    match labels.is_empty() {
        true => QueueOwner::Nobody,
        false => QueueOwner::Suspects(labels.join(" or ")),
    }
}

/// Returns whether a line of `/proc/PID/maps` is the mapping of a fill ring, which each AF_XDP
/// socket that receives has. Columns: addresses, rights, offset, device, inode, name.
fn is_fill_ring(mapping: &str) -> bool {
    let offset = mapping.split_ascii_whitespace().nth(2);
    let offset = offset.and_then(|offset| u64::from_str_radix(offset, 16).ok());
    offset == Some(libc::XDP_UMEM_PGOFF_FILL_RING)
        && mapped_name(mapping).and_then(socket_inode).is_some()
}

/// Returns whether a process has one of these sockets, or has mapped a ring of one. A ring may be
/// all that remains, where one process has lent it to another.
fn holds_any(pid: u32, inodes: &HashSet<u64>) -> bool {
    let is_one = |name: &str| socket_inode(name).is_some_and(|inode| inodes.contains(&inode));
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut targets = fds.filter_map(|fd| fs::read_link(fd.path()).ok());
    targets.any(|target| target.to_str().is_some_and(is_one))
        || fs::read_to_string(format!("/proc/{pid}/maps"))
            .is_ok_and(|maps| maps.lines().filter_map(mapped_name).any(is_one))
}

/// Returns the name in a line of `/proc/PID/maps`. Columns: addresses, rights, offset, device,
/// inode, name.
fn mapped_name(mapping: &str) -> Option<&str> {
    mapping.split_ascii_whitespace().nth(5)
}

/// Returns the processes that are visible here.
fn pids() -> impl Iterator<Item = u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Formats a process as `name (pid)`.
fn process_label(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(format!("{} ({pid})", name.trim_end()))
}

/// Returns whether a process is in this thread's network namespace. In other namespaces the same
/// index belongs to another interface.
fn is_in_our_netns(pid: u32) -> bool {
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/net")).ok();
    namespace("thread-self").is_some_and(|here| namespace(&pid.to_string()) == Some(here))
}

fn holds_link_to(pid: u32, ifindex: u32) -> bool {
    let fds = fs::read_dir(format!("/proc/{pid}/fdinfo"));
    fds.is_ok_and(|fds| fds.flatten().any(|fd| is_link_to(&fd.path(), ifindex)))
}

fn is_link_to(fdinfo: &Path, ifindex: u32) -> bool {
    fs::read_to_string(fdinfo).is_ok_and(|info| describes_link_to(&info, ifindex))
}

/// Returns whether the description of a descriptor contains `link_type: xdp` and `ifindex: N`.
fn describes_link_to(info: &str, ifindex: u32) -> bool {
    let value = |key: &str| info.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    value("link_type:") == Some("xdp")
        && value("ifindex:").and_then(|index| index.parse().ok()) == Some(ifindex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_without_a_socket_has_no_owner_and_one_whose_process_is_hidden_an_unknown_one() {
        let queue = |queue| BoundQueue { ifindex: 3, queue };
        // No process has a socket of this inode.
        let sockets = [(u64::MAX, queue(1))].into();
        assert_eq!(owner_among(&sockets, queue(0)), QueueOwner::Nobody);
        assert_eq!(owner_among(&sockets, queue(1)), QueueOwner::Unknown);
    }

    #[test]
    fn a_fill_ring_is_known_by_its_offset_in_a_socket() {
        let mapping = |offset, name| {
            format!("7f0f8c000000-7f0f8c003000 rw-s {offset} 00:09 4711                 {name}")
        };
        assert!(is_fill_ring(&mapping("100000000", "socket:[4711]")));
        assert!(!is_fill_ring(&mapping("00000000", "socket:[4711]")), "a packet socket's");
        assert!(!is_fill_ring(&mapping("100000000", "/tmp/large")));
        assert!(!is_fill_ring("7f0f8c000000-7f0f8c003000 rw-p 00000000 00:00 0"));
    }

    #[test]
    fn a_mapped_ring_has_the_name_of_its_socket() {
        let mapping = "7f0f8c000000-7f0f8c003000 rw-s 100000000 00:09 4711    socket:[4711]";
        assert_eq!(mapped_name(mapping).and_then(socket_inode), Some(4711));
        assert_eq!(mapped_name("7f0f8c000000-7f0f8c003000 rw-p 00000000 00:00 0"), None);
    }

    #[test]
    fn only_an_xdp_link_to_the_interface_counts() {
        let info = |kind, index| {
            format!(
                "pos:\t0\nflags:\t02000000\nlink_type:\t{kind}\nlink_id:\t7\nifindex:\t{index}\n"
            )
        };
        assert!(describes_link_to(&info("xdp", 3), 3));
        assert!(!describes_link_to(&info("xdp", 33), 3));
        assert!(!describes_link_to(&info("tcx", 3), 3));
        assert!(!describes_link_to("pos:\t0\n", 3));
    }
}
