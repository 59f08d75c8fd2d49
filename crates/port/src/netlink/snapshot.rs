//! Saves the addresses and routes of a link, and restores them on a link that replaces it.
//!
//! They are stored as the kernel's own messages, so all settings of `ip address` and `ip route` are
//! restored. Only the index of the link changes, and attributes that the kernel reports but does
//! not accept are left out.

use std::io;

use netlink_packet_core::{Emitable, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, Parseable};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::link::{LinkAttribute, LinkFlags};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteNextHopFlags,
    RouteProtocol, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::{Netlink, by_index, listed, local_address};

/// An address or a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedSetting {
    /// A description for people: `10.0.0.1/24`, `default via 10.0.0.254 table 254`.
    pub text: String,
    /// The kernel's message that describes it, without the netlink header.
    pub message: Vec<u8>,
}

/// The addresses and routes of a link.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkSnapshot {
    /// All addresses except the link-local and temporary ones of IPv6, which the kernel makes by
    /// itself.
    pub addresses: Vec<SavedSetting>,
    /// Unicast routes through the link, those without a gateway first.
    pub routes: Vec<SavedSetting>,
    /// Whether a default route leads through the link, in whichever table. It need not be one of
    /// `routes`, which lacks the routes that the kernel makes from router advertisements.
    pub has_default_route: bool,
}

