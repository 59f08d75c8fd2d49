//! Compiles masks that are not prefixes into conditions on single bytes of an address.
//!
//! The pattern `10.0.0.1:255.0.0.1` is not a small set of address ranges, but a prefix, 10.0.0.0/8,
//! and a set of values of the last byte, the odd ones. So a mask of this kind becomes a prefix and
//! conditions on some bytes; each byte is a field of 256 values.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use slipring_classify::ranges::{FieldPoint, RangeSet};

use super::super::config::IpfwConfig;
use super::field::{FAMILY_PLAIN, FAMILY_V6, MatchField};
use crate::rule::{AddressPattern, Condition, ConditionPattern};

/// Maximum number of address bytes used as fields, limited so that all fields fit into a matcher.
const MAX_BYTES: usize = 8;

const _: () = assert!(MAX_BYTES + MatchField::ALL.len() <= slipring_classify::matcher::MAX_FIELDS);

/// The address bytes used as fields: those that the masks of the largest number of rules test.
#[derive(Debug, Default)]
pub(super) struct ByteFields(Vec<MatchField>);

/// One address and mask.
struct MaskedAddress {
    family: u8,
    /// The field of the whole address; `byte` is the field of one of its bytes.
    whole: MatchField,
    byte: fn(u8) -> MatchField,
    address: u128,
    mask: u128,
    bits: u32,
}

impl ByteFields {
    pub(super) fn of(config: &IpfwConfig) -> Self {
        let mut rules = BTreeMap::new();
        for entry in &config.list.entries {
            for masked in entry.rule.body.clauses().filter_map(MaskedAddress::of) {
                masked.bytes().for_each(|field| *rules.entry(field).or_insert(0) += 1);
            }
        }
        let mut fields: Vec<(MatchField, usize)> = rules.into_iter().collect();
        fields.sort_by_key(|(_, rules)| core::cmp::Reverse(*rules));
        Self(fields.into_iter().map(|(field, _)| field).take(MAX_BYTES).collect())
    }

    /// Iterates over the fields.
    pub(super) fn iter(&self) -> impl Iterator<Item = MatchField> {
        self.0.iter().copied()
    }

    /// Returns what a clause with one address and mask requires of the address and of its bytes;
    /// `None` if the clause has another form, or if one of its bytes is not a field.
    pub(super) fn wanted(
        &self,
        clause: &[ConditionPattern],
    ) -> Option<Vec<(MatchField, RangeSet)>> {
        let masked = MaskedAddress::of(clause)?;
        let fields = masked.bytes().all(|field| self.0.contains(&field));
        fields.then(|| masked.wants().collect())
    }
}

impl MaskedAddress {
    fn of(clause: &[ConditionPattern]) -> Option<Self> {
        let [ConditionPattern { not: false, condition }] = clause else { return None };
        let (whole, byte, addresses): (_, fn(u8) -> MatchField, _) = match condition {
            Condition::Src(addresses) => (MatchField::Src, MatchField::SrcByte, addresses),
            Condition::Dst(addresses) => (MatchField::Dst, MatchField::DstByte, addresses),
            _ => return None,
        };
        let (family, address, mask, bits) = match addresses {
            AddressPattern::V4(list) => match list.as_slice() {
                [one] if one.prefix_len().is_none() => {
                    (FAMILY_PLAIN, one.address.into(), one.mask.into(), 32)
                }
                _ => return None,
            },
            AddressPattern::V6(list) => match list.as_slice() {
                [one] if one.prefix_len().is_none() => (FAMILY_V6, one.address, one.mask, 128),
                _ => return None,
            },
            _ => return None,
        };
        Some(Self { family, whole, byte, address, mask, bits })
    }

    /// Returns the bits after the leading ones of the mask.
    fn behind_prefix(&self) -> u128 {
        let len = (self.mask << (128 - self.bits)).leading_ones();
        u128::MAX >> (128 - self.bits + len)
    }

    /// Returns the bytes that the mask tests after its prefix, from the last one.
    fn bytes(&self) -> impl Iterator<Item = MatchField> {
        let (left, byte) = (self.mask & self.behind_prefix(), self.byte);
        (0..16).filter(move |at| left >> (8 * at) & 0xff != 0).map(byte)
    }

    fn wants(&self) -> impl Iterator<Item = (MatchField, RangeSet)> {
        let behind = self.behind_prefix();
        let first = self.address & !behind;
        let prefix = RangeSet::of(self.family, first, first | behind);
        let bytes = self.bytes().map(|field| {
            let at = field.byte().unwrap_or(0);
            let (wanted, mask) = ((self.address >> (8 * at)) as u8, (self.mask >> (8 * at)) as u8);
            let point = |value: u8| FieldPoint::new(FAMILY_PLAIN, value.into());
            let values = (0..=u8::MAX).filter(|value| value & mask == wanted);
            (field, values.map(|value| (point(value), point(value))).collect())
        });
        core::iter::once((self.whole, prefix)).chain(bytes)
    }
}
