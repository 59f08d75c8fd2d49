//! What `/proc` shows of processes, and of the descriptors and mappings by which they hold XDP
//! programs and AF_XDP sockets.
//!
//! A process of another user, or of another user namespace, keeps these hidden. With
//! `CAP_SYS_PTRACE`, the processes of this user namespace and of those below it are visible.

use std::fs;
use std::path::PathBuf;

use rustix::thread::{CapabilitySet, capabilities};

/// The processes in `/proc`, or in a directory of the same form.
#[derive(Debug, Clone)]
pub struct ProcessTable {
    root: PathBuf,
    own_pid: u32,
    sees_other_users: bool,
}

/// A process. It may have ended; then `/proc` shows nothing of it, and it counts as a process that
/// holds no objects.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    dir: PathBuf,
}

/// An object by which a process may use an interface or a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldObject {
    /// A socket of any family, by its inode number.
    Socket(u64),
    /// The link that keeps an XDP program attached to the interface of this index. The index is
    /// valid in the network namespace in which the interface is.
    XdpLink(u32),
}

impl ProcessTable {
    /// The processes that this thread sees.
    #[must_use]
    pub fn visible() -> Self {
        let sets = capabilities(None);
        Self {
            root: "/proc".into(),
            own_pid: std::process::id(),
            sees_other_users: sets
                .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_PTRACE)),
        }
    }

    /// A directory of the form of `/proc`, in which this process has the number `own_pid`.
    #[cfg(test)]
    pub(super) fn in_directory(root: PathBuf, own_pid: u32, sees_other_users: bool) -> Self {
        Self { root, own_pid, sees_other_users }
    }

    /// Returns whether processes of other users show what they hold, too.
    #[must_use]
    pub const fn sees_other_users(&self) -> bool {
        self.sees_other_users
    }

    /// Returns this process.
    pub(super) fn own(&self) -> Process {
        Process { pid: self.own_pid, dir: self.root.join(self.own_pid.to_string()) }
    }

    /// Returns all processes.
    pub fn all(&self) -> impl Iterator<Item = Process> {
        fs::read_dir(&self.root).into_iter().flatten().flatten().filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some(Process { pid, dir: entry.path() })
        })
    }

    /// Returns all processes but this one.
    pub(super) fn others(&self) -> impl Iterator<Item = Process> {
        self.all().filter(|process| process.pid != self.own_pid)
    }

    /// Returns whether a process is in this thread's network namespace. In other namespaces the
    /// same index belongs to another interface. False for a process that hides its namespace.
    #[must_use]
    pub fn is_in_our_netns(&self, process: &Process) -> bool {
        let here = fs::read_link(self.root.join("thread-self/ns/net"));
        here.is_ok_and(|here| fs::read_link(process.dir.join("ns/net")).is_ok_and(|it| it == here))
    }
}

impl Process {
    /// Returns the process ID.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the name of the process; `None` if it has ended.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        let name = fs::read_to_string(self.dir.join("comm")).ok()?;
        Some(name.trim_end().to_owned())
    }

    /// Formats the process as `name (pid)`; `None` if it has ended.
    pub(super) fn label(&self) -> Option<String> {
        self.name().map(|name| format!("{name} ({})", self.pid))
    }

    /// Returns the sockets and XDP links among the descriptors; nothing if they are hidden.
    pub fn held_objects(&self) -> impl Iterator<Item = HeldObject> {
        fs::read_dir(self.dir.join("fd")).into_iter().flatten().flatten().filter_map(|fd| {
            let target = fs::read_link(fd.path()).ok()?;
            let target = target.to_str()?;
            if !target.starts_with("anon_inode:bpf") {
                return socket_inode(target).map(HeldObject::Socket);
            }
            let info = fs::read_to_string(self.dir.join("fdinfo").join(fd.file_name())).ok()?;
            xdp_link(&info).map(HeldObject::XdpLink)
        })
    }

    /// Returns the inode numbers of the sockets whose rings the process has mapped; nothing if the
    /// mappings are hidden. If one process has lent a socket to another, a mapped ring may be all
    /// that remains of the socket.
    pub(super) fn mapped_sockets(&self) -> Vec<u64> {
        let maps = fs::read_to_string(self.dir.join("maps")).unwrap_or_default();
        maps.lines().filter_map(mapped_socket).map(|(_, inode)| inode).collect()
    }

    /// Returns whether the process has mapped a fill ring, which each AF_XDP socket that receives
    /// has; false if the mappings are hidden.
    pub(super) fn has_fill_ring(&self) -> bool {
        let maps = fs::read_to_string(self.dir.join("maps")).unwrap_or_default();
        let offsets = maps.lines().filter_map(mapped_socket).map(|(offset, _)| offset);
        offsets.into_iter().any(|offset| offset == libc::XDP_UMEM_PGOFF_FILL_RING)
    }
}

