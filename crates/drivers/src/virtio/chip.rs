//! The running device.

use slipring_pci::{DeviceMemory, Interrupt, InterruptKind, PciDevice};
use slipring_port::{DropCause, Interest, OpenCause};

use super::ABILITIES;
use super::control::{RX_ALL_MULTICAST, RX_PROMISCUOUS, VirtioControl};
use super::init;
use super::regs::*;
use super::rings::{VirtioRx, VirtioTx};
use crate::chip::{ChipEvents, ChipFault, LinkState, NicChip};
use crate::settings::{LinkAbilities, LinkPlan};

/// A virtio-net device.
pub(super) struct VirtioChip {
    pub(super) registers: VirtioRegisters,
    pub(super) rx: VirtioRx,
    pub(super) tx: VirtioTx,
    pub(super) control: Option<VirtioControl>,
    /// The largest MTU in bytes.
    pub(super) max_mtu: u32,
    /// Whether the device reports the state of its link.
    pub(super) has_status: bool,
    pub(super) interrupt: Interrupt,
    pub(super) device: Box<dyn PciDevice>,
    /// The memory that the device accesses. It is dropped after the device.
    pub(super) _memory: DeviceMemory,
}

impl NicChip for VirtioChip {
    type Rx = VirtioRx;
    type Tx = VirtioTx;

    fn device(&self) -> &dyn PciDevice {
        self.device.as_ref()
    }

    fn rx(&mut self) -> &mut Self::Rx {
        &mut self.rx
    }

    fn tx(&mut self) -> &mut Self::Tx {
        &mut self.tx
    }

    fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    fn start(&mut self, accepts_all: bool) -> Result<(), OpenCause> {
        init::start(&self.registers);
        if let Some(control) = &mut self.control {
            control.set_rx(RX_PROMISCUOUS, accepts_all)?;
            control.set_rx(RX_ALL_MULTICAST, true)?;
        }
        Ok(())
    }

    /// Enables the interrupts of `interest` and disables the other ones, by words in memory,
    /// without a write to a register.
    fn unmask(&mut self, interest: Interest) -> ChipEvents {
        self.rx.queue.set_interrupts(interest.rx);
        self.tx.queue.set_interrupts(interest.tx);
        ChipEvents::default()
    }

    /// Queues and link share one vector, so the link is checked after every wakeup.
    fn mask(&mut self) -> ChipEvents {
        self.rx.queue.set_interrupts(false);
        self.tx.queue.set_interrupts(false);
        if self.interrupt.kind() == InterruptKind::IntX {
            // Reading the register deasserts the interrupt line.
            let _ = self.registers.isr.read8(0);
        }
        ChipEvents { wants_probe: true }
    }

    fn probe(&mut self) -> Result<LinkState, ChipFault> {
        match self.registers.common.read8(DEVICE_STATUS) {
            u8::MAX => return Err(ChipFault::Gone),
            status if status & (STATUS_DRIVER_OK | STATUS_NEEDS_RESET) != STATUS_DRIVER_OK => {
                return Err(ChipFault::Reset);
            }
            _ => {}
        }
        let status = self.registers.net.read16(NET_STATUS);
        let is_up = !self.has_status || status & NET_STATUS_LINK_UP != 0;
        Ok(LinkState { is_up, mbit_per_s: 0, is_full_duplex: true })
    }

    fn count_drops(&mut self, set: &mut dyn FnMut(DropCause, u64)) {
        set(DropCause::RxMalformed, self.rx.bad_frames);
    }

    /// Does nothing for a device without a control queue: the host decides what such a device
    /// receives.
    fn set_promiscuous(&mut self, all: bool) -> Result<(), OpenCause> {
        match &mut self.control {
            Some(control) => control.set_rx(RX_PROMISCUOUS, all),
            None => Ok(()),
        }
    }

    fn abilities(&self) -> LinkAbilities {
        LinkAbilities { has_filter: self.control.is_some(), max_mtu: self.max_mtu, ..ABILITIES }
    }

    /// Does nothing, because the host controls the link. The device's abilities contain no speeds,
    /// so this is never called.
    fn set_link(&mut self, _plan: &LinkPlan) -> Result<(), OpenCause> {
        Ok(())
    }

    /// Does nothing, because the host decides how long received frames may be.
    fn set_max_packet(&mut self, _bytes: u32) {}

    fn is_paced_by_host(&self) -> bool {
        true
    }

    fn stop(&mut self) {
        init::stop(&self.registers, self.device.as_ref());
    }
}
