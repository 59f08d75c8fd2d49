//! The MAC addresses of inside hosts, learned from outgoing frames.
//!
//! The peer of a translated packet sees one address for all hosts behind the translator, and so one
//! MAC address. There is no router between the two ports that would set the right MAC address. So
//! for each incoming packet that it translates, the firewall itself sets the MAC address of the
//! inside host.

use core::net::Ipv4Addr;

use hashbrown::HashMap;
use slipring_wire::MacAddr;

use crate::keyed::KeyedBuildHasher;

/// Maximum number of remembered hosts, because a host could claim any number of addresses.
const MAX_HOSTS: usize = 65_536;

/// Maps the inside hosts' IPv4 addresses to their MAC addresses.
#[derive(Clone, Debug)]
pub(super) struct HostMacs {
    macs: HashMap<Ipv4Addr, MacAddr, KeyedBuildHasher>,
}

impl HostMacs {
    /// Builds an empty table. `secret` keys the hash, so that no sender can claim addresses that
    /// collide.
    pub(super) fn new(secret: [u64; 2]) -> Self {
        Self { macs: HashMap::with_hasher(KeyedBuildHasher(secret)) }
    }

    /// Records the MAC address of the sender of a frame that goes out. If the table is full, no new
    /// host is recorded.
    pub(super) fn learn(&mut self, address: Ipv4Addr, mac: MacAddr) {
        let is_known = self.macs.get(&address);
        if is_known != Some(&mac) && (is_known.is_some() || self.macs.len() < MAX_HOSTS) {
            self.macs.insert(address, mac);
        }
    }

    /// Sets the destination MAC of an incoming frame to that of the host at `to`, if it is known.
    pub(super) fn set_dst_mac(&self, frame: &mut [u8], to: Ipv4Addr) {
        if let (Some(mac), Some(field)) = (self.macs.get(&to), frame.get_mut(..6)) {
            field.copy_from_slice(&mac.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_learns_no_other_host_but_new_addresses_of_those_it_has() {
        let mut hosts = HostMacs::new([1, 2]);
        let mac = |last: u32| MacAddr::from_u64(0x0200_0000_0000 + u64::from(last));
        let sent = |hosts: &HostMacs, host: u32| {
            let mut frame = [0xff; 14];
            hosts.set_dst_mac(&mut frame, Ipv4Addr::from_bits(host));
            *frame.first_chunk::<6>().unwrap()
        };
        for host in 0..=MAX_HOSTS as u32 {
            hosts.learn(Ipv4Addr::from_bits(host), mac(host));
        }
        let last = MAX_HOSTS as u32 - 1;
        assert_eq!(sent(&hosts, last), mac(last).0);
        assert_eq!(sent(&hosts, last + 1), [0xff; 6], "there is no room for it");
        hosts.learn(Ipv4Addr::from_bits(7), mac(70));
        assert_eq!(sent(&hosts, 7), mac(70).0);
    }
}
