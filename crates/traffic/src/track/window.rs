//! The state of one stream: the largest sequence number so far, and which of the [`WINDOW_BITS`]
//! numbers up to it have arrived.
//!
//! ```text
//!      late | remembered: one bit for each number   | future
//!   --------|---------------------------------------|-------->
//!           ^ highest - WINDOW_BITS + 1             ^ highest
//! ```
//!
//! # Invariants
//! 1. Bit `n % WINDOW_BITS` belongs to the only number in the remembered range with this residue.
//!    It is set if and only if this number has arrived.
//! 2. The bit of every remembered number below `lowest` is clear.
//! 3. `lowest <= highest < MAX_NUMBER`.

use super::TrafficCounters;
use crate::stamp::Stamp;

/// How many sequence numbers are remembered. It must be a power of two.
pub(super) const WINDOW_BITS: u64 = 8192;
const WINDOW_WORDS: usize = (WINDOW_BITS / 64) as usize;

/// Upper limit of a stream's numbers, which continue beyond the 48 bits of a stamp. At 10⁹ frames
/// per second, it is reached after a year. Without a limit, jumps in forged stamps could make the
/// counters overflow.
const MAX_NUMBER: u64 = 1 << 55;

/// How an arriving sequence number is classified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberArrival {
    New,
    Duplicate,
    Late,
}

#[derive(Clone, Debug)]
pub(super) struct SequenceWindow {
    bits: [u64; WINDOW_WORDS],
    lowest: u64,
    highest: u64,
    new: u64,
    duplicates: u64,
    late: u64,
    reordered: u64,
    max_displacement: u64,
}

impl Default for SequenceWindow {
    fn default() -> Self {
        Self {
            bits: [0; WINDOW_WORDS],
            lowest: 0,
            highest: 0,
            new: 0,
            duplicates: 0,
            late: 0,
            reordered: 0,
            max_displacement: 0,
        }
    }
}

impl SequenceWindow {
    /// Records the arrival of a frame, and returns how its number is classified. `number` is the
    /// frame's number modulo 2⁴⁸. It stands for the number with this residue that is nearest to the
    /// largest number so far.
    #[inline]
    pub(super) fn record(&mut self, number: u64) -> NumberArrival {
        let arrival = self.classify(number);
        match arrival {
            NumberArrival::New => self.new += 1,
            NumberArrival::Duplicate => self.duplicates += 1,
            NumberArrival::Late => self.late += 1,
        }
        arrival
    }

    #[inline]
    fn classify(&mut self, number: u64) -> NumberArrival {
        if self.new == 0 {
            return self.start(number);
        }
        const UNUSED: u32 = u64::BITS - Stamp::NUMBER_BITS;
        // The two shifts extend the sign of a 48-bit difference to 64 bits.
        let ahead = (number.wrapping_sub(self.highest) << UNUSED) as i64 >> UNUSED;
        match u64::try_from(ahead) {
            Ok(ahead) if ahead > 0 => self.advance(ahead),
            _ => self.look_back(ahead.unsigned_abs()),
        }
    }

    fn start(&mut self, number: u64) -> NumberArrival {
        let number = number & ((1 << Stamp::NUMBER_BITS) - 1);
        self.lowest = number;
        self.highest = number;
        self.set(number);
        NumberArrival::New
    }

    #[inline]
    fn advance(&mut self, ahead: u64) -> NumberArrival {
        if self.highest + ahead >= MAX_NUMBER {
            return NumberArrival::Late;
        }
        if ahead > 1 {
            self.clear_bits(ahead - 1);
        }
        self.highest += ahead;
        self.set(self.highest);
        NumberArrival::New
    }

    fn look_back(&mut self, behind: u64) -> NumberArrival {
        let number = match self.highest.checked_sub(behind) {
            Some(number) if behind < WINDOW_BITS => number,
            _ => return NumberArrival::Late,
        };
        let (word, bit) = bit_position(number);
        if self.bits[word] & bit != 0 {
            return NumberArrival::Duplicate;
        }
        self.bits[word] |= bit;
        self.lowest = self.lowest.min(number);
        self.reordered += 1;
        self.max_displacement = self.max_displacement.max(behind);
        NumberArrival::New
    }

    /// Clears the bits of the `count` numbers after the largest one. Before, these bits belonged to
    /// numbers that are no longer remembered.
    #[cold]
    fn clear_bits(&mut self, count: u64) {
        if count >= WINDOW_BITS {
            self.bits = [0; WINDOW_WORDS];
            return;
        }
        let (mut number, end) = (self.highest + 1, self.highest + 1 + count);
        while number < end {
            let (word, bit) = bit_position(number);
            if bit == 1 && end - number >= 64 {
                self.bits[word] = 0;
                number += 64;
            } else {
                self.bits[word] &= !bit;
                number += 1;
            }
        }
    }

    #[inline]
    fn set(&mut self, number: u64) {
        let (word, bit) = bit_position(number);
        self.bits[word] |= bit;
    }

    pub(super) fn lowest(&self) -> u64 {
        self.lowest
    }

    pub(super) fn highest(&self) -> u64 {
        self.highest
    }

    pub(super) fn counters(&self) -> TrafficCounters {
        let expected = self.highest - self.lowest + 1;
        TrafficCounters {
            received: self.new + self.duplicates + self.late,
            new: self.new,
            duplicates: self.duplicates,
            late: self.late,
            reordered: self.reordered,
            max_displacement: self.max_displacement,
            expected,
            lost: expected - self.new,
            ..TrafficCounters::default()
        }
    }
}

#[inline]
const fn bit_position(number: u64) -> (usize, u64) {
    ((number % WINDOW_BITS / 64) as usize, 1 << (number % 64))
}
