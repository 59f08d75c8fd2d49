use super::*;
use proptest::prelude::*;
use std::vec::Vec;

/// Computes the checksum one word at a time, as RFC 1071 describes it.
fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[test]
fn known_header_has_its_known_checksum() {
    let header =
        [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
    assert_eq!(of(&header), 0xb861);
}

#[test]
fn all_ones_do_not_overflow_the_accumulator() {
    assert_eq!(of(&[0xff; 65536]), 0);
    assert_eq!(of(&[0; 100]), 0xffff);
    assert_eq!(of(&[]), 0xffff);
}

#[test]
fn udp_never_stores_zero() {
    assert_eq!(nonzero(0), 0xffff);
    assert_eq!(nonzero(7), 7);
}

proptest! {
    #[test]
    fn slices_of_any_length_match_the_naive_sum(
        bytes in prop::collection::vec(any::<u8>(), 0..200), skip in 0usize..8,
    ) {
        let bytes = &bytes[skip.min(bytes.len())..];
        prop_assert_eq!(of(bytes), naive(bytes));
    }

    #[test]
    fn chained_pieces_match_the_whole(pieces in prop::collection::vec(
        prop::collection::vec(any::<u8>(), 0..40), 0..8,
    )) {
        let chained = pieces.iter().fold(Sum::new(), |sum, piece| sum.bytes(piece));
        prop_assert_eq!(chained.checksum(), naive(&pieces.concat()));
    }

    #[test]
    fn fields_match_their_bytes(head in prop::collection::vec(any::<u8>(), 0..5), a: u16, b: u32) {
        let whole: Vec<u8> =
            [&head[..], &a.to_be_bytes(), &b.to_be_bytes()].concat();
        prop_assert_eq!(Sum::new().bytes(&head).u16(a).u32(b).checksum(), naive(&whole));
    }

    #[test]
    fn pseudo_headers_match_their_bytes(src: [u8; 16], dst: [u8; 16], proto: u8, len: u32) {
        let tail = [&len.to_be_bytes()[..], &[0, 0, 0, proto]].concat();
        let v6 = [&src[..], &dst, &tail].concat();
        let proto = IpProto(proto);
        prop_assert_eq!(Sum::pseudo_v6(src.into(), dst.into(), proto, len).checksum(), naive(&v6));
        let (src4, dst4): ([u8; 4], [u8; 4]) =
            (*src.first_chunk().unwrap(), *dst.first_chunk().unwrap());
        let v4 = [&src4[..], &dst4, &tail].concat();
        prop_assert_eq!(Sum::pseudo_v4(src4.into(), dst4.into(), proto, len).checksum(), naive(&v4));
        let addresses: [u8; 8] = *v4.first_chunk().unwrap();
        prop_assert_eq!(Sum::pseudo(addresses, proto, len).checksum(), naive(&v4));
    }

    #[test]
    fn a_delta_equals_a_fresh_computation(
        mut bytes in prop::collection::vec(any::<u8>(), 8..64), at in 0usize..32, new: [u8; 4],
    ) {
        let at = (at * 2).min((bytes.len() - 4) & !1);
        bytes[(at + 4) % 8] |= 1; // Before and after the change, some byte is not zero.
        let before = naive(&bytes);
        let old: [u8; 4] = bytes[at..at + 4].try_into().unwrap();
        bytes[at..at + 4].copy_from_slice(&new);
        prop_assume!(bytes.iter().any(|byte| *byte != 0));
        let after = naive(&bytes);
        let (old32, new32) = (u32::from_be_bytes(old), u32::from_be_bytes(new));
        prop_assert_eq!(Delta::new().u32(old32, new32).apply(before), after);
        let halves = Delta::new()
            .u16((old32 >> 16) as u16, (new32 >> 16) as u16)
            .u16(old32 as u16, new32 as u16);
        prop_assert_eq!(halves.apply(before), after);
        prop_assert_eq!(Delta::new().bytes(&old, &new).apply(before), after);
    }
}