impl Netlink {
    /// Sets a link down.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_down(&self, index: u32) -> io::Result<()> {
        let mut link = by_index(index);
        link.header.change_mask = LinkFlags::Up;
        self.request(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Renames a link. Before Linux 6.2, the link must be down.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_name(&self, index: u32, name: &str) -> io::Result<()> {
        let mut link = by_index(index);
        link.attributes.push(LinkAttribute::IfName(name.to_owned()));
        self.request(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Makes a link a member of a bridge, bond or team (`ip link set master`).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_master(&self, index: u32, master: u32) -> io::Result<()> {
        let mut link = by_index(index);
        link.attributes.push(LinkAttribute::Controller(master));
        self.request(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Sets the alias of a link (`ip link set alias`).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_alias(&self, index: u32, alias: &str) -> io::Result<()> {
        let mut link = by_index(index);
        link.attributes.push(LinkAttribute::IfAlias(alias.to_owned()));
        self.request(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Returns the alias of a link (`ip link set alias`); `None` if it has none.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn alias(&self, index: u32) -> io::Result<Option<String>> {
        self.send(RouteNetlinkMessage::GetLink(by_index(index)), NLM_F_ACK)?;
        let mut alias = String::new();
        self.responses(|message| {
            if let RouteNetlinkMessage::NewLink(link) = message {
                alias = listed(&link).alias;
            }
        })?;
        Ok(Some(alias).filter(|alias| !alias.is_empty()))
    }

    /// Returns the addresses and routes of a link.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn snapshot(&self, index: u32) -> io::Result<LinkSnapshot> {
        let mut addresses = Vec::new();
        self.send(RouteNetlinkMessage::GetAddress(AddressMessage::default()), NLM_F_DUMP)?;
        self.responses(|message| {
            if let RouteNetlinkMessage::NewAddress(message) = message
                && message.header.index == index
            {
                addresses.extend(saved_address(message));
            }
        })?;
        let mut routes = self.routes_by(AddressFamily::Inet, index)?;
        routes.extend(self.routes_by(AddressFamily::Inet6, index)?);
        // The kernel accepts a gateway only once there is a route to it, so routes without a
        // gateway come first.
        routes.sort_by_key(has_gateway);
        let has_default_route = self.has_default_route(index)?;
        let routes = routes.into_iter().map(saved_route).collect();
        Ok(LinkSnapshot { addresses, routes, has_default_route })
    }

    /// Gives a saved address to a link. An address that it has already is no error.
    ///
    /// # Errors
    /// The kernel's error; `InvalidData` if the message does not describe an address.
    pub fn restore_address(&self, index: u32, saved: &SavedSetting) -> io::Result<()> {
        let mut message = AddressMessage::parse(&saved.message).map_err(invalid)?;
        message.header.index = index;
        unless_there(
            self.request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL),
        )
    }

    /// Adds a saved route through a link. A route that is there already is no error.
    ///
    /// # Errors
    /// The kernel's error; `InvalidData` if the message does not describe a route.
    pub fn restore_route(&self, index: u32, saved: &SavedSetting) -> io::Result<()> {
        let mut message = RouteMessage::parse(&saved.message).map_err(invalid)?;
        for attribute in &mut message.attributes {
            match attribute {
                RouteAttribute::Oif(oif) => *oif = index,
                RouteAttribute::MultiPath(hops) => {
                    // Next hops through other links were left out when the route was saved.
                    hops.iter_mut().for_each(|hop| hop.interface_index = index);
                }
                _ => {}
            }
        }
        unless_there(
            self.request(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL),
        )
    }

    fn routes_by(&self, family: AddressFamily, index: u32) -> io::Result<Vec<RouteMessage>> {
        let mut request = RouteMessage::default();
        request.header.address_family = family;
        self.send(RouteNetlinkMessage::GetRoute(request), NLM_F_DUMP)?;
        let mut routes = Vec::new();
        self.responses(|message| {
            if let RouteNetlinkMessage::NewRoute(message) = message {
                routes.extend(route_by(message, index));
            }
        })?;
        Ok(routes)
    }
}

fn invalid(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

fn unless_there(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// Prepares an address for [`Netlink::restore_address`]; `None` for a link-local or temporary one
/// of IPv6, which the kernel makes by itself.
fn saved_address(mut message: AddressMessage) -> Option<SavedSetting> {
    let is_v6 = message.header.family == AddressFamily::Inet6;
    let mut flags = AddressFlags::from_bits_retain(message.header.flags.bits().into());
    for attribute in &message.attributes {
        if let AddressAttribute::Flags(all) = attribute {
            flags = *all;
        }
    }
    let is_made_by_kernel = message.header.scope == AddressScope::Link
        || flags.intersects(AddressFlags::Secondary) && !flags.contains(AddressFlags::Permanent);
    if is_v6 && is_made_by_kernel {
        return None;
    }
    let address = local_address(&message.attributes)?;
    let state = AddressFlags::Tentative | AddressFlags::Dadfailed | AddressFlags::Deprecated;
    message.header.flags = AddressHeaderFlags::empty();
    for attribute in &mut message.attributes {
        if let AddressAttribute::Flags(all) = attribute {
            *all = all.difference(state | AddressFlags::Secondary | AddressFlags::Permanent);
        }
    }
    let text = format!("{address}/{}", message.header.prefix_len);
    Some(SavedSetting { text, message: bytes_of(&message) })
}

/// Prepares a route for [`Netlink::restore_route`]. `None` if the route does not lead through the
/// link `index`, or is not a unicast route. Also `None` for routes of the local table, of router
/// advertisements, and cloned ones.
fn route_by(mut message: RouteMessage, index: u32) -> Option<RouteMessage> {
    /// `RT_TABLE_LOCAL` of `linux/rtnetlink.h`: the routes that the kernel derives from addresses.
    const RT_TABLE_LOCAL: u8 = 255;
    let header = &mut message.header;
    let is_set = header.kind == RouteType::Unicast
        && header.table != RT_TABLE_LOCAL
        && header.protocol != RouteProtocol::Ra
        && !header.flags.contains(RouteFlags::Cloned);
    header.flags = header.flags.intersection(RouteFlags::Onlink);
    let mut is_by_link = false;
    for attribute in &mut message.attributes {
        match attribute {
            RouteAttribute::Oif(oif) => is_by_link |= *oif == index,
            RouteAttribute::MultiPath(hops) => {
                hops.retain(|hop| hop.interface_index == index);
                is_by_link |= !hops.is_empty();
                for hop in hops {
                    hop.flags = hop.flags.intersection(RouteNextHopFlags::Onlink);
                }
            }
            _ => {}
        }
    }
    message.attributes.retain(is_accepted);
    (is_set && is_by_link).then_some(message)
}

/// Returns whether the kernel accepts an attribute that it has reported. A next-hop object is lost
/// along with its link, so its ID is left out; the route also has the next hop itself.
fn is_accepted(attribute: &RouteAttribute) -> bool {
    /// `RTA_NH_ID` of `linux/rtnetlink.h`.
    const RTA_NH_ID: u16 = 30;
    use netlink_packet_core::Nla;
    !matches!(attribute, RouteAttribute::CacheInfo(_)) && attribute.kind() != RTA_NH_ID
}

fn has_gateway(message: &RouteMessage) -> bool {
    message.attributes.iter().any(|attribute| {
        matches!(
            attribute,
            RouteAttribute::Gateway(_) | RouteAttribute::Via(_) | RouteAttribute::MultiPath(_)
        )
    })
}

fn saved_route(message: RouteMessage) -> SavedSetting {
    let len = message.header.destination_prefix_length;
    let mut text = if len == 0 { "default".to_owned() } else { String::new() };
    let mut table = u32::from(message.header.table);
    let mut gateway = String::new();
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) if len > 0 => {
                text = format!("{}/{len}", address_text(address));
            }
            RouteAttribute::Gateway(address) => {
                gateway = format!(" via {}", address_text(address));
            }
            RouteAttribute::Table(number) => table = *number,
            _ => {}
        }
    }
    text += &gateway;
    if table != u32::from(RouteHeader::RT_TABLE_MAIN) {
        text += &format!(" table {table}");
    }
    SavedSetting { text, message: bytes_of(&message) }
}

fn address_text(address: &RouteAddress) -> String {
    match address {
        RouteAddress::Inet(address) => address.to_string(),
        RouteAddress::Inet6(address) => address.to_string(),
        _ => "?".to_owned(),
    }
}

fn bytes_of(message: &impl Emitable) -> Vec<u8> {
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut bytes);
    bytes
}
