//! What the drivers of Intel's chips do in the same way: address, filters, link, PHY, statistics.

use std::time::Duration;

use slipring_pci::Bar;
use slipring_port::{DropCause, Interest, OpenCause, now};

use super::regs::*;
use crate::chip::{ChipEvents, ChipFault, LinkState};
use crate::open::unresponsive;

/// How long the device may take for a reset or an access to its PHY.
const RESPONSE_TIMEOUT_NS: u64 = 2_000_000_000;
/// How long to sleep between two looks at a register.
const POLL_INTERVAL: Duration = Duration::from_micros(100);
/// The address of the chip's own PHY on its MDIO bus.
const PHY_ADDRESS: u32 = 1;
/// PHY: basic control (IEEE 802.3, 22.2.4.1).
const PHY_CONTROL: u32 = 0;
/// PHY: sleeps.
const PHY_POWER_DOWN: u32 = 1 << 11;
/// PHY: negotiates again.
const PHY_RESTART_NEGOTIATION: u32 = 1 << 9;
/// PHY: negotiates speed and duplex.
const PHY_NEGOTIATES: u32 = 1 << 12;

/// Waits until `is_done`. Looks again when time is up, in case this process was not running.
pub(crate) fn wait_for(what: &str, is_done: impl Fn() -> bool) -> Result<(), OpenCause> {
    let start = now();
    while !is_done() {
        if now() - start > RESPONSE_TIMEOUT_NS {
            return if is_done() { Ok(()) } else { Err(unresponsive(what)) };
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Reads the hardware address that a reset has loaded from the device's memory.
pub(crate) fn read_mac(bar: &Bar) -> Result<[u8; 6], OpenCause> {
    let [low, high] = [bar.read32(RAL0), bar.read32(RAH0)];
    if (low, high) == (u32::MAX, u32::MAX) {
        return Err(ChipFault::Gone.into());
    }
    let [a, b, c, d] = low.to_le_bytes();
    let [e, f, ..] = high.to_le_bytes();
    let mac = [a, b, c, d, e, f];
    // A multicast or zero address means that the memory is empty.
    if mac == [0; 6] || a & 1 != 0 {
        return Err(unresponsive("have a hardware address"));
    }
    Ok(mac)
}

/// Accepts the device's own address, and no multicast address by its hash.
pub(crate) fn reset_filters(bar: &Bar, mac: [u8; 6]) {
    let [a, b, c, d, e, f] = mac;
    bar.write32(RAL0, u32::from_le_bytes([a, b, c, d]));
    bar.write32(RAH0, u32::from_le_bytes([e, f, 0, 0]) | RAH_VALID);
    for word in 0..MTA_WORDS {
        bar.write32(MTA + 4 * word, 0);
    }
}

/// The bits of the receive control register for what a port accepts. Multicasts are always
/// accepted, because a program of netmap sees all of them.
pub(crate) const fn accepted(all: bool) -> u32 {
    RCTL_BAM | RCTL_MPE | if all { RCTL_UPE } else { 0 }
}

/// Reads the link from the status register.
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

/// Wakes the PHY, which the kernel's driver powers down when it leaves the device, and makes it
/// negotiate again.
pub(crate) fn wake_phy(bar: &Bar) -> Result<(), OpenCause> {
    let control = phy_access(bar, MDIC_READ, PHY_CONTROL, 0)?;
    let woken = (control & !PHY_POWER_DOWN) | PHY_NEGOTIATES | PHY_RESTART_NEGOTIATION;
    phy_access(bar, MDIC_WRITE, PHY_CONTROL, woken).map(drop)
}

fn phy_access(bar: &Bar, operation: u32, register: u32, value: u32) -> Result<u32, OpenCause> {
    bar.write32(MDIC, operation | PHY_ADDRESS << 21 | register << 16 | value);
    wait_for("give access to its PHY", || bar.read32(MDIC) & MDIC_READY != 0)?;
    match bar.read32(MDIC) {
        u32::MAX => Err(ChipFault::Gone.into()),
        value if value & MDIC_ERROR != 0 => Err(unresponsive("give access to its PHY")),
        value => Ok(value & 0xffff),
    }
}

/// Acknowledges all causes and unmasks those of `interest`.
pub(crate) fn unmask(bar: &Bar, interest: Interest) -> ChipEvents {
    let events = acknowledge(bar);
    let rx = if interest.rx { CAUSE_RXT0 | CAUSE_RXO | CAUSE_RXDMT0 } else { 0 };
    let tx = if interest.tx { CAUSE_TXDW } else { 0 };
    bar.write32(IMS, rx | tx | CAUSE_LSC);
    events
}

/// Masks all causes and acknowledges them.
pub(crate) fn mask(bar: &Bar) -> ChipEvents {
    bar.write32(IMC, u32::MAX);
    acknowledge(bar)
}

/// Reading the causes acknowledges them. All ones mean that the device is gone, and want a probe
/// as well.
fn acknowledge(bar: &Bar) -> ChipEvents {
    ChipEvents { wants_probe: bar.read32(ICR) & CAUSE_LSC != 0 }
}

/// Totals of the device's counters, which reading clears.
#[derive(Debug, Default)]
pub(crate) struct MacDrops {
    missed: u64,
    damaged: u64,
    too_long: u64,
}

impl MacDrops {
    /// Adds what the device has counted since the last call. A device that is gone adds nothing.
    /// `bad_frames` are those that the driver has dropped.
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
