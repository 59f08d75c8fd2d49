//! What else happens to frames: held back, damaged, doubled.

use alloc::vec::Vec;

use slipring_model::Chance;

use super::SpecError;
use super::error::{at_least, at_most, probability, within};
use super::frame_len::MAX_FRAME_LEN;

/// Frames held back before the queue, so that later ones overtake them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldSpec {
    /// How likely a frame is held.
    pub chance: Chance,
    /// For how long.
    pub hold_ns: u64,
}

/// Bit errors that are delivered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CorruptSpec {
    /// How many bits, and how often.
    pub errors: BitErrorSpec,
    /// First byte that may be hit.
    pub from_byte: u32,
    /// First byte behind that may not; `None`: up to the end.
    pub until_byte: Option<u32>,
    /// Whether IP, TCP, UDP and ICMP checksums that were right are made right again, so that the
    /// damage reaches the application.
    pub fix_checksum: bool,
}

/// How many bits are wrong, and how often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BitErrorSpec {
    /// Each bit with the same chance.
    Ber(f64),
    /// So many neighbouring bits of a frame, with a chance per frame; all of them are inverted.
    Burst {
        /// How likely a frame is hit.
        chance: Chance,
        /// How many bits.
        bits: u32,
    },
}

/// Bytes of frames that are written over on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MangleSpec {
    /// How likely a frame is met.
    pub chance: Chance,
    /// The first byte, from the start of the frame. What lies behind its end is not written.
    pub at: u32,
    /// What becomes of the bytes from there on.
    pub edit: MangleEdit,
    /// Whether IP, TCP, UDP and ICMP checksums that were right are made right again.
    pub fix_checksum: bool,
}

/// What becomes of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MangleEdit {
    /// They are these.
    Set(Vec<u8>),
    /// The bits that are set here are inverted.
    Invert(Vec<u8>),
    /// So many are random.
    Random(u32),
}

/// Copies of frames, made after the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuplicateSpec {
    /// How likely a frame is copied.
    pub chance: Chance,
    /// How many copies.
    pub copies: u32,
    /// How much later than the one before each is sent on.
    pub after_ns: u64,
}

impl HoldSpec {
    /// Judges the fields.
    ///
    /// # Errors
    /// Frames that are held for no time.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.chance == Chance::NEVER {
            return Ok(());
        }
        at_least("hold_ns", self.hold_ns, 1, "ns")
    }
}

impl CorruptSpec {
    /// Each bit with the same chance, wherever it is.
    #[must_use]
    pub const fn ber(ber: f64) -> Self {
        let errors = BitErrorSpec::Ber(ber);
        Self { errors, from_byte: 0, until_byte: None, fix_checksum: false }
    }

    /// Judges the fields.
    ///
    /// # Errors
    /// No chance, no bits or no bytes, or such as no frame has.
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
    /// Bytes at most: those of the longest frame.
    pub const MAX_BYTES: u32 = MAX_FRAME_LEN;

    /// Judges the fields.
    ///
    /// # Errors
    /// No bytes, more than [`Self::MOST_BYTES`], or such as no frame has.
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
    /// Copies of a frame at most. No network makes as many, and a link that is to make millions
    /// would do nothing else.
    pub const MAX_COPIES: u32 = 1000;

    /// Judges the fields.
    ///
    /// # Errors
    /// No copies, or more than [`Self::MOST_COPIES`].
    pub fn check(&self) -> Result<(), SpecError> {
        within("copies", f64::from(self.copies), 1.0, f64::from(Self::MAX_COPIES))
    }
}
