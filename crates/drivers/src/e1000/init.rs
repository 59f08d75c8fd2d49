//! From reset to a device that can be started (8254x manual, section 14).

use std::time::Duration;

use slipring_pci::{Bar, DeviceMemory, Interrupt, InterruptKind, PciDevice, config};
use slipring_port::OpenCause;
use slipring_port::nic::dma::DmaMemory;

use super::chip::E1000Chip;
use crate::descriptors::{RxDescriptors, TxDescriptors};
use crate::driver::refused;
use crate::intel::mac;
use crate::intel::regs::*;
use crate::intel::rings::{ring_parts, ring_size, rings_len, set_rx_ring, set_tx_ring};
use crate::open::{NicSetup, memory_cause};

/// Interrupts at most every 50 us, so 20,000 per second.
const ITR_50_US: u32 = 195;

/// How long the device reads its settings after a reset.
const SETTINGS_READ: Duration = Duration::from_millis(5);

/// Resets the device and sets it up with empty rings. Returns its address, too.
pub(super) fn set_up(
    device: Box<dyn PciDevice>,
    setup: &NicSetup<'_>,
    slots: u32,
) -> Result<(E1000Chip, [u8; 6]), OpenCause> {
    config::enable(device.as_ref()).map_err(refused)?;
    let bar = device.bar(0).map_err(refused)?;
    reset(&bar)?;
    let mac = mac::read_mac(&bar)?;
    mac::reset_filters(&bar, mac);
    mac::wake_phy(&bar)?;
    let mut memory = DeviceMemory::new(device.dma());
    setup.map_buffers(&mut memory)?;
    let size = ring_size(slots);
    let rings = memory.make_rings(size).map_err(|error| memory_cause(error, rings_len(size)))?;
    set_rx_ring(&bar, &rings.rx, size);
    set_tx_ring(&bar, &rings.tx, size);
    set_control(&bar);
    // The 82540 has the line only; the 82545's messages have an erratum.
    let kinds = [InterruptKind::IntX];
    let interrupt = Interrupt::open_one_of(device.as_ref(), &kinds).map_err(refused)?;
    let parts = ring_parts(&bar, &memory, &rings, size, [RDT, TDT]);
    let chip = E1000Chip {
        bar,
        rx: RxDescriptors::new(parts.rx),
        tx: TxDescriptors::new(parts.tx),
        interrupt,
        drops: mac::MacDrops::default(),
        accepts_all: false,
        device,
        _memory: memory,
    };
    Ok((chip, mac))
}

/// Resets all but the PHY (section 14.3).
fn reset(bar: &Bar) -> Result<(), OpenCause> {
    quiesce(bar);
    bar.write32(CTRL, bar.read32(CTRL) | CTRL_RST);
    mac::wait_for("come out of its reset", || bar.read32(CTRL) & CTRL_RST == 0)?;
    // No register tells when the settings, such as the address, are there.
    std::thread::sleep(SETTINGS_READ);
    quiesce(bar);
    Ok(())
}

/// Masks all interrupts, acknowledges them, and stops both directions.
pub(super) fn quiesce(bar: &Bar) {
    bar.write32(IMC, u32::MAX);
    bar.write32(RCTL, 0);
    bar.write32(TCTL, TCTL_PSP);
    // Reading also makes sure that the device has received the writes.
    let _ = bar.read32(ICR);
}

/// Sets the link up by the PHY's negotiation, keeps VLAN tags in the frames, and sets what does
/// not change while the device runs.
fn set_control(bar: &Bar) {
    let control = bar.read32(CTRL) & !(CTRL_FRCSPD | CTRL_FRCDPX | CTRL_VME);
    bar.write32(CTRL, control | CTRL_SLU | CTRL_ASDE);
    bar.write32(TIPG, TIPG_COPPER);
    bar.write32(TXDCTL, TXDCTL_GRAN | TXDCTL_WTHRESH_1);
    bar.write32(RDTR, 0);
    bar.write32(RADV, 0);
    bar.write32(TIDV, 0);
    bar.write32(ITR, ITR_50_US);
}

/// Lets both directions run.
pub(super) fn start(bar: &Bar, accepts_all: bool) {
    bar.write32(TCTL, TCTL_EN | TCTL_PSP | TCTL_COLLISIONS | TCTL_RTLC);
    bar.write32(RCTL, RCTL_EN | RCTL_LPE | RCTL_SECRC | mac::accepted(accepts_all));
}

/// Stops the device: after this it accesses no memory.
pub(super) fn stop(bar: &Bar, device: &dyn PciDevice) {
    quiesce(bar);
    bar.write32(CTRL, bar.read32(CTRL) | CTRL_RST);
    // Nothing can be done about an error: closing the device stops it as well.
    let _ = config::stop_bus_master(device);
}
