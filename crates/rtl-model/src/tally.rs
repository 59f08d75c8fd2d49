//! The chip's counters, and the block that the chip writes when a driver requests them.

/// Counters of a chip since they were last reset.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Frames sent.
    pub tx_frames: u64,
    /// Frames delivered to the driver without an error bit.
    pub rx_frames: u64,
    /// Frames that could not be sent.
    pub tx_errors: u64,
    /// Frames delivered with an error bit.
    pub rx_errors: u32,
    /// Frames for which there was no usable descriptor or buffer, or no space in the FIFO. The
    /// chip's counter has only 16 bits.
    pub rx_missed: u64,
    /// Unicast frames delivered.
    pub rx_unicast: u64,
    /// Broadcast frames delivered.
    pub rx_broadcast: u64,
    /// Multicast frames delivered.
    pub rx_multicast: u32,
    /// Frames that the filter did not accept. The chip does not count them.
    pub rx_filtered: u64,
    /// Frames that arrived while the receiver was off or there was no link. The chip does not count
    /// them.
    pub rx_stopped: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Bytes delivered, without the checksum.
    pub rx_bytes: u64,
}

impl Tally {
    /// Size of the block in bytes, on all chips.
    pub const BLOCK: usize = 64;
    /// Size of the block in bytes, on an RTL8125 whose driver has requested the extended tally.
    pub const EXTENDED_BLOCK: usize = 192;

    /// Returns the block that the chip writes.
    #[must_use]
    pub fn block(&self) -> [u8; Self::EXTENDED_BLOCK] {
        let mut block = [0; Self::EXTENDED_BLOCK];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.tx_frames.to_le_bytes());
        put(8, &self.rx_frames.to_le_bytes());
        put(16, &self.tx_errors.to_le_bytes());
        put(24, &self.rx_errors.to_le_bytes());
        put(28, &(self.rx_missed as u16).to_le_bytes());
        // Alignment errors and collisions are 0: a full-duplex link has none.
        put(40, &self.rx_unicast.to_le_bytes());
        put(48, &self.rx_broadcast.to_le_bytes());
        put(56, &self.rx_multicast.to_le_bytes());
        put(64, &self.tx_bytes.to_le_bytes());
        put(72, &self.rx_bytes.to_le_bytes());
        put(80, &u64::from(self.rx_multicast).to_le_bytes());
        block
    }
}
