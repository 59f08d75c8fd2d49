//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).
//!
//! [`Sum`] adds slices of any length and alignment. It keeps track of odd positions, so that
//! header, payload and pseudo header can be added one after another. Internally it adds 64-bit
//! words in host byte order. This works because the one's complement sum commutes with a byte swap,
//! which is done once at the end.
//!
//! Not for: CRCs (Ethernet, SCTP).

use core::net::{Ipv4Addr, Ipv6Addr};

use slipring_simd::Simd;

use crate::assigned::IpProto;

/// A one's complement sum in progress.
///
/// ```
/// use slipring_wire::checksum::{self, Sum};
/// let (head, tail) = (&[0x45, 0x00, 0x01][..], &[0x02, 0x03][..]);
/// assert_eq!(
///     Sum::new().bytes(head).bytes(tail).checksum(),
///     checksum::of(&[0x45, 0x00, 0x01, 0x02, 0x03]),
/// );
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// A number that is congruent, modulo 0xffff, to the sum of all 16-bit words read in host
    /// order.
    words: u64,
    /// Whether the number of bytes that were added so far is odd.
    odd: bool,
}

impl Sum {
    /// The empty sum.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self { words: 0, odd: false }
    }

    /// Starts a sum with the IPv4 pseudo header. `len` is the number of bytes of transport header
    /// and payload.
    #[inline]
    #[must_use]
    pub fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, proto: IpProto, len: u32) -> Self {
        Self::new().u32(src.to_bits()).u32(dst.to_bits()).proto_and_len(proto, len)
    }

    /// Starts a sum with the IPv6 pseudo header. `len` is the number of bytes of transport header
    /// and payload.
    #[inline]
    #[must_use]
    pub fn pseudo_v6(src: Ipv6Addr, dst: Ipv6Addr, proto: IpProto, len: u32) -> Self {
        Self::new().bytes(&src.octets()).bytes(&dst.octets()).proto_and_len(proto, len)
    }

    /// Starts a sum with a pseudo header. `addresses` are the two addresses as they are in the IP
    /// header.
    #[inline]
    pub(crate) fn pseudo<const N: usize>(addresses: [u8; N], proto: IpProto, len: u32) -> Self {
        let mut sum = Self::new();
        let (words, _) = addresses.as_chunks::<4>();
        for word in words {
            sum = sum.native(u64::from(u32::from_ne_bytes(*word)));
        }
        sum.proto_and_len(proto, len)
    }

    #[inline]
    fn proto_and_len(self, proto: IpProto, len: u32) -> Self {
        self.u16(u16::from(proto.0)).u32(len)
    }

    /// Adds the next bytes of the message.
    #[inline]
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let part = fold(sum_words(bytes));
        // If the number of bytes so far is odd, each byte belongs to the other half of its word.
        let part = if self.odd { part.swap_bytes() } else { part };
        let mut next = self.native(u64::from(part));
        next.odd ^= bytes.len() % 2 == 1;
        next
    }

    /// Adds a 16-bit field.
    #[inline]
    #[must_use]
    pub fn u16(self, value: u16) -> Self {
        let word = value.to_be();
        self.native(u64::from(if self.odd { word.swap_bytes() } else { word }))
    }

    /// Adds a 32-bit field.
    #[inline]
    #[must_use]
    pub fn u32(self, value: u32) -> Self {
        self.u16((value >> 16) as u16).u16(value as u16)
    }

    #[inline]
    fn native(mut self, words: u64) -> Self {
        self.words = add(self.words, words);
        self
    }

    /// Returns the sum folded to 16 bits, but *not* complemented. Linux leaves this value of the
    /// pseudo header in the checksum field of a frame whose checksum is incomplete.
    #[inline]
    #[must_use]
    pub fn folded(self) -> u16 {
        u16::from_be(fold(self.words))
    }

    /// Returns the checksum to store in a header. UDP must store 0xffff instead of 0: see
    /// [`nonzero`].
    #[inline]
    #[must_use]
    pub fn checksum(self) -> u16 {
        !self.folded()
    }
}

