//! How many rings the two sides of a port have.

/// The numbers of rings of a port: ring pairs of the NIC, and host rings per direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NicRingCounts {
    pub(crate) nic: u16,
    /// The number of rings that lead to the host, and the number of rings that come from the host.
    pub(crate) host: [u16; 2],
}

impl NicRingCounts {
    /// The counts of a port with `nic` ring pairs and without host rings.
    pub(crate) fn nic_pair(nic: u16) -> Self {
        Self { nic, host: [0; 2] }
    }
}
