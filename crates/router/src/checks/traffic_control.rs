//! Queueing disciplines and filters of the router's interfaces. Packets that XDP receives and sends
//! bypass them.

use std::io;

use super::obstacle::{CheckedInterface, Obstacle, ObstacleKind};
use crate::dump::{attribute, dump, text};

/// The netlink family `NETLINK_ROUTE`.
const FAMILY: isize = 0;
const RTM_GETQDISC: u16 = 38;
const RTM_GETTFILTER: u16 = 46;
/// `struct tcmsg`: family, padding, ifindex, handle, parent, info.
const TCMSG_LEN: usize = 20;
const IFINDEX_AT: usize = 4;
const PARENT_AT: usize = 12;
const TCA_KIND: u16 = 1;
/// `TC_H_CLSACT` with the minors of its two hooks, ingress and egress.
const HOOKS: [u32; 2] = [0xffff_fff2, 0xffff_fff3];
/// Queueing disciplines that are no obstacle: the defaults of unconfigured devices, and those that
/// only hold filters (`clsact`, `ingress`).
const PLAIN: [&str; 8] =
    ["noqueue", "pfifo_fast", "fq_codel", "fq", "mq", "clsact", "ingress", "pfifo"];

/// Finds queueing disciplines that are not in [`PLAIN`], and filters at ingress and egress.
///
/// # Errors
/// The kernel's error.
pub(super) fn find(interfaces: &[CheckedInterface]) -> io::Result<Vec<Obstacle>> {
    let mut found = Vec::new();
    for message in dump(FAMILY, RTM_GETQDISC, &tcmsg(0, 0))? {
        found.extend(discipline(&message, interfaces));
    }
    for interface in interfaces {
        for hook in HOOKS {
            let filters = dump(FAMILY, RTM_GETTFILTER, &tcmsg(interface.ifindex, hook));
            // Without the disciplines clsact or ingress, there are no filters to list.
            if filters.is_ok_and(|filters| !filters.is_empty()) {
                found.push(filter(interface, hook));
            }
        }
    }
    Ok(found)
}

fn tcmsg(ifindex: u32, parent: u32) -> [u8; TCMSG_LEN] {
    let mut body = [0; TCMSG_LEN];
    body[IFINDEX_AT..IFINDEX_AT + 4].copy_from_slice(&ifindex.to_ne_bytes());
    body[PARENT_AT..PARENT_AT + 4].copy_from_slice(&parent.to_ne_bytes());
    body
}

fn discipline(message: &[u8], interfaces: &[CheckedInterface]) -> Option<Obstacle> {
    let ifindex = u32::from_ne_bytes(*message.get(IFINDEX_AT..)?.first_chunk()?);
    let kind = text(attribute(message.get(TCMSG_LEN..)?, TCA_KIND)?);
    let interface = interfaces.iter().find(|interface| interface.ifindex == ifindex)?;
    (!PLAIN.contains(&kind.as_str())).then(|| Obstacle {
        kind: ObstacleKind::Bypass,
        interface: Some(interface.name.clone()),
        what: format!("{} has the queueing discipline {kind}", interface.name),
        show: format!("tc qdisc show dev {}", interface.name),
    })
}

fn filter(interface: &CheckedInterface, hook: u32) -> Obstacle {
    let side = if hook == HOOKS[0] { "ingress" } else { "egress" };
    Obstacle {
        kind: ObstacleKind::Bypass,
        interface: Some(interface.name.clone()),
        what: format!("{} has tc filters at {side}", interface.name),
        show: format!("tc filter show dev {} {side}", interface.name),
    }
}
