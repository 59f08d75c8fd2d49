//! Bit errors that are delivered.

use alloc::vec::Vec;

use slipring_model::{Chance, Stream};

use crate::bits::BitErrorGaps;
use crate::carrier::{Arrival, Carrier};
use crate::checks::Checks;
use crate::spec::{BitErrors, CorruptSpec};

pub(crate) struct Corruptor {
    spec: CorruptSpec,
    errors: Errors,
    /// Wrong bits of the present frame, from the first that may be hit.
    hits: Vec<u64>,
}

enum Errors {
    Ber(BitErrorGaps),
    Burst { chance: Chance, bits: u64 },
}

impl Corruptor {
    pub(crate) fn new(spec: CorruptSpec, stream: &mut Stream) -> Self {
        let errors = match spec.errors {
            BitErrors::Ber(ber) => Errors::Ber(BitErrorGaps::new(ber, stream)),
            BitErrors::Burst { chance, bits } => Errors::Burst { chance, bits: u64::from(bits) },
        };
        Self { spec, errors, hits: Vec::new() }
    }

    /// Inverts bits of a frame and says whether there were any. Bits that are not stored are hit
    /// without effect.
    #[inline]
    pub(crate) fn damage(
        &mut self,
        frame: Arrival,
        stream: &mut Stream,
        carrier: &mut impl Carrier,
    ) -> bool {
        let until = self.spec.until_byte.map_or(frame.len, |until| until.min(frame.len));
        let bits = u64::from(until.saturating_sub(self.spec.from_byte)) * 8;
        self.errors.draw(bits, stream, &mut self.hits);
        if self.hits.is_empty() {
            return false;
        }
        let bytes = carrier.frame(frame.handle);
        let checks = self.spec.fix_checksum.then(|| Checks::of(bytes));
        for hit in self.hits.drain(..) {
            let byte = u64::from(self.spec.from_byte) + hit / 8;
            if let Some(byte) = usize::try_from(byte).ok().and_then(|at| bytes.get_mut(at)) {
                *byte ^= 0x80 >> (hit % 8);
            }
        }
        if let Some(checks) = checks {
            checks.restore(bytes);
        }
        true
    }
}

impl Errors {
    #[inline]
    fn draw(&mut self, bits: u64, stream: &mut Stream, hits: &mut Vec<u64>) {
        match self {
            Self::Ber(gaps) => {
                let mut passed = 0;
                while let Some(gap) = gaps.next_within(bits - passed, stream) {
                    hits.push(passed + gap);
                    passed += gap + 1;
                }
            }
            Self::Burst { chance, bits: wrong } => {
                if stream.chance(*chance) && bits > 0 {
                    let wrong = bits.min(*wrong);
                    let first = stream.below(bits - wrong + 1);
                    hits.extend(first..first + wrong);
                }
            }
        }
    }
}
