//! Settings of interfaces: `struct netconfmsg`, `linux/netconf.h`.

use crate::attributes::{Attributes, Malformed};
use crate::{RouteFamily, message::kind};

/// The interfaces to which settings apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NetconfScope {
    /// `conf/all`: its meaning for an interface depends on the setting.
    All,
    /// `conf/default`: the initial settings of new interfaces.
    Default,
    /// The interface with this index.
    Interface(u32),
}

/// The settings of an interface that affect forwarding. A notification contains only changed
/// settings, a dump all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetconfMessage {
    /// The family to which the settings apply.
    pub family: RouteFamily,
    /// The interfaces to which the settings apply.
    pub scope: NetconfScope,
    /// `forwarding`.
    pub forwarding: Option<bool>,
    /// `rp_filter`: 0 for no check of sources, 1 for the strict check, other values for the loose
    /// check.
    pub rp_filter: Option<i32>,
    /// `ignore_routes_with_linkdown`.
    pub ignores_routes_with_linkdown: Option<bool>,
}

/// `sizeof(struct netconfmsg)`, padded.
pub(crate) const NETCONF_LEN: usize = 4;

/// Attributes: `NETCONFA_*`.
const NETCONFA_IFINDEX: u16 = 1;
const NETCONFA_FORWARDING: u16 = 2;
const NETCONFA_RP_FILTER: u16 = 3;
const NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN: u16 = 6;
/// `NETCONFA_IFINDEX_ALL` and `NETCONFA_IFINDEX_DEFAULT`, in place of an index.
const IFINDEX_ALL: i32 = -1;
const IFINDEX_DEFAULT: i32 = -2;

impl NetconfMessage {
    /// Parses the payload of a message. Returns `None` for families other than IPv4 and IPv6, and
    /// if the message does not name interfaces.
    pub(crate) fn parse(payload: &[u8]) -> Result<Option<Self>, Malformed> {
        let Some((fixed, rest)) = payload.split_first_chunk::<NETCONF_LEN>() else {
            return Err(Malformed::Truncated { kind: kind::NETCONF });
        };
        let Some(family) = RouteFamily::of(fixed[0]) else { return Ok(None) };
        let mut scope = None;
        let mut settings = Self {
            family,
            scope: NetconfScope::Default,
            forwarding: None,
            rp_filter: None,
            ignores_routes_with_linkdown: None,
        };
        for attribute in Attributes(rest) {
            let attribute = attribute?;
            let value = || attribute.u32().map(|value| value as i32);
            match attribute.kind {
                NETCONFA_IFINDEX => scope = Some(NetconfScope::of(value()?)),
                NETCONFA_FORWARDING => settings.forwarding = Some(value()? != 0),
                NETCONFA_RP_FILTER => settings.rp_filter = Some(value()?),
                NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN => {
                    settings.ignores_routes_with_linkdown = Some(value()? != 0);
                }
                _ => {}
            }
        }
        Ok(scope.map(|scope| Self { scope, ..settings }))
    }
}

impl NetconfScope {
    const fn of(ifindex: i32) -> Self {
        match ifindex {
            IFINDEX_ALL => Self::All,
            IFINDEX_DEFAULT => Self::Default,
            ifindex => Self::Interface(ifindex as u32),
        }
    }
}
