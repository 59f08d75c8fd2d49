//! The MAC addresses of inside hosts, learned from outgoing frames.
//!
//! The peer of a translated packet knows one address for all hosts behind the translator, and so
//! one MAC address. Between two ports no router corrects it, so the frame must be addressed to the
//! host that the packet is for.

use core::hash::BuildHasherDefault;
use core::net::Ipv4Addr;

use hashbrown::HashMap;
use siphasher::sip::SipHasher13;
use slipring_wire::MacAddr;

/// Maximum number of hosts, since anyone can claim addresses.
const MAX_HOSTS: usize = 65_536;

/// A map from inside address to MAC address.
#[derive(Clone, Debug, Default)]
pub(super) struct HostMacs {
    macs: HashMap<Ipv4Addr, MacAddr, BuildHasherDefault<SipHasher13>>,
}

impl HostMacs {
    /// Records the source of a frame that went out.
    pub(super) fn learn(&mut self, address: Ipv4Addr, mac: MacAddr) {
        let is_known = self.macs.get(&address);
        if is_known != Some(&mac) && (is_known.is_some() || self.macs.len() < MAX_HOSTS) {
            self.macs.insert(address, mac);
        }
    }

    /// Sets the destination MAC of an incoming frame to that of the host at `to`.
    pub(super) fn set_dst_mac(&self, frame: &mut [u8], to: Ipv4Addr) {
        if let (Some(mac), Some(field)) = (self.macs.get(&to), frame.get_mut(..6)) {
            field.copy_from_slice(&mac.0);
        }
    }
}
