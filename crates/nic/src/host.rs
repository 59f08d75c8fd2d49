//! The operations on the machine that the commands need. Tests use a simulated machine.

use std::io;
use std::path::Path;
use std::time::Duration;

use slipring_drivers::{CardStatus, SettingRefusal, SettingsRequest};
use slipring_port::netlink::{LinkSnapshot, NetlinkLink, SavedSetting};

/// A machine: its files, its links, its clock.
pub(crate) trait NicHost {
    /// The directory that contains `sys`, `proc` and `dev`.
    fn root(&self) -> &Path;

    /// Whether this process may bind devices to drivers.
    fn is_privileged(&self) -> bool;

    /// This process's limit of locked memory (`RLIMIT_MEMLOCK`), in bytes; `None` if there is none.
    /// Under sudo, the limit comes from the session of the user who called sudo.
    fn memory_lock(&self) -> Option<u64>;

    /// Writes to a file of sysfs, which changes the machine.
    fn write(&self, path: &Path, text: &str) -> io::Result<()>;

    /// Gives a file to a user.
    fn chown(&self, path: &Path, uid: u32) -> io::Result<()>;

    /// Returns all links.
    fn links(&self) -> io::Result<Vec<NetlinkLink>>;

    /// Returns the addresses and routes of a link.
    fn snapshot(&self, index: u32) -> io::Result<LinkSnapshot>;

    /// Returns whether the driver of a link supports AF_XDP zero-copy; `None` if the kernel cannot
    /// report it.
    fn has_zero_copy(&self, index: u32) -> Option<bool>;

    /// Changes a link.
    fn change_link(&self, index: u32, change: &LinkChange<'_>) -> io::Result<()>;

    /// Checks whether the kernel would accept a route that a link has. Nothing is changed.
    fn check_route(&self, index: u32, route: &SavedSetting) -> io::Result<()>;

    /// Creates a persistent TAP device; returns its index.
    fn create_tap(&self, name: &str) -> io::Result<u32>;

    /// Returns the first registers of an interface's device, as its driver reports them.
    fn registers(&self, interface: &str) -> io::Result<Vec<u8>>;

    /// Starts the process that gives a card back when the time for its confirmation is over.
    fn start_timer(&self, bdf: &str) -> io::Result<()>;

    /// Sends a process the signal KILL if `kill` is true, otherwise TERM.
    fn end_process(&self, pid: u32, kill: bool) -> io::Result<()>;

    /// Asks process `pid`, which has a card open, to change the card's settings. Returns the answer
    /// of the process.
    fn ask_card(
        &self,
        pid: u32,
        bdf: &str,
        request: &SettingsRequest,
    ) -> io::Result<Result<CardStatus, SettingRefusal>>;

    /// The time since the machine was started.
    fn uptime(&self) -> Duration;

    /// Sleeps for this time.
    fn pause(&self, time: Duration);
}

/// A change of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkChange<'a> {
    Up,
    Down,
    Delete,
    Name(&'a str),
    Mac([u8; 6]),
    Mtu(u32),
    Alias(&'a str),
    /// Makes it a member of the bridge or bond with this index.
    Master(u32),
    Address(&'a SavedSetting),
    Route(&'a SavedSetting),
}
