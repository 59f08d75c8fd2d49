//! The steps from reset to a device that can be started (virtio 1.2, sections 3.1 and 5.1.5).

use slipring_pci::{DescriptorMemory, DeviceMemory, Interrupt, PciDevice, config};
use slipring_port::OpenCause;

use super::chip::VirtioChip;
use super::control::VirtioControl;
use super::regs::*;
use super::rings::{HEADER_BYTES, QueueLayout, VirtioRx, VirtioTx, Virtqueue, headers_len};
use super::{MTU_OF_ONE_BUFFER, MTU_OF_SEVERAL_BUFFERS};
use crate::driver::refused;
use crate::open::wait_for;
use crate::open::{NicSetup, memory_cause, unresponsive};

/// Numbers of the queues. The control queue comes after the only pair.
const RX_QUEUE: u16 = 0;
const TX_QUEUE: u16 = 1;
const CONTROL_QUEUE: u16 = 2;
/// The smallest MTU that a device may report (virtio 1.2, 5.1.4.1).
const MIN_MTU: u32 = 68;
/// Maximum number of descriptors of a queue.
const MAX_QUEUE_SIZE: u16 = 32_768;
/// The only vector, for all queues and for changes of the link.
const VECTOR: u16 = 0;

/// Resets the device and sets it up with empty rings. Also returns its hardware address and the
/// number of slots.
pub(super) fn set_up(
    device: Box<dyn PciDevice>,
    setup: &NicSetup<'_>,
) -> Result<(VirtioChip, [u8; 6], u32), OpenCause> {
    config::enable_registers(device.as_ref()).map_err(refused)?;
    let registers = VirtioRegisters::find(device.as_ref())?;
    reset(&registers)?;
    config::enable(device.as_ref()).map_err(refused)?;
    let features = negotiate(&registers)?;
    let mut memory = DeviceMemory::new(device.dma());
    setup.map_buffers(&mut memory)?;
    // Vectors can only be assigned while MSI-X is on.
    let interrupt = Interrupt::open(device.as_ref()).map_err(refused)?;
    registers.common.write16(CONFIG_VECTOR, VECTOR);
    let mut queues = QueueMaker { registers: &registers, memory: &mut memory, limit: u16::MAX };
    queues.limit = queue_limit(setup);
    let rx = queues.make(RX_QUEUE)?;
    let tx = queues.make(TX_QUEUE)?;
    let headers = queues.alloc(headers_len(rx.size))?;
    let header = queues.alloc(HEADER_BYTES as usize)?;
    let has_control = features & FEATURE_CTRL_RX != 0;
    let control = if has_control { Some(queues.make_control()?) } else { None };
    let slots = u32::from(rx.size.min(tx.size) / 2).min(setup.options.slots);
    let addresses = memory.addresses();
    let merges = features & FEATURE_MERGEABLE_BUFFERS != 0;
    let mac = std::array::from_fn(|i| registers.net.read8(NET_MAC + i as u64));
    let chip = VirtioChip {
        has_status: features & FEATURE_STATUS != 0,
        max_mtu: max_mtu(&registers, features),
        rx: VirtioRx::new(rx, headers, addresses, merges),
        tx: VirtioTx::new(tx, header, addresses),
        registers,
        control,
        interrupt,
        device,
        _memory: memory,
    };
    Ok((chip, mac, slots))
}

/// Returns the largest MTU in bytes: the limit for frames of one buffer, or of several if the
/// device supports them. If the device reports a smaller MTU, returns that.
fn max_mtu(registers: &VirtioRegisters, features: u64) -> u32 {
    let has = |feature| features & feature != 0;
    let limit = match has(FEATURE_MERGEABLE_BUFFERS) {
        true => MTU_OF_SEVERAL_BUFFERS,
        false => MTU_OF_ONE_BUFFER,
    };
    if !has(FEATURE_MTU) {
        return limit;
    }
    // If the device is gone, or reports an impossible MTU, the MTU of Ethernet is used.
    let said = registers.net.read16(NET_MTU).into();
    if (MIN_MTU..=u32::from(u16::MAX) - 1).contains(&said) {
        limit.min(said)
    } else {
        MTU_OF_ONE_BUFFER
    }
}

/// Returns the number of descriptors that the slots of the port need: two each, rounded up to a
/// power of two, at most [`MAX_QUEUE_SIZE`].
fn queue_limit(setup: &NicSetup<'_>) -> u16 {
    let wanted = (2 * setup.options.slots).next_power_of_two();
    u16::try_from(wanted).unwrap_or(MAX_QUEUE_SIZE)
}

fn reset(registers: &VirtioRegisters) -> Result<(), OpenCause> {
    registers.common.write8(DEVICE_STATUS, 0);
    wait_for("come out of its reset", || registers.common.read8(DEVICE_STATUS) == 0)?;
    registers.common.write8(DEVICE_STATUS, STATUS_ACKNOWLEDGE);
    registers.common.write8(DEVICE_STATUS, STATUS_ACKNOWLEDGE | STATUS_DRIVER);
    Ok(())
}

