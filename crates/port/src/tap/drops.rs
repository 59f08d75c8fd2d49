//! Counts frames that the kernel dropped on the host's side of a TAP device, usually because the
//! device's queue towards the port was full.
//!
//! Only the device's own counters show these frames. The counters are read in the network namespace
//! of the device. This may be another namespace than this thread's, because a device may be moved
//! after it was opened.
//!
//! The thread that moves frames reads the counters, so reading must not block. rtnetlink could
//! block: the kernel has one lock for the links of all namespaces, which any process may hold for
//! seconds. Reading the list in `/proc` does not take this lock.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::netdevice::{index_to_name, name_to_index};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::sys;
use crate::iface::control_socket;

/// The devices of the calling thread's network namespace, with their counters.
const DEVICES: &str = "/proc/thread-self/net/dev";
/// Index of the column with the number of frames that the kernel did not send. Column 0 is the
/// first one after the device's name.
const TX_DROPPED: usize = 11;

/// Reads the drop counter of one device.
#[derive(Debug)]
pub(super) struct HostDrops {
    index: u32,
    name: String,
    /// The list of devices with their counters; `None` if there is no `/proc`.
    devices: Option<DeviceList>,
    /// Whether the device was last not found: this process may not enter the device's namespace, or
    /// the device no longer exists.
    unreachable: bool,
    /// The value of the device's counter up to which frames were counted.
    last_count: u64,
    /// Frames that were dropped since counting started.
    counted: u64,
}

impl HostDrops {
    /// Starts counting. Frames that the device has dropped before are not included. The device must
    /// be in this thread's network namespace.
    pub(super) fn new(index: u32, name: &str) -> Self {
        let devices = DeviceList::open().ok();
        let name = name.to_owned();
        let mut drops =
            Self { index, name, devices, unreachable: false, last_count: 0, counted: 0 };
        drops.last_count = drops.read_here().unwrap_or(0);
        drops
    }

    /// Returns how many frames were dropped since counting started; `None` if the device cannot be
    /// found. This waits for the kernel's lock of links only in the first call after the device was
    /// moved.
    pub(super) fn take_new(&mut self, tun: BorrowedFd<'_>) -> Option<u64> {
        if self.read_here().is_some() {
            self.unreachable = false;
        } else if !self.unreachable {
            self.unreachable = self.follow(tun).is_err();
        }
        let count = self.read_here()?;
        self.counted += count.saturating_sub(self.last_count);
        self.last_count = count;
        Some(self.counted)
    }

    /// The lower half of the device's counter, up to which frames were counted.
    pub(super) const fn position(&self) -> u32 {
        self.last_count as u32
    }

    /// Continues where another process has stopped counting: at this lower half of the device's
    /// counter.
    pub(super) fn resume(&mut self, position: u32) {
        if let Some(count) = self.read_here() {
            self.last_count = count - u64::from((count as u32).wrapping_sub(position)).min(count);
        }
    }

    /// Finds the namespace of a device that was moved, and finds the device there by its present
    /// name, which the kernel reports for its descriptor. The device's index may be different
    /// there.
    #[cold]
    fn follow(&mut self, tun: BorrowedFd<'_>) -> io::Result<()> {
        let devices = devices_around(tun)?;
        self.index = name_to_index(&devices.socket, &sys::current_name(tun)?)?;
        self.devices = Some(devices);
        Ok(())
    }

    fn read_here(&mut self) -> Option<u64> {
        let devices = self.devices.as_mut()?;
        // The device may have been renamed, and another one may have the old name.
        self.name = index_to_name(&devices.socket, self.index).ok()?;
        devices.tx_dropped(&self.name)
    }
}

/// The devices of one network namespace with their counters. The list stays that of this namespace,
/// whichever namespace the reading thread is in.
#[derive(Debug)]
struct DeviceList {
    socket: OwnedFd,
    list: File,
}

impl DeviceList {
    /// Opens the list of the calling thread's namespace.
    fn open() -> io::Result<Self> {
        Ok(Self { socket: control_socket()?, list: File::open(DEVICES)? })
    }

    /// Returns how many frames for the device `name` the kernel dropped instead of sending them.
    fn tx_dropped(&mut self, name: &str) -> Option<u64> {
        let mut text = String::new();
        self.list.rewind().ok()?;
        self.list.read_to_string(&mut text).ok()?;
        // The last colon of a row ends the name of the device: the numbers contain no colon.
        let mut rows = text.lines().filter_map(|row| row.trim_start().rsplit_once(':'));
        let (_, counters) = rows.find(|(device, _)| *device == name)?;
        counters.split_ascii_whitespace().nth(TX_DROPPED)?.parse().ok()
    }
}

/// Opens the list of the network namespace in which the device is now.
fn devices_around(tun: BorrowedFd<'_>) -> io::Result<DeviceList> {
    let netns = sys::namespace(tun)?;
    let opened = std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            // A separate thread moves into that namespace and then ends, so that this thread's
            // namespace does not change.
            move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))?;
            DeviceList::open()
        });
        inside.join()
    });
    opened.unwrap_or_else(|_| Err(io::Error::other("the thread in the device's namespace failed")))
}
