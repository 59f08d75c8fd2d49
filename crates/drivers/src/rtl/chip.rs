//! The chip while it runs: interrupts, link, counters.

use slipring_pci::{DeviceMemory, Interrupt, PciDevice, config};
use slipring_port::nic::dma::DmaMemory as _;
use slipring_port::{DropCause, Interest, Nanos, OpenCause};

use super::init;
use super::phy;
use super::regs::{Registers, at, event};
use super::rings::{RtlRx, RtlTx};
use super::stats::TallyReader;
use crate::settings::{LinkAbilities, LinkPlan};
use crate::{ChipEvents, ChipFault, LinkState, NicChip};

/// Accepts frames to the card's own address, multicasts and broadcasts.
const ACCEPT_OURS: u32 = 0x0e;
/// Also accepts all other frames.
const ACCEPT_ALL: u32 = 0x0f;
const RX_EVENTS: u32 =
    event::RX_OK | event::RX_ERROR | event::RX_NO_DESCRIPTOR | event::RX_FIFO_OVERFLOW;
const TX_EVENTS: u32 = event::TX_OK | event::TX_ERROR;
/// Maximum time, in ns, by which a lost doorbell delays frames. Then a probe rings the doorbell
/// again.
const TX_PROBE_AFTER: Nanos = 5_000_000;

/// The bits of the receiver's mode for the frames that a port accepts.
fn accepted(all: bool) -> u32 {
    if all { ACCEPT_ALL } else { ACCEPT_OURS }
}

/// A running chip.
pub(super) struct RtlChip {
    pub(super) registers: Registers,
    pub(super) rx: RtlRx,
    pub(super) tx: RtlTx,
    pub(super) tally: TallyReader,
    pub(super) interrupt: Interrupt,
    /// The memory that the device can access; `None` once the device is stopped.
    pub(super) memory: Option<DeviceMemory>,
    pub(super) device: Box<dyn PciDevice>,
}

impl RtlChip {
    /// Acknowledges all events. Returns a request for a probe if one of them is a change of the
    /// link.
    fn take_events(&self) -> ChipEvents {
        let events = self.registers.events();
        self.registers.acknowledge(events);
        // A removed chip reads as all ones, which includes this bit.
        ChipEvents { wants_probe: events & event::LINK_CHANGE != 0 }
    }
}

impl NicChip for RtlChip {
    type Rx = RtlRx;
    type Tx = RtlTx;

    fn device(&self) -> &dyn PciDevice {
        self.device.as_ref()
    }

    fn rx(&mut self) -> &mut RtlRx {
        &mut self.rx
    }

    fn tx(&mut self) -> &mut RtlTx {
        &mut self.tx
    }

    fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    fn start(&mut self, accepts_all: bool) -> Result<(), OpenCause> {
        self.tally.reset(&self.registers);
        init::start(&self.registers, accepted(accepts_all));
        Ok(())
    }

    fn unmask(&mut self, interest: Interest) -> ChipEvents {
        let events = self.take_events();
        let rx = if interest.rx { RX_EVENTS } else { 0 };
        let tx = if interest.tx { TX_EVENTS } else { 0 };
        self.registers.set_mask(event::LINK_CHANGE | rx | tx);
        events
    }

    fn mask(&mut self) -> ChipEvents {
        self.registers.set_mask(0);
        self.take_events()
    }

    fn probe(&mut self) -> Result<LinkState, ChipFault> {
        if self.registers.is_gone() {
            return Err(ChipFault::Gone);
        }
        if !init::is_running(&self.registers) {
            return Err(ChipFault::Reset);
        }
        self.tx.repeat_doorbell();
        Ok(phy::link(&self.registers))
    }

    fn count_drops(&mut self, set: &mut dyn FnMut(DropCause, u64)) {
        if self.registers.is_gone() {
            return;
        }
        let (losses, errors) = (self.tally.fetch(&self.registers), self.rx.errors());
        set(DropCause::RxRingFull, losses.rx_missed);
        set(DropCause::RxTooLong, errors.too_long);
        set(DropCause::RxMalformed, errors.malformed);
        set(DropCause::TxRefused, losses.tx_errors);
    }

    fn set_promiscuous(&mut self, all: bool) -> Result<(), OpenCause> {
        self.registers.modify32(at::RX_CONFIG, ACCEPT_ALL, accepted(all));
        Ok(())
    }

    fn abilities(&self) -> LinkAbilities {
        self.registers.chip.abilities()
    }

    fn set_link(&mut self, plan: &LinkPlan) -> Result<(), OpenCause> {
        phy::set_link(&self.registers, plan);
        Ok(())
    }

    fn set_max_packet(&mut self, bytes: u32) {
        init::set_max_packet(&self.registers, bytes);
    }

    fn tx_probe_after(&self) -> Nanos {
        TX_PROBE_AFTER
    }

    fn stop(&mut self) {
        // If the chip does not finish its reset, the steps below still take the memory from it.
        let _ = init::stop_chip(&self.registers);
        let _ = config::stop_bus_master(self.device.as_ref());
        if let Some(memory) = self.memory.take() {
            // If this fails, the device loses access to its memory when it is closed.
            let _ = memory.unmap();
        }
    }
}
