//! Identifies a device within this process, whose threads may be in several network namespaces.

/// A device, by the inode number of its network namespace and its interface index. The index is
/// unique only within the namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DeviceKey {
    namespace: u64,
    ifindex: u32,
}

impl DeviceKey {
    /// Returns the key of a device in this thread's network namespace.
    pub(super) fn of(ifindex: u32) -> Self {
        let namespace = rustix::fs::stat("/proc/thread-self/ns/net").map_or(0, |stat| stat.st_ino);
        Self { namespace, ifindex }
    }
}
