//! Tests the mode of an RTL8125's transmitter that Realtek's own driver uses: descriptors of 32
//! bytes, a tail register as the doorbell, and a count of sent descriptors instead of write-backs.
#![allow(clippy::unwrap_used)]

use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use slipring_rtl_model::{
    Chip, Device, DeviceRegion, DmaPermissions, MemoryWire, Wire as _, WireEnd,
};

const MEMORY: u32 = 0x10_0000;
const BUFFER: u64 = 0x1000;
/// Number of descriptors in the ring.
const COUNT: u32 = 4;
/// OWN, FS and LS.
const OWNED_FRAME: u32 = 0xb000_0000;
const END_OF_RING: u32 = 1 << 30;
const TX_TAIL: u64 = 0x2800;
const TX_CLOSED: u64 = 0x2802;

/// A device with a full ring of frames of 60 bytes, its memory, and the other end of its cable.
fn sender() -> (Device, OwnedFd, WireEnd) {
    let (inner, outer) = MemoryWire::pair();
    let mut device = Device::new(Chip::Rtl8125b, [2, 0, 0, 0, 0, 1], Box::new(inner));
    let memory = memfd_create("dma", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&memory, 0x2000).unwrap();
    let both = DmaPermissions { read: true, write: true };
    let mapped = memory.try_clone().unwrap();
    device.dma().map(MEMORY.into(), 0x2000, mapped, 0, both).unwrap();
    for index in 0..COUNT {
        let end = if index + 1 == COUNT { END_OF_RING } else { 0 };
        let address = u64::from(MEMORY) + BUFFER;
        let words = [(OWNED_FRAME | end | 60).to_le_bytes(), [0; 4]].concat();
        let bytes = [words, address.to_le_bytes().to_vec()].concat();
        rustix::io::pwrite(&memory, &bytes, u64::from(index) * 32).unwrap();
    }
    // Memory and bus master; the PHY powered up, for a link; the driver's ownership; the ring; the
    // mode; descriptors of 32 bytes.
    device.write(DeviceRegion::Config, 4, &[6, 0]);
    device.write_register(0xb8, 4, 0x8000_1000 | 0xa400 << 15);
    device.write_register(0xd3, 1, 0);
    device.write_register(0x20, 4, MEMORY);
    device.write_register(0x40, 4, 1 << 6);
    device.write_register(0xb0, 4, 0x8000_0001 | 0xeb58 << 15);
    device.write_register(0x37, 1, 4);
    (device, memory, outer)
}

fn received(wire: &mut WireEnd) -> usize {
    let mut frame = Vec::new();
    std::iter::from_fn(|| wire.receive(&mut frame).then_some(())).count()
}

#[test]
fn the_transmitter_stops_at_the_tail_and_counts_what_it_has_sent() {
    let (mut device, memory, mut wire) = sender();
    device.write_register(TX_TAIL, 2, 2);
    assert_eq!((received(&mut wire), device.read_register(TX_CLOSED, 2)), (2, 2));
    device.write_register(TX_TAIL, 2, 6);
    assert_eq!((received(&mut wire), device.read_register(TX_CLOSED, 2)), (4, 6));
    let mut word = [0; 4];
    rustix::io::pread(&memory, &mut word, 0).unwrap();
    assert_eq!(u32::from_le_bytes(word), OWNED_FRAME | 60, "it writes no descriptor back");
    assert_eq!(device.violations().list(), []);
    // After a reset, the chip begins again at the first descriptor.
    device.write_register(0x37, 1, 0x10);
    assert_eq!(device.read_register(TX_CLOSED, 2), 0);
}