/// Accepts the features that the driver supports, without offloads, and returns them.
fn negotiate(registers: &VirtioRegisters) -> Result<u64, OpenCause> {
    let common = &registers.common;
    let known = FEATURE_MAC
        | FEATURE_MTU
        | FEATURE_MERGEABLE_BUFFERS
        | FEATURE_STATUS
        | FEATURE_CTRL_VQ
        | FEATURE_CTRL_RX
        | FEATURE_VERSION_1
        | FEATURE_ACCESS_PLATFORM;
    let mut features = 0;
    for half in [0, 1] {
        common.write32(DEVICE_FEATURE_SELECT, half);
        features |= u64::from(common.read32(DEVICE_FEATURE)) << (32 * half);
    }
    features &= known;
    if features & FEATURE_ACCESS_PLATFORM == 0 {
        return Err(bypasses_iommu());
    }
    for half in [0, 1] {
        common.write32(DRIVER_FEATURE_SELECT, half);
        common.write32(DRIVER_FEATURE, (features >> (32 * half)) as u32);
    }
    let status = STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK;
    common.write8(DEVICE_STATUS, status);
    let needed = FEATURE_VERSION_1 | FEATURE_MAC;
    if features & needed != needed || common.read8(DEVICE_STATUS) & STATUS_FEATURES_OK == 0 {
        return Err(unresponsive("accept the features of this driver"));
    }
    Ok(features)
}

/// Returns the error for a device that does not offer `FEATURE_ACCESS_PLATFORM`. Without this
/// feature, the device uses addresses as physical addresses and bypasses any IOMMU.
fn bypasses_iommu() -> OpenCause {
    OpenCause::Card {
        reason: "the virtio device does not obey the IOMMU".into(),
        help: Some("in QEMU: -device virtio-net-pci,disable-legacy=on,iommu_platform=on".into()),
    }
}

/// Starts the device.
pub(super) fn start(registers: &VirtioRegisters) {
    let status = STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK | STATUS_DRIVER_OK;
    registers.common.write8(DEVICE_STATUS, status);
}

/// Stops the device by a reset, after which it uses no queues.
pub(super) fn stop(registers: &VirtioRegisters, device: &dyn PciDevice) {
    registers.common.write8(DEVICE_STATUS, 0);
    // The device uses the queues until the status is 0. A removed device (which reads as all ones)
    // does not use them.
    let _ = wait_for("stop", || matches!(registers.common.read8(DEVICE_STATUS), 0 | u8::MAX));
    // An error cannot be handled; closing the device also stops it.
    let _ = config::stop_bus_master(device);
}

struct QueueMaker<'m> {
    registers: &'m VirtioRegisters,
    memory: &'m mut DeviceMemory,
    limit: u16,
}

impl QueueMaker<'_> {
    fn alloc(&mut self, len: usize) -> Result<DescriptorMemory, OpenCause> {
        self.memory.alloc(len).map_err(|error| memory_cause(error, len as u64))
    }

    /// Creates queue number `index`, and turns it on.
    fn make(&mut self, index: u16) -> Result<Virtqueue, OpenCause> {
        let common = &self.registers.common;
        common.write16(QUEUE_SELECT, index);
        let offered = common.read16(QUEUE_SIZE);
        if !(4..=MAX_QUEUE_SIZE).contains(&offered) {
            return Err(unresponsive("have the queues of a network card"));
        }
        // The device may offer any number, but the size of a split queue must be a power of two.
        let size = self.limit.min(1 << offered.ilog2());
        common.write16(QUEUE_SIZE, size);
        common.write16(QUEUE_VECTOR, VECTOR);
        let layout = QueueLayout::of(size);
        let memory = self.memory.alloc(layout.len);
        let memory = memory.map_err(|error| memory_cause(error, layout.len as u64))?;
        let starts = [0, layout.avail, layout.used].map(|at| memory.address() + at as u64);
        for (register, start) in QUEUE_PARTS.into_iter().zip(starts) {
            common.write32(register, start as u32);
            common.write32(register + 4, (start >> 32) as u32);
        }
        let offset = common.read16(QUEUE_NOTIFY_OFFSET);
        let notify = &self.registers.notify;
        let at = u64::from(offset) * u64::from(self.registers.notify_multiplier);
        let doorbell = RegisterWindow { bar: notify.bar.clone(), base: notify.base + at };
        let queue = Virtqueue::new(memory, size, doorbell, index);
        common.write16(QUEUE_ENABLE, 1);
        Ok(queue)
    }

    fn make_control(&mut self) -> Result<VirtioControl, OpenCause> {
        let queue = self.make(CONTROL_QUEUE)?;
        Ok(VirtioControl::new(queue, self.alloc(64)?))
    }
}
