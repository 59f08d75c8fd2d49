//! Tests of frames that are held back, damaged or copied.

use slipring_link::{
    BitErrorSpec, CorruptSpec, DelaySpec, DuplicateSpec, HoldSpec, LinkDropCause, LinkSpec,
    MangleEdit, MangleSpec, RateSpec,
};
use slipring_model::Chance;
use slipring_wire::{FrameSpec, Headers, checksum};

use crate::support::Sim;

fn chance(yes: u64, of: u64) -> Chance {
    Chance::from_ratio(yes, of).unwrap()
}

fn udp() -> Vec<u8> {
    FrameSpec::default().build(200).unwrap().bytes
}

/// Returns whether the checksum of the IPv4 header and the UDP checksum are correct.
fn checks(frame: &[u8]) -> (bool, bool) {
    let header = checksum::of(&frame[14..34]) == 0;
    let headers = Headers::parse(frame).unwrap();
    let ip = headers.ip.unwrap();
    let address = |at: usize| <[u8; 4]>::try_from(&frame[at..at + 4]).unwrap().into();
    let sum = checksum::Sum::pseudo_v4(address(26), address(30), ip.proto, ip.l4_len());
    (header, sum.bytes(ip.l4_bytes(frame).unwrap()).checksum() == 0)
}

fn mangled(mangle: MangleSpec, frame: &[u8], count: u64) -> Sim {
    let mut sim = Sim::link(LinkSpec { mangle: Some(mangle), ..LinkSpec::wire("up") });
    (0..count).for_each(|number| _ = sim.push_frame(number, frame));
    sim.finish();
    sim
}

#[test]
fn bursts_of_bit_errors_stay_within_their_range_and_have_their_length() {
    let with = |yes, bits, from_byte, until_byte| {
        let chance = Chance::from_ratio(yes, 2).unwrap();
        let errors = BitErrorSpec::Burst { chance, bits };
        let corrupt = CorruptSpec { errors, from_byte, until_byte, fix_checksum: false };
        let mut sim = Sim::link(LinkSpec { corrupt: Some(corrupt), ..LinkSpec::wire("up") });
        (0..400).for_each(|number| _ = sim.push_frame(number, &[0; 60]));
        sim.finish();
        sim.memory.bytes
    };
    let wrong = |bytes: &[u8]| bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
    assert!(with(0, 8, 0, None).iter().all(|bytes| wrong(bytes) == 0), "never");
    let hit = with(1, 8, 0, None).iter().filter(|bytes| wrong(bytes) > 0).count();
    assert!((150..250).contains(&hit), "{hit} of 400");
    for bytes in with(2, 5, 10, Some(12)) {
        assert_eq!((wrong(&bytes), wrong(&bytes[10..12])), (5, 5));
        let run = u32::from(u16::from_be_bytes([bytes[10], bytes[11]]));
        assert_eq!(run >> run.trailing_zeros(), 0b11111, "neighbours");
    }
    // The first and the last bit of the range are hit in some frames.
    let places = with(2, 5, 10, Some(12));
    assert!(places.iter().any(|bytes| bytes[10] & 0x80 != 0));
    assert!(places.iter().any(|bytes| bytes[11] & 1 != 0));
    // A run of bits that is longer than its range, and a range after the end of the frame.
    for bytes in with(2, 100, 10, Some(12)) {
        assert_eq!((wrong(&bytes), &bytes[10..12]), (16, &[0xff, 0xff][..]));
    }
    assert!(with(2, 8, 60, None).iter().all(|bytes| wrong(bytes) == 0), "behind the end");
}

#[test]
fn bytes_are_written_over_where_and_as_often_as_asked_and_checksums_follow() {
    let frame = udp();
    // Offset 30 is the destination address, and 36 is the destination port. Checksums cover both.
    for (at, fix_checksum) in [(30, true), (30, false), (36, true)] {
        let edit = MangleEdit::Set(vec![10, 9]);
        let mangle = MangleSpec { chance: Chance::ALWAYS, at, edit, fix_checksum };
        let sim = mangled(mangle, &frame, 1);
        let bytes = &sim.memory.bytes[0];
        assert_eq!(bytes[at as usize..at as usize + 2], [10, 9]);
        let (header, payload) = checks(bytes);
        assert_eq!((header, payload), (fix_checksum, fix_checksum), "{at}");
        assert_eq!(sim.counters().mangled.packets, 1);
    }
    let edit = MangleEdit::Invert(vec![0xff, 0, 1]);
    let tenth = MangleSpec { chance: chance(1, 10), at: 50, edit, fix_checksum: false };
    let sim = mangled(tenth, &[0; 60], 10_000);
    let hit = sim.memory.bytes.iter().filter(|bytes| bytes[50..53] == [0xff, 0, 1]).count();
    let left = sim.memory.bytes.iter().filter(|bytes| **bytes == [0; 60]).count();
    assert!(hit.abs_diff(1000) < 100 && hit + left == 10_000, "{hit} {left}");
    assert_eq!(sim.counters().mangled.packets, hit as u64);
}

