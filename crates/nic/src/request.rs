//! What a user asks of `slipring nic bind`.

use std::time::Duration;

/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BindRequest {
    /// The PCI addresses of all cards that are to be taken.
    pub(crate) bdfs: Vec<String>,
    /// The user that may open the cards afterwards.
    pub(crate) uid: Option<u32>,
    /// Take cards that the machine uses.
    pub(crate) force: bool,
    /// Give the cards back after this time, unless that is confirmed.
    pub(crate) confirm_within: Option<Duration>,
    /// Leave the interface's name and addresses to a TAP device.
    pub(crate) tap: bool,
}
