//! The purposes of numbers in tables.

/// The purpose of a number in a table's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ValueKind {
    /// Target of `skipto` and `call`.
    SkipTo,
    /// Number of a pipe or queue.
    Pipe,
    /// A forwarding table, which is not used here.
    Fib,
    /// Number of a `nat` instance.
    Nat,
    /// A DSCP.
    Dscp,
    /// A tag.
    Tag,
    /// A divert port, which is not used here.
    Divert,
    /// A netgraph hook, which is not used here.
    Netgraph,
    /// Maximum number of states.
    Limit,
    /// An IPv4 next hop.
    Ipv4,
    /// An IPv6 next hop.
    Ipv6,
    /// A mark.
    Mark,
}

/// The kinds with their names, in the order in which values list them.
pub(super) const KINDS: [(ValueKind, &str); 12] = [
    (ValueKind::SkipTo, "skipto"),
    (ValueKind::Pipe, "pipe"),
    (ValueKind::Fib, "fib"),
    (ValueKind::Nat, "nat"),
    (ValueKind::Dscp, "dscp"),
    (ValueKind::Tag, "tag"),
    (ValueKind::Divert, "divert"),
    (ValueKind::Netgraph, "netgraph"),
    (ValueKind::Limit, "limit"),
    (ValueKind::Ipv4, "ipv4"),
    (ValueKind::Ipv6, "ipv6"),
    (ValueKind::Mark, "mark"),
];

impl ValueKind {
    /// Returns the kind with this name in `valtype`; `None` if no kind has it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        KINDS.iter().find(|(_, known)| *known == name).map(|&(kind, _)| kind)
    }

    /// The kind's name in `valtype`.
    #[must_use]
    pub fn name(self) -> &'static str {
        KINDS[self as usize].1
    }
}
