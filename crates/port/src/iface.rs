//! Network interfaces: their properties, and settings that are restored.
//!
//! All queries use sockets or `/proc/thread-self/net`, which belong to this thread's network
//! namespace. sysfs would show the namespace in which it was mounted.

mod features;
mod settings;
mod sys;

use std::io;
use std::os::fd::OwnedFd;

use crate::error::OpenCause;
use crate::netlink::Netlink;

pub use features::{Feature, FeatureGuard, set_feature_by_index};
pub(crate) use settings::or_by_keeper;
pub use settings::{SettingsRestorer, set_settings_keeper};
pub(crate) use sys::{control_socket, flags};

/// Maximum length of an interface name, in bytes.
const MAX_NAME_LEN: usize = 15;

/// The properties of an interface when it was looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iface {
    /// The interface's name.
    pub name: String,
    /// The interface's index, which does not change when the interface is renamed.
    pub index: u32,
    /// Maximum number of bytes of a frame after the Ethernet header.
    pub mtu: u32,
    /// Hardware address; all zeros if the interface has none.
    pub mac: [u8; 6],
    /// Whether the interface has Ethernet frames.
    pub ethernet: bool,
    /// Whether the interface is set up (`IFF_UP`).
    pub up: bool,
    /// Whether the interface is up and has a carrier, so that frames can leave (`IFF_RUNNING`).
    pub carrier: bool,
    /// Whether the interface is a loopback interface.
    pub loopback: bool,
    /// Name of the interface's driver; empty if unknown.
    pub driver: String,
    /// Number of queues that receive; 1 if unknown.
    pub rx_queues: u32,
    /// Number of queues that send; 1 if unknown.
    pub tx_queues: u32,
}

/// How long an interface delays its interrupt for received frames (`ethtool -c`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coalescing {
    /// Maximum delay, in microseconds.
    pub rx_usecs: u32,
    /// Number of received frames after which the interrupt is not delayed any more: 1 for no delay,
    /// 0 if only the time counts.
    pub rx_frames: u32,
    /// Whether the hardware or its driver adapts the delay to the load.
    pub adaptive_rx: bool,
}

impl Iface {
    /// Returns how long the interface delays its interrupts.
    ///
    /// # Errors
    /// The kernel's error, usually EOPNOTSUPP, because the driver cannot tell.
    pub fn coalescing(&self) -> io::Result<Coalescing> {
        let socket = sys::control_socket()?;
        let (rx_usecs, rx_frames, adaptive_rx) = sys::coalescing(&socket, &self.name)?;
        Ok(Coalescing { rx_usecs, rx_frames, adaptive_rx })
    }

    /// Returns the first registers of the device, at most 256 bytes, as its driver reports them
    /// (`ethtool -d`). Their meaning depends on the driver.
    ///
    /// # Errors
    /// The kernel's error: EPERM without CAP_NET_ADMIN, EOPNOTSUPP if the driver does not report
    /// them.
    pub fn registers(&self) -> io::Result<Vec<u8>> {
        sys::registers(&sys::control_socket()?, &self.name)
    }

    /// Looks an interface up in this thread's network namespace.
    ///
    /// # Errors
    /// [`OpenCause::NoInterface`] if no interface has this name; [`OpenCause::System`] if the
    /// kernel does not answer.
    pub fn find(name: &str) -> Result<Self, OpenCause> {
        let none = || OpenCause::NoInterface { ifname: name.to_owned() };
        if name.is_empty() || name.len() > MAX_NAME_LEN || name.contains('\0') {
            return Err(none());
        }
        let socket = sys::control_socket().map_err(query_error)?;
        let index = match rustix::net::netdevice::name_to_index(&socket, name) {
            Ok(index) => index,
            Err(rustix::io::Errno::NODEV) => return Err(none()),
            Err(error) => return Err(query_error(error.into())),
        };
        Self::read(&socket, name, index).map_err(|error| match error.raw_os_error() {
            Some(libc::ENODEV) => none(),
            _ => query_error(error),
        })
    }

