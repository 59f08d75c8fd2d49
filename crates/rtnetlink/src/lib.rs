//! The messages of rtnetlink that describe routing: links, addresses, routes, next hops,
//! neighbours, rules, settings.
//!
//! ```text
//!   received bytes --Messages--> NetlinkMessage: header, body
//!                                                  |
//!      Link, Address, Rule, NextHop, Route, Neighbour, Netconf (each New or Deleted),
//!      Done, Error, …
//!
//!   RequestBuilder --> bytes to send
//! ```
//!
//! Structures and attributes are those of the kernel's uapi headers (`linux/netlink.h`,
//! `linux/rtnetlink.h`, `linux/if_link.h`, …); each number names its header. Integers are in the
//! byte order of the machine, addresses in network order.
//!
//! # Contract
//! 1. Parsing does not allocate: bodies borrow lists and texts from the received bytes.
//! 2. No input makes a function panic. A wrong length in a message is an error. The messages after
//!    it can still be read, unless the wrong length is that of the whole message.
//! 3. A property that changes forwarding but is not represented here sets a flag of the body
//!    (`has_unknown`, `has_other_selectors`), so that a reader can leave such routes to the kernel.
//!
//! Not for sockets, nor for the bridge and MPLS families, whose messages are
//! [`MessageBody::Other`].
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;

mod address;
mod attributes;
mod link;
mod message;
mod neighbour;
mod netconf;
mod next_hop;
mod request;
mod route;
mod rule;
mod status;

pub use address::AddressMessage;
pub use attributes::Malformed;
pub use link::{LinkFlags, LinkMessage};
pub use message::{Change, HeaderFlags, MessageBody, Messages, NetlinkHeader, NetlinkMessage};
pub use neighbour::{NeighbourMessage, NudState};
pub use netconf::{NetconfMessage, NetconfScope};
pub use next_hop::{GroupKind, NextHopGroup, NextHopMessage};
pub use request::{DumpFilter, RequestBuilder};
pub use route::{
    HopFlags, Multipath, RouteHop, RouteKind, RouteMessage, TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN,
};
pub use rule::{RoutingAction, RuleMessage};
pub use status::{DoneMessage, ErrorMessage};

/// The family of a message: `AF_INET` or `AF_INET6` of `linux/socket.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RouteFamily {
    /// Addresses of 32 bits.
    V4,
    /// Addresses of 128 bits.
    V6,
}

/// `AF_UNSPEC`: all families.
const AF_UNSPEC: u8 = 0;
/// `AF_INET`: IPv4.
const AF_INET: u8 = 2;
/// `AF_INET6`: IPv6.
const AF_INET6: u8 = 10;

impl RouteFamily {
    /// The number that stands for the family in messages.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::V4 => AF_INET,
            Self::V6 => AF_INET6,
        }
    }

    /// The length of an address, in bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    const fn of(number: u8) -> Option<Self> {
        match number {
            AF_INET => Some(Self::V4),
            AF_INET6 => Some(Self::V6),
            _ => None,
        }
    }
}

impl From<core::net::IpAddr> for RouteFamily {
    fn from(address: core::net::IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}
