//! Counts packets: how many were accepted, sent and dropped, and for which cause.

/// Why a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ShaperDropCause {
    /// The rule names a pipe or queue that does not exist, or a queue without a scheduler.
    NoObject,
    /// The packet was lost at random, as configured by `plr`.
    Loss,
    /// The queue was full.
    Full,
    /// Active queue management dropped the packet.
    Aqm,
    /// The profile of the link discarded the packet, at the end of its delay.
    Profile,
    /// There was no space for another dynamic queue or scheduler instance.
    NoRoom,
    /// The packet's pipe, queue or scheduler was deleted.
    Deleted,
}

impl ShaperDropCause {
    /// All causes, in the order of their values.
    pub const ALL: [Self; 7] = [
        Self::NoObject,
        Self::Loss,
        Self::Full,
        Self::Aqm,
        Self::Profile,
        Self::NoRoom,
        Self::Deleted,
    ];

    /// The name of the cause, as in metrics. Reports of the firewall have it with `pipe_` in front,
    /// and with `_` in place of `-`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoObject => "no-object",
            Self::Loss => "loss",
            Self::Full => "full",
            Self::Aqm => "aqm",
            Self::Profile => "profile",
            Self::NoRoom => "no-room",
            Self::Deleted => "deleted",
        }
    }
}

/// The numbers of lost packets, one per cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShaperDrops([u64; ShaperDropCause::ALL.len()]);

impl ShaperDrops {
    /// Number of packets lost for one cause.
    #[must_use]
    pub const fn of(&self, cause: ShaperDropCause) -> u64 {
        self.0[cause as usize]
    }

    /// Number of lost packets, summed over all causes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    #[inline]
    pub(crate) const fn add(&mut self, cause: ShaperDropCause) {
        self.0[cause as usize] += 1;
    }
}

/// Counters of the engine or of a scheduler. At any time, `received = released + drops.total() +
/// queued + delayed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShaperCounters {
    /// Packets that were submitted by rules.
    pub received: u64,
    /// Packets that were released after link and delay.
    pub released: u64,
    /// Packets whose ECN field was set to "congestion experienced".
    pub marked: u64,
    /// Packets that were lost, by cause.
    pub drops: ShaperDrops,
    /// Packets that wait in queues now.
    pub queued: u64,
    /// Packets that are on links or in the delay now.
    pub delayed: u64,
}

/// The counters that listings show for a queue or a scheduler instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowTotals {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) drops: u64,
}

impl FlowTotals {
    #[inline]
    pub(crate) fn arrived(&mut self, len: u32) {
        self.packets += 1;
        self.bytes += u64::from(len);
    }
}
