//! From reset to a device that can be started (82576 datasheet, section 4.5).

use std::time::Duration;

use slipring_pci::{Bar, DeviceMemory, Interrupt, InterruptKind, PciDevice, config};
use slipring_port::OpenCause;
use slipring_port::nic::dma::DmaMemory;

use super::chip::IgbChip;
use super::regs::*;
use crate::descriptors::{RxDescriptors, TxDescriptors};
use crate::driver::refused;
use crate::intel::mac;
use crate::intel::regs::*;
use crate::intel::rings::{ring_parts, ring_size, rings_len, set_rx_ring, set_tx_ring};
use crate::open::{NicSetup, memory_cause};

/// Longest frame that the device receives.
const MAX_FRAME_WITH_CRC: u32 = 9728;

/// How often to look whether the settings were read: for 20 ms at least, twice what it takes.
const SETTINGS_POLLS: u32 = 20;
/// The time between two looks.
const SETTINGS_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Resets the device and sets it up with empty rings. Returns its address, too.
pub(super) fn set_up(
    device: Box<dyn PciDevice>,
    setup: &NicSetup<'_>,
    slots: u32,
) -> Result<(IgbChip, [u8; 6]), OpenCause> {
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
    bar.write32(SRRCTL, SRRCTL_2K_ADVANCED);
    set_rx_ring(&bar, &rings.rx, size);
    set_tx_ring(&bar, &rings.tx, size);
    set_control(&bar);
    let kinds = [InterruptKind::Msi, InterruptKind::IntX];
    let interrupt = Interrupt::open_one_of(device.as_ref(), &kinds).map_err(refused)?;
    let parts = ring_parts(&bar, &memory, &rings, size, [RDT, TDT]);
    let chip = IgbChip {
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

/// Resets all but the PHY (section 4.3).
fn reset(bar: &Bar) -> Result<(), OpenCause> {
    quiesce(bar);
    // With accesses to memory outstanding, a reset can hang the bus (section 5.2.3.3). If they do
    // not end, the reset ends them all the same.
    bar.write32(CTRL, bar.read32(CTRL) | CTRL_MASTER_DISABLE);
    let _ = mac::wait_for("end its accesses to memory", || {
        bar.read32(STATUS) & STATUS_MASTER_ENABLED == 0
    });
    bar.write32(CTRL, bar.read32(CTRL) | CTRL_RST);
    mac::wait_for("come out of its reset", || bar.read32(CTRL) & CTRL_RST == 0)?;
    wait_for_settings(bar);
    quiesce(bar);
    Ok(())
}

/// Waits until the device has read its settings. One without a memory of settings never says so,
/// and goes on without them.
fn wait_for_settings(bar: &Bar) {
    for _ in 0..SETTINGS_POLLS {
        if bar.read32(EECD) & EECD_AUTO_READ_DONE != 0 {
            return;
        }
        std::thread::sleep(SETTINGS_POLL_INTERVAL);
    }
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
    bar.write32(RLPML, MAX_FRAME_WITH_CRC);
}

/// Lets both directions run. The queues are turned on after the directions; a tail that is written
/// before is lost.
pub(super) fn start(bar: &Bar, accepts_all: bool) {
    bar.write32(TCTL, TCTL_EN | TCTL_PSP | TCTL_COLLISIONS | TCTL_RTLC);
    bar.write32(RCTL, RCTL_EN | RCTL_LPE | RCTL_SECRC | mac::accepted(accepts_all));
    for control in [RXDCTL, TXDCTL] {
        bar.write32(control, XDCTL_THRESHOLDS | XDCTL_ENABLE);
        // If it is never on, nothing is sent, and the port ends as stuck.
        let _ = mac::wait_for("turn a queue on", || bar.read32(control) & XDCTL_ENABLE != 0);
    }
}

/// Stops the device: after this it accesses no memory.
pub(super) fn stop(bar: &Bar, device: &dyn PciDevice) {
    quiesce(bar);
    bar.write32(CTRL, bar.read32(CTRL) | CTRL_RST);
    // Nothing can be done about an error: closing the device stops it as well.
    let _ = config::stop_bus_master(device);
}
