//! Links, addresses, routes and neighbours by rtnetlink. A connection belongs to the network
//! namespace of the thread that opens it. Each request is answered by an acknowledgement or a list
//! before the next one is sent.

mod default_route;
mod link;
pub mod request;
mod snapshot;
mod xdp_features;

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoVeth, LinkAttribute,
    LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use link::listed;
pub use snapshot::{LinkSnapshot, SavedSetting};
pub use xdp_features::{XdpFeatures, xdp_features};

/// A connection to rtnetlink.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
}

/// A link as the kernel lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetlinkLink {
    /// The interface index, by which other calls refer to the link.
    pub index: u32,
    /// The name of the interface, at most 15 bytes.
    pub name: String,
    /// Whether the link is set up (`IFF_UP`).
    pub up: bool,
    /// MTU in bytes.
    pub mtu: u32,
    /// Kind of the link, such as `veth` or `tun`; empty for hardware and loopback.
    pub kind: String,
    /// Whether the link is up and has a carrier, so that frames can leave (`IFF_RUNNING`).
    pub running: bool,
    /// Hardware address; empty if the link has none.
    pub mac: Vec<u8>,
    /// Index of the bridge, bond or team that the link is a member of.
    pub master: Option<u32>,
    /// Index of the lower device of this link, such as the interface of a VLAN; for a veth, of its
    /// peer. `None` if that device is in another network namespace.
    pub lower: Option<u32>,
    /// The alias that an administrator has set (`ip link set alias`); empty if there is none.
    pub alias: String,
}

