//! The request of `slipring nic bind`.

use std::time::Duration;

/// The arguments of `bind`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BindRequest {
    /// The PCI addresses of all cards to bind to vfio-pci.
    pub(crate) bdfs: Vec<String>,
    /// The user that may open the cards afterwards; `None` if only root may.
    pub(crate) uid: Option<u32>,
    /// Whether to bind cards that the machine uses.
    pub(crate) force: bool,
    /// Time after which the cards are given back to their kernel drivers unless the user confirms;
    /// `None` if they are not given back.
    pub(crate) confirm_within: Option<Duration>,
    /// Whether to leave the interface's name and addresses to a TAP device.
    pub(crate) tap: bool,
}
