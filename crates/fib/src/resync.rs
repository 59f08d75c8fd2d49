//! Which of the kernel's tables must be dumped again, and which dumps are running.

use slipring_rtnetlink::RouteFamily;

/// A table of the kernel that can be dumped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DumpKind {
    /// Interfaces, by `RTM_GETLINK`.
    Links,
    /// `RTM_GETADDR`, both families.
    Addresses,
    /// Settings of interfaces for IPv4, by `RTM_GETNETCONF`.
    Settings,
    /// `RTM_GETRULE`, both families.
    Rules,
    /// Next-hop objects, by `RTM_GETNEXTHOP`.
    NextHops,
    /// `RTM_GETROUTE` of `AF_INET`, all tables.
    Ipv4Routes,
    /// `RTM_GETROUTE` of `AF_INET6`, all tables.
    Ipv6Routes,
    /// `RTM_GETNEIGH`, both families.
    Neighbours,
}

impl DumpKind {
    /// All tables, in the order in which they should be dumped: tables to which others refer come
    /// first.
    pub const ALL: [Self; 8] = [
        Self::Links,
        Self::Addresses,
        Self::Settings,
        Self::Rules,
        Self::NextHops,
        Self::Ipv4Routes,
        Self::Ipv6Routes,
        Self::Neighbours,
    ];

    pub(crate) const fn routes(family: RouteFamily) -> Self {
        match family {
            RouteFamily::V4 => Self::Ipv4Routes,
            RouteFamily::V6 => Self::Ipv6Routes,
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// A set of the kernel's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpSet(u16);

impl DumpSet {
    /// All tables.
    pub const ALL: Self = Self((1 << DumpKind::ALL.len()) - 1);

    /// Next-hop objects and the routes of both families.
    pub(crate) const ROUTING: Self =
        Self(DumpKind::NextHops.bit() | DumpKind::Ipv4Routes.bit() | DumpKind::Ipv6Routes.bit());

    /// Returns whether no table is in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether a table is in the set.
    #[must_use]
    pub const fn contains(self, kind: DumpKind) -> bool {
        self.0 & kind.bit() != 0
    }

    /// The tables in the set, in the order in which they should be dumped.
    pub fn iter(self) -> impl Iterator<Item = DumpKind> {
        DumpKind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }

    const fn insert(&mut self, kind: DumpKind) {
        self.0 |= kind.bit();
    }

    const fn remove(&mut self, kind: DumpKind) {
        self.0 &= !kind.bit();
    }
}

/// After this many interrupted dumps of a table, the table counts as dumped: a table that changes
/// all the time would otherwise prevent the start of the router. The table must still be dumped
/// again, and objects that are missing in an interrupted dump are not removed.
const MAX_INTERRUPTED_DUMPS: u8 = 3;

/// The state of all dumps.
#[derive(Debug)]
pub(crate) struct Resync {
    wanted: DumpSet,
    running: DumpSet,
    /// Running dumps that are inconsistent or have failed.
    interrupted: DumpSet,
    /// Tables that count as dumped: a dump was complete, or [`MAX_INTERRUPTED_DUMPS`] were
    /// interrupted.
    complete: DumpSet,
    attempts: [u8; DumpKind::ALL.len()],
}

/// How a dump has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DumpEnd {
    /// The dump was complete. Objects that it did not contain do not exist.
    Complete,
    /// The dump was interrupted. It may lack objects.
    Interrupted,
}

impl Resync {
    pub(crate) const fn new() -> Self {
        Self {
            wanted: DumpSet::ALL,
            running: DumpSet(0),
            interrupted: DumpSet(0),
            complete: DumpSet(0),
            attempts: [0; DumpKind::ALL.len()],
        }
    }

    /// Records that these tables must be dumped. A dump that is already running does not suffice.
    pub(crate) const fn want(&mut self, kinds: DumpSet) {
        self.wanted.0 |= kinds.0;
    }

    pub(crate) const fn want_one(&mut self, kind: DumpKind) {
        self.wanted.insert(kind);
    }

    /// Returns the tables that must be dumped.
    pub(crate) const fn wanted(&self) -> DumpSet {
        self.wanted
    }

    /// Whether each table was dumped at least once.
    pub(crate) const fn is_complete(&self) -> bool {
        self.complete.0 == DumpSet::ALL.0
    }

    /// Whether a table was dumped at least once.
    pub(crate) const fn was_dumped(&self, kind: DumpKind) -> bool {
        self.complete.contains(kind)
    }

    pub(crate) const fn is_running(&self, kind: DumpKind) -> bool {
        self.running.contains(kind)
    }

    pub(crate) const fn begin(&mut self, kind: DumpKind) {
        self.wanted.remove(kind);
        self.running.insert(kind);
        self.interrupted.remove(kind);
    }

    /// Marks running dumps as inconsistent: the dump of one kind; for `None` all dumps, because any
    /// of them may be inconsistent.
    pub(crate) const fn interrupt(&mut self, kind: Option<DumpKind>) {
        match kind {
            Some(kind) => self.interrupted.insert(kind),
            None => self.interrupted.0 |= self.running.0,
        }
    }

    pub(crate) fn end(&mut self, kind: DumpKind) -> DumpEnd {
        self.running.remove(kind);
        let attempts = &mut self.attempts[kind as usize];
        if !self.interrupted.contains(kind) {
            *attempts = 0;
            self.complete.insert(kind);
            return DumpEnd::Complete;
        }
        *attempts = attempts.saturating_add(1);
        if *attempts >= MAX_INTERRUPTED_DUMPS {
            self.complete.insert(kind);
        }
        self.wanted.insert(kind);
        DumpEnd::Interrupted
    }
}
