//! The wait for the links of ports before they are opened.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use slipring_abi::name::kind::{DEVICE_PATH, HOST_RINGS};
use slipring_abi::name::{PortName, PortNameKind};
use slipring_cli::{Failure, Signals};
use slipring_port::iface::Iface;
use slipring_port::netlink::LinkEvents;
use slipring_port::{OpenOptions, native, now};

use crate::takeover::opens_taken_card;

/// Waits until the interfaces of `ports` are up, `time` is over, or a signal requests the end.
///
/// # Errors
/// [`Failure`] if the kernel does not report changes of links.
pub fn wait_for_links(
    ports: &[PortName],
    options: &OpenOptions,
    time: Duration,
    signals: &Signals,
) -> Result<(), Failure> {
    wait_while(|| ports.iter().any(|port| is_down(port, options)), time, signals).map(|_| ())
}

/// Waits until `is_missing` returns false, `time` is over, or a signal requests the end. Returns
/// true only if `is_missing` still returned true when `time` was over.
///
/// # Errors
/// [`Failure`] if the kernel does not report changes of links.
pub fn wait_while(
    is_missing: impl Fn() -> bool,
    time: Duration,
    signals: &Signals,
) -> Result<bool, Failure> {
    let until = now().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let events = LinkEvents::open()?;
    while is_missing() && !signals.stopping() {
        let Some(left) = until.checked_sub(now()).filter(|left| *left > 0) else {
            return Ok(true);
        };
        let timeout = Timespec {
            tv_sec: (left / 1_000_000_000) as i64,
            tv_nsec: (left % 1_000_000_000) as _,
        };
        let mut fds = [
            PollFd::from_borrowed_fd(signals.wake_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(events.as_fd(), PollFlags::IN),
        ];
        // Even if a signal interrupted the poll, the links are checked again.
        let _ = poll(&mut fds, Some(&timeout));
        events.clear();
    }
    Ok(false)
}

/// Returns whether a port belongs to a daemon in another network namespace, whose interfaces cannot
/// be read here.
#[must_use]
pub fn is_elsewhere(port: &PortName, options: &OpenOptions) -> bool {
    let is_daemons = port.kind == PortNameKind::Kernel;
    is_daemons && options.daemon.as_deref().is_some_and(native::serves_other_network)
}

/// Returns whether the port is an interface of the kernel that opening the port does not bring up.
/// A TAP device does not count, because a `tap:` port brings it up; nor does a pipe, nor a name
/// that opens a taken card, because the interface of this name is the card's TAP device.
#[must_use]
pub fn is_interface(port: &PortName) -> bool {
    (port.kind.has(HOST_RINGS) || port.kind.has(DEVICE_PATH))
        && port.pipe.is_none()
        && !opens_taken_card(port)
}

/// Returns whether the port is an interface that is down and stays down when it is opened.
fn is_down(port: &PortName, options: &OpenOptions) -> bool {
    is_interface(port)
        && Iface::find(&port.name).is_ok_and(|iface| !iface.up)
        && !is_elsewhere(port, options)
}

#[cfg(test)]
mod tests {
    use slipring_test_support::Namespace;

    use super::*;

    fn down_among(names: &'static [&'static str], namespace: &Namespace) -> Vec<&'static str> {
        let down =
            |name: &&str| is_down(&PortName::parse_classic(name).unwrap(), &OpenOptions::default());
        namespace.run(move || names.iter().copied().filter(down).collect())
    }

    #[test]
    fn a_tap_device_is_not_waited_for_because_its_port_sets_it_up() {
        let Some(namespace) = Namespace::new() else { return };
        namespace.ip("tuntap add dev eth1 mode tap");
        assert!(down_among(&["tap:eth1"], &namespace).is_empty());
    }

    #[test]
    fn an_interface_that_is_down_is_waited_for_by_each_kind_that_leaves_it_down() {
        const NAMES: &[&str] = &[
            "eth1",
            "xdp:eth1",
            "packet:eth1",
            "netmap:eth1^",
            "netmap:eth1*",
            "kernel:eth1",
            // None of these is the interface.
            "null:",
            "pcap:eth1",
            "vale0:eth1",
            "netmap:eth1{1",
            "kernel:eth1{1",
            "xdp:eth2",
        ];
        let Some(namespace) = Namespace::new() else { return };
        namespace.ip("tuntap add dev eth1 mode tap");
        assert_eq!(down_among(NAMES, &namespace), NAMES[..6]);
        namespace.ip("link set eth1 up");
        assert!(down_among(NAMES, &namespace).is_empty());
    }
}
