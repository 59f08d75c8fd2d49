//! How many rings the two sides of a port have.

/// Numbers of rings: ring pairs of the NIC, and host rings per direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NicRingCounts {
    pub(crate) nic: u16,
    /// Number of rings to the host, and number of rings from the host.
    pub(crate) host: [u16; 2],
}

impl NicRingCounts {
    /// NIC ring pairs without host rings.
    pub(crate) fn nic_pair(nic: u16) -> Self {
        Self { nic, host: [0; 2] }
    }
}
