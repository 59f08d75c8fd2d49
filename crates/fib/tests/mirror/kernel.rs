//! Builds the kernel's messages byte by byte, from the structures of its uapi headers.

use std::net::IpAddr;

use slipring_fib::{DumpKind, Mirror};
use slipring_rtnetlink::Messages;

pub(crate) const UP: u32 = 0x1_0043; // IFF_UP | IFF_BROADCAST | IFF_RUNNING | IFF_LOWER_UP
pub(crate) const NO_CARRIER: u32 = 0x1003; // IFF_UP | IFF_BROADCAST | IFF_MULTICAST
pub(crate) const DOWN: u32 = 0x1002;
pub(crate) const REPLACE: u16 = 0x100;
pub(crate) const APPEND: u16 = 0x800;
const MULTI: u16 = 2;
const INTERRUPTED: u16 = 0x10;

/// A message of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KernelMessage {
    kind: u16,
    flags: u16,
    payload: Vec<u8>,
}

impl KernelMessage {
    fn new(kind: u16, fixed: &[u8]) -> Self {
        Self { kind, flags: 0, payload: fixed.to_vec() }
    }

    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.payload.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
        self.payload.extend_from_slice(&kind.to_ne_bytes());
        self.payload.extend_from_slice(value);
        self.payload.resize(self.payload.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn number(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    pub(crate) fn address(self, kind: u16, address: IpAddr) -> Self {
        self.attribute(kind, &octets(address))
    }

    /// The message about the deletion of the same object.
    pub(crate) fn deleted(mut self) -> Self {
        self.kind += 1;
        self.flags = 0;
        self
    }

    pub(crate) fn flagged(mut self, flags: u16) -> Self {
        self.flags |= flags;
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = (16 + self.payload.len() as u32).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&self.kind.to_ne_bytes());
        bytes.extend_from_slice(&self.flags.to_ne_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&self.payload);
        bytes
    }
}

pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { 2 } else { 10 }
}

