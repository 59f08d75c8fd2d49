//! Initialises, starts and stops the chip.
//!
//! ```text
//!   stop_chip    masks, closes the gate to the receiver, waits for the FIFOs, stops, resets
//!   leave_oob    takes the FIFOs from the management controller
//!   configure    what the chip forgets at a reset; rings
//!   start        opens the gate, starts both engines
//! ```
//! A chip may still be running when a port is opened, because the process that drove it was killed.
//! So it is stopped before it becomes a bus master, and its ring addresses are written while its
//! engines are off.
//!
//! The tables are those of Realtek's driver in DPDK, `drivers/net/r8169` (BSD-3-Clause, Copyright
//! (c) 2024 Realtek Corporation), as far as they are not about offloads, wake on LAN and energy
//! saving. Patches of the chip's PHY and controller are not loaded: the kernel's driver has done
//! that before, and a reset of the chip keeps them.

use std::thread::sleep;
use std::time::Duration;

use super::ids::RtlChipId;
use super::regs::{self, Registers, at, wait};

/// A change of a word of the MAC's bus: address, bits to clear, bits to set.
type OcpChange = (u16, u16, u16);

/// RTL8168h: the management controller's clock and power states.
const OCP_8168H: &[OcpChange] = &[
    (0xe056, 0x00f0, 0),
    (0xe052, 0x6000, 0x8008),
    (0xe0d6, 0x01ff, 0x017f),
    (0xd420, 0x0fff, 0x047f),
    (0xe63e, 0xffff, 0x0001),
    (0xe63e, 0xffff, 0),
    (0xc094, 0xffff, 0),
    (0xc09e, 0xffff, 0),
];

/// RTL8125: the words before those that differ between A and B.
const OCP_8125: &[OcpChange] = &[
    (0xd40a, 0x0010, 0),
    (0xc140, 0xffff, 0xffff),
    (0xc142, 0xffff, 0xffff),
    (0xd3e2, 0x0fff, 0x03a9),
    (0xd3e4, 0x00ff, 0),
    (0xe860, 0, 0x0080),
    // Selects the format of transmit descriptors that all chips support.
    (0xeb58, 0x0001, 0),
];

/// RTL8125A: fetching of descriptors.
const OCP_8125A: &[OcpChange] = &[(0xe614, 0x0700, 0x0300), (0xe63e, 0x0c30, 0x0020)];

/// RTL8125B: fetching of descriptors.
const OCP_8125B: &[OcpChange] = &[(0xe614, 0x0700, 0x0200), (0xe63e, 0x0c30, 0)];

/// RTL8125: the words after those that differ between A and B. The last two clear the address
/// filter (TCAM).
const OCP_8125_REST: &[OcpChange] = &[
    (0xc0b4, 0, 0x000c),
    (0xeb6a, 0x00ff, 0x0033),
    (0xeb50, 0x03e0, 0x0040),
    (0xe056, 0x00f0, 0),
    (0xe040, 0x1000, 0),
    (0xea1c, 0x0003, 0x0001),
    (0xea1c, 0x0004, 0),
    (0xe0c0, 0x4f0f, 0x4403),
    (0xe052, 0x0080, 0x0068),
    (0xd430, 0x0fff, 0x047f),
    (0xeb54, 0, 0x0001),
    (0xeb54, 0x0001, 0),
];

/// The longest frame that the chip can be configured to receive, in bytes with its checksum.
const MAX_RX_SIZE: u16 = 0x3fff;

/// The step at which a chip did not answer in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimedOut(pub(super) &'static str);

/// The rings' addresses, as the device uses them.
#[derive(Debug, Clone, Copy)]
pub(super) struct RingAddresses {
    pub(super) tx: u64,
    pub(super) rx: u64,
}

/// Stops and resets the chip, whatever it is doing.
pub(super) fn stop_chip(registers: &Registers) -> Result<(), TimedOut> {
    registers.set_mask(0);
    registers.acknowledge(u32::MAX);
    registers.modify32(at::RX_CONFIG, 0x3f, 0);
    close_gate(registers);
    registers.modify8(at::COMMAND, regs::COMMAND_RX | regs::COMMAND_TX, 0);
    sleep(Duration::from_millis(1));
    registers.bar.write8(at::COMMAND, regs::COMMAND_RESET);
    let is_reset = || registers.bar.read8(at::COMMAND) & regs::COMMAND_RESET == 0;
    if wait(100, is_reset) { Ok(()) } else { Err(TimedOut("finish its reset")) }
}

