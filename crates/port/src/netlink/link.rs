//! Reads a link of the kernel's list.

use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkInfo, LinkMessage};

use super::NetlinkLink;

pub(super) fn listed(message: &LinkMessage) -> NetlinkLink {
    let mut link = NetlinkLink {
        index: message.header.index,
        name: String::new(),
        up: message.header.flags.contains(LinkFlags::Up),
        mtu: 0,
        kind: String::new(),
        running: message.header.flags.contains(LinkFlags::Running),
        mac: Vec::new(),
        master: None,
        lower: None,
        alias: String::new(),
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::IfAlias(alias) => link.alias.clone_from(alias),
            LinkAttribute::Address(mac) => link.mac.clone_from(mac),
            LinkAttribute::Controller(master) => link.master = Some(*master),
            LinkAttribute::Link(lower) => link.lower = Some(*lower),
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    if let LinkInfo::Kind(kind) = info {
                        link.kind = kind.to_string();
                    }
                }
            }
            _ => {}
        }
    }
    // The index of a device in another namespace would name another device here.
    let is_elsewhere = |attribute| matches!(attribute, &LinkAttribute::LinkNetNsId(_));
    link.lower = link.lower.filter(|_| !message.attributes.iter().any(is_elsewhere));
    link
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_device_of_another_namespace_is_no_device_of_this_one() {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::Link(7));
        assert_eq!(listed(&message).lower, Some(7));
        message.attributes.insert(0, LinkAttribute::LinkNetNsId(0));
        assert_eq!(listed(&message).lower, None);
    }
}
