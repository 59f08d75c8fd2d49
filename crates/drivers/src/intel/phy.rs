//! The PHY of Intel's chips, and the settings of the MAC that depend on the link.
//!
//! With negotiation the MAC takes speed and duplex from the PHY, but not pause: the driver reads
//! what the partner offers once there is a link. Without negotiation, the driver sets all three in
//! the MAC.

use slipring_pci::Bar;
use slipring_port::OpenCause;

use super::regs::*;
use crate::chip::{ChipEvents, ChipFault, LinkState};
use crate::mii::{self, control, offer, status};
use crate::open::{unresponsive, wait_for};
use crate::settings::{Duplex, LinkMode, LinkOffers, LinkPlan};

/// The address of the chip's own PHY on its MDIO bus.
const PHY_ADDRESS: u32 = 1;
/// Registers of [`mii`]: basic control, basic status, the modes that this end offers up to
/// 100 Mbit/s, the modes that the partner offers, and the modes that this end offers for 1 Gbit/s.
const PHY_CONTROL: u32 = 0;
const PHY_STATUS: u32 = 1;
const PHY_OFFER: u32 = 4;
const PHY_PARTNER: u32 = 5;
const PHY_OFFER_1000: u32 = 9;
/// Bits of the control register that must read back as they were written: `KEPT` always,
/// `KEPT_WHEN_FORCED` only if the PHY does not negotiate.
const KEPT: u16 =
    control::LOOPBACK | control::NEGOTIATES | control::POWERED_DOWN | control::ISOLATED;
const KEPT_WHEN_FORCED: u16 = control::SPEED_100 | control::SPEED_1000 | control::FULL_DUPLEX;

/// Fill levels of the receiver at which pauses begin and end, in bytes: half of the smallest
/// receiver's memory (82574: 20 KiB), and 2 KiB less.
const PAUSE_AT: u32 = 10 * 1024;
const RESUME_AT: u32 = 8 * 1024;
/// The type and the destination of pause frames (IEEE 802.3, 31B), in the form in which the
/// registers contain them.
const PAUSE_TYPE: u32 = 0x8808;
const PAUSE_ADDRESS: [u32; 2] = [0x00c2_8001, 0x0100];
/// How long a pause lasts unless it is ended earlier, in units of 512 bit times: the maximum.
const PAUSE_TIME: u32 = 0xffff;

/// Sets PHY and MAC. Also wakes the PHY, which the kernel's driver powers down when it leaves the
/// device. `forces_by_reset`: see [`super::IntelFamily::forces_by_reset`].
pub(crate) fn set_link(bar: &Bar, plan: &LinkPlan, forces_by_reset: bool) -> Result<(), OpenCause> {
    set_pause_levels(bar);
    let control = bar.read32(CTRL) & !(CTRL_LINK_MODE | CTRL_RFCE | CTRL_TFCE);
    match &plan.mode {
        LinkMode::Negotiated(offers) => {
            bar.write32(CTRL, control | CTRL_SLU | CTRL_ASDE);
            set_offers(bar, offers, plan.pause)?;
            write_control(bar, mii::control_of(&plan.mode))
        }
        LinkMode::Forced { speed_mbit, duplex } => {
            let forced = CTRL_SLU | CTRL_FRCSPD | CTRL_FRCDPX;
            let speed = if *speed_mbit == 100 { CTRL_SPEED_100 } else { 0 };
            let duplex = if *duplex == Duplex::Full { CTRL_FD } else { 0 };
            let pause = if plan.pause { CTRL_RFCE | CTRL_TFCE } else { 0 };
            bar.write32(CTRL, control | forced | speed | duplex | pause);
            let reset = if forces_by_reset { control::RESET } else { 0 };
            write_control(bar, reset | mii::control_of(&plan.mode))
        }
    }
}

fn set_offers(bar: &Bar, offers: &LinkOffers, pause: bool) -> Result<(), OpenCause> {
    write(bar, PHY_OFFER, mii::offer_of(offers, pause))?;
    write(bar, PHY_OFFER_1000, mii::offer_1000_of(offers, read(bar, PHY_OFFER_1000)?))
}

/// Writes the control register. Returns an error if the PHY does not keep the value.
fn write_control(bar: &Bar, value: u16) -> Result<(), OpenCause> {
    write(bar, PHY_CONTROL, value)?;
    let read_back = || read(bar, PHY_CONTROL);
    let is_over = || read_back().is_ok_and(|now| now & control::RESET == 0);
    wait_for("end the reset of its PHY", is_over)?;
    let forced = if value & control::NEGOTIATES == 0 { KEPT_WHEN_FORCED } else { 0 };
    if (read_back()? ^ value) & (KEPT | forced) != 0 {
        return Err(unresponsive("keep the settings of its PHY"));
    }
    Ok(())
}

