//! The messages of a received buffer.

use crate::attributes::{Malformed, aligned, read_u16, read_u32};
use crate::{
    AddressMessage, DoneMessage, ErrorMessage, LinkMessage, NeighbourMessage, NetconfMessage,
    NextHopMessage, RouteMessage, RuleMessage,
};

/// `sizeof(struct nlmsghdr)` of `linux/netlink.h`.
pub(crate) const HEADER_LEN: usize = 16;

/// Flags of a message: `NLM_F_*` of `linux/netlink.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderFlags(pub u16);

impl HeaderFlags {
    /// `NLM_F_REQUEST`: the message is a request to the kernel.
    pub const REQUEST: u16 = 0x01;
    /// `NLM_F_MULTI`: the message is part of a dump.
    pub const MULTI: u16 = 0x02;
    /// `NLM_F_ACK`: the kernel must send an answer even if the request succeeds.
    pub const ACK: u16 = 0x04;
    /// `NLM_F_DUMP_INTR`: the table changed while it was dumped, so the dump is not consistent.
    pub const DUMP_INTERRUPTED: u16 = 0x10;
    /// `NLM_F_REPLACE` in a message about a new object: it replaces another object.
    pub const REPLACE: u16 = 0x100;
    /// `NLM_F_CREATE` in a message about a new object: it did not exist before.
    pub const CREATE: u16 = 0x400;
    /// `NLM_F_APPEND` in a message about a new object: it was added after others with the same key.
    pub const APPEND: u16 = 0x800;
    /// `NLM_F_DUMP`: a request for all objects.
    pub const DUMP: u16 = 0x300;
    /// `NLM_F_CAPPED` in an error: the request is not quoted completely.
    pub(crate) const CAPPED: u16 = 0x100;
    /// `NLM_F_ACK_TLVS` in an error or at the end of a dump: attributes follow.
    pub(crate) const ACK_ATTRIBUTES: u16 = 0x200;

    /// Returns whether all bits of `flags` are set.
    #[must_use]
    pub const fn has(self, flags: u16) -> bool {
        self.0 & flags == flags
    }
}

/// The header of a message: `struct nlmsghdr`, without the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetlinkHeader {
    /// The type of the message: `NLMSG_*` or `RTM_*`.
    pub kind: u16,
    /// The flags, which change the meaning of the message.
    pub flags: HeaderFlags,
    /// The number of the request that this message answers; 0 for most notifications.
    pub sequence: u32,
    /// The address of the socket whose request is answered, or whose request made the change.
    pub port: u32,
}

/// Whether an object exists from now on (`RTM_NEW*`), or no longer (`RTM_DEL*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object exists, with the properties in the message.
    New,
    /// The object was deleted. The message describes it as it was.
    Deleted,
}

/// A message.
#[derive(Clone, Copy, Debug)]
pub struct NetlinkMessage<'a> {
    /// The header.
    pub header: NetlinkHeader,
    /// The content of the message.
    pub body: MessageBody<'a>,
}