    fn read(socket: &OwnedFd, name: &str, index: u32) -> io::Result<Self> {
        let flags = sys::flags(socket, name)?;
        let (kind, mac) = sys::hardware_address(socket, name)?;
        let (rx_queues, tx_queues) = sys::channels(socket, name).unwrap_or((1, 1));
        Ok(Self {
            name: name.to_owned(),
            index,
            mtu: sys::mtu(socket, name)?,
            mac,
            ethernet: kind == libc::ARPHRD_ETHER || kind == libc::ARPHRD_LOOPBACK,
            up: flags & libc::IFF_UP != 0,
            carrier: flags & libc::IFF_RUNNING != 0,
            loopback: flags & libc::IFF_LOOPBACK != 0,
            driver: sys::driver(socket, name).unwrap_or_default(),
            rx_queues: rx_queues.max(1),
            tx_queues: tx_queues.max(1),
        })
    }

    /// Returns an error if the interface was down when it was looked up.
    ///
    /// # Errors
    /// [`OpenCause::Down`] if the interface was down.
    pub fn require_up(&self) -> Result<(), OpenCause> {
        if self.up { Ok(()) } else { Err(OpenCause::Down { ifname: self.name.clone() }) }
    }

    /// Returns whether a default route of this network namespace uses the interface
    /// ([`Netlink::has_default_route`]); false if the kernel does not list its routes. A port that
    /// takes such an interface from the host may cut off the machine.
    #[must_use]
    pub fn default_route(&self) -> bool {
        let netlink = Netlink::open();
        netlink.and_then(|netlink| netlink.has_default_route(self.index)).unwrap_or(false)
    }

    /// Returns whether received frames may come from a kernel, this one or another one of the same
    /// host (virtio), without having passed hardware. Then checksums and segmentation of packets
    /// may be left undone, since nothing can damage such packets on the way.
    #[must_use]
    pub fn is_software(&self) -> bool {
        const SOFTWARE: [&str; 12] = [
            "veth",
            "tun",
            "dummy",
            "bridge",
            "netkit",
            "macvlan",
            "ipvlan",
            "802.1Q VLAN Support",
            "ifb",
            "team",
            "bonding",
            "virtio_net",
        ];
        self.loopback || SOFTWARE.contains(&self.driver.as_str())
    }

    /// Returns whether the interface is up now; `None` if it no longer exists.
    #[must_use]
    pub fn is_up_now(&self) -> Option<bool> {
        let socket = sys::control_socket().ok()?;
        let name = rustix::net::netdevice::index_to_name(&socket, self.index).ok()?;
        Some(sys::flags(&socket, &name).ok()? & libc::IFF_UP != 0)
    }
}

fn query_error(source: io::Error) -> OpenCause {
    OpenCause::System { what: "ask for the interface", source }
}

/// Keeps an interface promiscuous as long as this value exists. The kernel ends promiscuous mode
/// with the socket, so a killed process leaves nothing behind.
#[derive(Debug)]
pub struct Promisc {
    _socket: OwnedFd,
}

/// Makes an interface receive frames for other hosts.
///
/// # Errors
/// [`OpenCause::Privilege`] without CAP_NET_RAW; [`OpenCause::System`] for other errors.
pub fn promiscuous(index: u32) -> Result<Promisc, OpenCause> {
    sys::promiscuous_socket(index).map(|socket| Promisc { _socket: socket }).map_err(|source| {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => OpenCause::Privilege {
                what: "make the interface promiscuous",
                capabilities: "cap_net_raw",
                source,
            },
            _ => OpenCause::System { what: "make the interface promiscuous", source },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_and_is_software() {
        let lo = Iface::find("lo").unwrap();
        assert!(lo.loopback && lo.is_software() && !lo.default_route());
        assert_eq!((lo.index, lo.mac, lo.rx_queues), (1, [0; 6], 1));
    }

    #[test]
    fn impossible_and_missing_names_are_no_interfaces() {
        for name in ["", "a-name-that-is-too-long", "nul\0", "no-such-if"] {
            assert!(matches!(Iface::find(name), Err(OpenCause::NoInterface { .. })), "{name:?}");
        }
    }
}
