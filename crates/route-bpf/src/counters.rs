//! The counters of a port's program.

use crate::layout::{PassReason, counter};

/// The counters of a port, summed over all CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResidentCounters {
    /// Frames that arrived on the port and were redirected to another port, or were handed over to
    /// the engine in user space.
    pub packets: u64,
    /// The bytes of these frames, with the Ethernet header. Bytes after the packet count only in
    /// frames that were handed over.
    pub bytes: u64,
    /// Frames that arrived on a port with packet sockets and were forwarded in the kernel, without
    /// the sockets. A super-frame counts as the segments in which it leaves.
    pub direct_packets: u64,
    /// The bytes of these frames, with the headers of all segments.
    pub direct_bytes: u64,
    passed: Vec<u64>,
}

impl ResidentCounters {
    /// Sums the values of all CPUs, which are stored one after the other.
    pub(crate) fn sum(values: &[u8]) -> Self {
        let mut sums = vec![0_u64; counter::COUNT as usize];
        let (words, _) = values.as_chunks::<8>();
        for (at, word) in words.iter().enumerate() {
            let sum = &mut sums[at % counter::COUNT as usize];
            *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
        }
        let passed = sums.split_off(counter::REASONS as usize);
        let [packets, bytes, direct_packets, direct_bytes] =
            [counter::PACKETS, counter::BYTES, counter::DIRECT_PACKETS, counter::DIRECT_BYTES]
                .map(|at| sums[at as usize]);
        Self { packets, bytes, direct_packets, direct_bytes, passed }
    }

    /// Returns how many frames the program left to the kernel, or dropped, for this reason.
    #[must_use]
    pub fn passed(&self, reason: PassReason) -> u64 {
        self.passed[reason as usize]
    }

    /// Returns the reasons for which frames were left to the kernel or dropped, each with its
    /// count.
    pub fn reasons(&self) -> impl Iterator<Item = (PassReason, u64)> {
        PassReason::ALL.iter().copied().zip(self.passed.iter().copied()).filter(|one| one.1 > 0)
    }

    /// All frames that the program has counted. A super-frame in `direct_packets` counts as its
    /// segments.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.packets + self.direct_packets + self.passed.iter().sum::<u64>()
    }
}
