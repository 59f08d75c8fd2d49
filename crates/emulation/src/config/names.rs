//! Names that every configuration of two ports has.

/// The two directions, by their names in a configuration.
pub(crate) const LINK_NAMES: [&str; 2] = ["up", "down"];
/// The two ports, by their names in a configuration.
pub(crate) const PORT_NAMES: [&str; 2] = ["left", "right"];