/// Stops the receiver and waits until both FIFOs are empty. A chip whose FIFOs do not drain is
/// reset nevertheless.
fn close_gate(registers: &Registers) {
    registers.modify32(at::MISC, 0, regs::MISC_RX_GATE);
    sleep(Duration::from_millis(2));
    let bar = &registers.bar;
    if registers.chip == RtlChipId::Rtl8125b {
        registers.modify8(at::COMMAND, 0, regs::COMMAND_STOP);
    }
    if !registers.chip.is_8125() {
        wait(42, || bar.read32(at::TX_CONFIG) & regs::TX_CONFIG_EMPTY != 0);
    }
    let empty = regs::MCU_FIFOS_EMPTY;
    wait(42, || bar.read8(at::MCU) & empty == empty);
    if registers.chip == RtlChipId::Rtl8125b {
        // On this chip, the register of interrupt moderation shows the state of the FIFOs.
        wait(42, || bar.read16(at::MITIGATE) & 0x0103 == 0x0103);
    }
}

/// Takes the FIFOs from the management controller, which owns them while there is no driver.
pub(super) fn leave_oob(registers: &Registers) -> Result<(), TimedOut> {
    let is_ready = || registers.bar.read8(at::MCU) & regs::MCU_LIST_READY != 0;
    let ready = || if wait(42, is_ready) { Ok(()) } else { Err(TimedOut("hand over its FIFOs")) };
    registers.modify8(at::MCU, regs::MCU_OUT_OF_BAND, 0);
    registers.mac_ocp_modify(0xe8de, 1 << 14, 0);
    ready()?;
    if registers.chip.is_8125() {
        registers.mac_ocp_write(0xc0aa, 0x07d0);
        registers.mac_ocp_write(0xc0a6, 0x0150);
        registers.mac_ocp_write(0xc01e, 0x5555);
    } else {
        registers.mac_ocp_modify(0xe8de, 0, 1 << 15);
    }
    ready()
}

/// Configures a stopped chip.
pub(super) fn configure(
    registers: &Registers,
    mac: [u8; 6],
    rings: RingAddresses,
    moderation: u16,
) -> Result<(), TimedOut> {
    registers.bar.write8(at::LOCK, regs::UNLOCKED);
    // Switches off ASPM, because frames are lost while the PCIe link wakes up. Also switches off
    // the clock request by which that link would wake up.
    registers.modify8(at::CONFIG5, 1, 0);
    registers.modify8(at::CONFIG2, 0x80, 0);
    // No offload: neither checksums nor VLAN tags.
    registers.bar.write16(at::CPLUS_COMMAND, 0);
    let done = match registers.chip {
        RtlChipId::Rtl8168g | RtlChipId::Rtl8168h => {
            configure_8168(registers, moderation);
            Ok(())
        }
        RtlChipId::Rtl8125a | RtlChipId::Rtl8125b => configure_8125(registers, moderation),
    };
    // The chip reports longer frames as errors. No buffer is too short, because a frame may take
    // several buffers.
    registers.bar.write16(at::RX_MAX_SIZE, MAX_RX_SIZE);
    write_address(registers, at::TX_RING_LOW, at::TX_RING_HIGH, rings.tx);
    write_address(registers, at::RX_RING_LOW, at::RX_RING_HIGH, rings.rx);
    write_mac(registers, mac);
    registers.bar.write8(at::LOCK, 0);
    done
}

/// Writes an address: the high word first, because the chip takes the address when the low word is
/// written.
fn write_address(registers: &Registers, low: u64, high: u64, address: u64) {
    registers.bar.write32(high, (address >> 32) as u32);
    registers.bar.write32(low, address as u32);
}

/// Sets the address for which the receiver accepts frames. The chip only accepts 32-bit writes.
fn write_mac(registers: &Registers, mac: [u8; 6]) {
    let [a, b, c, d, e, f] = mac;
    registers.bar.write32(at::MAC + 4, u32::from_le_bytes([e, f, 0, 0]));
    let _ = registers.bar.read8(at::COMMAND);
    registers.bar.write32(at::MAC, u32::from_le_bytes([a, b, c, d]));
}

fn configure_8168(registers: &Registers, moderation: u16) {
    registers.bar.write8(at::MAX_TX, 0x27);
    // Sizes of the FIFOs, and the fill levels at which pause frames begin and end.
    registers.eri_write(0xc8, 0xf, 0x0008_0002);
    registers.eri_write(0xe8, 0xf, 0x0010_0006);
    registers.eri_write(0xcc, 0x1, 0x38);
    registers.eri_write(0xd0, 0x1, 0x48);
    // Resets the address filter.
    registers.eri_modify(0xdc, 1, 0);
    registers.eri_modify(0xdc, 0, 1);
    if registers.chip == RtlChipId::Rtl8168h {
        registers.eri_modify(0xdc, 0, 0x1c);
        registers.eri_write(0x5f0, 0x3, 0x4f87);
    } else {
        registers.eri_write(0x2f8, 0x3, 0x1d8f);
    }
    registers.eri_write(0xc0, 0x3, 0);
    registers.eri_write(0xb8, 0x3, 0);
    if registers.chip == RtlChipId::Rtl8168h {
        registers.modify8(at::DLL, 0xc0, 0);
        registers.modify8(at::MISC_1, 0x40, 0);
        apply(registers, OCP_8168H);
    } else {
        registers.eri_modify(0x2fc, 0x06, 0x01);
    }
    registers.eri_modify(0x1b0, 1 << 12, 0);
    // Prevents the deepest sleep state of the PCIe link, in which the chip does not notice a reset.
    registers.modify8(at::CONFIG3, 0x02, 0);
    registers.bar.write16(at::MITIGATE, moderation);
}

