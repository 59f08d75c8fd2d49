//! The header that TAP devices and AF_PACKET sockets put before a frame (`struct virtio_net_hdr`,
//! and its variant with a number of buffers). It describes which offloads the frame needs.
//!
//! ```text
//!   byte  0      1         2        4         6           8            10
//!       | flags | gso_type | hdr_len | gso_size | csum_start | csum_offset | num_buffers |
//! ```
//!
//! Fields are in host byte order, which is the default of TAP devices and packet sockets.

use super::segment::{Gso, GsoKind};
use crate::field::array;

/// The variant of the header that a port uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VnetForm {
    /// 10 bytes. This is the default of TAP devices and AF_PACKET sockets.
    Short,
    /// 12 bytes: the short form, followed by the number of buffers (mergeable receive buffers).
    Mergeable,
}

impl VnetForm {
    /// Returns the length of the header in bytes.
    #[must_use]
    pub const fn byte_len(self) -> usize {
        match self {
            Self::Short => 10,
            Self::Mergeable => 12,
        }
    }

    /// Returns the form whose header is `len` bytes long; `None` if there is none.
    #[must_use]
    pub const fn from_len(len: usize) -> Option<Self> {
        match len {
            10 => Some(Self::Short),
            12 => Some(Self::Mergeable),
            _ => None,
        }
    }
}

/// The offloads that one frame needs. By default, it needs none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VnetHeader {
    /// The bits [`Self::NEEDS_CSUM`] and [`Self::DATA_VALID`].
    pub flags: u8,
    /// One of the `GSO_` values. [`Self::GSO_ECN`] may be added to it.
    pub gso_type: u8,
    /// Length of all headers in bytes. It is only a hint.
    pub hdr_len: u16,
    /// Number of payload bytes per segment, without headers.
    pub gso_size: u16,
    /// Offset in the frame at which the checksummed bytes start.
    pub csum_start: u16,
    /// Offset of the checksum field, relative to `csum_start`.
    pub csum_offset: u16,
    /// The number of buffers of the frame. In the short form, it is 0.
    pub num_buffers: u16,
}

/// Why a virtio header was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VnetError {
    /// The given bytes are fewer than the header has.
    #[error("{have} bytes do not hold a virtio header of {need}")]
    Truncated {
        /// Number of bytes that were given.
        have: usize,
        /// Length of the requested form, in bytes.
        need: usize,
    },
    /// The frame needs a kind of segmentation that is not supported (for example UFO).
    #[error("virtio segmentation type {found} is not supported")]
    GsoType {
        /// The unsupported kind: the value of `gso_type` without the bit for ECN.
        found: u8,
    },
}

impl VnetHeader {
    /// Flag: the checksum at `csum_start + csum_offset` is incomplete.
    pub const NEEDS_CSUM: u8 = 1;
    /// Flag: the frame's checksum has been verified.
    pub const DATA_VALID: u8 = 2;
    /// Value of `gso_type`: the frame needs no segmentation.
    pub const GSO_NONE: u8 = 0;
    /// Value of `gso_type`: TCP over IPv4.
    pub const GSO_TCPV4: u8 = 1;
    /// Value of `gso_type`: IP fragmentation of UDP (UFO).
    pub const GSO_UDP: u8 = 3;
    /// Value of `gso_type`: TCP over IPv6.
    pub const GSO_TCPV6: u8 = 4;
    /// Value of `gso_type`: one UDP datagram per segment (USO).
    pub const GSO_UDP_L4: u8 = 5;
    /// Bit of `gso_type`: the flag CWR is set in the TCP header.
    pub const GSO_ECN: u8 = 0x80;

    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// [`VnetError::Truncated`] if `bytes` is shorter than a header of that form.
    #[inline]
    pub fn parse(bytes: &[u8], form: VnetForm) -> Result<Self, VnetError> {
        let truncated = VnetError::Truncated { have: bytes.len(), need: form.byte_len() };
        let raw: [u8; 10] = array(bytes, 0).ok_or(truncated)?;
        let word = |at: usize| u16::from_ne_bytes([raw[at], raw[at + 1]]);
        let num_buffers = match form {
            VnetForm::Short => 0,
            VnetForm::Mergeable => u16::from_ne_bytes(array(bytes, 10).ok_or(truncated)?),
        };
        Ok(Self {
            flags: raw[0],
            gso_type: raw[1],
            hdr_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
            num_buffers,
        })
    }

