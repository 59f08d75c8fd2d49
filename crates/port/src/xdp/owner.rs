//! Finds the process that uses an interface, for an error message. A descriptor keeps the program
//! attached, and `/proc` describes each process's descriptors.

use std::fs;
use std::path::Path;

/// Returns the process that holds the XDP program of an interface, as `name (pid)`. `None` if it
/// cannot be found, because privileges are missing or no process holds it.
pub(super) fn program_owner(ifindex: u32) -> Option<String> {
    // A child process that is just being started has a copy of this process's descriptors. So this
    // process is checked before all others.
    if holds_link_to(std::process::id(), ifindex) {
        return Some("this process".into());
    }
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let pid = pids.find(|&pid: &u32| is_in_our_netns(pid) && holds_link_to(pid, ifindex))?;
    process_label(pid)
}

/// Returns another process of this network namespace that has mapped AF_XDP rings. Such a mapping
/// may remain from a loan, and it keeps the queue busy. `None` if no other process has any, or
/// several have.
pub(super) fn socket_owner() -> Option<String> {
    match others_with_rings()[..] {
        [pid] => process_label(pid),
        _ => None,
    }
}

/// Like [`socket_owner`], but `None` only if no other process has any.
pub(super) fn socket_owners() -> Option<String> {
    let pids = others_with_rings();
    let label = |pid: &u32| process_label(*pid).unwrap_or_else(|| format!("process {pid}"));
    let labels: Vec<_> = pids.iter().map(label).collect();
    (!labels.is_empty()).then(|| labels.join(" or "))
}

/// Returns the other processes of this network namespace that have mapped AF_XDP rings.
fn others_with_rings() -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has_rings = |pid: u32| {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"));
        maps.is_ok_and(|maps| maps.lines().any(is_fill_ring))
    };
    let own = std::process::id();
    pids.filter(|&pid| pid != own && is_in_our_netns(pid) && has_rings(pid)).collect()
}

/// Returns whether a line of `/proc/PID/maps` is the mapping of a fill ring. Columns: addresses,
/// rights, offset, device, inode, name.
fn is_fill_ring(mapping: &str) -> bool {
    let mut words = mapping.split_ascii_whitespace();
    let offset = words.nth(2).and_then(|offset| u64::from_str_radix(offset, 16).ok());
    offset == Some(libc::XDP_UMEM_PGOFF_FILL_RING)
        && words.nth(2).is_some_and(|name| name.starts_with("socket:["))
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
