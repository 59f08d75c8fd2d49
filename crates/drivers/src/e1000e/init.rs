//! From reset to a device that can be started (82574 datasheet, section 4.6).

use slipring_pci::{Bar, DeviceMemory, Interrupt, InterruptKind, PciDevice, config};
use slipring_port::OpenCause;
use slipring_port::nic::dma::DmaMemory;

use super::chip::E1000eChip;
use super::regs::*;
use crate::descriptors::{RxDescriptors, TxDescriptors};
use crate::driver::refused;
use crate::intel::mac;
use crate::intel::regs::*;
use crate::intel::rings::{ring_parts, ring_size, rings_len, set_rx_ring, set_tx_ring};
use crate::open::{NicSetup, memory_cause};

/// Interrupts at most every 50 us, so 20,000 per second.
const ITR_50_US: u32 = 195;

/// Resets the device and sets it up with empty rings. Returns its address, too.
pub(super) fn set_up(
    device: Box<dyn PciDevice>,
    setup: &NicSetup<'_>,
    slots: u32,
) -> Result<(E1000eChip, [u8; 6]), OpenCause> {
    config::enable(device.as_ref()).map_err(refused)?;
    // An erratum of the 82574: in the power states L0s and L1, the device stops.
    config::disable_aspm(device.as_ref()).map_err(refused)?;
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
    let kinds = [InterruptKind::Msi, InterruptKind::IntX];
    let interrupt = Interrupt::open_one_of(device.as_ref(), &kinds).map_err(refused)?;
    let parts = ring_parts(&bar, &memory, &rings, size, [RDT, TDT]);
    let chip = E1000eChip {
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

/// Resets all but the PHY (section 4.6.2).
fn reset(bar: &Bar) -> Result<(), OpenCause> {
    quiesce(bar);
    // With accesses to memory outstanding, a reset can hang the bus (section 5.2.3.1). If they do
    // not end, the reset ends them all the same.
    bar.write32(CTRL, bar.read32(CTRL) | CTRL_MASTER_DISABLE);
    let _ = mac::wait_for("end its accesses to memory", || {
        bar.read32(STATUS) & STATUS_MASTER_ENABLED == 0
    });
    bar.write32(CTRL, bar.read32(CTRL) | CTRL_RST);
    mac::wait_for("come out of its reset", || bar.read32(CTRL) & CTRL_RST == 0)?;
    mac::wait_for("read its settings", || bar.read32(EECD) & EECD_AUTO_READ_DONE != 0)?;
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

/// Lets both directions run. The 82574 must not be told to stop and start receiving again, so this
/// happens once.
pub(super) fn start(bar: &Bar, accepts_all: bool) {
    bar.write32(TCTL, TCTL_EN | TCTL_PSP | TCTL_COLLISIONS | TCTL_RTLC | TCTL_MULR);
    bar.write32(RCTL, RCTL_EN | RCTL_LPE | RCTL_SECRC | mac::accepted(accepts_all));
}

/// Stops the device: after this it accesses no memory.
pub(super) fn stop(bar: &Bar, device: &dyn PciDevice) {
    quiesce(bar);
    bar.write32(CTRL, bar.read32(CTRL) | CTRL_RST);
    // Nothing can be done about an error: closing the device stops it as well.
    let _ = config::stop_bus_master(device);
}
