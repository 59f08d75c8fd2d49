//! What the checks find.

/// An interface of the router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckedInterface {
    /// The kernel's interface index.
    pub(crate) ifindex: u32,
    /// The name.
    pub(crate) name: String,
}

/// A stage of the kernel that forwarded packets would bypass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Obstacle {
    /// The interface that it concerns; `None` for all.
    pub(crate) interface: Option<String>,
    /// What was found, as a clause.
    pub(crate) what: String,
    /// The command that shows it.
    pub(crate) show: String,
}