fn configure_8125(registers: &Registers, moderation: u16) -> Result<(), TimedOut> {
    let bar = &registers.bar;
    bar.write8(at::INTERRUPT_CONFIG0, 0);
    for timer in at::MODERATION.step_by(4) {
        bar.write32(timer, 0);
    }
    if registers.chip == RtlChipId::Rtl8125b {
        bar.write16(at::INTERRUPT_CONFIG1, 0);
    }
    // The low half of the timer of the first source contains the delay.
    bar.write32(at::MODERATION.start, moderation.into());
    registers.modify8(at::CONFIG3, 0x02, 0);
    bar.write16(0x382, 0x221b);
    // One queue, without receive-side scaling.
    bar.write8(0x4500, 0);
    bar.write16(0x4800, 0);
    registers.modify8(at::CONFIG1, 0x10, 0);
    apply(registers, OCP_8125);
    apply(registers, if registers.chip == RtlChipId::Rtl8125b { OCP_8125B } else { OCP_8125A });
    apply(registers, OCP_8125_REST);
    bar.write16(0x1880, bar.read16(0x1880) & !0x0030);
    registers.mac_ocp_write(0xe098, 0xc302);
    let is_ready = || registers.mac_ocp_read(0xe00e) & 1 << 13 == 0;
    if wait(100, is_ready) { Ok(()) } else { Err(TimedOut("start its controller")) }
}

fn apply(registers: &Registers, changes: &[OcpChange]) {
    for &(address, clear, set) in changes {
        registers.mac_ocp_modify(address, clear, set);
    }
}

/// Returns whether both engines run.
pub(super) fn is_running(registers: &Registers) -> bool {
    let both = regs::COMMAND_RX | regs::COMMAND_TX;
    registers.bar.read8(at::COMMAND) & both == both
}

/// Starts both engines. The modes of the receiver and the transmitter are written afterwards,
/// because the chip ignores them before.
pub(super) fn start(registers: &Registers, rx_mode: u32) {
    registers.modify32(at::MISC, regs::MISC_RX_GATE, 0);
    // A read makes sure that the writes have arrived.
    let _ = registers.bar.read8(at::COMMAND);
    registers.bar.write8(at::COMMAND, regs::COMMAND_RX | regs::COMMAND_TX);
    let fifo = match registers.chip {
        RtlChipId::Rtl8168g | RtlChipId::Rtl8168h => 0xcf00,
        RtlChipId::Rtl8125a => 8 << 27 | 0x0700,
        RtlChipId::Rtl8125b => 8 << 27 | 0x0f00,
    };
    registers.bar.write32(at::RX_CONFIG, fifo);
    // Bursts of any length, and the shortest gap between frames. RTL8168: also the FIFO sizes that
    // `configure_8168` has set.
    let auto_fifo = if registers.chip.is_8125() { 0 } else { 1 << 7 };
    registers.bar.write32(at::TX_CONFIG, 7 << 8 | 3 << 24 | auto_fifo);
    registers.bar.write32(at::MULTICAST + 4, u32::MAX);
    registers.bar.write32(at::MULTICAST, u32::MAX);
    registers.bar.write32(at::RX_CONFIG, fifo | rx_mode);
}

/// Sets the longest frame that is received, in bytes without checksum. Longer ones are reported as
/// errors.
pub(super) fn set_max_packet(registers: &Registers, bytes: u32) {
    let with_checksum = (bytes + 4).min(MAX_RX_SIZE.into());
    registers.bar.write16(at::RX_MAX_SIZE, with_checksum as u16);
}

/// Reads the card's own address.
pub(super) fn mac_of(registers: &Registers) -> [u8; 6] {
    if registers.chip.is_8125() {
        return std::array::from_fn(|i| registers.bar.read8(at::MAC_COPY + i as u64));
    }
    let [a, b, c, d] = registers.eri_read(0xe0).to_le_bytes();
    let [e, f, ..] = registers.eri_read(0xe4).to_le_bytes();
    [a, b, c, d, e, f]
}
