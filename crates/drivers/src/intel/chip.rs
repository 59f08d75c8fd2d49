//! The running device.

use slipring_pci::{Bar, DeviceMemory, Interrupt, PciDevice};
use slipring_port::{DropCause, Interest};

use super::family::IntelFamily;
use super::mac::{self, MacDrops};
use crate::chip::{ChipEvents, ChipFault, LinkState, NicChip};
use crate::descriptors::{RxDescriptors, TxDescriptors};

/// A chip of a family.
pub(super) struct IntelChip<F: IntelFamily> {
    pub(super) bar: Bar,
    pub(super) rx: RxDescriptors<F::Rx>,
    pub(super) tx: TxDescriptors<F::Tx>,
    pub(super) interrupt: Interrupt,
    pub(super) drops: MacDrops,
    pub(super) accepts_all: bool,
    pub(super) device: Box<dyn PciDevice>,
    /// What the device accesses: dropped after the device.
    pub(super) _memory: DeviceMemory,
}

impl<F: IntelFamily> NicChip for IntelChip<F> {
    type Rx = RxDescriptors<F::Rx>;
    type Tx = TxDescriptors<F::Tx>;

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

    fn start(&mut self) {
        F::start(&self.bar, self.accepts_all);
    }

    fn unmask(&mut self, interest: Interest) -> ChipEvents {
        mac::unmask(&self.bar, interest)
    }

    fn mask(&mut self) -> ChipEvents {
        mac::mask(&self.bar)
    }

    fn probe(&mut self) -> Result<LinkState, ChipFault> {
        mac::link(&self.bar)
    }

    fn count_drops(&mut self, set: &mut dyn FnMut(DropCause, u64)) {
        self.drops.read(&self.bar, self.rx.bad_frames(), set);
    }

    fn set_promiscuous(&mut self, all: bool) {
        self.accepts_all = all;
    }

    fn stop(&mut self) {
        mac::stop(&self.bar, self.device.as_ref());
    }
}
