//! The running device.

use slipring_pci::{Bar, DeviceMemory, Interrupt, PciDevice};
use slipring_port::{DropCause, Interest, OpenCause};

use super::family::IntelFamily;
use super::mac::{self, MacDrops};
use super::phy::{self, NegotiatedPause};
use crate::chip::{ChipEvents, ChipFault, LinkState, NicChip};
use crate::descriptors::{RxDescriptors, TxDescriptors};
use crate::settings::{LinkAbilities, LinkPlan};

/// A chip of a family.
pub(super) struct IntelChip<F: IntelFamily> {
    pub(super) bar: Bar,
    pub(super) rx: RxDescriptors<F::Rx>,
    pub(super) tx: TxDescriptors<F::Tx>,
    pub(super) interrupt: Interrupt,
    pub(super) drops: MacDrops,
    /// The link settings that the chip supports.
    pub(super) abilities: LinkAbilities,
    pub(super) pause: NegotiatedPause,
    /// Whether the PHY must be reset to take over a speed that is set without negotiation.
    pub(super) forces_by_reset: bool,
    pub(super) device: Box<dyn PciDevice>,
    /// The memory that the device accesses. It is dropped after the device.
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

    fn start(&mut self, accepts_all: bool) -> Result<(), OpenCause> {
        F::start(&self.bar, accepts_all);
        Ok(())
    }

    fn unmask(&mut self, interest: Interest) -> ChipEvents {
        self.pause.note(mac::unmask(&self.bar, interest))
    }

    fn mask(&mut self) -> ChipEvents {
        self.pause.note(mac::mask(&self.bar))
    }

    fn probe(&mut self) -> Result<LinkState, ChipFault> {
        let link = mac::link(&self.bar)?;
        mac::check_running(&self.bar)?;
        self.pause.follow(&self.bar, link);
        Ok(link)
    }

    fn is_settling(&self) -> bool {
        self.pause.is_pending()
    }

    fn count_drops(&mut self, set: &mut dyn FnMut(DropCause, u64)) {
        self.drops.read(&self.bar, self.rx.bad_frames(), set);
    }

    fn set_promiscuous(&mut self, all: bool) -> Result<(), OpenCause> {
        mac::set_accepted(&self.bar, all);
        Ok(())
    }

    fn abilities(&self) -> LinkAbilities {
        self.abilities
    }

    fn set_link(&mut self, plan: &LinkPlan) -> Result<(), OpenCause> {
        self.pause = NegotiatedPause::new(plan);
        phy::set_link(&self.bar, plan, self.forces_by_reset)
    }

    fn set_max_packet(&mut self, bytes: u32) {
        F::set_max_packet(&self.bar, bytes);
    }

    fn stop(&mut self) {
        mac::stop(&self.bar, self.device.as_ref(), F::IS_EXPRESS);
    }
}
