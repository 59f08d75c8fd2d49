//! Tests packets that are cut at random positions, and limits on waiting fragments.

use alloc::vec;

use proptest::prelude::*;

use super::*;

/// A fragment of a packet: `len` bytes of payload from `offset` on.
fn fragment(id: u16, payload: &[u8], offset: usize, len: usize, more: bool) -> Vec<u8> {
    let mut frame = vec![0; 34];
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    frame[16..18].copy_from_slice(&(20 + len as u16).to_be_bytes());
    frame[18..20].copy_from_slice(&id.to_be_bytes());
    let off = (offset / 8) as u16 | if more { 0x2000 } else { 0 };
    frame[20..22].copy_from_slice(&off.to_be_bytes());
    (frame[22], frame[23], frame[29], frame[33]) = (64, 47, 1, 2);
    frame.extend_from_slice(&payload[offset..offset + len]);
    frame
}

fn offer(reassembly: &mut Reassembly, frame: &[u8], now: u64) -> Option<ReassembledPacket> {
    reassembly.offer(frame, &PacketHeaders::parse(frame).unwrap(), now)
}

/// The frame with VLAN tags inserted, outermost first.
fn tagged(frame: &[u8], tags: &[u16]) -> Vec<u8> {
    let tags = tags.iter().flat_map(|tag| [0x81, 0, (tag >> 8) as u8, *tag as u8]);
    frame[..12].iter().copied().chain(tags).chain(frame[12..].iter().copied()).collect()
}

/// Returns the pieces of a packet of `len` bytes, as offset and length. Offsets are multiples of 8.
fn pieces(len: usize, cuts: &[usize]) -> Vec<(usize, usize)> {
    let mut at: Vec<_> = cuts.iter().map(|cut| cut % len / 8 * 8).chain([0, len]).collect();
    at.sort_unstable();
    at.dedup();
    at.windows(2).map(|pair| (pair[0], pair[1] - pair[0])).collect()
}

proptest! {
    #[test]
    fn a_packet_is_whole_when_all_its_pieces_have_come_in_any_order(
        payload in prop::collection::vec(any::<u8>(), 1..1500),
        cuts in prop::collection::vec(any::<usize>(), 1..20),
        order in prop::collection::vec((any::<usize>(), any::<bool>()), 40),
    ) {
        let mut left: Vec<_> = pieces(payload.len(), &cuts)
            .into_iter()
            .map(|(at, len)| fragment(9, &payload, at, len, at + len < payload.len()))
            .collect();
        let (count, mut reassembly) = (left.len(), Reassembly::default());
        let (mut came, mut repeated) = (Vec::new(), 0);
        for (pick, again) in order {
            let frame = left.swap_remove(pick % left.len());
            let whole = offer(&mut reassembly, &frame, 5);
            if left.is_empty() {
                let whole = whole.unwrap();
                prop_assert_eq!(&whole.earlier, &came);
                prop_assert_eq!(&whole.frame[34..], &payload);
                let packet = PacketHeaders::parse(&whole.frame).unwrap();
                prop_assert_eq!(packet.ip_len as usize, 20 + payload.len());
                prop_assert_eq!((packet.ip_off, packet.ip_id), (0, 9));
                prop_assert_eq!(slipring_wire::checksum::of(&whole.frame[14..34]), 0);
                break;
            }
            prop_assert_eq!(whole, None);
            came.push(frame);
            if again {
                prop_assert_eq!(offer(&mut reassembly, &came[pick % came.len()], 5), None);
                repeated += 1;
            }
            prop_assert_eq!(reassembly.held(), came.len());
        }
        let expected = FragmentCounters {
            fragments: count as u64 + repeated,
            whole: 1,
            released: count as u64,
            repeated,
            ..FragmentCounters::default()
        };
        prop_assert_eq!(reassembly.counters(), &expected);
        prop_assert!(reassembly.waiting.is_empty() && reassembly.expiry_queue.is_empty());
    }
}

