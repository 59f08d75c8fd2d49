//! Counts frames by what happened to them.

use serde::Serialize;
use slipring_dummynet::{ShaperCounters, ShaperDropCause};
use slipring_ipfw::packet::{MalformedCounters, MalformedReason};
use slipring_ipfw::run::{DenyReason, FragmentCounters};

/// Why a frame is lost in the dataplane itself. Pipes and the reassembly of fragments have their
/// own lists of causes.
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
    /// The number of the pipe or queue comes from a table (`tablearg`), and the table has no number
    /// up to 65535 for this frame.
    NoNumber,
    /// The next hop's MAC address has not been learned yet, or the port of the next hop does not
    /// exist.
    NoHop,
    /// The port map has no output port for the frame's input port.
    NoTarget,
    /// `nat` or `nptv6` could not translate the frame, or refused it.
    Translation,
    /// The transmit ring of the frame's output port is full.
    TxFull,
    /// The frame's output port cannot send.
    NoTx,
    /// The dataplane that has the pipes is overloaded.
    ShaperCongested,
    /// The frame is neither IP nor ARP, and a setting drops such frames.
    NonIp,
}

impl DataplaneLoss {
    /// All causes, in the order in which this enum declares them.
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

/// Frames that bypassed the rules and were not dropped by a bypass setting. Each of them also
/// counts as sent or lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct BypassCounters {
    /// ARP and RARP frames.
    pub arp: u64,
    /// Frames that are neither IP nor ARP.
    pub non_ip: u64,
}

/// The frames of a dataplane by what happened to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DataplaneCounters {
    /// Frames received from ports.
    pub offered: u64,
    /// Copies that were made to send a frame to several ports.
    pub copies: u64,
    /// Frames that the dataplane generated itself: replies and keepalives.
    pub made: u64,
    /// Frames that bypassed the rules.
    pub bypassed: BypassCounters,
    /// Frames sent to ports.
    pub sent: u64,
    /// Frames in pipes, and fragments that wait for the rest of their packet.
    pub waiting: u64,
    /// Frames that were passed to other dataplanes: to be shaped there, or returned after being
    /// shaped here.
    pub handed_off: u64,
    /// Frames that were received from other dataplanes. Summed over all dataplanes, this is equal
    /// to `handed_off` once no frame is in transit.
    pub foreign: u64,
    lost: [u64; DataplaneLoss::ALL.len()],
    /// The frames that were lost as [`DataplaneLoss::Malformed`], by the kind of error in them.
    malformed: MalformedCounters,
    /// The counters of the shaper.
    pub shaper: ShaperCounters,
    /// The counters of the reassembly of fragments.
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

    /// Returns the number of frames that were lost in the dataplane itself for one cause.
    #[must_use]
    pub const fn of(&self, cause: DataplaneLoss) -> u64 {
        self.lost[cause as usize]
    }

    /// Returns the number of lost frames by cause, including losses in pipes and in the reassembly
    /// of fragments.
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

    /// Returns the number of lost frames, summed over all causes.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.losses().map(|(_, count)| count).sum()
    }

    /// Returns whether the number of frames offered, copied, generated and received from other
    /// dataplanes is equal to the number of frames sent, lost, waiting and passed to other
    /// dataplanes.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        let came = self.offered + self.copies + self.made + self.foreign;
        came == self.sent + self.lost() + self.waiting + self.handed_off
    }

    /// Adds the counters of another dataplane. `self` must be the counters of the dataplane that
    /// has the pipes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanations_name_causes_as_counters_do() {
        for why in [
            DenyReason::Rule,
            DenyReason::StatesFull,
            DenyReason::StateLimit,
            DenyReason::CallDepth,
            DenyReason::CallLoop,
            DenyReason::NoNumber,
            DenyReason::Translation,
        ] {
            let name = slipring_rules::explain::deny_name(why);
            assert_eq!(name, DataplaneLoss::from(why).name());
        }
    }
}
