use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use crate::text::{proto_value, service_value};

/// The fields of a flow that a table compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowFields(u8);

/// The names of the fields, in the order in which keys list them.
const FIELDS: [(u8, &str); 5] = [
    (FlowFields::SRC_IP, "src-ip"),
    (FlowFields::PROTO, "proto"),
    (FlowFields::SRC_PORT, "src-port"),
    (FlowFields::DST_IP, "dst-ip"),
    (FlowFields::DST_PORT, "dst-port"),
];

impl FlowFields {
    const SRC_IP: u8 = 1;
    const PROTO: u8 = 2;
    const SRC_PORT: u8 = 4;
    const DST_IP: u8 = 8;
    const DST_PORT: u8 = 16;
    /// All five fields.
    pub const ALL: Self = Self(31);

    /// Parses `src-ip,proto,…`, in any order.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bit = |item: &str| FIELDS.iter().find(|(_, name)| *name == item).map(|&(bit, _)| bit);
        text.split(',').try_fold(0, |set, item| Some(set | bit(item)?)).map(Self)
    }

    const fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }
}

impl fmt::Display for FlowFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = FIELDS.iter().filter(|(bit, _)| self.has(*bit)).map(|(_, name)| *name);
        f.write_str(&names.collect::<Vec<_>>().join(","))
    }
}

/// The fields of a flow. Fields that a table does not compare are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IpfwFlowKey {
    /// Whether the addresses are IPv6.
    pub is_v6: bool,
    /// Source address.
    pub src: u128,
    /// IP protocol number.
    pub proto: u8,
    /// Source port.
    pub src_port: u16,
    /// Destination address.
    pub dst: u128,
    /// Destination port.
    pub dst_port: u16,
}

impl IpfwFlowKey {
    /// Keeps only the given fields.
    #[must_use]
    pub fn only(self, fields: FlowFields) -> Self {
        let addresses = fields.has(FlowFields::SRC_IP) || fields.has(FlowFields::DST_IP);
        Self {
            is_v6: addresses && self.is_v6,
            src: if fields.has(FlowFields::SRC_IP) { self.src } else { 0 },
            proto: if fields.has(FlowFields::PROTO) { self.proto } else { 0 },
            src_port: if fields.has(FlowFields::SRC_PORT) { self.src_port } else { 0 },
            dst: if fields.has(FlowFields::DST_IP) { self.dst } else { 0 },
            dst_port: if fields.has(FlowFields::DST_PORT) { self.dst_port } else { 0 },
        }
    }

    /// Parses one item for each of `fields`, in their order.
    #[must_use]
    pub fn parse(text: &str, fields: FlowFields) -> Option<Self> {
        let mut key = Self::default();
        let mut version = None;
        let mut items = text.split(',');
        for (bit, _) in FIELDS.iter().filter(|(bit, _)| fields.has(*bit)) {
            key.set(*bit, items.next()?, &mut version)?;
        }
        items.next().is_none().then_some(key)
    }

    fn set(&mut self, bit: u8, item: &str, version: &mut Option<bool>) -> Option<()> {
        match bit {
            FlowFields::PROTO => self.proto = proto_value(item)?,
            FlowFields::SRC_PORT => self.src_port = service_value(item)?,
            FlowFields::DST_PORT => self.dst_port = service_value(item)?,
            _ => {
                let (bits, is_v6) = match item.parse().ok()? {
                    IpAddr::V4(address) => (address.to_bits().into(), false),
                    IpAddr::V6(address) => (address.to_bits(), true),
                };
                if version.is_some_and(|known| known != is_v6) {
                    return None;
                }
                *version = Some(is_v6);
                self.is_v6 = is_v6;
                *(if bit == FlowFields::SRC_IP { &mut self.src } else { &mut self.dst }) = bits;
            }
        }
        Some(())
    }

    /// Formats the key for listings.
    #[must_use]
    pub fn show(&self, fields: FlowFields) -> String {
        let address = |bits: u128| {
            let v4 = core::net::Ipv4Addr::from_bits(bits as u32);
            if self.is_v6 {
                core::net::Ipv6Addr::from_bits(bits).to_string()
            } else {
                v4.to_string()
            }
        };
        let item = |bit| match bit {
            FlowFields::SRC_IP => address(self.src),
            FlowFields::PROTO => self.proto.to_string(),
            FlowFields::SRC_PORT => self.src_port.to_string(),
            FlowFields::DST_IP => address(self.dst),
            _ => self.dst_port.to_string(),
        };
        let shown = FIELDS.iter().filter(|(bit, _)| fields.has(*bit)).map(|&(bit, _)| item(bit));
        shown.collect::<Vec<_>>().join(",")
    }
}
