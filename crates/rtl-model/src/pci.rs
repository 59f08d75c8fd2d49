//! The configuration space: identity, windows and capabilities.

use crate::chip::Chip;

/// Number of bytes of the configuration space of a PCI Express device.
pub(crate) const CONFIG_BYTES: usize = 4096;
/// Offset of the command register.
const COMMAND: usize = 4;
const COMMAND_MEMORY: u8 = 2;
const COMMAND_BUS_MASTER: u8 = 4;

/// The configuration space of the model.
#[derive(Debug)]
pub(crate) struct ConfigSpace {
    bytes: Vec<u8>,
    /// Bits that a write can change.
    writable: Vec<u8>,
}

impl ConfigSpace {
    pub(crate) fn new(chip: Chip) -> Self {
        let mut space = Self { bytes: vec![0; CONFIG_BYTES], writable: vec![0; CONFIG_BYTES] };
        space.put(0, &0x10ec_u16.to_le_bytes());
        space.put(2, &chip.device_id().to_le_bytes());
        // Status register: there is a list of capabilities.
        space.put(6, &[0x10, 0]);
        space.put(8, &[chip.revision(), 0, 0, 2]);
        // BAR 0: 256 bytes of I/O ports. BAR 2: registers. BAR 4: the table of MSI-X.
        space.put(0x10, &[1]);
        space.put(0x18, &[4]);
        space.put(0x20, &[4]);
        space.put(0x2c, &[0xec, 0x10, 0x23, 0x01]);
        space.put(0x34, &[0x40]);
        space.put(0x3c, &[0, 1]);
        space.add_capabilities();
        space.allow_writes(chip);
        space
    }

    fn add_capabilities(&mut self) {
        // Power management, version 3.
        self.put(0x40, &[0x01, 0x50, 0x03, 0x00]);
        // MSI with one message and 64-bit addresses.
        self.put(0x50, &[0x05, 0x70, 0x80, 0x00]);
        // PCI Express, version 2: an endpoint, one lane of 2.5 GT/s with L0s and L1.
        self.put(0x70, &[0x10, 0xb0, 0x02, 0x00]);
        self.put(0x7c, &[0x11, 0x0c, 0x00, 0x00]);
        self.put(0x82, &[0x11, 0x10]);
        // MSI-X: four vectors, table at 0 and pending bits at 0x800 of BAR 4.
        self.put(0xb0, &[0x11, 0x00, 0x03, 0x00, 0x04, 0, 0, 0, 0x04, 0x08, 0, 0]);
    }

    fn allow_writes(&mut self, chip: Chip) {
        // Command register: writable bits for I/O, memory, bus master, parity, SERR, and disabling
        // INTx.
        self.allow(COMMAND, &[0x47, 0x05]);
        self.allow(0x0c, &[0xff, 0xff]);
        self.allow(0x3c, &[0xff]);
        let window = !(chip.window() as u32 - 1);
        self.allow(0x10, &0xffff_ff00_u32.to_le_bytes());
        self.allow(0x18, &window.to_le_bytes());
        self.allow(0x1c, &[0xff; 4]);
        self.allow(0x20, &0xffff_f000_u32.to_le_bytes());
        self.allow(0x24, &[0xff; 4]);
        // Power state, and the enable bit of power management events.
        self.allow(0x44, &[0x03, 0x01]);
        self.allow(0x52, &[0x01]);
        self.allow(0x54, &[0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        // Device control, link control, and device control 2.
        self.allow(0x78, &[0xff, 0x7f]);
        self.allow(0x80, &[0xff, 0x01]);
        self.allow(0x98, &[0xff, 0xff]);
        self.allow(0xb2 + 1, &[0xc0]);
        // The latencies of L0s and L1, which drivers of this chip set.
        self.allow(0x70c, &[0xff; 4]);
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn allow(&mut self, at: usize, bits: &[u8]) {
        self.writable[at..at + bits.len()].copy_from_slice(bits);
    }

    /// Reads bytes. Bytes beyond the end are all ones.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) {
        for (i, byte) in (offset..).zip(out) {
            *byte = self.bytes.get(i as usize).copied().unwrap_or(0xff);
        }
    }

    /// Writes the bits that can be changed. Others keep their values.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (i, new) in (offset..).zip(bytes) {
            let Some(byte) = self.bytes.get_mut(i as usize) else { return };
            let writable = self.writable[i as usize];
            *byte = (*byte & !writable) | (new & writable);
        }
    }

    /// Whether the device is allowed to access memory.
    pub(crate) fn is_bus_master(&self) -> bool {
        self.bytes[COMMAND] & COMMAND_BUS_MASTER != 0
    }

    /// Whether the device responds to accesses to its memory windows.
    pub(crate) fn has_memory(&self) -> bool {
        self.bytes[COMMAND] & COMMAND_MEMORY != 0
    }
}
