//! The demo's sandbox: two network namespaces, and the two ports that connect them.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::sync::Arc;

use slipring_cli::codes::{SR0199, SR0301};
use slipring_cli::{Diagnose, Diagnostic, Failure};
use slipring_core::Host;
use slipring_core::netns::{self, Netns};
use slipring_port::iface::Iface;
use slipring_port::netlink::Netlink;
use slipring_port::{OpenOptions, Port};

/// Addresses of the two sides.
pub(super) const LEFT_ADDR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
pub(super) const RIGHT_ADDR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const PREFIX_LEN: u8 = 24;
/// Interface index of loopback, the same in every namespace.
const LOOPBACK_IFINDEX: u32 = 1;

/// The privileges of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SandboxPrivilege {
    /// The process may create namespaces itself.
    Privileged,
    /// The process had to become root of a user namespace, which gives it no rights outside.
    OwnUser,
}

/// Moves this process into a new network namespace, in which the ports are opened later. Returns
/// the privilege by which this was possible.
pub(super) fn become_private() -> Result<SandboxPrivilege, Failure> {
    match netns::become_private() {
        Ok(()) => return Ok(SandboxPrivilege::Privileged),
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
            return Err(setup_failure("make a network namespace", &error));
        }
        Err(_) => {}
    }
    netns::become_private_user().map(|()| SandboxPrivilege::OwnUser).map_err(|error| {
        Diagnostic::new(SR0301, "cannot make a user namespace")
            .with_cause(error.to_string())
            .with_help("run it as root: sudo slipring demo")
            .with_note("`slipring doctor` says which setting forbids it")
            .into()
    })
}

fn setup_failure(what: &str, error: &io::Error) -> Failure {
    let help = "slipring doctor";
    Diagnostic::new(SR0199, format!("cannot {what}"))
        .with_cause(error.to_string())
        .with_help(help)
        .into()
}

/// The kind of the ports that join the namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DemoPortKind {
    Xdp,
    Packet,
    Tap,
}

impl DemoPortKind {
    /// Returns the best kind that the privilege allows.
    fn best(ground: SandboxPrivilege) -> Self {
        match ground {
            SandboxPrivilege::Privileged => Self::Xdp,
            // AF_XDP needs BPF programs, which only the machine's own root may load.
            SandboxPrivilege::OwnUser => Self::Tap,
        }
    }

    /// Returns the prefix of port names.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Xdp => "xdp",
            Self::Packet => "packet",
            Self::Tap => "tap",
        }
    }
}

/// The network namespaces of the two sides.
#[derive(Debug)]
pub(super) struct DemoNamespaces {
    pub(super) left: Netns,
    pub(super) right: Netns,
}

/// The sandbox's namespaces, and how it was built. [`Self::build`] returns its ports separately.
#[derive(Debug)]
pub(super) struct DemoSandbox {
    pub(super) privilege: SandboxPrivilege,
    pub(super) kind: DemoPortKind,
    /// Why the preferred kind of port could not be used; `None` if it is used.
    pub(super) fallback_cause: Option<String>,
    pub(super) namespaces: Arc<DemoNamespaces>,
}

impl DemoSandbox {
    /// Builds the sandbox in the calling thread's network namespace, which must belong to this
    /// process alone.
    pub(super) fn build(
        ground: SandboxPrivilege,
        wanted: Option<DemoPortKind>,
    ) -> Result<(Self, Vec<Port>), Failure> {
        let kind = wanted.unwrap_or(DemoPortKind::best(ground));
        match (Self::of_kind(ground, kind), wanted) {
            // Root in a container may be allowed to create links, but not to load BPF programs. So
            // we fall back to TAP devices.
            (Err(Failure::Error(error)), None) if kind != DemoPortKind::Tap => {
                // A new namespace is used for the second attempt, so that the links of the failed
                // attempt do not matter.
                let private = netns::become_private();
                private.map_err(|error| setup_failure("make a network namespace", &error))?;
                let (site, ports) = Self::of_kind(ground, DemoPortKind::Tap)?;
                let why = error.cause().unwrap_or_else(|| error.summary());
                Ok((Self { fallback_cause: Some(why), ..site }, ports))
            }
            (built, _) => built,
        }
    }

    fn of_kind(ground: SandboxPrivilege, kind: DemoPortKind) -> Result<(Self, Vec<Port>), Failure> {
        let made =
            || Ok::<_, io::Error>(DemoNamespaces { left: Netns::new()?, right: Netns::new()? });
        let net = made().map_err(|error| setup_failure("make a network namespace", &error))?;
        let ports = match kind {
            DemoPortKind::Tap => taps(&net)?,
            DemoPortKind::Xdp | DemoPortKind::Packet => veths(&net, kind)?,
        };
        Ok((
            Self { privilege: ground, kind, fallback_cause: None, namespaces: Arc::new(net) },
            ports,
        ))
    }
}

/// Creates a veth pair to each side, and opens its local end as a port.
fn veths(net: &DemoNamespaces, kind: DemoPortKind) -> Result<Vec<Port>, Failure> {
    make_veth("left", &net.left, LEFT_ADDR)
        .map_err(|error| setup_failure("make the left link", &error))?;
    make_veth("right", &net.right, RIGHT_ADDR)
        .map_err(|error| setup_failure("make the right link", &error))?;
    open(kind)
}

fn make_veth(name: &str, side: &Netns, address: Ipv4Addr) -> io::Result<()> {
    let netlink = Netlink::open()?;
    netlink.add_veth(name, "eth0", Some(side.as_fd()))?;
    side.run(|| configure_link("eth0", address))?;
    netlink.set_up(index(name)?)
}

/// Creates a TAP device for each side. The devices are created here, so that both ports share one
/// region, and then moved into the namespaces of the sides; the ports keep their descriptors.
fn taps(net: &DemoNamespaces) -> Result<Vec<Port>, Failure> {
    let mut ports = open(DemoPortKind::Tap)?;
    move_and_configure("left", &net.left, LEFT_ADDR)
        .map_err(|error| setup_failure("move the left device", &error))?;
    move_and_configure("right", &net.right, RIGHT_ADDR)
        .map_err(|error| setup_failure("move the right device", &error))?;
    // Reading the counters once makes each port find its device in the new namespace. Without this,
    // the port would search for it while it moves frames.
    for port in &mut ports {
        port.stats();
    }
    Ok(ports)
}

fn move_and_configure(name: &str, side: &Netns, address: Ipv4Addr) -> io::Result<()> {
    Netlink::open()?.set_netns(index(name)?, side.as_fd())?;
    side.run(|| configure_link(name, address))
}

/// In the namespace of a link, configures its address and brings it up.
fn configure_link(name: &str, address: Ipv4Addr) -> io::Result<()> {
    let netlink = Netlink::open()?;
    let index = index(name)?;
    netlink.disable_ipv6_autoconf(name)?;
    netlink.set_up(LOOPBACK_IFINDEX)?;
    netlink.add_address(index, IpAddr::V4(address), PREFIX_LEN)?;
    netlink.set_up(index)
}

fn index(name: &str) -> io::Result<u32> {
    Iface::find(name).map(|iface| iface.index).map_err(io::Error::other)
}

fn open(kind: DemoPortKind) -> Result<Vec<Port>, Failure> {
    let names = ["left", "right"].map(|side| format!("{}:{side}", kind.prefix()));
    let mut parsed = Vec::new();
    for name in &names {
        parsed.push(slipring_core::parse(name)?);
    }
    Ok(Host::global().open_all(&parsed, &OpenOptions { slots: 4096, ..OpenOptions::default() })?)
}
