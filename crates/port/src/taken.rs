//! Cards that are bound to vfio-pci for a native driver, and the TAP devices that have the names of
//! their interfaces meanwhile.
//!
//! `slipring nic bind` gives the TAP device an alias, which every program of the network namespace
//! can read and only its administrator can set:
//!
//! ```text
//!   ip link show eth1:   3: eth1: <BROADCAST,MULTICAST,UP> ... alias vfio:0000:03:00.0
//!   netmap:eth1   ->  vfio:0000:03:00.0      the wire's side
//!   netmap:eth1^  ->  tap:eth1               the host's side
//! ```
//! The owner of a network namespace can give any TAP device in it any alias. So an alias counts
//! only in the network namespace of the process itself, not in that of a client for whom a thread
//! of the daemon has entered it: otherwise the owner would be given a card of the host.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use crate::iface::Iface;
use crate::netlink::Netlink;

/// The start of an alias; a PCI address follows.
const ALIAS_PREFIX: &str = "vfio:";
/// The driver that the kernel names for a TAP device.
const TAP_DRIVER: &str = "tun";

/// Returns the alias of the TAP device that has the name of a card.
#[must_use]
pub fn alias_of(pci_address: &str) -> String {
    format!("{ALIAS_PREFIX}{pci_address}")
}

/// Returns the PCI address of the card that a TAP device stands in for; `None` for all other
/// interfaces, and for all interfaces if this thread has entered another network namespace than
/// that of its process.
#[must_use]
pub fn card_of(ifname: &str) -> Option<String> {
    // If the namespaces cannot be compared, this thread counts as one that has entered another.
    if !is_in_own_netns().unwrap_or(false) {
        return None;
    }
    let iface = Iface::find(ifname).ok().filter(|iface| iface.driver == TAP_DRIVER)?;
    let alias = Netlink::open().ok()?.alias(iface.index).ok()??;
    alias.strip_prefix(ALIAS_PREFIX).filter(|address| is_pci_address(address)).map(str::to_owned)
}

/// Whether this thread is in the network namespace of the process's first thread.
fn is_in_own_netns() -> io::Result<bool> {
    let [own, entered] = ["/proc/self/ns/net", "/proc/thread-self/ns/net"].map(fs::metadata);
    let (own, entered) = (own?, entered?);
    Ok((own.dev(), own.ino()) == (entered.dev(), entered.ino()))
}

/// Whether a text is a PCI address with its domain: `0000:03:00.0`.
fn is_pci_address(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 12
        && bytes.iter().enumerate().all(|(i, byte)| match i {
            4 | 7 => *byte == b':',
            10 => *byte == b'.',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pci_address_with_its_domain_is_one() {
        assert!(is_pci_address("0000:03:00.0") && is_pci_address("10a0:ff:1f.7"));
        for text in ["", "03:00.0", "0000:03:00.00", "0000-03:00.0", "../../../../", "0000:03:0/.0"]
        {
            assert!(!is_pci_address(text), "{text}");
        }
        assert_eq!(card_of("lo"), None);
        assert!(is_in_own_netns().unwrap());
        assert_eq!(alias_of("0000:03:00.0"), "vfio:0000:03:00.0");
    }
}
