//! The service manager that started us, if one did: systemd's protocol.
//!
//! ```text
//!   we -> manager   datagrams to NOTIFY_SOCKET: READY=1, RELOADING=1, WATCHDOG=1, STOPPING=1
//!   manager -> us   LISTEN_FDS descriptors from 3 on, named by LISTEN_FDNAMES
//! ```

use std::env;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sendto, socket_with,
};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// Where a manager listens; nobody, where there is none.
#[derive(Debug)]
pub(crate) struct Manager {
    to: Option<(OwnedFd, SocketAddrUnix)>,
    watchdog: Option<Duration>,
}

impl Manager {
    /// The one that the environment names.
    pub(crate) fn of_environment() -> Self {
        let to = env::var("NOTIFY_SOCKET").ok().and_then(|name| listener(&name));
        Self { to, watchdog: watchdog(|name| env::var(name).ok()) }
    }

    /// How often it wants to hear that all is well: twice in the time that it waits.
    pub(crate) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Tells it something. It may be gone, which is its own affair.
    pub(crate) fn tell(&self, what: &str) {
        let Some((socket, address)) = &self.to else { return };
        let _ = sendto(socket, what.as_bytes(), SendFlags::NOSIGNAL, address);
    }
}

fn listener(name: &str) -> Option<(OwnedFd, SocketAddrUnix)> {
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

/// What a manager hands us at the start: descriptors and their names.
pub(crate) fn handed() -> Vec<(String, OwnedFd)> {
    let variable = |name| env::var(name).ok();
    let ours = variable("LISTEN_PID") == Some(getpid().as_raw_nonzero().to_string());
    let count: i32 = variable("LISTEN_FDS").and_then(|count| count.parse().ok()).unwrap_or(0);
    let names = variable("LISTEN_FDNAMES").unwrap_or_default();
    let Ok(process) = pidfd_open(getpid(), PidfdFlags::empty()) else { return Vec::new() };
    let numbers = if ours { 3..3 + count.clamp(0, 4096) } else { 3..3 };
    let names = names.split(':').map(str::to_owned).chain(std::iter::repeat(String::new()));
    // A descriptor of ours for each: what stands at a bare number could be anybody's.
    let own = |number| pidfd_getfd(process.as_fd(), number, PidfdGetfdFlags::empty()).ok();
    names.zip(numbers).filter_map(|(name, number)| Some((name, own(number)?))).collect()
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
        Manager { to: None, watchdog: None }.tell("READY=1");
    }
}
