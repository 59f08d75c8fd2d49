//! Source address translation for one address, by the kernel's nf_tables.
//!
//! The table belongs to a netlink socket of this process (flag `owner`). So the kernel removes the
//! table when the process ends for any reason, and until then no other process can change it. A
//! table made by running `nft` would belong to the socket of that process, so this module uses
//! netlink directly.
//!
//! ```text
//!   table ip slip0 {
//!     chain out { type nat hook postrouting priority srcnat; ip saddr 100.64.0.2 masquerade }
//!   }
//! ```
//! Formats: linux/netfilter/nf_tables.h, linux/netfilter/nfnetlink.h.
//!
//! Not for filtering: packets that a forward chain of another table drops are still dropped.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

/// The translation while it is active; when this is dropped, the kernel removes it.
#[derive(Debug)]
pub(super) struct Masquerade {
    _socket: Socket,
}

/// Maximum time for the kernel's answer.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

// linux/netlink.h and linux/netfilter/nfnetlink.h
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_APPEND: u16 = 0x800;
const NLA_F_NESTED: u16 = 0x8000;
const NLMSG_ERROR: u16 = 2;
const NFNL_MSG_BATCH_BEGIN: u16 = 0x10;
const NFNL_MSG_BATCH_END: u16 = 0x11;
const NFNL_SUBSYS_NFTABLES: u16 = 10;
const HEADER_BYTES: usize = 16;

// linux/netfilter/nf_tables.h
const NEW_TABLE_MSG: u16 = NFNL_SUBSYS_NFTABLES << 8;
const NEW_CHAIN_MSG: u16 = NFNL_SUBSYS_NFTABLES << 8 | 3;
const NEW_RULE_MSG: u16 = NFNL_SUBSYS_NFTABLES << 8 | 6;
const TABLE_OWNED: u32 = 2;
const POSTROUTING: u32 = 4;
const PRIORITY_SRCNAT: u32 = 100;
const REGISTER: u32 = 1;
const NETWORK_HEADER: u32 = 1;

impl Masquerade {
    /// Translates the source address of packets from `source` that leave the current namespace.
    /// They get the address of the outgoing interface. The rule is in a new table called `name`.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_ADMIN; other errors if the kernel lacks nf_tables, its
    /// NAT or (before 5.12) tables with owners.
    pub(super) fn install(name: &str, source: IpAddr) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        set_socket_timeout(socket.as_fd(), Timeout::Recv, Some(REPLY_TIMEOUT))?;
        socket.send(&batch(name, source), 0)?;
        // The kernel answers once for each of table, chain and rule. If it refuses one, it rejects
        // the whole batch.
        for _ in 0..3 {
            acknowledged(&socket.recv_from_full()?.0)?;
        }
        Ok(Self { _socket: socket })
    }
}

