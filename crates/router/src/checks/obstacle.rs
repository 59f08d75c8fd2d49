//! What the checks find.

/// An interface of the router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckedInterface {
    /// The kernel's interface index.
    pub(crate) ifindex: u32,
    /// The name.
    pub(crate) name: String,
}

/// Why packets are not to be forwarded in XDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObstacleKind {
    /// They would bypass a stage of the kernel.
    Bypass,
    /// The kernel would not forward them.
    ForwardingOff,
}

/// Something for which packets of one interface, or of all, are left to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Obstacle {
    /// Why its packets are not forwarded in XDP.
    pub(crate) kind: ObstacleKind,
    /// The interface that it concerns; `None` for all.
    pub(crate) interface: Option<String>,
    /// What was found, as a clause.
    pub(crate) what: String,
    /// The command that shows it.
    pub(crate) show: String,
}
