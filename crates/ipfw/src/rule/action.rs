use alloc::string::String;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::name::ObjectName;

/// A number, or the value found by the rule's last table lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// A fixed number.
    Number(u32),
    /// `tablearg`: the value that the table lookup found, of the kind that the context requires.
    Tablearg,
}

/// The effect of a rule on a matching packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// Passes the packet; the search ends.
    Allow,
    /// Drops the packet; the search ends.
    Deny,
    /// Counts the packet; the search continues.
    Count,
    /// Runs the action of the rule that created the packet's state, if there is such a state.
    /// `None` matches states of any name.
    CheckState(Option<ObjectName>),
    /// Continues at a later rule.
    SkipTo(Arg),
    /// Continues at a rule and remembers where to return to.
    Call(Arg),
    /// Returns from the innermost call; outside of calls, the search continues.
    Return(ReturnTo),
    /// Hands the packet to a pipe.
    Pipe(Arg),
    /// Hands the packet to a queue.
    Queue(Arg),
    /// Drops the packet and answers with an ICMP error.
    Unreach(Unreach),
    /// Drops the packet and answers with an ICMPv6 error of this code.
    Unreach6(u8),
    /// Drops the packet and answers TCP with a reset.
    Reset,
    /// Like `Reset`, but answers only IPv6.
    Reset6,
    /// Drops the packet and answers SCTP with an abort.
    Abort,
    /// Like `Abort`, but answers only IPv6.
    Abort6,
    /// Sends the packet to another next hop or port.
    Forward(NextHop),
    /// Rewrites the DSCP; the search continues.
    SetDscp(Arg),
    /// Sets the packet's mark; the search continues.
    SetMark(Arg),
    /// Lowers the MSS option of a SYN; the search continues.
    TcpSetMss(u16),
    /// Reassembles IPv4 fragments, so that later rules see the whole packet.
    Reass,
    /// Translates addresses.
    Nat(NatRef),
    /// Translates IPv6 prefixes.
    Nptv6(ObjectName),
}

impl RuleAction {
    /// Returns whether the caller must resolve an address to forward the packet.
    #[must_use]
    pub const fn forwards_to_address(&self) -> bool {
        matches!(self, Self::Forward(NextHop::V4(..) | NextHop::V6(..) | NextHop::Tablearg(_)))
    }
}

/// Where `return` continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnTo {
    /// The packet returns to the first rule with a number higher than that of the `call` rule.
    NextNumber,
    /// The packet returns to the rule after the `call` rule, even if both have the same number.
    NextRule,
}

/// An ICMP "destination unreachable" answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreach {
    /// The ICMP code.
    pub code: u8,
    /// MTU reported with code 4, in bytes; 0 if none is reported.
    pub mtu: u16,
}

impl Unreach {
    /// The answer of the `reject` action: host unreachable.
    pub const HOST: Self = Self { code: 1, mtu: 0 };
}

/// Where `fwd` sends a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// The address that the table lookup found, with a port number, which is 0 if none was given.
    Tablearg(u16),
    /// An IPv4 next hop with a port number, which is 0 if none was given.
    V4(Ipv4Addr, u16),
    /// An IPv6 next hop with a port number, which is 0 if none was given.
    V6(Ipv6Addr, u16),
    /// One of the firewall's own ports, by name.
    Port(String),
}

/// The translators of a `nat` action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatRef {
    /// The first `nat` instance, in order of their numbers, that has a flow or a redirection for
    /// the packet. Instances with `skip_global` are left out.
    Global,
    /// A single `nat` instance.
    Instance(Arg),
}

/// Whether and how often a rule logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleLog {
    /// Maximum number of packets that are logged until `resetlog` or `zero`; one more line then
    /// says that the limit is reached. 0 means no limit. `None` means the engine's default when the
    /// rule is added.
    pub amount: Option<u32>,
    /// Where lines go. If all destinations are `false`, the engine's default applies.
    pub to: LogDestination,
}

/// Where the lines of a rule go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogDestination {
    /// Whether packets are logged to the system log.
    pub syslog: bool,
    /// Whether packets are logged to captures of logged packets.
    pub ipfw0: bool,
    /// Whether packets are logged to event listeners.
    pub rtsock: bool,
}

/// Whether a tag is added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagOp {
    /// The `tag` keyword.
    Add,
    /// The `untag` keyword.
    Remove,
}

/// A tag to add to a packet, or to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagChange {
    /// The operation.
    pub op: TagOp,
    /// The tag, 1..=65534.
    pub tag: Arg,
}
