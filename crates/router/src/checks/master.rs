//! Finds interfaces that are ports of a bridge, a bond or the like. Their frames belong to the
//! master, but XDP on the port would take them first.

use std::io;

use super::obstacle::{CheckedInterface, Obstacle, ObstacleKind};
use crate::dump::{attribute, dump, text};

/// The netlink family `NETLINK_ROUTE`.
const FAMILY: isize = 0;
const RTM_GETLINK: u16 = 18;
/// Length of `struct ifinfomsg` in bytes: family, padding, type, ifindex, flags, change.
const IFINFOMSG_LEN: usize = 16;
const IFINDEX_AT: usize = 4;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_SLAVE_KIND: u16 = 4;
/// Ports of a VRF are routed, in the tables of the VRF.
const VRF: &str = "vrf";

/// Finds interfaces of the router that have a master other than a VRF.
///
/// # Errors
/// The kernel's error.
pub(super) fn find(interfaces: &[CheckedInterface]) -> io::Result<Vec<Obstacle>> {
    let links = dump(FAMILY, RTM_GETLINK, &[0; IFINFOMSG_LEN])?;
    Ok(links.iter().filter_map(|link| obstacle(link, interfaces)).collect())
}

fn obstacle(link: &[u8], interfaces: &[CheckedInterface]) -> Option<Obstacle> {
    let ifindex = u32::from_ne_bytes(*link.get(IFINDEX_AT..)?.first_chunk()?);
    let info = attribute(link.get(IFINFOMSG_LEN..)?, IFLA_LINKINFO)?;
    let kind = text(attribute(info, IFLA_INFO_SLAVE_KIND)?);
    let name = &interfaces.iter().find(|interface| interface.ifindex == ifindex)?.name;
    (kind != VRF).then(|| Obstacle {
        kind: ObstacleKind::Bypass,
        interface: Some(name.clone()),
        what: format!("{name} is a port of a {kind}"),
        show: format!("ip -details link show dev {name}"),
    })
}
