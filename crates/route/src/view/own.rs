//! The router's own addresses. Packets from outside must not have them as their source.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

use slipring_fib::FibPort;

/// Number of bits of the filter.
const FILTER_BITS: u64 = 4096;

/// A set of addresses that is searched for every packet. For nearly all packets, a filter with one
/// bit per hash value is enough to see that the address is not in the set.
#[derive(Clone, Debug)]
pub(crate) struct OwnAddresses {
    filter: Box<[u64; (FILTER_BITS / 64) as usize]>,
    /// The addresses as numbers with their VRFs, sorted. `None` means all VRFs.
    v4: Box<[(u32, Option<u16>)]>,
    v6: Box<[(u128, Option<u16>)]>,
}

impl OwnAddresses {
    /// Collects the addresses of the ports, each in the VRF of its port, and `others`, which are in
    /// all VRFs.
    pub(crate) fn new(ports: &[FibPort], others: &[IpAddr]) -> Self {
        let of_port = |port: &FibPort| {
            let vrf = Some(port.vrf.0);
            port.addresses.iter().map(move |(address, _)| (*address, vrf)).collect::<Vec<_>>()
        };
        let all = ports.iter().flat_map(of_port).chain(others.iter().map(|own| (*own, None)));
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        let mut filter = Box::new([0; (FILTER_BITS / 64) as usize]);
        for (address, vrf) in all {
            let bit = match address {
                IpAddr::V4(address) => {
                    v4.push((address.to_bits(), vrf));
                    v4_bit(address.to_bits())
                }
                IpAddr::V6(address) => {
                    v6.push((address.to_bits(), vrf));
                    v6_bit(address.to_bits())
                }
            };
            filter[(bit / 64) as usize] |= 1 << (bit % 64);
        }
        v4.sort_unstable();
        v6.sort_unstable();
        Self { filter, v4: v4.into(), v6: v6.into() }
    }

    /// Returns false only if the address is not in the set.
    #[inline(always)]
    pub(crate) fn may_have_v4(&self, address: u32) -> bool {
        self.bit(v4_bit(address))
    }

    /// Like [`Self::may_have_v4`], but for IPv6.
    #[inline(always)]
    pub(crate) fn may_have_v6(&self, address: u128) -> bool {
        self.bit(v6_bit(address))
    }

    #[inline(always)]
    fn bit(&self, bit: u64) -> bool {
        self.filter[(bit % FILTER_BITS / 64) as usize] >> (bit % 64) & 1 != 0
    }

    /// Returns whether a VRF has the address.
    pub(crate) fn has_v4(&self, address: u32, vrf: u16) -> bool {
        self.may_have_v4(address) && has(&self.v4, address, vrf)
    }

    /// Like [`Self::has_v4`], but for IPv6.
    pub(crate) fn has_v6(&self, address: u128, vrf: u16) -> bool {
        self.may_have_v6(address) && has(&self.v6, address, vrf)
    }
}

fn has<A: Ord>(all: &[(A, Option<u16>)], address: A, vrf: u16) -> bool {
    let (in_vrf, everywhere) = ((address, Some(vrf)), None);
    all.binary_search(&in_vrf).is_ok() || all.binary_search(&(in_vrf.0, everywhere)).is_ok()
}

/// An odd number with irregular bits: the upper bits of a product with it depend on all bits of the
/// other factor.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline(always)]
fn v4_bit(address: u32) -> u64 {
    u64::from(address).wrapping_mul(SPREAD) >> 52
}

#[inline(always)]
fn v6_bit(address: u128) -> u64 {
    let (high, low) = ((address >> 64) as u64, address as u64);
    (high.rotate_left(29) ^ low).wrapping_mul(SPREAD) >> 52
}