/// Parses an acknowledgement.
fn acknowledged(answer: &[u8]) -> io::Result<()> {
    let word = |at: usize| answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    match (kind, word(HEADER_BYTES).map(i32::from_ne_bytes)) {
        (Some(NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(NLMSG_ERROR), Some(code)) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        _ => Err(io::Error::other("an answer of nf_tables that is none")),
    }
}

fn batch(name: &str, source: IpAddr) -> Vec<u8> {
    let (family, offset, octets) = match source {
        IpAddr::V4(address) => (libc::AF_INET as u8, 12, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6 as u8, 8, address.octets().to_vec()),
    };
    let table = text(1, name);
    let chain = [text(1, name), text(3, "out")].concat();
    let hook = nest(4, &[number(1, POSTROUTING), number(2, PRIORITY_SRCNAT)]);
    let from = [
        expression("payload", &payload(offset, octets.len() as u32)),
        expression("cmp", &[number(1, REGISTER), number(2, 0), nest(3, &[bytes(1, &octets)])]),
        expression("masq", &[]),
    ];
    let rule = [text(1, name), text(2, "out"), nest(4, &from)].concat();
    let create = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE;
    [
        message(NFNL_MSG_BATCH_BEGIN, NLM_F_REQUEST, 0, NFNL_SUBSYS_NFTABLES, &[]),
        message(NEW_TABLE_MSG, create, family, 0, &[table, number(2, TABLE_OWNED)].concat()),
        message(NEW_CHAIN_MSG, create, family, 0, &[chain, hook, text(7, "nat")].concat()),
        message(NEW_RULE_MSG, create | NLM_F_APPEND, family, 0, &rule),
        message(NFNL_MSG_BATCH_END, NLM_F_REQUEST, 0, NFNL_SUBSYS_NFTABLES, &[]),
    ]
    .concat()
}

/// Returns the attributes of an expression that loads `len` bytes at `offset` of the network
/// header.
fn payload(offset: u32, len: u32) -> [Vec<u8>; 4] {
    [number(1, REGISTER), number(2, NETWORK_HEADER), number(3, offset), number(4, len)]
}

/// Returns one expression of a rule, with its attributes.
fn expression(name: &str, attributes: &[Vec<u8>]) -> Vec<u8> {
    nest(1, &[text(1, name), nest(2, attributes)])
}

/// Returns a message: `struct nlmsghdr`, `struct nfgenmsg`, attributes.
fn message(kind: u16, flags: u16, family: u8, resource: u16, attributes: &[u8]) -> Vec<u8> {
    let len = (HEADER_BYTES + 4 + attributes.len()) as u32;
    let mut message = len.to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([family, 0]);
    message.extend(resource.to_be_bytes());
    message.extend(attributes);
    message
}

/// Encodes an attribute: a `struct nlattr` and the value, padded to four bytes.
fn bytes(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut attribute = (4 + value.len() as u16).to_ne_bytes().to_vec();
    attribute.extend(kind.to_ne_bytes());
    attribute.extend(value);
    attribute.resize(attribute.len().next_multiple_of(4), 0);
    attribute
}

fn nest(kind: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    bytes(kind | NLA_F_NESTED, &attributes.concat())
}

/// Encodes an attribute with a 32-bit number; nf_tables numbers are big-endian.
fn number(kind: u16, value: u32) -> Vec<u8> {
    bytes(kind, &value.to_be_bytes())
}

fn text(kind: u16, value: &str) -> Vec<u8> {
    bytes(kind, &[value.as_bytes(), &[0]].concat())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use slipring_core::netns::Netns;

    use super::*;

    #[test]
    fn every_message_ends_where_its_length_says_and_is_aligned() {
        let batch = batch("slip7", Ipv6Addr::LOCALHOST.into());
        let (mut at, mut kinds) = (0, Vec::new());
        while at < batch.len() {
            let len = u32::from_ne_bytes(batch[at..at + 4].try_into().unwrap()) as usize;
            kinds.push(u16::from_ne_bytes(batch[at + 4..at + 6].try_into().unwrap()));
            assert_eq!(len % 4, 0);
            at += len;
        }
        assert_eq!(at, batch.len());
        assert_eq!(
            kinds,
            [NFNL_MSG_BATCH_BEGIN, NEW_TABLE_MSG, NEW_CHAIN_MSG, NEW_RULE_MSG, NFNL_MSG_BATCH_END]
        );
    }

    #[test]
    fn the_kernel_takes_it_and_a_second_owner_is_refused_until_the_first_is_gone() {
        let Ok(netns) = Netns::new() else {
            return slipring_test_support::skip!("no network namespace");
        };
        let source = IpAddr::V4(Ipv4Addr::new(100, 64, 0, 2));
        let install = || netns.run(move || Masquerade::install("slip0", source));
        let first = match install() {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                return slipring_test_support::skip!("this kernel's tables have no owners");
            }
            result => result.unwrap(),
        };
        assert_eq!(install().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        drop(first);
        install().unwrap();
        netns.run(|| Masquerade::install("slip6", Ipv6Addr::LOCALHOST.into())).unwrap();
    }
}
