//! Windows through which further registers are accessed: each has a command word with an address
//! and a flag. A driver sets the flag for a write and clears it for a read. When the access has
//! completed, the flag is inverted, except after a read of MAC-OCP, where the word has only the
//! data. In the model, accesses complete immediately.

use std::collections::HashMap;

/// The flag of all windows.
pub(crate) const FLAG: u32 = 0x8000_0000;

/// The registers that are accessed through a window.
#[derive(Debug, Default)]
pub(crate) struct IndirectWords<T> {
    words: HashMap<u32, T>,
    /// The value that reads of the window's command register return.
    pub(crate) command: u32,
    /// The data register, in windows that have one.
    pub(crate) data: u32,
}

impl IndirectWords<u16> {
    /// Decodes a command of the windows with address and data in one word (MAC-OCP, PHY-OCP). If
    /// the flag is set, the command writes the low 16 bits. Returns the address, and the value of a
    /// write.
    pub(crate) fn ocp_command(command: u32) -> (u32, Option<u16>) {
        let address = (command >> 15) & 0xffff;
        (address & !1, (command & FLAG != 0).then_some(command as u16))
    }

    pub(crate) fn get(&self, address: u32) -> u16 {
        self.words.get(&address).copied().unwrap_or(0)
    }

    pub(crate) fn set(&mut self, address: u32, value: u16) {
        self.words.insert(address, value);
    }

    /// Executes a command of the PCIe PHY's window: the address is in bits 16 to 22, and the flag
    /// means a write.
    pub(crate) fn ephy_command(&mut self, command: u32) {
        let address = (command >> 16) & 0x7f;
        if command & FLAG != 0 {
            self.set(address, command as u16);
            self.command = command & !FLAG;
        } else {
            self.command = FLAG | (command & 0x007f_0000) | u32::from(self.get(address));
        }
    }
}

impl IndirectWords<u32> {
    pub(crate) fn get(&self, address: u32) -> u32 {
        self.words.get(&address).copied().unwrap_or(0)
    }

    pub(crate) fn set(&mut self, address: u32, value: u32) {
        self.words.insert(address, value);
    }

    /// Executes a command of a window with a data register (ERI, CSI): bits 12 to 15 enable bytes,
    /// and the flag means a write. The error is an address that is not a multiple of 4.
    pub(crate) fn command(&mut self, command: u32) -> Result<(), u32> {
        let address = command & 0xfff;
        let key = command & 0x0fff_0fff;
        if command & FLAG != 0 {
            let mask = (0..4).fold(0, |mask, byte| {
                mask | if command >> (12 + byte) & 1 != 0 { 0xff << (8 * byte) } else { 0 }
            });
            let value = (self.get(key) & !mask) | (self.data & mask);
            self.set(key, value);
            self.command = command & !FLAG;
        } else {
            self.data = self.get(key);
            self.command = command | FLAG;
        }
        if address & 3 == 0 { Ok(()) } else { Err(address) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_done_when_the_flag_is_set_and_a_write_when_it_is_clear() {
        let mut eri = IndirectWords::<u32> { data: 0x1122_3344, ..IndirectWords::default() };
        eri.command(FLAG | 0xf000 | 0xe0).unwrap();
        assert_eq!(eri.command & FLAG, 0);
        eri.data = 0xffff_ffff;
        eri.command(FLAG | 0x1000 | 0xe0).unwrap();
        eri.command(0xf000 | 0xe0).unwrap();
        assert_eq!((eri.command & FLAG, eri.data), (FLAG, 0x1122_33ff));
        assert_eq!(eri.command(0xf000 | 0xe1), Err(0xe1));
    }

    #[test]
    fn the_pcie_phy_keeps_its_words() {
        let mut ephy = IndirectWords::<u16>::default();
        ephy.ephy_command(FLAG | 0x19 << 16 | 0x7c00);
        assert_eq!(ephy.command & FLAG, 0);
        ephy.ephy_command(0x19 << 16);
        assert_eq!(ephy.command, FLAG | 0x19 << 16 | 0x7c00);
    }
}