impl Netlink {
    /// Opens a connection.
    ///
    /// # Errors
    /// The kernel's error, if no netlink socket can be opened.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket })
    }

    /// Creates a pair of veth links. If `peer_netns` is given, `peer` is created in that namespace.
    /// Both links are down. A link that is created in this namespace assigns itself no IPv6
    /// addresses.
    ///
    /// # Errors
    /// The kernel's error, such as `AlreadyExists` or `PermissionDenied`.
    pub fn add_veth(
        &self,
        name: &str,
        peer: &str,
        peer_netns: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        self.add_veth_with_queues(name, peer, peer_netns, [1; 2])
    }

    /// Like [`Self::add_veth`], but the link has `tx` tx queues and `rx` rx queues. Its peer has
    /// `rx` tx queues and `tx` rx queues.
    ///
    /// # Errors
    /// Same as [`Self::add_veth`].
    pub fn add_veth_with_queues(
        &self,
        name: &str,
        peer: &str,
        peer_netns: Option<BorrowedFd<'_>>,
        [tx, rx]: [u32; 2],
    ) -> io::Result<()> {
        let mut other = link_message(peer);
        if let Some(netns) = peer_netns {
            other.attributes.push(LinkAttribute::NetNsFd(netns.as_raw_fd()));
        }
        let mut link = link_message(name);
        // Without these attributes, one queue per direction is in use, and the kernel has allocated
        // more, which can be switched on later.
        if [tx, rx] != [1; 2] {
            link.attributes.extend(queues(tx, rx));
            other.attributes.extend(queues(rx, tx));
        }
        link.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other))),
        ]));
        self.request(RouteNetlinkMessage::NewLink(link), NLM_F_CREATE | NLM_F_EXCL)?;
        self.disable_ipv6_autoconf(name)?;
        if peer_netns.is_none() { self.disable_ipv6_autoconf(peer) } else { Ok(()) }
    }

    /// Keeps a link from assigning itself IPv6 addresses, and so from sending packets by itself.
    /// The kernel accepts the setting only once the link exists.
    ///
    /// # Errors
    /// The kernel's error. A kernel without IPv6 is no error.
    pub fn disable_ipv6_autoconf(&self, name: &str) -> io::Result<()> {
        let mut link = link_message(name);
        link.attributes.push(no_autoconf_attribute());
        match self.request(RouteNetlinkMessage::SetLink(link), 0) {
            Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => Ok(()),
            result => result,
        }
    }

    /// Removes the link with this interface index.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn delete(&self, index: u32) -> io::Result<()> {
        self.request(RouteNetlinkMessage::DelLink(by_index(index)), 0)
    }

    /// Sets a link up.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_up(&self, index: u32) -> io::Result<()> {
        let mut link = by_index(index);
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        self.request(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Sets a link's MTU, in bytes.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_mtu(&self, index: u32, mtu: u32) -> io::Result<()> {
        let mut link = by_index(index);
        link.attributes.push(LinkAttribute::Mtu(mtu));
        self.request(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Sets a link's MAC address.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_mac(&self, index: u32, mac: [u8; 6]) -> io::Result<()> {
        let mut link = by_index(index);
        link.attributes.push(LinkAttribute::Address(mac.to_vec()));
        self.request(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Sets how many frames may wait in the kernel's queue of a link.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_tx_queue_len(&self, index: u32, frames: u32) -> io::Result<()> {
        let mut link = by_index(index);
        link.attributes.push(LinkAttribute::TxQueueLen(frames));
        self.request(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Moves a link to another network namespace.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_netns(&self, index: u32, netns: BorrowedFd<'_>) -> io::Result<()> {
        let mut link = by_index(index);
        link.attributes.push(LinkAttribute::NetNsFd(netns.as_raw_fd()));
        self.request(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Adds an address to a link; `prefix_len` is the length of its prefix in bits.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn add_address(&self, index: u32, address: IpAddr, prefix_len: u8) -> io::Result<()> {
        let message = address_of(index, address, prefix_len);
        self.request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Removes an address from a link.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remove_address(&self, index: u32, address: IpAddr, prefix_len: u8) -> io::Result<()> {
        self.request(RouteNetlinkMessage::DelAddress(address_of(index, address, prefix_len)), 0)
    }

    /// Returns the addresses of a link, each with the length of its prefix in bits.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn addresses(&self, index: u32) -> io::Result<Vec<(IpAddr, u8)>> {
        self.send(RouteNetlinkMessage::GetAddress(AddressMessage::default()), NLM_F_DUMP)?;
        let mut addresses = Vec::new();
        self.responses(|message| {
            if let RouteNetlinkMessage::NewAddress(message) = message
                && message.header.index == index
                && let Some(address) = local_address(&message.attributes)
            {
                addresses.push((address, message.header.prefix_len));
            }
        })?;
        Ok(addresses)
    }

    /// Makes the kernel resolve a neighbour of a link, or confirm that the neighbour is still
    /// reachable, as if a packet were to be sent to it.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn use_neighbour(&self, index: u32, address: IpAddr) -> io::Result<()> {
        let mut message = NeighbourMessage::default();
        let is_v4 = address.is_ipv4();
        message.header.family = if is_v4 { AddressFamily::Inet } else { AddressFamily::Inet6 };
        message.header.ifindex = index;
        message.header.flags = NeighbourFlags::Use;
        message.attributes.push(NeighbourAttribute::Destination(match address {
            IpAddr::V4(address) => NeighbourAddress::Inet(address),
            IpAddr::V6(address) => NeighbourAddress::Inet6(address),
        }));
        self.request(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE)
    }

    /// Adds a default route through `gateway` and this link.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn add_default_route(&self, index: u32, gateway: IpAddr) -> io::Result<()> {
        let mut message = RouteMessage::default();
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        message.header.address_family = match gateway {
            IpAddr::V4(_) => AddressFamily::Inet,
            IpAddr::V6(_) => AddressFamily::Inet6,
        };
        message.attributes =
            vec![RouteAttribute::Gateway(gateway.into()), RouteAttribute::Oif(index)];
        self.request(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds an IPv4 route through this link to the main table, as a static one. Without a gateway,
    /// the destinations are on the link itself. The metric is 0. Fails with EEXIST if the prefix
    /// already has a route of this metric.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn add_route(
        &self,
        index: u32,
        prefix: (Ipv4Addr, u8),
        gateway: Option<Ipv4Addr>,
    ) -> io::Result<()> {
        let mut message = ipv4_route(index, prefix, gateway);
        message.header.protocol = RouteProtocol::Static;
        message.header.kind = RouteType::Unicast;
        message.header.scope =
            if gateway.is_some() { RouteScope::Universe } else { RouteScope::Link };
        self.request(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Removes an IPv4 route through this link from the main table, whatever its protocol.
    ///
    /// # Errors
    /// The kernel's error; ESRCH if there is no such route.
    pub fn remove_route(
        &self,
        index: u32,
        prefix: (Ipv4Addr, u8),
        gateway: Option<Ipv4Addr>,
    ) -> io::Result<()> {
        let mut message = ipv4_route(index, prefix, gateway);
        message.header.scope = RouteScope::NoWhere;
        self.request(RouteNetlinkMessage::DelRoute(message), 0)
    }

    /// Removes an IPv4 neighbour of a link.
    ///
    /// # Errors
    /// The kernel's error; ENOENT if there is no such neighbour.
    pub fn remove_neighbour(&self, index: u32, address: Ipv4Addr) -> io::Result<()> {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.ifindex = index;
        let address = NeighbourAddress::Inet(address);
        message.attributes.push(NeighbourAttribute::Destination(address));
        self.request(RouteNetlinkMessage::DelNeighbour(message), 0)
    }

    /// Returns all links of this namespace.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn links(&self) -> io::Result<Vec<NetlinkLink>> {
        self.send(RouteNetlinkMessage::GetLink(LinkMessage::default()), NLM_F_DUMP)?;
        let mut links = Vec::new();
        self.responses(|message| {
            if let RouteNetlinkMessage::NewLink(link) = message {
                links.push(listed(&link));
            }
        })?;
        Ok(links)
    }

    fn request(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.send(message, flags | NLM_F_ACK)?;
        self.responses(|_| ())
    }

    fn send(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut packet = NetlinkMessage::from(message);
        packet.header.flags = NLM_F_REQUEST | flags;
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map(drop)
    }

    /// Reads responses up to the acknowledgement or the end of the list.
    fn responses(&self, mut each: impl FnMut(RouteNetlinkMessage)) -> io::Result<()> {
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            let mut rest = &datagram[..];
            while !rest.is_empty() {
                let packet = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(io::Error::other)?;
                match packet.payload {
                    NetlinkPayload::Done(_) => return Ok(()),
                    NetlinkPayload::Error(answer) if answer.code.is_some() => {
                        return Err(answer.to_io());
                    }
                    NetlinkPayload::Error(_) => return Ok(()),
                    NetlinkPayload::InnerMessage(message) => each(message),
                    _ => {}
                }
                // Messages are aligned to four bytes.
                let len = (packet.header.length as usize).next_multiple_of(4).max(16);
                rest = rest.get(len..).unwrap_or_default();
            }
        }
    }
}

fn ipv4_route(index: u32, prefix: (Ipv4Addr, u8), gateway: Option<Ipv4Addr>) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.destination_prefix_length = prefix.1;
    message.attributes.push(RouteAttribute::Destination(RouteAddress::Inet(prefix.0)));
    message.attributes.extend(gateway.map(|gateway| RouteAttribute::Gateway(gateway.into())));
    message.attributes.push(RouteAttribute::Oif(index));
    message
}

fn address_of(index: u32, address: IpAddr, prefix_len: u8) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.index = index;
    message.header.prefix_len = prefix_len;
    message.header.family = match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    };
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    message
}

/// Receives link changes: its descriptor is readable after each change.
#[derive(Debug)]
pub struct LinkEvents {
    socket: Socket,
}

impl LinkEvents {
    /// Subscribes to link changes.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open() -> io::Result<Self> {
        const RTMGRP_LINK: u32 = 1;
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, RTMGRP_LINK))?;
        socket.set_non_blocking(true)?;
        Ok(Self { socket })
    }

    /// Discards the events received so far; returns whether there were any.
    pub fn clear(&self) -> bool {
        let mut any = false;
        loop {
            match self.socket.recv_from_full() {
                Ok(_) => any = true,
                // `ENOBUFS`: the kernel has discarded events, so there may have been changes.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => any = true,
                Err(_) => return any,
            }
        }
    }
}