proptest! {
    #[test]
    fn random_fragments_with_random_tags_join_only_within_their_vlan(
        payload in prop::collection::vec(any::<u8>(), 64..65),
        frames in prop::collection::vec(
            (0..8_usize, 1..4_usize, any::<bool>(), 5..16_u8, 0..4_usize, any::<u16>()),
            1..200,
        ),
    ) {
        let vlans: [&[u16]; 4] = [&[], &[0xf01], &[7], &[0xf01, 7]];
        let mut reassembly = Reassembly::default();
        for (at, len, more, words, vlan, priority) in frames {
            let (at, len) = (at * 8, (len * 8).min(64 - at * 8));
            let mut frame = fragment(9, &payload, at, len, more && at + len < 64);
            // IP options, so that headers have different lengths.
            let options = usize::from(words - 5) * 4;
            frame.splice(34..34, vec![1; options]);
            frame[14] = 0x40 | words;
            frame[16..18].copy_from_slice(&((20 + options + len) as u16).to_be_bytes());
            let tags: Vec<u16> =
                vlans[vlan].iter().map(|vid| vid | priority & 0xe000).collect();
            let Some(whole) = offer(&mut reassembly, &tagged(&frame, &tags), 5) else { continue };
            let packet = PacketHeaders::parse(&whole.frame).unwrap();
            let vids: Vec<u16> = packet.tags.iter().flatten().map(|tag| tag.vid()).collect();
            prop_assert_eq!(&vids, vlans[vlan]);
            prop_assert_eq!(packet.ip_off, 0);
            prop_assert_eq!(packet.ip_len as usize, whole.frame.len() - packet.l3);
            let joined = &whole.frame[packet.l4..];
            prop_assert_eq!(joined, &payload[..joined.len()]);
            let header = &whole.frame[packet.l3..packet.l4];
            prop_assert_eq!(slipring_wire::checksum::of(header), 0);
            for earlier in &whole.earlier {
                prop_assert_eq!(PacketHeaders::parse(earlier).unwrap().tags.map(|tag| tag.map(VlanTag::vid)),
                    packet.tags.map(|tag| tag.map(VlanTag::vid)));
            }
        }
    }
}

#[test]
fn fragments_of_different_vlans_are_of_different_packets() {
    let mut reassembly = Reassembly::default();
    let payload = [5; 16];
    let first = tagged(&fragment(1, &payload, 0, 8, true), &[0xf01]);
    let last = fragment(1, &payload, 8, 8, false);
    assert_eq!(offer(&mut reassembly, &first, 0), None);
    assert_eq!(offer(&mut reassembly, &last, 0), None, "it has no tag");
    assert_eq!(offer(&mut reassembly, &tagged(&last, &[0xf02]), 0), None);
    assert_eq!(reassembly.held(), 3);
    // Fragments of one packet may have different priorities.
    let whole = offer(&mut reassembly, &tagged(&last, &[0x2f01]), 0).unwrap();
    let packet = PacketHeaders::parse(&whole.frame).unwrap();
    assert_eq!((packet.l3, packet.ip_len, packet.ip_off), (18, 36, 0));
    assert_eq!((&whole.frame[38..], &whole.earlier), (&payload[..], &vec![first]));
}

#[test]
fn a_packet_whose_header_with_options_makes_it_too_long_is_lost() {
    let payload = [7; 65_536];
    // The header of the first fragment has 40 bytes of options.
    let mut first = fragment(1, &payload, 0, 65_472, true);
    first.splice(34..34, [1; 40]);
    first[14] = 0x4f;
    first[16..18].copy_from_slice(&65_532_u16.to_be_bytes());
    for (len, lost) in [(3, 0), (4, 2)] {
        let last = fragment(1, &payload, 65_472, len, false);
        for frames in [[&first, &last], [&last, &first]] {
            let mut reassembly = Reassembly::default();
            let joined = frames.map(|frame| offer(&mut reassembly, frame, 0).is_some());
            assert_eq!(joined, [false, lost == 0]);
            assert_eq!(reassembly.counters().overlapping, lost);
        }
    }
}

/// Offers these fragments of one packet, each given as offset, length and whether more fragments
/// follow. Returns the number of fragments that wait afterwards, and the number that were dropped
/// as overlapping.
fn lost(fragments: &[(usize, usize, bool)]) -> (usize, u64) {
    let payload: Vec<u8> = (0..70_000_u32).map(|at| at as u8).collect();
    let mut reassembly = Reassembly::default();
    for &(at, len, more) in fragments {
        assert_eq!(offer(&mut reassembly, &fragment(1, &payload, at, len, more), 0), None);
    }
    (reassembly.held(), reassembly.counters().overlapping)
}

