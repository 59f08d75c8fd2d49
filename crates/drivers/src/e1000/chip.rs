//! The running device.

use slipring_pci::{Bar, DeviceMemory, Interrupt, PciDevice};
use slipring_port::{DropCause, Interest};

use super::init;
use crate::chip::{ChipEvents, ChipFault, LinkState, NicChip};
use crate::descriptors::{RxDescriptors, TxDescriptors};
use crate::intel::mac::{self, MacDrops};
use crate::intel::rings::{LegacyRx, LegacyTx};

/// An 82540 or 82545.
pub(super) struct E1000Chip {
    pub(super) bar: Bar,
    pub(super) rx: RxDescriptors<LegacyRx>,
    pub(super) tx: TxDescriptors<LegacyTx>,
    pub(super) interrupt: Interrupt,
    pub(super) drops: MacDrops,
    pub(super) accepts_all: bool,
    pub(super) device: Box<dyn PciDevice>,
    /// What the device accesses: dropped after the device.
    pub(super) _memory: DeviceMemory,
}

impl NicChip for E1000Chip {
    type Rx = RxDescriptors<LegacyRx>;
    type Tx = TxDescriptors<LegacyTx>;

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
        init::start(&self.bar, self.accepts_all);
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
        init::stop(&self.bar, self.device.as_ref());
    }
}
