//! What the demo builds: two network namespaces, and the two ports that join them.

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
pub(super) const LEFT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
pub(super) const RIGHT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const PREFIX_LEN: u8 = 24;
/// Loopback has this number in every namespace.
const LOOPBACK: u32 = 1;

/// What this process may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ground {
    /// It may make namespaces as it is.
    Privileged,
    /// It had to become root of a user namespace, which is root over nothing else.
    OwnUser,
}

/// Moves this process into a network namespace of its own, in which the ports will be.
pub(super) fn become_private() -> Result<Ground, Failure> {
    match netns::become_private() {
        Ok(()) => return Ok(Ground::Privileged),
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
            return Err(cannot("make a network namespace", &error));
        }
        Err(_) => {}
    }
    netns::become_private_user().map(|()| Ground::OwnUser).map_err(|error| {
        Diagnostic::new(SR0301, "cannot make a user namespace")
            .with_cause(error.to_string())
            .with_help("run it as root: sudo slipring demo")
            .with_note("`slipring doctor` says which setting forbids it")
            .into()
    })
}

fn cannot(what: &str, error: &io::Error) -> Failure {
    let help = "slipring doctor";
    Diagnostic::new(SR0199, format!("cannot {what}"))
        .with_cause(error.to_string())
        .with_help(help)
        .into()
}

/// Kind of the ports that join the namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Xdp,
    Packet,
    Tap,
}

impl Kind {
    /// The best kind that `ground` allows.
    fn best(ground: Ground) -> Self {
        match ground {
            Ground::Privileged => Self::Xdp,
            // AF_XDP needs BPF programs, which only the machine's own root may load.
            Ground::OwnUser => Self::Tap,
        }
    }

    /// The prefix of port names.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Xdp => "xdp",
            Self::Packet => "packet",
            Self::Tap => "tap",
        }
    }
}

/// The two sides.
#[derive(Debug)]
pub(super) struct Net {
    pub(super) left: Netns,
    pub(super) right: Netns,
}

/// All that was built.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) ground: Ground,
    pub(super) kind: Kind,
    /// Why it is not the best kind.
    pub(super) lesser: Option<String>,
    pub(super) net: Arc<Net>,
}

impl Site {
    /// Builds it around the calling thread, which must be in a namespace of its own.
    pub(super) fn build(
        ground: Ground,
        wanted: Option<Kind>,
    ) -> Result<(Self, Vec<Port>), Failure> {
        let kind = wanted.unwrap_or(Kind::best(ground));
        match (Self::of_kind(ground, kind), wanted) {
            // Root of a container may make links, but not load programs.
            (Err(Failure::Error(error)), None) if kind != Kind::Tap => {
                // What was built so far stays behind in the namespace that is left here.
                let private = netns::become_private();
                private.map_err(|error| cannot("make a network namespace", &error))?;
                let (site, ports) = Self::of_kind(ground, Kind::Tap)?;
                let why = error.cause().unwrap_or_else(|| error.summary());
                Ok((Self { lesser: Some(why), ..site }, ports))
            }
            (built, _) => built,
        }
    }

    fn of_kind(ground: Ground, kind: Kind) -> Result<(Self, Vec<Port>), Failure> {
        let made = || Ok::<_, io::Error>(Net { left: Netns::new()?, right: Netns::new()? });
        let net = made().map_err(|error| cannot("make a network namespace", &error))?;
        let ports = match kind {
            Kind::Tap => taps(&net)?,
            Kind::Xdp | Kind::Packet => veths(&net, kind)?,
        };
        Ok((Self { ground, kind, lesser: None, net: Arc::new(net) }, ports))
    }
}

/// A veth pair to each side; the ports are on the ends here.
fn veths(net: &Net, kind: Kind) -> Result<Vec<Port>, Failure> {
    cable("left", &net.left, LEFT).map_err(|error| cannot("make the left link", &error))?;
    cable("right", &net.right, RIGHT).map_err(|error| cannot("make the right link", &error))?;
    open(kind)
}

fn cable(name: &str, side: &Netns, address: Ipv4Addr) -> io::Result<()> {
    let netlink = Netlink::open()?;
    netlink.add_veth(name, "eth0", Some(side.as_fd()))?;
    side.run(|| inhabit("eth0", address))?;
    netlink.set_up(index(name)?)
}

/// A TAP device for each side. They are made here, so that both ports share one region, and moved
/// there; their descriptors stay with the ports.
fn taps(net: &Net) -> Result<Vec<Port>, Failure> {
    let ports = open(Kind::Tap)?;
    settle("left", &net.left, LEFT).map_err(|error| cannot("move the left device", &error))?;
    settle("right", &net.right, RIGHT).map_err(|error| cannot("move the right device", &error))?;
    Ok(ports)
}

fn settle(name: &str, side: &Netns, address: Ipv4Addr) -> io::Result<()> {
    Netlink::open()?.set_netns(index(name)?, side.as_fd())?;
    side.run(|| inhabit(name, address))
}

/// In the namespace: gives the link its address and sets it up.
fn inhabit(name: &str, address: Ipv4Addr) -> io::Result<()> {
    let netlink = Netlink::open()?;
    let index = index(name)?;
    netlink.silence(name)?;
    netlink.set_up(LOOPBACK)?;
    netlink.add_address(index, IpAddr::V4(address), PREFIX_LEN)?;
    netlink.set_up(index)
}

fn index(name: &str) -> io::Result<u32> {
    Iface::find(name).map(|iface| iface.index).map_err(io::Error::other)
}

fn open(kind: Kind) -> Result<Vec<Port>, Failure> {
    let names = ["left", "right"].map(|side| format!("{}:{side}", kind.prefix()));
    let mut parsed = Vec::new();
    for name in &names {
        parsed.push(slipring_core::parse(name)?);
    }
    Ok(Host::global().open_all(&parsed, &OpenOptions { slots: 4096, ..OpenOptions::default() })?)
}