#[test]
fn fragments_that_contradict_each_other_lose_their_packet() {
    for fragments in [
        // The second fragment overlaps the first at its end, at its start, inside, or around it.
        &[(0, 16, true), (8, 16, true)][..],
        &[(8, 16, true), (0, 16, true)],
        &[(0, 32, true), (8, 8, true)],
        &[(8, 8, true), (0, 32, true)],
        &[(16, 8, true), (16, 16, true)],
        // A fragment beyond the end of the packet, or a second, different end.
        &[(16, 8, false), (24, 8, true)],
        &[(16, 8, false), (32, 8, true)],
        &[(16, 8, false), (24, 8, false)],
        &[(16, 8, true), (8, 8, false)],
        &[(24, 8, true), (8, 8, false)],
        // The same bytes arrive both as the last fragment and as one that others follow.
        &[(16, 8, true), (16, 8, false)],
        &[(16, 8, false), (16, 8, true)],
    ] {
        assert_eq!(lost(fragments), (0, 2), "{fragments:?}");
    }
    // Adjacent fragments do not overlap.
    assert_eq!(lost(&[(8, 8, true), (16, 8, true)]), (2, 0));
    assert_eq!(lost(&[(16, 8, false), (8, 8, true)]), (2, 0));
}

#[test]
fn fragments_that_cannot_be_part_of_a_packet_are_lost() {
    assert_eq!(lost(&[(0, 12, true)]), (0, 1), "only the last may have any length");
    assert_eq!(lost(&[(8, 0, false)]), (0, 1), "nothing");
    // A packet has at most 65,535 bytes, including the header.
    assert_eq!(lost(&[(65_512, 3, false)]), (1, 0));
    assert_eq!(lost(&[(65_512, 4, false)]), (0, 1));
    // The frame has fewer bytes than its IP header says.
    let mut reassembly = Reassembly::default();
    let frame = fragment(1, &[7; 64], 8, 16, true);
    assert_eq!(offer(&mut reassembly, &frame[..frame.len() - 8], 0), None);
    assert_eq!((reassembly.held(), reassembly.counters().overlapping), (0, 1));
}

#[test]
fn a_packet_has_at_most_64_fragments() {
    let most: Vec<_> = (0..64).map(|at| (8 + at * 16, 8, true)).collect();
    assert_eq!(lost(&most), (64, 0));
    let more: Vec<_> = (0..65).map(|at| (8 + at * 16, 8, true)).collect();
    assert_eq!(lost(&more), (0, 65));
}

#[test]
fn fragments_wait_thirty_seconds_from_the_first_of_their_packet() {
    let mut reassembly = Reassembly::default();
    offer(&mut reassembly, &fragment(1, &[0; 64], 0, 8, true), 5);
    offer(&mut reassembly, &fragment(1, &[0; 64], 16, 8, true), WAIT_NS);
    offer(&mut reassembly, &fragment(2, &[0; 64], 0, 8, true), WAIT_NS);
    reassembly.forget_late(WAIT_NS + 4);
    assert_eq!(reassembly.held(), 3);
    reassembly.forget_late(WAIT_NS + 5);
    assert_eq!((reassembly.held(), reassembly.counters().late), (1, 2));
    // Offering a fragment also discards packets that have waited too long.
    offer(&mut reassembly, &fragment(3, &[0; 64], 0, 8, true), 3 * WAIT_NS);
    assert_eq!((reassembly.held(), reassembly.counters().late), (1, 3));
}

#[test]
fn counters_of_two_engines_add_up() {
    let mut sum = FragmentCounters {
        fragments: 1,
        whole: 2,
        released: 3,
        late: 4,
        overlapping: 5,
        crowded: 6,
        repeated: 7,
    };
    let other = FragmentCounters { fragments: 10, whole: 20, released: 30, ..sum };
    sum.add(&other);
    let expected = FragmentCounters {
        fragments: 11,
        whole: 22,
        released: 33,
        late: 8,
        overlapping: 10,
        crowded: 12,
        repeated: 14,
    };
    assert_eq!(sum, expected);
}