/// Returns the checksum of one slice. If the slice contains its own valid checksum, this is 0.
#[inline]
#[must_use]
pub fn of(bytes: &[u8]) -> u16 {
    Sum::new().bytes(bytes).checksum()
}

/// Replaces 0 by 0xffff, which is the same number in one's complement arithmetic. UDP requires
/// this, because a 0 in its header means "no checksum".
#[inline]
#[must_use]
pub const fn nonzero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

/// How changes of fields affect a checksum (RFC 1624, equation 3).
///
/// ```
/// use slipring_wire::checksum::{self, Delta};
/// let mut header = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
/// let before = checksum::of(&header);
/// header[8] = 63;
/// assert_eq!(Delta::new().u16(0x4011, 0x3f11).apply(before), checksum::of(&header));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Delta(Sum);

impl Delta {
    /// Starts without a change.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self(Sum::new())
    }

    /// Adds the change of a 16-bit field. Its offset within the bytes that the checksum covers must
    /// be even.
    #[inline]
    #[must_use]
    pub fn u16(self, old: u16, new: u16) -> Self {
        Self(self.0.u16(!old).u16(new))
    }

    /// Adds the change of a 32-bit field. Its offset within the bytes that the checksum covers must
    /// be even.
    #[inline]
    #[must_use]
    pub fn u32(self, old: u32, new: u32) -> Self {
        Self(self.0.u32(!old).u32(new))
    }

    /// Adds the change of several bytes. Their offset within the bytes that the checksum covers
    /// must be even.
    #[inline]
    #[must_use]
    pub fn bytes(self, old: &[u8], new: &[u8]) -> Self {
        let removed = Sum::new().bytes(old).checksum();
        let added = Sum::new().bytes(new).folded();
        Self(self.0.u16(removed).u16(added))
    }

    /// Returns the checksum after the changes. For every message that is not all zeros, it is
    /// identical to a checksum computed from all its bytes.
    #[inline]
    #[must_use]
    pub fn apply(self, checksum: u16) -> u16 {
        self.0.u16(!checksum).checksum()
    }
}

/// Returns `a + b` with end-around carry.
#[inline]
fn add(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u64::from(carry)
}

/// Minimum number of bytes for which vector instructions are faster than a few additions with
/// carry.
const MIN_VECTOR_BYTES: usize = 256;

/// Returns the sum of all 16-bit words, read in host order. If the last word has only one byte, a
/// zero byte is appended to it.
#[inline]
fn sum_words(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<32>();
    let sum = if bytes.len() < MIN_VECTOR_BYTES {
        sum_blocks(blocks)
    } else {
        Simd::detect().sum_words(blocks)
    };
    add(sum, sum_tail(rest))
}

/// Like [`sum_words`], but for whole blocks. It uses four independent chains of additions, because
/// a single chain would wait for its own carry at each step.
#[inline]
fn sum_blocks(blocks: &[[u8; 32]]) -> u64 {
    let mut lanes = [0u64; 4];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = add(*lane, u64::from_ne_bytes(*word));
        }
    }
    add(add(lanes[0], lanes[1]), add(lanes[2], lanes[3]))
}

/// Like [`sum_words`], but for fewer than 32 bytes.
#[inline]
fn sum_tail(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(0, |sum, word| add(sum, u64::from_ne_bytes(*word)));
    add(sum, sum_end(rest))
}

/// Like [`sum_words`], but for fewer than 8 bytes. These have at most one word of each smaller
/// size, so there is no carry.
#[inline]
fn sum_end(mut bytes: &[u8]) -> u64 {
    let mut sum = 0;
    if let Some((word, rest)) = bytes.split_first_chunk::<4>() {
        sum += u64::from(u32::from_ne_bytes(*word));
        bytes = rest;
    }
    if let Some((word, rest)) = bytes.split_first_chunk::<2>() {
        sum += u64::from(u16::from_ne_bytes(*word));
        bytes = rest;
    }
    if let [last] = bytes {
        sum += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    sum
}

/// Folds a sum to 16 bits with end-around carry. The result is 0 only if every word that was added
/// was 0.
#[inline]
fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
}

#[cfg(test)]
mod tests;
