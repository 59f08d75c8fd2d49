//! The service manager that has started this process, if there is one. The protocol is that of
//! systemd.
//!
//! ```text
//!   daemon sends    datagrams to NOTIFY_SOCKET: READY=1, RELOADING=1, WATCHDOG=1, STOPPING=1;
//!                   FDSTORE=1 with a descriptor and its FDNAME, FDSTOREREMOVE=1
//!   manager passes  LISTEN_FDS descriptors from 3 on, named by LISTEN_FDNAMES: sockets, and the
//!                   descriptors that the previous daemon has stored; slipring's own supervisor
//!                   also passes the eventfd that replaces WATCHDOG=1
//! ```

use std::env;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, sendmsg_addr, sendto, socket_with,
};
use rustix::process::getpid;
use slipring_core::inherited;
use slipring_netmap::FdStore;

use crate::heartbeat;

/// The variable in which systemd, from version 254 on, passes the number of descriptors that it can
/// store for this service.
pub(crate) const FDSTORE_VARIABLE: &str = "FDSTORE";

/// The connection to the manager, if there is one.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    notify_socket: Option<(OwnedFd, SocketAddrUnix)>,
    watchdog: Option<Duration>,
    /// The eventfd that is used instead of WATCHDOG=1 if slipring's own supervisor is the manager.
    heartbeat: Option<OwnedFd>,
    stores: bool,
}

impl ServiceManager {
    /// Finds the manager by environment variables. `heartbeat` is the eventfd that the manager has
    /// passed, if there is one.
    pub(crate) fn from_environment(heartbeat: Option<OwnedFd>) -> Self {
        let notify_socket =
            env::var("NOTIFY_SOCKET").ok().and_then(|name| connect_notify_socket(&name));
        let stores = env::var(FDSTORE_VARIABLE)
            .is_ok_and(|room| room.parse().is_ok_and(|room: u32| room > 0));
        let stores = stores && notify_socket.is_some();
        Self { notify_socket, watchdog: watchdog(|name| env::var(name).ok()), heartbeat, stores }
    }

    /// Returns whether the manager stores descriptors for the next daemon.
    pub(crate) fn stores(&self) -> bool {
        self.stores
    }

    /// Returns the period with which WATCHDOG=1 must be sent, which is half of the manager's
    /// timeout. `None` if the manager has no watchdog.
    pub(crate) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Tells the manager that the daemon is healthy.
    pub(crate) fn send_watchdog(&self) {
        match &self.heartbeat {
            Some(to) => heartbeat::send_heartbeat(to.as_fd()),
            None => self.notify("WATCHDOG=1"),
        }
    }

    /// Sends a notification to the manager. An error is ignored, because the manager may have
    /// ended.
    pub(crate) fn notify(&self, what: &str) {
        let Some((socket, address)) = &self.notify_socket else { return };
        let _ = sendto(socket, what.as_bytes(), SendFlags::NOSIGNAL, address);
    }
}

impl FdStore for ServiceManager {
    fn store(&self, name: &str, fd: BorrowedFd<'_>) {
        let Some((socket, address)) = &self.notify_socket else { return };
        let text = format!("FDSTORE=1\nFDNAME={name}");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [fd];
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let parts = [IoSlice::new(text.as_bytes())];
        let _ = sendmsg_addr(socket, address, &parts, &mut control, SendFlags::NOSIGNAL);
    }

    fn remove(&self, name: &str) {
        self.notify(&format!("FDSTOREREMOVE=1\nFDNAME={name}"));
    }
}

fn connect_notify_socket(name: &str) -> Option<(OwnedFd, SocketAddrUnix)> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
        None => SocketAddrUnix::new(name),
    };
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    Some((socket.ok()?, address.ok()?))
}

fn watchdog(variable: impl Fn(&str) -> Option<String>) -> Option<Duration> {
    let waits: u64 = variable("WATCHDOG_USEC")?.parse().ok().filter(|&waits| waits > 1)?;
    let pid = variable("WATCHDOG_PID");
    let ours = pid.is_none_or(|pid| pid == getpid().as_raw_nonzero().to_string());
    ours.then(|| Duration::from_micros(waits / 2))
}

/// Returns the descriptors that the manager has passed at the start, with their names.
pub(crate) fn inherited_fds() -> Vec<(String, OwnedFd)> {
    let variable = |name| env::var(name).ok();
    let ours = variable("LISTEN_PID") == Some(getpid().as_raw_nonzero().to_string());
    let count: i32 = variable("LISTEN_FDS").and_then(|count| count.parse().ok()).unwrap_or(0);
    let names = variable("LISTEN_FDNAMES").unwrap_or_default();
    let numbers = if ours { 3..3 + count.clamp(0, 1 << 20) } else { 3..3 };
    let names = names.split(':').map(str::to_owned).chain(std::iter::repeat(String::new()));
    names.zip(numbers).filter_map(|(name, number)| Some((name, inherited::take(number)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_is_ours_if_no_process_is_named_or_we_are() {
        let me = getpid().as_raw_nonzero().to_string();
        for (usec, pid, wanted) in [
            (Some("2000000"), None, Some(Duration::from_secs(1))),
            (Some("2000000"), Some(me.as_str()), Some(Duration::from_secs(1))),
            (Some("2000000"), Some("1"), None),
            (Some("0"), None, None),
            (Some("soon"), None, None),
            (None, None, None),
        ] {
            let variable = |name: &str| match name {
                "WATCHDOG_USEC" => usec.map(str::to_owned),
                _ => pid.map(str::to_owned),
            };
            assert_eq!(watchdog(variable), wanted, "{usec:?} {pid:?}");
        }
    }

    #[test]
    fn nothing_is_told_where_nobody_listens() {
        ServiceManager { notify_socket: None, watchdog: None, heartbeat: None, stores: false }
            .notify("READY=1");
    }
}
