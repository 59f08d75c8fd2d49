//! Stateless one-to-one translation of IPv6 prefixes (RFC 6296): `nptv6`.
//!
//! A translation adjusts one 16-bit word outside the prefix, so that the one's complement sum of
//! the address's words stays the same. Therefore no upper-layer checksum changes, and the
//! translation is reversible.
//!
//! Not for IPv4, for translating ports, or for sharing one address between hosts.

use core::net::Ipv6Addr;

/// An internal and an external prefix of the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nptv6Prefixes {
    internal: [u16; 8],
    external: [u16; 8],
    len: u8,
}

/// The prefix length, in bits, is not in the allowed range. Contains the invalid length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a prefix of {0} bits: nptv6 translates prefixes of 8 to 64")]
pub struct PrefixLengthError(pub u8);

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nptv6Outcome {
    /// The packet's source was internal and is external now.
    Out,
    /// The packet's destination was external and is internal now.
    In,
    /// The packet passes unchanged: neither source nor destination matches, or both are internal.
    Untouched,
    /// The packet must be dropped: one of its addresses has no word that can be adjusted, or the
    /// packet is too short.
    Dropped,
}

/// Counters of an `nptv6` instance, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nptv6Counters {
    /// Packets translated on the way out.
    pub out: u64,
    /// Packets translated on the way in.
    pub inwards: u64,
    /// Packets that must be dropped: no word of an address can be adjusted, or the packet is too
    /// short.
    pub dropped: u64,
}

impl Nptv6Counters {
    /// Counts the outcome of one packet.
    pub const fn count(&mut self, outcome: Nptv6Outcome) {
        match outcome {
            Nptv6Outcome::Out => self.out += 1,
            Nptv6Outcome::In => self.inwards += 1,
            Nptv6Outcome::Dropped => self.dropped += 1,
            Nptv6Outcome::Untouched => {}
        }
    }

    /// Adds the counters of another `nptv6` instance with the same prefixes.
    pub const fn add(&mut self, other: &Self) {
        self.out += other.out;
        self.inwards += other.inwards;
        self.dropped += other.dropped;
    }
}

const SRC_OFFSET: usize = 8;
const DST_OFFSET: usize = 24;
const HEADER_LEN: usize = 40;
/// Index of the subnet word of an address. With prefixes of up to 48 bits, this word is adjusted
/// (RFC 6296, 3.4).
const SUBNET_WORD: usize = 3;

impl Nptv6Prefixes {
    /// Allowed prefix lengths.
    pub const LENGTHS: core::ops::RangeInclusive<u8> = 8..=64;

    /// Creates a pair from the first `len` bits of two addresses.
    ///
    /// # Errors
    /// [`PrefixLengthError`] if `len` is not from 8 to 64.
    pub fn new(internal: Ipv6Addr, external: Ipv6Addr, len: u8) -> Result<Self, PrefixLengthError> {
        if !Self::LENGTHS.contains(&len) {
            return Err(PrefixLengthError(len));
        }
        let mask = u128::MAX << (128 - u32::from(len));
        let cut = |address: Ipv6Addr| Ipv6Addr::from_bits(address.to_bits() & mask).segments();
        Ok(Self { internal: cut(internal), external: cut(external), len })
    }

    /// The internal prefix.
    #[must_use]
    pub const fn internal(&self) -> Ipv6Addr {
        address(self.internal)
    }

    /// The external prefix.
    #[must_use]
    pub const fn external(&self) -> Ipv6Addr {
        address(self.external)
    }

    /// The length of both prefixes, in bits.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a length in bits, never 0")]
    pub const fn len(&self) -> u8 {
        self.len
    }

    /// Translates an IPv6 packet that starts with its header. `icmp_at` is the offset in bytes of
    /// its ICMPv6 message, or `None` if it has none. If the message is an error, the quoted packet
    /// is translated as well.
    pub fn translate(&self, packet: &mut [u8], icmp_at: Option<usize>) -> Nptv6Outcome {
        let ends = words(packet, SRC_OFFSET).zip(words(packet, DST_OFFSET));
        let Some((src, dst)) = ends else { return Nptv6Outcome::Dropped };
        let (from, to, side, quoted_side, outcome) = if self.matches(&self.internal, src) {
            if self.matches(&self.internal, dst) {
                return Nptv6Outcome::Untouched;
            }
            (&self.internal, &self.external, SRC_OFFSET, DST_OFFSET, Nptv6Outcome::Out)
        } else if self.matches(&self.external, dst) {
            (&self.external, &self.internal, DST_OFFSET, SRC_OFFSET, Nptv6Outcome::In)
        } else {
            return Nptv6Outcome::Untouched;
        };
        if self.change(packet, side, (from, to)).is_none() {
            return Nptv6Outcome::Dropped;
        }
        if let Some(at) = quoted(packet, icmp_at)
            && words(packet, at + quoted_side).is_some_and(|it| self.matches(from, it))
        {
            self.change(packet, at + quoted_side, (from, to));
        }
        outcome
    }

    fn matches(&self, prefix: &[u16; 8], words: [u16; 8]) -> bool {
        let both = address(*prefix).to_bits() ^ address(words).to_bits();
        both.leading_zeros() >= u32::from(self.len)
    }

    /// Replaces the prefix of the address at offset `at`; `None` if no word of the address can be
    /// adjusted.
    fn change(
        &self,
        packet: &mut [u8],
        at: usize,
        (from, to): (&[u16; 8], &[u16; 8]),
    ) -> Option<()> {
        let old = words(packet, at)?;
        let mask = u128::MAX >> self.len;
        let host = address(old).to_bits() & mask;
        let mut new = Ipv6Addr::from_bits(host | address(*to).to_bits()).segments();
        let word = if self.len <= 48 {
            Some(SUBNET_WORD).filter(|&word| old[word] != 0xffff)?
        } else {
            (4..8).find(|&word| old[word] != 0xffff)?
        };
        let sum = add(new[word], add(sum(from), !sum(to)));
        new[word] = if sum == 0xffff { 0 } else { sum };
        packet.get_mut(at..at + 16)?.copy_from_slice(&address(new).octets());
        Some(())
    }
}

/// Returns the offset of the packet that an ICMPv6 error quotes; `None` if there is no error, or
/// the quoted header is incomplete.
fn quoted(packet: &[u8], icmp_at: Option<usize>) -> Option<usize> {
    let at = icmp_at?;
    let is_error = packet.get(at)? < &128;
    let holds = packet.len() >= at + 8 + HEADER_LEN && packet[at + 8] >> 4 == 6;
    (is_error && holds).then_some(at + 8)
}

fn words(packet: &[u8], at: usize) -> Option<[u16; 8]> {
    let bytes = packet.get(at..)?.first_chunk::<16>()?;
    Some(Ipv6Addr::from(*bytes).segments())
}

const fn address(words: [u16; 8]) -> Ipv6Addr {
    let [a, b, c, d, e, f, g, h] = words;
    Ipv6Addr::new(a, b, c, d, e, f, g, h)
}

/// The one's complement sum of two words.
fn add(one: u16, other: u16) -> u16 {
    let (sum, carry) = one.overflowing_add(other);
    sum + u16::from(carry)
}

fn sum(words: &[u16; 8]) -> u16 {
    words.iter().copied().fold(0, add)
}

#[cfg(test)]
mod tests;
