use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use super::*;
use crate::bar::Bar;
use crate::device::ResetResult;
use crate::interrupt::InterruptKind;
use crate::memory::DmaMapper;

/// A configuration space without a device.
struct ConfigOnly(Mutex<[u8; 256]>);

impl ConfigOnly {
    fn new(bytes: &[(u16, &[u8])]) -> Self {
        let mut space = [0; 256];
        for (at, bytes) in bytes {
            space[usize::from(*at)..][..bytes.len()].copy_from_slice(bytes);
        }
        Self(Mutex::new(space))
    }
}

impl PciDevice for ConfigOnly {
    fn address(&self) -> &str {
        "0000:00:01.0"
    }

    fn config_read(&self, at: u16, width: Width) -> Result<u32, PciError> {
        let space = self.0.lock().unwrap();
        let bytes = (0..width.bytes()).map(|i| u32::from(space[usize::from(at) + i as usize]));
        Ok(bytes.enumerate().map(|(i, byte)| byte << (8 * i)).sum())
    }

    fn config_write(&self, at: u16, width: Width, value: u32) -> Result<(), PciError> {
        let bytes = &value.to_le_bytes()[..width.bytes() as usize];
        self.0.lock().unwrap()[usize::from(at)..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn bar(&self, bar: u8) -> Result<Bar, PciError> {
        Err(PciError::NoBar { address: self.address().to_owned(), bar })
    }

    fn dma(&self) -> Arc<dyn DmaMapper> {
        unreachable!("not needed for the configuration space")
    }

    fn interrupts(&self, _kind: InterruptKind) -> u32 {
        0
    }

    fn set_interrupts(&self, _: InterruptKind, _: &[BorrowedFd<'_>]) -> Result<(), PciError> {
        Ok(())
    }

    fn unmask_intx(&self) -> Result<(), PciError> {
        Ok(())
    }

    fn reset(&self) -> Result<ResetResult, PciError> {
        Ok(ResetResult::Unsupported)
    }
}

#[test]
fn a_device_that_is_gone_is_an_error_and_no_chip() {
    let here = ConfigOnly::new(&[(0, &[0x86, 0x80, 0xd3, 0x10])]);
    assert_eq!(id(&here).unwrap(), PciId { vendor: 0x8086, device: 0x10d3 });
    assert_eq!(id(&here).unwrap().to_string(), "8086:10d3");
    let gone = ConfigOnly::new(&[(0, &[0xff; 4])]);
    assert!(matches!(id(&gone), Err(PciError::Gone { .. })));
}

#[test]
fn capabilities_are_found_in_order_and_a_loop_ends() {
    let device = ConfigOnly::new(&[
        (STATUS, &[0x10, 0]),
        (CAPABILITIES, &[0x43]),
        (0x40, &[CAPABILITY_VENDOR, 0x50]),
        (0x50, &[CAPABILITY_EXPRESS, 0x60]),
        (0x60, &[CAPABILITY_VENDOR, 0x70]),
        (0x70, &[0x05, 0x70]),
    ]);
    assert_eq!(capabilities(&device, CAPABILITY_VENDOR).unwrap(), [0x40, 0x60]);
    assert_eq!(capabilities(&device, 0x11).unwrap(), [0; 0]);
    device.config_write(STATUS, Width::Byte, 0).unwrap();
    assert_eq!(capabilities(&device, CAPABILITY_VENDOR).unwrap(), [0; 0]);
}

#[test]
fn a_pointer_into_the_header_ends_the_list() {
    let device = ConfigOnly::new(&[(STATUS, &[0x10, 0]), (CAPABILITIES, &[0x10])]);
    assert_eq!(capabilities(&device, 0).unwrap(), [0; 0]);
}

#[test]
fn enabling_keeps_other_bits_and_allows_the_line() {
    let device = ConfigOnly::new(&[(COMMAND, &[0x41, 0x04])]);
    enable(&device).unwrap();
    assert_eq!(device.config_read(COMMAND, Width::Word).unwrap(), 0x0047);
    stop_bus_master(&device).unwrap();
    assert_eq!(device.config_read(COMMAND, Width::Word).unwrap(), 0x0043);
}

#[test]
fn aspm_is_turned_off_where_there_is_a_link() {
    let device = ConfigOnly::new(&[
        (STATUS, &[0x10, 0]),
        (CAPABILITIES, &[0x40]),
        (0x40, &[CAPABILITY_EXPRESS, 0]),
        (0x50, &[0x43, 0x01]),
    ]);
    disable_aspm(&device).unwrap();
    assert_eq!(device.config_read(0x50, Width::Word).unwrap(), 0x0140);
}