/// Parses a line of `/proc/PID/maps`: offset and inode number of a mapped socket, `None` for
/// another mapping. Columns: addresses, rights, offset, device, inode, name.
fn mapped_socket(mapping: &str) -> Option<(u64, u64)> {
    let mut columns = mapping.split_ascii_whitespace().skip(2);
    let offset = u64::from_str_radix(columns.next()?, 16).ok()?;
    Some((offset, socket_inode(columns.nth(2)?)?))
}

/// Parses the number in `socket:[123]`, as `/proc` names a socket.
fn socket_inode(target: &str) -> Option<u64> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Returns the interface of an XDP link, from the file of its descriptor in `/proc/PID/fdinfo`.
fn xdp_link(info: &str) -> Option<u32> {
    let value = |key| info.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    (value("link_type:")? == "xdp").then(|| value("ifindex:")?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_mapped_ring_has_the_offset_of_its_kind_and_the_number_of_its_socket() {
        let mapping = |offset, name| {
            format!("7f0f8c000000-7f0f8c003000 rw-s {offset} 00:09 4711                 {name}")
        };
        let fill_ring = mapping("100000000", "socket:[4711]");
        assert_eq!(mapped_socket(&fill_ring), Some((libc::XDP_UMEM_PGOFF_FILL_RING, 4711)));
        assert_eq!(mapped_socket(&mapping("00000000", "socket:[4711]")), Some((0, 4711)));
        assert_eq!(mapped_socket(&mapping("100000000", "/tmp/large")), None);
        assert_eq!(mapped_socket("7f0f8c000000-7f0f8c003000 rw-p 00000000 00:00 0"), None);
    }

    #[test]
    fn only_links_of_xdp_programs_hold_an_interface() {
        let info = "pos:\t0\nflags:\t02\nlink_type:\txdp\nlink_id:\t9\nifindex:\t12\n";
        assert_eq!(xdp_link(info), Some(12));
        assert_eq!(xdp_link(&info.replace("xdp", "tcx")), None);
        assert_eq!(xdp_link("link_type:\txdp\n"), None);
        assert_eq!(xdp_link("pos:\t0\n"), None);
    }

    #[test]
    fn processes_of_other_users_are_seen_with_an_effective_capability() {
        const CAP_SYS_PTRACE: u32 = 19;
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        let effective = u64::from_str_radix(effective.trim(), 16).unwrap();
        let has_right = effective >> CAP_SYS_PTRACE & 1 == 1;
        assert_eq!(ProcessTable::visible().sees_other_users(), has_right);
    }

    #[test]
    fn a_socket_of_this_process_is_among_its_descriptors_until_it_is_closed() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let inode = rustix::fs::fstat(socket.as_fd()).unwrap().st_ino;
        let table = ProcessTable::visible();
        let is_held = || table.own().held_objects().any(|held| held == HeldObject::Socket(inode));
        assert!(is_held() && table.is_in_our_netns(&table.own()));
        assert!(table.all().any(|process| process.pid() == std::process::id()));
        assert!(table.others().all(|process| process.pid() != std::process::id()));
        drop(socket);
        assert!(!is_held());
    }
}
