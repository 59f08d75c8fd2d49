//! Whether it is a router between its ports, and how: the settings of `route`.

use std::net::IpAddr;

use super::error::ConfigError;
use super::section::{self, Section};
use super::tree::{Node, Place, Value};

/// What a file, or `-r`, says of a router.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RouteSetting {
    /// The gateway behind each port, where there is one.
    pub(crate) gateways: [Option<Gateway>; 2],
    /// Whether TTL and hop limit become fewer.
    pub(crate) decrement_ttl: bool,
}

/// A host that knows the way to all else; the same wherever it was named.
#[derive(Debug, Clone, Eq)]
pub(crate) struct Gateway {
    pub(crate) address: IpAddr,
    /// Where it was named.
    pub(crate) place: Place,
}

impl PartialEq for Gateway {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

const GATEWAYS: &str =
    "write an address for each port, or none: gateways = [\"none\", \"10.2.0.254\"]";

/// Reads the settings.
pub(super) fn read(node: &Node) -> Result<RouteSetting, ConfigError> {
    let mut section = Section::new("route", node)?;
    let setting = RouteSetting {
        gateways: section.read("gateways", gateways)?.unwrap_or_default(),
        decrement_ttl: section.flag("decrement_ttl")?.unwrap_or_default(),
    };
    section.finish()?;
    Ok(setting)
}

fn gateways(path: &str, node: &Node) -> Result<[Option<Gateway>; 2], ConfigError> {
    let nodes = match &node.value {
        Value::List(list) => list.as_slice(),
        _ => std::slice::from_ref(node),
    };
    if let Some(third) = nodes.get(2) {
        let summary = format!("{path} has {} entries", nodes.len());
        let error = ConfigError::key(summary, "a router has two ports").at(&third.place);
        return Err(error.help(GATEWAYS));
    }
    let mut gateways = [None, None];
    for (gateway, node) in gateways.iter_mut().zip(nodes) {
        *gateway = self::gateway(path, node)?;
    }
    if let [Some(first), Some(second)] = &gateways
        && first.address == second.address
    {
        let cause = "it is the gateway behind the other port already";
        let error = ConfigError::value(path, &second.address.to_string(), cause);
        return Err(error.at(&second.place).help(GATEWAYS));
    }
    Ok(gateways)
}

fn gateway(path: &str, node: &Node) -> Result<Option<Gateway>, ConfigError> {
    let text = section::text(path, node)?;
    if text == "none" {
        return Ok(None);
    }
    let address = text.parse().map_err(|_| "it is no address");
    let address = address.and_then(|address| no_host(address).map_or(Ok(address), Err));
    match address {
        Ok(address) => Ok(Some(Gateway { address, place: node.place.clone() })),
        Err(why) => Err(ConfigError::value(path, &text, why).at(&node.place).help(GATEWAYS)),
    }
}

/// Why no neighbour can have this address, whatever the subnets are.
fn no_host(address: IpAddr) -> Option<&'static str> {
    if address.is_unspecified() {
        Some("it stands for no host; the word for that is none")
    } else if address.is_multicast() {
        Some("it is a multicast address")
    } else if address.is_loopback() {
        Some("it is this host itself")
    } else if matches!(address, IpAddr::V4(address) if address.is_broadcast()) {
        Some("it is the broadcast address")
    } else {
        None
    }
}
