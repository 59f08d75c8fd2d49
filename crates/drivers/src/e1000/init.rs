//! The steps from reset to a device that can be started (8254x manual, section 14).

use std::time::Duration;

use slipring_pci::Bar;
use slipring_port::OpenCause;

use crate::intel::mac;
use crate::intel::regs::*;

/// Minimum time between two interrupts, in units of 256 ns: about 50 us, so at most 20,000
/// interrupts per second.
const ITR_50_US: u32 = 195;

/// How long the device takes to read its settings after a reset.
const SETTINGS_READ: Duration = Duration::from_millis(5);

/// Resets all but the PHY (section 14.3).
pub(super) fn reset(bar: &Bar) -> Result<(), OpenCause> {
    mac::quiesce(bar);
    mac::reset(bar)?;
    // No register shows when the settings, such as the address, have been read, so this waits long
    // enough.
    std::thread::sleep(SETTINGS_READ);
    mac::quiesce(bar);
    Ok(())
}

/// Brings the link up by the PHY's negotiation, keeps VLAN tags in frames, and writes the settings
/// that do not change while the device runs.
pub(super) fn set_control(bar: &Bar) {
    let control = bar.read32(CTRL) & !(CTRL_FRCSPD | CTRL_FRCDPX | CTRL_VME);
    bar.write32(CTRL, control | CTRL_SLU | CTRL_ASDE);
    bar.write32(TIPG, TIPG_COPPER);
    bar.write32(TXDCTL, TXDCTL_GRAN | TXDCTL_WTHRESH_1);
    bar.write32(RDTR, 0);
    bar.write32(RADV, 0);
    bar.write32(TIDV, 0);
    bar.write32(ITR, ITR_50_US);
}

/// Starts both directions.
pub(super) fn start(bar: &Bar, accepts_all: bool) {
    bar.write32(TCTL, TCTL_EN | TCTL_PSP | TCTL_COLLISIONS | TCTL_RTLC);
    bar.write32(RCTL, RCTL_EN | RCTL_LPE | RCTL_SECRC | mac::accepted(accepts_all));
}
