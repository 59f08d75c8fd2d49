//! Bit errors in frames that are still delivered.

use alloc::vec::Vec;

use slipring_model::{Chance, Draws};

use crate::bits;
use crate::carrier::{Carrier, FrameHandle};
use crate::checksums::FrameChecksums;
use crate::spec::{BitErrorSpec, CorruptSpec};

pub(crate) struct Corruptor {
    spec: CorruptSpec,
    errors: BitErrorModel,
    draws: Draws,
    /// Positions of the wrong bits in the current frame, counted from the first byte that may be
    /// hit.
    hits: Vec<u64>,
}

enum BitErrorModel {
    Ber(bits::BitErrorSampler),
    Burst { chance: Chance, bits: u64 },
}

impl Corruptor {
    pub(crate) fn new(spec: CorruptSpec, draws: Draws) -> Self {
        let errors = match spec.errors {
            BitErrorSpec::Ber(ber) => BitErrorModel::Ber(bits::BitErrorSampler::new(ber)),
            BitErrorSpec::Burst { chance, bits } => {
                BitErrorModel::Burst { chance, bits: u64::from(bits) }
            }
        };
        Self { spec, errors, draws, hits: Vec::new() }
    }

    /// Inverts bits of a frame; returns whether any bit was hit. A hit on a byte that is not stored
    /// has no effect.
    #[inline]
    pub(crate) fn damage(
        &mut self,
        (handle, len): (FrameHandle, u32),
        draw: u64,
        carrier: &mut impl Carrier,
    ) -> bool {
        let until = self.spec.until_byte.map_or(len, |until| until.min(len));
        let bits = u64::from(until.saturating_sub(self.spec.from_byte)) * 8;
        self.errors.draw(bits, self.draws, draw, &mut self.hits);
        if self.hits.is_empty() {
            return false;
        }
        let bytes = carrier.frame(handle);
        let checks = self.spec.fix_checksum.then(|| FrameChecksums::of(bytes));
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

impl BitErrorModel {
    #[inline]
    fn draw(&self, bits: u64, draws: Draws, draw: u64, hits: &mut Vec<u64>) {
        match *self {
            Self::Ber(errors) => {
                errors.each(bits, draws.at(draw), || draws.stream(draw), |at| hits.push(at));
            }
            Self::Burst { chance, bits: wrong } => {
                if draws.chance(draw, chance) && bits > 0 {
                    let wrong = bits.min(wrong);
                    let first = draws.stream(draw).below(bits - wrong + 1);
                    hits.extend(first..first + wrong);
                }
            }
        }
    }
}
