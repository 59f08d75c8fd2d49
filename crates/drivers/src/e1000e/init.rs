//! The steps from reset to a device that can be started (82574 datasheet, section 4.6).

use slipring_pci::Bar;
use slipring_port::OpenCause;

use super::regs::*;
use crate::intel::mac;
use crate::intel::regs::*;
use crate::open::wait_for;

/// At most one interrupt every 50 us, that is 20,000 per second. The register counts in units of
/// 256 ns.
const ITR_50_US: u32 = 195;

/// Resets all but the PHY (section 4.6.2).
pub(super) fn reset(bar: &Bar) -> Result<(), OpenCause> {
    mac::reset_express(bar)?;
    wait_for("read its settings", || bar.read32(EECD) & EECD_AUTO_READ_DONE != 0)?;
    mac::quiesce(bar);
    Ok(())
}

/// Brings the link up by the PHY's negotiation, keeps VLAN tags in frames, and writes the settings
/// that do not change while the device runs.
pub(super) fn set_control(bar: &Bar) {
    let control = bar.read32(CTRL) & !(CTRL_FRCSPD | CTRL_FRCDPX | CTRL_VME | CTRL_MASTER_DISABLE);
    bar.write32(CTRL, control | CTRL_SLU | CTRL_ASDE);
    bar.write32(TIPG, TIPG_COPPER);
    bar.write32(TXDCTL, TXDCTL_GRAN | TXDCTL_WTHRESH_1 | TXDCTL_COUNT_DESC);
    bar.write32(TARC0, bar.read32(TARC0) | TARC0_BIT_26);
    bar.write32(RDTR, 0);
    bar.write32(RADV, 0);
    bar.write32(TIDV, 0);
    bar.write32(ITR, ITR_50_US);
}

/// Starts both directions. On the 82574, receiving must not be stopped and started again, so this
/// is done only once.
pub(super) fn start(bar: &Bar, accepts_all: bool) {
    bar.write32(TCTL, TCTL_EN | TCTL_PSP | TCTL_COLLISIONS | TCTL_RTLC | TCTL_MULR);
    bar.write32(RCTL, RCTL_EN | RCTL_LPE | RCTL_SECRC | mac::accepted(accepts_all));
}
