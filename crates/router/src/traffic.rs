//! Counts of packets and bytes.

use serde::{Deserialize, Serialize};

/// Counts of forwarded packets and their bytes, with Ethernet headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ForwardedTraffic {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}
