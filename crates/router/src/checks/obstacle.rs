//! The results of the checks.

use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, SocketType, socket};
use slipring_port::iface::Iface;

/// An interface of the router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckedInterface {
    /// The kernel's interface index.
    pub(crate) ifindex: u32,
    /// The name that the user has given.
    pub(crate) name: String,
    /// Number of the router's own programs at tcx ingress.
    pub(crate) own_programs: u32,
}

impl CheckedInterface {
    pub(crate) fn new(iface: &Iface, own_programs: u32) -> Self {
        Self { ifindex: iface.index, name: iface.name.clone(), own_programs }
    }

    /// The present name of the interface. The kernel's settings are stored under this name.
    pub(crate) fn present_name(&self) -> String {
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None);
        let found = socket.and_then(|socket| index_to_name(socket, self.ifindex));
        found.unwrap_or_else(|_| self.name.clone())
    }
}

/// Why packets are not to be forwarded in XDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObstacleKind {
    /// Packets would bypass a stage of the kernel.
    Bypass,
    /// The kernel would not forward the packets.
    ForwardingOff,
}

/// A reason why packets of one interface, or of all interfaces, are left to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Obstacle {
    /// The kind of the reason.
    pub(crate) kind: ObstacleKind,
    /// The interface concerned; `None` for all interfaces.
    pub(crate) interface: Option<String>,
    /// The stage or setting that was found, as a clause for messages.
    pub(crate) what: String,
    /// The command that shows what was found.
    pub(crate) show: String,
}
