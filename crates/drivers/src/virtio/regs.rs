//! The registers of a modern device (virtio 1.2, sections 4.1.4 and 5.1), and where they are.

use slipring_pci::config::{self, CAPABILITY_VENDOR};
use slipring_pci::{Bar, PciDevice, Width};
use slipring_port::OpenCause;

use crate::driver::refused;
use crate::open::unresponsive;

/// Types of capabilities.
const TYPE_COMMON: u32 = 1;
const TYPE_NOTIFY: u32 = 2;
const TYPE_ISR: u32 = 3;
const TYPE_DEVICE: u32 = 4;

// Common configuration. Fields are accessed with their own width.
pub(super) const DEVICE_FEATURE_SELECT: u64 = 0;
pub(super) const DEVICE_FEATURE: u64 = 4;
pub(super) const DRIVER_FEATURE_SELECT: u64 = 8;
pub(super) const DRIVER_FEATURE: u64 = 12;
pub(super) const CONFIG_VECTOR: u64 = 16;
pub(super) const DEVICE_STATUS: u64 = 20;
pub(super) const QUEUE_SELECT: u64 = 22;
pub(super) const QUEUE_SIZE: u64 = 24;
pub(super) const QUEUE_VECTOR: u64 = 26;
pub(super) const QUEUE_ENABLE: u64 = 28;
pub(super) const QUEUE_NOTIFY_OFFSET: u64 = 30;
/// Registers of the addresses of a queue's three parts: descriptors, available ring, used ring.
pub(super) const QUEUE_PARTS: [u64; 3] = [32, 40, 48];

// Steps of the device status.
pub(super) const STATUS_ACKNOWLEDGE: u8 = 1;
pub(super) const STATUS_DRIVER: u8 = 2;
pub(super) const STATUS_DRIVER_OK: u8 = 4;
pub(super) const STATUS_FEATURES_OK: u8 = 8;
/// The device has an error and does nothing until it is reset.
pub(super) const STATUS_NEEDS_RESET: u8 = 64;

// Features. `FEATURE_MAC`: the device has a hardware address.
pub(super) const FEATURE_MAC: u64 = 1 << 5;
/// The device has a largest MTU.
pub(super) const FEATURE_MTU: u64 = 1 << 3;
/// Received frames may take several buffers.
pub(super) const FEATURE_MERGEABLE_BUFFERS: u64 = 1 << 15;
/// The device reports the state of its link.
pub(super) const FEATURE_STATUS: u64 = 1 << 16;
/// The device has a control queue.
pub(super) const FEATURE_CTRL_VQ: u64 = 1 << 17;
/// The control queue sets which frames are received.
pub(super) const FEATURE_CTRL_RX: u64 = 1 << 18;
/// The device is a modern one.
pub(super) const FEATURE_VERSION_1: u64 = 1 << 32;
/// Addresses are translated by the IOMMU.
pub(super) const FEATURE_ACCESS_PLATFORM: u64 = 1 << 33;

// Offsets in the device configuration of a network device. `NET_MAC`: the hardware address, six
// bytes.
pub(super) const NET_MAC: u64 = 0;
/// The state of the link.
pub(super) const NET_STATUS: u64 = 6;
/// The largest MTU in bytes.
pub(super) const NET_MTU: u64 = 10;
/// There is a link.
pub(super) const NET_STATUS_LINK_UP: u16 = 1;

/// A window of registers in a BAR.
#[derive(Debug, Clone)]
pub(super) struct RegisterWindow {
    pub(super) bar: Bar,
    pub(super) base: u64,
}

impl RegisterWindow {
    pub(super) fn read8(&self, at: u64) -> u8 {
        self.bar.read8(self.base + at)
    }

    pub(super) fn write8(&self, at: u64, value: u8) {
        self.bar.write8(self.base + at, value);
    }

    pub(super) fn read16(&self, at: u64) -> u16 {
        self.bar.read16(self.base + at)
    }

    pub(super) fn write16(&self, at: u64, value: u16) {
        self.bar.write16(self.base + at, value);
    }

    pub(super) fn read32(&self, at: u64) -> u32 {
        self.bar.read32(self.base + at)
    }

    pub(super) fn write32(&self, at: u64, value: u32) {
        self.bar.write32(self.base + at, value);
    }
}

/// All windows of a device.
#[derive(Debug, Clone)]
pub(super) struct VirtioRegisters {
    pub(super) common: RegisterWindow,
    pub(super) notify: RegisterWindow,
    /// Unit of a queue's notify offset, in bytes.
    pub(super) notify_multiplier: u32,
    pub(super) isr: RegisterWindow,
    pub(super) net: RegisterWindow,
}

impl VirtioRegisters {
    /// Finds the windows in the device's capabilities. The first window of each type is used.
    pub(super) fn find(device: &dyn PciDevice) -> Result<Self, OpenCause> {
        let mut windows: [Option<(RegisterWindow, u16)>; 5] = Default::default();
        for at in config::capabilities(device, CAPABILITY_VENDOR).map_err(refused)? {
            let read = |offset, width| device.config_read(at + offset, width).map_err(refused);
            let kind = read(3, Width::Byte)?;
            let bar = read(4, Width::Byte)? as u8;
            let base = read(8, Width::Long)?.into();
            if let Some(window @ None) = windows.get_mut(kind as usize) {
                let bar = device.bar(bar).map_err(refused)?;
                *window = Some((RegisterWindow { bar, base }, at));
            }
        }
        let mut take = |kind: u32| {
            windows[kind as usize].take().ok_or_else(|| unresponsive("have a modern interface"))
        };
        let (common, _) = take(TYPE_COMMON)?;
        let (notify, at) = take(TYPE_NOTIFY)?;
        let notify_multiplier = device.config_read(at + 16, Width::Long).map_err(refused)?;
        let (isr, _) = take(TYPE_ISR)?;
        let (net, _) = take(TYPE_DEVICE)?;
        Ok(Self { common, notify, notify_multiplier, isr, net })
    }
}
