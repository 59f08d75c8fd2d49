//! What is counted, per link.

use core::ops::{Add, AddAssign, Index, Sub};

use crate::carrier::Cause;

/// A number of packets and of their bytes (without FCS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Tally {
    /// Counts one packet.
    #[inline]
    pub const fn count(&mut self, len: u32) {
        self.packets += 1;
        self.bytes += len as u64;
    }
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Tally {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { packets: self.packets - other.packets, bytes: self.bytes - other.bytes }
    }
}

/// Lost packets by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops([Tally; Cause::COUNT]);

impl Drops {
    /// Counts one packet.
    #[inline]
    pub const fn count(&mut self, cause: Cause, len: u32) {
        self.0[cause as usize].count(len);
    }

    /// Counts many packets.
    pub fn add(&mut self, cause: Cause, tally: Tally) {
        self.0[cause as usize] += tally;
    }

    /// The sum over all causes.
    #[must_use]
    pub fn total(&self) -> Tally {
        self.0.iter().fold(Tally::default(), |sum, &tally| sum + tally)
    }

    /// Every cause with its tally.
    pub fn iter(&self) -> impl Iterator<Item = (Cause, Tally)> + '_ {
        Cause::ALL.into_iter().map(|cause| (cause, self[cause]))
    }
}

impl Index<Cause> for Drops {
    type Output = Tally;

    fn index(&self, cause: Cause) -> &Tally {
        &self.0[cause as usize]
    }
}

/// The account of a link. At any moment `input + copies = output + drops + in_flight`; the
/// packets in flight are those found in its queues, not the difference of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that reached the link.
    pub input: Tally,
    /// Copies that the link made.
    pub copies: Tally,
    /// Frames that left the link.
    pub output: Tally,
    /// Frames that the link lost.
    pub drops: Drops,
    /// Frames inside: held, queued, or on the line.
    pub in_flight: Tally,
    /// Frames marked with congestion experienced (also counted where they went).
    pub marked: Tally,
    /// Frames of which bytes were written over (also counted where they went).
    pub mangled: Tally,
    /// Frames with bit errors that went on (also counted where they went).
    pub corrupted: Tally,
    /// Frames held back before the queue.
    pub held: Tally,
    /// Frames whose release was put off so that they overtake none.
    pub clamped: Tally,
}

impl Counters {
    /// Whether nothing was lost uncounted.
    #[must_use]
    pub fn balance(&self) -> bool {
        self.input + self.copies == self.output + self.drops.total() + self.in_flight
    }
}
