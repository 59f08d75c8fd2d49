//! Counts frames that the kernel dropped on the host's side of a TAP device, because its queue
//! towards the port was full.
//!
//! Only the device's own counters show them. They are read in the network namespace of the device.
//! That need not be this thread's, because a device may be moved after it was opened.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::sys;
use crate::netlink::Netlink;

/// Reads the drop counter of one device.
#[derive(Debug)]
pub(super) struct HostDrops {
    index: u32,
    name: String,
    netlink: Option<Netlink>,
    /// The last value of the device's counter.
    last_count: u64,
}

impl HostDrops {
    /// Starts counting. Frames that the device has dropped before are not included. The device must
    /// be in this thread's network namespace.
    pub(super) fn new(index: u32, name: &str) -> Self {
        let mut drops =
            Self { index, name: name.to_owned(), netlink: Netlink::open().ok(), last_count: 0 };
        drops.last_count = drops.read_here().unwrap_or(0);
        drops
    }

    /// Returns how many frames were dropped since the last call; `None` if the device cannot be
    /// found.
    pub(super) fn take_new(&mut self, tun: BorrowedFd<'_>) -> Option<u64> {
        let count = self.read_here().or_else(|| {
            self.netlink = netlink_of_device(tun).ok();
            self.read_here()
        })?;
        Some(count.saturating_sub(self.last_count))
    }

    fn read_here(&self) -> Option<u64> {
        let links = self.netlink.as_ref()?.links().ok()?;
        // Both index and name are checked: the index may change when the device is moved, and then
        // another device may have the name.
        let mut same = links.iter().filter(|link| link.name == self.name && link.kind == "tun");
        let found = same.clone().find(|link| link.index == self.index).or_else(|| same.next());
        found.map(|link| link.tx_dropped)
    }
}

/// Returns a netlink socket in the network namespace in which the device is now.
fn netlink_of_device(tun: BorrowedFd<'_>) -> io::Result<Netlink> {
    let netns = sys::namespace(tun)?;
    let opened = std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            // A separate thread moves into that namespace and then ends, so that this thread's
            // namespace does not change.
            move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))?;
            Netlink::open()
        });
        inside.join()
    });
    opened.unwrap_or_else(|_| Err(io::Error::other("the thread in the device's namespace failed")))
}
