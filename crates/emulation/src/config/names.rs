//! Names of the links and ports in a configuration of two ports.

/// The two directions, by their names in a configuration.
pub(crate) const LINK_NAMES: [&str; 2] = ["up", "down"];
/// The two ports, by their names in a configuration.
pub(crate) const PORT_NAMES: [&str; 2] = ["left", "right"];
