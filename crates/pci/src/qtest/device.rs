//! A device of the machine.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::machine::{MESSAGES_OFFSET, MachineParts};
use super::session::QtestSession;
use crate::bar::{Bar, RegisterAccess, Width};
use crate::config;
use crate::device::{PciDevice, ResetResult};
use crate::error::PciError;
use crate::interrupt::InterruptKind;
use crate::memory::DmaMapper;
use crate::sys::mapping::Mapping;

/// The first base address register, in the configuration space.
const BAR0: u16 = 0x10;
const NUM_BARS: u8 = 6;
const BAR_IS_IO: u32 = 1;
const BAR_IS_64: u32 = 4;
/// Address of the BARs of the device in slot 0; each slot has 16 MiB.
const BARS_BASE: u64 = 0xe000_0000;
const BARS_PER_SLOT: u64 = 16 << 20;
const INTERRUPT_PIN: u16 = 0x3d;
const CAPABILITY_MSI: u8 = 0x05;
const CAPABILITY_MSIX: u8 = 0x11;
/// Bits of the message control registers: MSI is on; MSI addresses have 64 bits; MSI-X is on.
const MSI_ENABLE: u32 = 1;
const MSI_IS_64: u32 = 1 << 7;
const MSIX_ENABLE: u32 = 1 << 15;
/// The data of the message that a device writes.
const MESSAGE: u32 = 1;

/// A device of a [`QtestMachine`](super::QtestMachine).
pub struct QtestDevice {
    machine: Arc<MachineParts>,
    slot: u8,
    address: String,
    /// Address and size of each memory BAR; the size of other BARs is 0.
    bars: [(u64, u64); NUM_BARS as usize],
}

/// An interrupt that is turned on, and its event.
pub(super) struct EventSource {
    slot: u8,
    kind: InterruptKind,
    event: OwnedFd,
    /// Whether the line has fired and has not been unmasked since then.
    is_masked: bool,
}

impl EventSource {
    /// Writes to the event if the device has signalled.
    pub(super) fn deliver(&mut self, session: &QtestSession, messages: &Mapping) {
        let has_fired = match self.kind {
            // The lines of slots 0 to 24 of bus 0 are distributed over inputs 16 to 23. Any of
            // these inputs counts: the line of another device causes only a spurious event.
            InterruptKind::IntX => {
                let asserted = (16..24).any(|line| session.line(line));
                let fires = asserted && !self.is_masked;
                self.is_masked |= fires;
                fires
            }
            InterruptKind::Msi | InterruptKind::MsiX => {
                let word = &messages.words32()[usize::from(self.slot)];
                word.swap(0, Ordering::AcqRel) != 0
            }
        };
        if has_fired {
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }
}

impl QtestDevice {
    pub(super) fn open(machine: Arc<MachineParts>, slot: u8) -> Result<Self, PciError> {
        let mut device = Self {
            machine,
            slot,
            address: format!("0000:00:{slot:02x}.0"),
            bars: [(0, 0); NUM_BARS as usize],
        };
        config::id(&device)?;
        device.place_bars()?;
        Ok(device)
    }

    /// Does the work of the firmware: finds the sizes of the BARs and assigns addresses.
    fn place_bars(&mut self) -> Result<(), PciError> {
        let mut free = BARS_BASE + u64::from(self.slot) * BARS_PER_SLOT;
        let mut index = 0;
        while index < NUM_BARS {
            let at = BAR0 + 4 * u16::from(index);
            self.config_write(at, Width::Long, u32::MAX)?;
            let mask = self.config_read(at, Width::Long)?;
            let is_64 = mask & (BAR_IS_IO | BAR_IS_64) == BAR_IS_64;
            if mask != 0 && mask & BAR_IS_IO == 0 {
                let size = u64::from(!(mask & !0xf)) + 1;
                free = free.next_multiple_of(size);
                self.config_write(at, Width::Long, free as u32)?;
                if is_64 {
                    self.config_write(at + 4, Width::Long, 0)?;
                }
                self.bars[usize::from(index)] = (free, size);
                free += size;
            }
            index += if is_64 { 2 } else { 1 };
        }
        Ok(())
    }

    fn capability(&self, number: u8) -> Option<u16> {
        config::capabilities(self, number).ok()?.first().copied()
    }

    /// Returns the address to which the device writes its message.
    fn message_address(&self) -> u64 {
        MESSAGES_OFFSET + 4 * u64::from(self.slot)
    }

