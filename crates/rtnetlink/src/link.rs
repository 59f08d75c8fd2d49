//! Interfaces: `struct ifinfomsg`, `linux/rtnetlink.h`; attributes, `linux/if_link.h`.

use crate::attributes::{Attribute, Attributes, Malformed, read_u16, read_u32};
use crate::{AF_UNSPEC, message::kind};

/// Flags of an interface: `IFF_*` of `linux/if.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkFlags(pub u32);

impl LinkFlags {
    /// `IFF_UP`: administratively up.
    pub const UP: u32 = 1 << 0;
    /// `IFF_LOOPBACK`: sent packets return to this host.
    pub const LOOPBACK: u32 = 1 << 3;
    /// `IFF_POINTOPOINT`: there is only one neighbour.
    pub const POINT_TO_POINT: u32 = 1 << 4;
    /// `IFF_RUNNING`: the operational state is up.
    pub const RUNNING: u32 = 1 << 6;
    /// `IFF_NOARP`: neighbours are not resolved.
    pub const NO_ARP: u32 = 1 << 7;
    /// `IFF_LOWER_UP`: the carrier is present.
    pub const LOWER_UP: u32 = 1 << 16;

    /// Returns whether all bits of `flags` are set.
    #[must_use]
    pub const fn has(self, flags: u32) -> bool {
        self.0 & flags == flags
    }

    /// Whether the kernel considers that the interface has a carrier. It does unless the flags
    /// `RUNNING` and `LOWER_UP` are both clear. Without a carrier, the kernel marks next hops on
    /// the interface as `linkdown`.
    #[must_use]
    pub const fn has_carrier(self) -> bool {
        self.0 & (Self::RUNNING | Self::LOWER_UP) != 0
    }
}

/// An interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkMessage<'a> {
    /// The index of the interface, which other messages use.
    pub ifindex: u32,
    /// The hardware type: `ARPHRD_*` of `linux/if_arp.h`.
    pub hardware: u16,
    /// The flags of the interface, which contain its state.
    pub flags: LinkFlags,
    /// The name.
    pub name: &'a str,
    /// Maximum length of an IP packet, in bytes.
    pub mtu: u32,
    /// The MAC address, if it has six bytes.
    pub mac: Option<[u8; 6]>,
    /// The operational state of RFC 2863: `IF_OPER_*` of `linux/if.h`.
    pub operational_state: u8,
    /// The index of the lower interface: the parent of a VLAN device, or the peer of a veth.
    pub lower: Option<u32>,
    /// The index of the bridge, bond or VRF device of which the interface is a port.
    pub master: Option<u32>,
    /// The kind of a virtual interface (`veth`, `vlan`, …), or empty.
    pub driver_kind: &'a str,
    /// The table of a VRF device.
    pub vrf_table: Option<u32>,
    /// TPID and VLAN identifier of a VLAN device.
    pub vlan: Option<(u16, u16)>,
    /// The number of the network namespace of `lower`, if it differs from the interface's.
    pub lower_namespace: Option<i32>,
}

/// `sizeof(struct ifinfomsg)`.
pub(crate) const LINK_LEN: usize = 16;

/// Attributes of an interface: `IFLA_*`.
pub(crate) mod ifla {
    pub(crate) const ADDRESS: u16 = 1;
    pub(crate) const IFNAME: u16 = 3;
    pub(crate) const MTU: u16 = 4;
    pub(crate) const LINK: u16 = 5;
    pub(crate) const MASTER: u16 = 10;
    pub(crate) const OPERSTATE: u16 = 16;
    pub(crate) const LINKINFO: u16 = 18;
    pub(crate) const EXT_MASK: u16 = 29;
    pub(crate) const LINK_NETNSID: u16 = 37;
}

const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_VRF_TABLE: u16 = 1;
const IFLA_VLAN_ID: u16 = 1;
const IFLA_VLAN_PROTOCOL: u16 = 5;
/// `ETH_P_8021Q` of `linux/if_ether.h`: the default protocol of a VLAN device.
const TPID_8021Q: u16 = 0x8100;

impl<'a> LinkMessage<'a> {
    /// Parses an interface; returns `None` for families other than `AF_UNSPEC`: messages of
    /// `AF_BRIDGE` are about bridge ports, and their `RTM_DELLINK` does not mean that the interface
    /// was deleted.
    pub(crate) fn parse(payload: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let Some((fixed, rest)) = payload.split_first_chunk::<LINK_LEN>() else {
            return Err(Malformed::Truncated { kind: kind::LINK });
        };
        if fixed[0] != AF_UNSPEC {
            return Ok(None);
        }
        let mut link = Self {
            ifindex: read_u32(fixed, 4).unwrap_or_default(),
            hardware: read_u16(fixed, 2).unwrap_or_default(),
            flags: LinkFlags(read_u32(fixed, 8).unwrap_or_default()),
            name: "",
            mtu: 0,
            mac: None,
            operational_state: 0,
            lower: None,
            master: None,
            driver_kind: "",
            vrf_table: None,
            vlan: None,
            lower_namespace: None,
        };
        for attribute in Attributes(rest) {
            link.take(attribute?)?;
        }
        Ok(Some(link))
    }

    fn take(&mut self, attribute: Attribute<'a>) -> Result<(), Malformed> {
        match attribute.kind {
            ifla::ADDRESS => self.mac = attribute.value.try_into().ok(),
            ifla::IFNAME => self.name = attribute.text(),
            ifla::MTU => self.mtu = attribute.u32()?,
            ifla::LINK => self.lower = Some(attribute.u32()?),
            ifla::MASTER => self.master = Some(attribute.u32()?),
            ifla::OPERSTATE => self.operational_state = attribute.u8()?,
            ifla::LINKINFO => self.take_info(attribute.nested())?,
            ifla::LINK_NETNSID => self.lower_namespace = Some(attribute.u32()? as i32),
            _ => {}
        }
        Ok(())
    }

    fn take_info(&mut self, info: Attributes<'a>) -> Result<(), Malformed> {
        let mut data = Attributes(&[]);
        for attribute in info {
            let attribute = attribute?;
            match attribute.kind {
                IFLA_INFO_KIND => self.driver_kind = attribute.text(),
                IFLA_INFO_DATA => data = attribute.nested(),
                _ => {}
            }
        }
        match self.driver_kind {
            "vrf" => self.vrf_table = value(data, IFLA_VRF_TABLE, Attribute::u32)?,
            "vlan" => {
                // The protocol is in network byte order.
                let tpid =
                    value(data.clone(), IFLA_VLAN_PROTOCOL, Attribute::u16)?.map(u16::from_be);
                let id = value(data, IFLA_VLAN_ID, Attribute::u16)?;
                self.vlan = id.map(|id| (tpid.unwrap_or(TPID_8021Q), id));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Reads the value of the first attribute of a kind.
fn value<'a, T>(
    mut attributes: Attributes<'a>,
    kind: u16,
    read: impl Fn(Attribute<'a>) -> Result<T, Malformed>,
) -> Result<Option<T>, Malformed> {
    let found = attributes
        .find(|attribute| attribute.is_err() || attribute.is_ok_and(|it| it.kind == kind));
    found.transpose()?.map(read).transpose()
}
