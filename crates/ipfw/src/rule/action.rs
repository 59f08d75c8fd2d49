use alloc::string::String;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::name::ObjectName;

/// A number, or the value that the rule's last table lookup found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// This number.
    Number(u32),
    /// The table's value, of the kind that the place asks for.
    Tablearg,
}

/// What a rule does with a packet that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// Passes; the search ends.
    Allow,
    /// Drops; the search ends.
    Deny,
    /// Counts; the search goes on.
    Count,
    /// Runs the action of the rule that made the packet's state, if there is one. `None` is any
    /// name.
    CheckState(Option<ObjectName>),
    /// Goes on at a later rule.
    SkipTo(Arg),
    /// Goes on at a rule and remembers where to return to.
    Call(Arg),
    /// Goes back to behind the last call.
    Return(ReturnTo),
    /// Hands over to a pipe.
    Pipe(Arg),
    /// Hands over to a queue.
    Queue(Arg),
    /// Drops, and answers with an ICMP error.
    Unreach(Unreach),
    /// Drops, and answers with an ICMPv6 error of this code.
    Unreach6(u8),
    /// Drops, and answers TCP with a reset.
    Reset,
    /// The same for IPv6 only.
    Reset6,
    /// Drops, and answers SCTP with an abort.
    Abort,
    /// The same for IPv6 only.
    Abort6,
    /// Sends to another next hop or port.
    Forward(NextHop),
    /// Rewrites the DSCP; the search goes on.
    SetDscp(Arg),
    /// Sets the packet's mark; the search goes on.
    SetMark(Arg),
    /// Lowers the MSS option of a SYN; the search goes on.
    TcpSetMss(u16),
    /// Puts IPv4 fragments together.
    Reass,
    /// Translates addresses.
    Nat(NatRef),
    /// Translates IPv6 prefixes.
    Nptv6(ObjectName),
}

impl RuleAction {
    /// Whether it needs to know who has an address.
    #[must_use]
    pub const fn forwards_to_address(&self) -> bool {
        matches!(self, Self::Forward(NextHop::V4(..) | NextHop::V6(..) | NextHop::Tablearg(_)))
    }
}

/// Where `return` goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnTo {
    /// At the first rule numbered higher than the caller.
    NextNumber,
    /// At the rule behind the caller, whatever its number.
    NextRule,
}

/// An ICMP "destination unreachable" answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreach {
    /// The ICMP code.
    pub code: u8,
    /// MTU told with code 4, in bytes; 0 where none is told.
    pub mtu: u16,
}

impl Unreach {
    /// What `reject` sends.
    pub const HOST: Self = Self { code: 1, mtu: 0 };
}

/// Where `fwd` sends a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// The address that the table holds; the port, if not 0.
    Tablearg(u16),
    /// An IPv4 next hop; the port, if not 0.
    V4(Ipv4Addr, u16),
    /// An IPv6 next hop; the port, if not 0.
    V6(Ipv6Addr, u16),
    /// One of the firewall's own ports, by name.
    Port(String),
}

/// Which translator `nat` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatRef {
    /// All of them, in order.
    Global,
    /// This one.
    Instance(Arg),
}

/// Whether and how much a rule logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleLog {
    /// Most lines until `resetlog`; 0 is no limit, `None` the default of the engine.
    pub amount: Option<u32>,
    /// Where lines go; all `false` is the default of the engine.
    pub to: LogDestination,
}

/// Where the lines of a rule go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogDestination {
    /// To the log.
    pub syslog: bool,
    /// To who captures packets that were logged.
    pub ipfw0: bool,
    /// To who listens for events.
    pub rtsock: bool,
}

/// Whether a tag is put on or taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagOp {
    /// `tag`.
    Add,
    /// `untag`.
    Remove,
}

/// A tag put on a packet, or taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagChange {
    /// Which of both.
    pub op: TagOp,
    /// The tag, 1..=65534.
    pub tag: Arg,
}
