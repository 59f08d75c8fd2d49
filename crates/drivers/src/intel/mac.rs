//! What the drivers of Intel's chips do in the same way: address, filters, link, statistics.

use slipring_pci::{Bar, PciDevice, config};
use slipring_port::{DropCause, Interest, OpenCause};

use super::regs::*;
use crate::chip::{ChipEvents, ChipFault, LinkState};
use crate::open::{unresponsive, wait_for};

/// The longest frame of an MTU of 1500 bytes: with a VLAN tag, without CRC.
const MAX_SHORT_PACKET: u32 = 1518;

/// Masks all interrupts, acknowledges them, and stops both directions.
pub(crate) fn quiesce(bar: &Bar) {
    bar.write32(IMC, u32::MAX);
    bar.write32(RCTL, 0);
    bar.write32(TCTL, TCTL_PSP);
    // Reading also makes sure that the device has received the earlier writes.
    let _ = bar.read32(ICR);
}

/// Resets all but the PHY of a PCI Express chip. Afterwards, the chip still has to read its
/// settings.
pub(crate) fn reset_express(bar: &Bar) -> Result<(), OpenCause> {
    quiesce(bar);
    end_accesses(bar);
    reset(bar)
}

/// Makes a PCI Express chip end its accesses to memory, and waits for the last one. A reset during
/// an access can hang the bus (82574, 5.2.3.1; 82576, 5.2.3.3). If the accesses do not end in time,
/// the chip must be reset nevertheless.
fn end_accesses(bar: &Bar) {
    bar.write32(CTRL, bar.read32(CTRL) | CTRL_MASTER_DISABLE);
    let has_ended = || {
        let status = bar.read32(STATUS);
        // A removed device reads as all ones, and accesses nothing.
        status & STATUS_MASTER_ENABLED == 0 || status == u32::MAX
    };
    let _ = wait_for("end its accesses to memory", has_ended);
}

/// Resets all but the PHY. Afterwards, the chip still has to read its settings.
pub(crate) fn reset(bar: &Bar) -> Result<(), OpenCause> {
    bar.write32(CTRL, bar.read32(CTRL) | CTRL_RST);
    wait_for("come out of its reset", || bar.read32(CTRL) & CTRL_RST == 0)
}

/// Stops the device. It no longer accesses memory afterwards.
pub(crate) fn stop(bar: &Bar, device: &dyn PciDevice, is_express: bool) {
    quiesce(bar);
    if is_express {
        end_accesses(bar);
    }
    bar.write32(CTRL, bar.read32(CTRL) | CTRL_RST);
    // An error cannot be handled; closing the device also stops it.
    let _ = config::stop_bus_master(device);
}

/// Reads the hardware address that a reset has loaded from the device's EEPROM.
pub(crate) fn read_mac(bar: &Bar) -> Result<[u8; 6], OpenCause> {
    let [low, high] = [bar.read32(RAL0), bar.read32(RAH0)];
    if (low, high) == (u32::MAX, u32::MAX) {
        return Err(ChipFault::Gone.into());
    }
    let [a, b, c, d] = low.to_le_bytes();
    let [e, f, ..] = high.to_le_bytes();
    let mac = [a, b, c, d, e, f];
    // A multicast or zero address means that the EEPROM is empty.
    if mac == [0; 6] || a & 1 != 0 {
        return Err(unresponsive("have a hardware address"));
    }
    Ok(mac)
}

/// Accepts frames to the device's own address, and no multicast addresses by hash.
pub(crate) fn reset_filters(bar: &Bar, mac: [u8; 6]) {
    let [a, b, c, d, e, f] = mac;
    bar.write32(RAL0, u32::from_le_bytes([a, b, c, d]));
    bar.write32(RAH0, u32::from_le_bytes([e, f, 0, 0]) | RAH_VALID);
    for word in 0..MTA_WORDS {
        bar.write32(MTA + 4 * word, 0);
    }
}

