//! Partial sums for an Internet checksum.
//!
//! Modulo 65535, a big-endian number at an even offset contributes the same to the checksum whether
//! it is added as a whole or as 16-bit words. So whole fields are added, and the sum is folded to
//! 16 bits once at the end.

/// A partial sum. It cannot overflow, because a frame has at most 2¹⁵ words of 16 bits, and a few
/// dozen fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PartialSum(u64);

impl PartialSum {
    #[inline]
    pub(super) const fn plus(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    #[inline]
    pub(super) const fn plus_u32(self, field: u32) -> Self {
        Self(self.0 + field as u64)
    }

    #[inline]
    pub(super) const fn plus_u64(self, field: u64) -> Self {
        self.plus_u32((field >> 32) as u32).plus_u32(field as u32)
    }

    #[inline]
    pub(super) const fn plus_u128(self, field: u128) -> Self {
        self.plus_u64((field >> 64) as u64).plus_u64(field as u64)
    }

    /// Returns the checksum of all fields that were added.
    #[inline]
    pub(super) const fn checksum(self) -> u16 {
        let sum = (self.0 >> 32) + (self.0 & 0xffff_ffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        !(sum as u16)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use slipring_wire::checksum;

    use super::*;

    proptest! {
        #[test]
        fn fields_sum_up_to_the_checksum_of_their_bytes(a: u32, b: u64, c: u128) {
            let mut bytes = std::vec::Vec::new();
            bytes.extend(a.to_be_bytes());
            bytes.extend(b.to_be_bytes());
            bytes.extend(c.to_be_bytes());
            let sum = PartialSum::default().plus_u32(a).plus_u64(b).plus_u128(c);
            prop_assert_eq!(sum.checksum(), checksum::of(&bytes));
        }
    }
}
