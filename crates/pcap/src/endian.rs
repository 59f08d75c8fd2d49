//! The byte order of a file, and reads in that order with bounds checks.

/// The byte order of the machine that wrote the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endian {
    Little,
    Big,
}

impl Endian {
    #[inline]
    pub(crate) fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    #[inline]
    pub(crate) fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    #[inline]
    pub(crate) fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }

    /// Reads the `N` 32-bit words at the start of `bytes`; `None` if `bytes` is too short.
    #[inline]
    pub(crate) fn words<const N: usize>(self, bytes: &[u8]) -> Option<[u32; N]> {
        let (words, _) = bytes.as_chunks::<4>();
        let words = words.first_chunk::<N>()?;
        Some(words.map(|word| self.u32(word)))
    }

    /// Reads the two 16-bit values at the start of `bytes`; `None` if `bytes` is too short.
    #[inline]
    pub(crate) fn halves(self, bytes: &[u8]) -> Option<(u16, u16)> {
        let [a, b, c, d] = *bytes.first_chunk::<4>()?;
        Some((self.u16([a, b]), self.u16([c, d])))
    }
}
