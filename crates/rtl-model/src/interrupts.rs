//! The interrupt mask and status, and the event that notifies the driver.

use std::os::fd::OwnedFd;

/// The kinds of interrupts, with VFIO's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptIndex {
    /// The level-triggered line. It is masked when it fires, until the driver unmasks it.
    Intx = 0,
    /// Message-signalled interrupts of the capability MSI.
    Msi = 1,
    /// Message-signalled interrupts of the capability MSI-X.
    MsiX = 2,
}

impl InterruptIndex {
    /// Returns the kind of interrupts with this number.
    #[must_use]
    pub fn new(index: u32) -> Option<Self> {
        [Self::Intx, Self::Msi, Self::MsiX].into_iter().find(|way| *way as u32 == index)
    }

    /// Returns the number of vectors of this kind.
    #[must_use]
    pub fn vectors(self) -> u32 {
        if self == Self::MsiX { 4 } else { 1 }
    }
}

/// The interrupts of a chip. The chip has one source, which uses only the first of several vectors.
#[derive(Debug, Default)]
pub struct Interrupts {
    pub(crate) mask: u32,
    pub(crate) status: u32,
    events: [Option<OwnedFd>; 3],
    is_intx_masked: bool,
    /// Whether the source was active at the last check. A message is sent when it becomes active.
    was_active: bool,
    fired: u64,
}

impl Interrupts {
    pub(crate) const RX_OK: u32 = 1;
    pub(crate) const RX_ERROR: u32 = 2;
    pub(crate) const TX_OK: u32 = 4;
    pub(crate) const TX_ERROR: u32 = 8;
    pub(crate) const RX_NO_DESCRIPTOR: u32 = 0x10;
    pub(crate) const LINK_CHANGE: u32 = 0x20;
    pub(crate) const RX_FIFO_OVERFLOW: u32 = 0x40;
    pub(crate) const TX_NO_DESCRIPTOR: u32 = 0x80;

    /// Sets or removes the event of a kind of interrupt.
    pub fn set_event(&mut self, index: InterruptIndex, event: Option<OwnedFd>) {
        let is_new = event.is_some();
        self.events[index as usize] = event;
        if is_new {
            self.is_intx_masked &= index != InterruptIndex::Intx;
            self.was_active = false;
            self.update();
        }
    }

    /// Masks or unmasks the line. If its source is active, unmasking fires it again.
    pub fn mask_intx(&mut self, is_masked: bool) {
        self.is_intx_masked = is_masked;
        if !is_masked {
            self.was_active = false;
            self.update();
        }
    }

    /// Returns how often an event was signalled.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.fired
    }

    /// Signals the event of a kind of interrupt without an interrupt, so that the event can be
    /// tested.
    pub fn trigger(&mut self, index: InterruptIndex) {
        if let Some(event) = &self.events[index as usize] {
            // The eventfd's counter can only be full if no driver has read it for 2^64 events.
            let _ = rustix::io::write(event, &1u64.to_ne_bytes());
            self.fired += 1;
        }
    }

    pub(crate) fn raise(&mut self, bits: u32) {
        self.status |= bits;
        self.update();
    }

    pub(crate) fn acknowledge(&mut self, bits: u32) {
        self.status &= !bits;
        self.update();
    }

    pub(crate) fn set_mask(&mut self, mask: u32) {
        self.mask = mask;
        self.update();
    }

    /// Clears mask and status, as a reset of the chip does.
    pub(crate) fn reset(&mut self) {
        (self.mask, self.status, self.was_active) = (0, 0, false);
    }

    /// Signals an interrupt if the source has become active.
    fn update(&mut self) {
        let is_active = self.mask & self.status != 0;
        let rises = is_active && !self.was_active;
        self.was_active = is_active;
        if !rises {
            return;
        }
        if self.events[InterruptIndex::MsiX as usize].is_some() {
            self.trigger(InterruptIndex::MsiX);
        } else if self.events[InterruptIndex::Msi as usize].is_some() {
            self.trigger(InterruptIndex::Msi);
        } else if !self.is_intx_masked {
            self.is_intx_masked = self.events[InterruptIndex::Intx as usize].is_some();
            self.trigger(InterruptIndex::Intx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    fn connected(index: InterruptIndex) -> Interrupts {
        let mut interrupts = Interrupts::default();
        interrupts.set_event(index, Some(eventfd(0, EventfdFlags::NONBLOCK).unwrap()));
        interrupts
    }

    #[test]
    fn a_message_is_sent_when_the_source_becomes_active() {
        let mut interrupts = connected(InterruptIndex::MsiX);
        interrupts.raise(Interrupts::RX_OK);
        assert_eq!(interrupts.fired(), 0, "masked");
        interrupts.set_mask(Interrupts::RX_OK | Interrupts::TX_OK);
        assert_eq!(interrupts.fired(), 1);
        interrupts.raise(Interrupts::TX_OK);
        assert_eq!(interrupts.fired(), 1, "it was active");
        interrupts.acknowledge(u32::MAX);
        interrupts.raise(Interrupts::TX_OK);
        assert_eq!(interrupts.fired(), 2);
    }

    #[test]
    fn the_line_stays_masked_until_the_driver_unmasks_it() {
        let mut interrupts = connected(InterruptIndex::Intx);
        interrupts.set_mask(Interrupts::RX_OK);
        interrupts.raise(Interrupts::RX_OK);
        interrupts.acknowledge(u32::MAX);
        interrupts.raise(Interrupts::RX_OK);
        assert_eq!(interrupts.fired(), 1);
        interrupts.mask_intx(false);
        assert_eq!(interrupts.fired(), 2, "it is still active");
    }
}