/// Sets whether the device receives long frames: it does if `bytes` is more than the longest frame
/// of an MTU of 1500 bytes.
pub(crate) fn set_long_frames(bar: &Bar, bytes: u32) {
    let control = bar.read32(RCTL) & !RCTL_LPE;
    bar.write32(RCTL, control | if bytes > MAX_SHORT_PACKET { RCTL_LPE } else { 0 });
}

/// Sets whether a running device accepts all frames. Receiving continues meanwhile, because it must
/// not be stopped and started again on the 82574.
pub(crate) fn set_accepted(bar: &Bar, all: bool) {
    let control = bar.read32(RCTL) & !RCTL_UPE;
    bar.write32(RCTL, control | accepted(all));
}

/// The bits of the receive control register for what a port accepts. Multicasts are always
/// accepted, because a netmap program sees all of them.
pub(crate) const fn accepted(all: bool) -> u32 {
    RCTL_BAM | RCTL_MPE | if all { RCTL_UPE } else { 0 }
}

/// Returns an error if the receiver is off, although a driver has switched it on.
pub(crate) fn check_running(bar: &Bar) -> Result<(), ChipFault> {
    if bar.read32(RCTL) & RCTL_EN == 0 { Err(ChipFault::Reset) } else { Ok(()) }
}

/// Reads the state of the link from the status register.
pub(crate) fn link(bar: &Bar) -> Result<LinkState, ChipFault> {
    let status = bar.read32(STATUS);
    if status == u32::MAX {
        return Err(ChipFault::Gone);
    }
    let mbit_per_s = match status >> 6 & 3 {
        0 => 10,
        1 => 100,
        _ => 1000,
    };
    Ok(LinkState {
        is_up: status & STATUS_LU != 0,
        mbit_per_s,
        is_full_duplex: status & STATUS_FD != 0,
    })
}

/// Acknowledges all causes, unmasks those of `interest`, and returns the acknowledged events.
pub(crate) fn unmask(bar: &Bar, interest: Interest) -> ChipEvents {
    let events = acknowledge(bar);
    let rx = if interest.rx { CAUSE_RXT0 | CAUSE_RXO | CAUSE_RXDMT0 } else { 0 };
    let tx = if interest.tx { CAUSE_TXDW } else { 0 };
    bar.write32(IMS, rx | tx | CAUSE_LSC);
    events
}

/// Masks all causes and acknowledges them. Returns the acknowledged events.
pub(crate) fn mask(bar: &Bar) -> ChipEvents {
    bar.write32(IMC, u32::MAX);
    acknowledge(bar)
}

/// Acknowledges the causes by reading them, and returns whether the link must be probed. If the
/// device was removed, all bits read as 1, so the link is probed, which finds the removal.
fn acknowledge(bar: &Bar) -> ChipEvents {
    ChipEvents { wants_probe: bar.read32(ICR) & CAUSE_LSC != 0 }
}

/// Totals of the device's counters. Reading a counter clears it in the device.
#[derive(Debug, Default)]
pub(crate) struct MacDrops {
    missed: u64,
    damaged: u64,
    too_long: u64,
}

impl MacDrops {
    /// Adds the device's counts since the last call, and passes the totals to `set`. A removed
    /// device adds nothing. `bad_frames` is the number of frames that the driver has dropped.
    pub(crate) fn read(&mut self, bar: &Bar, bad_frames: u64, set: &mut dyn FnMut(DropCause, u64)) {
        let count = |register| match bar.read32(register) {
            u32::MAX => 0,
            count => u64::from(count),
        };
        self.missed += count(MPC);
        self.damaged += count(CRCERRS) + count(RXERRC) + count(RUC);
        self.too_long += count(ROC);
        set(DropCause::RxNoBuffer, self.missed);
        set(DropCause::RxMalformed, self.damaged + bad_frames);
        set(DropCause::RxTooLong, self.too_long);
    }
}
