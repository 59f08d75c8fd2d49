use core::hash::BuildHasherDefault;

use hashbrown::HashMap;
use siphasher::sip::SipHasher13;

/// Maps prefixes to numbers; finds the longest that holds an address.
///
/// One hash table, asked once for each prefix length that occurs, longest first. Addresses are
/// left-aligned in 128 bits, so one structure serves IPv4, IPv6 and Ethernet.
#[derive(Clone, Debug, Default)]
pub struct Prefixes {
    entries: HashMap<(u128, u8), u32, BuildHasherDefault<SipHasher13>>,
    /// How many prefixes there are of each length that occurs, longest first.
    lengths: alloc::vec::Vec<(u8, u32)>,
}

/// The first `len` bits of `bits`.
const fn first_bits(bits: u128, len: u8) -> u128 {
    match len {
        0 => 0,
        128.. => bits,
        _ => bits & (u128::MAX << (128 - len as u32)),
    }
}

impl Prefixes {
    /// How many prefixes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What the prefix of just this length maps to.
    #[must_use]
    pub fn exact(&self, bits: u128, len: u8) -> Option<u32> {
        self.entries.get(&(first_bits(bits, len), len)).copied()
    }

    /// The longest prefix that holds `bits`: its length and what it maps to.
    #[must_use]
    pub fn longest(&self, bits: u128) -> Option<(u8, u32)> {
        self.lengths.iter().find_map(|&(len, _)| Some((len, self.exact(bits, len)?)))
    }

    /// Maps a prefix to `value`; the value that it mapped to before.
    pub fn insert(&mut self, bits: u128, len: u8, value: u32) -> Option<u32> {
        let old = self.entries.insert((first_bits(bits, len), len), value);
        if old.is_none() {
            match self.lengths.binary_search_by(|(known, _)| len.cmp(known)) {
                Ok(at) => self.lengths[at].1 += 1,
                Err(at) => self.lengths.insert(at, (len, 1)),
            }
        }
        old
    }

    /// Forgets a prefix; the value that it mapped to.
    pub fn remove(&mut self, bits: u128, len: u8) -> Option<u32> {
        let old = self.entries.remove(&(first_bits(bits, len), len))?;
        let at = self.lengths.binary_search_by(|(known, _)| len.cmp(known)).ok()?;
        self.lengths[at].1 -= 1;
        if self.lengths[at].1 == 0 {
            self.lengths.remove(at);
        }
        Some(old)
    }

    /// All prefixes with their lengths and values, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u128, u8, u32)> {
        self.entries.iter().map(|(&(bits, len), &value)| (bits, len, value))
    }
}
