//! Addresses as numbers, and prefixes of them.

use core::fmt::Debug;
use core::hash::Hash;
use core::net::IpAddr;

/// An address of IPv4 or IPv6 in host byte order.
pub(crate) trait AddressBits: Copy + Ord + Hash + Debug {
    /// Length in bits.
    const BITS: u8;
    /// The first address.
    const FIRST: Self;

    /// Returns the address with the bits after the first `len` cleared.
    fn masked(self, len: u8) -> Self;
    /// Returns the address with the bits after the first `len` set.
    fn filled(self, len: u8) -> Self;
    /// Returns the next address; `None` for the last address.
    fn next(self) -> Option<Self>;
    /// Returns the previous address; `None` for the first address.
    fn previous(self) -> Option<Self>;
    /// Converts an address of this family; `None` for the other family.
    fn of(address: IpAddr) -> Option<Self>;
    /// Converts the number to an [`IpAddr`].
    fn address(self) -> IpAddr;
}

macro_rules! address_bits {
    ($number:ty, $variant:ident, $address:ty) => {
        impl AddressBits for $number {
            const BITS: u8 = <$number>::BITS as u8;
            const FIRST: Self = 0;

            fn masked(self, len: u8) -> Self {
                self & !<$number>::MAX.checked_shr(u32::from(len)).unwrap_or(0)
            }

            fn filled(self, len: u8) -> Self {
                self | <$number>::MAX.checked_shr(u32::from(len)).unwrap_or(0)
            }

            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }

            fn previous(self) -> Option<Self> {
                self.checked_sub(1)
            }

            fn of(address: IpAddr) -> Option<Self> {
                match address {
                    IpAddr::$variant(address) => Some(address.to_bits()),
                    _ => None,
                }
            }

            fn address(self) -> IpAddr {
                IpAddr::$variant(<$address>::from_bits(self))
            }
        }
    };
}

address_bits!(u32, V4, core::net::Ipv4Addr);
address_bits!(u128, V6, core::net::Ipv6Addr);

/// The addresses that begin with the same `len` bits. Prefixes are sorted by their first address; a
/// prefix comes before those inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RoutePrefix<A> {
    pub start: A,
    pub len: u8,
}

impl<A: AddressBits> RoutePrefix<A> {
    /// All addresses.
    pub(crate) const ALL: Self = Self { start: A::FIRST, len: 0 };

    /// The prefix of `len` bits, at most [`AddressBits::BITS`], around an address.
    pub(crate) fn around(address: A, len: u8) -> Self {
        Self { start: address.masked(len), len }
    }

    pub(crate) fn last(self) -> A {
        self.start.filled(self.len)
    }

    pub(crate) fn contains(self, address: A) -> bool {
        address.masked(self.len) == self.start
    }
}