#[test]
fn bytes_behind_the_end_of_a_frame_are_not_written() {
    let random = |at| {
        let (chance, edit) = (Chance::ALWAYS, MangleEdit::Random(20));
        MangleSpec { chance, at, edit, fix_checksum: true }
    };
    let sim = mangled(random(50), &[0; 60], 2);
    let [one, other] = &sim.memory.bytes[..] else { panic!("two frames") };
    assert!(one.len() == 60 && one[..50] == [0; 50] && one[50..] != [0; 10]);
    assert_ne!(one, other, "each has its own");
    let sim = mangled(random(60), &[0; 60], 1);
    assert_eq!(sim.memory.bytes[0], [0; 60]);
    assert_eq!(sim.counters().mangled.packets, 0);
}

#[test]
fn held_frames_come_exactly_as_much_later_and_others_overtake_them() {
    let hold = HoldSpec { chance: chance(1, 10), hold_ns: 5_000_000 };
    let delay = DelaySpec::constant(1_000_000);
    let mut sim = Sim::link(LinkSpec { hold: Some(hold), delay, ..LinkSpec::wire("up") });
    let count: u64 = 50_000;
    (0..count).for_each(|k| _ = sim.push(k * 1_000_000, 60));
    sim.finish();
    let delays = sim
        .memory
        .delivered
        .iter()
        .map(|delivery| delivery.release_ns - u64::from(delivery.handle.0) * 1_000_000);
    let held = delays.clone().filter(|&delay| delay == 6_000_000).count();
    assert!(delays.clone().all(|delay| delay == 1_000_000 || delay == 6_000_000));
    assert!(held.abs_diff(5_000) < 222, "{held}");
    assert_eq!(sim.counters().held.packets, held as u64);
    // RFC 4737: a packet is reordered if a packet with a greater number came before it. So a held
    // packet is reordered if one of the five packets after it was not held (at equal times, the
    // fifth goes first).
    let mut next = 0;
    let mut reordered = 0;
    for handle in sim.memory.handles() {
        if handle < next {
            reordered += 1;
        } else {
            next = handle + 1;
        }
    }
    assert!(reordered <= held && reordered as f64 > held as f64 * 0.99, "{reordered} {held}");
}

#[test]
fn holding_comes_before_the_queue() {
    let hold = HoldSpec { chance: Chance::ALWAYS, hold_ns: 500 };
    let rate = RateSpec::Constant { bps: 8_000_000_000 };
    let mut sim = Sim::link(LinkSpec { hold: Some(hold), rate, ..LinkSpec::wire("up") });
    (0..2).for_each(|_| _ = sim.push(0, 100));
    sim.finish();
    assert_eq!(sim.memory.releases(), [600, 700]);
}

#[test]
fn bit_errors_are_delivered_as_often_as_asked() {
    let mut sim =
        Sim::link(LinkSpec { corrupt: Some(CorruptSpec::ber(1e-3)), ..LinkSpec::wire("up") });
    let frame = udp();
    (0..2_000).for_each(|k| _ = sim.push_frame(k, &frame));
    sim.finish();
    let wrong = |bytes: &Vec<u8>| {
        let pairs = bytes.iter().zip(&frame);
        pairs.map(|(a, b)| u64::from((a ^ b).count_ones())).sum::<u64>()
    };
    let wrong: u64 = sim.memory.bytes.iter().map(wrong).sum();
    // 3.2 million bits: 3200 errors are expected, with a tolerance of 3.3 standard deviations of
    // 56.6.
    assert!(wrong.abs_diff(3200) < 187, "{wrong}");
    assert_eq!(sim.memory.delivered.len(), 2_000);
}

#[test]
fn damage_breaks_checksums_unless_they_are_to_be_fixed() {
    let damaged = |fix_checksum| {
        let spec = CorruptSpec { from_byte: 42, fix_checksum, ..CorruptSpec::ber(1e-2) };
        let mut sim = Sim::link(LinkSpec { corrupt: Some(spec), ..LinkSpec::wire("up") });
        (0..500).for_each(|k| _ = sim.push_frame(k, &udp()));
        sim.finish();
        let changed = sim.memory.bytes.iter().filter(|bytes| **bytes != udp()).count();
        let right = sim.memory.bytes.iter().filter(|bytes| checks(bytes) == (true, true)).count();
        assert_eq!(sim.counters().corrupted.packets as usize, changed);
        (changed, right)
    };
    let (changed, right) = damaged(false);
    assert!(changed > 490 && right < 20, "{changed} {right}");
    assert_eq!(damaged(true).1, 500);
}

