//! The steps from reset to a device that can be started (82576 datasheet, section 4.5).

use std::time::Duration;

use slipring_pci::Bar;
use slipring_port::OpenCause;

use super::regs::*;
use crate::intel::mac;
use crate::intel::regs::*;
use crate::open::wait_for;

/// Longest frame that the device receives.
const MAX_FRAME_WITH_CRC: u32 = 9728;

/// Bytes of a frame's checksum.
const CRC_BYTES: u32 = 4;
/// At most one interrupt every 50 us, that is 20,000 per second. The register counts in us, from
/// bit 2 on.
const EITR_50_US: u32 = 50 << 2;

/// How many times to check whether the device has read its settings. With
/// `SETTINGS_POLL_INTERVAL`, this takes at least 20 ms, twice as long as the device needs.
const SETTINGS_POLLS: u32 = 20;
/// The time between two such checks.
const SETTINGS_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Resets all but the PHY (section 4.3).
pub(super) fn reset(bar: &Bar) -> Result<(), OpenCause> {
    mac::reset_express(bar)?;
    wait_for_settings(bar);
    mac::quiesce(bar);
    Ok(())
}

/// Waits until the device has read its settings. A device without an EEPROM never reports this;
/// then the wait ends and the device works without settings.
fn wait_for_settings(bar: &Bar) {
    for _ in 0..SETTINGS_POLLS {
        if bar.read32(EECD) & EECD_AUTO_READ_DONE != 0 {
            return;
        }
        std::thread::sleep(SETTINGS_POLL_INTERVAL);
    }
}

/// Brings the link up by the PHY's negotiation, keeps VLAN tags in frames, and writes the settings
/// that do not change while the device runs.
pub(super) fn set_control(bar: &Bar) {
    let control = bar.read32(CTRL) & !(CTRL_FRCSPD | CTRL_FRCDPX | CTRL_VME | CTRL_MASTER_DISABLE);
    bar.write32(CTRL, control | CTRL_SLU | CTRL_ASDE);
    bar.write32(TIPG, TIPG_COPPER);
    bar.write32(RLPML, MAX_FRAME_WITH_CRC);
    bar.write32(EITR0, EITR_50_US);
}

/// Sets the longest frame that is received, in bytes without CRC.
pub(super) fn set_max_packet(bar: &Bar, bytes: u32) {
    bar.write32(RLPML, (bytes + CRC_BYTES).min(MAX_FRAME_WITH_CRC));
}

/// Starts both directions, and then enables the queues. If a tail register is written before its
/// queue is enabled, the value is lost.
pub(super) fn start(bar: &Bar, accepts_all: bool) {
    bar.write32(TCTL, TCTL_EN | TCTL_PSP | TCTL_COLLISIONS | TCTL_RTLC);
    bar.write32(RCTL, RCTL_EN | RCTL_LPE | RCTL_SECRC | mac::accepted(accepts_all));
    for control in [RXDCTL, TXDCTL] {
        bar.write32(control, XDCTL_THRESHOLDS | XDCTL_ENABLE);
        // An error is ignored: if the queue is never enabled, nothing is sent, and the port ends
        // because it is stuck.
        let _ = wait_for("turn a queue on", || bar.read32(control) & XDCTL_ENABLE != 0);
    }
}
