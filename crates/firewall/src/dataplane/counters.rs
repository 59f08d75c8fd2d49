//! What became of frames.

use serde::Serialize;
use slipring_dummynet::{ShaperCounters, ShaperDropCause};
use slipring_ipfw::packet::{MalformedCounters, MalformedReason};
use slipring_ipfw::run::{DenyReason, FragmentCounters};

/// Why a frame is lost here; pipes and fragments have causes of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum DataplaneLoss {
    /// A rule denies it.
    Denied,
    /// Its headers cannot be believed.
    Malformed,
    /// There is no room for its state.
    StatesFull,
    /// The limit of a rule is reached.
    StateLimit,
    /// Calls of rules too deep, or going round.
    CallDepth,
    /// A table has no number for the pipe or queue.
    NoNumber,
    /// Nobody has told of the next hop yet, or there is no such port.
    NoHop,
    /// Frames of its port go nowhere.
    NoTarget,
    /// `nat` or `nptv6` could not translate it, or would not let it in.
    Translation,
    /// The port it was to leave by has no room.
    TxFull,
    /// The port it was to leave by only receives.
    NoTx,
    /// The thread that has the pipes is behind.
    ShaperCongested,
    /// It is neither IP nor ARP, and a setting drops such frames.
    NonIp,
}

impl DataplaneLoss {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Denied,
        Self::Malformed,
        Self::StatesFull,
        Self::StateLimit,
        Self::CallDepth,
        Self::NoNumber,
        Self::NoHop,
        Self::NoTarget,
        Self::Translation,
        Self::TxFull,
        Self::NoTx,
        Self::ShaperCongested,
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
            Self::CallDepth => "calls",
            Self::NoNumber => "no_number",
            Self::NoHop => "no_next_hop",
            Self::NoTarget => "no_target",
            Self::Translation => "translation",
            Self::TxFull => "tx_full",
            Self::NoTx => "no_tx",
            Self::ShaperCongested => "pipes_behind",
            Self::NonIp => "non_ip",
        }
    }
}

/// Frames that passed and met no rules. They are among those sent, or lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct BypassCounters {
    /// ARP and RARP.
    pub arp: u64,
    /// Neither IP nor ARP.
    pub non_ip: u64,
}

/// Counts of frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DataplaneCounters {
    /// Came by ports.
    pub offered: u64,
    /// Made by sending one to several ports.
    pub copies: u64,
    /// Made here: answers and keepalives.
    pub made: u64,
    /// Met no rules.
    pub bypassed: BypassCounters,
    /// Sent.
    pub sent: u64,
    /// In pipes, or fragments that wait for others.
    pub waiting: u64,
    /// Handed to other threads, for their pipes and back.
    pub handed_off: u64,
    /// Taken from other threads so.
    pub foreign: u64,
    lost: [u64; DataplaneLoss::ALL.len()],
    /// Those of [`Loss::Malformed`], by kind.
    malformed: MalformedCounters,
    /// What the shaper did.
    pub shaper: ShaperCounters,
    /// What became of fragments.
    pub fragments: FragmentCounters,
}

impl DataplaneCounters {
    pub(super) fn count_loss(&mut self, why: DataplaneLoss) {
        self.lost[why as usize] += 1;
    }

    pub(super) fn count_denied(&mut self, why: DenyReason) {
        if let DenyReason::Malformed(kind) = why {
            self.malformed.count(kind);
        }
        self.count_loss(why.into());
    }

    /// Frames lost here for one cause.
    #[must_use]
    pub const fn of(&self, why: DataplaneLoss) -> u64 {
        self.lost[why as usize]
    }

    /// Everything that was lost, by cause.
    pub fn losses(&self) -> impl Iterator<Item = (String, u64)> {
        let own = DataplaneLoss::ALL.into_iter().filter(|why| *why != DataplaneLoss::Malformed);
        let own = own.map(|why| (why.name().to_owned(), self.of(why)));
        let malformed = MalformedReason::ALL
            .map(|(kind, name)| (format!("malformed_{name}"), self.malformed.of(kind)));
        let shaper = ShaperDropCause::ALL.map(|cause| {
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
    pub fn is_balanced(&self) -> bool {
        let came = self.offered + self.copies + self.made + self.foreign;
        came == self.sent + self.lost() + self.waiting + self.handed_off
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
        self.handed_off += other.handed_off;
        self.foreign += other.foreign;
        self.fragments.add(&other.fragments);
        self.malformed.add(&other.malformed);
        self.lost.iter_mut().zip(other.lost).for_each(|(to, more)| *to += more);
        self
    }
}

impl From<DenyReason> for DataplaneLoss {
    fn from(why: DenyReason) -> Self {
        match why {
            DenyReason::Rule => Self::Denied,
            DenyReason::Malformed(_) => Self::Malformed,
            DenyReason::StatesFull => Self::StatesFull,
            DenyReason::StateLimit => Self::StateLimit,
            DenyReason::CallDepth | DenyReason::CallLoop => Self::CallDepth,
            DenyReason::NoNumber => Self::NoNumber,
            DenyReason::Translation => Self::Translation,
        }
    }
}
