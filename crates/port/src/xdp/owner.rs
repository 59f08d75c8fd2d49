//! Finds out who has an interface, for an error message: a program in its place is held by a
//! descriptor, and `/proc` tells of each descriptor what it is.

use std::fs;
use std::path::Path;

/// The process that holds the XDP program of an interface, as `name (pid)`; `None` when it cannot
/// be found, for want of privilege or because nothing holds it.
pub(super) fn of_program(ifindex: u32) -> Option<String> {
    // A child of ours that is just being started has a copy of our descriptors.
    if holds(std::process::id(), ifindex) {
        return Some("this process".into());
    }
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let pid = pids.find(|&pid: &u32| is_near(pid) && holds(pid, ifindex))?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(format!("{} ({pid})", name.trim_end()))
}

/// Whether a process is in this thread's network namespace: others number their interfaces alike.
fn is_near(pid: u32) -> bool {
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/net")).ok();
    namespace("thread-self").is_some_and(|here| namespace(&pid.to_string()) == Some(here))
}

fn holds(pid: u32, ifindex: u32) -> bool {
    let fds = fs::read_dir(format!("/proc/{pid}/fdinfo"));
    fds.is_ok_and(|fds| fds.flatten().any(|fd| is_link_to(&fd.path(), ifindex)))
}

fn is_link_to(fdinfo: &Path, ifindex: u32) -> bool {
    fs::read_to_string(fdinfo).is_ok_and(|info| says_link_to(&info, ifindex))
}

/// Of one description, `link_type: xdp` and `ifindex: N` among others.
fn says_link_to(info: &str, ifindex: u32) -> bool {
    let value = |key: &str| info.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    value("link_type:") == Some("xdp")
        && value("ifindex:").and_then(|index| index.parse().ok()) == Some(ifindex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_xdp_link_to_the_interface_counts() {
        let info = |kind, index| {
            format!(
                "pos:\t0\nflags:\t02000000\nlink_type:\t{kind}\nlink_id:\t7\nifindex:\t{index}\n"
            )
        };
        assert!(says_link_to(&info("xdp", 3), 3));
        assert!(!says_link_to(&info("xdp", 33), 3));
        assert!(!says_link_to(&info("tcx", 3), 3));
        assert!(!says_link_to("pos:\t0\n", 3));
    }
}
