//! The options of pcapng blocks. Each has a number, a length and a value, and is padded to four
//! bytes.

use crate::endian::Endian;
use crate::error::PcapError;

/// The number of the option that ends a list of options.
pub(crate) const END: u16 = 0;
/// The number of the option for a comment. A comment is UTF-8 text and may be in any block.
pub(crate) const COMMENT: u16 = 1;
pub(crate) const IF_NAME: u16 = 2;
pub(crate) const IF_DESCRIPTION: u16 = 3;
pub(crate) const IF_TSRESOL: u16 = 9;
pub(crate) const IF_FCSLEN: u16 = 13;
pub(crate) const IF_TSOFFSET: u16 = 14;
pub(crate) const IF_HARDWARE: u16 = 15;
pub(crate) const EPB_FLAGS: u16 = 2;
pub(crate) const EPB_DROPCOUNT: u16 = 4;
pub(crate) const EPB_PACKETID: u16 = 5;
pub(crate) const EPB_QUEUE: u16 = 6;
pub(crate) const EPB_VERDICT: u16 = 7;

/// The options of a block, whose lengths were already checked. Iterates over the options as pairs
/// of number and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcapngOptions<'b> {
    pub(crate) endian: Endian,
    bytes: &'b [u8],
}

impl<'b> PcapngOptions<'b> {
    /// An empty list, as in classic pcap.
    pub(crate) const NONE: Self = Self { endian: Endian::Little, bytes: &[] };

    /// Parses the list once. Iteration can then rely on valid lengths.
    #[inline]
    pub(crate) fn check(endian: Endian, bytes: &'b [u8], offset: u64) -> Result<Self, PcapError> {
        let mut options = Self { endian, bytes };
        while let Some((code, len)) = options.head() {
            if options.advance(len).is_none() {
                let room = options.bytes.len() - 4;
                return Err(PcapError::Option { offset, code, len, room });
            }
        }
        Ok(Self { endian, bytes })
    }

    /// Returns the first value of the option `code`; `None` if there is none.
    #[must_use]
    pub fn get(mut self, code: u16) -> Option<&'b [u8]> {
        self.find_map(|(found, value)| (found == code).then_some(value))
    }

    /// Returns the value of the option `code`, which must have `N` bytes; `None` if there is no
    /// such option.
    pub(crate) fn fixed<const N: usize>(
        self,
        code: u16,
        offset: u64,
    ) -> Result<Option<[u8; N]>, PcapError> {
        let Some(value) = self.get(code) else {
            return Ok(None);
        };
        let wrong = PcapError::OptionLength { offset, code, len: value.len(), expected: N };
        value.try_into().map(Some).map_err(|_| wrong)
    }

    /// Returns the number and the length of the next option; `None` at the end of the list.
    #[inline]
    fn head(&self) -> Option<(u16, usize)> {
        let (code, len) = self.endian.halves(self.bytes)?;
        (code != END).then_some((code, usize::from(len)))
    }

    /// Moves past an option of `len` bytes, and returns its value; `None` if the list is too short.
    #[inline]
    fn advance(&mut self, len: usize) -> Option<&'b [u8]> {
        let value = self.bytes.get(4..4 + len)?;
        // If a list has no end mark, the padding of its last option may be missing.
        self.bytes = self.bytes.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        Some(value)
    }
}

impl<'b> Iterator for PcapngOptions<'b> {
    type Item = (u16, &'b [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (code, len) = self.head()?;
        let value = self.advance(len)?;
        Some((code, value))
    }
}
