//! Tests of the structures as bytes. The offset of each field is already asserted when the crate is
//! compiled. These tests check that all bytes of a structure are converted, and no others.
#![allow(clippy::unwrap_used)]

use std::fmt::Debug;

use slipring_abi::*;

/// Returns `len` bytes. Bytes at positions fewer than 256 apart are different, so a test notices if
/// two bytes or two fields are exchanged.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + 1) as u8).collect()
}

fn assert_bytes_survive<T: PlainData + Default + PartialEq + Debug>() {
    let bytes = pattern(T::SIZE);
    let value = T::read_from(&bytes).unwrap();
    let mut written = vec![0; T::SIZE + 1];
    value.write_to(&mut written);
    assert_eq!(written[..T::SIZE], bytes, "{}", std::any::type_name::<T>());
    assert_eq!(written[T::SIZE], 0, "writes no further");
    assert_eq!(T::read_from(&bytes[1..]), None, "one byte is missing");

    let mut zeros = vec![0xff; T::SIZE];
    T::default().write_to(&mut zeros);
    assert_eq!(zeros, vec![0; T::SIZE], "the default is all zero");
}

#[test]
fn every_structure_is_its_bytes() {
    assert_bytes_survive::<NetmapSlot>();
    assert_bytes_survive::<NetmapRing>();
    assert_bytes_survive::<NetmapIf>();
    assert_bytes_survive::<Timeval>();
    assert_bytes_survive::<Nmreq>();
    assert_bytes_survive::<NmIfreq>();
    assert_bytes_survive::<NmreqHeader>();
    assert_bytes_survive::<NmreqRegister>();
    assert_bytes_survive::<NmreqPortInfoGet>();
    assert_bytes_survive::<NmreqValeAttach>();
    assert_bytes_survive::<NmreqValeDetach>();
    assert_bytes_survive::<NmreqValeList>();
    assert_bytes_survive::<NmreqPortHdr>();
    assert_bytes_survive::<NmreqValeNewif>();
    assert_bytes_survive::<NmreqValePolling>();
    assert_bytes_survive::<NmreqPoolsInfo>();
    assert_bytes_survive::<NmreqSyncKloopStart>();
    assert_bytes_survive::<NmCsbAtok>();
    assert_bytes_survive::<NmCsbKtoa>();
    assert_bytes_survive::<NmreqOption>();
    assert_bytes_survive::<NmreqOptExtmem>();
    assert_bytes_survive::<NmreqOptCsb>();
    assert_bytes_survive::<NmreqOptOffsets>();
    assert_bytes_survive::<NmreqOptSyncKloopMode>();
    assert_bytes_survive::<NmreqOptSyncKloopEventfds>();
    assert_bytes_survive::<KloopEventfds>();
}

#[test]
fn fields_are_read_in_native_byte_order_from_their_places() {
    let mut bytes = [0; 16];
    bytes[0..4].copy_from_slice(&77_u32.to_ne_bytes());
    bytes[4..6].copy_from_slice(&1500_u16.to_ne_bytes());
    bytes[6..8].copy_from_slice(&NS_BUF_CHANGED.to_ne_bytes());
    let slot = NetmapSlot { buf_idx: 77, len: 1500, flags: NS_BUF_CHANGED, ptr: 0 };
    assert_eq!(NetmapSlot::read_from(&bytes), Some(slot));
}

#[test]
fn rings_and_control_blocks_are_aligned_for_their_readers() {
    assert_eq!(align_of::<NetmapRing>(), 128);
    assert_eq!(align_of::<NmCsbAtok>(), 64);
    assert_eq!(align_of::<NmCsbKtoa>(), 64);
    assert_eq!(NETMAP_RING_SLOTS_OFS, 256);
    assert_eq!(NETMAP_IF_RING_OFS, 56);
}

#[test]
fn the_number_of_fragments_stands_above_the_flags() {
    assert_eq!(slot_rfrags(3 << NS_PORT_SHIFT | NS_MOREFRAG), 3);
    assert_eq!(NS_PORT_MASK, 0xff00);
}

#[test]
#[should_panic(expected = "at most 16,383 bytes")]
fn an_ioctl_of_a_huge_argument_has_no_number() {
    let _unreachable = ioctl::ioc(ioctl::IoctlDir::Read, b'i', 1, 1 << 14);
}