    /// Encodes the header. The first [`VnetForm::byte_len`] bytes of the result are the header in
    /// that form.
    #[inline]
    #[must_use]
    pub fn encode(&self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[0] = self.flags;
        bytes[1] = self.gso_type;
        let words =
            [self.hdr_len, self.gso_size, self.csum_start, self.csum_offset, self.num_buffers];
        let (slots, _) = bytes[2..].as_chunks_mut::<2>();
        for (slot, word) in slots.iter_mut().zip(words) {
            *slot = word.to_ne_bytes();
        }
        bytes
    }

    /// Returns whether the frame's checksum is incomplete.
    #[inline]
    #[must_use]
    pub const fn needs_checksum(&self) -> bool {
        self.flags & Self::NEEDS_CSUM != 0
    }

    /// Returns how the frame must be segmented; `None` if it needs no segmentation.
    ///
    /// # Errors
    /// [`VnetError::GsoType`] if the kind of segmentation is not supported.
    #[inline]
    pub fn gso(&self) -> Result<Option<Gso>, VnetError> {
        let kind = match self.gso_type & !Self::GSO_ECN {
            Self::GSO_NONE => return Ok(None),
            Self::GSO_TCPV4 => GsoKind::Tcp4,
            Self::GSO_TCPV6 => GsoKind::Tcp6,
            Self::GSO_UDP_L4 => GsoKind::Udp,
            found => return Err(VnetError::GsoType { found }),
        };
        Ok(Some(Gso { kind, size: self.gso_size }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_round_trip(raw: [u8; 12]) {
            let header = VnetHeader::parse(&raw, VnetForm::Mergeable).unwrap();
            prop_assert_eq!(header.encode(), raw);
            let short = VnetHeader::parse(&raw, VnetForm::Short).unwrap();
            prop_assert_eq!(&short.encode()[..10], &raw[..10]);
            prop_assert_eq!(short, VnetHeader { num_buffers: 0, ..header });
        }
    }

    #[test]
    fn short_input_is_named() {
        let parse = |len: usize, form| VnetHeader::parse(&[0; 12][..len], form);
        assert_eq!(parse(9, VnetForm::Short), Err(VnetError::Truncated { have: 9, need: 10 }));
        assert_eq!(
            parse(11, VnetForm::Mergeable),
            Err(VnetError::Truncated { have: 11, need: 12 })
        );
        assert_eq!(parse(10, VnetForm::Short), Ok(VnetHeader::default()));
    }

    #[test]
    fn forms_and_lengths_agree() {
        for form in [VnetForm::Short, VnetForm::Mergeable] {
            assert_eq!(VnetForm::from_len(form.byte_len()), Some(form));
        }
        assert_eq!(VnetForm::from_len(0), None);
    }

    #[test]
    fn only_the_flag_of_an_unfinished_checksum_says_that_one_is_needed() {
        for flags in 0..=u8::MAX {
            let header = VnetHeader { flags, ..VnetHeader::default() };
            assert_eq!(header.needs_checksum(), flags % 2 == 1, "{flags:#x}");
        }
    }

    #[test]
    fn segmentation_types_map_and_ufo_is_refused() {
        let gso = |gso_type| VnetHeader { gso_type, gso_size: 1448, ..Default::default() }.gso();
        let some = |kind| Ok(Some(Gso { kind, size: 1448 }));
        assert_eq!(gso(0), Ok(None));
        assert_eq!(gso(VnetHeader::GSO_TCPV4 | VnetHeader::GSO_ECN), some(GsoKind::Tcp4));
        assert_eq!(gso(VnetHeader::GSO_TCPV6), some(GsoKind::Tcp6));
        assert_eq!(gso(VnetHeader::GSO_UDP_L4), some(GsoKind::Udp));
        assert_eq!(gso(VnetHeader::GSO_UDP), Err(VnetError::GsoType { found: 3 }));
    }
}
