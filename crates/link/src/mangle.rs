//! Bytes that are overwritten on purpose.

use slipring_model::Draws;

use crate::carrier::{Carrier, FrameHandle};
use crate::checksums::FrameChecksums;
use crate::spec::{MangleEdit, MangleSpec};

pub(crate) struct Mangler {
    spec: MangleSpec,
    draws: Draws,
}

impl Mangler {
    pub(crate) const fn new(spec: MangleSpec, draws: Draws) -> Self {
        Self { spec, draws }
    }

    /// Overwrites bytes of a frame, with the probability of the specification. Returns whether any
    /// stored byte was overwritten.
    pub(crate) fn mangle(
        &self,
        handle: FrameHandle,
        draw: u64,
        carrier: &mut impl Carrier,
    ) -> bool {
        let MangleSpec { chance, at, edit, fix_checksum } = &self.spec;
        if !self.draws.chance(draw, *chance) {
            return false;
        }
        let bytes = carrier.frame(handle);
        if *at as usize >= bytes.len() {
            return false;
        }
        let checks = fix_checksum.then(|| FrameChecksums::of(bytes));
        let room = &mut bytes[*at as usize..];
        match edit {
            MangleEdit::Set(new) => room.iter_mut().zip(new).for_each(|(byte, new)| *byte = *new),
            MangleEdit::Invert(mask) => {
                room.iter_mut().zip(mask).for_each(|(byte, bits)| *byte ^= bits)
            }
            MangleEdit::Random(count) => {
                let mut stream = self.draws.stream(draw);
                let random = room.iter_mut().take(*count as usize);
                random.for_each(|byte| *byte = stream.next_u64() as u8);
            }
        }
        if let Some(checks) = checks {
            checks.restore(bytes);
        }
        true
    }
}