/// Sets the registers that are the same for all links with pause frames. They have no effect before
/// the control register enables pause frames.
fn set_pause_levels(bar: &Bar) {
    bar.write32(FCAL, PAUSE_ADDRESS[0]);
    bar.write32(FCAH, PAUSE_ADDRESS[1]);
    bar.write32(FCT, PAUSE_TYPE);
    bar.write32(FCTTV, PAUSE_TIME);
    bar.write32(FCRTL, RESUME_AT | FCRTL_XONE);
    bar.write32(FCRTH, PAUSE_AT);
}

/// Switches pause frames on or off for each new link, as both ends have negotiated.
///
/// An access to the PHY takes long, and the thread that probes is the one that moves frames. So
/// once pause frames are switched, the PHY is read only after the chip has signalled a change of
/// the link. In a program that never sleeps, no change is signalled: there, a link is new if a
/// probe has found the link down before.
#[derive(Debug, Default)]
pub(crate) struct NegotiatedPause {
    /// Whether this end offers pause frames. If it does not, nothing must be switched.
    is_offered: bool,
    is_up: bool,
    /// Whether pause frames have been switched on or off for the present link, as negotiated.
    is_resolved: bool,
    /// Whether the chip has signalled a change of the link since the last probe.
    has_changed: bool,
}

impl NegotiatedPause {
    /// Starts with a link that has new settings, which both ends may still have to negotiate.
    pub(crate) fn new(plan: &LinkPlan) -> Self {
        let is_offered = plan.pause && plan.is_negotiated();
        Self { is_offered, ..Self::default() }
    }

    /// Notes a change of the link for the next call of [`Self::follow`]. Returns `events`.
    pub(crate) fn note(&mut self, events: ChipEvents) -> ChipEvents {
        self.has_changed |= events.wants_probe;
        events
    }

    /// If the link is a new one and its negotiation is complete, switches pause frames on or off as
    /// negotiated.
    pub(crate) fn follow(&mut self, bar: &Bar, link: LinkState) {
        let has_changed = std::mem::take(&mut self.has_changed);
        self.is_up = link.is_up;
        self.is_resolved &= link.is_up;
        if !self.is_offered || !link.is_up || self.is_resolved && !has_changed {
            return;
        }
        // If the PHY does not answer, pause frames stay as they are, but are switched off for a new
        // link.
        let (now, answers) = match read(bar, PHY_STATUS) {
            Ok(now) => (now, true),
            Err(_) => (status::NEGOTIATED | status::LINK_STAYED_UP, false),
        };
        // The link may have gone down and come up with another partner since the last probe. If so,
        // the pause frames of the new link have not been switched yet.
        self.is_resolved &= now & status::LINK_STAYED_UP != 0;
        if !self.is_resolved && now & status::NEGOTIATED != 0 {
            switch_pause(bar, link.is_full_duplex && answers && is_offered_by_partner(bar));
            self.is_resolved = true;
        }
    }

    /// Whether the link is up, but its negotiation was not complete at the last call of
    /// [`Self::follow`].
    pub(crate) fn is_pending(&self) -> bool {
        self.is_offered && self.is_up && !self.is_resolved
    }
}

/// Returns whether the partner offers pause frames.
fn is_offered_by_partner(bar: &Bar) -> bool {
    read(bar, PHY_PARTNER).is_ok_and(|partner| partner & offer::PAUSE != 0)
}

/// Switches pause frames on or off.
fn switch_pause(bar: &Bar, pauses: bool) {
    let control = bar.read32(CTRL) & !(CTRL_RFCE | CTRL_TFCE);
    bar.write32(CTRL, control | if pauses { CTRL_RFCE | CTRL_TFCE } else { 0 });
}

fn read(bar: &Bar, register: u32) -> Result<u16, OpenCause> {
    access(bar, MDIC_READ, register, 0)
}

fn write(bar: &Bar, register: u32, value: u16) -> Result<(), OpenCause> {
    access(bar, MDIC_WRITE, register, value).map(drop)
}

fn access(bar: &Bar, operation: u32, register: u32, value: u16) -> Result<u16, OpenCause> {
    bar.write32(MDIC, operation | PHY_ADDRESS << 21 | register << 16 | u32::from(value));
    wait_for("give access to its PHY", || bar.read32(MDIC) & MDIC_READY != 0)?;
    match bar.read32(MDIC) {
        u32::MAX => Err(ChipFault::Gone.into()),
        value if value & MDIC_ERROR != 0 => Err(unresponsive("give access to its PHY")),
        value => Ok(value as u16),
    }
}

#[cfg(test)]
mod tests;
