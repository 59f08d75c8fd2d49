//! The alias by which the TAP device of a taken card is found, whatever its name.

use slipring_port::netlink::NetlinkLink;
use slipring_port::taken;

use crate::pci_address::PciAddress;

/// Returns the TAP devices with the alias of a card. There is more than one if the state of an
/// earlier bind was deleted by hand.
pub(crate) fn taps_of<'a>(
    links: &'a [NetlinkLink],
    bdf: &str,
) -> impl Iterator<Item = &'a NetlinkLink> + Clone {
    let alias = taken::alias_of(bdf);
    links.iter().filter(move |link| link.kind == "tun" && link.alias == alias)
}

/// Returns the PCI address of the card whose alias the TAP device of this name has.
pub(crate) fn card_of(links: &[NetlinkLink], name: &str) -> Option<String> {
    let tap = links.iter().find(|link| link.kind == "tun" && link.name == name)?;
    let address = PciAddress::parse(tap.alias.strip_prefix("vfio:")?)?.to_string();
    (taken::alias_of(&address) == tap.alias).then_some(address)
}
