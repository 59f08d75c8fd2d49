//! What is counted, per link.

use core::ops::{Add, AddAssign, Index, Sub};

use crate::carrier::LinkDropCause;

/// A number of packets and of their bytes (without FCS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Packets.
    pub packets: u64,
    /// Bytes.
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

    /// Counts many packets.
    pub fn add(&mut self, cause: LinkDropCause, tally: PacketCounts) {
        self.0[cause as usize] += tally;
    }

    /// The sum over all causes.
    #[must_use]
    pub fn total(&self) -> PacketCounts {
        self.0.iter().fold(PacketCounts::default(), |sum, &tally| sum + tally)
    }

    /// Every cause with its tally.
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

/// The account of a link. At any moment `input + copies = output + drops + in_flight`; the
/// packets in flight are those found in its queues, not the difference of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Frames that reached the link.
    pub input: PacketCounts,
    /// Copies that the link made.
    pub copies: PacketCounts,
    /// Frames that left the link.
    pub output: PacketCounts,
    /// Frames that the link lost.
    pub drops: LinkDrops,
    /// Frames inside: held, queued, or on the line.
    pub in_flight: PacketCounts,
    /// Frames marked with congestion experienced (also counted where they went).
    pub marked: PacketCounts,
    /// Frames of which bytes were written over (also counted where they went).
    pub mangled: PacketCounts,
    /// Frames with bit errors that went on (also counted where they went).
    pub corrupted: PacketCounts,
    /// Frames held back before the queue.
    pub held: PacketCounts,
    /// Frames whose release was put off so that they overtake none.
    pub clamped: PacketCounts,
}

impl LinkCounters {
    /// Whether nothing was lost uncounted.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.input + self.copies == self.output + self.drops.total() + self.in_flight
    }
}
