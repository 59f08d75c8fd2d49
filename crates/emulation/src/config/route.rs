//! The settings of `route`, which make the run a router between its ports.

use std::net::IpAddr;

use super::error::EmulationConfigError;
use super::section::{self, ConfigSection};
use super::tree::{ConfigLocation, ConfigNode, ConfigValue};

/// Router settings of a file or of `-r`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RouteSetting {
    /// The gateway on the network of each port; `None` if the port has none.
    pub(crate) gateways: [Option<RouteGateway>; 2],
    /// Whether TTL and hop limit are decremented.
    pub(crate) decrement_ttl: bool,
}

/// A gateway. Two gateways are equal if their addresses are equal; the locations are not compared.
#[derive(Debug, Clone, Eq)]
pub(crate) struct RouteGateway {
    pub(crate) address: IpAddr,
    /// Where the gateway was set.
    pub(crate) location: ConfigLocation,
}

impl PartialEq for RouteGateway {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

const GATEWAYS_SYNTAX: &str =
    "write an address for each port, or none: gateways = [\"none\", \"10.2.0.254\"]";

/// Reads the settings.
pub(super) fn read(node: &ConfigNode) -> Result<RouteSetting, EmulationConfigError> {
    let mut section = ConfigSection::new("route", node)?;
    let setting = RouteSetting {
        gateways: section.read("gateways", gateways)?.unwrap_or_default(),
        decrement_ttl: section.flag("decrement_ttl")?.unwrap_or_default(),
    };
    section.finish()?;
    Ok(setting)
}

fn gateways(
    path: &str,
    node: &ConfigNode,
) -> Result<[Option<RouteGateway>; 2], EmulationConfigError> {
    let nodes = match &node.value {
        ConfigValue::List(list) => list.as_slice(),
        _ => std::slice::from_ref(node),
    };
    if let Some(third) = nodes.get(2) {
        let summary = format!("{path} has {} entries", nodes.len());
        let error =
            EmulationConfigError::key(summary, "a router has two ports").at(&third.location);
        return Err(error.help(GATEWAYS_SYNTAX));
    }
    let mut gateways = [None, None];
    for (gateway, node) in gateways.iter_mut().zip(nodes) {
        *gateway = self::gateway(path, node)?;
    }
    if let [Some(first), Some(second)] = &gateways
        && first.address == second.address
    {
        let cause = "it is the gateway behind the other port already";
        let error = EmulationConfigError::value(path, &second.address.to_string(), cause);
        return Err(error.at(&second.location).help(GATEWAYS_SYNTAX));
    }
    Ok(gateways)
}

fn gateway(path: &str, node: &ConfigNode) -> Result<Option<RouteGateway>, EmulationConfigError> {
    let text = section::text(path, node)?;
    if text == "none" {
        return Ok(None);
    }
    let address = text.parse().map_err(|_| "it is no address");
    let address = address.and_then(|address| no_host(address).map_or(Ok(address), Err));
    match address {
        Ok(address) => Ok(Some(RouteGateway { address, location: node.location.clone() })),
        Err(why) => Err(EmulationConfigError::value(path, &text, why)
            .at(&node.location)
            .help(GATEWAYS_SYNTAX)),
    }
}

/// Returns why `address` cannot be the address of a neighbour; `None` if it can.
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