impl AsFd for LinkEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns a link's own address; `None` if the message contains none. On a point-to-point link,
/// `IFA_ADDRESS` is the peer's address, and `IFA_LOCAL` is the link's own.
fn local_address(attributes: &[AddressAttribute]) -> Option<IpAddr> {
    let found = |own: bool| {
        attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(address) if own => Some(*address),
            AddressAttribute::Address(address) if !own => Some(*address),
            _ => None,
        })
    };
    found(true).or_else(|| found(false))
}

fn link_message(name: &str) -> LinkMessage {
    let mut link = LinkMessage::default();
    link.attributes.push(LinkAttribute::IfName(name.to_owned()));
    link
}

fn queues(tx: u32, rx: u32) -> [LinkAttribute; 2] {
    [LinkAttribute::NumTxQueues(tx), LinkAttribute::NumRxQueues(rx)]
}

fn by_index(index: u32) -> LinkMessage {
    let mut link = LinkMessage::default();
    link.header.index = index;
    link
}

/// Returns the attribute that keeps the kernel from sending IPv6 router solicitations and other
/// autoconfiguration packets by itself.
fn no_autoconf_attribute() -> LinkAttribute {
    let mode = AfSpecInet6::AddrGenMode(In6AddrGenMode::None);
    LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![mode])])
}
