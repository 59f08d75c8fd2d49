//! Specifications of hold, corruption, mangling and duplication.

use alloc::vec::Vec;

use slipring_model::Chance;

use super::SpecError;
use super::error::{at_least, at_most, probability, within};
use super::frame_len::MAX_FRAME_LEN;

/// Holding frames back before the queue, so that later frames overtake them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldSpec {
    /// Probability that a frame is held.
    pub chance: Chance,
    /// How long the frame is held, in ns.
    pub hold_ns: u64,
}

/// Bit errors in frames that are still delivered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CorruptSpec {
    /// How many bits are wrong, and how often.
    pub errors: BitErrorSpec,
    /// First byte that may be hit.
    pub from_byte: u32,
    /// First byte after the range that may be hit; `None` if the range extends to the end of the
    /// frame.
    pub until_byte: Option<u32>,
    /// Whether IP, TCP, UDP and ICMP checksums that were correct are kept correct, so that the
    /// damage reaches the application.
    pub fix_checksum: bool,
}

/// How many bits are wrong, and how often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BitErrorSpec {
    /// Each bit is inverted with the same probability.
    Ber(f64),
    /// With a probability per frame, inverts a run of neighbouring bits.
    Burst {
        /// Probability that a frame is hit.
        chance: Chance,
        /// Length of the run in bits.
        bits: u32,
    },
}

/// Bytes of frames to overwrite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MangleSpec {
    /// Probability that a frame is changed.
    pub chance: Chance,
    /// The first byte to change, counted from the start of the frame. Bytes after the frame's end
    /// are not written.
    pub at: u32,
    /// How the bytes are changed.
    pub edit: MangleEdit,
    /// Whether IP, TCP, UDP and ICMP checksums that were correct are kept correct.
    pub fix_checksum: bool,
}

/// How to change bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MangleEdit {
    /// Overwrites the range with these bytes.
    Set(Vec<u8>),
    /// Inverts the bits of the range that are set in these bytes.
    Invert(Vec<u8>),
    /// Overwrites this number of bytes with random values.
    Random(u32),
}

/// Duplication of frames after the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuplicateSpec {
    /// Probability that a frame is copied.
    pub chance: Chance,
    /// Number of copies.
    pub copies: u32,
    /// Time in ns from the frame to its first copy, and from each copy to the next copy.
    pub after_ns: u64,
}

impl HoldSpec {
    /// Validates the fields.
    ///
    /// # Errors
    /// [`SpecError`] if the hold time is 0 although frames can be held.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.chance == Chance::NEVER {
            return Ok(());
        }
        at_least("hold_ns", self.hold_ns, 1, "ns")
    }
}

impl CorruptSpec {
    /// Inverts each bit of a frame with the same probability.
    #[must_use]
    pub const fn ber(ber: f64) -> Self {
        let errors = BitErrorSpec::Ber(ber);
        Self { errors, from_byte: 0, until_byte: None, fix_checksum: false }
    }

    /// Validates the fields.
    ///
    /// # Errors
    /// [`SpecError`] if a probability is invalid, if the run of bits or the range of bytes is
    /// empty, or if no frame is long enough for it.
    pub fn check(&self) -> Result<(), SpecError> {
        match self.errors {
            BitErrorSpec::Ber(ber) => probability("ber", ber)?,
            BitErrorSpec::Burst { bits, .. } => {
                at_least("bits", u64::from(bits), 1, "bit")?;
                at_most(
                    "bits",
                    u64::from(bits),
                    u64::from(MAX_FRAME_LEN) * 8,
                    "all bits of the longest frame",
                )?;
            }
        }
        let last = u64::from(MAX_FRAME_LEN);
        at_most("from_byte", u64::from(self.from_byte), last - 1, "as no frame is longer")?;
        let least = u64::from(self.from_byte) + 1;
        self.until_byte.map_or(Ok(()), |until| {
            at_least("until_byte", u64::from(until), least, "bytes, beyond the first,")?;
            at_most("until_byte", u64::from(until), last, "as no frame is longer")
        })
    }
}

impl MangleSpec {
    /// Maximum number of bytes: the length of the longest frame.
    pub const MAX_BYTES: u32 = MAX_FRAME_LEN;

    /// Validates the fields.
    ///
    /// # Errors
    /// [`SpecError`] if there are no bytes to change, if there are more than [`Self::MAX_BYTES`],
    /// or if they are beyond the end of the longest frame.
    pub fn check(&self) -> Result<(), SpecError> {
        let (field, bytes) = match &self.edit {
            MangleEdit::Set(bytes) => ("bytes", bytes.len() as u64),
            MangleEdit::Invert(mask) => ("mask", mask.len() as u64),
            MangleEdit::Random(count) => ("count", u64::from(*count)),
        };
        within(field, bytes as f64, 1.0, f64::from(Self::MAX_BYTES))?;
        let last = u64::from(MAX_FRAME_LEN) - bytes;
        at_most("at", u64::from(self.at), last, "as no frame is longer")
    }
}

impl DuplicateSpec {
    /// Maximum number of copies of a frame. No real network makes as many copies, and a link that
    /// made millions would have no time for other work.
    pub const MAX_COPIES: u32 = 1000;

    /// Validates the fields.
    ///
    /// # Errors
    /// [`SpecError`] if there are no copies, or more than [`Self::MAX_COPIES`].
    pub fn check(&self) -> Result<(), SpecError> {
        within("copies", f64::from(self.copies), 1.0, f64::from(Self::MAX_COPIES))
    }
}
