//! The chip's own counters. The chip writes them to memory on request.

use std::sync::atomic::Ordering::Acquire;

use slipring_pci::DescriptorMemory;

use super::regs::{self, Registers, at, wait};

/// Counts of frames that the chip lost, since it was started.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChipLosses {
    /// Frames that found no descriptor, or no space in the FIFO.
    pub(super) rx_missed: u64,
    /// Frames that could not be sent.
    pub(super) tx_errors: u64,
}

/// Reads the counters.
#[derive(Debug)]
pub(super) struct TallyReader {
    memory: DescriptorMemory,
    /// The last value of the chip's 16-bit counter of missed frames.
    last_missed: u16,
    losses: ChipLosses,
}

impl TallyReader {
    /// The chip writes its counters to the start of `memory`: 64 bytes, at a multiple of 64.
    pub(super) fn new(memory: DescriptorMemory) -> Self {
        Self { memory, last_missed: 0, losses: ChipLosses::default() }
    }

    /// Sets all counters of the chip to zero.
    pub(super) fn reset(&mut self, registers: &Registers) {
        self.command(registers, regs::TALLY_RESET);
        (self.last_missed, self.losses) = (0, ChipLosses::default());
    }

    /// Fetches the counters. Returns the previous values if the chip does not write them, for
    /// example because its receiver is off.
    pub(super) fn fetch(&mut self, registers: &Registers) -> ChipLosses {
        if self.command(registers, regs::TALLY_DUMP) {
            let words = self.memory.words64();
            // Word 3: 32 bits of receive errors, then 16 bits of missed frames.
            let missed = (words[3].load(Acquire) >> 32) as u16;
            self.losses.rx_missed += u64::from(missed.wrapping_sub(self.last_missed));
            self.last_missed = missed;
            self.losses.tx_errors = words[2].load(Acquire);
        }
        self.losses
    }

    /// Gives a command; returns whether the chip has carried it out.
    fn command(&self, registers: &Registers, command: u32) -> bool {
        let address = self.memory.address();
        registers.bar.write32(at::TALLY_HIGH, (address >> 32) as u32);
        registers.bar.write32(at::TALLY_LOW, address as u32);
        registers.bar.write32(at::TALLY_LOW, address as u32 | command);
        wait(10, || registers.bar.read32(at::TALLY_LOW) & command == 0)
    }
}