#[test]
fn fixed_checksums_cover_damaged_addresses_and_checksums() {
    let spec = CorruptSpec {
        errors: BitErrorSpec::Burst { chance: Chance::ALWAYS, bits: 3 },
        // The range covers the checksum of the IPv4 header, both addresses, and the UDP header with
        // its checksum.
        from_byte: 24,
        until_byte: Some(42),
        fix_checksum: true,
    };
    let mut sim = Sim::link(LinkSpec { corrupt: Some(spec), ..LinkSpec::wire("up") });
    (0..500).for_each(|k| _ = sim.push_frame(k, &udp()));
    sim.finish();
    assert!(sim.memory.bytes.iter().all(|bytes| checks(bytes) == (true, true)));
    // A checksum is different because it was fixed for the damage.
    for sum in [24..26, 40..42] {
        assert!(sim.memory.bytes.iter().any(|bytes| bytes[sum.clone()] != udp()[sum.clone()]));
    }
    // A burst in the UDP checksum alone has no effect.
    let same = sim.memory.bytes.iter().filter(|bytes| **bytes == udp()).count();
    assert!(same > 0);
}

#[test]
fn a_burst_inverts_neighbouring_bits_inside_its_range() {
    let spec = CorruptSpec {
        errors: BitErrorSpec::Burst { chance: Chance::ALWAYS, bits: 12 },
        from_byte: 50,
        until_byte: Some(60),
        fix_checksum: false,
    };
    let mut sim = Sim::link(LinkSpec { corrupt: Some(spec), ..LinkSpec::wire("up") });
    (0..200).for_each(|k| _ = sim.push_frame(k, &[0; 100]));
    sim.finish();
    for bytes in &sim.memory.bytes {
        let bits: Vec<usize> =
            (0..800).filter(|bit| bytes[bit / 8] & (0x80 >> (bit % 8)) != 0).collect();
        assert_eq!(bits.len(), 12);
        assert_eq!(bits[11] - bits[0], 11);
        assert!(bits[0] >= 400 && bits[11] < 480);
    }
}

#[test]
fn copies_follow_their_frame() {
    let duplicate = DuplicateSpec { chance: Chance::ALWAYS, copies: 2, after_ns: 0 };
    let mut sim = Sim::link(LinkSpec { duplicate: Some(duplicate), ..LinkSpec::wire("up") });
    sim.push_frame(5, b"first frame of many");
    sim.finish();
    assert_eq!(sim.memory.releases(), [5, 5, 5]);
    assert!(sim.memory.bytes.iter().all(|bytes| bytes == b"first frame of many"));
    assert_eq!(sim.counters().copies.packets, 2);
}

#[test]
fn late_copies_let_other_frames_by() {
    let duplicate = DuplicateSpec { chance: Chance::ALWAYS, copies: 1, after_ns: 1000 };
    let delay = DelaySpec::constant(50);
    let mut sim = Sim::link(LinkSpec { duplicate: Some(duplicate), delay, ..LinkSpec::wire("up") });
    sim.push(0, 60);
    sim.push(400, 60);
    sim.finish();
    assert_eq!(sim.memory.releases(), [50, 450, 1050, 1450]);
}

#[test]
fn copies_are_as_many_as_asked() {
    let duplicate = DuplicateSpec { chance: chance(1, 10), copies: 3, after_ns: 0 };
    let mut sim = Sim::link(LinkSpec { duplicate: Some(duplicate), ..LinkSpec::wire("up") });
    (0..50_000).for_each(|k| _ = sim.push(k, 60));
    sim.finish();
    let copies = sim.counters().copies.packets;
    assert!(copies.abs_diff(15_000) < 3 * 222, "{copies}");
}

#[test]
fn copies_without_storage_are_counted() {
    let duplicate = DuplicateSpec { chance: Chance::ALWAYS, copies: 3, after_ns: 0 };
    let mut sim = Sim::link(LinkSpec { duplicate: Some(duplicate), ..LinkSpec::wire("up") });
    sim.memory.room = Some(1);
    sim.push(0, 60);
    sim.finish();
    let counters = sim.counters();
    assert_eq!(counters.copies.packets, 3);
    assert_eq!(counters.drops[LinkDropCause::Buffer].packets, 2);
    assert_eq!(counters.output.packets, 2);
    assert!(counters.is_balanced());
}
