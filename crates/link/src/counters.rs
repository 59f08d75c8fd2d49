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
    /// Counts one packet of `len` bytes that was lost by `cause`.
    #[inline]
    pub const fn count(&mut self, cause: LinkDropCause, len: u32) {
        self.0[cause as usize].count(len);
    }

    /// Adds several packets that were lost by `cause`.
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

/// The counters of a link. At any time `input + copies = output + drops + in_flight`. The in-flight
/// packets are the sum of the lengths of the link's queues; the in-flight bytes are computed from
/// the other counters.
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
    /// Frames marked "congestion experienced"; also counted as output, drop or in flight.
    pub marked: PacketCounts,
    /// Frames with overwritten bytes; also counted as output, drop or in flight.
    pub mangled: PacketCounts,
    /// Frames that continued with bit errors; also counted as output, drop or in flight.
    pub corrupted: PacketCounts,
    /// Frames that the link held back before its queue.
    pub held: PacketCounts,
    /// Frames that leave later than their delay requires, so that they do not overtake others.
    pub clamped: PacketCounts,
}

impl LinkCounters {
    /// Returns whether every frame is accounted for.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.input + self.copies == self.output + self.drops.total() + self.in_flight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn counts(packets: u64, bytes: u64) -> PacketCounts {
        PacketCounts { packets, bytes }
    }

    #[test]
    fn a_difference_is_what_the_sum_has_more() {
        let (first, second) = (counts(7, 900), counts(3, 250));
        assert_eq!(first - second, counts(4, 650));
        assert_eq!(first - second + second, first);
    }

    #[test]
    fn a_link_is_balanced_only_if_no_frame_and_no_byte_is_missing() {
        let mut drops = LinkDrops::default();
        drops.add(LinkDropCause::Aqm, counts(2, 20));
        let balanced = LinkCounters {
            input: counts(9, 90),
            copies: counts(1, 10),
            output: counts(5, 50),
            drops,
            in_flight: counts(3, 30),
            ..LinkCounters::default()
        };
        assert!(balanced.is_balanced());
        for (packets, bytes) in [(8, 90), (9, 89), (10, 90), (9, 91)] {
            let input = counts(packets, bytes);
            assert!(!LinkCounters { input, ..balanced }.is_balanced(), "{input:?}");
        }
    }
}
