//! What became of frames.

use serde::Serialize;
use slipring_dummynet::{Counters as ShaperCounters, DropCause};
use slipring_ipfw::packet::{Malformed, MalformedCounters};
use slipring_ipfw::run::{Denied, FragmentCounters};

/// Why a frame is lost here; pipes and fragments have causes of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Loss {
    /// A rule denies it.
    Denied,
    /// Its headers cannot be believed.
    Malformed,
    /// There is no room for its state.
    StatesFull,
    /// The limit of a rule is reached.
    StateLimit,
    /// Calls of rules too deep, or going round.
    Calls,
    /// A table has no number for the pipe or queue.
    NoNumber,
    /// Nobody has told of the next hop yet, or there is no such port.
    NoHop,
    /// Frames of its port go nowhere.
    NoTarget,
    /// `nat` or `nptv6` could not translate it, or would not let it in.
    Translation,
    /// The port it was to leave by has no room.
    Full,
    /// The port it was to leave by only receives.
    NoTx,
    /// The thread that has the pipes is behind.
    Crowded,
    /// It is neither IP nor ARP, and a setting drops such frames.
    NonIp,
}

impl Loss {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Denied,
        Self::Malformed,
        Self::StatesFull,
        Self::StateLimit,
        Self::Calls,
        Self::NoNumber,
        Self::NoHop,
        Self::NoTarget,
        Self::Translation,
        Self::Full,
        Self::NoTx,
        Self::Crowded,
        Self::NonIp,
    ];

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Malformed => "malformed",
            Self::StatesFull => "states_full",
            Self::StateLimit => "state_limit",
            Self::Calls => "calls",
            Self::NoNumber => "no_number",
            Self::NoHop => "no_next_hop",
            Self::NoTarget => "no_target",
            Self::Translation => "translation",
            Self::Full => "tx_full",
            Self::NoTx => "no_tx",
            Self::Crowded => "pipes_behind",
            Self::NonIp => "non_ip",
        }
    }
}

/// Frames that passed and met no rules. They are among those sent, or lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Bypassed {
    /// ARP and RARP.
    pub arp: u64,
    /// Neither IP nor ARP.
    pub non_ip: u64,
}

/// Counts of frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Came by ports.
    pub offered: u64,
    /// Made by sending one to several ports.
    pub copies: u64,
    /// Made here: answers and keepalives.
    pub made: u64,
    /// Met no rules.
    pub bypassed: Bypassed,
    /// Sent.
    pub sent: u64,
    /// In pipes, or fragments that wait for others.
    pub waiting: u64,
    /// Handed to other threads, for their pipes and back.
    pub away: u64,
    /// Taken from other threads so.
    pub guests: u64,
    lost: [u64; Loss::ALL.len()],
    /// Those of [`Loss::Malformed`], by kind.
    malformed: MalformedCounters,
    /// What the shaper did.
    pub shaper: ShaperCounters,
    /// What became of fragments.
    pub fragments: FragmentCounters,
}

impl Tally {
    pub(super) fn lose(&mut self, why: Loss) {
        self.lost[why as usize] += 1;
    }

    pub(super) fn deny(&mut self, why: Denied) {
        if let Denied::Malformed(kind) = why {
            self.malformed.count(kind);
        }
        self.lose(why.into());
    }

    /// Frames lost here for one cause.
    #[must_use]
    pub const fn of(&self, why: Loss) -> u64 {
        self.lost[why as usize]
    }

    /// Everything that was lost, by cause.
    pub fn losses(&self) -> impl Iterator<Item = (String, u64)> {
        let own = Loss::ALL.into_iter().filter(|why| *why != Loss::Malformed);
        let own = own.map(|why| (why.name().to_owned(), self.of(why)));
        let malformed = Malformed::ALL
            .map(|(kind, name)| (format!("malformed_{name}"), self.malformed.of(kind)));
        let shaper = DropCause::ALL.map(|cause| {
            (format!("pipe_{}", cause.name().replace('-', "_")), self.shaper.drops.of(cause))
        });
        let FragmentCounters { late, overlapping, crowded, repeated, .. } = self.fragments;
        let fragments = [
            ("late", late),
            ("overlapping", overlapping),
            ("crowded", crowded),
            ("repeated", repeated),
        ];
        let fragments = fragments.map(|(name, count)| (format!("fragments_{name}"), count));
        own.chain(malformed).chain(shaper).chain(fragments)
    }

    /// All that was lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.losses().map(|(_, count)| count).sum()
    }

    /// Whether every frame is accounted for.
    #[must_use]
    pub fn balance(&self) -> bool {
        let came = self.offered + self.copies + self.made + self.guests;
        came == self.sent + self.lost() + self.waiting + self.away
    }

    /// Those of several engines together, the one that has the pipes first.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        self.offered += other.offered;
        self.copies += other.copies;
        self.made += other.made;
        self.bypassed.arp += other.bypassed.arp;
        self.bypassed.non_ip += other.bypassed.non_ip;
        self.sent += other.sent;
        self.waiting += other.waiting;
        self.away += other.away;
        self.guests += other.guests;
        self.fragments.add(&other.fragments);
        self.malformed.add(&other.malformed);
        self.lost.iter_mut().zip(other.lost).for_each(|(to, more)| *to += more);
        self
    }
}

impl From<Denied> for Loss {
    fn from(why: Denied) -> Self {
        match why {
            Denied::Rule => Self::Denied,
            Denied::Malformed(_) => Self::Malformed,
            Denied::StatesFull => Self::StatesFull,
            Denied::StateLimit => Self::StateLimit,
            Denied::CallDepth | Denied::CallLoop => Self::Calls,
            Denied::NoNumber => Self::NoNumber,
            Denied::Translation => Self::Translation,
        }
    }
}
