//! Whether it is a router between its ports, and how: the settings of `route`.

use std::net::IpAddr;

use super::error::ConfigError;
use super::section::{self, Section};
use super::tree::{Node, Value};

/// What a file, or `-r`, says of a router.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RouteSetting {
    /// The gateway behind each port, in their order, where there is one.
    pub(crate) gateways: Vec<Option<IpAddr>>,
    /// Whether TTL and hop limit become fewer.
    pub(crate) decrement_ttl: bool,
}

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

fn gateways(path: &str, node: &Node) -> Result<Vec<Option<IpAddr>>, ConfigError> {
    let one = |node: &Node| match section::text(path, node)?.as_str() {
        "none" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            let error = ConfigError::value(path, text, "it is no address").at(&node.place);
            error.help(
                "write an address for each port, or none: gateways = [\"none\", \"10.2.0.254\"]",
            )
        }),
    };
    match &node.value {
        Value::List(list) => list.iter().map(one).collect(),
        _ => one(node).map(|gateway| vec![gateway]),
    }
}
