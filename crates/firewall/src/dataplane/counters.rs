//! Counts of frames by outcome.

use serde::Serialize;
use slipring_dummynet::{ShaperCounters, ShaperDropCause};
use slipring_ipfw::packet::{MalformedCounters, MalformedReason};
use slipring_ipfw::run::{DenyReason, FragmentCounters};

/// Why a frame is lost in the dataplane. Losses in pipes and of fragments have their own lists of
/// causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum DataplaneLoss {
    /// A rule denied the frame.
    Denied,
    /// The frame's headers are invalid.
    Malformed,
    /// The state table is full.
    StatesFull,
    /// The `limit` of a rule is reached.
    StateLimit,
    /// `call` rules are nested too deeply or form a loop.
    CallDepth,
    /// The number of the pipe or queue comes from a table (`tablearg`), which has none for this
    /// frame.
    NoNumber,
    /// The next hop has not been learned yet, or the next hop's port does not exist.
    NoHop,
    /// The port map has no output port for the frame's input port.
    NoTarget,
    /// `nat` or `nptv6` could not translate the frame, or refused it.
    Translation,
    /// The transmit ring of the frame's output port is full.
    TxFull,
    /// The frame's output port cannot send.
    NoTx,
    /// The dataplane with the pipes is overloaded.
    ShaperCongested,
    /// The frame is neither IP nor ARP, and a setting drops such frames.
    NonIp,
}

impl DataplaneLoss {
    /// All causes.
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

    /// Returns the name of the cause in reports.
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

/// Frames that bypassed the rules and passed. Each also counts as sent or lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct BypassCounters {
    /// ARP and RARP frames.
    pub arp: u64,
    /// Frames that are neither IP nor ARP.
    pub non_ip: u64,
}

/// Counts of frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DataplaneCounters {
    /// Frames received from ports.
    pub offered: u64,
    /// Copies made to send one frame to several ports.
    pub copies: u64,
    /// Frames generated here: replies and keepalives.
    pub made: u64,
    /// Frames that bypassed the rules.
    pub bypassed: BypassCounters,
    /// Frames sent to ports.
    pub sent: u64,
    /// Frames in pipes, and fragments that wait for the rest of their packet.
    pub waiting: u64,
    /// Frames handed to other dataplanes: to be shaped, or back to their owners after shaping.
    pub handed_off: u64,
    /// Frames accepted from other dataplanes; the counterpart of `handed_off`.
    pub foreign: u64,
    lost: [u64; DataplaneLoss::ALL.len()],
    /// Frames lost as [`DataplaneLoss::Malformed`], by kind.
    malformed: MalformedCounters,
    /// Counters of the shaper.
    pub shaper: ShaperCounters,
    /// Counters of fragments.
    pub fragments: FragmentCounters,
}

impl DataplaneCounters {
    pub(super) fn count_loss(&mut self, cause: DataplaneLoss) {
        self.lost[cause as usize] += 1;
    }

    pub(super) fn count_denied(&mut self, cause: DenyReason) {
        if let DenyReason::Malformed(kind) = cause {
            self.malformed.count(kind);
        }
        self.count_loss(cause.into());
    }

    /// Returns the number of frames lost here for one cause.
    #[must_use]
    pub const fn of(&self, cause: DataplaneLoss) -> u64 {
        self.lost[cause as usize]
    }

    /// Returns the number of lost frames by cause, including those in pipes and of fragments.
    pub fn losses(&self) -> impl Iterator<Item = (String, u64)> {
        let own = DataplaneLoss::ALL.into_iter().filter(|cause| *cause != DataplaneLoss::Malformed);
        let own = own.map(|cause| (cause.name().to_owned(), self.of(cause)));
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

    /// Returns the number of lost frames, for all causes.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.losses().map(|(_, count)| count).sum()
    }

    /// Returns whether the frames offered, copied and generated equal those sent, lost and waiting.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        let came = self.offered + self.copies + self.made + self.foreign;
        came == self.sent + self.lost() + self.waiting + self.handed_off
    }

    /// Adds the counters of another dataplane. `self` must belong to the dataplane with the pipes.
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
    fn from(cause: DenyReason) -> Self {
        match cause {
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