/// `RTM_NEWLINK`. The MAC address ends with the index.
pub(crate) fn link(ifindex: u32, flags: u32) -> KernelMessage {
    let mut fixed = [0; 16];
    fixed[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    fixed[8..12].copy_from_slice(&flags.to_ne_bytes());
    KernelMessage::new(16, &fixed)
        .attribute(3, format!("eth{ifindex}\0").as_bytes())
        .attribute(1, &[2, 0, 0, 0, 0, ifindex as u8])
        .number(4, 1500)
}

/// The message of a new address, `RTM_NEWADDR`.
pub(crate) fn address(ifindex: u32, local: &str, prefix_len: u8, flags: u8) -> KernelMessage {
    let local = ip(local);
    let mut fixed = [family(local), prefix_len, flags, 0, 0, 0, 0, 0];
    fixed[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    let message = KernelMessage::new(20, &fixed).address(1, local);
    if local.is_ipv4() { message.address(2, local) } else { message }
}

/// `RTM_NEWNEIGH`; the MAC address ends with `mac`, 0 for none.
pub(crate) fn neighbour(ifindex: u32, of: &str, state: u16, mac: u8) -> KernelMessage {
    let of = ip(of);
    let mut fixed = [0; 12];
    fixed[0] = family(of);
    fixed[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    fixed[8..10].copy_from_slice(&state.to_ne_bytes());
    let message = KernelMessage::new(28, &fixed).address(1, of);
    if mac == 0 { message } else { message.attribute(2, &[2, 0, 0, 0, 1, mac]) }
}

/// `RTM_NEWROUTE` of the main table, without next hops.
pub(crate) fn bare_route(prefix: &str) -> KernelMessage {
    table_route(prefix, 254, 1)
}

/// `RTM_NEWROUTE`; `kind` is `RTN_*`.
pub(crate) fn table_route(prefix: &str, table: u32, kind: u8) -> KernelMessage {
    let (start, len) = prefix.split_once('/').unwrap();
    let start = ip(start);
    let fixed =
        [family(start), len.parse().unwrap(), 0, 0, table.min(252) as u8, 3, 0, kind, 0, 0, 0, 0];
    KernelMessage::new(24, &fixed).number(15, table).address(1, start)
}

/// A connected route.
pub(crate) fn connected(prefix: &str, ifindex: u32) -> KernelMessage {
    bare_route(prefix).number(4, ifindex)
}

/// A route by a gateway.
pub(crate) fn via(prefix: &str, gateway: &str, ifindex: u32) -> KernelMessage {
    bare_route(prefix).address(5, ip(gateway)).number(4, ifindex)
}

/// A route with several next hops, each with weight, gateway and interface.
pub(crate) fn multipath(prefix: &str, hops: &[(u16, &str, u32)]) -> KernelMessage {
    let mut value = Vec::new();
    for (weight, gateway, ifindex) in hops {
        let gateway = octets(ip(gateway));
        value.extend_from_slice(&(12 + gateway.len() as u16).to_ne_bytes());
        value.extend_from_slice(&[0, (weight - 1) as u8]);
        value.extend_from_slice(&ifindex.to_ne_bytes());
        value.extend_from_slice(&(4 + gateway.len() as u16).to_ne_bytes());
        value.extend_from_slice(&5_u16.to_ne_bytes());
        value.extend_from_slice(&gateway);
    }
    bare_route(prefix).attribute(9, &value)
}

impl KernelMessage {
    pub(crate) fn metric(self, metric: u32) -> Self {
        self.number(6, metric)
    }

    pub(crate) fn next_hop_id(self, id: u32) -> Self {
        self.number(30, id)
    }

    pub(crate) fn path_mtu(self, mtu: u32) -> Self {
        let metric = [&8_u16.to_ne_bytes()[..], &2_u16.to_ne_bytes(), &mtu.to_ne_bytes()].concat();
        self.attribute(8, &metric)
    }

    pub(crate) fn tos(mut self, tos: u8) -> Self {
        self.payload[3] = tos;
        self
    }
}

/// The message of a new next-hop object, `RTM_NEWNEXTHOP`.
pub(crate) fn next_hop(id: u32, gateway: &str, ifindex: u32) -> KernelMessage {
    let gateway = ip(gateway);
    let fixed = [family(gateway), 0, 3, 0, 0, 0, 0, 0];
    KernelMessage::new(104, &fixed).number(1, id).number(5, ifindex).address(6, gateway)
}

/// `RTM_NEWNEXTHOP` of a group. Each member has an identifier and a weight.
pub(crate) fn group(id: u32, members: &[(u32, u8)]) -> KernelMessage {
    let members: Vec<u8> = members
        .iter()
        .flat_map(|(id, weight)| [&id.to_ne_bytes()[..], &[weight - 1, 0, 0, 0]].concat())
        .collect();
    KernelMessage::new(104, &[0, 0, 3, 0, 0, 0, 0, 0]).number(1, id).attribute(2, &members)
}

/// `RTM_NEWRULE` of IPv4: a table for packets from an interface, or from all interfaces.
pub(crate) fn rule(priority: u32, table: u32, input: Option<&str>) -> KernelMessage {
    let fixed = [2, 0, 0, 0, 252, 0, 0, 1, 0, 0, 0, 0];
    let message =
        KernelMessage::new(32, &fixed).number(6, priority).number(15, table).number(14, u32::MAX);
    match input {
        Some(input) => message.attribute(3, format!("{input}\0").as_bytes()),
        None => message,
    }
}

/// Used as an interface index: the settings of all interfaces.
pub(crate) const ALL: u32 = u32::MAX;
/// Used as an interface index: the settings of new interfaces.
pub(crate) const DEFAULT: u32 = u32::MAX - 1;

/// `RTM_NEWNETCONF` of IPv4, for an interface.
pub(crate) fn settings(ifindex: u32) -> KernelMessage {
    KernelMessage::new(80, &[2, 0, 0, 0]).number(1, ifindex)
}

impl KernelMessage {
    /// The same message for another family.
    pub(crate) fn of_family(mut self, family: u8) -> Self {
        self.payload[0] = family;
        self
    }

    pub(crate) fn rp_filter(self, value: u32) -> Self {
        self.number(3, value)
    }

    pub(crate) fn ignores_linkdown(self, value: bool) -> Self {
        self.number(6, value.into())
    }
}

/// Makes a mirror receive messages.
pub(crate) fn tell(mirror: &mut Mirror, messages: &[KernelMessage]) {
    for message in messages {
        for parsed in Messages::new(&message.bytes()) {
            mirror.receive(&parsed.unwrap());
        }
    }
}

/// A complete dump.
pub(crate) fn dump(mirror: &mut Mirror, kind: DumpKind, messages: &[KernelMessage]) {
    mirror.begin_dump(kind);
    let messages: Vec<_> = messages.iter().map(|message| message.clone().flagged(MULTI)).collect();
    tell(mirror, &messages);
    mirror.end_dump(kind);
}

/// One element of a dump that the test has begun.
pub(crate) fn dumped(message: KernelMessage) -> KernelMessage {
    message.flagged(MULTI)
}

/// An element of a dump that is not consistent.
pub(crate) fn interrupted(message: KernelMessage) -> KernelMessage {
    message.flagged(MULTI | INTERRUPTED)
}