    fn set_msi(&self, is_on: bool) -> Result<(), PciError> {
        let Some(at) = self.capability(CAPABILITY_MSI) else { return Ok(()) };
        let control = self.config_read(at + 2, Width::Word)?;
        let data = if control & MSI_IS_64 != 0 { 12 } else { 8 };
        self.config_write(at + 4, Width::Long, self.message_address() as u32)?;
        self.config_write(at + data, Width::Word, MESSAGE)?;
        let control = if is_on { control | MSI_ENABLE } else { control & !MSI_ENABLE };
        self.config_write(at + 2, Width::Word, control)
    }

    fn set_msix(&self, is_on: bool) -> Result<(), PciError> {
        let Some(at) = self.capability(CAPABILITY_MSIX) else { return Ok(()) };
        let control = self.config_read(at + 2, Width::Word)?;
        let table = self.config_read(at + 4, Width::Long)?;
        let bar = self.bar((table & 7) as u8)?;
        let entry = u64::from(table & !7);
        let address = self.message_address();
        for (i, word) in
            [address as u32, (address >> 32) as u32, MESSAGE, 0].into_iter().enumerate()
        {
            bar.write32(entry + 4 * i as u64, word);
        }
        let control = if is_on { control | MSIX_ENABLE } else { control & !MSIX_ENABLE };
        self.config_write(at + 2, Width::Word, control)
    }
}

impl PciDevice for QtestDevice {
    fn address(&self) -> &str {
        &self.address
    }

    fn config_read(&self, at: u16, width: Width) -> Result<u32, PciError> {
        let read = self.machine.session().config_read(self.slot, at, width);
        Ok(read.unwrap_or(width.all_ones()))
    }

    fn config_write(&self, at: u16, width: Width, value: u32) -> Result<(), PciError> {
        let written = self.machine.session().config_write(self.slot, at, width, value);
        written.map_err(|source| PciError::system("write to the configuration space", source))
    }

    fn bar(&self, bar: u8) -> Result<Bar, PciError> {
        match self.bars.get(usize::from(bar)) {
            Some(&(base, size)) if size > 0 => {
                let calls = MemoryCalls { machine: self.machine.clone(), base };
                Ok(Bar::new(size, Vec::new(), Box::new(calls)))
            }
            _ => Err(PciError::NoBar { address: self.address.clone(), bar }),
        }
    }

    fn dma(&self) -> Arc<dyn DmaMapper> {
        self.machine.clone()
    }

    fn interrupts(&self, kind: InterruptKind) -> u32 {
        let has = match kind {
            InterruptKind::IntX => {
                self.config_read(INTERRUPT_PIN, Width::Byte).is_ok_and(|pin| pin != 0)
            }
            InterruptKind::Msi => self.capability(CAPABILITY_MSI).is_some(),
            InterruptKind::MsiX => self.capability(CAPABILITY_MSIX).is_some(),
        };
        u32::from(has)
    }

    fn set_interrupts(
        &self,
        kind: InterruptKind,
        events: &[BorrowedFd<'_>],
    ) -> Result<(), PciError> {
        let fail = |source| PciError::system("set an interrupt", source);
        {
            let mut sources = self.machine.events.lock().unwrap_or_else(PoisonError::into_inner);
            sources.retain(|source| source.slot != self.slot);
            if let Some(event) = events.first() {
                let event = event.try_clone_to_owned().map_err(fail)?;
                sources.push(EventSource { slot: self.slot, kind, event, is_masked: false });
            }
        }
        let is_on = !events.is_empty();
        match kind {
            InterruptKind::IntX => Ok(()),
            InterruptKind::Msi => self.set_msi(is_on),
            InterruptKind::MsiX => self.set_msix(is_on),
        }
    }

    fn unmask_intx(&self) -> Result<(), PciError> {
        let mut sources = self.machine.events.lock().unwrap_or_else(PoisonError::into_inner);
        for source in sources.iter_mut().filter(|source| source.slot == self.slot) {
            source.is_masked = false;
        }
        Ok(())
    }

    fn reset(&self) -> Result<ResetResult, PciError> {
        Ok(ResetResult::Unsupported)
    }
}

/// Accesses the registers of a BAR by commands of the qtest protocol.
struct MemoryCalls {
    machine: Arc<MachineParts>,
    base: u64,
}

impl RegisterAccess for MemoryCalls {
    fn read(&self, at: u64, width: Width) -> u32 {
        self.machine.session().read(self.base + at, width).unwrap_or(width.all_ones())
    }

    fn write(&self, at: u64, width: Width, value: u32) {
        let _ = self.machine.session().write(self.base + at, width, value);
    }
}

impl Drop for QtestDevice {
    fn drop(&mut self) {
        let _ = config::stop_bus_master(self);
    }
}
