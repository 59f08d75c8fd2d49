use alloc::boxed::Box;
use alloc::vec::Vec;

use super::name::ObjectName;
use crate::table::ValueKind;

/// A set of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressPattern {
    /// Any address.
    Any,
    /// The engine's own addresses.
    Me,
    /// The engine's own IPv6 addresses.
    Me6,
    /// Any of these IPv4 addresses and networks.
    V4(Vec<V4Mask>),
    /// Hosts of one network: `1.2.3.0/24{1,5-9}`.
    Hosts(Box<HostSet>),
    /// Any of these IPv6 addresses and networks.
    V6(Vec<V6Mask>),
    /// The addresses in a table.
    Table(TableTest),
}

/// An IPv4 address and a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V4Mask {
    /// The address; bits outside the mask are 0.
    pub address: u32,
    /// The bits to compare; need not be contiguous.
    pub mask: u32,
}

/// An IPv6 address and a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V6Mask {
    /// The address; bits outside the mask are 0.
    pub address: u128,
    /// The bits to compare; need not be contiguous.
    pub mask: u128,
}

/// Some hosts of a network of at most 256 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSet {
    /// First address of the network.
    pub base: u32,
    /// Prefix length, 24..=32.
    pub len: u8,
    /// One bit for each value of the last byte of an address.
    pub last_bytes: [u64; 4],
}

impl V4Mask {
    /// Builds a mask; clears the address bits that are not in `mask`.
    #[must_use]
    pub const fn new(address: u32, mask: u32) -> Self {
        Self { address: address & mask, mask }
    }

    /// Returns whether `address` agrees with this address in the bits of the mask.
    #[inline]
    #[must_use]
    pub const fn contains(self, address: u32) -> bool {
        address & self.mask == self.address
    }

    /// Returns the prefix length; `None` if the mask is not a prefix.
    #[must_use]
    pub const fn prefix_len(self) -> Option<u32> {
        let len = self.mask.leading_ones();
        if len + self.mask.trailing_zeros() >= 32 { Some(len) } else { None }
    }
}

impl V6Mask {
    /// Builds a mask; clears the address bits that are not in `mask`.
    #[must_use]
    pub const fn new(address: u128, mask: u128) -> Self {
        Self { address: address & mask, mask }
    }

    /// Returns whether `address` agrees with this address in the bits of the mask.
    #[inline]
    #[must_use]
    pub const fn contains(self, address: u128) -> bool {
        address & self.mask == self.address
    }

    /// Returns the prefix length; `None` if the mask is not a prefix.
    #[must_use]
    pub const fn prefix_len(self) -> Option<u32> {
        let len = self.mask.leading_ones();
        if len + self.mask.trailing_zeros() >= 128 { Some(len) } else { None }
    }
}

impl HostSet {
    /// Returns whether `address` is one of the hosts.
    #[inline]
    #[must_use]
    pub const fn contains(&self, address: u32) -> bool {
        let last = address as u8;
        address & !0xff == self.base & !0xff
            && self.last_bytes[(last >> 6) as usize] >> (last & 63) & 1 == 1
    }

    /// Returns the last bytes of the first and the last address of the network.
    #[must_use]
    pub const fn bounds(&self) -> (u8, u8) {
        let first = self.base as u8;
        (first, first | (0xff_u32 >> (self.len - 24)) as u8)
    }
}

/// A table lookup that must succeed, optionally with a certain value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableTest {
    /// The table.
    pub table: ObjectName,
    /// The required value; `None` if any value is accepted.
    pub value: Option<ValueTest>,
}

/// A test of a table's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueTest {
    /// The kind of value; `None` means the first kind of value that the table has.
    pub kind: Option<ValueKind>,
    /// The required number.
    pub value: u32,
}
