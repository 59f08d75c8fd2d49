//! IPv4 fragmentation: the fragments make up the original packet.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::kit::*;
use crate::RouteDropCause as Cause;
use crate::{RouteEngine, RouteOutput, RouteVerdict};

fn engine_with_mtu(mtu: u32) -> RouteEngine {
    let mut builder = TableBuilder::usual();
    builder.ports[1].mtu = mtu;
    builder.engine()
}

/// The packets, without link headers, that the router makes of a frame.
fn fragments_of(engine: &mut RouteEngine, frame: &[u8]) -> Vec<Vec<u8>> {
    assert_eq!(process(engine, &mut frame.to_vec()), RouteVerdict::Fragmented);
    let mut packets = Vec::new();
    while let Some(output) = engine.pop() {
        let RouteOutput::Send { port, frame } = output else { panic!("{output:?}") };
        assert_eq!((port, &frame[..6], &frame[6..12]), (RIGHT, &H2.0[..], &RIGHT_MAC.0[..]));
        assert!(has_valid_header(&frame));
        packets.push(frame[14..].to_vec());
    }
    packets
}

/// A fragment as RFC 791 defines it: its options, its offset in bytes, whether more fragments
/// follow, and its data.
struct Piece {
    options: Vec<u8>,
    offset: usize,
    has_more: bool,
    data: Vec<u8>,
}

fn read(packet: &[u8]) -> Piece {
    let header_len = usize::from(packet[0] & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    let position = u16::from_be_bytes([packet[6], packet[7]]);
    assert_eq!(packet.len(), total);
    Piece {
        options: packet[20..header_len].to_vec(),
        offset: usize::from(position & 0x1fff) * 8,
        has_more: position & 0x2000 != 0,
        data: packet[header_len..].to_vec(),
    }
}

/// Reassembles fragments in any order. Returns the offset of the first byte, the data, and whether
/// more fragments follow.
fn reassemble(packets: &[Vec<u8>]) -> (usize, Vec<u8>, bool) {
    let mut pieces: Vec<_> = packets.iter().map(|packet| read(packet)).collect();
    pieces.sort_by_key(|piece| piece.offset);
    let start = pieces[0].offset;
    let mut data = Vec::new();
    let last = pieces.len() - 1;
    for (at, piece) in pieces.iter().enumerate() {
        assert_eq!(piece.offset, start + data.len(), "no gap and no overlap");
        assert!(at == last || piece.has_more);
        assert!(at == last || piece.data.len() % 8 == 0);
        data.extend(&piece.data);
    }
    (start, data, pieces[last].has_more)
}

#[test]
fn a_packet_of_1460_bytes_becomes_1396_and_the_rest_at_an_mtu_of_1400() {
    let frame = udp("10.1.0.2", "10.3.0.2", 1474);
    let mut engine = engine_with_mtu(1400);
    let packets = fragments_of(&mut engine, &frame);
    let lengths: Vec<_> = packets.iter().map(Vec::len).collect();
    assert_eq!(lengths, [20 + 1376, 20 + 64]);
    for packet in &packets {
        assert_eq!(packet[4..6], [0, 77], "the same identification");
        assert_eq!((packet[8], packet[9]), (63, 17), "TTL and protocol");
        assert_eq!(packet[12..20], frame[26..34]);
    }
    assert_eq!(reassemble(&packets), (0, frame[34..].to_vec(), false));
    let counters = engine.counters();
    assert_eq!((counters.fragmented, counters.fragments, counters.forwarded), (1, 2, 1));
    assert_eq!(counters.ports[1].tx_packets, 2);
}

#[test]
fn a_fragment_is_fragmented_again_with_its_offset_and_more_fragments_bit() {
    for has_more in [false, true] {
        let mut frame = udp("10.1.0.2", "10.3.0.2", 1434);
        let position = 100 | u16::from(has_more) << 13;
        patch_v4(&mut frame, 6, &position.to_be_bytes());
        let packets = fragments_of(&mut engine_with_mtu(600), &frame);
        assert_eq!(packets.len(), 3);
        assert_eq!(reassemble(&packets), (800, frame[34..].to_vec(), has_more));
    }
}

#[test]
fn an_mtu_without_space_for_eight_bytes_of_data_drops_the_packet() {
    let mut frame = udp("10.1.0.2", "10.3.0.2", 60);
    let before = frame.clone();
    let verdict = process(&mut engine_with_mtu(27), &mut frame);
    assert_eq!((verdict, frame), (RouteVerdict::Drop(Cause::MtuTooSmall), before));
    let packets = fragments_of(&mut engine_with_mtu(28), &udp("10.1.0.2", "10.3.0.2", 64));
    assert!(packets[..3].iter().all(|packet| packet.len() == 28));
}

#[test]
fn fragments_that_the_queue_cannot_hold_are_dropped_together() {
    let mut engine = engine_with_mtu(28);
    let frame = udp("10.1.0.2", "10.3.0.2", 1474);
    let verdicts = [(); 6].map(|()| process(&mut engine, &mut frame.clone()));
    assert_eq!(verdicts[4], RouteVerdict::Fragmented);
    assert_eq!(verdicts[5], RouteVerdict::Drop(Cause::OutputQueueFull));
    let made = core::iter::from_fn(|| engine.pop()).count();
    assert_eq!(made, 5 * 180, "1440 bytes of data by 8 each");
}

/// An option that is copied to all fragments (router alert), an option that is not (record route),
/// another option that is copied, and padding.
const OPTIONS: [u8; 16] = [148, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0, 134, 3, 9, 1, 0];

#[test]
fn the_first_fragment_has_all_options_and_later_ones_the_copied_ones() {
    // Packets with options go to the kernel, so only the splitting itself is tested.
    let frame = with_options(udp("10.1.0.2", "10.3.0.2", 300), &OPTIONS);
    let packet = &frame[14..];
    let fragments = crate::egress::split(packet, 100);
    let pieces: Vec<_> = fragments.iter().map(|fragment| read(fragment)).collect();
    assert_eq!(pieces[0].options, OPTIONS);
    for piece in &pieces[1..] {
        assert_eq!(piece.options, [148, 4, 0, 0, 134, 3, 9, 0]);
    }
    assert_eq!(reassemble(&fragments), (0, packet[36..].to_vec(), false));
    assert!(fragments.iter().all(|fragment| fragment.len() <= 100));
}

proptest! {
    #[test]
    fn fragments_reassemble_to_the_packet(len in 43usize..1515, mtu in 28u32..1500, offset in 0u16..4000, has_more: bool) {
        let mut frame = udp("10.1.0.2", "10.3.0.2", len);
        let position = offset | u16::from(has_more) << 13;
        patch_v4(&mut frame, 6, &position.to_be_bytes());
        prop_assume!(frame.len() - 14 > mtu as usize);
        let packets = fragments_of(&mut engine_with_mtu(mtu), &frame);
        prop_assert!(packets.iter().all(|packet| packet.len() <= mtu as usize));
        // There must be as few fragments as possible. So each except the last has as many bytes of
        // data, in units of 8 bytes, as the MTU permits.
        let most = (mtu as usize - 20) / 8 * 8;
        for packet in &packets[..packets.len() - 1] {
            prop_assert_eq!(packet.len(), 20 + most);
        }
        prop_assert_eq!(reassemble(&packets), (usize::from(offset) * 8, frame[34..].to_vec(), has_more));
    }
}