/// The content of a message, by its type.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum MessageBody<'a> {
    /// `RTM_NEWLINK`, `RTM_DELLINK`: an interface.
    Link(Change, LinkMessage<'a>),
    /// `RTM_NEWADDR`, `RTM_DELADDR`: an address of an interface.
    Address(Change, AddressMessage),
    /// `RTM_NEWROUTE`, `RTM_DELROUTE`: a route of IPv4 or IPv6, but not of multicast routing.
    Route(Change, RouteMessage<'a>),
    /// `RTM_NEWNEXTHOP`, `RTM_DELNEXTHOP`: a next-hop object.
    NextHop(Change, NextHopMessage<'a>),
    /// `RTM_NEWNEIGH`, `RTM_DELNEIGH`: a neighbour of IPv4 or IPv6.
    Neighbour(Change, NeighbourMessage),
    /// `RTM_NEWRULE`, `RTM_DELRULE`: a rule that selects a routing table.
    Rule(Change, RuleMessage<'a>),
    /// `RTM_NEWNETCONF`, `RTM_DELNETCONF`: settings of an interface.
    Netconf(Change, NetconfMessage),
    /// `NLMSG_DONE`: the end of a dump.
    Done(DoneMessage<'a>),
    /// `NLMSG_ERROR`: the result of a request, success or error.
    Error(ErrorMessage<'a>),
    /// `NLMSG_OVERRUN`: data was lost.
    Overrun,
    /// A type or an address family that this crate does not support.
    Other,
}

/// The messages in bytes received from a netlink socket, in order.
///
/// A malformed message is returned as an error. The iteration continues after it, unless its length
/// field is wrong.
#[derive(Clone, Debug)]
pub struct Messages<'a>(&'a [u8]);

impl<'a> Messages<'a> {
    /// Iterates over the bytes that one `recv` returned.
    #[must_use]
    pub const fn new(received: &'a [u8]) -> Self {
        Self(received)
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<NetlinkMessage<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.0;
        if bytes.is_empty() {
            return None;
        }
        let claimed = read_u32(bytes, 0).unwrap_or_default();
        let Some(message) =
            bytes.get(..claimed as usize).filter(|message| message.len() >= HEADER_LEN)
        else {
            self.0 = &[];
            return Some(Err(Malformed::MessageLength { claimed, present: bytes.len() }));
        };
        self.0 = bytes.get(aligned(message.len())..).unwrap_or_default();
        let header = read_header(message);
        Some(
            MessageBody::parse(header, &message[HEADER_LEN..])
                .map(|body| NetlinkMessage { header, body }),
        )
    }
}

/// Reads the header of a message, which must have at least [`HEADER_LEN`] bytes.
#[inline]
fn read_header(message: &[u8]) -> NetlinkHeader {
    NetlinkHeader {
        kind: read_u16(message, 4).unwrap_or_default(),
        flags: HeaderFlags(read_u16(message, 6).unwrap_or_default()),
        sequence: read_u32(message, 8).unwrap_or_default(),
        port: read_u32(message, 12).unwrap_or_default(),
    }
}

/// `NLMSG_ERROR` of `linux/netlink.h`; the next two are `NLMSG_DONE` and `NLMSG_OVERRUN`.
/// `NLMSG_NOOP` has no meaning of its own: it is [`MessageBody::Other`].
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLMSG_OVERRUN: u16 = 4;

/// Types of messages, `linux/rtnetlink.h`. The number for the deletion of an object is one greater
/// than the number for its creation; that of the request is two greater.
pub(crate) mod kind {
    /// `RTM_NEWLINK`: an interface.
    pub(crate) const LINK: u16 = 16;
    /// `RTM_NEWADDR`: an address of an interface.
    pub(crate) const ADDRESS: u16 = 20;
    /// `RTM_NEWROUTE`: a route.
    pub(crate) const ROUTE: u16 = 24;
    /// `RTM_NEWNEIGH`: a neighbour.
    pub(crate) const NEIGHBOUR: u16 = 28;
    /// `RTM_NEWRULE`: a routing rule.
    pub(crate) const RULE: u16 = 32;
    /// `RTM_NEWNETCONF`: settings of an interface.
    pub(crate) const NETCONF: u16 = 80;
    /// `RTM_NEWNEXTHOP`: a next-hop object.
    pub(crate) const NEXT_HOP: u16 = 104;
    /// The difference between the type of a request for objects and the type of a message that
    /// creates them (`RTM_GETLINK` and `RTM_NEWLINK`).
    pub(crate) const TO_GET: u16 = 2;
}

impl<'a> MessageBody<'a> {
    #[inline]
    fn parse(header: NetlinkHeader, payload: &'a [u8]) -> Result<Self, Malformed> {
        let change = if header.kind & 1 == 0 { Change::New } else { Change::Deleted };
        let or_other = |body: Option<Self>| body.unwrap_or(Self::Other);
        let body = match header.kind {
            NLMSG_DONE => Self::Done(DoneMessage::parse(header.flags, payload)?),
            NLMSG_ERROR => Self::Error(ErrorMessage::parse(header.flags, payload)?),
            NLMSG_OVERRUN => Self::Overrun,
            _ => match header.kind & !1 {
                kind::ROUTE => {
                    or_other(RouteMessage::parse(payload)?.map(|it| Self::Route(change, it)))
                }
                kind::NEIGHBOUR => or_other(
                    NeighbourMessage::parse(payload)?.map(|it| Self::Neighbour(change, it)),
                ),
                kind::LINK => {
                    or_other(LinkMessage::parse(payload)?.map(|it| Self::Link(change, it)))
                }
                kind::ADDRESS => {
                    or_other(AddressMessage::parse(payload)?.map(|it| Self::Address(change, it)))
                }
                kind::NEXT_HOP => Self::NextHop(change, NextHopMessage::parse(payload)?),
                kind::RULE => {
                    or_other(RuleMessage::parse(payload)?.map(|it| Self::Rule(change, it)))
                }
                kind::NETCONF => {
                    or_other(NetconfMessage::parse(payload)?.map(|it| Self::Netconf(change, it)))
                }
                _ => Self::Other,
            },
        };
        Ok(body)
    }
}
