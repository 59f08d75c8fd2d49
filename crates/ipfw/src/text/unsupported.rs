//! ipfw features that are not available here. Each has a text with an alternative and the reason.

use super::names::NameTable;

const SOCKETS: &str = "a rule about packets: sockets live in a host, not between two ports";
const ROUTES: &str = "a rule without routes: this engine has no routing table";
const DIVERT: &str = "another action: there is no divert socket to hand packets to";

/// Unsupported rule actions.
pub(super) const ACTIONS: &NameTable<&str> = &[
    ("divert", DIVERT),
    ("tee", DIVERT),
    ("netgraph", "another action: there are no netgraph nodes outside FreeBSD's kernel"),
    ("ngtee", "another action: there are no netgraph nodes outside FreeBSD's kernel"),
    ("setfib", "`setmark` or `tag`: there is only one forwarding table, outside this engine"),
    ("nat64lsn", "`nat` or `nptv6`: translation between IP versions is not offered"),
    ("nat64stl", "`nat` or `nptv6`: translation between IP versions is not offered"),
    ("nat64clat", "`nat` or `nptv6`: translation between IP versions is not offered"),
    ("eaction", "the name of the action itself: no external actions can be loaded"),
];

/// Unsupported modifiers, which come before the body of a rule.
pub(super) const MODIFIERS: &NameTable<&str> =
    &[("altq", "`queue` or `pipe`: there is no pf device with ALTQ queues")];

/// Unsupported rule options.
pub(super) const OPTIONS: &NameTable<&str> = &[
    ("uid", SOCKETS),
    ("gid", SOCKETS),
    ("jail", SOCKETS),
    ("sockarg", SOCKETS),
    ("fib", ROUTES),
    ("verrevpath", ROUTES),
    ("versrcreach", ROUTES),
    ("antispoof", ROUTES),
    ("ipsec", "a rule about what is on the wire: no IPsec history is known between two ports"),
    ("diverted", DIVERT),
    ("diverted-loopback", DIVERT),
    ("diverted-output", DIVERT),
];
