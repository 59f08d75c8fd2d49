//! The counters of a link.

use core::ops::{Add, AddAssign, Index, Sub};

use crate::carrier::LinkDropCause;

/// A number of packets and their total length (without FCS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Number of packets.
    pub packets: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl PacketCounts {
    /// Counts one packet.
    #[inline]
    pub const fn count(&mut self, len: u32) {
        self.packets += 1;
        self.bytes += len as u64;
    }
}

impl Add for PacketCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

impl AddAssign for PacketCounts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for PacketCounts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { packets: self.packets - other.packets, bytes: self.bytes - other.bytes }
    }
}

/// Lost packets by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkDrops([PacketCounts; LinkDropCause::COUNT]);

impl LinkDrops {
    /// Counts one packet.
    #[inline]
    pub const fn count(&mut self, cause: LinkDropCause, len: u32) {
        self.0[cause as usize].count(len);
    }

    /// Adds several packets.
    pub fn add(&mut self, cause: LinkDropCause, tally: PacketCounts) {
        self.0[cause as usize] += tally;
    }

    /// The sum over all causes.
    #[must_use]
    pub fn total(&self) -> PacketCounts {
        self.0.iter().fold(PacketCounts::default(), |sum, &tally| sum + tally)
    }

    /// Iterates over every cause and its counts.
    pub fn iter(&self) -> impl Iterator<Item = (LinkDropCause, PacketCounts)> + '_ {
        LinkDropCause::ALL.into_iter().map(|cause| (cause, self[cause]))
    }
}

impl Index<LinkDropCause> for LinkDrops {
    type Output = PacketCounts;

    fn index(&self, cause: LinkDropCause) -> &PacketCounts {
        &self.0[cause as usize]
    }
}

/// The counters of a link. At any time `input + copies = output + drops + in_flight`; the in-flight
/// count comes from the queues, not from the other counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Frames that reached the link.
    pub input: PacketCounts,
    /// Copies made by the link.
    pub copies: PacketCounts,
    /// Frames that left the link.
    pub output: PacketCounts,
    /// Frames that the link lost.
    pub drops: LinkDrops,
    /// Frames inside the link: held, queued, on the line, or travelling.
    pub in_flight: PacketCounts,
    /// Frames marked "congestion experienced"; also counted under their outcome.
    pub marked: PacketCounts,
    /// Frames of which bytes were overwritten; also counted under their outcome.
    pub mangled: PacketCounts,
    /// Frames that continued with bit errors; also counted under their outcome.
    pub corrupted: PacketCounts,
    /// Frames held back before the queue.
    pub held: PacketCounts,
    /// Frames whose release was deferred so that they do not overtake others.
    pub clamped: PacketCounts,
}

impl LinkCounters {
    /// Returns whether every frame is accounted for.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.input + self.copies == self.output + self.drops.total() + self.in_flight
    }
}
